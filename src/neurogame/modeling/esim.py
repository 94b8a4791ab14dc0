"""ESIM, under the name that it had before `modeling.baselines`."""

from neurogame.modeling.baselines import EsimConfig
from neurogame.modeling.baselines.esim import EsimForSequenceClassification

__all__ = ["EsimConfig", "EsimForSequenceClassification"]
