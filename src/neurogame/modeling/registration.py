"""Our models are known to transformers' Auto classes at once, and imported when one is made.

`PreTrainedModel` takes seconds to import, a configuration does not. So each configuration is registered with a
stand-in for its model, which imports it on first use.
"""

import importlib
from typing import Any

from transformers import AutoConfig, AutoModel, AutoModelForSequenceClassification, PreTrainedConfig

from neurogame.modeling.baselines import DamConfig, EsimConfig
from neurogame.modeling.configuration import NeuroGameConfig

MODELS: dict[type[PreTrainedConfig], tuple[str, str]] = {
    NeuroGameConfig: ("neurogame.modeling.model", "NeuroGameForSequenceClassification"),
    DamConfig: ("neurogame.modeling.baselines.dam", "DamForSequenceClassification"),
    EsimConfig: ("neurogame.modeling.baselines.esim", "EsimForSequenceClassification"),
}


class StandIn:
    """What the Auto classes have until a model is asked for: it is imported then, and answers for itself."""

    def __init__(self, config: type[PreTrainedConfig]) -> None:
        self.config_class = config
        self.__module__, self.__name__ = MODELS[config]

    def _model(self) -> Any:
        """The real class, which the Auto classes have from now on."""
        model = getattr(importlib.import_module(self.__module__), self.__name__)
        enter(self.config_class, model)
        return model

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model(), name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """An instance of the real class."""
        return self._model()(*args, **kwargs)

    def __instancecheck__(self, instance: object) -> bool:
        return isinstance(instance, self._model())

    def __subclasscheck__(self, subclass: type) -> bool:
        return issubclass(subclass, self._model())


def enter(config: type[PreTrainedConfig], model: Any) -> None:
    """Let the Auto classes make `model` of `config`."""
    for auto in (AutoModel, AutoModelForSequenceClassification):
        auto.register(config, model, exist_ok=True)


def register() -> None:
    """Make our models known to the Auto classes."""
    for config in MODELS:
        AutoConfig.register(config.model_type, config, exist_ok=True)
        enter(config, StandIn(config))
