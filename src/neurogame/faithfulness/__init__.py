"""The former place of `neurogame_bench.faithfulness`: its modules can still be imported by these names."""

import sys
import warnings
from importlib import import_module
from pkgutil import iter_modules

from neurogame_bench import faithfulness, intervals

warnings.warn(
    "neurogame.faithfulness is now neurogame_bench.faithfulness; the old name will go in a later version",
    DeprecationWarning,
    stacklevel=2,
)
_modules = {m.name: import_module(f"{faithfulness.__name__}.{m.name}") for m in iter_modules(faithfulness.__path__)}
for _name, _module in (_modules | {"intervals": intervals}).items():
    globals()[_name] = sys.modules[f"{__name__}.{_name}"] = _module
