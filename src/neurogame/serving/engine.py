"""The thread that owns the model, its queue and its batches.

    request ──▶ queue ──▶ thread: all waiting predictions in few forward passes, or else the first explanation

torch uses the cores by itself, so a second thread would only slow both down. Requests await a future and never block
the event loop. Predictions are fast and overtake waiting explanations, but each explanation only once.

Predictions that share a forward pass are of similar length, since all are padded to the longest. With a pass at the
price of START + rows × longest, the cheapest way to cut the sorted lengths l_0 ≥ l_1 ≥ … is

    best_i = min_{j < i}  best_j + START + (i − j)·l_j.
"""

import asyncio
import logging
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from math import inf
from typing import Any, Literal, TypeVar

from neurogame.explanation.reading import between_passes
from neurogame.nli import NLI, ModelError, Prediction

log = logging.getLogger("neurogame.serving")
Answer = TypeVar("Answer")
Item = TypeVar("Item")
Status = Literal["loading", "ready", "draining", "failed"]
Reason = Literal["full", "late", "draining"]
Notes = dict[str, Any]  # what the log says of a job: waited_ms, model_ms, and batch if it is a prediction
LINGER = 0.1  # of the time the last predictions took: how long to wait for the next ones
LONGEST = 0.02  # but not longer, in seconds
GRACE = 5.0  # seconds beyond its deadline until a forward pass counts as stuck
START = 200  # characters: on a CPU a pass costs some 45 tokens before its first, to bring the weights to the cores


class BusyError(RuntimeError):
    """A request that is rejected now and may succeed later; `reason` is counted in the metrics."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(eq=False)
class _Job:
    """A function of the model; a prediction has its pair too, so that it can share a forward pass."""

    work: Callable[[NLI], Any]
    pair: tuple[str, str] | None
    notes: Notes
    owner: str  # whose share of the queue it takes
    gone: bool = False  # its client has disconnected
    future: "Future[Any]" = field(default_factory=Future)
    since: float = field(default_factory=time.perf_counter)


class Engine:
    """`await engine.predict(premise, hypothesis)`, `await engine.run(work)`; between `start` and `close`.

    Args:
        source: the model, or a function that loads it in the thread; while the engine runs no other thread may use it.
        waiting: jobs that may wait; one more raises `BusyError`.
        batch: predictions per forward pass at most.
        timeout: seconds until a job that has not begun raises `BusyError`; also for all jobs to end after `drain`.
        deadline: seconds of work on one job. As all limits of work it is checked between forward passes.
    """

    def __init__(
        self,
        source: NLI | Callable[[], NLI],
        *,
        waiting: int = 64,
        batch: int = 32,
        timeout: float = 30.0,
        deadline: float = 120.0,
    ) -> None:
        self.waiting, self.batch, self.timeout, self.deadline = waiting, batch, timeout, deadline
        self.observe: Callable[[str, int, float], object] = lambda *_: None  # "predict" or "explain", jobs, seconds
        # called once the model is loaded, and when `failure` is set
        self.when_loaded: Callable[[], object] = lambda: None
        self.failure: Exception | None = None  # why the model did not load, or the thread died or did not stop
        self._load = source if callable(source) else None
        self._nli = None if callable(source) else source
        self._jobs: deque[_Job] = deque()
        self._changed = threading.Condition()  # guards _jobs and _open
        self._open = self._draining = False
        self._overtaken = False  # whether the last predictions overtook an explanation
        self._last = (1, 0.0)  # how many predictions were answered last, and the seconds they took
        self._thread: threading.Thread | None = None
        self._running: Sequence[_Job] = ()
        self._until = self._end = inf  # when the running jobs, and after `drain` all jobs, are stopped

    @property
    def nli(self) -> NLI:
        """The model; only once it is loaded."""
        assert self._nli is not None
        return self._nli

    @property
    def status(self) -> Status:
        """Requests wait while the model is "loading" and are rejected when "draining".

        "failed": the thread has died, or has been in one forward pass for too long.
        """
        if self.failure is not None or time.monotonic() > self._until + GRACE:
            return "failed"
        if self._draining:
            return "draining"
        return "loading" if self._nli is None else "ready"

    def __len__(self) -> int:
        """Jobs that wait."""
        return len(self._jobs)

    def start(self) -> None:
        """Start the thread; also again, after `close`."""
        self._open, self._draining, self._end, self.failure = True, False, inf, None
        self._thread = threading.Thread(target=self._work, name="neurogame-engine", daemon=True)
        self._thread.start()

    def drain(self) -> None:
        """Accept no more jobs, stop those that are left after `timeout` seconds; safe in a signal handler."""
        self._draining, self._end = True, min(self._end, time.monotonic() + self.timeout)

    def close(self) -> None:
        """Finish the waiting jobs, then stop the thread; `failure` is set where it does not stop."""
        self.drain()
        with self._changed:
            self._open = False
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(max(0.0, self._end - time.monotonic()) + GRACE)
            if self._thread.is_alive() and self._nli is not None:  # one that still loads can be left behind
                self.failure = ModelError("the model did not stop in time: a forward pass, or native code, hangs")

    async def predict(self, premise: str, hypothesis: str, notes: Notes | None = None, owner: str = "") -> Prediction:
        """The prediction of a pair; arguments and errors are those of `run`."""
        pair = (premise, hypothesis)
        return await self.run(lambda nli: nli.predict(*pair), notes, owner, pair=pair)

    async def run(
        self,
        work: Callable[[NLI], Answer],
        notes: Notes | None = None,
        owner: str = "",
        *,
        pair: tuple[str, str] | None = None,
    ) -> Answer:
        """The result of a function of the model, computed in the thread.

        Args:
            work: the function.
            notes: gets the times of the job, for the log.
            owner: whose share of the queue it takes.
            pair: of a prediction, which may share a forward pass with others.

        Raises:
            BusyError: the queue is full, it waited too long, or the engine is shutting down.
        """
        job = _Job(work, pair, {} if notes is None else notes, owner)
        with self._changed:
            if self._draining or not self._open:
                raise BusyError("draining", "the server is shutting down")
            if len(self._jobs) >= self.waiting and not self._make_room(job.owner):
                raise BusyError("full", f"{self.waiting} requests are waiting already; try again in a moment")
            self._jobs.append(job)
            self._changed.notify()
        answer: asyncio.Future[Answer] = asyncio.wrap_future(job.future)
        try:
            done, _ = await asyncio.wait([answer], timeout=self.timeout)
            if not done and self._withdraw(job):
                raise BusyError("late", f"not begun within {self.timeout:g} s; try again when less is asked")
            if not done and not (await asyncio.wait([answer], timeout=self.deadline))[0]:
                raise self._late()
            return await answer
        finally:
            if not answer.done():
                job.gone = True
                self._withdraw(job)
                answer.cancel()

    def _make_room(self, owner: str) -> bool:
        """In a full queue, reject the last job of the owner with the most, if that is fairer."""
        most = of_heaviest(self._jobs, lambda job: job.owner)
        if sum(job.owner == owner for job in self._jobs) + 1 >= len(most):
            return False
        self._jobs.remove(most[-1])
        _fail(most[-1], BusyError("full", "rejected in favour of clients with fewer waiting requests; try again later"))
        return True

    def _late(self) -> BusyError:
        return BusyError("late", f"not done within {self.deadline:g} s; ask for fewer samples or a shorter pair")

    def _withdraw(self, job: _Job) -> bool:
        """Remove a job from the queue; False if it has begun."""
        with self._changed:
            if job not in self._jobs:
                return False
            self._jobs.remove(job)
            return True

    def _work(self) -> None:
        """The thread. An exception that ends it fails all jobs, shows in `status`, and is kept in `failure`."""
        between_passes.set(self._check)
        try:
            if self._nli is None and self._load is not None:
                self._nli = self._load()
            self.when_loaded()
            while jobs := self._next():
                self._answer([job for job in jobs if job.future.set_running_or_notify_cancel()])
        except BaseException as error:  # noqa: BLE001  `when_loaded` looks at it
            died = ModelError(f"{type(error).__name__} has ended the thread of the model")
            self.failure = error if isinstance(error, Exception) else died
            self._turn_away(BusyError("draining", f"the model {'did not load' if self._nli is None else 'has failed'}"))
            self.when_loaded()

    def _check(self) -> None:
        """Between two forward passes: stop work past its deadline, or whose clients have disconnected."""
        now = time.monotonic()
        if now > self._end:
            raise BusyError("draining", "stopped, since the server is shutting down")
        if now > self._until:
            raise self._late()
        if self._running and all(job.gone for job in self._running):
            raise BusyError("late", "the client has disconnected")

    def _turn_away(self, error: BusyError) -> None:
        """Fail all jobs and accept no more."""
        with self._changed:
            self._open, self._draining = False, True
            for job in (*self._running, *self._jobs):
                _fail(job, error)
            self._jobs.clear()

    def _next(self) -> list[_Job]:
        """Waiting predictions, or the first explanation; none once the engine is closed and done."""
        with self._changed:
            self._changed.wait_for(lambda: self._jobs or not self._open)
            if time.monotonic() > self._end:
                self._turn_away(BusyError("draining", "not begun, since the server is shutting down"))
            if any(job.pair for job in self._jobs):
                self._linger()
            predictions = [job for job in self._jobs if job.pair][: self.batch]
            others = [job for job in self._jobs if not job.pair][:1]
            chosen = others if others and (self._overtaken or not predictions) else predictions
            self._overtaken = bool(others) and chosen is predictions
            for job in chosen:
                self._jobs.remove(job)
            return chosen

    def _linger(self) -> None:
        """Wait a moment for as many predictions as were answered last: their clients are about to ask again.

        Without it eight clients that take turns become batches of one and seven.
        """
        count, seconds = self._last
        enough = lambda: not self._open or sum(job.pair is not None for job in self._jobs) >= count  # noqa: E731
        self._changed.wait_for(enough, min(LINGER * seconds, LONGEST))

    def _answer(self, jobs: Sequence[_Job]) -> None:
        """Predictions in groups of similar length, or one explanation."""
        pairs = [job.pair for job in jobs if job.pair]
        start = time.perf_counter()
        for group in groups([len(premise) + len(hypothesis) for premise, hypothesis in pairs]):
            self._compute([jobs[i] for i in group], "predict")
        if pairs:
            self._last = (len(pairs), time.perf_counter() - start)
        elif jobs:
            self._compute(jobs, "explain")

    def _compute(self, jobs: Sequence[_Job], kind: str) -> None:
        """One forward pass for all; where that fails, one for each, so that only the faulty ones get the error."""
        self._running, self._until = jobs, time.monotonic() + self.deadline
        start, answers, failure = time.perf_counter(), [], None
        try:
            if len(jobs) > 1:
                answers = self.nli.predict([job.pair for job in jobs if job.pair], batch_size=self.batch)
            else:
                answers = [jobs[0].work(self.nli)]
        except BaseException as error:  # noqa: BLE001  it belongs to the request
            failure = error
        if failure is not None and len(jobs) > 1:
            for job in jobs:
                self._compute([job], kind)
            return
        self._record(jobs, kind, start)
        if failure is not None:
            _fail(jobs[0], failure)
            return
        for job, answer in zip(jobs, answers, strict=True):
            job.future.set_result(answer)

    def _record(self, jobs: Sequence[_Job], kind: str, start: float) -> None:
        seconds = time.perf_counter() - start
        self._until = inf
        self.observe(kind, len(jobs), seconds)
        for job in jobs:
            job.notes.update({"waited_ms": round(1e3 * (start - job.since), 1), "model_ms": round(1e3 * seconds, 1)})
            if kind == "predict":
                job.notes["batch"] = len(jobs)


def _fail(job: _Job, error: BaseException) -> None:
    """Give a job its error. One that asyncio cannot pass on, as a panic of native code, becomes a RuntimeError."""
    if not isinstance(error, Exception) or isinstance(error, StopIteration):
        log.error("crash in the model's code", exc_info=error)
        error = RuntimeError(f"{type(error).__name__} in the model's code")
    if not job.future.done() and (job.future.running() or job.future.set_running_or_notify_cancel()):
        job.future.set_exception(error)


def of_heaviest(items: Iterable[Item], owner: Callable[[Item], Hashable]) -> list[Item]:
    """The items of the owner that has the most of them, in their order."""
    shares: dict[Hashable, list[Item]] = defaultdict(list)
    for item in items:
        shares[owner(item)].append(item)
    return max(shares.values(), key=len, default=[])


def groups(lengths: Sequence[int]) -> list[list[int]]:
    """Indices of texts in groups that share a forward pass, the shortest texts first, at the least total cost."""
    order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    best, begins = [0], [0]  # the least cost of the first i, and where its last group begins
    for i in range(1, len(order) + 1):
        costs = [best[j] + START + (i - j) * lengths[order[j]] for j in range(i)]
        best.append(min(costs))
        begins.append(costs.index(best[i]))
    grouped, end = [], len(order)
    while end:
        grouped.append(order[begins[end] : end])
        end = begins[end]
    return grouped
