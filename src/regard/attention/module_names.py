"""Names for the modules in a trace: the path in the first model that contains the module."""

from torch import nn


class ModuleNames:
    def __init__(self) -> None:
        self._names: dict[nn.Module, str] = {}
        self._used: set[str] = set()

    def of(self, module: nn.Module) -> str:
        """Return the name of a module. A module that is not part of a known one becomes a root."""
        if module not in self._names:
            self.learn(module)
        return self._names[module]

    def learn(self, root: nn.Module) -> None:
        kind = type(root).__name__
        for path, module in root.named_modules():
            if module not in self._names:
                self._names[module] = self._unused(path or kind, kind)

    def _unused(self, name: str, kind: str) -> str:
        """Return a unique name; a part of a second model with the same name becomes 'Kind.part', 'Kind.part#2'."""
        if name in self._used and not name.startswith(kind):
            name = f"{kind}.{name}"
        number, unique = 1, name
        while unique in self._used:
            number += 1
            unique = f"{name}#{number}"
        self._used.add(unique)
        return unique
