"""Attention of a forecaster: rows are steps ahead of one target, columns the steps that were read.

Steps are numbers in the units of the target. A decoder's steps attend to each other in parallel; the patches of each
target are a separate row of the batch.
"""

from collections.abc import Callable, Mapping, Sequence

from torch import Tensor

from regard.inputs.series.item import SeriesItem
from regard.inputs.series.window_input import WindowInput
from regard.look.axis import Axis
from regard.look.case import Case, Parts
from regard.models.forecaster import Forecaster
from regard.models.patch_forecaster import PatchForecaster
from regard.outputs.values.forecasting import LookedAt


def forecast_case(
    model: Forecaster,
    input: WindowInput,
    looked_at: LookedAt,
    axes: Mapping[str, Axis],
    values: Callable[[Sequence[SeriesItem]], Tensor],
) -> Case:
    """Return the case. `values`: scaled model outputs for windows: N T M P."""
    item, target = looked_at
    scaler, patches = input.fitted.scaler, isinstance(model, PatchForecaster)

    def ask(without: Sequence[Parts]) -> Tensor:
        said = values([input.without(item, parts) if parts else item for parts in without])[:, :, target, model.middle]
        return said * float(scaler.deviation[target]) + float(scaler.mean[target])

    return Case(
        model, ask, axes, axes["source"].real(),
        vectors=model.past, gather=lambda products: input.gather(item, products), number=True,
        each=model.targets if patches else 1, row=target if patches else 0,
    )  # fmt: skip
