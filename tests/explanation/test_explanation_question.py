"""One list of options of `explain`: `Question`. The verb, the command line and the API spell no other."""

import inspect
from dataclasses import MISSING, fields

import pytest
import tiny

from neurogame.cli.explain import explain as command
from neurogame.explanation import Question, explain
from neurogame.nli import NLI
from neurogame.serving import schema

OPTIONS = {f.name: f.default for f in fields(Question)}
CHANGES = {"removed", "temperature_factor"}  # of the pair or the model, for /explain alone
SPANS = {"spans"}  # lists of places, for Python alone


def test_every_option_has_a_default():
    assert MISSING not in OPTIONS.values()


def test_the_verb_takes_the_options_with_their_defaults():
    parameters = inspect.signature(NLI.explain).parameters.values()
    given = {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY and p.name != "show_progress"}
    assert given == {name: value for name, value in OPTIONS.items() if name not in CHANGES}


def test_the_command_takes_the_options_with_their_defaults():
    parameters = inspect.signature(command).parameters
    for name, value in OPTIONS.items():
        if name not in CHANGES | SPANS:
            assert parameters[name].default == value


def test_the_api_takes_no_other_options():
    asked = schema.Question(premise="a", hypothesis="b").model_dump(exclude={"premise", "hypothesis"})
    assert asked.keys() == OPTIONS.keys() - {"error"} - SPANS
    assert Question(**asked) == Question(removed=[])


def test_a_question_and_its_fields_ask_the_same():
    nli = NLI(tiny.model(), tiny.tokenizer())
    question = Question("neutral", method="occlusion", removed=[1])
    answers = [
        explain(nli, *tiny.PAIRS[1], question),
        explain(nli, *tiny.PAIRS[1], target="neutral", method="occlusion", removed=[1]),
        explain(nli, *tiny.PAIRS[1], Question(method="occlusion", removed=[1]), target="neutral"),
    ]
    assert len({ex.scores for ex in answers}) == 1
    assert answers[0].target == "neutral"
    assert answers[0].diagnostics["encoder_passes"] == len(answers[0].words) + 1  # the pair once, and without each word


@pytest.mark.parametrize(
    ("field", "value", "kind", "message"),
    [
        ("level", "letter", ValueError, "level"),
        ("samples", 1, ValueError, "samples"),
        ("samples", 2.5, TypeError, "samples"),
        ("seed", -1, ValueError, "seed"),
        ("seed", 2**32, ValueError, "at most 4294967295"),
        ("check", 1, TypeError, "check must be True or False"),
        ("error", 0, ValueError, "error must be a number > 0"),
        ("error", True, ValueError, "error must be a number > 0"),
        ("temperature_factor", float("inf"), ValueError, "temperature_factor must be a number > 0"),
    ],
)
def test_what_no_model_would_take_is_refused_at_once(field, value, kind, message):
    with pytest.raises(kind, match=message):
        Question(**{field: value})
