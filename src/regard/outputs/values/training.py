"""A forecaster learns from windows of a table, and is held against baselines that the same table gives.

Examples are windows, and their targets are numbers and not ids: they are prepared and put into batches here.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from regard.data.check_report import CheckReport
from regard.data.examples import Example
from regard.data.tables import Role
from regard.errors import CallError
from regard.inputs.series.window_batches import WindowBatches
from regard.inputs.series.window_input import WindowInput
from regard.inputs.series.windows import Windows
from regard.models.forecaster import Forecaster
from regard.outputs.base import Output
from regard.outputs.result import Candidate, Scores
from regard.outputs.values.baselines import Baselines
from regard.outputs.values.build import build_forecaster
from regard.outputs.values.forecasting import UNSCORED
from regard.outputs.values.scoring import errors, scores
from regard.outputs.values.settings import ForecastRecipe


class ValuesTraining(Output[ForecastRecipe, WindowInput, Forecaster]):
    gives: ClassVar[str] = "numbers"
    unit: ClassVar[str] = "values"

    def __init__(self, recipe: ForecastRecipe, input: WindowInput) -> None:
        super().__init__(recipe, input)
        self._baselines: Baselines | None = None

    def prepare(self, cache: Path, *, strict: bool = True) -> dict[Role, Windows]:
        windows = self.input.windows(strict=strict)
        if strict:
            scaler, season = self.input.fitted.scaler, self.input.season
            self._baselines = Baselines.fit(windows["train"], windows["valid"], scaler, season)
        return windows

    def check(self, splits: dict[Role, Windows]) -> CheckReport:
        return self.input.report(splits)

    def batches(self, split: Windows, max_tokens: int, *, seed: int = 0) -> WindowBatches:
        return WindowBatches(split, max_tokens, seed=seed)

    def build(self) -> Forecaster:
        return build_forecaster(self.recipe.model, self.input.encoder(self.recipe.model), self.input.layout)

    def save(self, folder: Path) -> None:
        self.baselines.save(folder)

    def restore(self, folder: Path) -> None:
        self._baselines = Baselines.load(folder)

    def quick(self, model: Forecaster, valid: Windows) -> dict[str, float]:
        found, _ = errors(model, valid, self.baselines, self.recipe.decoding.batch)
        return found[""].means()

    def some(self, valid: Windows, most: int) -> list[Example]:
        return [Example(item, ()) for item in valid.some(most)]

    def test(self) -> tuple[Windows, str]:
        return self.input.test_windows(), ""

    def test_scores(self, model: Forecaster, examples: Windows, alignments: bool) -> Scores:
        """MSE, MAE, MASE, pinball, with the baselines beside them, by step, target and period."""
        batch, lag = self.recipe.decoding.batch, self.recipe.data.lag
        return scores(model, examples, self.input.fitted, self.baselines, batch, lag)

    @property
    def baselines(self) -> Baselines:
        if self._baselines is None:
            raise RuntimeError("there are no baselines yet: prepare or restore comes first")
        return self._baselines

    def given_candidates(self, model: Forecaster, inputs: Sequence[Any], outputs: Sequence[Any]) -> list[Candidate]:
        raise CallError(UNSCORED)
