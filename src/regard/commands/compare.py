"""`regard compare RECIPE --vary KEY=A,B`: train variants of a recipe and compare them.

All variants have the same data, budget and seed, unless these vary. Each has its own folder, so that an interrupted
comparison resumes. A recipe may contain a list of variants (`ladder` does: the models of the lectures in order).
"""

import itertools
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import yaml
from rich.table import Table

from regard import api, config
from regard.detect.begin import is_data, make_recipe
from regard.errors import CallError, RegardError, nearest
from regard.files import atomic
from regard.job import make_job
from regard.report.charts import ChartLine, line_chart
from regard.report.run import COLORS, Section, curves, page, table, words
from regard.report.run_files import RunFiles
from regard.runs.request import read_recipe, run_begun
from regard.settings.recipe import Recipe, Variant

COSTS = ("parameters", "steps", "seconds", "memory MB")
WITH_IT = ("exact_match", "aer")  # columns of the terminal table besides the first score


@dataclass(frozen=True)
class ComparisonRow:
    """The results of one trained variant."""

    name: str
    overrides: dict[str, Any]
    folder: str
    scores: dict[str, float]
    parameters: int
    steps: int
    seconds: float
    peak_memory: int
    history: list[dict[str, Any]]
    by_length: list[dict[str, Any]]  # BLEU by source length, for translators


@dataclass(frozen=True)
class Comparison:
    """The results of all variants; `page` is the HTML file that shows them."""

    recipe: str
    rows: list[ComparisonRow]
    page: Path
    shared: tuple[str, ...]  # which of data, budget and seed are the same for all

    def as_dict(self) -> dict[str, Any]:
        rows = [vars(row) for row in self.rows]
        return {"recipe": self.recipe, "page": str(self.page), "shared": list(self.shared), "variants": rows}

    def about(self) -> str:
        """Return a note such as `the same data and seed for all`."""
        *most, last = self.shared or ("",)
        return f"the same {' and '.join([', '.join(most), last] if most else [last])} for all" if last else ""

    def columns(self) -> list[str]:
        """Return the names of scores that differ between variants, without the loss."""
        names = dict.fromkeys(name for row in self.rows for name in row.scores)
        told = {name: {_number(row.scores[name]) for row in self.rows if name in row.scores} for name in names}
        return [name for name in names if name != "loss" and (len(told[name]) > 1 or len(self.rows) == 1)]

    def table(self) -> Table:
        """Return a table for the terminal, with a few columns; the page has all."""
        names = self.columns()
        shown = [*names[:1], *(name for name in names[1:] if name in WITH_IT)]
        about = self.about()
        table = Table(title=f"{self.recipe}: {len(self.rows)} variants, test scores" + (f", {about}" if about else ""))
        table.add_column("variant")
        for name in [*shown, *COSTS]:
            table.add_column(name, justify="right")
        for row in self.rows:
            table.add_row(row.name, *self.cells(row, shown))
        return table

    def cells(self, row: ComparisonRow, names: Sequence[str]) -> list[str]:
        scores = [_number(row.scores[name]) if name in row.scores else "–" for name in names]
        costs = [f"{row.parameters:,}", f"{row.steps:,}", f"{row.seconds:.0f}", f"{row.peak_memory / 2**20:.0f}"]
        return [*scores, *costs]


def _number(score: float) -> str:
    return f"{score:.2f}"


def grid(vary: tuple[str, ...]) -> list[Variant]:
    """Return all combinations: `("model.context=initial,attention", "model.width=64,128")` → four variants."""
    axes: list[list[tuple[str, str]]] = []
    for text in vary:
        path, _ = config.parse_override(text)
        values = [value.strip() for value in text.partition("=")[2].split(",")]
        if not all(values):
            raise CallError(f"--vary {text!r}: an empty value between the commas")
        if len(set(values)) != len(values):
            raise CallError(f"--vary {text!r}: duplicate value")
        axes.append([(".".join(path), value) for value in values])
    return [
        Variant(name=" ".join(f"{key.split('.')[-1]}={value}" for key, value in chosen), set=dict(chosen))
        for chosen in itertools.product(*axes)
    ]


def compare(recipe: str, overrides: tuple[str, ...], vary: tuple[str, ...], output: Path) -> Comparison:
    """Train and compare all variants. All are validated before the first is trained."""
    with run_begun(output / "recipe"):  # a rejected comparison leaves no files
        recipe, read = _variants(recipe, overrides, vary, output)
        for _, settings in read:
            require_test_data(settings)
    seen: list[Any] = []  # data that has been checked
    rows = []
    for variant, settings in read:
        rows.append(_train(variant, settings, output, check=settings.data not in seen))
        seen.append(settings.data)
    comparison = Comparison(recipe, rows, output / "compare.html", shared_by([settings for _, settings in read]))
    atomic.write_text(comparison.page, _page(comparison))
    return comparison


def _variants(
    recipe: str, overrides: tuple[str, ...], vary: tuple[str, ...], output: Path
) -> tuple[str, list[tuple[Variant, Recipe]]]:
    """Return the recipe (made first, if data was given), and the settings of each variant."""
    try:
        if is_data(recipe):
            if not vary:
                raise CallError(f"nothing to compare on {recipe}: give values, such as --vary model.width=64,128")
            recipe = str(make_recipe(recipe, output / "recipe", overrides=overrides, report=_report))
        return recipe, _read(recipe, overrides, vary)
    except CallError as error:
        if not (lists := [text for text in overrides if "," in text]):
            raise
        raise CallError(f"{error}\nto compare values: {' '.join(f'--vary {text}' for text in lists)}") from None


def _report(message: str) -> None:
    print(f"regard: {message}", file=sys.stderr)


def require_test_data(settings: Recipe) -> None:
    """Raise before training if there is no test data."""
    job = make_job(settings)
    if not job.output.has_test_data:
        raise job.input.no_test_data()


def shared_by(recipes: Sequence[Recipe]) -> tuple[str, ...]:
    """Return which of data, budget and seed are the same for all."""
    parts = {
        "data": [one.data for one in recipes],
        "budget": [
            (one.training.max_steps, one.training.max_epochs, one.training.time_limit, one.training.patience)
            for one in recipes
        ],
        "seed": [one.training.seed for one in recipes],
    }
    return tuple(name for name, values in parts.items() if all(value == values[0] for value in values))


def _read(recipe: str, overrides: tuple[str, ...], vary: tuple[str, ...]) -> list[tuple[Variant, Recipe]]:
    base = config.read_tree(recipe, overrides)
    variants = grid(vary) if vary else config.build(base, recipe).variants
    if not variants:
        raise CallError(f"{recipe} has no variants; give values, such as --vary model.context=initial,attention")
    return [(v, config.build(config.override(base, v.set), f"{recipe} with {v.name}")) for v in variants]


def _train(variant: Variant, settings: Recipe, output: Path, *, check: bool) -> ComparisonRow:
    """Train in a separate process, so that memory is measured per variant and runs stay independent."""
    folder = output / re.sub(r"[^\w.=+-]+", "_", variant.name)
    folder.mkdir(parents=True, exist_ok=True)
    recipe = folder / "recipe.yaml"
    recipe.write_text(yaml.safe_dump(config.as_tree(settings), allow_unicode=True, sort_keys=False), encoding="utf-8")
    words = ["train", str(recipe), "-o", str(folder), "--json", *([] if check else ["--no-check"])]
    process = subprocess.Popen([sys.executable, "-m", "regard", *words], stdout=subprocess.DEVNULL)
    try:
        _, status, usage = os.wait4(process.pid, 0)
    except KeyboardInterrupt:  # the child process receives it too, and saves
        process.wait()
        raise
    if code := os.waitstatus_to_exitcode(status):
        raise RegardError(f"the variant {variant.name!r} ended with exit code {code}")
    run = api.load(folder)
    summary, scores = run.summary(), run.evaluate()
    return ComparisonRow(
        variant.name, variant.set, str(folder), scores.values, summary["parameters"], summary["step"],
        summary["seconds"], usage.ru_maxrss * 1024, summary["history"], scores.details.get("bleu by source length", []),
    )  # fmt: skip


def _page(comparison: Comparison) -> str:
    names = comparison.columns()
    heads = ["variant", *map(words, names), *COSTS]
    rows = [[row.name, *comparison.cells(row, names)] for row in comparison.rows]
    charts = []
    if any(row.by_length for row in comparison.rows):
        lines = _by_length(comparison.rows)
        charts.append(line_chart("BLEU by words of the source", lines, x_label="words", legend=False))
    records = {row.name: RunFiles(Path(row.folder)).records() for row in comparison.rows}
    samples = [[row.name, row.history[-1].get("sample", "")] for row in comparison.rows if row.history]
    sections = [
        Section("Test scores", table(heads, rows), _sentence(comparison.about())),
        Section("Curves", curves(records, charts)),
        Section("One sentence", table(["variant", "source, output, reference"], samples)),
    ]
    return page(f"{comparison.recipe}: {len(comparison.rows)} variants", "", sections)


def _sentence(words: str) -> str:
    return f"{words[0].upper()}{words[1:]}." if words else ""


def _by_length(rows: list[ComparisonRow]) -> list[ChartLine]:
    """Plot BLEU by source length, as in Bahdanau et al. 2014, figure 2 (arXiv:1409.0473)."""
    return [
        ChartLine(
            row.name,
            [int(re.match(r"\d+", part["words"])[0]) for part in row.by_length],  # pyright: ignore[reportOptionalSubscript]
            [part["bleu"] for part in row.by_length],
            f"s{n % COLORS}",
            dots=True,
        )
        for n, row in enumerate(rows)
    ]


# `regard verify RECIPE`: check whether this machine reaches the score that a recipe promises.


@dataclass(frozen=True)
class ScoreVerdict:
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


def verify(recipe: str, overrides: tuple[str, ...], output: Path) -> ScoreVerdict:
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
    return ScoreVerdict(recipe, promise.metric, promise.score, promise.spread, scores[promise.metric], promise.mode)
