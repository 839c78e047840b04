"""Batched runs of a model over many items, the same for every output."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor, nn

from regard.inputs.base import Input
from regard.look.axis import Axis
from regard.look.case import ExplainTarget, Parts
from regard.look.hooks import ROWS_AT_ONCE, in_passes
from regard.tasks.result import group_by_length


def device_of(model: nn.Module) -> torch.device:
    return next(model.parameters()).device


@torch.inference_mode()
def rows_of(
    input: Input, model: nn.Module, items: Sequence[Any], ask: Callable[[Any], Tensor], tokens: int
) -> list[Tensor]:
    """Return the model's output for each item, on the CPU. `ask` takes a batch of items and returns a row for each."""
    device = device_of(model)

    def work(numbers: list[int]) -> list[Tensor]:
        return list(ask(input.collate([items[number] for number in numbers]).to(device)).float().cpu())

    return group_by_length([input.length(item) for item in items], tokens, work)


def case_of(
    input: Input,
    model: nn.Module,
    encoder: nn.Module,
    item: Any,
    steps: Callable[..., Tensor],
    axes: Mapping[str, Axis],
    *,
    target: Int[Tensor, "1 T"] | None = None,
    at_steps: Callable[..., Tensor] | None = None,
    at_once: int = ROWS_AT_ONCE,
    **how: Any,
) -> ExplainTarget:
    """Return the case of an item. `steps` scores each step for a batch of such items; with `target`, it also takes a
    row of the output for each item. `encoder` reads the input.

    `at_steps(source, target, rows, at)` scores only some steps of some rows, which costs less.
    """
    device, item = device_of(model), input.without_features(item)
    vectors = input.length(item) + (1 if target is None else target.shape[1])

    def batch(some: Sequence[Parts]) -> tuple[Any, ...]:
        source = input.collate([input.without(item, parts) if parts else item for parts in some]).to(device)
        return (source,) if target is None else (source, target.to(device).expand(len(some), -1))

    def ask(without: Sequence[Parts]) -> Tensor:
        return in_passes(without, vectors, lambda some: steps(*batch(some)), at_once=at_once)

    def ask_at(without: Sequence[Parts], wanted: Sequence[int]) -> Tensor:
        """Batch sets of similar size with similar steps, to reduce padding."""
        asked: dict[Parts, list[int]] = {}
        for number, parts in enumerate(without):
            asked.setdefault(parts, []).append(number)
        last = {parts: max(wanted[number] for number in numbers) for parts, numbers in asked.items()}
        order = sorted(asked, key=lambda parts: (len(parts), last[parts]))

        def one_pass(some: Sequence[Parts]) -> Tensor:
            pairs = [(row, wanted[number]) for row, parts in enumerate(some) for number in asked[parts]]
            rows, at = torch.tensor(pairs, device=device).unbind(1)
            assert at_steps is not None
            return at_steps(*batch(some), rows, at)

        numbers = torch.tensor([number for parts in order for number in asked[parts]])
        return in_passes(order, vectors, one_pass, at_once=at_once)[numbers.argsort().to(device)]

    usual: dict[str, Any] = {
        "parts": input.parts(item),
        "vectors": input.vectors(encoder),
        "gather": lambda products: input.gather(item, products),
        "ask_at": None if at_steps is None else ask_at,
    }
    return ExplainTarget(model, ask, axes, **(usual | how))
