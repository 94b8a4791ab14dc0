"""Three ways to the same numbers: plain PyTorch, our compiled loops, torch.compile. Forward, batch 8, n = 128.

    python benchmarks/alternatives.py        # minutes (torch.compile); writes results/alternatives.json

For each: the first call (what somebody who predicts one sentence waits for) in a process of its own, with the
compiled loops built from nothing and torch.compile's cache empty, and the median of later calls as a ratio
to torch.nn.MultiheadAttention in the same process.
"""

import json
import os
import subprocess
import sys
import tempfile

from common import Clock, progress, save, show

CODE = """
import json, sys, time
import torch
from neurogame import NeuroGameAttention
from neurogame_bench.timing import interleaved
way, couplings = sys.argv[1:]
torch.manual_seed(0)
module = NeuroGameAttention(768, 12, couplings=couplings).eval()
mha = torch.nn.MultiheadAttention(768, 12, batch_first=True).eval()
x = torch.randn(8, 128, 768)
if way == "torch.compile":
    module = torch.compile(module, fullgraph=True)
with torch.no_grad():
    mha(x, x, x, need_weights=False)
    began = time.perf_counter()
    module(x)
    first = time.perf_counter() - began
    calls = {"ours": lambda: module(x), "MHA": lambda: mha(x, x, x, need_weights=False)}
    seconds = interleaved(calls, 15)
ratio = seconds["ours"] / seconds["MHA"]
print(json.dumps({"first call, s": first, "later, ms": seconds["ours"] * 1e3, "ratio": ratio}))
"""


# Pairs are left out of torch.compile: their blocks unroll into a graph that takes more than ten minutes to compile.
WAYS = {
    "linear": ("plain PyTorch", "compiled loops", "torch.compile"),
    "pairs": ("plain PyTorch", "compiled loops"),
}


def main() -> None:
    """Run, print, save."""
    clock, rows = Clock(), []
    for couplings in ("linear", "pairs"):
        for way in WAYS[couplings]:
            progress(f"{couplings}, {way}")
            with tempfile.TemporaryDirectory() as empty:
                caches = {"XDG_CACHE_HOME": empty, "TORCHINDUCTOR_CACHE_DIR": empty}
                switch = {"NEUROGAME_KERNELS": "0" if way == "plain PyTorch" else "1"}
                command = [sys.executable, "-c", CODE, way, couplings]
                result = subprocess.run(  # noqa: S603 — our own text
                    command, env=os.environ | caches | switch, capture_output=True, text=True, check=False
                )
            if result.returncode:
                rows.append(
                    {"couplings": couplings, "way": way, "first call, s": "failed", "later, ms": "", "ratio": ""}
                )
                progress(result.stderr[-2000:])
                continue
            rows.append({"couplings": couplings, "way": way, **json.loads(result.stdout)})
    show("Forward, batch 8, n = 128, against MHA in the same process", rows)
    save("alternatives", clock(), rows=rows)


if __name__ == "__main__":
    main()
