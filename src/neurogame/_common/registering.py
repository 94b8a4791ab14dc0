"""Register our models with transformers' Auto classes as soon as both packages are imported, in either order.

`import neurogame` alone imports neither transformers nor torch. Where transformers is not imported yet, a finder on
`sys.meta_path` waits for it, imports our models after it, and removes itself. Our attention waits in the same way for
the module that has transformers' attention interface, which takes seconds to import.
"""

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType

AWAITED = {  # a module of transformers → the module of ours that is imported after it, and registers
    "transformers": "neurogame.modeling",
    "transformers.modeling_utils": "neurogame.modeling.attention_interface",
}


def with_transformers() -> None:
    """Register now what transformers has imported already, the rest when it does."""
    for awaited, ours in AWAITED.items():
        if awaited in sys.modules:
            import_module(ours)
        else:
            sys.meta_path.insert(0, _Waiting(awaited, ours))


class _Waiting(MetaPathFinder, Loader):
    """Waits for a module of transformers, which the other finders and loaders import, and imports ours after it."""

    def __init__(self, awaited: str, ours: str) -> None:
        self.awaited, self.ours = awaited, ours

    def find_spec(
        self,
        name: str,
        path: Sequence[str] | None = None,  # noqa: ARG002  a finder's signature
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        if name != self.awaited:
            return None
        sys.meta_path.remove(self)
        spec = find_spec(name)
        if spec is not None and spec.loader is not None:
            self.loader, spec.loader = spec.loader, self
        return spec

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self.loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = module.__loader__ = self.loader  # as without this one
        self.loader.exec_module(module)
        import_module(self.ours)
