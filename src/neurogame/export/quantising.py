"""int8: the encoder's weights in a quarter of the space, products of whole numbers.

onnxruntime's dynamic quantisation: a weight matrix becomes int8 with a scale per column, the embeddings int8 with one
scale; activations are rounded to uint8 as they come, with one scale *per batch*. So, unlike everything else here, an
answer moves a little with its batch mates. Pooling, classifier and explainer stay in float32: they are small, and a
solver does not survive rounding.
"""

from pathlib import Path
from typing import Any

from neurogame.extras import need

QUANTIZED = ("MatMul", "Gather")
_HEAD = ("pooling", "classifier", "explainer")  # where NeuroGame models keep what stays exact, and `Graph` a game


def int8(path: Path) -> None:
    """Quantise a graph in its place."""
    onnx, quantization = need("onnx", "export"), need("onnxruntime.quantization", "export")
    model = onnx.load(path)
    # what the warning asks for, shapes inferred and constants folded, torch's exporter has done
    model.metadata_props.add(key="onnx.quant.pre_process", value="onnxruntime.quant")
    del model.graph.value_info[:]  # shapes of weights that it is going to transpose; it infers them anew
    kept = [node.name for node in model.graph.node if _in_head(node)]
    quantization.quantize_dynamic(
        model,
        path,
        op_types_to_quantize=list(QUANTIZED),
        per_channel=True,
        weight_type=quantization.QuantType.QInt8,
        nodes_to_exclude=[*kept, *(f"{name}_MatMul" for name in kept)],  # as it calls what was a Gemm
    )


def _in_head(node: Any) -> bool:
    """Whether a node comes from pooling, classifier or explainer, by the path of modules that torch notes down."""
    path = next((entry.value for entry in node.metadata_props if entry.key == "namespace"), "")
    return any(part in path for part in _HEAD)
