"""The order of labels is nobody's business: named probabilities, scores and training targets never depend on it."""

import json
from itertools import permutations

import numpy as np
import pytest
import tiny
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kinds import system

import neurogame
from neurogame import evaluation
from neurogame.data import DataError, Pair, PairDataset, encode, read
from neurogame.labels import LABELS, NON_ENTAILMENT
from neurogame.nli import NLI, ModelError

ORDERS = list(permutations(range(3)))
KINDS = ["neurogame", "game", "game, gate", "dam", "a bert"]
SPELLINGS = {
    "entailment": ["entailment", "ENTAILMENT", "e", "entails"],
    "neutral": ["neutral", "Neutral", "n"],
    "contradiction": ["contradiction", "CONTRADICTION", "c", "contradictory"],
}
quietly = settings(
    max_examples=6, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def last_layer(model):
    """The linear layer whose rows are the labels."""
    found = [module for module in model.modules() if isinstance(module, torch.nn.Linear) and module.out_features == 3]
    return found[-1]


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Each kind saved with its labels in every order, rows of the last layer permuted alike; read only."""
    place = tmp_path_factory.mktemp("orders")
    for kind in KINDS:
        for k, order in enumerate(ORDERS):
            made = system(kind)
            layer, names = last_layer(made.model), [LABELS[i] for i in order]
            with torch.no_grad():
                layer.weight.copy_(layer.weight[list(order)].clone())
                layer.bias.copy_(layer.bias[list(order)].clone())
            made.model.config.id2label = dict(enumerate(names))
            made.model.config.label2id = {name: i for i, name in enumerate(names)}
            NLI(made.model, made.tokenizer).save_pretrained(place / kind / str(k))
    return place


# --- a model ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_named_answers_do_not_depend_on_the_order_of_the_labels(saved, kind):
    first = neurogame.load(saved / kind / "0")
    wanted = first.predict(tiny.PAIRS)
    assert len({round(z, 4) for z in wanted[0].logits.values()}) == 3  # or the test shows little
    for k, order in enumerate(ORDERS):
        found = neurogame.load(saved / kind / str(k))
        assert found.labels == tuple(LABELS[i] for i in order)
        for said, before in zip(found.predict(tiny.PAIRS), wanted, strict=True):
            assert said.label == before.label
            assert said.logits == pytest.approx(before.logits, abs=1e-6)
            assert said.probabilities == pytest.approx(before.probabilities, abs=1e-6)


@pytest.mark.parametrize("kind", ["neurogame", "game"])
@pytest.mark.parametrize("method", ["decision", "occlusion"])
def test_nor_does_the_explanation_of_a_label(saved, method, kind):
    wanted = {
        label: neurogame.load(saved / kind / "0").explain(*tiny.PAIRS[1], method=method, target=label).scores
        for label in LABELS
    }
    for k in range(1, len(ORDERS)):
        nli = neurogame.load(saved / kind / str(k))
        for label in LABELS:
            found = nli.explain(*tiny.PAIRS[1], method=method, target=label)
            assert found.scores == pytest.approx(wanted[label], abs=1e-5)


@pytest.mark.parametrize("kind", KINDS)
@quietly
@given(data=st.data())
def test_names_that_are_given_are_those_of_the_logits(saved, kind, data):
    """`label_names` in any order and spelling, whatever the configuration says."""
    names = data.draw(st.permutations(LABELS))
    spelled = [data.draw(st.sampled_from(SPELLINGS[name])) for name in names]
    k = data.draw(st.integers(0, 5))
    raw = neurogame.load(saved / kind / str(k)).logits(tiny.PAIRS)
    found = neurogame.load(saved / kind / str(k), label_names=spelled)
    for row, said in zip(raw.tolist(), found.predict(tiny.PAIRS), strict=True):
        assert said.logits == pytest.approx(dict(zip(names, row, strict=True)), abs=1e-6)


def rewritten(folder, **changes):
    path = folder / "config.json"
    found = json.loads(path.read_text()) | changes
    path.write_text(json.dumps({key: value for key, value in found.items() if value is not None}))


@pytest.fixture
def bert(tmp_path):
    system("a bert").save_pretrained(tmp_path / "bert")
    return tmp_path / "bert"


@pytest.mark.parametrize("kind", KINDS)
def test_two_maps_that_contradict_each_other_are_not_guessed_between(tmp_path, kind):
    system(kind).save_pretrained(tmp_path / "model")
    rewritten(tmp_path / "model", label2id={"entailment": 1, "neutral": 0, "contradiction": 2})
    with pytest.raises(ModelError, match="'entailment' is logit 0, label2id that it is 1"):
        neurogame.load(tmp_path / "model")


def test_names_of_the_logits_that_are_given_decide(bert):
    rewritten(bert, label2id={"entailment": 1, "neutral": 0, "contradiction": 2})
    found = neurogame.load(bert, label_names=["c", "n", "e"])
    assert found.labels == LABELS[::-1]
    assert found.model.config.label2id == {"contradiction": 0, "neutral": 1, "entailment": 2}


@pytest.mark.parametrize(
    "label2id", [None, {}, {"LABEL_0": 0, "LABEL_1": 1, "LABEL_2": 2}, {"ENTAILMENT": 0, "c": 2}, {"Neutral": "1"}]
)
def test_a_map_that_says_less_or_spells_otherwise_is_no_contradiction(bert, label2id):
    rewritten(bert, label2id=label2id)
    assert neurogame.load(bert).labels == LABELS


@pytest.mark.parametrize(
    ("id2label", "message"),
    [
        ({"1": "entailment", "2": "neutral", "3": "contradiction"}, "0 to 2, got .1, 2, 3."),
        ({"0": "entailment", "1": "neutral", "5": "contradiction"}, "0 to 2, got .0, 1, 5."),
        ({"-1": "entailment", "0": "neutral", "1": "contradiction"}, "0 to 2, got .-1, 0, 1."),
    ],
)
def test_labels_are_numbered_as_the_logits_are(bert, id2label, message):
    rewritten(bert, id2label=id2label, label2id=None)
    with pytest.raises(ModelError, match=message):
        neurogame.load(bert)


@quietly
@given(st.permutations(range(3)))
def test_the_order_of_the_keys_in_the_file_is_not_that_of_the_logits(bert, order):
    names = {str(i): LABELS[i] for i in order}
    rewritten(bert, id2label=names, label2id={name: int(i) for i, name in names.items()})
    assert neurogame.load(bert).labels == LABELS


# --- data ---------------------------------------------------------------------------------------------------------


@quietly
@given(names=st.permutations(LABELS), gold=st.lists(st.sampled_from(LABELS), min_size=1, max_size=8), data=st.data())
def test_labels_of_a_file_as_numbers_or_names_are_the_same(tmp_path, names, gold, data):
    as_numbers, as_names = tmp_path / "numbers.jsonl", tmp_path / "names.jsonl"
    with as_numbers.open("w") as numbered, as_names.open("w") as named:
        for label in gold:
            number = names.index(label)
            said = data.draw(st.sampled_from([number, str(number), f" {number} "]))
            numbered.write(json.dumps({"premise": "a", "hypothesis": "b", "label": said}) + "\n")
            spelled = data.draw(st.sampled_from(SPELLINGS[label]))
            named.write(json.dumps({"premise": "a", "hypothesis": "b", "label": spelled}) + "\n")
    assert [pair.label for pair in read(as_numbers, label_names=names)] == gold
    assert [pair.label for pair in read(as_names)] == gold
    assert read(as_numbers, label_names=names).fingerprint == read(as_names).fingerprint
    with pytest.raises(DataError, match="a number needs the list of names"):
        read(as_numbers)


@quietly
@given(order=st.permutations(LABELS), gold=st.lists(st.sampled_from(LABELS), min_size=1, max_size=6), data=st.data())
def test_training_targets_are_the_models_own_numbers(order, gold, data):
    spelled = [data.draw(st.sampled_from(SPELLINGS[name])) for name in order]
    rows = encode(
        [Pair("a dog", "a cat", label) for label in gold],
        tiny.tokenizer(),
        max_length=20,
        label2id={name: i for i, name in enumerate(spelled)},
    )
    assert [order[i] for i in rows.labels] == gold


# --- evaluation ---------------------------------------------------------------------------------------------------


class Fixed:
    """A model of given labels that says what it is told, by name."""

    name, temperature, parameters = "fixed", 1.0, 0

    def __init__(self, labels, by_name):
        self.labels, self.by_name = tuple(labels), by_name

    def logits(self, pairs, *, batch_size=32, progress=None):
        return torch.tensor([[row[name] for name in self.labels] for row in self.by_name], dtype=torch.float64)


def dataset(gold, name="data"):
    return PairDataset(tuple(Pair("a", f"b {i}", label) for i, label in enumerate(gold)), name)


def scores(report):
    return report.rows[0].scores


rows_of = st.lists(
    st.fixed_dictionaries({name: st.floats(-9, 9) for name in (*LABELS, NON_ENTAILMENT)}), min_size=2, max_size=7
)


@quietly
@given(rows_of, st.permutations(LABELS), st.data())
def test_a_report_does_not_depend_on_the_order_of_the_models_labels(rows, order, data):
    gold = [data.draw(st.sampled_from(LABELS)) for _ in rows]
    first = evaluation.evaluate(Fixed(LABELS, rows), dataset(gold))
    other = evaluation.evaluate(Fixed(order, rows), dataset(gold))
    assert scores(first).accuracy == scores(other).accuracy
    assert scores(first).nll == pytest.approx(scores(other).nll)
    assert np.array_equal(scores(first).confusion, scores(other).confusion)
    assert first.rows[0].predictions.predicted == other.rows[0].predictions.predicted


@quietly
@given(rows_of, st.permutations(["entailment", NON_ENTAILMENT]), st.data())
def test_a_two_way_model_on_two_way_data(rows, order, data):
    gold = [data.draw(st.sampled_from(order)) for _ in rows]
    found = scores(evaluation.evaluate(Fixed(order, rows), dataset(gold)))
    right = [max(order, key=row.get) == label for row, label in zip(rows, gold, strict=True)]
    ties = any(row[order[0]] == row[order[1]] for row in rows)
    assert ties or found.accuracy == pytest.approx(sum(right) / len(right))


@quietly
@given(rows_of, st.permutations(LABELS), st.data())
def test_a_three_way_model_on_two_way_data_in_any_order(rows, order, data):
    """Neutral and contradiction count as non-entailment once the three-way decision is made."""
    gold = [data.draw(st.sampled_from(["entailment", NON_ENTAILMENT])) for _ in rows]
    gold[0] = NON_ENTAILMENT
    found = scores(evaluation.evaluate(Fixed(order, rows), dataset(gold)))
    said = ["entailment" if max(LABELS, key=row.get) == "entailment" else NON_ENTAILMENT for row in rows]
    assert found.accuracy == pytest.approx(np.mean([a == b for a, b in zip(said, gold, strict=True)]))


@pytest.mark.parametrize("order", [["entailment", NON_ENTAILMENT], [NON_ENTAILMENT, "entailment"]])
def test_a_two_way_model_on_three_way_data_is_refused_by_name(order):
    rows = [dict.fromkeys((*LABELS, NON_ENTAILMENT), 0.0)] * 3
    with pytest.raises(ValueError, match="'neutral', 'contradiction', which the model does not know") as caught:
        evaluation.evaluate(Fixed(order, rows), dataset(LABELS))
    assert "\n" not in str(caught.value)


def test_saved_predictions_are_read_by_name(tmp_path):
    """The columns of a file of predictions may be in any order."""
    rows = [{"entailment": 2.0, "neutral": 1.0, "contradiction": 0.0}, dict(zip(LABELS, (0.0, 3.0, 1.0), strict=True))]
    gold = ["entailment", "contradiction"]
    path = tmp_path / "x.jsonl"
    found = []
    for order in permutations(LABELS):
        lines = [
            json.dumps({"gold": label, "logits": {name: row[name] for name in order}})
            for row, label in zip(rows, gold, strict=True)
        ]
        path.write_text("\n".join(lines) + "\n")
        found.append(evaluation.Predictions.read(path, model="m", data="d", fingerprint="f"))
    assert {one.predicted for one in found} == {("entailment", "neutral")}
    assert all(np.array_equal(one.aligned.logits, found[0].aligned.logits) for one in found)
