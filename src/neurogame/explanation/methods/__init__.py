"""The methods: each maps a `Reading` and a `Question` to an `Attribution`. `METHODS` lists them by name.

    decision      the game of the decision; on a grounded game, see `grounded`
    intrinsic     the layer's own game
    inputs        the game with words removed at the input, and occlusion
    presence      the same with words that fade, by slopes
    gradients     by the slope at the word embeddings
    surrogates    the game of `inputs` as captum and shap estimate it
    simple        attention weights, random numbers

A new method is a function here and an entry in `METHODS`.
"""

from collections.abc import Callable
from importlib.util import find_spec
from typing import Literal, NamedTuple

from transformers import PreTrainedModel

from neurogame.explanation.methods import decision, gradients, inputs, intrinsic, presence, simple, surrogates
from neurogame.explanation.reading import Attribution, Question, Reading, is_grounded

MethodName = Literal[
    "decision",
    "game",
    "presence",
    "input",
    "occlusion",
    "attention",
    "gradient",
    "integrated_gradients",
    "lime",
    "kernelshap",
    "partition",
    "random",
]
SPELLINGS = {  # as people write them
    "attention_weights": "attention",
    "gradient_x_input": "gradient",
    "input_x_gradient": "gradient",
    "kernel_shap": "kernelshap",
    "partition_shap": "partition",
    "shap_partition": "partition",
}


def always(_: PreTrainedModel) -> bool:
    """Any sequence classifier."""
    return True


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


METHODS: dict[str, Method] = {
    "decision": Method(decision.applies, decision.attribute, samples="coalitions per law"),
    "game": Method(intrinsic.applies, intrinsic.attribute, "norm"),
    "presence": Method(presence.applies, presence.attribute, samples="steps"),
    "input": Method(always, inputs.attribute, samples="forward passes"),
    "occlusion": Method(always, inputs.occlusion),
    "attention": Method(simple.applies, simple.attention, "weights"),
    "gradient": Method(gradients.applies, gradients.gradient),
    "integrated_gradients": Method(
        gradients.applies, gradients.integrated_gradients, samples="steps", needs=("captum",)
    ),
    "lime": Method(always, surrogates.lime, samples="forward passes", needs=("captum", "sklearn")),
    "kernelshap": Method(always, surrogates.kernelshap, samples="forward passes", needs=("captum", "sklearn")),
    "partition": Method(always, surrogates.partition, samples="forward passes", needs=("shap",)),
    "random": Method(always, simple.random, "nothing"),
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
    return "presence" if presence.applies(model) else "input"


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
    words = str(method).casefold().replace("×", " x ").replace("-", " ").replace("_", " ").split()
    spelled = "_".join(words)
    spelled = SPELLINGS.get(spelled, spelled)
    return spelled if spelled in METHODS else method
