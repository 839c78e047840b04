"""Many items through a model: inputs of like length together, within a budget of tokens; the same for every output."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import torch
from jaxtyping import Int
from torch import Tensor, nn

from regard.inputs.base import Input
from regard.look.axis import Axis
from regard.look.case import Case, Parts

AT_ONCE = 4096  # tokens that go through a model together
T = TypeVar("T")


def device_of(model: nn.Module) -> torch.device:
    return next(model.parameters()).device


def in_groups(
    numbers: Iterable[int], lengths: Sequence[int], tokens: int, work: Callable[[list[int]], Sequence[T]]
) -> Iterator[tuple[int, T]]:
    """`work` on groups of numbers of like length, each of about so many tokens; (number, result) as they come."""
    order = sorted(numbers, key=lambda number: -lengths[number])
    start = 0
    while start < len(order):  # the longest comes first, so its length is that of the padded group
        group = order[start : start + max(1, tokens // (lengths[order[start]] + 1))]
        yield from zip(group, work(group), strict=True)
        start += len(group)


def grouped(lengths: Sequence[int], tokens: int, work: Callable[[list[int]], Sequence[T]]) -> list[T]:
    """The same for all numbers that have a length, in their order."""
    found = dict(in_groups(range(len(lengths)), lengths, tokens, work))
    return [found[number] for number in range(len(lengths))]


@torch.inference_mode()
def rows_of(
    input: Input, model: nn.Module, items: Sequence[Any], ask: Callable[[Any], Tensor], tokens: int
) -> list[Tensor]:
    """What the model says of each item, on the CPU: `ask` is given batches of items and gives a row for each."""
    device = device_of(model)

    def work(numbers: list[int]) -> list[Tensor]:
        return list(ask(input.collate([items[number] for number in numbers]).to(device)).float().cpu())

    return grouped([input.length(item) for item in items], tokens, work)


def case_of(
    input: Input,
    model: nn.Module,
    encoder: nn.Module,
    item: Any,
    steps: Callable[..., Tensor],
    axes: Mapping[str, Axis],
    *,
    target: Int[Tensor, "1 T"] | None = None,
    **how: Any,
) -> Case:
    """The case of an item, where `steps` says what the model thinks of each step, given a batch of such items; and
    with `target`, what is written: a row of it for each of them. `encoder` is what reads the input."""
    device = device_of(model)
    longest = max(input.length(item), 0 if target is None else target.shape[1])

    def ask(without: Sequence[Parts]) -> Tensor:
        items = [input.without(item, parts) if parts else item for parts in without]
        most = len(items) if torch.is_grad_enabled() else max(1, AT_ONCE // (longest + 1))  # gradients are of one pass
        found = []
        for some in (items[start : start + most] for start in range(0, len(items), most)):
            written = () if target is None else (target.to(device).expand(len(some), -1),)
            found.append(steps(input.collate(some).to(device), *written))
        return torch.cat(found)

    usual: dict[str, Any] = {"parts": input.parts(item), "vectors": input.vectors(encoder)}
    usual["gather"] = lambda products: input.gather(item, products)
    return Case(model, ask, axes, **(usual | how))
