"""What a server counts, in the format of Prometheus: one registry per application."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from neurogame import __version__
from neurogame.serving.engine import Engine

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_PAIRS = (1, 2, 4, 8, 16, 32, 64, 128)


class Metrics:
    """Counters of requests and of the model's work; `text()` is the page that Prometheus reads."""

    def __init__(self) -> None:
        self.registry = found = CollectorRegistry()
        self.requests = Counter("neurogame_requests", "Requests answered.", ["route", "status"], registry=found)
        self.seconds = Histogram(
            "neurogame_request_seconds", "From head to last byte.", ["route"], buckets=_SECONDS, registry=found
        )
        self.rejected = Counter(
            "neurogame_rejected", "Requests turned away before the model saw them.", ["reason"], registry=found
        )
        self.model_seconds = Histogram(
            "neurogame_model_seconds", "Per piece of work.", ["work"], buckets=_SECONDS, registry=found
        )
        self.batch = Histogram("neurogame_batch_pairs", "Pairs per forward pass.", buckets=_PAIRS, registry=found)
        self.active = Gauge("neurogame_active_requests", "Requests under way.", registry=found)
        self.queue = Gauge("neurogame_queue_length", "Requests that wait for the model.", registry=found)
        self.ready = Gauge("neurogame_ready", "1 while requests are welcome: loaded, not draining.", registry=found)
        Gauge("neurogame_info", "Always 1.", ["version"], registry=found).labels(__version__).set(1)
        ProcessCollector(registry=found)

    def watch(self, engine: Engine) -> None:
        """Read the queue and the state of an engine whenever they are asked for."""
        self.queue.set_function(lambda: len(engine))
        self.ready.set_function(lambda: engine.status == "ready")

    def worked(self, work: str, jobs: int, seconds: float) -> None:
        """A piece of work of the engine is done."""
        self.model_seconds.labels(work).observe(seconds)
        if work == "predict":
            self.batch.observe(jobs)

    def answered(self, route: str, status: int, seconds: float, reason: str | None) -> None:
        """A request is done; `reason` is why it was turned away."""
        self.requests.labels(route, str(status)).inc()
        self.seconds.labels(route).observe(seconds)
        if reason is not None:
            self.rejected.labels(reason).inc()

    def text(self) -> bytes:
        """Everything, as Prometheus reads it."""
        return generate_latest(self.registry)
