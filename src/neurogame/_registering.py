"""Our models are registered with transformers' Auto classes as soon as both packages are imported, in either order.

`import neurogame` alone imports neither transformers nor torch. So where transformers is not there yet, a finder on
`sys.meta_path` waits for it, registers our models behind it, and leaves.
"""

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType

AWAITED = "transformers"
MODELS = "neurogame.modeling"  # importing it registers them


def with_transformers() -> None:
    """Register now if transformers is imported already, else when it is."""
    if AWAITED in sys.modules:
        import_module(MODELS)
    else:
        sys.meta_path.insert(0, _Waiting())


class _Waiting(MetaPathFinder):
    """Waits for transformers, once, and leaves finding it to the other finders."""

    def find_spec(
        self,
        name: str,
        path: Sequence[str] | None = None,  # noqa: ARG002  a finder's signature
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        if name != AWAITED:
            return None
        sys.meta_path.remove(self)
        spec = find_spec(name)
        if spec is not None and spec.loader is not None:
            spec.loader = _Followed(spec.loader)
        return spec


class _Followed(Loader):
    """The loader of transformers, which imports our models after it."""

    def __init__(self, own: Loader) -> None:
        self.own = own

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self.own.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = module.__loader__ = self.own  # as without this loader
        self.own.exec_module(module)
        import_module(MODELS)
