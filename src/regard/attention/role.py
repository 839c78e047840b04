"""What an attention is for: who looks at what, and in which layer.

    encoder   the vectors of an input look at each other
    decoder   each step of an output looks back at the steps before it
    cross     each step of an output looks at the memory of an input
    pooling   one learned query looks at a memory
    gate      not weights over anything, but how much of what was looked at is let through

Whoever puts an attention into its place says which one it is (`module.role = Role("cross", 2)`), a trace keeps it with
the weights, and nobody has to read it off the name of a module. Recurrent layers have a place, too: `Recurrence`.
"""

from typing import Literal, NamedTuple, TypeVar

from torch import nn

RoleKind = Literal["encoder", "decoder", "cross", "pooling", "gate"]
M = TypeVar("M", bound=nn.Module)


class Role(NamedTuple):
    """`followed`: vectors stay at their places from one layer to the next, so that weights can be followed through
    them; between the layers of a CNN, convolutions mix what is near."""

    kind: RoleKind
    layer: int = 0
    followed: bool = True


class Recurrence(NamedTuple):
    """Of a recurrent layer (`module.recurrence`): whether its states read an input or write an output. `backward`: what
    it is given is turned round, the last vector first."""

    kind: Literal["encoder", "decoder"]
    backward: bool = False

    def of(self, layer: M) -> M:
        """The layer, which now says so."""
        object.__setattr__(layer, "recurrence", self)
        return layer
