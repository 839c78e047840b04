"""The role of an attention module: what attends to what, and in which layer.

    encoder   the vectors of an input attend to each other
    decoder   each step of an output attends to the steps before it
    cross     each step of an output attends to the memory of an input
    pooling   one learned query attends to a memory
    gate      no weights over keys, but a factor on the context

The code that builds a model sets the role (`module.role = Role("cross", 2)`). A trace stores it with the weights, so
that module names need not be parsed. Recurrent layers have a similar mark: `Recurrence`.
"""

from typing import Literal, NamedTuple, TypeVar

from torch import nn

RoleKind = Literal["encoder", "decoder", "cross", "pooling", "gate"]
M = TypeVar("M", bound=nn.Module)


class Role(NamedTuple):
    """`followed`: vectors keep their positions from one layer to the next, so that weights can be followed through
    them; in a CNN, convolutions mix neighbors between the layers."""

    kind: RoleKind
    layer: int = 0
    followed: bool = True


class Recurrence(NamedTuple):
    """The role of a recurrent layer (`module.recurrence`): whether its states read an input or write an output.
    `backward`: its input is reversed, the last vector first."""

    kind: Literal["encoder", "decoder"]
    backward: bool = False

    def of(self, layer: M) -> M:
        """Set this role on the layer and return the layer."""
        object.__setattr__(layer, "recurrence", self)
        return layer
