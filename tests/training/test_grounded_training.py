"""Training a model and its game together: the objective by hand, the toy language, warm starts, resumed runs."""

import copy
import json
import shutil
from typing import NamedTuple

import pytest
import tiny
import torch
from safetensors.torch import load_file
from test_learning import BERT, bert_tokenizer
from test_many_processes import TORCHRUN, launched
from test_training import configure, distance, workshop, write_pairs  # noqa: F401  fixtures
from test_training_run import history, written
from transformers import AutoTokenizer, BertConfig, BertForSequenceClassification, BertModel

from neurogame.data import generate
from neurogame.data.batching import encode
from neurogame.data.pairs import Pair, PairDataset
from neurogame.data.removal import Removal
from neurogame.data.words import read_words
from neurogame.explanation.reading import read
from neurogame.explanation.removal import evaluate
from neurogame.grounding import centred, draw, r_squared
from neurogame.grounding.fitting import empty_logits
from neurogame.grounding.texts import WORDS, CollateWords, players_of, word_rows
from neurogame.labels import LABELS
from neurogame.nli import NLI, load
from neurogame.training import ConfigError, train
from neurogame.training.build import build, read_splits, training_rows
from neurogame.training.config import GroundingSection, dump_config, parse_config
from neurogame.training.grounding import GroundedRows, coalition_r2, grounding_loss
from neurogame.training.randomness import derive
from neurogame.training.warm_start import Fit, fit_to_answers, has_new_game, learn_labels, teacher

SMALL = {"readout": "game", "players": "words", "readout_heads": 8, "readout_dim": 3, "readout_width": 16}
GAMES = {"readout": "game", "players": "words", "readout_heads": 24, "readout_dim": 3, "readout_width": 64}


# --- the objective --------------------------------------------------------------------------------------------------


def sided(family, side):
    tok = copy.deepcopy(tiny.tokenizer(family))
    tok.padding_side = side
    return tok


def losses(model, tok, seed=0, **options):
    """The two terms for the pairs of `tiny`, with their graph."""
    section = GroundingSection(**options)
    rows = word_rows(tiny.PAIRS, tok, 40)
    batch = CollateWords(tok)([rows[i] for i in range(4)])
    word_of = batch.pop(WORDS)
    outputs = model(**batch, output_game=True)
    generator = torch.Generator().manual_seed(seed)
    return grounding_loss(model, batch, word_of, outputs, section, Removal.of(tok, section.removal), generator)


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("removal", ["delete", "mask", "pad"])
def test_the_objective_by_hand(side, removal):
    """Row by row and coalition by coalition, from the parts that explanations are made of."""
    encoder = tiny.encoder_config("roberta", initializer_range=0.2)  # in which words depend on each other
    model, tok = tiny.game_model("roberta", encoder=encoder), sided("roberta", side)
    masked, grounded = (term.detach() for term in losses(model, tok, removal=removal, coalitions=4, law="shapley"))
    nli = NLI(model, tok, name="tiny")
    readings = [read(nli, *pair, "word") for pair in tiny.PAIRS]
    members = draw(
        [len(reading.units.read) for reading in readings], 4, "shapley", generator=torch.Generator().manual_seed(0)
    )
    divergence, misses = [], []
    for reading, some in zip(readings, members, strict=True):
        C = some[:, : len(reading.units.read)]
        said = evaluate(reading, C, removal)
        whole = nli.logits([reading.tokens.texts])[0].log_softmax(-1)
        divergence += [(whole.exp() * (whole - row.log_softmax(-1))).sum() for row in said]
        misses += list((centred(reading.game.logits(C).float()) - centred(said)).square().sum(-1))
    torch.testing.assert_close(masked, torch.stack(divergence).mean(), atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(grounded, torch.stack(misses).mean(), atol=1e-5, rtol=1e-4)
    assert float(masked) > 1e-3
    assert float(grounded) > 1e-2


def test_a_share_of_the_rows_is_read_incomplete():
    """With share = ½ the terms are those of two of the four rows, by the same draws."""
    model, tok = tiny.game_model(), tiny.tokenizer()
    draws = torch.Generator().manual_seed(7)
    kept = torch.randperm(4, generator=draws)[:2].sort().values
    rows = word_rows(tiny.PAIRS, tok, 40)
    batch = CollateWords(tok)([rows[i] for i in kept.tolist()])
    word_of = batch.pop(WORDS)
    with torch.no_grad():
        outputs = model(**batch, output_game=True)
        wanted = grounding_loss(model, batch, word_of, outputs, GroundingSection(), Removal.of(tok), draws)
        found, all_rows = losses(model, tok, 7, share=0.5), losses(model, tok, 7)
    torch.testing.assert_close(torch.stack(found), torch.stack(wanted), atol=1e-5, rtol=1e-4)
    assert not torch.allclose(torch.stack(found), torch.stack(all_rows))


def test_the_goal_of_the_game_is_detached():
    """The game learns from what the model says of x_C; what is said moves only where both sides are to."""
    model, tok = tiny.game_model(), tiny.tokenizer()

    def gradient(two_sided):
        model.zero_grad()
        losses(model, tok, two_sided=two_sided)[1].backward()
        base = model.classifier.base.grad
        return base.clone(), model.pooling.games.value.weight.grad.clone()

    one, both = gradient(two_sided=False), gradient(two_sided=True)
    assert one[0].abs().max() > 1e-3
    assert both[0].abs().max() < 1e-5  # b is in logits(C) and in what is said: it cancels
    assert not torch.allclose(one[1], both[1], atol=1e-4)


def test_the_whole_text_is_not_moved_by_its_parts():
    """λ_m: p(·|x) is a goal, so that a model which reads parts as the whole has no gradient from it."""
    model, tok = tiny.game_model(), tiny.tokenizer()
    losses(model, tok)[0].backward()
    from_masked = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    assert any(g.any() for g in from_masked.values())
    with torch.no_grad():  # says the same of every text
        model.classifier.out.weight.zero_()
    model.zero_grad()
    masked, grounded = losses(model, tok)
    assert float(masked.detach().abs()) < 1e-6
    assert float(grounded.detach()) == 0.0


def test_draws_come_from_the_generator():
    model, tok = tiny.game_model(), tiny.tokenizer()
    with torch.no_grad():
        first, again, other = (float(losses(model, tok, seed)[1]) for seed in (0, 0, 1))
    assert first == again != other


def test_the_r2_of_dev_by_hand():
    model, tok = tiny.game_model().train(), tiny.tokenizer()
    section = GroundingSection(law="banzhaf")
    found = coalition_r2(model, tok, tiny.PAIRS, section, 40, seed=3)
    assert model.training  # as it was
    assert coalition_r2(model, tok, tiny.PAIRS, section, 40, seed=3) == found  # the same coalitions every time
    assert coalition_r2(model, tok, tiny.PAIRS, section, 40, seed=4) != found
    model.eval()
    assert coalition_r2(model, tok, tiny.PAIRS, section, 40, seed=3) == found
    nli = NLI(model, tok, name="tiny")
    readings = sorted((read(nli, *pair, "word") for pair in tiny.PAIRS), key=lambda r: -len(r.tokens.offsets))
    sizes = [len(reading.units.read) for reading in readings]
    generator = torch.Generator().manual_seed(derive(3, "coalition r2"))
    members = draw(sizes, 4, "banzhaf", generator=generator)
    C = [some[:, :n] for some, n in zip(members, sizes, strict=True)]
    predicted = torch.cat([reading.game.logits(some) for reading, some in zip(readings, C, strict=True)])
    said = torch.cat([evaluate(reading, some) for reading, some in zip(readings, C, strict=True)])
    assert found == pytest.approx(r_squared(predicted, said, model.classifier.base.detach()), abs=1e-4)


def test_a_text_without_words_trains_too():
    model, tok = tiny.game_model(), tiny.tokenizer()
    rows = word_rows([("", "")], tok, 40)
    batch = CollateWords(tok)([rows[0]])
    word_of = batch.pop(WORDS)
    section, outputs = GroundingSection(), model(**batch, output_game=True)
    found = grounding_loss(model, batch, word_of, outputs, section, Removal.of(tok), torch.Generator().manual_seed(0))
    assert all(float(term.detach()) == pytest.approx(0.0, abs=1e-6) for term in found)
    assert coalition_r2(model, tok, [("", ""), *tiny.PAIRS], section, 40, batch_size=1) <= 1.0


def test_rows_know_their_words():
    tok = tiny.tokenizer()
    pairs = PairDataset(tuple(Pair(p, h, "neutral") for p, h in tiny.PAIRS), "tiny", "tests")
    rows = GroundedRows(pairs, encode(pairs, tok, max_length=12), tok)
    assert len(rows) == 4
    assert rows.lengths == [12, 12, 12, 12]  # cut
    for i, pair in enumerate(tiny.PAIRS):
        inputs, word_of = read_words(tok, *pair, 12)
        assert rows[i][WORDS] == word_of
        assert rows[i]["input_ids"] == inputs["input_ids"]
        assert rows[i]["labels"] == 1
    batch = CollateWords(tok)([rows[0], rows[1]])
    assert players_of(batch[WORDS]) == [9, 9]


# --- the toy language -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def language(tmp_path_factory):
    """Quantifiers of the toy language, and an encoder with random weights over its words."""
    root = tmp_path_factory.mktemp("language")

    def quantifiers(count, seed, without=()):
        return [
            pair
            for pair in generate(count, seed=seed)
            if pair.extras["phenomenon"] == "quantifier" and (pair.premise, pair.hypothesis) not in without
        ]

    training = quantifiers(8000, 0)
    dev = quantifiers(700, 1, {(pair.premise, pair.hypothesis) for pair in training})
    tokenizer = bert_tokenizer([*training, *dev])
    tokenizer.save_pretrained(root / "encoder")
    torch.manual_seed(0)
    encoder = BertModel(BertConfig(vocab_size=len(tokenizer), **BERT))
    with torch.no_grad():  # words far enough apart that attention can tell them from the start
        for parameter in encoder.embeddings.parameters():
            if parameter.dim() > 1:
                parameter.normal_(std=0.5)
    encoder.save_pretrained(root / "encoder")
    data = {
        "train": write_pairs(root / "train.jsonl", training),
        "dev": write_pairs(root / "dev.jsonl", dev),
        "max_length": 32,
    }

    def configured(name, model, **training):
        recipe = {"batch_size": 32, "tensorboard": False, "calibrate": False, **training}
        recipe["checkpoint_every"] = recipe["max_steps"]
        return parse_config(
            {"name": name, "output": str(root / name), "model": model, "data": data, "training": recipe}
        )

    model = {"encoder": str(root / "encoder"), "head": "mean", "options": {"dropout": 0.0, "players": "words"}}
    trained = configured("trained", model, max_steps=250, evaluate_every=250, learning_rate=1e-3)
    metrics = train(trained, show_progress=False)
    assert metrics["history"][-2]["eval_accuracy"] > 0.85
    return configured, trained.folder / "model"


def regrown(language, name, *, steps, weight, masked, warm=150):
    """A run that gives the trained model a game in the place of its classifier."""
    configured, folder = language
    return configured(
        name,
        {"encoder": str(folder), "head": "mean", "options": GAMES},
        max_steps=steps,
        evaluate_every=20,
        learning_rate=2e-4,
        head_multiplier=3.0,
        grounding={"weight": weight, "masked": masked, "warm_steps": warm, "warm_texts": 300, "dev_pairs": 60},
    )


def warmed(config):
    """What a run starts from: model, tokenizer and data, and how well the games were fitted."""
    splits = read_splits(config.data)
    model, tokenizer = build(config, splits)
    section = config.training.grounding
    fit = Fit(tokenizer, splits.train, section, 32, config.seed)
    return model, tokenizer, splits, fit_to_answers(model, teacher(config, model), fit)


def r2_on_dev(config, model, tokenizer, splits):
    pairs = [(pair.premise, pair.hypothesis) for pair in splits.dev]
    return coalition_r2(model, tokenizer, pairs, config.training.grounding, 32)


def test_a_warm_start_fits_the_games_to_a_frozen_model(language):
    config = regrown(language, "warm", steps=1, weight=0.5, masked=0.1)
    model, tokenizer, splits, found = warmed(config)
    old = load(language[1])
    before, after = old.model.encoder.state_dict(), model.encoder.state_dict()
    assert before.keys() == after.keys()
    assert all(torch.equal(x, after[name]) for name, x in before.items())
    assert r2_on_dev(config, model, tokenizer, splits) > 0.3
    assert found["r2"] > 0.3
    assert found["r2_whole"] > 0.8
    torch.testing.assert_close(model.classifier.base.detach(), empty_logits(old.model, tokenizer))
    assert model.pooling.games.mean.any()  # the states were standardised
    assert model.classifier.base.requires_grad
    pairs = [(pair.premise, pair.hypothesis) for pair in splits.dev]
    same = NLI(model, tokenizer).logits(pairs).argmax(-1) == old.logits(pairs).argmax(-1)
    assert float(same.float().mean()) > 0.8
    again, *_ = warmed(config)
    assert all(torch.equal(x, again.state_dict()[name]) for name, x in model.state_dict().items())


def test_polish_fits_the_game_to_the_model_that_came_out(language):
    """Encoder untouched, answers nearly so, R² on held-out coalitions up; the states are not standardised anew."""
    config = regrown(language, "polish", steps=1, weight=0.0, masked=0.0, warm=20)
    model, tokenizer, splits, _ = warmed(config)
    before, was = copy.deepcopy(model.state_dict()), r2_on_dev(config, model, tokenizer, splits)
    pairs = [(pair.premise, pair.hypothesis) for pair in splits.dev]
    said = NLI(model, tokenizer).logits(pairs).argmax(-1)
    section = config.training.grounding.model_copy(update={"polish_steps": 120, "polish_texts": 300})
    fit_to_answers(model, None, Fit(tokenizer, splits.train, section, 32, config.seed))
    after = model.state_dict()
    fixed = [name for name in before if name.startswith("encoder.") or name.endswith(("games.mean", "games.scale"))]
    assert len(fixed) > 10
    assert all(torch.equal(before[name], after[name]) for name in fixed)
    assert not torch.equal(before["classifier.out.weight"], after["classifier.out.weight"])
    assert r2_on_dev(config, model, tokenizer, splits) > was + 0.02
    assert float((NLI(model, tokenizer).logits(pairs).argmax(-1) == said).float().mean()) > 0.8


def plain(language, name, **options):
    """A run from the encoder with random weights."""
    configured, folder = language
    model = {"encoder": str(folder.parent.parent / "encoder"), "head": "mean", "options": GAMES}
    return configured(name, model, **options)


def test_only_a_trained_model_teaches(language):
    config = plain(language, "plain", max_steps=1, grounding={})
    assert has_new_game(config)
    assert teacher(config, build(config, read_splits(config.data))[0]) is None
    config = regrown(language, "x", steps=1, weight=0.1, masked=0.1)
    assert has_new_game(config)
    assert teacher(config, build(config, read_splits(config.data))[0]).config.readout == "ffn"


def test_a_plain_encoder_gets_a_grounded_game(language):
    """Nobody teaches: the head learns from the labels first, on the frozen encoder. Before, R² stayed at 0."""
    section = {"weight": 0.5, "masked": 0.1, "two_sided": True, "warm_steps": 300, "warm_texts": 1000, "dev_pairs": 60}
    config = plain(language, "from_plain", max_steps=150, evaluate_every=50, learning_rate=1e-3, grounding=section)
    metrics = train(config, show_progress=False)
    assert metrics["coalition_r2"] > 0.5
    assert max(e["eval_accuracy"] for e in metrics["history"] if "eval_accuracy" in e) > 0.85
    assert load(config.folder / "model").model.config.readout_r2 == metrics["coalition_r2"]


def test_labels_teach_a_head_on_a_frozen_encoder(language):
    config = plain(language, "labels", max_steps=1, grounding={"warm_steps": 60, "warm_texts": 200})
    splits = read_splits(config.data)
    ends = []
    for _ in range(2):
        model, tokenizer = build(config, splits)
        before = copy.deepcopy(model.state_dict())
        passes = []
        section = config.training.grounding
        learn_labels(model, Fit(tokenizer, splits.train, section, 32, config.seed, progress=passes.append))
        ends.append(model.state_dict())
    assert sum(passes) == 200 * 3
    assert all(torch.equal(x, ends[1][name]) for name, x in ends[0].items())  # the seed decides
    for name, x in before.items():
        assert torch.equal(x, ends[0][name]) == name.startswith("encoder."), name
    assert not model.training


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1)])
def test_a_classifier_of_transformers_teaches(language, tmp_path, order):
    """Its answers are the goal, by the names of its labels."""
    configured, folder = language
    encoder, names = folder.parent.parent / "encoder", [LABELS[i] for i in order]
    theirs = BertForSequenceClassification.from_pretrained(encoder, num_labels=3)
    with torch.no_grad():
        theirs.classifier.weight.normal_(generator=torch.Generator().manual_seed(0))
        tokenizer, pairs = AutoTokenizer.from_pretrained(encoder), list(generate(60, seed=3))
        texts = [pair.premise for pair in pairs], [pair.hypothesis for pair in pairs]
        logits = theirs.eval()(**tokenizer(*texts, padding=True, return_tensors="pt")).logits
        theirs.classifier.bias -= logits.median(0).values  # so that every label is given to some
    theirs.config.id2label, theirs.config.label2id = dict(enumerate(names)), {name: i for i, name in enumerate(names)}
    NLI(theirs, tokenizer).save_pretrained(tmp_path / "theirs")
    model = {"encoder": str(tmp_path / "theirs"), "head": "mean", "options": GAMES}
    config = configured("theirs", model, max_steps=1, grounding={"warm_steps": 150, "warm_texts": 300})
    model, tokenizer, splits, found = warmed(config)
    assert found["r2_whole"] > 0.5
    pairs = [(pair.premise, pair.hypothesis) for pair in splits.dev]
    wanted, said = load(tmp_path / "theirs").predict(pairs), NLI(model, tokenizer).predict(pairs)
    same = [one.label == other.label for one, other in zip(wanted, said, strict=True)]
    assert sum(same) / len(same) > 0.8
    assert len({one.label for one in wanted}) > 1  # or the test shows little


def test_labels_of_another_kind_do_not_teach(language, tmp_path, caplog):
    configured, folder = language
    encoder = folder.parent.parent / "encoder"
    BertForSequenceClassification.from_pretrained(encoder, num_labels=2).save_pretrained(tmp_path / "two")
    AutoTokenizer.from_pretrained(encoder).save_pretrained(tmp_path / "two")
    model = {"encoder": str(tmp_path / "two"), "head": "mean", "options": GAMES}
    config = configured("two", model, max_steps=1, grounding={})
    assert teacher(config, build(config, read_splits(config.data))[0]) is None
    assert "are not those of the run (entailment, neutral, contradiction)" in caplog.text
    assert "learns from the labels" in caplog.text


class Swings(NamedTuple):
    """Swing words of some pairs: named and right, named, there by deletion of each word."""

    right: int
    named: int
    true: int


def swings(nli, config, *, check):
    """On the first 20 pairs of dev."""
    right = named = true = 0
    for pair in list(read_splits(config.data).dev)[:20]:
        reading = read(nli, pair.premise, pair.hypothesis, "word")
        answers = evaluate(reading, ~torch.eye(len(reading.units.read), dtype=torch.bool)).argmax(-1)
        there = {reading.units.read[i] for i in (answers != reading.logits.argmax()).nonzero().flatten().tolist()}
        said = set(nli.explain(pair.premise, pair.hypothesis, check=check).swing)
        right, named, true = right + len(said & there), named + len(said), true + len(there)
    return Swings(right, named, true)


def test_grounding_makes_the_game_predict_the_model(language):
    grounded = regrown(language, "grounded", steps=100, weight=0.5, masked=0.1)
    control = regrown(language, "control", steps=40, weight=0.0, masked=0.0)
    start = r2_on_dev(grounded, *warmed(grounded)[:3])
    metrics = [train(config, show_progress=False) for config in (grounded, control)]
    found, other = (run["history"] for run in metrics)
    r2, without = ([e["eval_coalition_r2"] for e in entries if "eval_coalition_r2" in e] for entries in (found, other))
    accuracy = [e["eval_accuracy"] for e in found if "eval_accuracy" in e]
    assert len(r2) == len(accuracy) == 5
    assert len(without) == 2
    assert r2[-1] > start + 0.05
    assert r2[-1] > 0.8
    assert without[-1] < start - 0.1  # accuracy alone makes the game say less and less of the model
    assert r2[-1] > without[-1] + 0.3
    assert accuracy[-1] > 0.85
    nli = load(grounded.folder / "model")
    assert nli.model.config.readout == "game"
    assert nli.model.config.readout_grounded is True
    assert nli.model.config.readout_r2 == metrics[0]["coalition_r2"] == pytest.approx(max(r2), abs=0.2)
    measured = json.loads((grounded.folder / "metrics.json").read_text())["coalition_r2"]
    for page in ("report.md", "model/README.md"):
        assert f"R² of the game on coalitions of words of dev: {measured:.3f}" in (grounded.folder / page).read_text()
    pair = read_splits(grounded.data).dev[0]
    ex = nli.explain(pair.premise, pair.hypothesis)
    assert (ex.method, ex.diagnostics["grounded"]) == ("decision", "readout")
    assert ex.diagnostics["r2"] == measured
    assert sum(ex.shapley) == pytest.approx(ex.diagnostics["total"], abs=1e-4)
    # swing words: all that are named after the check do swing, and nearly all that swing are named
    other = load(control.folder / "model")
    checked, named, unchecked = (
        swings(which, grounded, check=check) for which, check in ((nli, True), (nli, False), (other, False))
    )
    assert checked.true >= 20
    assert checked.right == checked.named
    assert checked.right >= 0.8 * checked.true
    assert named.right / named.true > unchecked.right / unchecked.true


# --- runs -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def old(workshop, tmp_path_factory):  # noqa: F811
    """A model with a feed-forward classifier, barely trained."""
    root = tmp_path_factory.mktemp("old")
    config = parse_config(
        {
            "name": "old",
            "output": str(root / "old"),
            "model": {"encoder": workshop.encoder, "options": {"players": "words"}},
            "data": {"train": workshop.train, "dev": workshop.dev, "max_length": 40},
            "training": {"max_steps": 2, "batch_size": 8, "tensorboard": False, "calibrate": False},
        }
    )
    train(config, show_progress=False)
    return str(config.folder / "model")


GROUNDING = {"warm_steps": 6, "warm_texts": 32, "dev_pairs": 9}


@pytest.mark.parametrize("options", [{}, {"readout_spins": "gate"}], ids=["none", "gate"])
def test_resumed_is_uninterrupted(configure, workshop, old, options):  # noqa: F811
    """Of 21 rows the last step of an epoch has 5; averaged weights, dropout and a warm start are on."""
    settings = {"epochs": 3, "batch_size": 8, "ema": 0.9, "checkpoint_every": 2, "keep": 9, "grounding": GROUNDING}
    model = {"encoder": old, "options": {**SMALL, **options}}
    whole, killed = (configure(train=workshop.ragged, model=model, calibrate=False, **settings) for _ in range(2))
    expected = train(whole, show_progress=False)
    (killed.folder / "checkpoints").mkdir(parents=True)
    (killed.folder / "config.yaml").write_text(dump_config(killed))
    middle = "checkpoints/checkpoint-4"  # the first step of the second epoch has been done
    shutil.copytree(whole.folder / middle, killed.folder / middle)
    shutil.copytree(whole.folder / "model", killed.folder / "best")  # unless a later one is better
    found = train(killed, resume=True, show_progress=False)
    assert found["steps"] == expected["steps"] == 9
    assert history(found) == history(expected)
    for name in ("model.safetensors", "training_weights.safetensors"):
        ends = [load_file(config.folder / "checkpoints" / "checkpoint-9" / name) for config in (whole, killed)]
        assert distance(*ends) == 0.0
    assert [e["step"] for e in found["history"] if "eval_coalition_r2" in e] == [3, 6, 9]


@pytest.mark.slow
@pytest.mark.parametrize("start", ["a trained model", "an encoder"])
def test_two_processes_ground_what_one_grounds(configure, workshop, old, start):  # noqa: F811
    """The effective batch is the same (two processes, or two micro-batches), so are the weights, within 1e-6."""
    section = {**GROUNDING, "share": 0.5, "two_sided": True, "polish_steps": 5, "polish_texts": 32}
    settings = {"epochs": 2, "batch_size": 4, "ema": 0.9, "checkpoint_every": 2, "keep": 9, "calibrate": False}
    model = {"encoder": old if start == "a trained model" else workshop.encoder, "options": SMALL}
    settings |= {"train": workshop.ragged, "model": model, "learning_rate": 1e-3, "grounding": section}
    alone, shared = configure(accumulation=2, **settings), configure(**settings)
    expected = train(alone, show_progress=False)
    done = launched(*TORCHRUN, "-m", "neurogame", "train", "--config", written(shared), "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads((shared.folder / "metrics.json").read_text())
    assert found["steps"] == expected["steps"] > 2
    assert distance(*(load_file(run.folder / "model" / "model.safetensors") for run in (shared, alone))) < 1e-6
    for ours, theirs in zip(history(found), history(expected), strict=True):
        assert ours == pytest.approx(theirs, abs=1e-5)
    assert found["coalition_r2"] == pytest.approx(expected["coalition_r2"], abs=1e-4)


@pytest.mark.parametrize("removal", ["delete", "mask", "pad"])
def test_a_run_writes_down_how_it_removed_words(configure, old, removal, capsys):  # noqa: F811
    """Into the model's configuration, with its R²; nothing is shown where no progress is asked for."""
    section = {**GROUNDING, "removal": removal, "polish_steps": 2, "polish_texts": 32}
    config = configure(model={"encoder": old, "options": SMALL}, max_steps=1, grounding=section, calibrate=False)
    metrics = train(config, show_progress=False)
    kept = json.loads((config.folder / "model" / "config.json").read_text())
    assert (kept["readout_removal"], kept["readout_grounded"]) == (removal, True)
    assert kept["readout_r2"] == metrics["coalition_r2"]
    shown = capsys.readouterr().err
    assert "polish" not in shown
    assert "warm start" not in shown


def test_a_game_that_is_trained_without_grounding_says_so(configure, old):  # noqa: F811
    config = configure(model={"encoder": old, "options": SMALL}, max_steps=1, calibrate=False)
    assert "coalition_r2" not in train(config, show_progress=False)
    kept = json.loads((config.folder / "model" / "config.json").read_text())
    assert (kept["readout_grounded"], kept["readout_r2"]) == (False, None)


def test_the_same_run_twice_and_another_seed(configure, old):  # noqa: F811
    settings = {"max_steps": 2, "model": {"encoder": old, "options": SMALL}, "calibrate": False}
    configs = [configure(grounding=GROUNDING, **settings) for _ in range(3)]
    configs[2] = configs[2].model_copy(update={"seed": 1})
    for config in configs:
        train(config, show_progress=False)
    first, again, other = (load_file(config.folder / "model" / "model.safetensors") for config in configs)
    assert distance(first, again) == 0.0
    assert distance(first, other) > 0.0


def test_weights_of_the_terms_count(configure, old):  # noqa: F811
    """Both at 0, a run with the section is the run without it."""
    settings = {"max_steps": 2, "model": {"encoder": old, "options": SMALL}, "calibrate": False, "still": True}
    off = {"weight": 0.0, "masked": 0.0, "warm_steps": 0}
    cases = [None, off, {**off, "weight": 1.0}, {**off, "masked": 1.0}]
    configs = [configure(grounding=grounding, **settings) for grounding in cases]
    for config in configs:
        train(config, show_progress=False)
    plain, none, weight, masked = (load_file(config.folder / "model" / "model.safetensors") for config in configs)
    assert distance(none, weight) > 1e-6
    assert distance(none, masked) > 1e-6
    assert distance(weight, masked) > 1e-6
    assert distance(plain, none) < 1e-6


def test_rows_of_a_grounded_run_have_words(configure, old):  # noqa: F811
    config = configure(model={"encoder": old, "options": SMALL}, grounding=GROUNDING)
    splits = read_splits(config.data)
    model, tokenizer = build(config, splits)
    assert isinstance(training_rows(config, splits, tokenizer, model), GroundedRows)
    without = configure(model={"encoder": old, "options": SMALL})
    assert WORDS not in training_rows(without, splits, tokenizer, model)[0]


def test_a_game_goes_on_as_it_was_built(configure, tmp_path, caplog):  # noqa: F811
    tiny.game_model().save_pretrained(tmp_path / "game")
    tiny.tokenizer().save_pretrained(tmp_path / "game")
    model = {"encoder": str(tmp_path / "game"), "options": SMALL}
    config = configure(model=model, grounding=GROUNDING, max_steps=1)
    splits = read_splits(config.data)
    model, _ = build(config, splits)
    saved = load_file(tmp_path / "game" / "model.safetensors")
    assert all(torch.equal(x, model.state_dict()[name]) for name, x in saved.items())
    assert not has_new_game(config)
    train(config, show_progress=False)
    assert f"warm_steps = 6 has no effect: {tmp_path / 'game'} has a game already" in caplog.text
    for options, part in (
        ({"readout": "ffn"}, "model.readout"),
        ({**SMALL, "readout_heads": 9}, "model.readout_heads"),
    ):
        with pytest.raises(ConfigError) as raised:
            build(configure(model={"encoder": str(tmp_path / "game"), "options": options}), splits)
        assert part in str(raised.value)
        assert "\n" not in str(raised.value)


def test_a_model_in_which_all_tokens_played_can_get_a_game_of_words(configure, tmp_path):  # noqa: F811
    tiny.model("mean").save_pretrained(tmp_path / "all")
    tiny.tokenizer().save_pretrained(tmp_path / "all")
    config = configure(model={"encoder": str(tmp_path / "all"), "head": "mean", "options": SMALL}, grounding=GROUNDING)
    model, _ = build(config, read_splits(config.data))
    assert set(model.config.special_token_ids) == set(tiny.special_ids())


GAME = {"options": {"readout": "game", "players": "words"}}
WRONG = [
    ({}, {"grounding": {}}, "training.grounding needs a game to ground: model.options.readout = 'game'"),
    ({"options": {"readout": "ffn"}}, {"grounding": {}}, "training.grounding needs a game to ground"),
    ({"kind": "transformers"}, {"grounding": {}}, "training.grounding needs a game to ground"),
    (GAME, {"grounding": {}, "mixup": 0.2}, "training.grounding and training.mixup exclude each other"),
    (GAME, {"grounding": {}, "premise_word_dropout": 0.1}, "training.premise_word_dropout exclude each other"),
    (GAME, {"grounding": {"coalitions": 3}}, "training.grounding.coalitions: Input should be a multiple of 2, got 3"),
    (GAME, {"grounding": {"coalitions": 0}}, "training.grounding.coalitions: "),
    (GAME, {"grounding": {"law": "fair"}}, "training.grounding.law: "),
    (GAME, {"grounding": {"removal": "hide"}}, "training.grounding.removal: "),
    (GAME, {"grounding": {"weight": -0.1}}, "training.grounding.weight: "),
    (GAME, {"grounding": {"warm_texts": 8}}, "training.grounding.warm_texts: "),
    (GAME, {"grounding": "yes"}, "training.grounding: "),
    ({"options": {"readout": "mlp"}}, {}, "readout = 'mlp' is unknown; allowed: 'ffn', 'game'"),
    pytest.param(
        GAME,
        {"grounding": {"wieght": 0.1}},
        "training.grounding.wieght: unknown key; allowed: weight, masked, coalitions",
    ),
]


@pytest.mark.parametrize(("model", "training", "message"), WRONG)
def test_what_cannot_be_grounded_is_one_line(model, training, message):
    content = {
        "name": "run",
        "model": {"encoder": "somewhere", **model},
        "data": {"train": "toy/train", "dev": "toy/dev"},
        "training": training,
    }
    with pytest.raises(ConfigError) as raised:
        parse_config(content, "run.yaml")
    assert str(raised.value).startswith("run.yaml: ")
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)
