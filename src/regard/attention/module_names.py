"""A name for every module that a trace meets: its path in the model that was met first."""

from torch import nn


class ModuleNames:
    def __init__(self) -> None:
        self._names: dict[nn.Module, str] = {}
        self._used: set[str] = set()

    def of(self, module: nn.Module) -> str:
        """Its name. One that was not met as part of another is the root of its own parts."""
        if module not in self._names:
            self.learn(module)
        return self._names[module]

    def learn(self, root: nn.Module) -> None:
        kind = type(root).__name__
        for path, module in root.named_modules():
            if module not in self._names:
                self._names[module] = self._unused(path or kind, kind)

    def _unused(self, name: str, kind: str) -> str:
        """Two models under one trace may have parts of one name: the second's become 'Kind.part', 'Kind.part#2'."""
        if name in self._used and not name.startswith(kind):
            name = f"{kind}.{name}"
        number, unique = 1, name
        while unique in self._used:
            number += 1
            unique = f"{name}#{number}"
        self._used.add(unique)
        return unique
