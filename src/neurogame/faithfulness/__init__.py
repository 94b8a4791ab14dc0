"""The former place of `neurogame_bench.faithfulness`: its modules can still be imported by these names."""

import sys
import warnings
from importlib import import_module

_MODULES = (
    "baselines",
    "coalitions",
    "correlation",
    "degradation",
    "deletion",
    "interaction",
    "judging",
    "plausibility",
    "stability",
)
warnings.warn(
    "neurogame.faithfulness is now neurogame_bench.faithfulness; the old name will go in a later version",
    DeprecationWarning,
    stacklevel=2,
)
for _name in _MODULES:
    globals()[_name] = sys.modules[f"{__name__}.{_name}"] = import_module(f"neurogame_bench.faithfulness.{_name}")
globals()["intervals"] = sys.modules[f"{__name__}.intervals"] = import_module("neurogame_bench.intervals")
