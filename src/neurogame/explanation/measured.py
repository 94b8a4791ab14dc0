"""What each method is in one plain line, and how faithful and how expensive it was when it was measured.

The lines are in `methods/about.json`, the figures in `measured.json`, which `benchmarks/methods.py` writes from
results/; nothing is measured here.
"""

import json
from functools import cache
from pathlib import Path
from typing import Any

from transformers import PreTrainedModel

from neurogame.explanation.reading import has_readout, is_grounded

FILE = Path(__file__).with_suffix(".json")
_ABOUT = FILE.parent / "methods" / "about.json"


def about(method: str, model: PreTrainedModel) -> str:
    """What a method of `METHODS` is, in one plain line; on a grounded game "decision" is another method."""
    line: str = _read(_ABOUT)["grounded" if method == "decision" and is_grounded(model) else method]
    return line


def measured(method: str, model: PreTrainedModel) -> dict[str, Any] | None:
    """Faithfulness and cost of a method by deletion (ERASER), on a model of the same kind where there is such a figure.

    Kinds: with a game readout, with an explainer, without a grounded game. "decision" is never judged by a model of
    another kind.

    Returns:
        model, data, pairs: on which model, of which pairs, on how many. faithfulness: by how much the probability of
        the answer falls when the words that are named are deleted; low, high: its 95 % interval; chance: the same for
        words named at random. passes: forward passes per explanation; cost: its time as a multiple of a prediction's.
        None where the method was not measured.
    """
    own = "readout" if has_readout(model) else "explainer" if is_grounded(model) else "head"
    kinds = _read(FILE)
    order = [own] if method == "decision" else [own, *(kind for kind in kinds if kind != own)]
    rows = (kinds.get(kind, {}).get(method) for kind in order)
    return next((row for row in rows if row), None)


@cache
def _read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))
