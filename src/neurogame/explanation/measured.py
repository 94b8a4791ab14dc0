"""What each method is in one plain line, and how faithful and how expensive it was when it was measured.

The figures are in `measured.json`, which `benchmarks/methods.py` writes from results/; nothing is measured here.
"""

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from transformers import PreTrainedModel

from neurogame.explanation.reading import has_readout, is_grounded

FILE = Path(__file__).with_suffix(".json")
_ABOUT = {
    "decision": "How the last layer shares its decision out among the words it is given.",
    "game": "How much each word adds to what the attention layer passes on, whatever the label.",
    "presence": "Lets all words fade and adds up how much each one's fading costs the answer.",
    "input": "Deletes words in up to a thousand ways, asks the model each time, and shares out the differences.",
    "occlusion": "Deletes one word at a time and asks the model again.",
    "attention": "How much weight the last attention layer gives each word, whatever the label.",
    "gradient": "How much the answer moves when a word is changed a little.",
    "integrated_gradients": "The same, averaged on the way from blanks to the pair.",
    "lime": "Deletes words at random and fits a straight line to the answers.",
    "kernelshap": "Deletes words at random and fits shares that add up to the answer.",
    "partition": "Deletes whole phrases, then ever smaller ones.",
    "random": "Random numbers: what every other method must beat.",
}
_GROUNDED = "The model's own account of what it would say without some words, checked by deleting them."


@dataclass(frozen=True)
class Measured:
    """One method on one model, by deletion (ERASER).

    Attributes:
        model: on which model.
        data: of which pairs.
        pairs: on how many.
        faithfulness: by how much the probability of the answer falls when the words that are named are deleted.
        low, high: its 95 % interval.
        chance: the same for words named at random, on that model.
        passes: forward passes per explanation; None: none are counted.
        cost: its time as a multiple of that of a prediction, in one run.
    """

    model: str
    data: str
    pairs: int
    faithfulness: float
    low: float
    high: float
    chance: float | None
    passes: float | None
    cost: float | None


def about(method: str, model: PreTrainedModel) -> str:
    """What the method is, in one plain line.

    Args:
        method: a name in `METHODS`.
        model: what it is asked of: a grounded game makes "decision" another method.
    """
    return _GROUNDED if method == "decision" and is_grounded(model) else _ABOUT[method]


def measured(method: str, model: PreTrainedModel) -> Measured | None:
    """How it did: on a model of this kind where there is such a figure, else on another, which the record names.

    Args:
        method: a name in `METHODS`.
        model: its kind is what counts: with a game readout, with an explainer, or without a grounded game.

    Returns:
        The figures; None where it was not measured ("decision" is never judged by a model of another kind).
    """
    own = "readout" if has_readout(model) else "explainer" if is_grounded(model) else "head"
    kinds = _figures()
    order = [own] if method == "decision" else [own, *(kind for kind in kinds if kind != own)]
    rows = (kinds.get(kind, {}).get(method) for kind in order)
    return next((Measured(**row) for row in rows if row), None)


@cache
def _figures() -> dict[str, dict[str, dict[str, Any]]]:
    figures: dict[str, dict[str, dict[str, Any]]] = json.loads(FILE.read_text(encoding="utf-8"))
    return figures
