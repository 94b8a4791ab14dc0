"""What if: `explain` with `removed` words or another `temperature_factor`, and which models and methods can do so."""

from neurogame.explanation.pipeline import explain
from neurogame.explanation.temperature import FOLLOWING, has_temperature, heated

__all__ = ["FOLLOWING", "explain", "has_temperature", "heated"]
