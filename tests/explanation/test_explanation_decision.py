"""The decision game against enumeration: the head run by hand, every coalition, axioms, swing words."""

from dataclasses import replace

import pytest
import tiny
import torch
from kinds import LONG, SHORT

from neurogame import exact
from neurogame.explanation.methods import decision
from neurogame.explanation.reading import read
from neurogame.nli import NLI
from neurogame.values import estimate_game

SUMS = ["neurogame", "mean", "softmax", "hopfield", "budget"]


def system(head="neurogame", family="bert", **options):
    return NLI(tiny.model(head, family=family, **options), tiny.tokenizer(family), name="tiny")


@pytest.fixture(scope="module")
def nli():
    return system()


def by_hand(nli, pair):
    """Σ over any set of words, from the model's own parts: a function from word indices to logits."""
    model = nli.model
    inputs = nli.tokenizer(*pair, return_tensors="pt")
    with torch.no_grad():
        x = model.encoder(**inputs).last_hidden_state
        players = model.players(inputs["input_ids"], inputs["attention_mask"].bool())
        pooled = model.pooling(x, players, record=True)
        layer = getattr(model.pooling, "layer", model.pooling)
        heads = pooled.weights.shape[1]
        V = layer.value(x)[0].unflatten(-1, (heads, -1))  # (tokens, heads, head_dim)
        weighted = (pooled.weights[0].T.unsqueeze(-1) * V).flatten(-2)
    special = [i for i, side in enumerate(inputs.sequence_ids()) if side is None]
    words = [i for i, side in enumerate(inputs.sequence_ids()) if side is not None]  # the vocabulary has whole words

    def logits(members, *, specials=True):
        tokens = [words[i] for i in members] + (special if specials else [])
        with torch.no_grad():
            return model.classifier(layer.out(weighted[tokens].sum(0))[None])[0].double()

    return logits, len(words)


def enumerated(nli, pair, value):
    """The value table of the game, coalition by coalition."""
    logits, n = by_hand(nli, pair)
    members = [[i for i in range(n) if c >> i & 1] for c in range(2**n)]
    return torch.stack([value(logits(C)) for C in members])


@pytest.mark.parametrize("head", SUMS)
@pytest.mark.parametrize("options", [{}, {"classifier_layers": 2, "activation": "relu"}, {"classifier_norm": False}])
def test_the_decision_game_is_what_the_head_computes(head, options):
    nli = system(head, **options)
    ex = nli.explain(*SHORT, target="neutral", method="decision")
    table = enumerated(nli, SHORT, lambda logits: logits[1])
    scale = float(table.abs().max())
    assert ex.shapley == pytest.approx(exact.shapley(table).tolist(), abs=1e-5 * scale)
    assert ex.banzhaf == pytest.approx(exact.banzhaf(table).tolist(), abs=1e-5 * scale)
    assert torch.tensor(ex.interactions).double() == pytest.approx(exact.interactions(table), abs=2e-5 * scale)
    assert ex.diagnostics["exact"] is True
    assert ex.scores == ex.shapley


@pytest.mark.parametrize(
    ("head", "family"), [*((head, "bert") for head in SUMS), ("neurogame", "roberta"), ("neurogame", "distilbert")]
)
@pytest.mark.parametrize("pair", [SHORT, LONG])
def test_everybody_together_is_the_models_own_logit(head, family, pair):
    nli = system(head, family)
    ex = nli.explain(*pair, method="decision")
    said = nli.predict(*pair)
    assert ex.prediction == said
    assert ex.target == said.label
    found = ex.diagnostics
    assert found["logit_error"] < 1e-4
    assert found["origin"] + found["total"] == pytest.approx(said.logits[said.label], abs=1e-4)
    assert sum(ex.shapley) + found["outside"] == pytest.approx(found["total"], abs=1e-4)
    assert found["efficiency_gap"] < 1e-4


def test_what_special_tokens_hold_is_the_value_of_no_word(nli):
    ex = nli.explain(*SHORT, target="contradiction", method="decision")
    logits, _ = by_hand(nli, SHORT)
    nothing = float(logits([], specials=False)[2])
    assert ex.diagnostics["origin"] == pytest.approx(nothing, abs=1e-6)
    assert ex.diagnostics["outside"] == pytest.approx(float(logits([])[2]) - nothing, abs=1e-5)


def test_special_tokens_that_do_not_play_hold_nothing():
    tok = tiny.tokenizer()
    ids = [tok.cls_token_id, tok.sep_token_id, tok.pad_token_id]
    ex = system(players="words", special_token_ids=ids).explain(*SHORT, method="decision")
    assert ex.diagnostics["outside"] == 0.0
    assert ex.diagnostics["outside_alpha"] == 0.0
    assert sum(ex.shapley) == pytest.approx(ex.diagnostics["total"], abs=1e-5)


@pytest.mark.parametrize("pair", [SHORT, LONG])  # enumerated, and sampled with the same draws
def test_a_contrast_is_a_difference(nli, pair):
    both = nli.explain(*pair, target="entailment", contrast="neutral", method="decision")
    one, other = (nli.explain(*pair, target=label, method="decision") for label in ("entailment", "neutral"))
    for name in ("shapley", "banzhaf"):
        difference = [a - b for a, b in zip(getattr(one, name), getattr(other, name), strict=True)]
        assert getattr(both, name) == pytest.approx(difference, abs=1e-5)
    difference = torch.tensor(one.interactions) - torch.tensor(other.interactions)
    assert torch.tensor(both.interactions) == pytest.approx(difference, abs=1e-5)


def test_sampled_values_are_within_their_errors(nli):
    pair = ("the old man sees a dog and the girl sees", "the man is old .")  # 15 words: sampled, and yet enumerable
    ex = nli.explain(*pair, target="neutral", method="decision")
    assert ex.diagnostics["exact"] is False
    game = decision.game_of(read(nli, *pair, "word"), "neutral", None)
    table = game(exact.all_coalitions(15))
    for name, truth in (("shapley", exact.shapley(table)), ("banzhaf", exact.banzhaf(table))):
        error = torch.tensor(getattr(ex, name)) - truth
        assert (error.abs() <= 5 * torch.tensor(ex.diagnostics[f"{name}_se"]) + 1e-6).all()
    error = (torch.tensor(ex.interactions) - exact.interactions(table)).square().mean().sqrt()
    assert error < 2 * ex.diagnostics["interactions_se"]


def test_balanced_shares_are_efficient(nli):
    v = decision.game_of(read(nli, *LONG, "word"), "neutral", None)
    found = estimate_game(v, v.players, samples=64, couplings="none")
    size = torch.arange(v.players).double()
    balanced = decision.balance(found.phi, found.grand(), size)
    gap = found.shapley.sum() - found.grand()
    assert float(balanced.value.sum()) == pytest.approx(float(found.grand()), abs=1e-6)
    assert balanced.value == pytest.approx(found.shapley - gap * size / size.sum(), abs=1e-9)
    assert float(balanced.value[0]) == float(found.shapley[0])


def test_a_word_that_adds_nothing_has_nothing(nli):
    v = decision.game_of(read(nli, *LONG, "word"), "neutral", None)
    v = replace(v, terms=v.terms * (torch.arange(len(v.terms)) != 3).unsqueeze(-1))
    found = decision._sample(v, v.players, 256, 0)
    assert (float(found.shapley[3]), float(found.banzhaf[3])) == (0.0, 0.0)
    assert float(found.interactions[3].abs().max()) < 1e-5


@pytest.mark.parametrize("options", [{}, {"classifier_layers": 3}, {"classifier_norm": False, "activation": "relu"}])
def test_logits_of_sums_are_those_of_the_classifier(random, options):
    classifier = tiny.model(**options).classifier
    terms, members = random(1, 9, 32, dtype=torch.float32), (random(2, 50, 9) > 0).float()
    with torch.no_grad():
        expected = classifier(members @ terms)
        assert classifier.of_sums(members, terms) == pytest.approx(expected, abs=1e-4 * float(expected.abs().max()))


@pytest.mark.parametrize("compared", [False, True])
def test_swing_words_turn_the_decision(compared):
    """A word is one if and only if the head without it says something else."""
    nli, seen = system(), 0
    for pair in tiny.PAIRS:
        logits, n = by_hand(nli, pair)
        first, second = logits(range(n)).topk(2).indices.tolist()
        with torch.no_grad():  # a close call
            nli.model.classifier.out.bias[second] += float(logits(range(n))[first] - logits(range(n))[second]) - 0.01
        names = [nli.labels[first], nli.labels[second]] if compared else list(nli.labels)
        ex = nli.explain(*pair, contrast=names[1] if compared else None, method="decision")
        assert ex.target == nli.labels[first]
        places = [nli.labels.index(name) for name in names]
        without = [names[int(logits([j for j in range(n) if j != i])[places].argmax())] for i in range(n)]
        assert list(ex.swing) == [i for i in range(n) if without[i] != ex.target]
        assert ex.diagnostics["swing_to"] == [without[i] for i in ex.swing]
        seen += len(ex.swing)
    assert seen
