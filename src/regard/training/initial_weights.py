"""Fine-tuning: initialize a model with the weights of another one where they fit, and freeze some of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

import torch
from torch import Tensor, nn

from regard.errors import CallError, nearest

Vocabulary = Mapping[str, int]  # piece → id


@dataclass(frozen=True)
class Taken:
    """Which weights were copied from the other model: whole, by rows (copied and total), or not at all."""

    whole: list[str] = field(default_factory=list)
    rows: dict[str, tuple[int, int]] = field(default_factory=dict)
    new: dict[str, str] = field(default_factory=dict)  # with the reason
    left: list[str] = field(default_factory=list)  # weights of the other model that this one does not have

    def sentences(self, origin: str) -> list[str]:
        every = len(self.whole) + len(self.rows) + len(self.new)
        said = [f"{len(self.whole)} of {every} weights are those of {origin}"]
        for name, (some, rows) in self.rows.items():
            rest = "; the others are new" if some < rows else ""
            said.append(f"{name}: {some:,} of {rows:,} rows, by token{rest}")
        said += [f"{name} is new: {why}" for name, why in self.new.items()]
        if self.left:
            said.append(f"not used: {', '.join(self.left)}")
        return said


@torch.no_grad()
def start_from(
    model: nn.Module, weights: Mapping[str, Tensor], vocabularies: Sequence[tuple[Vocabulary, Vocabulary]] = ()
) -> Taken:
    """Copy all weights whose names and shapes fit. `vocabularies`: (old, new) of each tokenizer that changed.

    In a table with one row a token, the rows of the tokens that both vocabularies have are copied.
    """
    taken, used = Taken(), set()
    for names, target in _by_tensor(model):
        name = next((name for name in names if name in weights), None)
        if name is None:
            taken.new[names[0]] = "the other run has no weight of this name"
            continue
        used.update(names)
        value = weights[name]
        if value.shape == target.shape:
            target.copy_(value)
            taken.whole.append(names[0])
        elif (pair := _fitting(value, target, vocabularies)) is not None:
            old, new = pair
            both = [(new[piece], index) for piece, index in old.items() if piece in new]
            places, sources = (torch.tensor(side) for side in zip(*both, strict=True))
            target[places.to(target.device)] = value[sources].to(target)
            taken.rows[names[0]] = (len(both), len(target))
        else:
            taken.new[names[0]] = f"it is {_shape(target)} here and {_shape(value)} there"
    taken.left.extend(sorted(name for name in weights if name not in used))
    if not taken.whole and not taken.rows:
        raise CallError("start: no weight of that run fits this model; use a run of the same kind and size")
    return taken


def freeze(model: nn.Module, patterns: Sequence[str]) -> list[str]:
    """Freeze the weights that match the patterns, and return their names; `encoder` matches all weights inside it."""
    names = dict(model.named_parameters())
    frozen: list[str] = []
    for pattern in patterns:
        found = [name for name in names if fnmatchcase(name, pattern) or name.startswith(pattern + ".")]
        if not found:
            raise CallError(f"training.freeze: {pattern!r} names no weight{nearest(pattern, names)}")
        frozen += found
    for name in frozen:
        names[name].requires_grad_(False)
    if frozen and not any(weight.requires_grad for weight in names.values()):
        raise CallError("training.freeze matches all weights: nothing is left to train")
    return list(dict.fromkeys(frozen))


def _by_tensor(model: nn.Module) -> list[tuple[list[str], Tensor]]:
    """Return each weight and persistent buffer once, with all its names: tied weights have several."""
    found: dict[int, tuple[list[str], Tensor]] = {}
    for name, tensor in model.state_dict(keep_vars=True).items():
        found.setdefault(id(tensor), ([], tensor))[0].append(name)
    return list(found.values())


def _fitting(
    value: Tensor, target: Tensor, vocabularies: Sequence[tuple[Vocabulary, Vocabulary]]
) -> tuple[Vocabulary, Vocabulary] | None:
    if value.shape[1:] != target.shape[1:]:
        return None
    for old, new in vocabularies:
        if (len(old), len(new)) == (len(value), len(target)) and old.keys() & new.keys():
            return old, new
    return None


def _shape(tensor: Tensor) -> str:
    return " × ".join(map(str, tensor.shape)) or "a number"
