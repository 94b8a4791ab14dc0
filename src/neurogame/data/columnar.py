"""Parquet and Arrow files as records, row by row in their order; and their values as JSON has them.

pyarrow reads them (`pip install 'neurogame[parquet]'`), a thousand rows at a time. The number of a row stands where
other formats have the number of a line. Values keep their type (a time, a decimal, a list) until they are written.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

from neurogame._common.extras import need
from neurogame._common.records import plain
from neurogame.data.pairs import DataError

_ROWS = 1024  # in memory at a time


class TruncatedFileError(EOFError):
    """The rest of a file cannot be read; `line` is where it begins."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(message)
        self.line = line


class Columns:
    """An open file: the types of its columns, and its rows from `records`; `number` counts those read."""

    def __init__(self, path: str, schema: Any, batches: Iterator[Any]) -> None:
        self.file, self.schema, self.number, self._batches = path, schema, 0, batches

    def records(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """(Number of the row, its columns); TruncatedFileError where the file is damaged."""
        from pyarrow import ArrowException

        while True:
            try:
                rows = next(self._batches).to_pylist()
            except StopIteration:
                return
            except (ArrowException, OSError) as error:
                raise TruncatedFileError(self.number + 1, " ".join(str(error).split())[:200]) from error
            for row in rows:
                self.number += 1
                yield self.number, row


@contextmanager
def open_columns(path: str, kind: str) -> Iterator[Columns]:
    """A Parquet file (`kind` "parquet") or an Arrow file or stream ("arrow")."""
    pa, parquet = need("pyarrow", "parquet"), need("pyarrow.parquet", "parquet")
    with ExitStack() as stack:
        try:
            file = stack.enter_context(pa.OSFile(path))
            is_file = file.read(6) == b"ARROW1"  # not a stream
            file.seek(0)
            if kind == "parquet":
                table = parquet.ParquetFile(file)
                columns = Columns(path, table.schema_arrow, table.iter_batches(_ROWS))
            elif is_file:
                table = pa.ipc.open_file(file)
                columns = Columns(path, table.schema, _slice(map(table.get_batch, range(table.num_record_batches))))
            else:
                table = pa.ipc.open_stream(file)
                columns = Columns(path, table.schema, _slice(table))
        except (pa.ArrowException, OSError) as error:
            raise DataError(f"{path} is no {kind.capitalize()} file that can be read: {error!s:.200}") from error
        yield columns


def types(path: str, kind: str) -> dict[str, Any]:
    """The type of each column; a dictionary's is that of its entries."""
    with open_columns(path, kind) as columns:
        from pyarrow.types import is_dictionary

        kinds = {field.name: field.type for field in columns.schema}
        return {name: kind.value_type if is_dictionary(kind) else kind for name, kind in kinds.items()}


def _slice(batches: Iterator[Any]) -> Iterator[Any]:
    for batch in batches:
        yield from (batch.slice(start, _ROWS) for start in range(0, batch.num_rows, _ROWS))


def as_json(row: Mapping[str, Any]) -> str:
    """A row as one line of JSON, whatever its columns hold: no NaN, which JSON does not have, but null."""
    try:
        return json.dumps(row, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError):  # seldom: a column of a Parquet file
        return json.dumps(plain(row), ensure_ascii=False, allow_nan=False)
