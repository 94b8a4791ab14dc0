"""Data sets by name: which files make up "snli/dev", where they are looked for, and what they are called on the hub.

A name is "set/split". Local files come first, in the layouts the sets are published in and as plain
JSON lines; the hub only when it is asked for. How a file is read is in `reading`.
"""

import difflib
import os
from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from neurogame.data import fragments
from neurogame.data.formats import STDIN, kind_of
from neurogame.data.grammar import generate
from neurogame.data.pairs import DataError, Malformed, Pair, PairDataset, concatenate
from neurogame.data.reading import LabelNames, OnError, Row, Rule, check_limit, collect, read
from neurogame.extras import need

ROOT_VARIABLE = "NEUROGAME_DATA"
HUB_IDS = {
    "snli": "stanfordnlp/snli",
    "mnli": "nyu-mll/multi_nli",
    "hans": "jhu-cogsci/hans",
    "esnli": "esnli/esnli",
    "sick": "RobZamp/sick",
    "anli": "facebook/anli",
}
TOY = {"toy/train": (4000, 0), "toy/dev": (600, 1)}  # pairs, seed
FRAGMENTS: dict[str, tuple[int, int, fragments.Part]] = {  # pairs, seed, part
    "fragments/train": (12_000, 0, "train"),
    "fragments/dev": (1500, 1, "dev"),
    "fragments/test": (1500, 2, "test"),
}
PROBES = {f"fragments/probe_{name}": name for name in fragments.PROBES}
_PLAIN_FOLDERS = ("", "train/", "eval/")
_SUBSTITUTES = {"validation": "dev", "valid": "dev", "val": "dev", "trial": "dev", "training": "train"}


@dataclass(frozen=True)
class Layout:
    """One way a split lies on disk: files that must all be there, and which of their rows belong to it."""

    files: tuple[str, ...]
    column: str | None = None
    value: str | None = None

    def keeps(self, pair: Pair) -> bool:
        """Whether a pair of these files is of this split."""
        return self.column is None or str(pair.extras.get(self.column, "")).lower() == self.value


@dataclass(frozen=True)
class Split:
    """Where a split is found: layouts in the order they are tried, and its splits on the hub."""

    layouts: tuple[Layout, ...]
    hub: tuple[str, ...] = ()


def _official(*files: str) -> tuple[Layout, ...]:
    """Each file alone is the split; also without its folder, where `root` is that folder."""
    return tuple(Layout((name,)) for file in files for name in (file, file.rpartition("/")[2]))


def _plain(*stems: str, column: str | None = None, value: str | None = None) -> tuple[Layout, ...]:
    return tuple(Layout((f"{folder}{stem}.jsonl",), column, value) for stem in stems for folder in _PLAIN_FOLDERS)


def _snli() -> dict[str, Split]:
    hub = {"train": "train", "dev": "validation", "test": "test"}
    return {
        f"snli/{part}": Split(
            _official(f"snli_1.0/snli_1.0_{part}.jsonl", f"snli_1.0/snli_1.0_{part}.txt")
            + _plain(f"snli_{part}", *(["snli"] if part == "train" else [])),
            (hub[part],),
        )
        for part in hub
    } | {
        f"snli_hard/{part}": Split(_official(f"snli_1.0/snli_1.0_{part}_hard.jsonl") + _plain(f"snli_hard_{part}"))
        for part in ("dev", "test")
    }


def _mnli() -> dict[str, Split]:
    def split(part: str, stems: tuple[str, ...], hub: str) -> Split:
        official = _official(f"multinli_1.0/multinli_1.0_{part}.jsonl", f"multinli_1.0/multinli_1.0_{part}.txt")
        return Split((*official, Layout((f"MNLI/{part}.tsv",)), *_plain(*stems)), (hub,))

    return {
        "mnli/train": split("train", ("mnli_train", "mnli"), "train"),
        "mnli/matched": split("dev_matched", ("mnli_matched", "mnli_dev_matched"), "validation_matched"),
        "mnli/mismatched": split("dev_mismatched", ("mnli_mismatched", "mnli_dev_mismatched"), "validation_mismatched"),
    }


def _hans() -> dict[str, Split]:
    return {
        "hans/train": Split(_official("hans/heuristics_train_set.txt") + _plain("hans_train"), ("train",)),
        "hans/test": Split(
            _official("hans/heuristics_evaluation_set.txt") + _plain("hans", "hans_test"), ("validation",)
        ),
    }


def _esnli() -> dict[str, Split]:
    halves = ("esnli_train_1.csv", "esnli_train_2.csv")
    folders = ("", "esnli/", "e-SNLI/", "dataset/")
    parts = {"train": halves, "dev": ("esnli_dev.csv",), "test": ("esnli_test.csv",)}
    hub = {"train": "train", "dev": "validation", "test": "test"}
    return {
        f"esnli/{part}": Split(
            tuple(Layout(tuple(folder + file for file in files)) for folder in folders) + _plain(f"esnli_{part}"),
            (hub[part],),
        )
        for part, files in parts.items()
    }


def _sick() -> dict[str, Split]:
    parts = {
        "train": ("SICK_train", "train"),
        "dev": ("SICK_trial", "validation"),
        "test": ("SICK_test_annotated", "test"),
    }
    sets = {"train": "train", "dev": "trial", "test": "test"}  # in the column SemEval_set of SICK.txt
    return {
        f"sick/{part}": Split(
            (
                *_official(f"SICK/{file}.txt"),
                *(Layout((f"{folder}SICK.txt",), "SemEval_set", sets[part]) for folder in ("SICK/", "")),
                *_plain(f"sick_{part}"),
            ),
            (hub,),
        )
        for part, (file, hub) in parts.items()
    }


def _anli() -> dict[str, Split]:
    splits = {}
    for part in ("train", "dev", "test"):
        for rounds in (("1",), ("2",), ("3",), ("1", "2", "3")):
            alone = len(rounds) == 1
            one = {"column": "round", "value": f"r{rounds[0]}"} if alone else {}
            plain = (*(_plain(f"anli_r{rounds[0]}_{part}") if alone else ()), *_plain(f"anli_{part}", **one))
            official = tuple(Layout(tuple(f"{top}R{r}/{part}.jsonl" for r in rounds)) for top in ("anli_v1.0/", ""))
            name = f"anli/r{rounds[0]}/{part}" if alone else f"anli/{part}"
            splits[name] = Split(official + plain, tuple(f"{part}_r{r}" for r in rounds))
    return splits


SPLITS: dict[str, Split] = _snli() | _mnli() | _hans() | _esnli() | _sick() | _anli()
NAMES: tuple[str, ...] = (*SPLITS, *TOY, *FRAGMENTS, *PROBES)
_ALIASES = {
    "hans": "hans/test",
    "hans/dev": "hans/test",  # the hub calls the evaluation set "validation"
    "mnli/dev": "mnli/matched",
    "mnli/m": "mnli/matched",
    "mnli/mm": "mnli/mismatched",
    "anli": "anli/test",
} | {f"anli/r{r}": f"anli/r{r}/test" for r in (1, 2, 3)}


def resolve(name: str) -> str:
    """The full name of a split: "MNLI/validation_matched" is "mnli/matched", "hans" is "hans/test"."""
    head, _, rest = name.strip().lower().replace("-", "_").partition("/")
    head = {"multinli": "mnli", "e_snli": "esnli"}.get(head, head)
    parts = [_SUBSTITUTES.get(part, part) for part in rest.split("/")] if rest else []
    if head == "mnli" and parts:
        parts[0] = parts[0].removeprefix("validation_").removeprefix("dev_")
    full = "/".join([head, *parts])
    full = _ALIASES.get(full, full)
    if full in NAMES:
        return full
    inside = [known for known in NAMES if known.startswith(full.partition("/")[0] + "/")]
    close = difflib.get_close_matches(full, NAMES, n=1)
    hint = f"did you mean {close[0]}? " if close and not inside else ""
    raise DataError(
        f"{name!r} is neither a file nor the name of a data set; {hint}allowed: a path ending in .jsonl, .csv, .tsv or "
        f".txt, or one of {', '.join(inside or NAMES)}"
    )


def load(
    name_or_path: str | PathLike[str],
    *,
    root: str | PathLike[str] | None = None,
    columns: Mapping[str, str] | None = None,
    label_names: LabelNames | None = None,
    on_error: OnError = "raise",
    limit: int | None = None,
    hub: bool = False,
    require_label: bool = True,
) -> PairDataset:
    """A data set by name ("snli/dev"), or a file.

        load("toy/dev").summary()
        load("pairs.csv", columns={"premise": "text_a"}, on_error="skip")

    Args:
        name_or_path: a path, "-" for the standard input, or a name of `NAMES`.
        root: the folder with the data sets; by default the environment variable NEUROGAME_DATA, else ./data.
        columns: see `reading.iterate`.
        label_names: see `reading.iterate`.
        on_error: "raise" at the first malformed row, or "skip" and count.
        limit: at most so many pairs, the first.
        hub: download the set if it is not among the local files.
        require_label: drop and count the rows without gold label.

    Returns:
        The pairs in order, with what was dropped.

    Raises:
        DataError: if there is no such file or name, a row is malformed, or a label is unknown.
    """
    given = fspath(name_or_path)
    check_limit(limit)
    rule = Rule(columns or {}, label_names, require_label)
    reading: dict[str, Any] = {"columns": columns, "label_names": label_names, "require_label": require_label}
    reading |= {"on_error": on_error, "limit": limit}
    if given == STDIN or Path(given).is_file() or kind_of(given) is not None:
        return read(given, **reading)
    name = resolve(given)
    if name in TOY:
        return _toy(name).take(limit)
    if name in FRAGMENTS:
        return fragments.generate(*FRAGMENTS[name]).take(limit)
    if name in PROBES:
        return fragments.probe(PROBES[name]).take(limit)
    split = SPLITS[name]
    folder = Path(root if root is not None else os.environ.get(ROOT_VARIABLE) or "data")
    present = next(((layout, files) for layout in split.layouts if (files := _present(folder, layout))), None)
    if present is not None:
        layout, files = present
        return _join(name, (read(file, name=name, keep=layout.keeps, **reading) for file in files), limit)
    if not hub:
        raise DataError(_not_found(name, split, folder))
    return _join(name, (_from_hub(name, part, rule, on_error, limit) for part in split.hub), limit)


def _join(name: str, parts: Iterable[PairDataset], limit: int | None) -> PairDataset:
    """The parts one after the other, no more of them than the limit needs."""
    taken: list[PairDataset] = []
    for part in parts:
        taken.append(part)
        if limit is not None and sum(map(len, taken)) >= limit:
            break
    return taken[0] if len(taken) == 1 else concatenate(name, taken).take(limit)


def _present(folder: Path, layout: Layout) -> tuple[str, ...]:
    """The files of a layout, each as it is or gzipped; none unless all are there."""
    paths = []
    for file in layout.files:
        path = next((path for path in (folder / file, folder / f"{file}.gz") if path.is_file()), None)
        if path is None:
            return ()
        paths.append(str(path))
    return tuple(paths)


def _not_found(name: str, split: Split, folder: Path) -> str:
    looked = ", ".join(" and ".join(layout.files) for layout in split.layouts)
    where = f"in {folder}" if folder.is_dir() else f"in {folder}, which does not exist (set root or {ROOT_VARIABLE})"
    online = "hub=True (--hub) would download it" if split.hub else "the hub does not have it either"
    return f"{name} was not found {where}; looked for {looked}, each also with .gz; {online}"


def _toy(name: str) -> PairDataset:
    count, seed = TOY[name]
    pairs = generate(count, seed)
    if name != "toy/train":
        seen = {(pair.premise, pair.hypothesis) for pair in generate(*TOY["toy/train"])}
        pairs = pairs.filter(lambda pair: (pair.premise, pair.hypothesis) not in seen)
    return PairDataset(pairs.pairs, name, pairs.source)


def _from_hub(name: str, part: str, rule: Rule, on_error: OnError, limit: int | None) -> PairDataset:
    identity = HUB_IDS[name.partition("/")[0]]
    load_dataset = need("datasets", "hub").load_dataset
    try:
        try:
            table = load_dataset(identity, split=part)
        except RuntimeError as error:
            if "script" not in str(error):
                raise
            # sets published as a loading script, which `datasets` no longer runs: the hub keeps their rows as Parquet
            table = load_dataset(identity, split=part, revision="refs/convert/parquet")
    except (OSError, ValueError, RuntimeError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise DataError(f"{name} could not be loaded from the hub ({identity}, split {part}): {reason}") from error
    return from_table(table, name=name, source=f"hub:{identity}/{part}", rule=rule, on_error=on_error, limit=limit)


def from_table(
    table: Any,
    *,
    name: str,
    source: str,
    rule: Rule | None = None,
    on_error: OnError = "raise",
    limit: int | None = None,
) -> PairDataset:
    """A `datasets.Dataset` as a data set of ours.

    A label that is a number is translated by the names of the table's own `ClassLabel` feature: the
    order there is the publisher's and need not be ours. −1 is no gold label.

    Args:
        table: its rows are read one by one.
        name: of the data set.
        source: where it came from.
        rule: which column is which; None: the usual names.
        on_error: "raise" at the first malformed row, or "skip" and count.
        limit: stop after so many pairs.

    Raises:
        DataError: a column is missing, or no pair is left.
    """
    rule = rule or Rule()
    fault = rule.missing(table.column_names)
    if fault is not None:
        raise DataError(f"{source}: {fault}")
    place = rule.places(table.column_names).get("label")
    names = getattr(table.features[place], "names", None) if place is not None else None
    if rule.label_names is None and names is not None:
        rule = Rule(rule.columns, tuple(names), rule.require_label)

    def rows() -> Generator[Row, None, None]:
        for number, record in enumerate(table, 1):
            row = rule.row(record, source, number)
            if on_error == "raise" and isinstance(row, Malformed):
                raise DataError(str(row))
            yield row

    return collect(rows(), name=name, source=source, limit=limit)
