"""Predictions of pairs of which one may be beyond the model: it fails by itself, and not with all those around it."""

from collections.abc import Callable, Sequence

from neurogame.modeling.checking import ModelError
from neurogame.nli import Prediction

Texts = tuple[str, str]
_HARMLESS: Texts = ("a", "b")


def one_by_one(
    predict: Callable[[Sequence[Texts]], list[Prediction]], pairs: Sequence[Texts]
) -> list[Prediction | ModelError]:
    """The prediction of each pair, or why there is none.

    A tokenizer that panics, or a logit that is NaN, raises for a whole list. The list is then halved until the pairs
    that raise are alone: a few of them cost a few more passes.

    Args:
        predict: gives the predictions of a list of pairs, in its order.
        pairs: (premise, hypothesis).

    Raises:
        ModelError: the model answers nothing at all, whatever the pair.
    """
    try:
        return [*predict(pairs)]
    except ModelError:
        predict([_HARMLESS])
    return _halved(predict, pairs)


def _halved(
    predict: Callable[[Sequence[Texts]], list[Prediction]], pairs: Sequence[Texts]
) -> list[Prediction | ModelError]:
    """The same, of a list that is known to raise, or half of one."""
    try:
        return [*predict(pairs)]
    except ModelError as error:
        if len(pairs) == 1:
            return [error]
    middle = len(pairs) // 2
    return [*_halved(predict, pairs[:middle]), *_halved(predict, pairs[middle:])]
