"""The models: configuration, encoder with head, and the baselines, by transformers conventions.

Importing this package registers the models with transformers' Auto classes. `PreTrainedModel` takes seconds to import,
a configuration does not. So each configuration is registered with a stand-in for its model, which imports the model on
first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from transformers import AutoConfig, AutoModel, AutoModelForSequenceClassification, PreTrainedConfig

from neurogame._common.lazy import lazy
from neurogame.modeling.baselines import DamConfig, EsimConfig
from neurogame.modeling.configuration import NeuroGameConfig

if TYPE_CHECKING:
    from neurogame.modeling.baselines.dam import DamForSequenceClassification
    from neurogame.modeling.baselines.esim import EsimForSequenceClassification
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

MODELS: dict[type[PreTrainedConfig], tuple[str, str]] = {  # configuration → module and class of its model
    NeuroGameConfig: ("model", "NeuroGameForSequenceClassification"),
    DamConfig: ("baselines.dam", "DamForSequenceClassification"),
    EsimConfig: ("baselines.esim", "EsimForSequenceClassification"),
}
_LATER = {model: module for module, model in MODELS.values()}
__getattr__, __dir__ = lazy(__name__, {**_LATER, "NeuroGameClassifierOutput": "model", "overhead": "model"})


class StandIn:
    """Registered in place of a model class, which it imports on first use and registers instead of itself."""

    def __init__(self, config: type[PreTrainedConfig]) -> None:
        self.config_class = config
        module, self.__name__ = MODELS[config]
        self.__module__ = f"{__name__}.{module}"

    def _model(self) -> Any:
        model = getattr(import_module(self.__module__), self.__name__)
        _register(self.config_class, model)
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


def _register(config: type[PreTrainedConfig], model: Any) -> None:
    for auto in (AutoModel, AutoModelForSequenceClassification):
        auto.register(config, model, exist_ok=True)


for _config in MODELS:
    AutoConfig.register(_config.model_type, _config, exist_ok=True)
    _register(_config, StandIn(_config))
