"""`regard compare RECIPE --vary KEY=A,B`: variants of a recipe, trained alike, side by side.

Each variant has the same data, budget and seed, as far as they do not vary, and a folder of its own, so that a
comparison that was stopped goes on where it was. A recipe may carry its own list of variants (`ladder` does: the whole
story of the lectures).
"""

import itertools
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from rich.table import Table

from regard import api, config, jobs
from regard.auto.begin import begin, is_data
from regard.errors import CallError, RegardError
from regard.files import atomic
from regard.report.charts import Line, line_chart
from regard.report.page import Section, page, table, words
from regard.report.run import COLORS, curves
from regard.report.run_files import RunFiles
from regard.settings.recipe import Recipe, Variant
from regard.train_request import run_begun

COSTS = ("parameters", "steps", "seconds", "memory MB")
WITH_IT = ("exact_match", "aer")  # what a terminal shows beside the first score


@dataclass(frozen=True)
class Row:
    """One variant, trained."""

    name: str
    overrides: dict[str, Any]
    folder: str
    scores: dict[str, float]
    parameters: int
    steps: int
    seconds: float
    peak_memory: int
    history: list[dict[str, Any]]
    by_length: list[dict[str, Any]]  # BLEU by the length of the source, where there is one


@dataclass(frozen=True)
class Comparison:
    """All variants; `page` is the HTML file that shows them."""

    recipe: str
    rows: list[Row]
    page: Path
    shared: tuple[str, ...]  # of data, budget and seed, what is the same for all

    def as_dict(self) -> dict[str, Any]:
        rows = [vars(row) for row in self.rows]
        return {"recipe": self.recipe, "page": str(self.page), "shared": list(self.shared), "variants": rows}

    def about(self) -> str:
        """`the same data and seed for all`."""
        *most, last = self.shared or ("",)
        return f"the same {' and '.join([', '.join(most), last] if most else [last])} for all" if last else ""

    def columns(self) -> list[str]:
        """Scores that tell variants apart: not the number of test sentences, and no baseline that all share."""
        names = dict.fromkeys(name for row in self.rows for name in row.scores)
        told = {name: {_number(row.scores[name]) for row in self.rows if name in row.scores} for name in names}
        return [name for name in names if name != "loss" and (len(told[name]) > 1 or len(self.rows) == 1)]

    def table(self) -> Table:
        """For a terminal, which has no room for more than a few columns; the page has them all."""
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

    def cells(self, row: Row, names: Sequence[str]) -> list[str]:
        scores = [_number(row.scores[name]) if name in row.scores else "–" for name in names]
        costs = [f"{row.parameters:,}", f"{row.steps:,}", f"{row.seconds:.0f}", f"{row.peak_memory / 2**20:.0f}"]
        return [*scores, *costs]


def _number(score: float) -> str:
    return f"{score:.2f}"


def grid(vary: tuple[str, ...]) -> list[Variant]:
    """`("model.context=initial,attention", "model.width=64,128")` → the four combinations."""
    axes: list[list[tuple[str, str]]] = []
    for text in vary:
        path, _ = config.parse_override(text)
        values = [value.strip() for value in text.partition("=")[2].split(",")]
        if not all(values):
            raise CallError(f"--vary {text!r}: an empty value between the commas")
        if len(set(values)) != len(values):
            raise CallError(f"--vary {text!r}: a value is given twice")
        axes.append([(".".join(path), value) for value in values])
    return [
        Variant(name=" ".join(f"{key.split('.')[-1]}={value}" for key, value in chosen), set=dict(chosen))
        for chosen in itertools.product(*axes)
    ]


def compare(recipe: str, overrides: tuple[str, ...], vary: tuple[str, ...], output: Path) -> Comparison:
    """Read every variant first, so that a mistake in the last one is found before the first is trained."""
    with run_begun(output / "recipe"):  # a comparison that is refused leaves nothing
        recipe, read = _variants(recipe, overrides, vary, output)
        for _, settings in read:
            require_test_data(settings)
    seen: list[Any] = []  # data that was looked over
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
    """Return the recipe, which is made first for data, and what it is in each variant."""
    try:
        if is_data(recipe):
            if not vary:
                raise CallError(f"say what to compare on {recipe}: --vary model.width=64,128")
            recipe = str(begin(recipe, output / "recipe", overrides=overrides, tell=_report))
        return recipe, _read(recipe, overrides, vary)
    except CallError as error:
        if not (lists := [text for text in overrides if "," in text]):
            raise
        raise CallError(f"{error}\nto compare values: {' '.join(f'--vary {text}' for text in lists)}") from None


def _report(message: str) -> None:
    print(f"regard: {message}", file=sys.stderr)


def require_test_data(settings: Recipe) -> None:
    """Before anything is trained: is there something to score it on?"""
    job = jobs.make(settings)
    if not job.output.has_test_data:
        raise job.input.no_test_data()


def shared_by(recipes: Sequence[Recipe]) -> tuple[str, ...]:
    """What a comparison may say is the same for all: data, budget, seed."""
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
        raise CallError(
            f"{recipe} has no variants of its own; say what to vary: --vary model.context=initial,attention"
        )
    return [(v, config.build(config.override(base, v.set), f"{recipe} with {v.name}")) for v in variants]


def _train(variant: Variant, settings: Recipe, output: Path, *, check: bool) -> Row:
    """Train in a process of its own: memory is then this variant's, and nothing of one run reaches the next."""
    folder = output / re.sub(r"[^\w.=+-]+", "_", variant.name)
    folder.mkdir(parents=True, exist_ok=True)
    recipe = folder / "recipe.yaml"
    recipe.write_text(yaml.safe_dump(config.as_tree(settings), allow_unicode=True, sort_keys=False), encoding="utf-8")
    words = ["train", str(recipe), "-o", str(folder), "--json", *([] if check else ["--no-check"])]
    process = subprocess.Popen([sys.executable, "-m", "regard", *words], stdout=subprocess.DEVNULL)
    try:
        _, status, usage = os.wait4(process.pid, 0)
    except KeyboardInterrupt:  # the child has it too, and saves
        process.wait()
        raise
    if code := os.waitstatus_to_exitcode(status):
        raise RegardError(f"the variant {variant.name!r} ended with exit code {code}")
    run = api.load(folder)
    summary, scores = run.summary(), run.evaluate()
    return Row(
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


def _by_length(rows: list[Row]) -> list[Line]:
    """The plot that made attention's case: Bahdanau et al. 2014, figure 2 (arXiv:1409.0473)."""
    return [
        Line(
            row.name,
            [int(re.match(r"\d+", part["words"])[0]) for part in row.by_length],  # pyright: ignore[reportOptionalSubscript]
            [part["bleu"] for part in row.by_length],
            f"s{n % COLORS}",
            dots=True,
        )
        for n, row in enumerate(rows)
    ]
