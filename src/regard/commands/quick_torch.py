"""torch, ready sooner: a command that only predicts does not wait for what compiling and exporting need.

A quarter of the time of `import torch` goes into `torch._meta_registrations`: what each operation gives for tensors
that have a shape and no numbers. It is left for later here: until one of torch's inner modules is imported that torch
has not imported by itself, as all do that compile or export. A tenth goes into the garbage collector, which looks again
and again through classes and functions that stay: it rests until torch is there, and leaves them alone from then on.

Only a process of the command line does this, and only before torch is imported. Operations on the device "meta" are
not for such a process. Where a release of torch has no such module, nothing is left out.
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
    """The next `import torch` of this process is quicker."""
    if "torch" not in sys.modules and not any(isinstance(one, _Finder) for one in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


class _Finder(MetaPathFinder):
    """Finds modules as Python does, and changes when torch and the deferred one run."""

    def __init__(self) -> None:
        self.loading, self.later = True, lambda: None

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if not self.loading and name.startswith(INNER):
            sys.meta_path.remove(self)
            self.later()
            return _Loaded(sys.modules[name]).spec if name in sys.modules else None
        change = {"torch": self._quick, DEFERRED: self._deferred}.get(name)
        spec = None if change is None else PathFinder.find_spec(name, path, target)
        if change is not None and spec is not None and spec.loader is not None:
            run = change(spec.loader.exec_module)
            spec.loader.exec_module = run  # pyright: ignore[reportAttributeAccessIssue]  (of this one module)
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

    def _deferred(self, run: Run) -> Run:
        def defer(module: ModuleType) -> None:
            self.later = lambda: run(module)

        return defer


def _generators(torch: ModuleType) -> None:
    """Since 2.13 the deferred module readies `torch.Generator`, too, without which nothing can be drawn. What it does
    to it is done at once, and does no harm a second time."""
    if (ready := getattr(torch._C, "_set_generator_metaclass", None)) is not None:
        from torch._opaque_base import OpaqueBaseMeta

        ready(OpaqueBaseMeta)


class _Loaded(Loader):
    """Of a module that the deferred one has imported meanwhile: it is not run a second time."""

    def __init__(self, module: ModuleType) -> None:
        self.module, self.own = module, module.__spec__
        self.spec = module.__spec__ = ModuleSpec(module.__name__, self)  # of a loaded module, Python asks for its own

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return self.module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self.own
