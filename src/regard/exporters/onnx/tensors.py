"""What an encoder reads, as named tensors: a graph has no other inputs."""

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import torch.nn.functional as F
from torch import Tensor

NAME = "source"
LEAST = 3  # of an example's sizes that may change: torch takes 0 and 1 for constants


def named(source: Any, name: str = NAME) -> dict[str, Tensor]:
    """A tensor as it is; of a batch with several, each by the name of its field."""
    if isinstance(source, Tensor):
        return {name: source}
    found: dict[str, Tensor] = {}
    for field, value in _parts(source):
        found |= named(value, field)
    return found


def rebuilt(like: Any, tensors: Mapping[str, Tensor], name: str = NAME) -> Any:
    """The inverse: a batch of the same kind as `like`."""
    if isinstance(like, Tensor):
        return tensors[name]
    return type(like)(*(rebuilt(value, tensors, field) for field, value in _parts(like)))


def _parts(source: Any) -> Iterator[tuple[str, Any]]:
    if not (is_dataclass(source) or hasattr(source, "_fields")):
        raise TypeError(f"{type(source).__name__} is no batch of tensors")
    names = [field.name for field in fields(source)] if is_dataclass(source) else source._fields
    return ((name, getattr(source, name)) for name in names)


def sequences(tensors: Mapping[str, Tensor]) -> dict[str, dict[int, str]]:
    """The dimensions that change from batch to batch: rows, and lengths of what is padded. Pictures have one size."""
    found: dict[str, dict[int, str]] = {}
    for name, tensor in tensors.items():
        found[name] = {0: "batch"}
        if tensor.ndim in (2, 3):
            found[name][1] = f"{name}_length"
    return found


def long_enough(tensors: Mapping[str, Tensor], dynamic: Mapping[str, Mapping[int, str]]) -> dict[str, Tensor]:
    """The same, with padding behind what is shorter than an example may be."""
    return {
        name: F.pad(tensor, (0, 0) * (tensor.ndim - 2) + (0, LEAST - tensor.shape[1]))
        if 1 in dynamic[name] and tensor.shape[1] < LEAST
        else tensor
        for name, tensor in tensors.items()
    }
