"""A game attached to classifiers that are not ours, against shap, lime, captum and shapiq: results/any_classifier.json.

    pip download --no-deps --no-binary :all: vaderSentiment==3.3.2 -d DATA     # rated texts; pairs: see docs/nli.md
    python benchmarks/any_classifier.py --root DATA                            # hours of one core; may be stopped
    python benchmarks/any_classifier.py --root DATA --task sentiment --only curve
    python benchmarks/any_classifier.py --root DATA --limit faithfulness=40 costly=10
    python benchmarks/any_classifier_page.py                                   # the tables of docs/any-classifier.md

For each task (`neurogame_bench.any_classifier.tasks`): a plain BertForSequenceClassification is made of
all-MiniLM-L6-v2 (6 layers × 384) with transformers' own head, trained for one epoch and kept; `neurogame.ground` fits a
game to it with its defaults; then come the parts of `neurogame_bench.any_classifier.parts`. What was done is kept in
RUNS and not done again. Times are processor seconds of one thread, all methods in one run: compare ratios.
"""

import argparse
import time
from pathlib import Path
from typing import Any

import torch
from common import RESULTS, encoder, named, progress, show
from transformers import AutoModelForSequenceClassification, AutoTokenizer

import neurogame
from neurogame._common.records import plain
from neurogame.about import machine
from neurogame.grounding.explainer import Explainer
from neurogame.grounding.fitting import fit_quality, observe
from neurogame.modeling.loading import quiet
from neurogame_bench.any_classifier import tasks
from neurogame_bench.any_classifier.bench import Bench
from neurogame_bench.any_classifier.parts import JUDGED, LIMITS, PARTS
from neurogame_bench.study import Record, Study, checksum, claimed, read, write

NAME = "any_classifier"
HELD = 1000  # test texts on which a classifier is judged


def model_of(data: tasks.Task, folder: Path, given: argparse.Namespace) -> tuple[Any, Any, Record]:
    """The classifier of a task, made where it is not there yet, and how it was made."""
    made = folder / "tuned.json"
    if not made.is_file():
        began = time.process_time()
        model, tokenizer = tasks.tuned(given.encoder, data, texts=given.texts, seed=given.seed, bf16=given.bf16)
        papers = {
            "encoder": named(given.encoder),
            "class": type(model).__name__,
            "texts": min(given.texts, len(data.train)),
            "bf16": given.bf16,
            "minutes": (time.process_time() - began) / 60.0,
            "accuracy": tasks.accuracy(model, tokenizer, data.test[:HELD]),
            "accuracy of": len(data.test[:HELD]),
        }
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        write(made, papers)
    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    return model, AutoTokenizer.from_pretrained(folder), read(made) or {}


def explainer_of(data: tasks.Task, model: Any, tokenizer: Any, folder: Path, given: argparse.Namespace) -> Explainer:
    """The game attached to it, by `neurogame.ground` as it comes; kept with its minutes and its R² on test texts."""
    if not (folder / "fit.json").is_file():
        began = time.process_time()
        done = 0

        def told(count: int) -> None:
            nonlocal done
            if done // 2000 != (done + count) // 2000:
                minutes = (time.process_time() - began) / 60
                progress(f"{data.name}: {done + count} passes and steps, {minutes:.1f} min of processor")
            done += count

        options = {name: value for name in ("most", "coalitions", "steps", "bf16") if (value := getattr(given, name))}
        explainer = neurogame.ground(model, tokenizer, data.fit, seed=given.seed, progress=told, **options)
        minutes = (time.process_time() - began) / 60.0
        explainer.save_pretrained(folder)
        test = [text for text, _ in data.test[:JUDGED]]
        dev = observe(
            model, tokenizer, test, explainer.layers, coalitions=8, removal=explainer.removal, seed=given.seed + 1
        )
        fit = {"core minutes": minutes, "record": dict(explainer.record), "layers": list(explainer.layers)}
        write(folder / "fit.json", plain({**fit, "test": {"texts": len(dev), **fit_quality(explainer.game, dev)}}))
    return Explainer.from_pretrained(folder).bound(model, tokenizer)


def publish(path: Path, name: str, content: Record, parts: Record) -> None:
    """Put what is known of a task into the results; parts of another model go."""
    whole = read(path) or {}
    entry = whole.get(name, {})
    kept = entry.get("parts", {}) if entry.get("protocol") == content["protocol"] else {}
    parts = {**kept, **parts}
    ordered = {key: parts[key] for key in PARTS if key in parts}
    write(path, {**whole, name: {**content, "parts": ordered}})


def main() -> None:
    """Make what is missing, task by task and part by part; print and store each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, required=True, help="folder with the data sets and the release of VADER")
    parser.add_argument("--task", nargs="+", choices=tasks.NAMES, default=list(tasks.NAMES))
    parser.add_argument("--only", nargs="*", choices=tuple(PARTS), help="parts; default: all; empty: fit, no more")
    parser.add_argument("--encoder", type=Path, help="a folder; default: all-MiniLM-L6-v2 of its package")
    parser.add_argument("--texts", type=int, default=8000, help="that a classifier is trained on")
    parser.add_argument("--bf16", action="store_true", help="autocast training, and the passes for fitting")
    parser.add_argument("--most", type=int, help="texts that a game is fitted on; default: that of neurogame.ground")
    parser.add_argument("--coalitions", type=int, help="of each; likewise")
    parser.add_argument("--steps", type=int, help="of fitting; likewise")
    parser.add_argument("--limit", nargs="+", default=[], metavar="NAME=N", help=f"texts of {', '.join(LIMITS)}")
    parser.add_argument("--curve-texts", type=int, nargs="+", help="of the curve")
    parser.add_argument("--curve-coalitions", type=int, nargs="+", help="of the curve")
    parser.add_argument("--curve-steps", type=int, nargs="+", help="of the curve")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder for the results")
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="folder for models and finished steps")
    given = parser.parse_args()
    given.encoder = given.encoder or encoder()
    quiet()
    torch.set_num_threads(given.threads)
    limits = dict(LIMITS)
    for text in given.limit:
        name, _, number = text.partition("=")
        if name not in limits or not number.isdecimal():
            parser.error(f"--limit {text!r}; needed: NAME=N with NAME one of {', '.join(limits)}")
        limits[name] = int(number)
    for name in given.task:
        measure(name, given, limits)


def measure(name: str, given: argparse.Namespace, limits: dict[str, int]) -> None:
    """One task."""
    data = tasks.task(name, given.root, given.seed)
    place = given.runs / NAME / name
    model, tokenizer, tuned = model_of(data, place / "model", given)
    explainer = explainer_of(data, model, tokenizer, place / "explainer", given)
    bench = Bench(data, explainer, given.seed)
    protocol = {"weights": checksum(model), "explainer": checksum(explainer.game), "seed": given.seed}
    content = {
        "machine": machine(),
        "protocol": protocol,
        "classifier": {**tuned, "labels": list(data.labels)},
        "fit": read(place / "explainer" / "fit.json"),
    }
    result = given.out / f"{NAME}.json"
    publish(result, name, content, {})

    def keep(settings: Record) -> Study:
        return Study(f"{NAME}/{name}", {**protocol, **settings}, None, given.runs)

    for part in [key for key in PARTS if given.only is None or key in given.only]:
        options = {}
        if part == "curve":
            grid = {key: getattr(given, f"curve_{key}") for key in ("texts", "coalitions", "steps")}
            options = {key: value for key, value in grid.items() if value}
        found = PARTS[part](bench, limits, keep, **options)
        with claimed(given.runs / NAME / "lock", wait=True):
            publish(result, name, content, {part: found})
        columns = dict.fromkeys(key for row in found["rows"] for key in row)
        show(f"{name}: {part}", [{key: cell(row.get(key)) for key in columns} for row in found["rows"]])


def cell(value: Any) -> str:
    """For the terminal: of a figure its value."""
    if isinstance(value, dict):
        value = value.get("pooled", value)["value"]
    return "–" if value is None else f"{value:.3f}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    main()
