"""`make attack`: `neurogame serve` on 127.0.0.1 under the attacks that once stopped it, and a table of what it did.

Bounded: some 2 000 connections in all, ten minutes at most. Ends with 1 where an answer is not as promised in
docs/how-to/serve.md. Small versions of all this, and what needs a failing model: tests/serving/test_serving_attack.py.

Attacks by files need no server and are plain tests: sources and journals in test_prediction_resume, test_explain_file
and test_data_reading, folders of models in test_safe_loading and test_embedded, compiled code in test_kernels.
"""

import argparse
import json
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import tiny

from neurogame.nli import NLI

PAIR = {"premise": "two dogs sleep .", "hypothesis": "the dogs run ."}
TOKEN = "a-token-for-the-attack-of-32-or-more"
IN_ALL = 600  # seconds
HANG = 60  # seconds until an answer that does not come is a failure


@contextmanager
def served(folder):
    """The process and its port; killed at the end if it has not ended by itself."""
    verb = [sys.executable, "-m", "neurogame", "serve", "--model", str(folder), "--port", "0"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "NEUROGAME_TOKEN": TOKEN}
    few = partial(resource.setrlimit, resource.RLIMIT_NOFILE, (1024, 1024))  # open files, as on many systems
    with (
        tempfile.TemporaryFile("w+") as log,
        subprocess.Popen(verb, env=environment, stderr=log, preexec_fn=few) as process,
    ):
        try:
            while not (found := re.search(r"http://127\.0\.0\.1:(\d+)/", read(log))):
                assert process.poll() is None, read(log)
                time.sleep(0.1)
            yield process, int(found[1])
        finally:
            process.kill()


def read(log):
    log.seek(0)
    return log.read()


def connect(port, sent=b""):
    found = socket.socket()
    found.settimeout(HANG)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)  # what is not read soon fills the server's buffers
    found.connect(("127.0.0.1", port))
    found.sendall(sent)
    return found


def message(verb, path, body=b"", *, token=True, **headers):
    lines = [f"{verb} {path} HTTP/1.1", "Host: localhost", f"Content-Length: {len(body)}"]
    lines += ["Content-Type: application/json"] + [f"Authorization: Bearer {TOKEN}"] * token
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + body


HEALTH = message("GET", "/health", token=False)
PREDICT = message("POST", "/predict", json.dumps(PAIR).encode())


def ask(port, sent):
    """Status and seconds of one request; status 0 where the connection is closed without an answer."""
    start = time.perf_counter()
    with connect(port, sent) as connection:
        try:
            head = connection.makefile("rb").readline()
        except OSError:
            head = b""
    return int(head.split()[1]) if head else 0, time.perf_counter() - start


def crowd(folder, count, sent):
    """Whether health and those who have the token are answered beside many connections; then SIGTERM."""
    with served(folder) as (process, port), ExitStack() as stack:
        for _ in range(count):
            stack.enter_context(connect(port, sent))
        time.sleep(2)
        health, predicted = ask(port, HEALTH), [ask(port, PREDICT) for _ in range(5)]
        start = time.perf_counter()
        process.send_signal(signal.SIGTERM)
        code = process.wait(HANG)
        ended = time.perf_counter() - start
    slowest = max(seconds for _, seconds in predicted)
    statuses = sorted({status for status, _ in predicted})
    said = f"/health {health[0]}, /predict {statuses} in at most {slowest:.2f} s; SIGTERM: {code} after {ended:.1f} s"
    return (health[0], statuses, code) == (200, [200], 0), said


def one_body(port, body, expected, **headers):
    """The status of one request, and how long /health takes while it is handled."""
    with connect(port, message("POST", "/explain", body, **headers)) as attacking:
        _, seconds = ask(port, HEALTH)
        status = int(attacking.makefile("rb").readline().split()[1])
    return status == expected, f"{status}; /health beside it in {seconds:.3f} s"


def long_work(folder):
    """SIGTERM during explanations: what they get, and when the process ends."""
    body = json.dumps({"premise": "dogs " * 300, "hypothesis": "dogs " * 300, "method": "input", "samples": 2000})
    with served(folder) as (process, port), ExitStack() as stack:
        asked = [stack.enter_context(connect(port, message("POST", "/explain", body.encode()))) for _ in range(20)]
        time.sleep(2)
        start = time.perf_counter()
        process.send_signal(signal.SIGTERM)
        answers = [connection.makefile("rb").read() for connection in asked]
        code = process.wait(HANG)
        ended = time.perf_counter() - start
    statuses = sorted({int(found.split(maxsplit=2)[1]) for found in answers})
    as_json = all(found.partition(b"\r\n\r\n")[2].startswith(b"{") for found in answers)
    good = as_json and code == 0 and set(statuses) <= {200, 503}
    return good, f"{statuses}, all JSON: {as_json}; exit {code} after {ended:.1f} s"


def attacks(folder):
    """Name and outcome of each, one after another."""
    pair = json.dumps(PAIR).encode()
    slow, anonymous = (message("POST", "/predict", pair, token=token)[:-5] for token in (True, False))
    keys = b"{" + b",".join(b'"%x":1' % i for i in range(110_000)) + b"}"
    chunked = b"%x\r\n%s\r\n0\r\n\r\n" % (len(pair), pair)
    yield "nobody else, for comparison", crowd(folder, 0, b"")
    yield "275 connections that pipeline and never read", crowd(folder, 275, message("GET", "/openapi.json") * 600)
    yield "275 slow bodies", crowd(folder, 275, slow)
    yield "275 slow bodies without the token", crowd(folder, 275, anonymous)
    yield "1005 idle connections", crowd(folder, 1005, b"")
    with served(folder) as (_, port):
        yield "a good body, for comparison", one_body(port, pair, 200)
        yield "a body of 110 000 unknown keys", one_body(port, keys, 422)
        yield "a key given twice", one_body(port, pair[:-1] + b', "premise": ""}', 422)
        yield "two lengths of a body", one_body(port, chunked, 400, **{"Transfer-Encoding": "chunked"})
    yield "SIGTERM during 20 long explanations", long_work(folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, help="where the table is written as JSON")
    output = parser.parse_args().output
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096), hard))
    signal.alarm(IN_ALL)
    with tempfile.TemporaryDirectory() as folder:
        NLI(tiny.model(), tiny.tokenizer(), name="tiny").save_pretrained(folder)
        found = {}
        for name, (good, said) in attacks(folder):
            found[name] = {"good": good, "said": said}
            print(f"{'held  ' if good else 'FAILED'}  {name:46}  {said}", flush=True)
    if output is not None:
        output.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    sys.exit(not all(entry["good"] for entry in found.values()))


if __name__ == "__main__":
    main()
