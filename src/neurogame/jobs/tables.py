"""Parquet and Arrow as results: chunks as messages of an Arrow stream while a job runs, a file when it is whole.

A Parquet file has its directory at its end and cannot be appended to. A chunk is therefore written as what it is in an
Arrow stream (the schema before the first, then one message each), so that parts can be cut off, resumed and put
together as those of text; `pack` makes the file of it. Its metadata say which version, model and rows it is of.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from neurogame._common.extras import need
from neurogame.data.columnar import as_json

FORMATS = (".parquet", ".arrow")
_ROWS = "neurogame.rows"  # digest of the rows of the source
_GROUP, _GROUP_BYTES = 1 << 16, 1 << 26  # rows and bytes of a row group, the last chunk aside


def is_table(path: Path) -> bool:
    """Whether a result is to be written as a table."""
    return path.suffix.lower() in FORMATS


class Chunks:
    """The messages of a table; columns and their types are those of the first chunk.

    Args:
        metadata: of the file, beside the digest of its rows.
        types: of columns of the source, as its schema has them; others are text, or JSON as text.
    """

    def __init__(self, metadata: Mapping[str, str], types: Mapping[str, Any] | None = None) -> None:
        need("pyarrow", "parquet")
        self.metadata, self.types = metadata, types or {}

    def message(self, header: Mapping[str, str | None], rows: Sequence[Mapping[str, Any]], *, first: bool) -> bytes:
        """A chunk; the first one begins with the schema. A value that does not fit its column is a ValueError.

        `header` is name → type ("double" …), None for that of the source; a name that a row lacks is null.
        """
        import pyarrow as pa

        kinds = {
            name: self.types.get(name, pa.string()) if alias is None else pa.type_for_alias(alias)
            for name, alias in header.items()
        }
        schema = pa.schema(list(kinds.items()), {f"neurogame.{name}": text for name, text in self.metadata.items()})
        columns = []
        for name, kind in kinds.items():
            typed = name in self.types or header[name] is not None
            columns.append(pa.array([row.get(name) if typed else _text(row.get(name)) for row in rows], kind))
        batch = pa.record_batch(columns, schema=schema)
        return b"".join(part.serialize().to_pybytes() for part in ([schema, batch] if first else [batch]))


def _text(value: Any) -> str | None:
    """A value of a column without a type: text as it is, anything else as JSON."""
    if value is None:
        return None
    text = value if isinstance(value, str) else json_of(value)
    return text.encode("utf-8", "backslashreplace").decode()


def json_of(value: Any) -> str:
    """Any value of a row as JSON."""
    return as_json({"": value})[5:-1]


def lists(**entries: str) -> dict[str, Any]:
    """Types of columns of lists, by the type of their entries."""
    pa = need("pyarrow", "parquet")
    return {name: pa.list_(pa.type_for_alias(alias)) for name, alias in entries.items()}


def pack(stream: Path, goal: Path, kind: str, rows: str) -> None:
    """Make a file (`kind` ".parquet" or ".arrow") of the chunks in `stream`; `rows`: digest of the source's rows."""
    import pyarrow as pa
    from pyarrow import parquet

    with pa.OSFile(str(stream)) as file, pa.OSFile(str(goal), "wb") as sink:
        chunks = pa.ipc.open_stream(file)
        schema = chunks.schema.with_metadata({**(chunks.schema.metadata or {}), _ROWS: rows})
        make = parquet.ParquetWriter if kind == ".parquet" else pa.ipc.new_file
        with make(sink, schema) as out:
            for table in _row_groups(chunks, schema):
                out.write_table(table)


def _row_groups(batches: Any, schema: Any) -> Iterator[Any]:
    """Tables of several chunks each: small row groups are slow to read."""
    import pyarrow as pa

    stream = iter(batches)
    while (batch := next(stream, None)) is not None:
        group, rows, size = [batch], batch.num_rows, batch.nbytes
        while rows < _GROUP and size < _GROUP_BYTES and (batch := next(stream, None)) is not None:
            group.append(batch)
            rows, size = rows + batch.num_rows, size + batch.nbytes
        yield pa.Table.from_batches(group).replace_schema_metadata(schema.metadata).combine_chunks()


def metadata(path: Path) -> dict[str, str]:
    """Version, model, digest and rows from the metadata of a file; empty if this package did not write it."""
    import pyarrow as pa
    from pyarrow import parquet

    try:
        with pa.OSFile(str(path)) as file:
            schema = parquet.read_schema(file) if path.suffix.lower() == ".parquet" else pa.ipc.open_file(file).schema
    except (pa.ArrowException, OSError):
        return {}
    entries = {key.decode(): value.decode() for key, value in (schema.metadata or {}).items()}
    return {key.removeprefix("neurogame."): text for key, text in entries.items() if key.startswith("neurogame.")}
