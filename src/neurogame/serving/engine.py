"""The one owner of the loaded model: a bounded queue of jobs, and one thread that works it off.

    request ──▶ queue ──▶ the thread: all predictions that wait in few forward passes, or else the first explanation

torch uses the cores by itself, so a second thread would only make both slower. Requests wait for a future and never
block the event loop; one that is given up, or whose time is over, before its turn leaves the queue and is not
computed. Predictions are fast and pass explanations that wait, but each explanation only once.
"""

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from neurogame.nli import NLI, Prediction
from neurogame.serving.grouping import groups

Answer = TypeVar("Answer")
Status = Literal["loading", "ready", "draining"]
Reason = Literal["full", "late", "draining"]
Notes = dict[str, Any]  # what became of a job: waited_ms, model_ms, and batch if it is a prediction
Observe = Callable[[str, int, float], object]  # told of each piece of work: "predict" or "explain", jobs, seconds
LINGER = 0.1  # of the time the last predictions took: so long the next ones are waited for
LONGEST = 0.02  # but not longer, in seconds


class BusyError(RuntimeError):
    """Turned away; a moment later it may not be."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, eq=False)
class _Job:
    """What to do with the model; a prediction says for which pair, so that it can share a forward pass."""

    work: Callable[[NLI], Any]
    pair: tuple[str, str] | None = None
    notes: Notes = field(default_factory=dict)
    future: "Future[Any]" = field(default_factory=Future)
    since: float = field(default_factory=time.perf_counter)


class Engine:
    """`await engine.predict(premise, hypothesis)`, `await engine.run(work)`; between `start` and `close`.

    Args:
        source: the model, or what loads it, in the thread; while the engine runs, nobody else uses it.
        waiting: jobs that may wait; one more raises `BusyError`.
        batch: predictions per forward pass at most.
        timeout: seconds until a job that has not begun raises `BusyError`.
        observe: told of each piece of work.
    """

    def __init__(
        self,
        source: NLI | Callable[[], NLI],
        *,
        waiting: int = 64,
        batch: int = 32,
        timeout: float = 30.0,
        observe: Observe = lambda *_: None,
    ) -> None:
        self.waiting, self.batch, self.timeout, self.observe = waiting, batch, timeout, observe
        self._load = source if callable(source) else None
        self._nli = None if callable(source) else source
        self._jobs: deque[_Job] = deque()
        self._changed = threading.Condition()  # guards _jobs and _open
        self._open = self._draining = False
        self._passed = False  # whether the last predictions were taken before an explanation that waited
        self._last = (1, 0.0)  # how many predictions were taken last, and the seconds they took
        self._thread: threading.Thread | None = None
        self.failure: BaseException | None = None  # why the model did not load
        self.when_loaded: Callable[[], object] = lambda: None  # called once it did, or failed to

    @property
    def nli(self) -> NLI:
        """The model; only once it is loaded."""
        assert self._nli is not None
        return self._nli

    @property
    def status(self) -> Status:
        """Whether it can be asked: requests wait for a model that loads, and are turned away when it is draining."""
        if self._draining:
            return "draining"
        return "loading" if self._nli is None else "ready"

    def __len__(self) -> int:
        """Jobs that wait."""
        return len(self._jobs)

    def start(self) -> None:
        """Begin to work; again, after `close`."""
        self._open, self._draining = True, False
        self._thread = threading.Thread(target=self._work, name="neurogame-engine", daemon=True)
        self._thread.start()

    def drain(self) -> None:
        """Take no more; safe in a signal handler."""
        self._draining = True

    def close(self) -> None:
        """Finish what waits, then stop."""
        self.drain()
        with self._changed:
            self._open = False
            self._changed.notify()
        if self._thread is not None:
            self._thread.join()

    async def predict(self, premise: str, hypothesis: str, notes: Notes | None = None) -> Prediction:
        """What the model says of a pair."""
        work = lambda nli: nli.predict(premise, hypothesis)  # noqa: E731
        said: Prediction = await self._submit(_Job(work, (premise, hypothesis), {} if notes is None else notes))
        return said

    async def run(self, work: Callable[[NLI], Answer], notes: Notes | None = None) -> Answer:
        """The result of a function of the model, computed in the thread."""
        found: Answer = await self._submit(_Job(work, None, {} if notes is None else notes))
        return found

    async def _submit(self, job: _Job) -> Any:
        with self._changed:
            if self._draining or not self._open:
                raise BusyError("draining", "the server is shutting down")
            if len(self._jobs) >= self.waiting:
                raise BusyError("full", f"{self.waiting} requests are waiting already; try again in a moment")
            self._jobs.append(job)
            self._changed.notify()
        answer = asyncio.wrap_future(job.future)
        try:
            done, _ = await asyncio.wait([answer], timeout=self.timeout)
            if not done and self._withdrawn(job):
                raise BusyError("late", f"not begun within {self.timeout:g} s; try again when less is asked")
            return await answer
        finally:
            if not answer.done():
                self._withdrawn(job)
                answer.cancel()

    def _withdrawn(self, job: _Job) -> bool:
        """Whether it had not begun, and now never will."""
        with self._changed:
            if job not in self._jobs:
                return False
            self._jobs.remove(job)
            return True

    def _work(self) -> None:
        try:
            if self._nli is None and self._load is not None:
                self._nli = self._load()
        except BaseException as error:  # noqa: BLE001  `when_loaded` looks at it
            self.failure = error
            self._turn_away(BusyError("draining", "the model did not load"))
        self.when_loaded()
        while jobs := self._next():
            self._answer([job for job in jobs if job.future.set_running_or_notify_cancel()])

    def _turn_away(self, error: BusyError) -> None:
        """Answer all who wait so, and take no more."""
        with self._changed:
            self._open, self._draining = False, True
            while self._jobs:
                job = self._jobs.popleft()
                if job.future.set_running_or_notify_cancel():
                    job.future.set_exception(error)

    def _next(self) -> list[_Job]:
        """Predictions that wait, or the first explanation; none once the engine is closed and done."""
        with self._changed:
            self._changed.wait_for(lambda: self._jobs or not self._open)
            if any(job.pair for job in self._jobs):
                self._linger()
            predictions = [job for job in self._jobs if job.pair][: self.batch]
            others = [job for job in self._jobs if not job.pair][:1]
            found = others if others and (self._passed or not predictions) else predictions
            self._passed = bool(others) and found is predictions
            for job in found:
                self._jobs.remove(job)
            return found

    def _linger(self) -> None:
        """Wait for as many predictions as were answered last: who was answered asks again, a moment later.

        Without it eight clients that take turns become batches of one and seven.
        """
        count, seconds = self._last
        enough = lambda: not self._open or sum(job.pair is not None for job in self._jobs) >= count  # noqa: E731
        self._changed.wait_for(enough, min(LINGER * seconds, LONGEST))

    def _answer(self, jobs: Sequence[_Job]) -> None:
        predictions = [job for job in jobs if job.pair]
        start = time.perf_counter()
        for group in groups([len(p) + len(h) for p, h in (job.pair for job in predictions if job.pair)]):
            self._predicted([predictions[i] for i in group])
        if predictions:
            self._last = (len(predictions), time.perf_counter() - start)
        for job in jobs:
            if not job.pair:
                self._alone(job, "explain")

    def _predicted(self, jobs: Sequence[_Job]) -> None:
        """One forward pass for all, or one for each where one of them is at fault."""
        pairs = [job.pair for job in jobs if job.pair]
        start = time.perf_counter()
        try:
            answers = self.nli.predict(pairs, batch_size=self.batch) if len(pairs) > 1 else None
        except Exception:  # noqa: BLE001  below, each gets its answer or its error
            answers = None
        if answers is None:
            for job in jobs:
                self._alone(job, "predict")
            return
        self._noted(jobs, "predict", start)
        for job, answer in zip(jobs, answers, strict=True):
            job.future.set_result(answer)

    def _alone(self, job: _Job, kind: str) -> None:
        start = time.perf_counter()
        try:
            found = job.work(self.nli)
        except Exception as error:  # noqa: BLE001  it belongs to whoever waits for the answer
            self._noted([job], kind, start)
            job.future.set_exception(error)
        else:
            self._noted([job], kind, start)
            job.future.set_result(found)

    def _noted(self, jobs: Sequence[_Job], kind: str, start: float) -> None:
        seconds = time.perf_counter() - start
        self.observe(kind, len(jobs), seconds)
        for job in jobs:
            job.notes["waited_ms"] = round(1e3 * (start - job.since), 1)
            job.notes["model_ms"] = round(1e3 * seconds, 1)
            if kind == "predict":
                job.notes["batch"] = len(jobs)
