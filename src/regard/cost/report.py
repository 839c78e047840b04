"""Cost of a model as a table for the terminal."""

from typing import TYPE_CHECKING

from rich.table import Table

from regard.cost.units import count, duration, memory, operations

if TYPE_CHECKING:
    from regard.cost.estimate import Cost


def cost_table(cost: "Cost") -> Table:
    """Return a table of each quantity, its value and its source."""
    table = Table(title=f"What {cost.name} costs", title_justify="left", show_header=False, caption_justify="left")
    table.add_column("what")
    table.add_column("how much", justify="right", no_wrap=True)
    table.add_column("how", style="dim")
    table.add_row("parameters", f"[bold]{count(cost.parameters)}", f"{cost.parameters:,}")
    for part, number in cost.parts.items():
        table.add_row(f"  {part}", count(number), f"{number / cost.parameters:.1%}")
    table.add_section()
    table.add_row(f"forward, per {cost.unit}", operations(cost.flops_per_token["forward"]), "matrix products, counted")
    table.add_row(f"training, per {cost.unit}", operations(cost.flops_per_token["training"]), "forward and backward")
    table.add_section()
    _memory_rows(table, cost)
    if cost.time:
        table.add_section()
        _time_rows(table, cost)
    table.caption = "\n".join(cost.notes) or None
    return table


def _memory_rows(table: Table, cost: "Cost") -> None:
    m = cost.memory
    rows = f"{cost.batch} × {cost.length} tokens"
    table.add_row("memory, training", f"[bold]{memory(m.training)}", _devices(cost, m.training_devices))
    table.add_row(
        "  weights, gradients, AdamW", memory(m.weights + m.gradients + m.optimizer), "4 + 4 + 8 bytes a parameter"
    )
    table.add_row("  activations", memory(m.activations), f"kept for the backward pass, {rows}")
    if cost.unit == "image":
        return
    table.add_row("memory, decoding", f"[bold]{memory(m.decoding)}", _devices(cost, m.decoding_devices))
    table.add_row("  weights", memory(m.decoding_weights), "")
    if m.kv_cache_per_token:
        table.add_row("  key/value cache", memory(m.kv_cache), f"{memory(m.kv_cache_per_token)} per token, {rows}")


def _time_rows(table: Table, cost: "Cost") -> None:
    t = cost.time
    assert t is not None
    peak = f"{operations(t.peak)}/s {t.dtype}"
    table.add_row("hardware", t.hardware, f"each {peak}; {t.source}")
    table.add_row("utilization", f"{t.utilization:.0%}", "assumed share of the peak")
    table.add_row("training", f"{count(t.training_tokens_per_second)} {cost.unit}s/s", "without communication")
    if t.training_seconds is not None and t.training_tokens is not None and t.training_flops is not None:
        what = f"{count(t.training_tokens)} {cost.unit}s, {operations(t.training_flops)}"
        table.add_row("whole training", f"[bold]{duration(t.training_seconds)}", what)
    if cost.unit == "token":
        table.add_row("decoding", f"{count(t.decoding_tokens_per_second)} tokens/s", f"at most, batch of {cost.batch}")


def _devices(cost: "Cost", devices: int | None) -> str:
    if devices is None or cost.time is None:
        return ""
    return "fits one device" if devices == 1 else f"needs {devices} devices or more to hold it"
