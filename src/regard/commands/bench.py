"""`regard bench layers`: the textbook table of the costs of layers, measured on this machine."""

from regard.cost.layer_costs import LayerCosts
from regard.cost.measure_layers import QUICK_LENGTHS, QUICK_WIDTHS, measure_layers


def bench_layers(*, quick: bool = False) -> LayerCosts:
    """Measure for about a minute; `quick` takes seconds, with sizes so small that fixed costs blur the exponents."""
    if quick:
        return measure_layers(QUICK_LENGTHS, QUICK_WIDTHS, seconds=2.0)
    return measure_layers()
