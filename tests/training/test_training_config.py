"""The run file: what is accepted, what is refused and how; the files in configs/; the randomness of a run."""

from itertools import pairwise
from pathlib import Path

import pytest
import yaml

from neurogame.training.config import ConfigError, RunConfig, dump_config, parse_config, read_config
from neurogame.training.randomness import LengthGroupedSampler, derive, generator

CONFIGS = Path(__file__).parents[2] / "configs"


def content(**sections):
    """A minimal run, with changes."""
    found = {"name": "run", "model": {"encoder": "bert"}, "data": {"train": "a.jsonl", "dev": "b.jsonl"}}
    return {**found, **sections}


def refused(*parts, **sections):
    """The one line with which a run is refused; it must contain `parts`."""
    with pytest.raises(ConfigError) as caught:
        parse_config(content(**sections), "run.yaml")
    message = str(caught.value)
    assert "\n" not in message
    for part in ("run.yaml: ", *parts):
        assert part in message
    return message


# The files that are shipped


@pytest.mark.parametrize("path", sorted(CONFIGS.rglob("*.yaml")), ids=lambda path: str(path.relative_to(CONFIGS)))
def test_every_shipped_file_is_a_run(path):
    config = read_config(path)
    assert config.name == path.stem
    assert config.output is None


def test_shipped_files_cover_the_papers_table():
    models = {
        "dam",
        "esim",
        *(f"{kind}-{size}" for kind in ("bert", "roberta", "albert") for size in ("base", "large")),
    }
    assert {path.stem for path in (CONFIGS / "baselines").glob("*.yaml")} == models
    for name in models:
        config = read_config(CONFIGS / "baselines" / f"{name}.yaml")
        assert config.model.kind == (name if name in ("dam", "esim") else "transformers")
        assert config.data.train == ["snli/train"]


@pytest.mark.parametrize("name", ["paper-snli", "paper-mnli"])
def test_the_papers_recipe_to_the_letter(name):
    config = read_config(CONFIGS / f"{name}.yaml")
    t, model = config.training, config.model
    assert (model.encoder, model.head, model.preset) == ("bert-base-uncased", "neurogame", "paper")
    assert (t.optimizer, t.learning_rate, t.weight_decay, t.epochs) == ("adamw", 3e-5, 0.02, 5)
    assert (t.schedule, t.warmup, t.milestones, t.decay) == ("multistep", 0.1, [3, 4], 0.1)
    assert (t.batch_size, t.accumulation, t.clip) == (16, 2, 1.0)
    assert (model.options["dropout"], t.label_smoothing, t.mixup, t.mixup_on) == (0.15, 0.1, 0.2, "pooled")
    assert (t.ema, t.ema_warmup, t.premise_word_dropout) == (0.999, False, 0.0)
    assert config.data.max_length == 128
    assert model.options["equal_size"] is False  # one hidden layer of the encoder's width


def test_the_default_file_says_what_the_defaults_are():
    """Its comments promise that a key without a note has the value that it has if it is left out."""
    shipped = yaml.safe_load((CONFIGS / "default.yaml").read_text())
    default = parse_config(content()).training.model_dump()
    differing = {"freeze", "patience"}
    for name, value in shipped["training"].items():
        if name not in differing | {"gamma"}:
            assert value == default[name], name
    assert differing <= set(shipped["training"])


def test_a_written_config_is_the_same_run(tmp_path):
    for path in CONFIGS.rglob("*.yaml"):
        config = read_config(path)
        (tmp_path / "config.yaml").write_text(dump_config(config))
        assert read_config(tmp_path / "config.yaml") == config


# What is refused


def test_unknown_keys_name_the_allowed_ones():
    refused("epoch: unknown key", "allowed: name, output, seed, model", epoch=3)
    refused("training.epoch: unknown key", "epochs, max_steps", training={"epoch": 3})
    refused("training.gamma.begin: unknown key", "allowed: schedule, start, end", training={"gamma": {"begin": 1}})
    refused("data.tset: unknown key", "train, dev, test", data={"train": "a", "dev": "b", "tset": "c"})
    message = refused("(and 1 more)", epoch=3, seeds=1)
    assert message.count("unknown key") == 1


@pytest.mark.parametrize(
    ("section", "value", "parts"),
    [
        ("seed", "many", ("seed", "integer", "'many'")),
        ("seed", -1, ("seed", "greater than or equal to 0")),
        ("name", "../up", ("name", "pattern")),
        ("model", "bert", ("model", "dictionary")),
        ("training", {"epochs": "three"}, ("training.epochs", "number", "'three'")),
        ("training", {"ema": 1.0}, ("training.ema", "less than 1")),
        ("training", {"batch_size": 0}, ("training.batch_size", "greater than or equal to 1", "0")),
        ("training", {"schedule": "cosinus"}, ("training.schedule", "'multistep'", "'cosinus'")),
        ("training", {"schedule": "multistep"}, ("training", "needs milestones")),
        ("training", {"milestones": [1]}, ("training", "belong to schedule = 'multistep'")),
        ("training", {"schedule": "multistep", "milestones": [3], "epochs": 3}, ("within the 3 epochs",)),
        ("training", {"schedule": "plateau"}, ("no warm-up",)),
        ("training", {"gamma": {"schedule": "annealed", "start": 1.0}}, ("needs start and end",)),
        ("training", {"gamma": {"schedule": "constant", "end": 1.0}}, ("end belongs to",)),
        ("data", {"train": [], "dev": "b"}, ("data.train", "at least one")),
        ("data", {"train": "a"}, ("data.dev", "required")),
        ("data", {"train": "a", "dev": "b", "max_length": 2}, ("data.max_length",)),
    ],
)
def test_wrong_values(section, value, parts):
    refused(*parts, **{section: value})


@pytest.mark.parametrize(
    ("model", "parts"),
    [
        ({"kind": "bert", "encoder": "x"}, ("model.kind", "'esim'", "'bert'")),
        ({"encoder": "x", "head": "nonsense"}, ("model.head", "'hopfield'", "'nonsense'")),
        ({"encoder": "x", "preset": "papre"}, ("model.preset", "'papre'")),
        ({"encoder": "x", "attention": {"sample": 3}}, ("model.attention", "'sample' is unknown", "samples")),
        ({"encoder": "x", "attention": {"samples": "few"}}, ("model.attention", "samples: ", "'few'")),
        ({"encoder": "x", "attention": {"samples": 0}}, ("samples",)),
        ({"encoder": "x", "attention": {"estimator": "algorithm1"}}, ("needs a tilt",)),
        ({"encoder": "x", "options": {"dropuot": 0.1}}, ("model.options", "'dropuot' is unknown", "classifier_layers")),
        ({"encoder": "x", "options": {"dropout": 1.5}}, ("dropout must be in [0, 1)",)),
        ({"encoder": "x", "options": {"heads": "four"}}, ("model.options", "heads", "'four'")),
        ({"encoder": "x", "options": {"head": "mean"}}, ("'head' is unknown",)),
        ({"encoder": "x", "vectors": "glove.txt"}, ("vectors belong to",)),
        ({"kind": "neurogame"}, ("encoder is missing",)),
        ({"kind": "transformers"}, ("encoder is missing",)),
        ({"kind": "transformers", "encoder": "x", "head": "mean"}, ("head belongs to kind = 'neurogame'",)),
        ({"kind": "dam", "preset": "paper"}, ("preset belongs to",)),
        ({"kind": "dam", "encoder": "x"}, ("encoder belongs to",)),
        ({"kind": "dam", "attention": {"samples": 8}}, ("attention belongs to",)),
        ({"kind": "dam", "options": {"dropout": -0.1}}, ("dropout must be in [0, 1)",)),
        ({"kind": "esim", "options": {"embeddings_trainable": "some"}}, ("embeddings_trainable", "'missing'")),
        ({"kind": "esim", "options": {"vocab_size": 9}}, ("'vocab_size' is unknown", "min_count")),
        ({"kind": "esim", "options": {"min_count": 0}}, ("min_count must be at least 1",)),
    ],
)
def test_a_model_is_checked_before_anything_runs(model, parts):
    refused(*parts, model=model)


@pytest.mark.parametrize(
    ("model", "training", "part"),
    [
        ({"kind": "transformers", "encoder": "x"}, {"mixup": 0.2}, "use 'embeddings'"),
        ({"kind": "dam"}, {"mixup": 0.2, "mixup_on": "embeddings"}, "use 'pooled'"),
        ({"kind": "esim"}, {"gradient_checkpointing": True}, "needs an encoder"),
        ({"encoder": "x", "head": "mean"}, {"gamma": {"schedule": "constant"}}, "needs the neurogame head"),
        ({"kind": "dam"}, {"gamma": {"start": 0.5}}, "needs the neurogame head"),
    ],
)
def test_impossible_combinations(model, training, part):
    refused(part, model=model, training=training)


def test_numbers_that_yaml_takes_for_text():
    """1e-5 without a point is a string in YAML 1.1."""
    text = yaml.safe_load("{learning_rate: 1e-5}")
    assert isinstance(text["learning_rate"], str)
    model = {"encoder": "x", "attention": {"tol": "1e-5"}, "options": {"dropout": "2e-1"}}
    config = parse_config(content(training=text, model=model))
    assert config.training.learning_rate == 1e-5
    assert config.model.attention == {"tol": 1e-5}
    assert config.model.options == {"dropout": 0.2}


def test_an_empty_section_has_the_defaults():
    assert parse_config(content(training=None)).training == RunConfig.model_validate(content()).training
    refused("encoder is missing", model=None)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("a: [", "not valid YAML"),
        ("- a\n- b\n", "found list"),
        ("", "found NoneType"),
        ("\xff", "YAML"),
        ("seed: 1\nseed: 2\n", "seed is given twice"),
        ("training: {epochs: 1, epochs: 2}\n", "epochs is given twice"),
    ],
)
def test_files_that_are_no_run(tmp_path, text, part):
    path = tmp_path / "run.yaml"
    path.write_text(text, encoding="latin-1")
    with pytest.raises(ConfigError, match=part) as caught:
        read_config(path)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_missing_file_and_a_folder(tmp_path):
    with pytest.raises(ConfigError, match="No such file"):
        read_config(tmp_path / "none.yaml")
    with pytest.raises(ConfigError, match="directory"):
        read_config(tmp_path)


def test_overrides(tmp_path):
    path = tmp_path / "run.yaml"
    path.write_text(yaml.safe_dump(content(training=None)))
    config = read_config(
        path, ["training.epochs=1", "data.train=[c.jsonl, d.jsonl]", "seed=7", "training.gamma.start=.5"]
    )
    assert (config.training.epochs, config.seed, config.training.gamma.start) == (1.0, 7, 0.5)
    assert config.data.train == ["c.jsonl", "d.jsonl"]
    for override, part in [
        ("training.epochs", "expected key=value"),
        ("=3", "expected key=value"),
        ("training.epochs=[", "not valid YAML"),
        ("training={epochs: 1, epochs: 2}", "not valid YAML"),
        ("name.first=x", "name is not a section"),
        ("training.epoch=3", "unknown key; allowed: optimizer, epochs"),
        ("training.epochs=none", "number"),
    ]:
        with pytest.raises(ConfigError, match=part) as caught:
            read_config(path, [override])
        assert "\n" not in str(caught.value)


# Randomness


def test_derived_seeds_are_stable_and_differ():
    assert derive(0, "dropout", 3, 1) == 278750480320868431
    paths = [(s, what, step) for s in (0, 1) for what in ("dropout", "mixup") for step in range(20)]
    assert len({derive(*path) for path in paths}) == len(paths)
    assert all(0 <= derive(*path) < 2**62 for path in paths)
    assert generator(3, "order", 1).initial_seed() == derive(3, "order", 1)


@pytest.mark.parametrize(("rows", "batch"), [(50, 8), (8, 8), (5, 8), (64, 8), (1, 4), (997, 4)])
def test_the_sampler_covers_each_row_once(rows, batch):
    lengths = [3 + (7 * i) % 23 for i in range(rows)]
    sampler = LengthGroupedSampler(lengths, batch, seed=1)
    first = list(sampler)
    assert sorted(first) == list(range(rows))
    assert len(sampler) == rows
    assert list(LengthGroupedSampler(lengths, batch, seed=1)) == first
    assert max(lengths) in [lengths[i] for i in first[:batch]]
    sampler.set_epoch(1)
    second = list(sampler)
    assert sorted(second) == list(range(rows))
    if rows > batch:
        assert second != first
        assert list(LengthGroupedSampler(lengths, batch, seed=2)) != first
    sampler.set_epoch(0)
    assert list(sampler) == first


def test_the_sampler_groups_by_length_without_sorting_the_steps():
    lengths = [3 + (7 * i) % 23 for i in range(640)]
    order = list(LengthGroupedSampler(lengths, 8, seed=0))
    steps = [[lengths[i] for i in order[k : k + 8]] for k in range(0, 640, 8)]
    assert sum(max(step) - min(step) for step in steps) / len(steps) < 3  # of 22 over all
    means = [sum(step) for step in steps]
    falls = sum(a > b for a, b in pairwise(means))
    assert 20 < falls < 60  # of 79: sorted steps would fall nearly always


def test_rows_repeated_for_several_processes_come_last():
    lengths = [9, 4, 7, 8, 6, 5, 9]
    alone, shared = (list(LengthGroupedSampler(lengths, 4, seed=0, multiple=m)) for m in (1, 4))
    assert shared == [*alone, 1]
    assert len(LengthGroupedSampler(lengths, 4, seed=0, multiple=4)) == 8


# found by the fuzzer
@pytest.mark.parametrize("text", ["2001-99-99", "0b_", "!!int x", "[" * 2000, '"a\\nb": 1'])
def test_what_yaml_stumbles_over_is_refused_in_one_line(tmp_path, text):
    path = tmp_path / "run.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as refused:
        read_config(path)
    assert len(str(refused.value).splitlines()) == 1
