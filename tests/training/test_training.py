"""The trainer: what a step is, whatever it is divided into; what is averaged, frozen, mixed, scheduled and kept."""

import json
import math
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file
from torch.nn import functional
from transformers import BertConfig, BertModel, BertTokenizer, TrainerCallback

from neurogame.attention import NeuroGameAttention
from neurogame.data import Pair, PairDataset
from neurogame.data.batching import encode
from neurogame.labels import LABELS
from neurogame.modeling.losses import Mixup, mix
from neurogame.training.build import DroppedWords, build, read_splits
from neurogame.training.checkpoints import checkpoints, publish
from neurogame.training.config import TrainingError, parse_config
from neurogame.training.randomness import derive, generator
from neurogame.training.run import make_trainer
from neurogame.training.trainer import TRAINING_WEIGHTS, first_rows, multistep

ANIMALS = ("fox", "heron", "old badger", "very small grey owl", "toad")
VERBS = ("sleeps", "waits", "sings quietly", "digs a hole in the sand")
PLACES = ("by the pond", "under an oak", "here", "on the roof of the barn")


def pairs(count, start=0):
    """Pairs of a few words, of different lengths; the label can be learned from the hypothesis."""
    found = []
    for i in range(start, start + count):
        animal, verb, place = ANIMALS[i % 5], VERBS[i // 5 % 4], PLACES[i // 3 % 4]
        hypothesis = (f"a {animal} {verb}", f"a {animal} is happy", f"no {animal} {verb}")[i % 3]
        found.append(Pair(f"a {animal} {verb} {place}", hypothesis, LABELS[i % 3]))
    return found


def write_pairs(path, rows):
    lines = [json.dumps({"premise": p.premise, "hypothesis": p.hypothesis, "label": p.label}) for p in rows]
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def write_encoder(folder, dropout):
    """A BERT of 2 layers × 32 with random weights, over the words above."""
    words = {w for p in pairs(60) for text in (p.premise, p.hypothesis) for w in text.split()}
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *sorted(words)]
    BertTokenizer(vocab={word: i for i, word in enumerate(names)}).save_pretrained(folder)
    config = BertConfig(
        vocab_size=len(names),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=40,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
    )
    torch.manual_seed(0)
    BertModel(config).save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="session")
def workshop(tmp_path_factory):
    """Folders of two encoders, with dropout and without, and files of pairs."""
    root = tmp_path_factory.mktemp("workshop")
    return SimpleNamespace(
        root=root,
        encoder=write_encoder(root / "encoder", 0.1),
        still=write_encoder(root / "still", 0.0),
        train=write_pairs(root / "train.jsonl", pairs(24)),
        ragged=write_pairs(root / "ragged.jsonl", pairs(21)),
        dev=write_pairs(root / "dev.jsonl", pairs(9, 24)),
    )


@pytest.fixture
def configure(workshop, tmp_path):
    """`configure(kind=…, still=True, training option=…)`: a run in a folder of its own."""
    made = []

    def build_config(*, kind="neurogame", still=False, train=None, model=None, **training):
        encoder = {"encoder": workshop.still if still else workshop.encoder}
        if still and kind == "neurogame":
            encoder["options"] = {"dropout": 0.0}
        recipe = {"batch_size": 8, "learning_rate": 1e-3, "epochs": 1, "tensorboard": False, **training}
        made.append(None)
        return parse_config(
            {
                "name": "run",
                "output": str(tmp_path / f"run{len(made)}"),
                "model": {"kind": kind, **encoder, **(model or {})},
                "data": {"train": train or workshop.train, "dev": workshop.dev, "max_length": 40},
                "training": recipe,
            }
        )

    return build_config


def made(config):
    """The trainer of a run, as `train` makes it."""
    splits = read_splits(config.data)
    return make_trainer(config, *build(config, splits), splits, show_progress=False)


def weights(model):
    return {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}


def distance(a, b):
    return max(float((a[name] - b[name]).abs().max()) for name in a)


def logged(trainer, name):
    return [entry[name] for entry in trainer.state.log_history if name in entry]


class Watch(TrainerCallback):
    """Calls `look(trainer)` after each optimiser step."""

    def __init__(self, trainer, look):
        self.trainer, self.look, self.seen = trainer, look, []
        trainer.add_callback(self)

    def on_step_end(self, *_, **__):
        self.seen.append(self.look(self.trainer))


def first_batch(trainer):
    """The first batch of the first epoch, as tensors."""
    rows = list(trainer._get_train_sampler())[: trainer.args.train_batch_size]
    return trainer.data_collator([trainer.train_dataset[i] for i in rows])


# A step is a step, however it is divided


@pytest.mark.parametrize("kind", ["neurogame", "transformers"])
def test_accumulated_batches_are_one_batch(kind, configure, workshop):
    """8 rows = 4 + 4; and in the last step 5 = 4 + 1, where a mean of means would weigh one row four times."""
    ends, losses = [], []
    for batch, accumulation in ((8, 1), (4, 2)):
        config = configure(kind=kind, still=True, train=workshop.ragged, batch_size=batch, accumulation=accumulation)
        trainer = made(config)
        start = weights(trainer.model)
        trainer.optimizer = torch.optim.SGD(trainer.model.parameters(), lr=0.3)  # linear in the gradient
        trainer.train()
        assert trainer.state.global_step == 3
        ends.append(weights(trainer.model))
        losses.append(logged(trainer, "loss"))
    assert distance(start, ends[0]) > 1e-3
    assert distance(*ends) < 1e-6
    assert losses[0] == pytest.approx(losses[1], abs=1e-6)


def test_the_same_run_twice_and_another_seed(configure):
    settings = {"mixup": 0.2, "premise_word_dropout": 0.2, "ema": 0.9}
    first, second = made(configure(**settings)), made(configure(**settings))
    other = made(configure(**settings).model_copy(update={"seed": 1}))
    for trainer in (first, second, other):
        torch.rand(int(torch.randint(1, 9, ())))  # what ran before does not matter
        trainer.train()
    assert distance(weights(first.model), weights(second.model)) == 0.0
    assert distance(weights(first.model), weights(other.model)) > 1e-3


def test_micro_batches_of_a_step_share_coalitions_and_not_dropout(configure, monkeypatch):
    trainer = made(configure(batch_size=4, accumulation=2))
    seeds, forward = [], type(trainer.model).forward

    def spy(self, *args, generator=None, **kwargs):
        if self.training:
            seeds.append((generator, torch.initial_seed()))
        return forward(self, *args, generator=generator, **kwargs)

    monkeypatch.setattr(type(trainer.model), "forward", spy)
    trainer.train()
    places = [(step, place) for step in range(3) for place in range(2)]
    assert seeds == [(derive(0, "coalitions", step), derive(0, "dropout", step, place)) for step, place in places]


def test_rows_that_do_not_count_leave_no_padding_behind():
    mask = torch.tensor([[1, 1, 0, 0], [1, 1, 1, 0], [1, 1, 1, 1]])
    batch = {"input_ids": mask * 7, "attention_mask": mask, "labels": torch.tensor([2, 0, 1])}
    found = first_rows(batch, 2)
    assert found["input_ids"].tolist() == [[7, 7, 0], [7, 7, 7]]
    assert found["attention_mask"].tolist() == [[1, 1, 0], [1, 1, 1]]
    assert found["labels"].tolist() == [2, 0]


# Averaged weights


@pytest.mark.parametrize("warmup", [False, True])
def test_averaged_weights_are_the_formula(configure, warmup):
    trainer = made(configure(ema=0.9, ema_warmup=warmup, epochs=2))
    seen = Watch(trainer, lambda t: weights(t.model)).seen
    trainer.train()
    mean = seen[0]
    for t, new in enumerate(seen[1:], start=1):
        d = min(0.9, (1 + t) / (10 + t)) if warmup else 0.9
        mean = {name: d * mean[name] + (1 - d) * new[name] for name in mean}
    assert distance(mean, weights(trainer.averaged.module)) < 1e-6
    assert distance(mean, weights(trainer.model)) > 1e-4


def test_what_is_evaluated_and_saved_is_the_average(configure):
    trainer = made(configure(ema=0.5, epochs=2, learning_rate=0.02))
    trainer.train()
    raw, average = weights(trainer.model), weights(trainer.averaged.module)
    folder = checkpoints(_folder(trainer))[-1]
    assert distance(load_file(folder / "model.safetensors"), average) == 0.0
    assert distance(load_file(folder / TRAINING_WEIGHTS), raw) == 0.0
    found = trainer.evaluate()["eval_loss"]
    assert distance(weights(trainer.model), raw) == 0.0  # put back
    trainer.model.load_state_dict(average)
    assert found == pytest.approx(plain_loss(trainer), abs=1e-6)
    trainer.model.load_state_dict(raw)
    assert abs(found - plain_loss(trainer)) > 1e-5


def test_without_average_the_weights_themselves(configure):
    trainer = made(configure())
    trainer.train()
    assert trainer.averaged is None
    folder = checkpoints(_folder(trainer))[-1]
    assert distance(load_file(folder / "model.safetensors"), weights(trainer.model)) == 0.0
    assert not (folder / TRAINING_WEIGHTS).exists()


def _folder(trainer):
    return Path(trainer.args.output_dir)


def plain_loss(trainer):
    """Mean cross-entropy on dev, by hand."""
    rows = [trainer.eval_dataset[i] for i in range(len(trainer.eval_dataset))]
    batch = trainer.data_collator(rows)
    labels = batch.pop("labels")
    trainer.model.eval()
    with torch.no_grad():
        log_p = trainer.model(**batch).logits.log_softmax(-1)
    return -float(log_p[torch.arange(len(labels)), labels].mean())


# Learning rates, decay, what is frozen


def test_multistep_through_the_log(configure):
    trainer = made(
        configure(schedule="multistep", milestones=[3, 4], epochs=5, warmup=0.15, learning_rate=1e-3, batch_size=6)
    )
    trainer.train()
    rates = logged(trainer, "learning_rate")  # 4 steps an epoch, the first 3 of 20 warm up
    expected = [0.25, 0.5, 0.75] + [1.0] * 9 + [0.1] * 4 + [0.01] * 4
    assert rates == pytest.approx([1e-3 * factor for factor in expected])


def test_multistep_factors():
    factor = multistep(2, [6.0, 8.4], 0.1)
    assert [factor(s) for s in (0, 1, 2, 5, 6, 8, 9)] == pytest.approx([1 / 3, 2 / 3, 1, 1, 0.1, 0.1, 0.01])


def test_plateau_halves_the_rate_after_an_evaluation_without_improvement(configure):
    trainer = made(configure(schedule="plateau", decay=0.5, warmup=0.0, epochs=4))
    values = iter((0.5, 0.4, 0.6, 0.6))
    trainer.compute_metrics = lambda _: {"accuracy": next(values)}
    trainer.train()
    rates = logged(trainer, "learning_rate")
    assert rates == pytest.approx([1e-3] * 6 + [5e-4] * 6)


def test_parameter_groups(configure):
    trainer = made(configure(head_multiplier=10.0, weight_decay=0.3))
    optimizer = trainer.create_optimizer()
    assert trainer.create_optimizer() is optimizer  # and is not multiplied again
    where = {id(p): group for group in optimizer.param_groups for p in group["params"]}
    assert len(where) == len(list(trainer.model.parameters()))
    for name, parameter in trainer.model.named_parameters():
        group = where[id(parameter)]
        assert group["lr"] == pytest.approx(1e-3 if name.startswith("encoder.") else 1e-2), name
        plain = parameter.dim() < 2 or "LayerNorm" in name
        assert group["weight_decay"] == (0.0 if plain else 0.3), name
    scalars = [name for name, _ in trainer.model.named_parameters() if "log_gamma" in name or "background" in name]
    scalars += [name for name, _ in trainer.model.named_parameters() if "coupling_logit" in name]
    assert len(scalars) == 3


@pytest.mark.parametrize("kind", ["neurogame", "transformers"])
def test_dropout_of_the_encoder_alone(kind, configure):
    trainer = made(configure(kind=kind, encoder_dropout=0.31))
    rates = {module.p for module in trainer.model.base_model.modules() if isinstance(module, torch.nn.Dropout)}
    everywhere = {module.p for module in trainer.model.modules() if isinstance(module, torch.nn.Dropout)}
    assert rates == {0.31}
    assert everywhere - rates  # the classifier keeps its own


@pytest.mark.parametrize("kind", ["neurogame", "transformers"])
@pytest.mark.parametrize("freeze", ["embeddings", "encoder"])
def test_frozen_is_frozen_and_the_rest_moves(kind, freeze, configure):
    trainer = made(configure(kind=kind, freeze=freeze, weight_decay=0.5, learning_rate=0.01, ema=0.9, warmup=0.0))
    start = weights(trainer.model)
    trainer.train()
    prefix = "encoder." if kind == "neurogame" else "bert."
    prefix += "embeddings.word_embeddings." if freeze == "embeddings" else ""
    for found in (weights(trainer.model), weights(trainer.averaged.module)):
        for name in start:
            still = torch.equal(found[name], start[name])
            assert still == name.startswith(prefix), name


@pytest.mark.parametrize("kind", ["neurogame", "transformers"])
def test_the_lowest_layers_stay_with_the_embeddings_below_them(kind, configure):
    trainer = made(configure(kind=kind, freeze_layers=1, weight_decay=0.5, learning_rate=0.01, warmup=0.0))
    start = weights(trainer.model)
    trainer.train()
    base = "encoder." if kind == "neurogame" else "bert."
    end = weights(trainer.model)
    for name in start:
        still = torch.equal(end[name], start[name])
        assert still == name.startswith((f"{base}embeddings.", f"{base}encoder.layer.0.")), name


def test_a_layer_is_left_to_train(configure):
    with pytest.raises(TrainingError, match=r"training.freeze_layers = 2: BertModel has 2 layers; one must be left"):
        made(configure(freeze_layers=2))


def test_a_saved_model_can_be_frozen_although_loading_thaws_it(configure):
    first = made(configure(freeze="embeddings"))
    first.train()
    saved = str(checkpoints(_folder(first))[-1])
    trainer = made(configure(model={"encoder": saved}, freeze="encoder", weight_decay=0.5))
    start = weights(trainer.model)
    assert distance(start, weights(first.model)) == 0.0
    trainer.train()
    end = weights(trainer.model)
    assert all(torch.equal(start[name], end[name]) for name in start if name.startswith("encoder."))
    assert not torch.equal(start["classifier.out.weight"], end["classifier.out.weight"])


# The temperature


def gammas(trainer):
    models = [trainer.model] + ([] if trainer.averaged is None else [trainer.averaged.module])
    return [m.log_gamma.detach().exp().mean().item() for model in models for m in model.modules() if _is_layer(m)]


def _is_layer(module):
    return isinstance(module, NeuroGameAttention)


def test_a_learned_temperature_moves(configure):
    trainer = made(configure(gamma={"start": 0.5}, warmup=0.0))
    seen = Watch(trainer, gammas).seen
    trainer.train()
    layer = next(filter(_is_layer, trainer.model.modules()))
    assert all(abs(layer.gamma.detach() - 0.5) > 1e-4)  # each head's
    assert logged(trainer, "gamma") == pytest.approx([gamma[0] for gamma in seen])


def test_a_constant_temperature_stays(configure):
    trainer = made(configure(gamma={"schedule": "constant", "start": 0.4}, weight_decay=0.5, ema=0.9))
    seen = Watch(trainer, gammas).seen
    trainer.train()
    assert [g for both in seen for g in both] == pytest.approx([0.4] * 6)


def test_an_annealed_temperature_follows_its_formula_and_is_not_averaged(configure):
    trainer = made(configure(gamma={"schedule": "annealed", "start": 2.0, "end": 0.2}, epochs=2, ema=0.99))
    seen = Watch(trainer, gammas).seen
    trainer.train()
    expected = [2.0 ** (1 - t / 5) * 0.2 ** (t / 5) for t in range(6)]
    assert [model for model, _ in seen] == pytest.approx(expected)
    assert [average for _, average in seen] == pytest.approx(expected)
    assert expected[-1] == pytest.approx(0.2)


# Mixup and label smoothing


def smooth_loss(logits, labels, epsilon):
    """−Σ_k q_k log p_k with q = (1 − ε)·onehot + ε/3, row by row."""
    q = (1 - epsilon) * functional.one_hot(labels, 3) + epsilon / 3
    return -(q * logits.log_softmax(-1)).sum(-1)


@pytest.mark.parametrize(
    ("kind", "on"), [("neurogame", "pooled"), ("neurogame", "embeddings"), ("transformers", "embeddings")]
)
def test_mixup_and_label_smoothing_by_hand(kind, on, configure):
    trainer = made(configure(kind=kind, still=True, mixup=0.4, mixup_on=on, label_smoothing=0.1, max_steps=1))
    model, batch = trainer.model, first_batch(trainer)
    labels = batch.pop("labels")
    partner, w = Mixup.draw(8, 0.4, generator(0, "mixup", 0, 0))
    assert 0.01 < w < 0.99
    extra = {"generator": derive(0, "coalitions", 0)} if kind == "neurogame" else {}
    model.train()
    with torch.no_grad():
        if on == "embeddings":
            words = model.get_input_embeddings()(batch.pop("input_ids"))
            batch["inputs_embeds"] = w * words + (1 - w) * words[partner]
            batch["attention_mask"] = batch["attention_mask"] | batch["attention_mask"][partner]
            logits = model(**batch, **extra).logits
        else:
            x = model.encoder(**batch)[0]
            z = model.pooling(x, batch["attention_mask"].bool(), **extra).output
            logits = model.classifier(w * z + (1 - w) * z[partner])
    loss = w * smooth_loss(logits, labels, 0.1) + (1 - w) * smooth_loss(logits, labels[partner], 0.1)
    trainer.train()
    assert logged(trainer, "loss")[0] == pytest.approx(float(loss.mean()), abs=1e-6)
    assert logged(trainer, "eval_loss")[0] == pytest.approx(plain_loss(trainer), abs=1e-6)  # neither in evaluation


def test_words_alone_play_in_mixed_embeddings(configure):
    """Special tokens are known by their ids, which mixed embeddings no longer have."""
    model = {"options": {"players": "words", "dropout": 0.0}}
    trainer = made(configure(still=True, model=model, mixup=0.4, mixup_on="embeddings", max_steps=1))
    batch, seen = first_batch(trainer), []
    trainer.model.pooling.register_forward_pre_hook(lambda _, args: seen.append(args[1]))
    trainer.train()
    partner, _ = Mixup.draw(8, 0.4, generator(0, "mixup", 0, 0))
    word = batch["input_ids"] > 4
    assert torch.equal(seen[0], word | word[partner])


def test_mix_leaves_the_rows_alone_without_mixup():
    z = torch.randn(3, 2)
    assert mix(z, None) is z


# Words dropped from the premise


@pytest.fixture
def dropped(workshop):
    """`dropped(rate, rows)`: the data set, and for each epoch and row what is left of the pair."""
    tokenizer = BertTokenizer.from_pretrained(workshop.encoder)

    def make(rate, rows, seed=0):
        data = PairDataset(tuple(rows), "rows")
        return DroppedWords(data, encode(data, tokenizer, max_length=40), tokenizer, rate, seed)

    def texts(data, index):
        premise, hypothesis = tokenizer.decode(data[index]["input_ids"]).split("[SEP]")[:2]
        return premise.replace("[CLS]", "").split(), hypothesis.split()

    return make, texts


def test_word_dropout_spares_the_hypothesis_and_a_word_of_the_premise(dropped):
    make, texts = dropped
    rows = pairs(30)
    data, kept = make(0.9, rows), 0
    for epoch in range(3):
        data.set_epoch(epoch)
        for i, pair in enumerate(rows):
            premise, hypothesis = texts(data, i)
            assert hypothesis == pair.hypothesis.split()
            words = iter(pair.premise.split())
            assert premise  # not empty
            assert all(word in words for word in premise)  # in their order
            kept += len(premise)
            assert data[i]["labels"] == LABELS.index(pair.label)
    assert kept < 0.4 * 3 * sum(len(p.premise.split()) for p in rows)


def test_word_dropout_is_a_function_of_seed_epoch_and_row(dropped):
    make, texts = dropped
    rows = [pairs(5)[4]] * 40  # the same sentence: rows differ by what is dropped
    data, other, again = make(0.3, rows), make(0.3, rows, seed=1), make(0.3, rows)
    found = [texts(data, i) for i in range(40)]
    assert len({tuple(premise) for premise, _ in found}) > 10
    assert [texts(again, i) for i in reversed(range(40))][::-1] == found
    assert [texts(other, i) for i in range(40)] != found
    data.set_epoch(1)
    assert [texts(data, i) for i in range(40)] != found
    data.set_epoch(0)
    assert [texts(data, i) for i in range(40)] == found


def test_word_dropout_has_the_rate_it_says(dropped):
    make, texts = dropped
    rows = pairs(60)
    data = make(0.25, rows)
    total = sum(len(pair.premise.split()) for pair in rows)
    left = sum(len(texts(data, i)[0]) for i in range(60))
    error = math.sqrt(0.25 * 0.75 / total)
    assert abs(1 - left / total - 0.25) < 5 * error
    assert data.lengths == data.encoded.lengths


def test_the_epoch_reaches_sampler_and_data_also_when_resumed(configure, monkeypatch):
    seen, get = [], DroppedWords.__getitem__
    monkeypatch.setattr(DroppedWords, "__getitem__", lambda self, i: (seen.append((self.epoch, i)), get(self, i))[1])
    config = configure(premise_word_dropout=0.3, epochs=3, checkpoint_every=4)  # step 4 is the first of epoch 1
    trainer = made(config)
    trainer.train()
    whole = list(seen)
    assert [epoch for epoch, _ in whole] == [0] * 24 + [1] * 24 + [2] * 24
    assert len({tuple(i for epoch, i in whole if epoch == e) for e in range(3)}) == 3
    seen.clear()
    again = made(config)
    again.train(resume_from_checkpoint=str(_folder(trainer) / "checkpoint-8"))
    assert seen == whole[-8:]
    seen.clear()
    other = configure(premise_word_dropout=0.3, epochs=3, checkpoint_every=4)
    first = made(other)
    Watch(first, lambda t: setattr(t.control, "should_training_stop", t.state.global_step >= 5))
    first.train()
    seen.clear()
    made(other).train(resume_from_checkpoint=str(_folder(first) / "checkpoint-4"))
    assert seen == whole[32:]


# Checkpoints, the best model, stopping


def test_older_checkpoints_go_only_when_a_newer_one_is_whole(configure, monkeypatch):
    trainer = made(configure(epochs=4, keep=1))
    present = []

    def look(folder, step, keep):
        """All files of the new one have been written, under another name."""
        before = [path.name for path in checkpoints(folder)]
        publish(folder, step, keep)
        present.append((before, [path.name for path in folder.iterdir()]))

    monkeypatch.setattr("neurogame.training.trainer.publish", look)
    trainer.train()
    names = [f"checkpoint-{step}" for step in (3, 6, 9, 12)]
    assert present == [([], names[:1]), *(([old], [new]) for old, new in pairwise(names))]


def test_the_log_is_written_out_with_a_checkpoint(configure):
    """Otherwise the first entry after a resumption would be a mean over fewer steps."""
    trainer = made(configure(checkpoint_every=2, epochs=2))
    trainer.args.logging_steps, trainer.args.logging_first_step = 5, False
    trainer.train()
    assert [entry["step"] for entry in trainer.state.log_history if "loss" in entry] == [2, 4, 5, 6]


def test_patience_stops_and_the_best_model_is_kept(configure):
    config = configure(epochs=9, patience=2, ema=0.5)
    trainer = made(config)
    values = iter((0.5, 0.6, 0.55, 0.6, 0.9))  # a tie is not better
    seen = []

    def metric(_):
        seen.append(weights(trainer.model))  # averaged, during an evaluation
        return {"accuracy": next(values)}

    trainer.compute_metrics = metric
    trainer.train()
    assert trainer.state.global_step == 4 * 3
    assert distance(load_file(config.folder / "best" / "model.safetensors"), seen[1]) == 0.0


def test_steps_without_evaluation_end_with_one(configure):
    config = configure(evaluate_every=100, max_steps=2)
    trainer = made(config)
    trainer.train()
    assert [e["step"] for e in trainer.state.log_history if "eval_accuracy" in e] == [2]
    assert (config.folder / "best" / "model.safetensors").exists()


# Precision, memory, failure


def test_bf16_and_gradient_checkpointing(configure):
    found = []
    for settings in ({}, {"gradient_checkpointing": True}, {"bf16": True}):
        trainer = made(configure(**settings))
        trainer.train()
        assert all(torch.isfinite(p).all() for p in trainer.model.parameters())
        assert all(p.dtype == torch.float32 for p in trainer.model.parameters())
        found.append(logged(trainer, "loss"))
    assert found[1] == pytest.approx(found[0], abs=1e-5)  # the dropout that is done again is the same
    assert found[2] == pytest.approx(found[0], abs=0.05)
    assert found[2] != found[0]


@pytest.mark.parametrize("kind", ["neurogame", "transformers"])
def test_a_run_that_diverges_stops_with_one_line(kind, configure):
    trainer = made(configure(kind=kind, learning_rate=1e30, clip=0.0, warmup=0.0, epochs=4))
    with pytest.raises(TrainingError, match=r"at step \d+") as caught:
        trainer.train()
    assert "\n" not in str(caught.value)


def test_a_gradient_that_is_not_finite_never_reaches_the_weights(configure):
    trainer = made(configure(kind="transformers"))
    trainer.model.classifier.bias.register_hook(lambda gradient: gradient * math.nan)
    with pytest.raises(TrainingError, match="the gradient is nan at step 1"):
        trainer.train()
    assert all(torch.isfinite(p).all() for p in trainer.model.parameters())
