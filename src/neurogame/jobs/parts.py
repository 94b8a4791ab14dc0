"""A result file that is written chunk by chunk, can be resumed after a crash, and be divided among machines.

    labels.jsonl.part             the chunks so far            labels.jsonl.2-of-4.part …    the same, part 2 of 4
    labels.jsonl.part.journal     the job, then a line per chunk: its number, rows read and bytes written so far
    labels.jsonl                  the result: it appears when it is whole, never before

A chunk counts once its line is in the journal, which is written after the chunk itself is on disk. What a killed
process wrote beyond the last line is truncated by the next. Only a journal that begins as ours do is resumed, and no
link is followed: a link in a shared folder may lead to another user's file. Chunk i belongs to part i mod n.
The parts need no connection between their processes, only the folder: the process that finds all of them complete
joins them. What the chunks hold is not known here.
"""

import errno
import json
import os
import re
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field, replace
from glob import escape
from itertools import islice
from pathlib import Path
from typing import IO, Any

from neurogame._common.writing import sync
from neurogame.data.pairs import DataError
from neurogame.jobs import tables


class PartError(DataError):
    """A part that cannot be written or resumed; what it holds stays."""


@dataclass(frozen=True)
class Shard:
    """Part `number` of `count`, counted from 1; chunks are assigned round-robin."""

    number: int = 1
    count: int = 1

    def __post_init__(self) -> None:
        for value in (self.number, self.count):
            if isinstance(value, bool) or not isinstance(value, int):
                raise TypeError(f"a part is two whole numbers, as in Shard(2, 4); got {value!r:.60}")
        if not 1 <= self.number <= self.count:
            raise ValueError(f"part {self} does not exist; allowed: 1/{self.count} to {self.count}/{self.count}")

    @classmethod
    def parse(cls, text: str) -> "Shard":
        """The part that "2/4" names."""
        number, slash, count = text.partition("/")
        if not (slash and number.isdecimal() and count.isdecimal() and int(count)):
            raise ValueError(f"part {text!r} cannot be read; allowed: I/N, as in 2/4 for the second of four")
        return cls(int(number), int(count))

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"

    def owns(self, chunk: int) -> bool:
        """Whether a chunk, counted from 0, is in this part."""
        return chunk % self.count == self.number - 1

    def path(self, output: Path) -> Path:
        """Where this part of `output` is written."""
        which = f".{self.number}-of-{self.count}" if self.count > 1 else ""
        return output.with_name(f"{output.name}{which}.part")


@dataclass(frozen=True)
class Mark:
    """A line of the journal: how far a part is."""

    chunk: int = -1  # the last one written, counted from 0 over all parts; with `ended` how many there are
    rows: int = 0  # of the source, read so far
    digest: str = ""  # of these rows
    size: int = 0  # bytes of this part
    kept: Mapping[str, Any] = field(default_factory=dict)  # counts that a resumed writer needs
    ended: bool = False
    source: str = ""  # digest of the whole source, as it was when this was written; "": not known
    damaged: bool = False  # it could not be read beyond these rows: another one that begins with them may follow


class Part:
    """The chunks of one process, open for appending; `at` is the last mark of the journal.

    Args:
        output: the file to be.
        shard: which part of it.
        job: what the content depends on, `version` first; a part is resumed only if all of it is the same.
        source: digest of the source; a part is resumed only with the same one, or if that one was damaged.
        resume: continue the part that is there; without, a part that is there is refused.

    An exception before the first chunk is complete deletes the part; after that the part stays.
    """

    def __init__(self, output: Path, shard: Shard, job: Mapping[str, Any], *, source: str = "", resume: bool) -> None:
        self.path, self.journal, self.source = shard.path(output), _journal(shard.path(output)), source
        self.job, self.resume, self.at = json.loads(_line(job)), resume, Mark()

    def __enter__(self) -> "Part":
        check(self.path, resume=self.resume)
        with ExitStack() as files, ExitStack() as undo:
            self._log = files.enter_context(_open(self.journal, new=not self.resume))
            _lock(self._log, self.path)
            job, self.at, end = _read_journal(self.journal)
            if job is None:
                if self.path.exists() and self.path.stat().st_size:  # no chunk is written before the job
                    raise PartError(f"{self.journal} is no journal of ours, or of a part that was lost; {_OR_DELETE}")
                undo.callback(self.discard)
            self._data = files.enter_context(_open(self.path, new=not self.resume))
            self._continue(job, end)
            undo.pop_all()
            self._files = files.pop_all()
        return self

    def _continue(self, job: Mapping[str, Any] | None, end: int) -> None:
        """Seek to the end of what is complete, if it is of the same job; truncate what is behind it."""
        if job is not None and job != self.job:
            raise PartError(f"{self.path} was begun with {_differences(job, self.job)}; {_OR_DELETE}")
        if self.source and self.at.source not in ("", self.source) and not self.at.damaged:
            raise PartError(f"{self.path} was begun with another source: the file has changed since; {_OR_DELETE}")
        if os.fstat(self._data.fileno()).st_size < self.at.size:
            raise PartError(f"{self.path} is shorter than its journal says; {_OR_DELETE}")
        with self._writing():
            for file, whole in ((self._log, end), (self._data, self.at.size)):
                file.truncate(whole)
                file.seek(whole)
            if job is None:
                _write(self._log, _line(self.job))

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None and self.at == Mark():
            self.discard()
        self._files.close()

    def write(self, mark: Mark, data: bytes) -> None:
        """Append a chunk; when this returns, chunk and journal are on disk."""
        mark = replace(mark, size=self.at.size + len(data), source=self.source)
        with self._writing():
            _write(self._data, data)
            _write(self._log, _line(asdict(mark)))
        self.at = mark

    def suspend(self) -> None:
        """Record that the source is damaged behind the last chunk: a repaired source may differ from there on."""
        if self.at != Mark():
            self.write(replace(self.at, damaged=True), b"")

    def discard(self) -> None:
        """Delete part and journal."""
        self.path.unlink(missing_ok=True)
        self.journal.unlink(missing_ok=True)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            kept = "; complete chunks are kept, --resume continues behind them" if self.at != Mark() else ""
            raise PartError(f"{self.path} cannot be written: {error.strerror}{kept}") from error


_OR_DELETE = "choose another name for the output, or delete it"
_BEGINNING = b'{"version": "'  # of every journal
_JOINED = ".joined"  # suffix of the temporary files of `_join`


def begun(part: Path) -> bool:
    """Whether there is a part that could be resumed."""
    return _journal(part).exists()


def check(part: Path, *, resume: bool) -> None:
    """Refuse to start over an interrupted run, and to resume from a file that is no part."""
    for path in (part, _journal(part)):
        if path.is_symlink() or (path.exists() and not path.is_file()):
            raise PartError(f"{path} is a link or no file, and not followed; {_OR_DELETE}")
    if begun(part) and not resume:
        raise PartError(f"{part} holds an interrupted run; --resume continues it, or delete it and its journal")
    if part.exists() and not begun(part):
        raise PartError(f"{part} has no journal beside it; {_OR_DELETE}")


def check_others(output: Path, shard: Shard) -> None:
    """Refuse parts of a run with another number of shards."""
    ours = re.compile(re.escape(output.name) + r"(?:\.\d+-of-(\d+))?\.part\.journal")
    for path in sorted(output.parent.glob("*.part.journal")):
        match = ours.fullmatch(path.name)
        count = int(match[1] or 1) if match else shard.count
        if count != shard.count:
            part = path.with_suffix("")
            raise PartError(f"{part} is of a run in {count} part(s), this one has {shard.count}; {_OR_DELETE}")


def finish(output: Path, count: int) -> tuple[list[Mapping[str, Any]], list[Shard]]:
    """Join the parts under the name of the output, if all of them are complete.

    Returns: the counts that the parts have kept, if this call joined them; the parts that are still missing.
    """
    shards = [Shard(number, count) for number in range(1, count + 1)]
    try:
        logs = [_read_journal(_journal(shard.path(output)))[:2] for shard in shards]
        missing = [shard for shard, (_, mark) in zip(shards, logs, strict=True) if not mark.ended]
        if output.exists():
            _check_ours(output, logs)
        if missing:  # but if the file is there, another process has completed it and is deleting them
            return [], [] if output.exists() else missing
        _check_alike(output, shards, logs)
        if not output.exists():
            _join(output, [shard.path(output) for shard in shards], logs[0][1])
    except FileNotFoundError:  # another process was faster, and has deleted the parts
        if not output.exists():
            raise
        return [], []
    for shard in shards:
        shard.path(output).unlink(missing_ok=True)
        _journal(shard.path(output)).unlink(missing_ok=True)
    for left in output.parent.glob(f"{escape(output.name)}.*{_JOINED}"):  # of a process that was killed in `_join`
        left.unlink(missing_ok=True)
    return [mark.kept for _, mark in logs], []


def _join(output: Path, paths: Sequence[Path], end: Mark) -> None:
    """Write the chunks of all parts in their order to a temporary file, pack a table, rename it to the output."""
    if len(paths) == 1 and not tables.is_table(output):
        paths[0].rename(output)
        sync(output.parent)
        return
    process = f"{socket.gethostname()}-{os.getpid()}"
    fresh, packed = (output.with_name(f"{output.name}.{process}{suffix}{_JOINED}") for suffix in ("", ".packed"))
    try:
        with ExitStack() as stack:
            files = [stack.enter_context(path.open("rb")) for path in paths]
            marks = [_chunk_marks(_journal(path)) for path in paths]
            fresh.unlink(missing_ok=True)  # of a process that had our number; what it may link to stays
            out = stack.enter_context(_open(fresh, new=True))
            for chunk in range(end.chunk):
                part = chunk % len(paths)
                mark = next(marks[part], Mark())
                data = files[part].read(mark.size - files[part].tell()) if mark.chunk == chunk else b""
                if mark.chunk != chunk or files[part].tell() != mark.size:
                    raise PartError(f"{paths[part]} does not hold chunk {chunk} as its journal says; {_OR_DELETE}")
                _write(out, data, sync=False)
            os.fsync(out.fileno())
        if tables.is_table(output):
            packed.unlink(missing_ok=True)
            tables.pack(fresh, packed, output.suffix.lower(), end.digest)
            sync(packed)
            packed.replace(fresh)
        fresh.rename(output)
        sync(output.parent)
    except OSError as error:
        if isinstance(error, FileNotFoundError):
            raise
        raise PartError(
            f"{output} cannot be written: {error.strerror or error}; its parts stay, --resume joins them"
        ) from error
    finally:
        fresh.unlink(missing_ok=True)
        packed.unlink(missing_ok=True)


def _check_ours(output: Path, logs: Sequence[tuple[dict[str, Any] | None, Mark]]) -> None:
    """Refuse an existing output unless it was made of these parts."""
    marks = [mark for job, mark in logs if job is not None]
    ours = all(mark.ended for mark in marks)
    if ours and len(marks) == len(logs):
        if tables.is_table(output):
            ours = tables.metadata(output).get("rows") == marks[0].digest
        else:
            ours = sum(mark.size for mark in marks) == output.stat().st_size
    if not ours:
        raise PartError(
            f"{output} exists already, and results never overwrite a file; "
            "move it away, and --resume makes it of the parts that are beside it"
        )


def _check_alike(output: Path, shards: Sequence[Shard], logs: Sequence[tuple[dict[str, Any] | None, Mark]]) -> None:
    """Refuse parts of different jobs, or of different sources."""
    (job, end), first = logs[0], shards[0].path(output).name
    for shard, (other, mark) in zip(shards, logs, strict=True):
        if other != job:
            raise PartError(f"{shard.path(output)} was begun with {_differences(job, other)} unlike {first}")
        if (mark.chunk, mark.rows, mark.digest) != (end.chunk, end.rows, end.digest):
            raise PartError(
                f"{shard.path(output)} is of a source with {mark.rows} rows, {first} of one with {end.rows}"
                + (", and others" if mark.rows == end.rows else "")
            )


# Journals


def _journal(part: Path) -> Path:
    return part.with_name(f"{part.name}.journal")


def _line(content: Mapping[str, Any]) -> bytes:
    return json.dumps(content).encode() + b"\n"


def _lines(journal: Path) -> Iterator[tuple[Any, int]]:
    """The lines of a journal and the offsets of their ends, up to a line that was not written whole."""
    with journal.open("rb") as file:
        if not _BEGINNING.startswith(file.read(len(_BEGINNING))):  # it may be cut off even there
            raise PartError(f"{journal} is no journal of ours; {_OR_DELETE}")
        file.seek(0)
        while line := file.readline():
            try:
                content = json.loads(line) if line.endswith(b"\n") else None
            except ValueError:
                return
            if not isinstance(content, dict):
                return
            yield content, file.tell()


def _chunk_marks(journal: Path) -> Iterator[Mark]:
    """The mark of each chunk; the first line is the job."""
    marks = (_mark(content, journal) for content, _ in islice(_lines(journal), 1, None))
    return (mark for mark in marks if not (mark.ended or mark.damaged))


def _mark(content: Mapping[str, Any], journal: Path) -> Mark:
    try:
        return Mark(**content)
    except TypeError:
        raise PartError(f"{journal} is no journal that can be read here; {_OR_DELETE}") from None


def _read_journal(journal: Path) -> tuple[dict[str, Any] | None, Mark, int]:
    """The job (None: there is none yet), the last mark, and the offset of its end."""
    job, mark, end = None, Mark(), 0
    for content, end in _lines(journal) if journal.exists() else ():  # noqa: B007 — the last one is used
        job, mark = (content, mark) if job is None else (job, _mark(content, journal))
    return job, mark, end


def _differences(before: Mapping[str, Any] | None, now: Mapping[str, Any] | None) -> str:
    """What has changed, as in "another model and another batch_size (64, now 32)"."""
    before, now = before or {}, now or {}
    names = sorted(name for name in {*before, *now} if before.get(name) != now.get(name))
    shown = (f" ({before.get(name)}, now {now.get(name)})" if name != "model" else "" for name in names)
    return " and ".join(f"another {name}{values}" for name, values in zip(names, shown, strict=True))


# The disk


def _open(path: Path, *, new: bool) -> IO[bytes]:
    """Open for reading and writing, unbuffered: closing does not retry a write that failed; links are not followed."""
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | (os.O_EXCL if new else 0)
    try:
        return os.fdopen(os.open(path, flags | getattr(os, "O_BINARY", 0), 0o666), "r+b", buffering=0)
    except FileExistsError:
        raise PartError(f"{path} exists already; {_OR_DELETE}") from None
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise PartError(f"{path} is a link or no file, and not followed; {_OR_DELETE}") from None
        raise PartError(f"{path} cannot be written: {error.strerror}") from error


def _write(file: IO[bytes], data: bytes, *, sync: bool = True) -> None:
    """Write all of it, and fsync."""
    left = memoryview(data)
    while left:
        left = left[file.write(left) :]
    if sync:
        os.fsync(file.fileno())


def _lock(file: IO[bytes], part: Path) -> None:
    """Lock the journal for this process; the system releases the lock when the process ends."""
    try:
        import fcntl
    except ImportError:  # Windows
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise PartError(f"{part} is being written by another process") from None
    except OSError:  # a file system without locks
        return
