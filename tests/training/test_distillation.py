"""Distillation: targets by hand, the loss of a step, rows without a teacher, columns that are no distribution."""

import json

import numpy as np
import pytest
import torch
from test_grounded_training import SMALL
from test_training import configure, first_batch, logged, made, pairs, workshop  # noqa: F401  fixtures

from neurogame.data import Pair
from neurogame.labels import LABEL2ID, LABELS
from neurogame.training import ConfigError
from neurogame.training.distillation import TaughtRows, targets
from neurogame.training.randomness import derive
from neurogame.training.trainer import first_rows

SAID = {"contradiction": 0.1, "entailment": 0.7, "neutral": 0.2}  # by name: the order of the file does not matter


def taught(label="neutral", **extras):
    return Pair("a fox sleeps", "a fox rests", label, extras)


@pytest.fixture
def column(tmp_path):
    """`column(rows)`: a file of the pairs of the tests, row i with the probabilities `rows(i)` if it is not None."""

    def write(rows):
        lines = []
        for i, pair in enumerate(pairs(24)):
            row = {"premise": pair.premise, "hypothesis": pair.hypothesis, "label": pair.label}
            lines.append(json.dumps(row | ({} if rows(i) is None else {"probabilities": rows(i)})))
        path = tmp_path / "taught.jsonl"
        path.write_text("\n".join(lines) + "\n")
        return str(path)

    return write


def test_targets_by_hand_in_the_order_of_the_model():
    label2id = {"CONTRADICTION": 0, "ENTAILMENT": 1, "NEUTRAL": 2}
    found = targets([taught(probabilities=SAID), taught()], np.array([2, 2]), label2id, 0.25)
    np.testing.assert_allclose(found, [[0.025, 0.175, 0.8], [0.0, 0.0, 1.0]], atol=1e-7)


def test_rounded_probabilities_are_normalised():
    found = targets([taught(probabilities=SAID | {"neutral": 0.2004})], np.array([1]), LABEL2ID, 1.0)
    assert found.sum() == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize(
    "given",
    [
        {"entailment": 0.7, "neutral": 0.2},
        SAID | {"other": 0.0},
        SAID | {"neutral": 0.3},
        SAID | {"neutral": -0.1, "entailment": 1.0},
        SAID | {"neutral": "0.2"},
        SAID | {"neutral": float("nan")},
        [0.7, 0.2, 0.1],
        0.7,
    ],
)
def test_what_is_no_distribution_is_refused(given):
    with pytest.raises(ConfigError, match=r"probabilities of 'a fox sleeps' is .* allowed: entailment, "):
        targets([taught(probabilities=given)], np.array([1]), LABEL2ID, 0.5)


def test_a_run_without_any_teacher_is_refused(configure):  # noqa: F811
    with pytest.raises(ConfigError, match=r"training.distillation = 0.5: no training pair has the column"):
        made(configure(distillation=0.5))


@pytest.mark.parametrize("kind", ["neurogame", "transformers"])
def test_the_loss_of_a_step_is_the_cross_entropy_with_the_target(kind, configure, column):  # noqa: F811
    """Every other row has a teacher; dev is judged by its labels alone."""
    train = column(lambda i: SAID if i % 2 else None)
    trainer = made(configure(kind=kind, still=True, train=train, distillation=0.6, max_steps=1))
    batch = first_batch(trainer)
    target = batch.pop("labels")
    teacher = torch.tensor([SAID[name] for name in LABELS])
    gold = target.argmax(-1)
    mixed = [torch.eye(3)[y] for y in gold]
    expected = [m if float(row.max()) == 1.0 else 0.4 * m + 0.6 * teacher for m, row in zip(mixed, target, strict=True)]
    torch.testing.assert_close(target, torch.stack(expected))
    assert {float(row.max()) == 1.0 for row in target} == {True, False}
    model = trainer.model.train()
    with torch.no_grad():
        draw = {"generator": derive(0, "coalitions", 0)} if kind == "neurogame" else {}
        logits = model(**batch, **draw).logits
    loss = -(target * logits.log_softmax(-1)).sum(-1).mean()
    trainer.train()
    assert logged(trainer, "loss")[0] == pytest.approx(float(loss), abs=1e-6)
    assert len(logged(trainer, "eval_accuracy")) == 1


@pytest.mark.parametrize(
    "settings",
    [
        {"grounding": {"warm_steps": 0, "dev_pairs": 3}},
        {"premise_word_dropout": 0.3},
        {"mixup": 0.4, "mixup_on": "embeddings"},
        {"label_smoothing": 0.1},
    ],
)
def test_a_teacher_that_repeats_the_labels_changes_nothing(settings, configure, column):  # noqa: F811
    """Also where rows are read with their words, lose some of them, or are mixed."""
    sure = column(lambda i: {name: float(name == LABELS[i % 3]) for name in LABELS})
    model = {"options": {**SMALL, "dropout": 0.0}} if "grounding" in settings else None
    losses = []
    for share in (0.0, 0.7):
        trainer = made(configure(still=True, train=sure, model=model, distillation=share, max_steps=2, **settings))
        trainer.train()
        losses.append(logged(trainer, "loss"))
    assert losses[0] == pytest.approx(losses[1], abs=1e-6)


def test_rows_that_do_not_count_keep_their_targets():
    mask = torch.tensor([[1, 1, 0], [1, 1, 1]])
    batch = {"input_ids": mask, "attention_mask": mask, "labels": torch.tensor([[0.2, 0.3, 0.5], [1.0, 0.0, 0.0]])}
    found = first_rows(batch, 1)
    torch.testing.assert_close(found["labels"], batch["labels"][:1])
    assert found["input_ids"].tolist() == [[1, 1]]


def test_rows_know_their_lengths(configure, column):  # noqa: F811
    trainer = made(configure(train=column(lambda _: SAID), distillation=1.0))
    rows = trainer.train_dataset
    assert isinstance(rows, TaughtRows)
    assert len(rows) == len(rows.lengths) == 24
    assert rows.lengths == [len(rows[i]["input_ids"]) for i in range(24)]
