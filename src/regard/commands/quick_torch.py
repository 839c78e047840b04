"""Faster import of torch for commands that only predict: skip what compiling and exporting need.

A quarter of the time of `import torch` goes into `torch._meta_registrations`: the results of operations on tensors
that have a shape but no data. Its import is deferred until a torch module that torch does not import itself is
imported, as all code that compiles or exports does. A tenth goes into the garbage collector, which scans
permanent classes and functions again and again: it is paused during the import, and these objects are then frozen.

Only a process of the command line does this, and only before torch is imported. Operations on the device "meta" are
not available in such a process. If a release of torch has no such module, nothing is deferred.
"""

import gc
import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

DEFERRED = "torch._meta_registrations"
INNER = ("torch._", "torch.utils._", "torch.onnx")
Run = Callable[[ModuleType], None]


def quick_torch() -> None:
    """Make the next `import torch` of this process faster."""
    if "torch" not in sys.modules and not any(isinstance(one, _Finder) for one in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


class _Finder(MetaPathFinder):
    """Module finder that changes how torch and the deferred module are loaded."""

    def __init__(self) -> None:
        self.loading, self.later = True, lambda: None

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if not self.loading and name.startswith(INNER):
            sys.meta_path.remove(self)
            self.later()
            return _Loaded(sys.modules[name]).spec if name in sys.modules else None
        change = {"torch": self._quick, DEFERRED: self._defer}.get(name)
        spec = None if change is None else PathFinder.find_spec(name, path, target)
        if change is not None and spec is not None and spec.loader is not None:
            run = change(spec.loader.exec_module)
            spec.loader.exec_module = run  # pyright: ignore[reportAttributeAccessIssue]  (for this module only)
        return spec

    def _quick(self, run: Run) -> Run:
        def quick(module: ModuleType) -> None:
            gc.disable()
            try:
                run(module)
                _generators(module)
                gc.freeze()
            finally:
                gc.enable()
                self.loading = False

        return quick

    def _defer(self, run: Run) -> Run:
        def defer(module: ModuleType) -> None:
            self.later = lambda: run(module)

        return defer


def _generators(torch: ModuleType) -> None:
    """Initialize `torch.Generator`, which the deferred module does since 2.13, and which all sampling needs.

    It is done at once; a second time does no harm."""
    if (ready := getattr(torch._C, "_set_generator_metaclass", None)) is not None:
        from torch._opaque_base import OpaqueBaseMeta

        ready(OpaqueBaseMeta)


class _Loaded(Loader):
    """Loader for modules that the deferred module has already imported: they are not run a second time."""

    def __init__(self, module: ModuleType) -> None:
        self.module, self.own = module, module.__spec__
        self.spec = module.__spec__ = ModuleSpec(module.__name__, self)  # Python checks the spec of a loaded module

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return self.module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self.own
