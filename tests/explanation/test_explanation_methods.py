"""Every way to explain against oracles: additive models, Owen values, completeness, seeds, mistakes."""

import json
import sys

import numpy as np
import pytest
import tiny
import torch
from kinds import KINDS, LONG, SHORT, system

from neurogame import Explanation, exact
from neurogame.explanation import METHODS, methods_for, named
from neurogame.explanation.methods.inputs import tree
from neurogame.explanation.reading import Question, read
from neurogame.explanation.removal import InputGame
from neurogame.nli import NLI

BLACK_BOX = ["input", "occlusion", "gradient", "integrated_gradients", "lime", "kernelshap", "partition", "random"]
FEW = {
    "input": 40,
    "lime": 30,
    "kernelshap": 30,
    "partition": 30,
    "integrated_gradients": 4,
    "presence": 3,
    "decision": 8,
}


@pytest.fixture(scope="module")
def nli():
    return system()


@pytest.fixture(scope="module")
def bert():
    return system("a bert")


@pytest.fixture(scope="module")
def bag():
    return system("bag")


# --- the methods of others ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("pair", [SHORT, LONG])
@pytest.mark.parametrize(
    "method", ["input", "occlusion", "gradient", "integrated_gradients", "kernelshap", "partition"]
)
def test_where_words_add_up_all_methods_agree(bag, pair, method):
    ids = bag.tokenizer(*pair)["input_ids"]
    words = [i for i, side in enumerate(bag.tokenizer(*pair).sequence_ids()) if side is not None]
    table = bag.model.table.weight.detach()
    expected = [float(table[ids[i], 2] - table[ids[i], 0]) for i in words]
    ex = bag.explain(*pair, method=method, target="contradiction", contrast="entailment")
    assert ex.scores == pytest.approx(expected, abs=1e-3)
    if ex.shapley is not None:
        assert ex.shapley == ex.scores


def test_lime_ranks_words_that_add_up(bag):
    scores = bag.explain(*LONG, method="lime", target="neutral").scores
    exactly = bag.explain(*LONG, method="occlusion", target="neutral").scores
    assert np.corrcoef(scores, exactly)[0, 1] > 0.98


@pytest.mark.parametrize("kind", ["neurogame", "a bert"])
def test_kernelshap_comes_near_the_shapley_values(kind):
    nli = system(kind)
    truth = np.array(nli.explain(*SHORT, method="input").shapley)
    found = np.array(nli.explain(*SHORT, method="kernelshap", samples=1000).shapley)
    assert np.abs(found - truth).max() < 0.1 * np.abs(truth).max()
    assert found.sum() == pytest.approx(truth.sum(), abs=1e-3)


def test_partition_is_owen(bert):
    """Two words on each side: the values of the tree by hand."""
    pair = ("two dogs", "dogs sleep")
    v = InputGame.of(read(bert, *pair, "word"), Question("neutral"))
    table = v(exact.all_coalitions(4)).tolist()
    ex = bert.explain(*pair, method="partition", target="neutral")

    def share(one, other, sides):  # of word `one`, `other` its neighbour, `sides` the two words across
        across = [0, sum(2**i for i in sides)]
        return sum(table[o + c + 2**one] - table[o + c] for o in (0, 2**other) for c in across) / 4

    expected = [share(0, 1, (2, 3)), share(1, 0, (2, 3)), share(2, 3, (0, 1)), share(3, 2, (0, 1))]
    assert ex.scores == pytest.approx(expected, abs=1e-5)
    assert ex.shapley is None
    assert ex.diagnostics["efficiency_gap"] < 1e-5


def test_the_tree_is_balanced_and_keeps_the_sides_apart():
    rows = tree(["premise"] * 5 + ["hypothesis"] * 2)
    members = {i: {i} for i in range(7)}
    for k, (left, right, height, size) in enumerate(rows.tolist()):
        members[7 + k] = members[int(left)] | members[int(right)]
        assert len(members[7 + k]) == size == height
    assert members[12] == set(range(7))
    assert {0, 1, 2, 3, 4} in members.values()
    assert {5, 6} in members.values()
    assert tree(["premise"] * 3).shape == (2, 4)


@pytest.mark.parametrize("kind", ["neurogame", "mean", "a bert", "a albert", "a electra", "dam", "esim"])
def test_integrated_gradients_are_complete(kind):
    nli = system(kind)
    ex = nli.explain(*SHORT, method="integrated_gradients", target="neutral", contrast="entailment", samples=64)
    reading = read(nli, *SHORT, "word")
    ids = reading.tokens.inputs["input_ids"]
    blank = torch.where(reading.units.unit_of >= 0, nli.tokenizer.pad_token_id, ids)
    with torch.no_grad():
        rest = nli.model(**{**reading.tokens.inputs, "input_ids": blank}).logits[0]
    whole = nli.predict(*SHORT).logits
    expected = whole["neutral"] - whole["entailment"] - float(rest[1] - rest[0])
    assert sum(ex.scores) == pytest.approx(expected, abs=0.02 * max(1.0, abs(expected)))
    assert ex.diagnostics["convergence_delta"] == pytest.approx(sum(ex.scores) - expected, abs=1e-3)
    assert (ex.diagnostics["steps"], ex.diagnostics["encoder_passes"]) == (64, 1 + 64 + 2)


def test_integrated_gradients_where_only_words_play():
    tok = tiny.tokenizer()
    special = [tok.cls_token_id, tok.sep_token_id, tok.pad_token_id]
    nli = NLI(tiny.model(players="words", special_token_ids=special), tok, name="tiny")
    ex = nli.explain(*SHORT, method="integrated_gradients", samples=8)
    assert all(map(np.isfinite, ex.scores))
    reading = read(nli, *SHORT, "word")
    with torch.no_grad():
        e = nli.model.get_input_embeddings()(reading.tokens.inputs["input_ids"])
        mask = torch.tensor([[side is None for side in reading.tokens.sides]]).long()
        rest = {name: value for name, value in reading.tokens.inputs.items() if name != "input_ids"}
        logits = nli.model(inputs_embeds=e, special_tokens_mask=mask, **rest).logits[0]
    assert logits.tolist() == pytest.approx(list(reading.prediction.logits.values()), abs=1e-6)


@pytest.mark.parametrize("kind", ["neurogame", "a roberta", "dam"])
def test_gradient_times_input(kind):
    """The slope along each word's embedding, by a finite difference in float64."""
    nli = system(kind)
    ex = nli.explain(*SHORT, method="gradient", target="neutral")
    reading = read(nli, *SHORT, "word")
    rest = {name: value for name, value in reading.tokens.inputs.items() if name != "input_ids"}
    nli.model.double()
    with torch.no_grad():
        e = nli.model.get_input_embeddings()(reading.tokens.inputs["input_ids"])
        for i, tokens in enumerate(reading.units.members.bool()):
            step = 1e-5 * e * tokens.unsqueeze(-1)
            up, down = (nli.model(inputs_embeds=e + d, **rest).logits[0, 1] for d in (step, -step))
            assert ex.scores[i] == pytest.approx(float(up - down) / 2e-5, rel=2e-2, abs=2e-3)


@pytest.mark.parametrize("method", ["gradient", "integrated_gradients"])
@pytest.mark.parametrize("kind", ["neurogame", "a bert", "esim"])
def test_gradients_in_any_mode(kind, method):
    nli = system(kind)
    options = {"samples": FEW[method]} if method in FEW else {}
    expected = nli.explain(*SHORT, method=method, **options).scores
    for mode in (torch.inference_mode, torch.no_grad):
        with mode():
            assert nli.explain(*SHORT, method=method, **options).scores == expected
    assert all(weight.grad is None for weight in nli.model.parameters())


@pytest.mark.parametrize("head", ["neurogame", "mean", "softmax", "hopfield", "budget"])
def test_attention_is_that_of_the_pooling(head):
    ex = system(head).explain(*SHORT, method="attention")
    assert ex.scores == pytest.approx(ex.alpha, abs=1e-6)
    assert (ex.target, ex.shapley, ex.diagnostics["explains"]) == (None, None, "weights")
    assert ex.diagnostics["encoder_passes"] == 1


@pytest.mark.parametrize("kind", ["a bert", "a roberta", "a distilbert", "a mpnet", "cls", "spins"])
def test_attention_of_other_models_is_that_of_cls(kind):
    nli = system(kind)
    ex = nli.explain(*SHORT, method="attention")
    encoder = getattr(nli.model, "encoder", nli.model)
    usual = encoder.config._attn_implementation
    encoder.set_attn_implementation("eager")
    reading = read(nli, *SHORT, "word")
    with torch.no_grad():
        weights = nli.model(**reading.tokens.inputs, output_attentions=True).attentions[-1][0, :, 0].mean(0)
    owners = reading.units.unit_of
    assert ex.scores == pytest.approx([float(weights[owners == i].mean()) for i in range(8)], abs=1e-6)
    encoder.set_attn_implementation(usual)
    nli.explain(*SHORT, method="attention")
    assert encoder.config._attn_implementation == usual


# --- all of them --------------------------------------------------------------------------------------------------


def expected_methods(kind):
    missing = {"decision", "game", "presence"}
    if kind == "neurogame":
        missing = set()
    elif kind == "spins":
        missing = {"decision", "presence"}
    elif kind == "spins of tokens":
        missing = {"decision", "presence", "attention"}
    elif kind in ("mean", "softmax", "hopfield", "budget"):
        missing = {"game"}
    elif kind in ("dam", "esim"):
        missing |= {"attention"}
    return [name for name in METHODS if name not in missing]


@pytest.mark.parametrize("kind", KINDS)
def test_every_method_on_every_model(kind):
    nli = system(kind)
    working = methods_for(nli.model)
    assert working == expected_methods(kind)
    assert set(BLACK_BOX) <= set(working)
    said = nli.predict(*SHORT)
    for method, about in METHODS.items():
        options = {"samples": FEW[method]} if about.samples else {}
        if method not in working:
            with pytest.raises(ValueError, match=f"method = '{method}' does not work for tiny") as caught:
                nli.explain(*SHORT, method=method, **options)
            assert "\n" not in str(caught.value)
            assert all(f"'{name}'" in str(caught.value) for name in working)
            continue
        ex = nli.explain(*SHORT, method=method, **options)
        assert ex.prediction == said
        assert ex.target == (said.label if about.explains == "logit" else None)
        assert len(ex.words) == len(ex.scores) == 8
        assert all(map(np.isfinite, ex.scores))
        assert any(ex.scores)
        found = ex.diagnostics
        assert found["explains"] == about.explains
        assert (found["seed"], found["asked_samples"]) == (0, options.get("samples"))
        assert found["encoder_passes"] >= 1
        assert found["head_passes"] >= found["encoder_passes"]
        assert Explanation.from_dict(json.loads(json.dumps(ex.to_dict(), allow_nan=False))) == ex


@pytest.mark.parametrize("method", [name for name, about in METHODS.items() if about.has_target and name != "decision"])
def test_a_contrast_is_a_difference(nli, method):
    """All are linear in the logits; for "decision" see test_explanation_decision."""
    options = {"samples": 60} if METHODS[method].samples else {}
    asked = [("entailment", "neutral"), ("entailment", None), ("neutral", None)]
    both, one, other = (
        np.array(nli.explain(*SHORT, method=method, target=t, contrast=c, **options).scores) for t, c in asked
    )
    assert both == pytest.approx(one - other, abs=1e-4 * np.abs(one).max())


@pytest.mark.parametrize(
    ("spelled", "name"),
    [
        *((name, name) for name in METHODS),
        ("attention weights", "attention"),
        ("gradient × input", "gradient"),
        ("Gradient x Input", "gradient"),
        ("integrated gradients", "integrated_gradients"),
        ("LIME", "lime"),
        ("KernelSHAP", "kernelshap"),
        ("SHAP partition", "partition"),
        ("Shapley", "Shapley"),
        (3, 3),
    ],
)
def test_usual_spellings(spelled, name, as_user):
    assert named(spelled) == name


def test_the_record_has_the_name_of_the_method(nli):
    assert nli.explain(*SHORT, method="Gradient × input").method == "gradient"


def test_what_methods_cost(nli):
    def passes(method, **options):
        found = nli.explain(*SHORT, method=method, **options).diagnostics
        return found["encoder_passes"], found["head_passes"]

    assert passes("random") == passes("attention") == passes("game") == (1, 1)
    assert passes("gradient") == (2, 2)
    assert passes("integrated_gradients", samples=7) == (10, 10)
    assert passes("occlusion") == (10, 10)
    assert passes("input") == (257, 257)
    assert passes("decision") == (1, 1 + 256 + 1 + 1 + 1 + 9)  # table, origin, nobody, everybody, swing words
    for method in ("lime", "kernelshap", "partition"):
        assert passes(method, samples=30)[0] <= 1 + 30 + 2


@pytest.mark.parametrize("method", [m for m in METHODS if m != "game"])
def test_a_seed_decides(nli, method):
    options = {"samples": {"input": 100}.get(method, FEW[method])} if METHODS[method].samples else {}
    state, numbers = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002  the one others use
    one, same, other = (nli.explain(*LONG, method=method, seed=seed, **options) for seed in (7, 7, 8))
    assert torch.equal(torch.get_rng_state(), state)
    assert (np.random.get_state()[1] == numbers).all()  # noqa: NPY002
    assert one.scores == same.scores
    assert one.diagnostics["seed"] == 7
    drawn = method in ("decision", "input", "lime", "kernelshap", "random")
    assert (one.scores != other.scores) == drawn


def test_random_numbers_belong_to_the_pair(nli):
    first, second = (nli.explain(*pair, method="random").scores for pair in (SHORT, SHORT[::-1]))
    assert first != second
    assert all(-1 <= score < 1 for score in first)


@pytest.mark.parametrize("method", BLACK_BOX)
@pytest.mark.parametrize("kind", ["neurogame", "dam"])
def test_one_word(kind, method):
    nli = system(kind)
    ex = nli.explain("", "dog", method=method)
    assert ex.words == ("dog",)
    if method in ("input", "occlusion", "kernelshap", "partition"):
        both = nli.logits([("", "dog"), ("", "")])
        assert ex.scores[0] == pytest.approx(float(both[0].max() - both[1, both[0].argmax()]), abs=1e-5)


@pytest.mark.parametrize("method", ["input", "occlusion", "attention", "gradient", "kernelshap", "partition"])
def test_words_that_were_not_read_have_zero(nli, method):
    options = {"samples": 80} if METHODS[method].samples else {}
    ex = nli.explain("the old man sees a dog and a cat " * 9, "the man is old .", method=method, **options)
    assert sum(score != 0 for score in ex.scores) <= 37
    assert all(ex.scores[i] == 0 for i in ex.diagnostics["unread"])
    assert len(ex.diagnostics["truncated"]) == len(ex.words) - 37


@pytest.mark.parametrize("method", BLACK_BOX)
def test_pieces(method):
    nli = system("a roberta")
    options = {"samples": 60} if METHODS[method].samples else {}
    ex = nli.explain(*SHORT, method=method, level="token", **options)
    assert len(ex.words) == len(ex.scores) > 8
    if method == "gradient":
        owners = [i for i in read(nli, *SHORT, "word").units.unit_of.tolist() if i >= 0]
        summed = [sum(s for s, o in zip(ex.scores, owners, strict=True) if o == i) for i in range(8)]
        assert nli.explain(*SHORT, method=method).scores == pytest.approx(summed, abs=1e-5)


@pytest.mark.parametrize("method", BLACK_BOX)
@pytest.mark.parametrize("kind", ["a bert", "a roberta", "dam"])
def test_strange_text(kind, method):
    nli = system(kind)
    options = {"samples": 40} if METHODS[method].samples else {}
    for pair in (
        ("a 👨‍👩‍👧 \u200b zzz", "שלום \x07 a\u202ebc"),
        ("", "<b>&amp;</b> {{x}} ${y}"),
        (".", "[SEP] [MASK] <s>"),
    ):
        ex = nli.explain(*pair, method=method, **options)
        assert ex.words == (*pair[0].split(), *pair[1].split())
        json.dumps(ex.to_dict(), allow_nan=False)


@pytest.mark.parametrize("method", ["decision", "gradient"])
def test_a_hundred_thousand_characters(nli, method, as_user):
    """What was cut is said, and nothing is of size words × words but in memory, where rows of zeros are one row."""
    premise = "the old man sees a dog and " * 3704
    options = {"samples": 80} if METHODS[method].samples else {}
    ex = nli.explain(premise, "the man is old .", method=method, **options)
    assert ex.words == (*premise.split(), "the", "man", "is", "old", ".")
    assert ex.prediction.truncated
    unread = set(ex.diagnostics["unread"])
    assert len(unread) == len(ex.diagnostics["truncated"]) == len(ex.words) - 37
    text = json.dumps(ex.to_dict(), allow_nan=False)
    assert len(text) < 200 * len(ex.words) * 37 / 10
    back = Explanation.from_dict(json.loads(text))
    assert (back.scores, back.diagnostics) == (ex.scores, ex.diagnostics)
    if ex.interactions is not None:
        assert all(back.interactions[i] == ex.interactions[i] for i in range(len(ex.words)) if i not in unread)
        assert back.interactions[max(unread)] == (0.0,) * len(ex.words)


ENDLESS = {"letters": "a", "emoji": "👨‍👩‍👧", "control": "\x00\x07\x1b[31m", "hebrew": "ש"}


@pytest.mark.parametrize("written", ENDLESS)
@pytest.mark.parametrize("kind", ["a bert", "a roberta"])
def test_one_word_of_a_hundred_thousand_characters(kind, written, as_user):
    text = ENDLESS[written] * (100_000 // len(ENDLESS[written]))
    ex = system(kind).explain(text, "the man is old .", method="occlusion")
    assert ex.words[1:] == ("the", "man", "is", "old", ".")
    assert ex.words[0] is text or len(ex.words[0]) == len(text)
    assert ex.prediction.truncated == (kind == "a roberta" or written == "control")  # BERT: one [UNK]; "[" is a token


def test_packages_that_are_missing(nli, monkeypatch):
    for name in ("captum", "captum.attr", "shap"):
        monkeypatch.setitem(sys.modules, name, None)
    working = methods_for(nli.model)
    assert working == ["decision", "game", "presence", "input", "occlusion", "attention", "gradient", "random"]
    for method in ("lime", "kernelshap", "integrated_gradients", "partition"):
        with pytest.raises(ImportError, match=r"this needs (captum|shap): pip install '.*\[explain\]'"):
            nli.explain(*SHORT, method=method)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            {"method": "occlusion", "samples": 10},
            "samples = 10: method = 'occlusion' takes none; methods that do: 'd",
        ),
        ({"method": "lime", "samples": 1}, "samples must be at least 2, got 1"),
        ({"method": "lime", "seed": -1}, "seed must be at least 0, got -1"),
        ({"method": "lime", "seed": 2**32}, "seed must be at most 4294967295, got 4294967296"),
        ({"method": "attention", "target": "neutral"}, "method = 'attention' is the same for every label"),
        ({"method": "random", "contrast": "neutral"}, "contrast = 'neutral': method = 'random' is the same"),
        ({"method": "shap"}, "allowed: 'decision', 'game', 'presence', 'input', 'occlusion', 'attention', 'gradient'"),
    ],
)
def test_mistakes(nli, options, said):
    with pytest.raises(ValueError) as caught:
        nli.explain(*SHORT, **options)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    with pytest.raises(TypeError, match="samples must be a whole number"):
        nli.explain(*SHORT, method="lime", samples=2.5)
    with pytest.raises(ValueError, match="not valid Unicode"):
        nli.explain("a \ud800", "b", method="random")


def test_words_that_the_tokenizer_does_not_know_are_named(nli):
    ex = nli.explain("two qqqq sleep .", "the dogs run .", method="attention")
    assert ex.diagnostics["unknown"] == ["qqqq"]
    assert nli.explain(*SHORT, method="attention").diagnostics["unknown"] == []
