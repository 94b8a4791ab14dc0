"""Data sets by name: which files make up "snli/dev", where they are looked for, and what they are called on the hub.

A name is "set/split". Local files come first, in the layouts the sets are published in and as plain
JSON lines (`sets.toml`); the hub only when it is asked for. How a file is read is in `reading`.
"""

import difflib
import os
import tomllib
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from functools import partial
from importlib.resources import files
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from neurogame._common.extras import need
from neurogame.data import fragments
from neurogame.data.formats import STDIN, kind_of
from neurogame.data.grammar import generate
from neurogame.data.pairs import DataError, Malformed, Pair, PairDataset, concatenate
from neurogame.data.reading import LabelNames, OnError, Row, Rule, check_limit, collect, read

ROOT_VARIABLE = "NEUROGAME_DATA"
TABLES = tomllib.loads((files(__package__) / "sets.toml").read_text(encoding="utf-8"))
LAYOUTS: dict[str, dict[str, list[str]]] = TABLES["layouts"]
TOY = {"toy/train": (4000, 0), "toy/dev": (600, 1)}  # pairs, seed
FRAGMENTS: dict[str, tuple[int, int, fragments.Part]] = {  # pairs, seed, part
    "fragments/train": (12_000, 0, "train"),
    "fragments/dev": (1500, 1, "dev"),
    "fragments/test": (1500, 2, "test"),
}
PROBES = {f"fragments/probe_{name}": name for name in fragments.PROBES}
NAMES: tuple[str, ...] = (*LAYOUTS, *TOY, *FRAGMENTS, *PROBES)


Layout = tuple[list[str], Callable[[Pair], bool]]  # files of a split that must all be there, and which pairs are of it


def layouts(name: str) -> Iterator[Layout]:
    """The ways in which a split may lie on disk, in the order in which they are tried; see `sets.toml`."""
    split = LAYOUTS[name]
    entries = [place for file in split.get("official", ()) for place in (file, file.rpartition("/")[2])]
    entries += split.get("files", ())
    for entry in split["plain"]:
        stem, where, rows = entry.partition(" where ")
        entries += [f"{folder}{stem}.jsonl{where}{rows}" for folder in ("", "train/", "eval/")]
    for entry in entries:
        names, _, rows = entry.partition(" where ")
        column, _, value = rows.partition(" = ")
        yield names.split(" + "), partial(_is_of, column, value)


def _is_of(column: str, value: str, pair: Pair) -> bool:
    return not column or str(pair.extras.get(column, "")).lower() == value


def resolve(name: str) -> str:
    """The full name of a split: "MNLI/validation_matched" is "mnli/matched", "hans" is "hans/test"."""
    head, _, rest = name.strip().lower().replace("-", "_").partition("/")
    head = TABLES["sets"].get(head, head)
    parts = [TABLES["parts"].get(part, part) for part in rest.split("/")] if rest else []
    if head == "mnli" and parts:
        parts[0] = parts[0].removeprefix("validation_").removeprefix("dev_")
    full = "/".join([head, *parts])
    full = TABLES["splits"].get(full, full)
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
    folder = Path(root if root is not None else os.environ.get(ROOT_VARIABLE) or "data")
    for names, keep in layouts(name):
        paths = [path for file in names if (path := _plain_or_gzipped(folder / file)) is not None]
        if len(paths) == len(names):
            return _join(name, (read(path, name=name, keep=keep, **reading) for path in paths), limit)
    if not hub or "hub" not in LAYOUTS[name]:
        raise DataError(_not_found(name, folder))
    return _join(name, (_from_hub(name, part, rule, on_error, limit) for part in LAYOUTS[name]["hub"]), limit)


def _plain_or_gzipped(path: Path) -> Path | None:
    """A file as it is named, or with .gz; None: neither is there."""
    return next((file for file in (path, path.with_name(f"{path.name}.gz")) if file.is_file()), None)


def _join(name: str, parts: Iterable[PairDataset], limit: int | None) -> PairDataset:
    """The parts one after the other, no more of them than the limit needs."""
    loaded: list[PairDataset] = []
    for part in parts:
        loaded.append(part)
        if limit is not None and sum(map(len, loaded)) >= limit:
            break
    return loaded[0] if len(loaded) == 1 else concatenate(name, loaded).take(limit)


def _not_found(name: str, folder: Path) -> str:
    looked = ", ".join(" and ".join(names) for names, _ in layouts(name))
    where = f"in {folder}" if folder.is_dir() else f"in {folder}, which does not exist (set root or {ROOT_VARIABLE})"
    online = "hub=True (--hub) would download it" if "hub" in LAYOUTS[name] else "the hub does not have it either"
    return f"{name} was not found {where}; looked for {looked}, each also with .gz; {online}"


def _toy(name: str) -> PairDataset:
    pairs = generate(*TOY[name])
    if name != "toy/train":
        seen = {(pair.premise, pair.hypothesis) for pair in generate(*TOY["toy/train"])}
        pairs = pairs.filter(lambda pair: (pair.premise, pair.hypothesis) not in seen)
    return PairDataset(pairs.pairs, name, pairs.source)


def _from_hub(name: str, part: str, rule: Rule, on_error: OnError, limit: int | None) -> PairDataset:
    identity = TABLES["hub"][name.partition("/")[0]]
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
    """A `datasets.Dataset` as a data set of ours; arguments as of `collect`.

    A label that is a number is translated by the names of the table's own `ClassLabel` feature: the
    order there is the publisher's and need not be ours. −1 is no gold label.
    """
    rule = rule or Rule()
    places, fault = rule.locate(table.column_names)
    if fault is not None:
        raise DataError(f"{source}: {fault}")
    names = getattr(table.features[places["label"]], "names", None) if "label" in places else None
    if rule.label_names is None and names is not None:
        rule = Rule(rule.columns, tuple(names), rule.require_label)

    def rows() -> Generator[Row, None, None]:
        for number, record in enumerate(table, 1):
            row = rule.row(record, source, number)
            if on_error == "raise" and isinstance(row, Malformed):
                raise DataError(str(row))
            yield row

    return collect(rows(), name=name, source=source, limit=limit)
