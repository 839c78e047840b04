"""Results of `measure_layers` as numbers, table and picture."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.table import Table


@dataclass(frozen=True)
class Exponents:
    """The p of time ∝ size^p, fitted to measured times and to counted operations at the same sizes."""

    measured: float
    counted: float


@dataclass(frozen=True)
class LayerCost:
    """One kind of layer: seconds for each size, and the exponents of n and d."""

    name: str
    operations: str
    sequential: str
    path: str
    by_length: tuple[float, ...]  # seconds for each of LayerCosts.lengths at LayerCosts.fixed_width
    by_width: tuple[float, ...]  # seconds for each of LayerCosts.widths at LayerCosts.fixed_length
    n: Exponents
    d: Exponents


@dataclass(frozen=True)
class LayerCosts:
    """All kinds of layer, measured together in one interleaved run."""

    layers: tuple[LayerCost, ...]
    lengths: tuple[int, ...]
    widths: tuple[int, ...]
    fixed_length: int
    fixed_width: int
    backward: bool
    rounds: int
    threads: int
    device: str

    def as_dict(self) -> dict[str, Any]:
        """Return plain lists, numbers and strings, for JSON."""
        return asdict(self)

    def table(self) -> "Table":
        """Return the textbook table with measured exponents, and a chart, for the terminal."""
        from regard.cost.picture import layers_table

        return layers_table(self)

    def plot(self, path: str | Path) -> Path:
        """Write a picture; the suffix of the path (.png, .svg, .pdf) gives the format."""
        from regard.cost.picture import layers_plot

        return layers_plot(self, Path(path))
