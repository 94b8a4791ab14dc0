"""`make attack`: what once stopped `neurogame serve` or misled a reader, and a table of how it is withstood.

    python tests/attack/run.py [--output results/attack.json] [--small]

Rows of the first kind attack a real server on 127.0.0.1 with some 5 000 connections in all; rows of the second kind run
the tests marked `attack`: files, folders of models and compiled code need no server. Fifteen minutes at most. Ends with
1 where something is not as promised in docs/how-to/serve.md; with --output the table is written there too.
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
import threading
import time
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import tiny

from neurogame.nli import NLI
from neurogame.serving.settings import DEFAULT
from neurogame_bench.pages import pipes, update

PAIR = {"premise": "two dogs sleep .", "hypothesis": "the dogs run ."}
TOKEN = "a-token-for-the-attack-of-32-or-more"
ROOT = Path(__file__).parents[2]
IN_ALL = 900  # seconds
HANG = 60  # seconds until an answer that does not come is a failure
END = DEFAULT.timeout + 15  # seconds from SIGTERM to the end, as promised
BESIDE = (1.0, 20)  # /health beside a body: seconds, or so many times what it takes beside a good one
CROWD = 20.0  # seconds for /health behind a burst; without limits it took as long as connections may idle, and longer
POINTS = {
    2: "a dead engine, a panic of native code",
    4: "an unclosed quote that swallows rows",
    6: "compiled code in a cache that others can write",
    7: "links and foreign files in the place of a journal",
    8: "an embedded model that was changed",
    9: "sizes of 10⁹ in a configuration, a broken tokenizer",
    10: "numbers, keys, columns and lengths that are ambiguous or too large",
}


@contextmanager
def served(folder, files=1024):
    """The process and its port; killed at the end if it has not ended by itself."""
    verb = [sys.executable, "-m", "neurogame", "serve", "--model", str(folder), "--port", "0"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "NEUROGAME_TOKEN": TOKEN}
    few = partial(resource.setrlimit, resource.RLIMIT_NOFILE, (files, files))  # open files, 1024 on many systems
    with (
        tempfile.TemporaryFile("w+") as log,
        subprocess.Popen(verb, env=environment, stderr=log, preexec_fn=few) as process,
    ):
        try:
            while not (found := re.search(r"http://127\.0\.0\.1:(\d+)/", read(log))):
                assert process.poll() is None, read(log)
                time.sleep(0.1)
            yield process, int(found[1])
            assert "Traceback" not in read(log), read(log)
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


def crowd(folder, count, sent, *, burst=False, files=1024):
    """Whether health and those who have the token are answered beside many connections; then SIGTERM."""
    with served(folder, files) as (process, port), ExitStack() as stack:
        for _ in range(count):
            stack.enter_context(begin(port) if burst else connect(port, sent))
        if not burst:
            time.sleep(2)
        health, predicted = ask(port, HEALTH), [ask(port, PREDICT) for _ in range(5)]
        start = time.perf_counter()
        process.send_signal(signal.SIGTERM)
        code = process.wait(HANG)
        ended = time.perf_counter() - start
    slowest = max(seconds for _, seconds in predicted)
    statuses = sorted({status for status, _ in predicted})
    said = f"/health {health[0]} in {health[1]:.2f} s, /predict {statuses} in at most {slowest:.2f} s; "
    good = (health[0], statuses, code) == (200, [200], 0) and health[1] < CROWD and ended < END
    return good, f"{said}SIGTERM: {code} after {ended:.1f} s"


def begin(port):
    """A connection that is asked for and not waited for."""
    found = socket.socket()
    found.settimeout(0)
    found.connect_ex(("127.0.0.1", port))
    return found


def send(connection, sent):
    """All of it, unless the server has had enough."""
    with suppress(OSError):
        connection.sendall(sent)


def one_body(port, sent, expected, bound=None):
    """The status of one request, and how long /health takes while it is handled."""
    with connect(port) as attacking:
        sender = threading.Thread(target=send, args=(attacking, sent))
        sender.start()
        time.sleep(0.05)  # it is being parsed
        _, seconds = ask(port, HEALTH)
        status = int(attacking.makefile("rb").readline().split()[1])
        sender.join()
    good = status in expected and (bound is None or seconds < bound)
    return good, f"{status}; /health beside it in {seconds:.3f} s", seconds


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
    good = as_json and code == 0 and set(statuses) <= {200, 503} and ended < END
    return good, f"{statuses}, all JSON: {as_json}; exit {code} after {ended:.1f} s"


def tests(point):
    """The tests of a point of the list."""
    mark = f"attack(point={point})"
    files = [str(path) for path in sorted(ROOT.glob("tests/*/test_*.py")) if f"@pytest.mark.{mark}" in path.read_text()]
    verb = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", mark]
    found = subprocess.run([*verb, *files], cwd=ROOT, capture_output=True, text=True, check=False)
    return found.returncode == 0, (found.stdout.strip().splitlines() or ["no output"])[-1].strip("= ")


def attacks(folder, share):
    """Name and outcome of each, one after another; `share` makes crowds smaller."""
    pair = json.dumps(PAIR).encode()
    slow, anonymous = (message("POST", "/predict", pair, token=token)[:-5] for token in (True, False))
    yield "nobody else, for comparison", crowd(folder, 0, b"")
    for token, who in ((True, "with"), (False, "without")):
        pipelined = message("GET", "/openapi.json", token=token) * 600
        yield f"275 that pipeline and never read, {who} the token", crowd(folder, 275 // share, pipelined)
    yield "275 slow bodies", crowd(folder, 275 // share, slow)
    yield "275 slow bodies without the token", crowd(folder, 275 // share, anonymous)
    yield "1005 idle connections", crowd(folder, 1005 // share, b"")
    yield "a burst of 3000 connections", crowd(folder, 3000 // share, b"", burst=True)
    yield "400 idle connections, 256 open files", crowd(folder, 400 // share, b"", files=256)
    with served(folder) as (_, port):
        good, said, seconds = one_body(port, message("POST", "/explain", pair), {200})
        yield "a good body, for comparison", (good, said)
        bound = max(BESIDE[0], BESIDE[1] * seconds)
        for name, (sent, expected) in bodies(pair).items():
            yield name, one_body(port, sent, expected, bound)[:2]
    yield "SIGTERM during 20 long explanations", long_work(folder)
    for point, name in POINTS.items():
        yield f"{name} (tests)", tests(point)


def bodies(pair):
    """Name, bytes and the statuses that may answer them."""
    keys = b"{" + b",".join(b'"%x":1' % i for i in range(110_000)) + b"}"
    chunked = b"%x\r\n%s\r\n0\r\n\r\n" % (len(pair), pair)
    both = message("POST", "/explain", pair, **{"Transfer-Encoding": "chunked"})
    small = {token: message("POST", "/explain", token=token) for token in (True, False)}
    for token, head in small.items():
        small[token] = head.replace(b"Content-Length: 0", b"Transfer-Encoding: chunked") + b"1\r\n \r\n" * 100_000
    return {
        "a body of 110 000 unknown keys": (message("POST", "/explain", keys), {422}),
        "100 000 chunks of a byte": (small[True], {400}),
        "100 000 chunks of a byte, without the token": (small[False], {400, 401}),
        "a key given twice": (message("POST", "/explain", pair[:-1] + b', "premise": ""}'), {422}),
        "two lengths of a body": (both[: -len(pair)] + chunked, {400}),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, help="where the table is written, besides docs/how-to/serve.md")
    parser.add_argument("--small", action="store_true", help="crowds of a tenth, to see that it works; writes nothing")
    options = parser.parse_args()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096), hard))
    signal.alarm(IN_ALL)
    with tempfile.TemporaryDirectory() as folder:
        NLI(tiny.model(), tiny.tokenizer(), name="tiny").save_pretrained(folder)
        found = {}
        for name, (good, said) in attacks(folder, 10 if options.small else 1):
            found[name] = {"good": good, "said": said}
            print(f"{'held  ' if good else 'FAILED'}  {name:70}  {said}", flush=True)
    if options.output is not None and not options.small:
        options.output.write_text(json.dumps(found, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        rows = [[name, "yes" if row["good"] else "no", row["said"]] for name, row in found.items()]
        table = pipes(["attack", "held", "what happened"], rows, left=3)
        update(ROOT / "docs" / "how-to" / "serve.md", table, "results/attack.json")
    sys.exit(not all(row["good"] for row in found.values()))


if __name__ == "__main__":
    main()
