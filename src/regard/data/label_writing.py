"""How labels are written in files: one or several, as texts, numbers or lists; and what to call them."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Writing:
    """`separator`: what separates several labels; None: an example has one. `names`: (as the file has it, its name)."""

    separator: str | None = None
    names: tuple[tuple[str, str], ...] = ()

    def __call__(self, value: object) -> object:
        """A label of a file as text. Of several, none at all is a lone separator."""
        if isinstance(value, bool):
            value = str(value).lower()
        elif isinstance(value, int):
            value = str(value)
        if self.separator is None:
            return self._named(value.strip()) if isinstance(value, str) else value
        if isinstance(value, list | tuple):
            parts = [str(part) for part in value]
        elif value is None or isinstance(value, str):
            parts = (value or "").split(self.separator)
        else:
            return value
        found = dict.fromkeys(self._named(part.strip()) for part in parts if part.strip())
        return self.separator.join(sorted(found)) or self.separator

    def labels(self, text: str) -> tuple[str, ...]:
        """The labels in what a call gave."""
        if self.separator is None:
            return (text,)
        return tuple(part for part in text.split(self.separator) if part)

    def joined(self, labels: Iterable[str]) -> str:
        return (self.separator or "|").join(labels)

    def _named(self, label: str) -> str:
        return dict(self.names).get(label, label)
