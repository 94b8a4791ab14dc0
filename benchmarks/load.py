"""`neurogame serve` under load, on loopback, with wrk: results/load.json.

    python benchmarks/load.py              # some six minutes; leave the machine alone meanwhile
    python benchmarks/load.py --seconds 2 --requests 2000 --only tiny --dry

For the embedded model and for a tiny one, of which nearly all the time is not the model: requests per second and the
quantiles of their time at 1, 8 and 64 clients, with batches (the default) and with one request at a time (`--batch 1`),
by turns in one run; then 256 clients, more than may wait, of whom some are turned away with 503. With the tiny model
also the memory of the server over 30 000 requests. Pairs are generated, of one to four sentences. Last, the embedded
model by torch, by onnxruntime and as int8, each in one process with all threads and in several of one thread each.
"""

import argparse
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from common import Clock, progress, save, show

LUA = Path(__file__).with_name("load.lua")
CLIENTS = (1, 8, 64)
TOO_MANY = 256
UNBATCHED, BATCHED = 1, 32
BACKENDS = ("torch", "onnx", "int8")
PROCESSES = (1, 2)
PAIRS = 2000


def main() -> None:
    """Measure, print, store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=15, help="per row")
    parser.add_argument("--requests", type=int, default=30_000, help="over which memory is watched")
    parser.add_argument("--only", choices=["embedded", "tiny", "backends"])
    parser.add_argument("--dry", action="store_true", help="store nothing")
    options = parser.parse_args()
    if shutil.which("wrk") is None:
        parser.error("wrk is not installed (apt install wrk)")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that no server is left behind
    clock, rows, memory, backends = Clock(), [], [], []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        bodies = _bodies(folder / "bodies.jsonl")
        models = {"embedded": None, "tiny": _tiny(folder / "tiny")}
        for model, path in models.items():
            if options.only in (None, model):
                rows += _compared(model, path, bodies, options.seconds)
        if options.only in (None, "tiny"):
            memory = _memory(models["tiny"], bodies, options.requests, options.seconds)
        if options.only in (None, "backends"):
            backends = _backends(folder, bodies, options.seconds)
    for title, table in (("neurogame serve under load", rows), ("backends and processes", backends)):
        if table:
            show(title, table)
    found = {"rows": rows, "batching": _gains(rows), "memory": memory, "growth_mb": _growth(memory)}
    found |= {"backends": backends}
    print(json.dumps({name: found[name] for name in ("batching", "growth_mb")}))
    if not options.dry:
        save("load", clock(), **found)


class Server:
    """A server that runs: where, and what it says of itself."""

    def __init__(self, url: str) -> None:
        self.url = url

    def metrics(self, *names: str) -> list[float]:
        """Numbers of /metrics, of one moment."""
        with urllib.request.urlopen(f"{self.url}metrics", timeout=60) as response:  # noqa: S310  our own
            values = dict(line.rsplit(" ", 1) for line in response.read().decode().splitlines())
        return [float(values.get(name, 0)) for name in names]


@contextmanager
def _served(model: Path | None, batch: int, backend: str = "torch", threads: int | None = None) -> Iterator[Server]:
    """`neurogame serve` in a process of its own, ended by SIGTERM, cleanly or not at all."""
    verb = [sys.executable, "-m", "neurogame", "serve", "--port", "0", "--batch", str(batch), "--backend", backend]
    verb += [] if model is None else ["--model", str(model)]
    place = dict(os.environ) | ({} if threads is None else {"OMP_NUM_THREADS": str(threads)})
    with (
        tempfile.TemporaryFile("w+") as log,
        subprocess.Popen(verb, stderr=log, env=place) as process,  # noqa: S603  ourselves
    ):
        try:
            yield Server(_address(process, log))
            process.terminate()
            if process.wait(timeout=120):
                raise RuntimeError(f"the server ended with {process.returncode}")
        finally:
            process.kill()


def _address(process: "subprocess.Popen[bytes]", log: Any) -> str:
    while process.poll() is None:
        log.seek(0)
        found = re.search(r"neurogame serve: (http://\S+)", log.read())
        if found:
            return found[1]
        time.sleep(0.1)
    log.seek(0)
    raise RuntimeError(f"the server did not start: {log.read()}")


def _wrk(server: Server, bodies: Path, clients: int, seconds: float) -> dict[str, Any]:
    """What wrk counts and measures, and the server's own answers per second in the steady part of it.

    wrk forgets what is under way when it ends: with 64 clients and one answer at a time that is some seconds of work.
    """
    counts = "neurogame_batch_pairs_count", "neurogame_batch_pairs_sum"
    answered = 'neurogame_requests_total{route="/predict",status="200"}'
    before = server.metrics(*counts)
    seconds = max(1, round(seconds))
    verb = ["wrk", "-t1", f"-c{clients}", f"-d{seconds}s", "--timeout", "60s", "-s", str(LUA)]
    with subprocess.Popen([*verb, f"{server.url}predict", "--", str(bodies)], stdout=subprocess.PIPE, text=True) as wrk:  # noqa: S603
        steady = []
        for pause in (0.2 * seconds, 0.75 * seconds):
            time.sleep(pause)
            steady.append((*server.metrics(answered), time.perf_counter()))
        said = wrk.communicate()[0]
    if wrk.returncode:
        raise RuntimeError(f"wrk ended with {wrk.returncode}")
    (first, start), (last, end) = steady
    found: dict[str, Any] = json.loads(said.splitlines()[-1])
    passes, pairs = (after - b for after, b in zip(server.metrics(*counts), before, strict=True))
    del found["seconds"]
    return {
        "per_second": round((last - first) / (end - start), 1),
        **found,
        "mean_batch": round(pairs / max(passes, 1), 2),
    }


def _compared(model: str, path: Path | None, bodies: Path, seconds: float) -> list[dict[str, Any]]:
    """Batched and unbatched by turns, then too many at once."""
    rows = []
    with ExitStack() as stack:
        servers = {batch: stack.enter_context(_served(path, batch)) for batch in (BATCHED, UNBATCHED)}
        for server in servers.values():
            _wrk(server, bodies, 8, min(seconds, 3))
        for clients in CLIENTS:
            for batch, server in servers.items():
                row = _wrk(server, bodies, clients, seconds)
                rows.append({"model": model, "batch": batch, "clients": clients, **row})
                progress(str(rows[-1]))
        row = _wrk(servers[BATCHED], bodies, TOO_MANY, seconds)
        rows.append({"model": model, "batch": BATCHED, "clients": TOO_MANY, **row})
        progress(str(rows[-1]))
    return rows


def _backends(folder: Path, bodies: Path, seconds: float) -> list[dict[str, Any]]:
    """The embedded model behind the same server, run by torch, onnxruntime and onnxruntime with int8 weights.

    With several processes each has one thread and its share of the clients, as behind a proxy; the quantiles are those
    of the slowest process.
    """
    from neurogame.export import export
    from neurogame.nli import load

    export(load(), folder / "onnx")
    export(load(), folder / "int8", quantize="int8")
    rows = []
    for backend in BACKENDS:
        path = None if backend == "torch" else folder / backend
        for processes in PROCESSES:
            with ExitStack() as stack, ThreadPoolExecutor(processes) as pool:
                kind, threads = "torch" if path is None else "onnx", None if processes == 1 else 1
                servers = [stack.enter_context(_served(path, BATCHED, kind, threads)) for _ in range(processes)]
                for clients in (0, *CLIENTS[1:]):  # the first row warms up
                    share, span = max(clients, 8) // processes, seconds if clients else min(seconds, 3)
                    found = list(pool.map(lambda server: _wrk(server, bodies, share, span), servers))  # noqa: B023
                    if clients:
                        row = {"backend": backend, "processes": processes, "clients": clients}
                        rows.append({**row, **_together(found)})
                        progress(str(rows[-1]))
    return rows


def _together(found: list[dict[str, Any]]) -> dict[str, Any]:
    """Requests of all processes, quantiles of the slowest."""
    summed = {name: round(sum(row[name] for row in found), 1) for name in ("per_second", "ok", "busy", "failed")}
    return summed | {name: max(row[name] for row in found) for name in ("p50_ms", "p95_ms", "p99_ms")}


def _memory(path: Path | None, bodies: Path, requests: int, seconds: float) -> list[dict[str, float]]:
    """Megabytes of the server as requests are answered, up to their number."""
    found, done = [], 0
    with _served(path, BATCHED) as server:
        while done < requests:
            done += _wrk(server, bodies, 64, min(seconds, 5))["ok"]
            (size,) = server.metrics("process_resident_memory_bytes")
            found.append({"requests": done, "mb": round(size / 2**20, 1)})
            progress(str(found[-1]))
    return found


def _growth(memory: list[dict[str, float]]) -> float | None:
    """Megabytes between a third of the requests, when all buffers have their size, and the last."""
    if not memory:
        return None
    first = next(row for row in memory if row["requests"] >= memory[-1]["requests"] / 3)
    return round(memory[-1]["mb"] - first["mb"], 1)


def _gains(rows: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Requests per second with batches over those without, by model and clients."""
    speed = {(row["model"], row["batch"], row["clients"]): row["per_second"] for row in rows}
    return {
        model: {
            str(clients): round(speed[model, BATCHED, clients] / max(speed[model, UNBATCHED, clients], 1e-9), 2)
            for clients in CLIENTS
        }
        for model in dict.fromkeys(row["model"] for row in rows)
    }


def _bodies(path: Path) -> Path:
    """Pairs of one to four generated sentences and one, a request per line."""
    from neurogame.data.grammar import generate

    texts = [pair.premise for pair in generate(PAIRS, seed=0)]
    rng = random.Random(0)
    with path.open("w", encoding="utf-8") as file:
        for _ in range(PAIRS):
            premise = " ".join(rng.choices(texts, k=rng.randint(1, 4)))
            file.write(json.dumps({"premise": premise, "hypothesis": rng.choice(texts)}) + "\n")
    return path


def _tiny(folder: Path) -> Path:
    """A model with random weights, width 32, two layers."""
    import torch
    from transformers import BertConfig, BertTokenizer

    from neurogame.data.grammar import generate
    from neurogame.modeling import NeuroGameConfig, NeuroGameForSequenceClassification

    words = sorted({word for pair in generate(PAIRS, seed=0) for word in re.findall(r"\w+|\W", pair.premise.lower())})
    tokenizer = BertTokenizer(
        vocab={word: i for i, word in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words])}
    )
    tokenizer.model_max_length = 128
    torch.manual_seed(0)
    encoder = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=128,
    )
    model = NeuroGameForSequenceClassification(NeuroGameConfig(head="neurogame", encoder=encoder, spins=12))
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


if __name__ == "__main__":
    main()
