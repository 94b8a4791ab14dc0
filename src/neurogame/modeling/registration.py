"""Our models are known to transformers' Auto classes at once, and imported when one is made.

`PreTrainedModel` takes seconds to import, a configuration does not. So each configuration is registered with a
stand-in for its model: a class that becomes the model, by importing it, as soon as it is asked for anything.
"""

import importlib
from typing import Any

from transformers import AutoConfig, AutoModel, AutoModelForSequenceClassification, PreTrainedConfig

from neurogame.modeling.baselines import DamConfig, EsimConfig
from neurogame.modeling.configuration import NeuroGameConfig

MODELS: dict[type[PreTrainedConfig], tuple[str, str]] = {
    NeuroGameConfig: ("neurogame.modeling.model", "NeuroGameForSequenceClassification"),
    DamConfig: ("neurogame.modeling.dam", "DamForSequenceClassification"),
    EsimConfig: ("neurogame.modeling.esim", "EsimForSequenceClassification"),
}


class StandIn(type):
    """The class of a class that is imported later; it has the attributes of the real one and makes its instances."""

    config_class: type[PreTrainedConfig]

    def _model(cls) -> Any:
        """The real class, which the Auto classes have from now on."""
        module, name = MODELS[cls.config_class]
        found = getattr(importlib.import_module(module), name)
        enter(cls.config_class, found)
        return found

    def __getattr__(cls, name: str) -> Any:
        return getattr(cls._model(), name)

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:  # noqa: D102  a magic method of a metaclass
        return cls._model()(*args, **kwargs)

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, cls._model())

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, cls._model())


def enter(config: type[PreTrainedConfig], model: Any) -> None:
    """Let the Auto classes make `model` of `config`."""
    for auto in (AutoModel, AutoModelForSequenceClassification):
        auto.register(config, model, exist_ok=True)


def register() -> None:
    """Make our models known to the Auto classes."""
    for config, (module, name) in MODELS.items():
        AutoConfig.register(config.model_type, config, exist_ok=True)
        enter(config, StandIn(name, (), {"__module__": module, "config_class": config}))
