"""`regard bench layers`: the exponents it fits, and how it shows them."""

import io
import json
import math

import pytest
import torch
from rich.console import Console

from regard.cost.layers import KINDS, exponent, measure_layers
from regard.cost.picture import Exponents, LayerCost, LayerCosts, layers_chart
from regard.errors import CallError

LENGTHS, WIDTHS = (16, 32, 64, 128), (8, 16, 32)


@pytest.fixture(scope="module")
def costs() -> LayerCosts:
    return measure_layers(LENGTHS, WIDTHS, seconds=0.0)


def test_exponent_is_that_of_a_power_law():
    sizes = [3, 6, 12, 24, 48]
    assert exponent(sizes, [5.0 * size**1.7 for size in sizes]) == pytest.approx(1.7)


def test_exponent_leaves_small_sizes_out():
    # A fixed cost hides the square at first; the larger half is where it shows.
    sizes = [2**i for i in range(12)]
    times = [1e3 + size**2 for size in sizes]
    assert exponent(sizes, times) > 1.6
    whole = [math.log(time / times[0]) / math.log(size) for size, time in zip(sizes[1:], times[1:], strict=True)]
    assert exponent(sizes, times) > max(whole)


def test_exponent_uses_three_points_at_least():
    assert exponent([1, 2, 4], [1.0, 4.0, 16.0]) == pytest.approx(2.0)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_every_layer_runs_on_one_sequence_and_back(kind):
    n, d = 7, 64
    layer, x = kind.build(d), torch.randn(1, n, d, requires_grad=True)
    result = layer(x)
    assert result.numel() == n * d
    (result * torch.randn_like(result)).sum().backward()
    assert x.grad is not None
    assert (x.grad != 0).all()
    assert all(weight.grad is not None for weight in layer.parameters())


def test_counted_operations_are_those_that_torch_counts():
    from torch.utils.flop_counter import FlopCounterMode

    n, d = 7, 192  # three heads, so that heads and width differ
    for kind in KINDS:
        module = kind.build(d).to("meta")
        with FlopCounterMode(display=False) as counter, torch.no_grad():
            module(torch.empty(1, n, d, device="meta"))
        assert counter.get_total_flops() == kind.flops(n, d), kind.name


def test_counted_exponents_are_the_textbooks(costs):
    by_name = {layer.name: layer for layer in costs.layers}
    assert by_name["attention"].n.counted == pytest.approx(2)
    assert by_name["attention"].d.counted == pytest.approx(1)
    for name in ("recurrent", "convolution"):
        assert by_name[name].n.counted == pytest.approx(1)
        assert by_name[name].d.counted == pytest.approx(2)
    assert 1 < by_name["self-attention"].n.counted < 2


def test_measures_every_size_once_a_round(costs):
    assert costs.rounds == 3
    assert (costs.lengths, costs.widths) == (LENGTHS, WIDTHS)
    assert (costs.fixed_length, costs.fixed_width) == (64, 16)
    for layer in costs.layers:
        assert len(layer.by_length) == len(LENGTHS)
        assert len(layer.by_width) == len(WIDTHS)
        assert min(*layer.by_length, *layer.by_width) > 0


def test_a_long_attention_operation_grows_faster_than_a_long_convolution():
    # The one comparison that no machine gets wrong: n² against n, far enough out.
    costs = measure_layers((512, 1024, 2048), (32, 64, 128), seconds=0.5)
    by_name = {layer.name: layer for layer in costs.layers}
    assert by_name["attention"].n.measured > by_name["convolution"].n.measured + 0.3


def test_serialises_to_json(costs):
    document = json.loads(json.dumps(costs.as_dict(), allow_nan=False))
    assert [layer["name"] for layer in document["layers"]] == [kind.name for kind in KINDS]
    assert document["layers"][0]["n"]["counted"] == pytest.approx(2)


def made_up() -> LayerCosts:
    """Times that follow the textbook to the letter."""

    def cost(kind):
        by_length = tuple(kind.flops(n, 64) * 1e-9 for n in (128, 256, 512))
        by_width = tuple(kind.flops(256, d) * 1e-9 for d in (32, 64, 128))
        p, q = exponent((128, 256, 512), by_length), exponent((32, 64, 128), by_width)
        names = (kind.name, kind.operations, kind.sequential, kind.path)
        return LayerCost(*names, by_length, by_width, Exponents(p, p), Exponents(q, q))

    return LayerCosts(tuple(map(cost, KINDS)), (128, 256, 512), (32, 64, 128), 256, 64, False, 5, 2, "cpu")


def drawn(renderable) -> str:
    console = Console(width=80, file=io.StringIO())
    console.print(renderable)
    return console.file.getvalue()


def test_table_has_the_textbook_beside_the_measurement():
    text = drawn(made_up().table())
    row = next(line for line in text.splitlines() if "● attention" in line)
    assert "n²d" in row
    assert "2.00 (2.00)" in row
    assert "1.00 (1.00)" in row
    assert "O(log_k n)" in next(line for line in text.splitlines() if "convolution" in line)


def test_chart_rises_to_the_right_and_names_the_lengths():
    lines = drawn(layers_chart(made_up())).splitlines()
    marks = [(y, line.index("●")) for y, line in enumerate(lines) if "●" in line]
    assert len(marks) == 3
    assert [x for _, x in marks] == sorted((x for _, x in marks), reverse=True)
    assert lines[-1].split() == ["n", "128", "256", "512"]


def test_plot_writes_a_picture(tmp_path):
    path = made_up().plot(tmp_path / "layers.png")
    assert path.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(("lengths", "widths"), [((1, 2), (8, 16, 32)), ((0, 1, 2), (8, 16, 32))])
def test_sizes_that_cannot_be_fitted_are_refused(lengths, widths):
    with pytest.raises(CallError, match="lengths="):
        measure_layers(lengths, widths)
