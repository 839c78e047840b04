"""Two inputs at once; each reads its own part. No torch."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from regard.errors import CallError
from regard.look.axis import Axis, join_axes

# Inputs that consist of two parts.


def two_of(one: Any, names: Sequence[str], apart: str = "\t") -> tuple[Any, Any] | None:
    """Split a pair, a mapping with both names, or a text with a tab into two parts; None if it is none of these."""
    if isinstance(one, str):
        first, found, second = one.partition(apart)
        return (first, second) if found else None
    if isinstance(one, Mapping):
        return (one[names[0]], one[names[1]]) if set(one) == set(names) else None
    return tuple(one) if isinstance(one, tuple | list) and len(one) == 2 else None


class JointItem(NamedTuple):
    first: Any
    second: Any


class JointReader:
    """Base class of two-input readers, with torch and without."""

    recipe: Any
    first: Any
    second: Any

    @property
    def kinds(self) -> tuple[str, ...]:
        return (*self.first.kinds, *self.second.kinds)

    def parse(self, words: Sequence[str]) -> list[tuple[Any, Any]]:
        return [self._two(word) for word in words if word.strip()]

    def subject(self, file: str) -> Any:
        found = self.first.parse([file])
        if len(found) != 1:
            raise CallError(f"--about {file}: has {len(found)} {self.recipe.data.columns.sides[0]}s; give one")
        return found[0]

    def about(self, words: Sequence[str], subject: Any) -> list[tuple[Any, Any]]:
        return [(subject, word) for word in self.second.parse(words)]

    def _two(self, one: Any) -> tuple[Any, Any]:
        a, b, _ = self.recipe.data.columns.sides
        found = two_of(one, (a, b))
        if found is not None and isinstance(one, str):
            found = [*self.first.parse(found[:1]), *self.second.parse(found[1:])]
        if found is None or len(found) != 2:
            shown = repr(one) if isinstance(one, str) else f"an input of type {type(one).__name__}"
            raise CallError(
                f'{shown} is not an {a} and a {b}: on the command line, give "{b}" --about FILE, or {a}<TAB>{b}; '
                f'in Python, {{"{a}": ..., "{b}": ...}}'
            )
        return found[0], found[1]

    def read(self, one: Any) -> JointItem:
        if isinstance(one, JointItem):
            return one
        first, second = self._two(one)
        return JointItem(self.first.read(first), self.second.read(second))

    def name(self, one: Any) -> str:
        first, second = self._two(one)
        return f"{self.first.name(first)}: {self.second.name(second)}"

    def length(self, item: JointItem) -> int:
        """Number of vectors; 0 if one of the two inputs is empty."""
        first, second = self.first.length(item.first), self.second.length(item.second)
        return first + second if first and second else 0

    def axis(self, item: JointItem) -> Axis:
        return join_axes(self.first.axis(item.first), self.second.axis(item.second))
