"""Out of domain: HANS by heuristic and label, SNLI-hard, SICK, ANLI, and calibration, for heads trained alike.

    python benchmarks/table.py --root DATA                # the models: runs/table/HEAD-SEED
    python benchmarks/ood.py --root DATA                  # about 8 minutes on two cores; results/ood.json
    python benchmarks/ood.py --root DATA --model big:0=runs/big/model --model small:0=runs/small/model

Without --model: the heads `neurogame`, `cls` and `mean` of the table, all seeds, on fixed samples of each set.
Differences are to the first name, paired by seed and by pair of sentences. ECE has 15 bins of equal width; the
temperature is the one each model was given after training, fitted on SNLI dev pairs.

The default model is measured by benchmarks/ship.py.

Reports with predictions stay in runs/ood; a model that has one for these pairs is not run again.
"""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from common import arguments, progress, show

from neurogame.data import PairDataset
from neurogame.data import load as load_pairs
from neurogame.evaluation import Report, Row, evaluate
from neurogame.modeling.loading import quiet
from neurogame.nli import load
from neurogame_bench.effects import compared, spread, t_interval
from neurogame_bench.study import Record, Study, Task, slug

HEADS = ("neurogame", "cls", "mean")
SIZES = {"hans": 2400, "snli_hard/dev": 1500, "sick/test": 1500, "anli/test": 900}


def models(args: Any) -> dict[tuple[str, int], Path]:
    """(name, seed) → folder."""
    if not args.model:
        return {(head, seed): args.runs / "table" / f"{head}-{seed}" / "model" for seed in args.seeds for head in HEADS}
    found = {}
    for given in args.model:
        label, _, folder = given.partition("=")
        name, _, seed = label.partition(":")
        if not folder or (seed and not seed.isdecimal()):
            raise SystemExit(f"--model {given!r}: expected NAME=FOLDER or NAME:SEED=FOLDER")
        found[name, int(seed or 0)] = Path(folder)
    return found


def sampled(args: Any) -> list[PairDataset]:
    """The sets, each a fixed sample in its own order."""
    found = []
    for name, size in SIZES.items():
        wanted = min(size, args.most or size)
        found.append(load_pairs(name, root=args.root).take(wanted, seed=0))
    return found


def measured(folder: Path, name: str, seed: int, sets: Sequence[PairDataset], kept: Path) -> Report:
    """The report of a model, from `kept` if it is there for the same pairs."""
    called = f"{name} {seed}"
    if (kept / "report.json").exists():
        old = Report.load(kept)
        if [row.fingerprint for row in old.rows] == [data.fingerprint for data in sets]:
            return old
    report = evaluate(load(folder), sets, batch_size=32, name=called)
    report.save(kept, overwrite=True)
    return report


def slim(row: Row) -> Record:
    """What is kept of one model on one set."""
    after = row.calibration.after
    return {
        "n": row.n,
        "accuracy": row.scores.accuracy,
        "interval": row.scores.interval,
        "macro_f1": row.scores.macro_f1,
        "labels": row.scores.labels,
        "confusion": row.scores.confusion,
        "ece": row.calibration.before.ece,
        "ece_scaled": None if after is None else after.ece,
        "bins": row.scores.bins,
        "temperatures": row.calibration.temperatures,
        "temperature_source": row.calibration.source,
        "groups": {
            title: [{**group.key, "n": group.n, "accuracy": group.accuracy, "interval": group.interval} for group in of]
            for title, of in row.groups.items()
        },
    }


def summary(reports: dict[tuple[str, int], Report]) -> list[Record]:
    """By name and set: mean over seeds of accuracy, calibration and groups; the paired difference to the first name."""
    names = list(dict.fromkeys(name for name, _ in reports))
    entries = []
    for name in names:
        own = {seed: report for (of, seed), report in reports.items() if of == name}
        for place, first in enumerate(next(iter(own.values())).rows):
            rows = {seed: report.rows[place] for seed, report in own.items()}
            values = [row.scores.accuracy for row in rows.values()]
            entry: Record = {"name": name, "data": first.data, "pairs": first.n, **spread(values)}
            entry["interval"] = t_interval(values)
            entry["ece"] = spread([row.calibration.before.ece for row in rows.values()])
            scaled = [row.calibration.after.ece for row in rows.values() if row.calibration.after is not None]
            entry["ece_scaled"] = spread(scaled) if scaled else None
            entry["recall"] = {
                label: spread([row.scores.classes[label].recall for row in rows.values()])
                for label in first.scores.labels
            }
            entry["groups"] = {
                title: [
                    {**group.key, "n": group.n, **spread([row.groups[title][k].accuracy for row in rows.values()])}
                    for k, group in enumerate(groups)
                ]
                for title, groups in first.groups.items()
            }
            base = {seed: report.rows[place] for (of, seed), report in reports.items() if of == names[0]}
            entry["difference"] = None if name == names[0] else compared(_correct(rows), _correct(base))
            entries.append(entry)
    return entries


def _correct(rows: dict[int, Row]) -> dict[int, Any]:
    return {seed: row.predictions.aligned.correct for seed, row in rows.items() if row.predictions is not None}


def main() -> None:
    """Evaluate what is missing, collect, print."""
    parser = arguments(__doc__)
    parser.add_argument("--model", action="append", metavar="NAME[:SEED]=FOLDER")
    parser.add_argument("--most", type=int, help="at most so many pairs of each set")
    args = parser.parse_args()
    quiet()
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    sets, folders = sampled(args), models(args)
    missing = [str(folder) for folder in folders.values() if not folder.is_dir()]
    if missing:
        raise SystemExit(f"{missing[0]} is missing; benchmarks/table.py trains it")
    kept = {task: args.runs / "ood" / slug(f"{task[0]}-{task[1]}") for task in folders}
    protocol = {"sets": {data.name: {"pairs": len(data), "fingerprint": data.fingerprint} for data in sets}}
    study = Study("ood", protocol, args.out, args.runs)

    def work(task: Task) -> Record:
        if args.fresh:
            shutil.rmtree(kept[task], ignore_errors=True)
        report = measured(folders[task], *task, sets, kept[task])
        said = " / ".join(f"{100 * row.scores.accuracy:.1f}" for row in report.rows) + " %"
        found = {row.data: slim(row) for row in report.rows}
        return {"parameters": report.rows[0].parameters, "sets": found, "said": said}

    tasks = [task for task in folders if not args.only or task[0] in args.only]
    study.run(tasks, work, jobs=args.jobs, fresh=args.fresh)
    reports = {task: Report.load(folder) for task, folder in kept.items() if (folder / "report.json").exists()}
    entries = summary(reports)
    study.collect(list(dict.fromkeys(name for name, _ in folders)), [seed for _, seed in folders], rows=entries)
    lines = [
        {
            "model": entry["name"],
            "data": entry["data"],
            "pairs": entry["pairs"],
            "accuracy, %": 100 * entry["mean"],
            "sd": "" if entry["sd"] is None else f"{100 * entry['sd']:.1f}",
            "ECE, %": 100 * entry["ece"]["mean"],
            "scaled": "" if entry["ece_scaled"] is None else f"{100 * entry['ece_scaled']['mean']:.1f}",
            "against the first": "" if entry["difference"] is None else entry["difference"]["effect"],
        }
        for entry in entries
    ]
    show("Out of domain", lines)
    progress("HANS: neutral and contradiction count as non-entailment")


if __name__ == "__main__":
    main()
