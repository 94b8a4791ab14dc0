"""Why a model said what it said of a pair: word by word, with errors.

`words` (from tokens to words) → `reading` (one pair through the model) → a method, `decision` or `intrinsic` → `record`
(the Explanation) → `summary` (what is worth saying) → `terminal`, `page`. A method maps a `Reading` to an
`Attribution`; `methods` lists them, checks what was asked and puts the record together.
"""

from neurogame.explanation.methods import METHODS, explain, methods_for
from neurogame.explanation.record import Explanation

__all__ = ["METHODS", "Explanation", "explain", "methods_for"]
