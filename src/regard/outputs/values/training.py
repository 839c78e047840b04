"""Training of a forecaster on windows of a table, and its comparison with baselines from the same table.

Examples are windows with numbers as targets instead of ids: they are prepared and batched here.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float

from regard.data.check_report import CheckReport
from regard.data.examples import Example
from regard.data.tables import Role
from regard.errors import CallError
from regard.inputs.series.window_batches import WindowBatches
from regard.inputs.series.window_input import WindowInput
from regard.inputs.series.windows import Windows
from regard.models.forecaster import Forecaster
from regard.outputs.base import Output
from regard.outputs.result import Candidate, Measure, Scores, Tally
from regard.outputs.values.baselines import Baselines
from regard.outputs.values.build import build_forecaster
from regard.outputs.values.forecasting import UNSCORED
from regard.outputs.values.scoring import SHOWN, errors, scores, window_errors
from regard.outputs.values.settings import ForecastRecipe


class ValuesTraining(Output[ForecastRecipe, WindowInput, Forecaster]):
    gives: ClassVar[str] = "numbers"
    unit: ClassVar[str] = "values"

    def __init__(self, recipe: ForecastRecipe, input: WindowInput) -> None:
        super().__init__(recipe, input)
        self._baselines: Baselines | None = None

    def prepare(self, cache: Path, *, strict: bool = True) -> dict[Role, Windows]:
        windows = self.input.prepared_windows(strict=strict)
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
        self.fitted_baselines.save(folder)

    def restore(self, folder: Path) -> None:
        self._baselines = Baselines.load(folder)

    def quick(self, model: Forecaster, valid: Windows) -> dict[str, float]:
        found, _ = errors(model, valid, self.fitted_baselines, self.recipe.decoding.batch)
        return found[""].means()

    def some(self, valid: Windows, most: int) -> list[Example]:
        return [Example(item, ()) for item in valid.some(most)]

    def test(self) -> tuple[Windows, str]:
        return self.input.test_windows(), ""

    def test_scores(self, model: Forecaster, examples: Windows, alignments: bool) -> Scores:
        """Return MSE, MAE, MASE and pinball loss with those of the baselines, by step, target and period."""
        batch, lag = self.recipe.decoding.batch, self.recipe.data.lag
        return scores(model, examples, self.input.fitted, self.fitted_baselines, batch, lag)

    def measure(self) -> Measure:
        return Measure("mse", higher_is_better=False, percent=False)

    def spread(self, examples: Windows, most: int) -> Windows:
        return examples.spread(most)

    def answers(self, model: Forecaster, examples: Windows) -> Float[np.ndarray, " N"]:
        """Return the mean squared error of each window."""
        return window_errors(model, examples, self.fitted_baselines, self.recipe.decoding.batch)["model"]

    def baselines(self, train: Windows, examples: Windows) -> dict[str, Float[np.ndarray, " N"]]:
        found = window_errors(None, examples, self.fitted_baselines, self.recipe.decoding.batch)
        return {SHOWN[name]: errors for name, errors in found.items()}

    def tally(self, answers: Float[np.ndarray, " N"], examples: Windows) -> Tally:
        """Return the tally over blocks as long as a horizon, which are resampled together because neighboring windows
        overlap.
        """
        blocks = np.arange(len(answers)) // max(1, examples.layout.horizon)
        return Tally.of_shares(np.stack([np.bincount(blocks, answers), np.bincount(blocks)], 1))

    @property
    def fitted_baselines(self) -> Baselines:
        if self._baselines is None:
            raise RuntimeError("there are no baselines yet: prepare or restore comes first")
        return self._baselines

    def given_candidates(self, model: Forecaster, inputs: Sequence[Any], outputs: Sequence[Any]) -> list[Candidate]:
        raise CallError(UNSCORED)
