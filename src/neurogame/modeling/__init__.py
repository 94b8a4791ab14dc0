"""The models: configuration, encoder with head, and the baselines, by transformers conventions.

Importing this package registers them with transformers' Auto classes.
"""

from neurogame.modeling.configuration import NeuroGameConfig
from neurogame.modeling.dam import DamConfig, DamForSequenceClassification
from neurogame.modeling.esim import EsimConfig, EsimForSequenceClassification
from neurogame.modeling.model import NeuroGameClassifierOutput, NeuroGameForSequenceClassification, overhead

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
