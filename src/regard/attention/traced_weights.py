"""The attention weights that a trace recorded, by name."""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention.role import Role
from regard.attention.scoring import Scoring, Values


class TracedWeights:
    def __init__(self, values: bool = False) -> None:
        self._scorings: dict[str, list[Scoring]] = {}
        self._values: dict[str, Values] | None = {} if values else None
        self._kept: dict[str, list[Tensor]] = {}
        self._modules: dict[str, nn.Module] = {}

    @property
    def names(self) -> list[str]:
        """Return the names of all attentions that ran, in the order of their first call."""
        self._require_something()
        return list(self._kept)

    def module(self, name: str) -> nn.Module:
        """Return the attention module of this name."""
        return self._modules[name]

    def role(self, name: str) -> Role:
        """Return the role of the attention of this name; without one, it counts as encoder self-attention."""
        role = getattr(self._modules[name], "role", None)
        return role if isinstance(role, Role) else Role("encoder", list(self._kept).index(name))

    def values(self, name: str) -> Values:
        """Return the values that this attention averaged; needs values=True."""
        if self._values is None:
            raise RuntimeError("this trace keeps no values: use Trace(model, values=True)")
        return self._values[name]

    def scorings(self, name: str) -> list[Scoring]:
        """Return the scorings of this attention, one for each of `calls`; needs scores=True."""
        if name not in self._scorings:
            raise RuntimeError(f"this trace keeps no scores of {name!r}: use Trace(model, scores=True)")
        return list(self._scorings[name])

    def calls(self, name: str) -> list[Float[Tensor, "*b Q K"]]:
        """Return the weights of one attention, one tensor for each call."""
        self._require_something()
        if name not in self._kept:
            raise KeyError(f"no attention named {name!r} was traced; there are: {', '.join(self._kept)}")
        return list(self._kept[name])

    def __getitem__(self, name: str) -> Float[Tensor, "*b Q K"]:
        """Return the weights of one attention; decoding steps are joined along Q, with zeros for later keys."""
        calls = self.calls(name)
        if any(weights.shape[:-2] != calls[0].shape[:-2] for weights in calls):  # symbolic sizes are not hashable
            rows = sorted({tuple(weights.shape[:-2]) for weights in calls})
            raise ValueError(
                f"{name!r} was called with batches of different shapes {rows}, which cannot be "
                f"joined; read them one by one with calls({name!r})"
            )
        longest = max(weights.shape[-1] for weights in calls)
        return torch.cat([F.pad(weights, (0, longest - weights.shape[-1])) for weights in calls], dim=-2)

    def __contains__(self, name: object) -> bool:
        return name in self._kept

    def _require_something(self) -> None:
        if not self._kept:
            raise RuntimeError(
                "nothing was traced: no attention of regard ran inside `with Trace() as seen:` in this thread"
            )
