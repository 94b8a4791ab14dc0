"""Names of the explanation methods and the packages that they need, without importing torch: for the command line."""

import json
from functools import cache
from pathlib import Path

SPELLINGS = {  # as people write them
    "attention_weights": "attention",
    "gradient_x_input": "gradient",
    "input_x_gradient": "gradient",
    "kernel_shap": "kernelshap",
    "partition_shap": "partition",
    "shap_partition": "partition",
}
NEEDS: dict[str, tuple[str, ...]] = {  # packages of the extra `explain`; the other methods need none
    "integrated_gradients": ("captum",),
    "lime": ("captum", "sklearn"),
    "kernelshap": ("captum", "sklearn"),
    "partition": ("shap",),
}
_ABOUT = Path(__file__).parents[1] / "explanation" / "methods" / "about.json"


@cache
def names() -> tuple[str, ...]:
    """All methods, in the order of `explanation.METHODS`."""
    about: dict[str, str] = json.loads(_ABOUT.read_text(encoding="utf-8"))
    return tuple(name for name in about if name != "grounded")  # which is how "decision" works on a grounded game


def normalise(method: object) -> str:
    """A name as `explanation.METHODS` writes it, from a usual spelling: "Gradient × input", "kernel-SHAP"."""
    words = str(method).casefold().replace("×", " x ").replace("-", " ").replace("_", " ").split()
    return SPELLINGS.get("_".join(words), "_".join(words))
