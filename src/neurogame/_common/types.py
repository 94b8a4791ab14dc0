"""Shape annotations for signatures: jaxtyping where it is installed, plain tensors where it is not.

Nothing is checked at run time unless the test suite switches it on (see `tests/conftest.py`).
"""

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from torch import Tensor

if TYPE_CHECKING or find_spec("jaxtyping") is not None:
    from jaxtyping import Bool, Float, Int, Shaped
else:

    class _AnyShape:
        """`Float[Tensor, "batch tokens"]` is `Tensor`."""

        def __class_getitem__(cls, item: tuple[Any, str]) -> Any:
            return item[0]

    Bool = Float = Int = Shaped = _AnyShape

__all__ = ["Bool", "Float", "Int", "Shaped", "Tensor"]
