"""Forecast errors, summed by period, step and target, so that any mean can be computed.

    MSE = mean e²        MAE = mean |e|        e = y − ŷ
    MASE = mean |e| / mean |y_t − y_{t−season}| of the training part           Hyndman and Koehler 2006, section 4
    pinball = mean over quantiles q of max(q e, (q − 1) e)                     Koenker and Bassett 1978
    coverage = share of y between the lowest and the highest quantile

MASE is the error relative to that of the forecast "as a season ago" on the training part: below 1 is better.
"""

from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float, Int


@dataclass
class Errors:
    """Error sums over windows, in P periods, of one forecaster."""

    squared: Float[np.ndarray, "P T M"]
    absolute: Float[np.ndarray, "P T M"]
    relative: Float[np.ndarray, "P T M"]  # absolute errors in units of the naive error
    count: Int[np.ndarray, " P"]
    pinball: float = 0.0
    inside: float = 0.0
    width: int = field(default=0)  # quantiles

    @classmethod
    def empty(cls, periods: int, steps: int, targets: int) -> "Errors":
        zeros = np.zeros((periods, steps, targets))
        return cls(zeros, zeros.copy(), zeros.copy(), np.zeros(periods, dtype=np.int64))

    def add(
        self,
        predicted: Float[np.ndarray, "N T M"],
        true: Float[np.ndarray, "N T M"],
        naive: Float[np.ndarray, "N M"],
        period: Int[np.ndarray, " N"],
    ) -> None:
        """`naive`: the naive error of each window's series, target by target; NaN or 0 counts as 1."""
        error = true - predicted
        unit = np.where(naive > 0, naive, 1.0)[:, None]
        np.add.at(self.squared, period, error**2)
        np.add.at(self.absolute, period, np.abs(error))
        np.add.at(self.relative, period, np.abs(error) / unit)
        np.add.at(self.count, period, 1)

    def add_quantiles(
        self,
        predicted: Float[np.ndarray, "N T M Q"],
        true: Float[np.ndarray, "N T M"],
        quantiles: Float[np.ndarray, " Q"],
    ) -> None:
        error = true[..., None] - predicted
        self.width = len(quantiles)
        self.pinball += float(np.maximum(quantiles * error, (quantiles - 1) * error).sum())
        self.inside += float(((true >= predicted[..., 0]) & (true <= predicted[..., -1])).sum())

    @property
    def _numbers(self) -> int:
        return int(self.count.sum()) * self.squared.shape[1] * self.squared.shape[2]

    def means(self) -> dict[str, float]:
        """The scores over everything."""
        size = max(1, self._numbers)
        found = {
            "mse": float(self.squared.sum()) / size,
            "mae": float(self.absolute.sum()) / size,
            "mase": float(self.relative.sum()) / size,
        }
        if self.width:
            found |= {"pinball": self.pinball / (size * self.width), "coverage": self.inside / size}
        return found

    def mse_by_step(self) -> Float[np.ndarray, " T"]:
        return self.squared.sum(axis=(0, 2)) / max(1, int(self.count.sum()) * self.squared.shape[2])

    def by_target(self) -> tuple[Float[np.ndarray, " M"], Float[np.ndarray, " M"]]:
        """MSE and MAE."""
        size = max(1, int(self.count.sum()) * self.squared.shape[1])
        return self.squared.sum(axis=(0, 1)) / size, self.absolute.sum(axis=(0, 1)) / size

    def mse_by_period(self) -> Float[np.ndarray, " P"]:
        return self.squared.sum(axis=(1, 2)) / np.maximum(1, self.count * self.squared.shape[1] * self.squared.shape[2])
