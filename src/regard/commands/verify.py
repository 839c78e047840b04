"""`regard verify RECIPE`: check whether this machine reaches the score that a recipe promises."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from regard import api
from regard.auto.begin import is_data
from regard.commands.compare import require_test_data
from regard.errors import CallError, nearest
from regard.train_request import read_recipe


@dataclass(frozen=True)
class Verdict:
    """The promised score and the reached one."""

    recipe: str
    metric: str
    expected: float
    spread: float
    reached: float
    mode: Literal["min", "max"] = "max"

    @property
    def met(self) -> bool:
        """Return whether the promise is met, up to the spread over seeds and machines. Better scores always pass."""
        if self.mode == "min":
            return self.reached <= self.expected + self.spread
        return self.reached >= self.expected - self.spread

    def sentence(self) -> str:
        held = "holds" if self.met else "DOES NOT HOLD"
        promised = f"{self.expected:g} ± {self.spread:g}"
        return f"{self.recipe}: test {self.metric} {self.reached:.4g}, promised {promised}: {held}"

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "met": self.met}


def verify(recipe: str, overrides: tuple[str, ...], output: Path) -> Verdict:
    """Train (or resume) the recipe in `output`, evaluate it, and compare."""
    if is_data(recipe) and not any(text.startswith("expected.") for text in overrides):
        raise CallError(f"{recipe} is data, without a score to verify; give expected.metric= and expected.score=")
    settings = read_recipe(recipe, overrides, output)
    promise = settings.expected
    if promise is None:
        raise CallError(f"{recipe} has no expected score to verify; give expected.metric= and expected.score=")
    require_test_data(settings)
    scores = api.train(settings, output=output).evaluate().values
    if promise.metric not in scores:
        raise CallError(
            f"expected.metric={promise.metric!r} is not a score of this job{nearest(promise.metric, scores)}"
        )
    return Verdict(recipe, promise.metric, promise.score, promise.spread, scores[promise.metric], promise.mode)
