"""Explanations as other libraries have them, for their plots and tools.

    to_shap     a `shap.Explanation`: values, base_values, data, for shap.plots.text, bar, waterfall …
    to_shapiq   a `shapiq.InteractionValues`: single words and pairs, for shapiq's network, force and other plots

Both are optional packages, imported when they are asked for. Numbers are passed on as they are: Shapley values φ_i with
what the model says of nothing as base, J_ij (Banzhaf interactions) for pairs.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from neurogame._common.extras import need

if TYPE_CHECKING:
    from neurogame.explanation.record import Explanation


def to_shap(explanations: Explanation | Sequence[Explanation]) -> Any:
    """See `Explanation.to_shap`: of one explanation one row, of a list of one target ragged rows."""
    listed: list[Explanation] = list(explanations) if isinstance(explanations, Sequence) else [explanations]
    if not listed:
        raise ValueError("there is no explanation to convert")
    bases = np.array([_origin(ex) for ex in listed])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it makes colour maps when it is imported, in a way that matplotlib deprecates
        shap = need("shap", "explain")
    values = [np.array(ex.shapley, dtype=np.float64) for ex in listed]
    data = [np.array([f"{word} " for word in ex.words], dtype=object) for ex in listed]  # its text plot joins them
    names = [list(ex.words) for ex in listed]
    if not isinstance(explanations, Sequence):
        return shap.Explanation(values[0], float(bases[0]), data=data[0], feature_names=names[0])
    return shap.Explanation(_ragged(values), bases, data=_ragged(data), feature_names=names)


def to_shapiq(ex: Explanation) -> Any:
    """See `Explanation.to_shapiq`."""
    origin = _origin(ex)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        shapiq = need("shapiq", "bench")
    n = len(ex.words)
    assert ex.shapley is not None
    by_words: dict[tuple[int, ...], float] = {(): origin, **{(i,): x for i, x in enumerate(ex.shapley)}}
    if ex.interactions is not None:
        by_words |= {(i, j): ex.interactions[i][j] for i in range(n) for j in range(i + 1, n)}
    return shapiq.InteractionValues(
        values=np.array(list(by_words.values()), dtype=np.float64),
        index="SV" if ex.interactions is None else "k-SII",
        max_order=1 if ex.interactions is None else 2,
        n_players=n,
        min_order=0,
        interaction_lookup={key: place for place, key in enumerate(by_words)},
        estimated=not ex.diagnostics.get("exact", False),
        baseline_value=origin,
    )


def _origin(ex: Explanation) -> float:
    """ℓ(∅): what the values are counted from, where there are values."""
    if ex.shapley is None:
        raise ValueError(f"method = {ex.method!r} has no Shapley values to convert; allowed: decision, input, presence")
    return float(ex.diagnostics.get("origin") or 0.0)


def _ragged(rows: list[Any]) -> Any:
    """Rows of different lengths as one array of objects."""
    ragged = np.empty(len(rows), dtype=object)
    ragged[:] = rows
    return ragged
