"""The methods: each maps a `Reading` and a `Question` to an `Attribution`. `METHODS` lists them by name.

    decision      the game of the decision; on a grounded game, see `grounded`
    layer         the layer's own game, its attention weights; random numbers
    inputs        the game with words removed at the input, occlusion; the same game as captum and shap estimate it
    slopes        the same with words that fade; slopes at the word embeddings

A new method is a function here and an entry in `METHODS`.
"""

from collections.abc import Callable
from importlib.util import find_spec
from typing import Literal, NamedTuple

from transformers import PreTrainedModel

from neurogame._common.methods import NEEDS, normalise
from neurogame.explanation.methods import decision, inputs, layer, slopes
from neurogame.explanation.reading import Attribution, Question, Reading, is_grounded


class Method(NamedTuple):
    """One way to explain: for which models, how, what of, and with which packages."""

    applies: Callable[[PreTrainedModel], bool]
    attribute: Callable[[Reading, Question], Attribution]
    explains: Literal["logit", "norm", "weights", "nothing"] = "logit"  # only the logit belongs to a label
    samples: str | None = None  # what `samples` counts; None: the method takes none
    needs: tuple[str, ...] = ()

    @property
    def has_target(self) -> bool:
        """Whether it speaks of a label."""
        return self.explains == "logit"


def _any(_: PreTrainedModel) -> bool:
    return True


METHODS: dict[str, Method] = {
    "decision": Method(decision.applies, decision.attribute, samples="coalitions per law"),
    "game": Method(layer.has_game, layer.game, "norm"),
    "presence": Method(slopes.fades, slopes.presence, samples="steps"),
    "input": Method(_any, inputs.attribute, samples="forward passes"),
    "occlusion": Method(_any, inputs.occlusion),
    "attention": Method(layer.has_weights, layer.attention, "weights"),
    "gradient": Method(slopes.has_embeddings, slopes.gradient),
    "integrated_gradients": Method(
        slopes.has_embeddings, slopes.integrated_gradients, samples="steps", needs=NEEDS["integrated_gradients"]
    ),
    "lime": Method(_any, inputs.lime, samples="forward passes", needs=NEEDS["lime"]),
    "kernelshap": Method(_any, inputs.kernelshap, samples="forward passes", needs=NEEDS["kernelshap"]),
    "partition": Method(_any, inputs.partition, samples="forward passes", needs=NEEDS["partition"]),
    "random": Method(_any, layer.random, "nothing"),
}


def methods_for(model: PreTrainedModel) -> list[str]:
    """Names of the methods that work for a model, with what is installed.

    Args:
        model: any sequence classifier of transformers, as in `nli.model`.

    Returns:
        Names that `explain` takes as `method`, in the order of `METHODS`.

    Example:
        >>> methods_for(neurogame.load().model)  # doctest: +SKIP
        ['decision', 'game', 'presence', 'input', ...]
    """
    return [name for name, method in METHODS.items() if method.applies(model) and all(map(find_spec, method.needs))]


def best(model: PreTrainedModel) -> str:
    """The method that `explain` uses where none is named: of those that need nothing installed, the most faithful.

    A grounded game has no rival at its price. Without one, "presence" is the most faithful where it applies
    (docs/explanations.md), then "input", which any classifier allows.

    Args:
        model: any sequence classifier of transformers, as in `nli.model`.

    Returns:
        "decision", "presence" or "input".

    Example:
        >>> best(neurogame.load().model)  # doctest: +SKIP
        'decision'
    """
    if is_grounded(model):
        return "decision"
    return "presence" if slopes.fades(model) else "input"


def named(method: str) -> str:
    """The name of a method from a usual spelling of it.

    Args:
        method: as people write it: "Gradient × input", "kernel-SHAP".

    Returns:
        A name in `METHODS`; what is no spelling of one is returned as it is.

    Example:
        >>> named("Gradient × input")
        'gradient'
    """
    name = normalise(method)
    return name if name in METHODS else method
