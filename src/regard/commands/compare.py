"""`regard compare RECIPE --vary KEY=A,B`: variants of a recipe, trained alike, side by side.

Each variant has the same data, budget and seed and a folder of its own, so that a comparison that was stopped
goes on where it was. A recipe may carry its own list of variants (`ladder` does: the whole story of the lectures).
"""

import itertools
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import yaml
from rich.table import Table

from regard import api, config
from regard.errors import CallError, RegardError
from regard.files import atomic
from regard.settings.recipe import Recipe, Variant
from regard.training.charts import Line, line_chart
from regard.training.report import Section, page, table

COLORS = 10  # that the page's style sheet has for lines
COSTS = ("parameters", "seconds", "memory MB")
WITH_IT = ("exact_match", "aer")  # what a terminal shows beside the first score


@dataclass(frozen=True)
class Row:
    """One variant, trained."""

    name: str
    overrides: dict[str, Any]
    folder: str
    scores: dict[str, float]
    parameters: int
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

    def as_dict(self) -> dict[str, Any]:
        return {"recipe": self.recipe, "page": str(self.page), "variants": [vars(row) for row in self.rows]}

    def columns(self) -> list[str]:
        """Scores that tell variants apart: not the number of test sentences, and no baseline that all share."""
        names = dict.fromkeys(name for row in self.rows for name in row.scores)
        told = {name: {_number(row.scores[name]) for row in self.rows if name in row.scores} for name in names}
        return [name for name in names if name != "loss" and (len(told[name]) > 1 or len(self.rows) == 1)]

    def table(self) -> Table:
        """For a terminal, which has no room for more than a few columns; the page has them all."""
        names = self.columns()
        shown = [*names[:1], *(name for name in names[1:] if name in WITH_IT)]
        table = Table(title=f"{self.recipe}: {len(self.rows)} variants, one budget and seed")
        table.add_column("variant")
        for name in [*shown, *COSTS]:
            table.add_column(name, justify="right")
        for row in self.rows:
            table.add_row(row.name, *self.cells(row, shown))
        return table

    def cells(self, row: Row, names: Sequence[str]) -> list[str]:
        scores = [_number(row.scores[name]) if name in row.scores else "–" for name in names]
        return [*scores, f"{row.parameters:,}", f"{row.seconds:.0f}", f"{row.peak_memory / 2**20:.0f}"]


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
    base = config.override(config.load_recipe(config.find(recipe)), overrides)
    variants = grid(vary) if vary else config.build(base, recipe).variants
    if not variants:
        raise CallError(
            f"{recipe} has no variants of its own; say what to vary: --vary model.context=initial,attention"
        )
    read = [(v, config.build(config.override(base, v.set), f"{recipe} with {v.name}")) for v in variants]
    rows = [_train(variant, settings, output) for variant, settings in read]
    comparison = Comparison(recipe, rows, output / "compare.html")
    atomic.write_text(comparison.page, _page(comparison))
    return comparison


def _train(variant: Variant, settings: Recipe, output: Path) -> Row:
    """Train in a process of its own: memory is then this variant's, and nothing of one run reaches the next."""
    folder = output / re.sub(r"[^\w.=+-]+", "_", variant.name)
    folder.mkdir(parents=True, exist_ok=True)
    recipe = folder / "recipe.yaml"
    recipe.write_text(yaml.safe_dump(config.as_tree(settings), allow_unicode=True, sort_keys=False), encoding="utf-8")
    process = subprocess.Popen(
        [sys.executable, "-m", "regard", "train", str(recipe), "-o", str(folder)], stdout=subprocess.DEVNULL
    )
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
        variant.name, variant.set, str(folder), scores.values, summary["parameters"], summary["seconds"],
        usage.ru_maxrss * 1024, summary["history"], scores.details.get("bleu by source length", []),
    )  # fmt: skip


def _page(comparison: Comparison) -> str:
    names = comparison.columns()
    heads = ["variant", *names, *COSTS]
    rows = [[row.name, *comparison.cells(row, names)] for row in comparison.rows]
    named = list(enumerate(comparison.rows))
    key = "".join(f'<li><span class="swatch s{n % COLORS}"></span>{escape(row.name)}</li>' for n, row in named)
    charts = []
    if any(row.by_length for row in comparison.rows):
        lines = _by_length(comparison.rows)
        charts.append(line_chart("BLEU by words of the source", lines, x_label="words", legend=False))
    validated = dict.fromkeys(score for row in comparison.rows for one in row.history for score in one["scores"])
    charts += [line_chart(f"Validation {score}", _curves(comparison.rows, score), legend=False) for score in validated]
    samples = [[row.name, row.history[-1].get("sample", "")] for row in comparison.rows if row.history]
    sections = [
        Section("Scores on the test data", table(heads, rows), "The same data, budget and seed for all."),
        Section("Curves", f'<ul class="key">{key}</ul><div class="charts">{"".join(charts)}</div>'),
        Section("One sentence", table(["variant", "source, output, reference"], samples)),
    ]
    return page(f"{comparison.recipe}: {len(comparison.rows)} variants", "", sections)


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


def _curves(rows: list[Row], score: str) -> list[Line]:
    return [
        Line(
            row.name, [r["step"] for r in row.history], [r["scores"].get(score) for r in row.history], f"s{n % COLORS}"
        )
        for n, row in enumerate(rows)
    ]
