"""Decomposable attention, under the name that it had before `modeling.baselines`."""

from neurogame.modeling.baselines import DamConfig
from neurogame.modeling.baselines.dam import DamForSequenceClassification, WordPairModel

__all__ = ["DamConfig", "DamForSequenceClassification", "WordPairModel"]
