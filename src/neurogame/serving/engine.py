"""The one owner of the loaded model: a bounded queue of jobs, and one thread that works it off.

    request ──▶ queue ──▶ the thread: all predictions that wait in one forward pass, or else the first explanation

torch uses the cores by itself, so a second thread would only make both slower. Requests wait for a future and never
block the event loop; one that is given up before its turn leaves the queue and is not computed. Predictions are fast
and pass explanations that wait.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

from neurogame.nli import NLI, Prediction

Answer = TypeVar("Answer")
WAITING = 64  # jobs in the queue; the next one is turned away
BATCH = 32  # predictions per forward pass


class BusyError(RuntimeError):
    """The queue is full; a moment later it may not be."""


@dataclass(frozen=True, eq=False)
class _Job:
    """What to do with the model; a prediction says for which pair, so that it can share a forward pass."""

    work: Callable[[NLI], Any]
    pair: tuple[str, str] | None = None
    future: "Future[Any]" = field(default_factory=Future)


class Engine:
    """`await engine.predict(premise, hypothesis)`, `await engine.run(work)`; between `start` and `close`.

    Args:
        nli: the model; while the engine runs, nobody else uses it.
        waiting: jobs that may wait; one more raises `BusyError`.
        batch: predictions per forward pass at most.
    """

    def __init__(self, nli: NLI, *, waiting: int = WAITING, batch: int = BATCH) -> None:
        self.nli, self.waiting, self.batch = nli, waiting, batch
        self._jobs: deque[_Job] = deque()
        self._changed = threading.Condition()  # guards _jobs and _open
        self._open = False
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to work."""
        self._open = True
        self._thread = threading.Thread(target=self._work, name="neurogame-engine", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Finish what waits, then stop."""
        with self._changed:
            self._open = False
            self._changed.notify()
        if self._thread is not None:
            self._thread.join()

    async def predict(self, premise: str, hypothesis: str) -> Prediction:
        """What the model says of a pair."""
        job = _Job(lambda nli: nli.predict(premise, hypothesis), (premise, hypothesis))
        said: Prediction = await self._submit(job)
        return said

    async def run(self, work: Callable[[NLI], Answer]) -> Answer:
        """The result of a function of the model, computed in the thread."""
        found: Answer = await self._submit(_Job(work))
        return found

    async def _submit(self, job: _Job) -> Any:
        with self._changed:
            if not self._open:
                raise BusyError("the server is shutting down")
            if len(self._jobs) >= self.waiting:
                raise BusyError(f"{self.waiting} requests are waiting already; try again in a moment")
            self._jobs.append(job)
            self._changed.notify()
        try:
            return await asyncio.wrap_future(job.future)
        except asyncio.CancelledError:
            with self._changed, suppress(ValueError):  # it may have begun
                self._jobs.remove(job)
            raise

    def _work(self) -> None:
        while jobs := self._next():
            self._answer([job for job in jobs if job.future.set_running_or_notify_cancel()])

    def _next(self) -> list[_Job]:
        """The first predictions, without any the first job; none once the engine is closed and done."""
        with self._changed:
            self._changed.wait_for(lambda: self._jobs or not self._open)
            found = [job for job in self._jobs if job.pair][: self.batch] or list(self._jobs)[:1]
            for job in found:
                self._jobs.remove(job)
            return found

    def _answer(self, jobs: Sequence[_Job]) -> None:
        pairs = [job.pair for job in jobs if job.pair is not None]
        if len(pairs) > 1:
            try:
                answers = self.nli.predict(pairs, batch_size=self.batch)
            except Exception:  # noqa: BLE001, S110  one of them is at fault: below, each gets its answer or its error
                pass
            else:
                for job, answer in zip(jobs, answers, strict=True):
                    job.future.set_result(answer)
                return
        for job in jobs:
            try:
                found = job.work(self.nli)
            except Exception as error:  # noqa: BLE001  it belongs to whoever waits for the answer
                job.future.set_exception(error)
            else:
                job.future.set_result(found)
