"""A session of all fuzzers: hypothesis on functions and verbs, then atheris on readers and pages, every input counted.

    python tests/fuzz/run.py [--inputs 100000] [--each 250] [--output results/fuzz.json]

atheris is guided by coverage; where it is not installed (pip install 'neurogame[fuzz]'), hypothesis makes the bytes,
and stderr says so. Ends with 1 if anything was found; what was found is printed, and the input kept beside the record.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

HERE = Path(__file__).resolve().parent
SHARES = {"readers": 0.9, "html": 0.1}  # of the inputs that are bytes; a page costs ten times a file
CRASH = re.compile(r"^(FAILED|ERROR) \S+::.*$", re.MULTILINE)  # of the summary, not of a log


def main():
    options = arguments()
    if options.target:
        attack(options.target, options.inputs)
        return 0
    start, crashes = time.perf_counter(), []
    options.output.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        counts = by_hypothesis(options.each, Path(folder), crashes)
        rest = max(0, options.inputs - sum(counts.values()))
        for target, share in SHARES.items():
            counts[f"{engine()} {target}"] = by_bytes(target, round(share * rest) + 1, options.output.parent, crashes)
    record = {
        "engine": engine(),
        "versions": {name: installed(name) for name in ("atheris", "hypothesis")},
        "inputs": dict(sorted(counts.items())),
        "total": sum(counts.values()),
        "crashes": crashes,
        "seconds": round(time.perf_counter() - start, 1),
    }
    options.output.write_text(json.dumps(record, indent=1) + "\n")
    for name, count in record["inputs"].items():
        print(f"{count:8d}  {name}")
    print(f"{record['total']:8d}  inputs in {record['seconds']:.0f} s, {len(crashes)} crashes; {options.output}")
    for crash in crashes:
        print(crash, file=sys.stderr)
    return 1 if crashes or record["total"] < options.inputs else 0


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--inputs", type=int, default=100_000, help="at least so many, all targets together")
    parser.add_argument("--each", type=int, default=250, help="inputs of a hypothesis test, times its share")
    parser.add_argument("--output", type=Path, default=Path("results/fuzz.json"))
    parser.add_argument("--target", choices=SHARES, help="only this one, in this process")
    return parser.parse_args()


def engine():
    return "atheris" if find_spec("atheris") else "hypothesis"


def installed(name):
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def by_hypothesis(each, folder, crashes):
    """The tests of this folder with many inputs; how many each target had."""
    command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "--tb=short", "-p", "no:cacheprovider", str(HERE)]
    env = {**os.environ, "NEUROGAME_FUZZ": str(each), "NEUROGAME_FUZZ_COUNTS": str(folder), "OMP_NUM_THREADS": "1"}
    print(f"hypothesis: {each} inputs times its share for each test", file=sys.stderr)
    done = subprocess.run(command, env=env, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        print(done.stdout, file=sys.stderr)
        crashes += [match[0] for match in CRASH.finditer(done.stdout)] or [f"pytest ended with {done.returncode}"]
    counts = {}
    for path in folder.glob("*.json"):
        for name, count in json.loads(path.read_text()).items():
            counts[name] = counts.get(name, 0) + count
    return counts


def by_bytes(target, runs, place, crashes):
    """A target in a process of its own, which a crash ends; how many inputs it had."""
    if engine() != "atheris":
        print(f"atheris is not installed: hypothesis makes the bytes for {target}, not guided", file=sys.stderr)
    print(f"{engine()}: {runs} inputs for {target}", file=sys.stderr)
    command = [sys.executable, str(HERE / "run.py"), "--target", target, "--inputs", str(runs)]
    done = subprocess.run(command, cwd=place, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        kept = place / f"fuzz-{target}.log"
        kept.write_text(done.stdout)
        crashes.append(f"{target}: ended with {done.returncode}; {kept}")
    found = re.search(r"number_of_executed_units:\s*(\d+)", done.stdout)
    return int(found[1]) if found else 0


def attack(target, runs):
    """Feed a target until it breaks or has had enough."""
    try:
        import atheris
    except ImportError:
        unguided(target, runs)
        return
    with atheris.instrument_imports(include=["neurogame.data", "neurogame.explanation", "neurogame.labels"]):
        import targets
    with tempfile.TemporaryDirectory() as folder:
        corpus, words = Path(folder, "corpus"), Path(folder, "words.dict")
        corpus.mkdir()
        for i, seed in enumerate(seeds(targets)):
            (corpus / str(i)).write_bytes(seed)
        words.write_text("".join(f'"{word}"\n' for word in targets.WORDS))
        settings = [f"-runs={runs}", "-max_len=2048", "-seed=1", "-print_final_stats=1", "-timeout=60", "-verbosity=0"]
        settings += [f"-dict={words}", str(corpus)]
        atheris.Setup([sys.argv[0], *settings], kept(targets.TARGETS[target], Path(f"fuzz-{target}.input")))
        atheris.Fuzz()


def kept(target, path):
    """The target, which leaves the input it breaks over in a file of this folder."""

    def one(data):
        try:
            target(data)
        except BaseException:
            path.write_bytes(data)
            raise

    return one


def seeds(targets):
    """Where to begin: every format under every option."""
    return [bytes([first]) + seed for first in range(0, 64, 7) for seed in targets.SEEDS]


def unguided(target, runs):
    """The same target with hypothesis's bytes."""
    import targets
    from hypothesis import HealthCheck, given, settings
    from hypothesis import strategies as st

    tried = [0]

    @settings(max_examples=runs, database=None, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.lists(st.binary(max_size=30) | st.sampled_from(seeds(targets)), max_size=8).map(b"".join))
    def one(data):
        tried[0] += 1
        attacked(data)

    attacked = kept(targets.TARGETS[target], Path(f"fuzz-{target}.input"))
    one()
    print(f"stat::number_of_executed_units: {tried[0]}")


if __name__ == "__main__":
    sys.path[:0] = [str(HERE), str(HERE.parent)]
    sys.exit(main())
