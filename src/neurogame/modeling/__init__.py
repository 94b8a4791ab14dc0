"""The models: configuration, encoder with head, and the baselines, by transformers conventions.

Importing this package registers them with transformers' Auto classes; a model itself is imported when it is asked for.
"""

from typing import TYPE_CHECKING

from neurogame._common.lazy import lazy
from neurogame.modeling.baselines import DamConfig, EsimConfig
from neurogame.modeling.configuration import NeuroGameConfig
from neurogame.modeling.registration import register

if TYPE_CHECKING:
    from neurogame.modeling.baselines.dam import DamForSequenceClassification
    from neurogame.modeling.baselines.esim import EsimForSequenceClassification
    from neurogame.modeling.model import NeuroGameClassifierOutput, NeuroGameForSequenceClassification, overhead

_LATER = {
    "DamForSequenceClassification": "baselines.dam",
    "EsimForSequenceClassification": "baselines.esim",
    "NeuroGameClassifierOutput": "model",
    "NeuroGameForSequenceClassification": "model",
    "overhead": "model",
}

__all__ = [
    "DamConfig",
    "DamForSequenceClassification",
    "EsimConfig",
    "EsimForSequenceClassification",
    "NeuroGameClassifierOutput",
    "NeuroGameConfig",
    "NeuroGameForSequenceClassification",
    "overhead",
]

__getattr__, __dir__ = lazy(__name__, _LATER)
register()
