"""Report of a run: figures, curves, samples, data, machine, recipe; or of several runs, side by side.

`report.html` of a finished run and the live page during training have the same sections.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from regard.errors import RegardError
from regard.files import atomic
from regard.look.history import History, load_history, slim
from regard.look.html import history_document, report_page
from regard.report.charts import ChartLine, Number, line_chart, number
from regard.report.run_files import RunFiles
from regard.training.metrics import Record
from regard.training.progress import duration

# Self-contained page of sections: the report of a run, its scores, or a comparison.
#
# Style and modules are those of the attention page (`look/html.py`). Only attention during training needs a script.

ATTENTION = "Attention during training"
REFERENCE = (
    "Attention on a validation input at each validation. The output is forced to the reference, so "
    "the rows are the same at every step. The predictions are listed in the samples."
)


@dataclass(frozen=True)
class Section:
    """A section of the report. `html` is inserted unescaped: make it with `table`, `text` or an SVG renderer."""

    title: str
    html: str
    note: str = ""


def text(words: str) -> str:
    """Convert plain text to escaped HTML that keeps its line breaks."""
    return f'<div class="text">{escape(words)}</div>'


def words(name: str) -> str:
    """Return the readable name of a score: exact_match → exact match."""
    return name.replace("_", " ")


def table(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return an HTML table with right-aligned numbers; all text is escaped."""

    def cell(value: Any) -> str:
        if isinstance(value, int | float) and not isinstance(value, bool):
            return f'<td class="number">{number(value)}</td>'
        return f"<td>{escape(str(value))}</td>"

    head = "".join(f"<th>{escape(name)}</th>" for name in header)
    body = "".join("<tr>" + "".join(map(cell, row)) + "</tr>" for row in rows)
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def tiles(figures: Iterable[tuple[str, str]]) -> str:
    cells = [f"<div><b>{escape(value)}</b><span>{escape(name)}</span></div>" for name, value in figures]
    return f'<div class="tiles">{"".join(cells)}</div>' if cells else ""


def page(title: str, about: str, sections: Sequence[Section], history: dict[str, Any] | None = None) -> str:
    """Return an HTML document. `history`: attention during training, from `look.html.history_document`."""
    place = [] if history is None else [Section(ATTENTION, '<div id="regard"></div>', REFERENCE)]
    head = f"<header><h1>{escape(title)}</h1><p>{escape(about)}</p></header>"
    body = f"{head}{fragment([*sections, *place])}<footer>Made with regard</footer>"
    return report_page(body, title, history)


def fragment(sections: Sequence[Section]) -> str:
    """Return only the sections, for an existing page."""
    return "".join(
        f"<section><h2>{escape(section.title)}</h2>"
        + (f'<p class="note">{escape(section.note)}</p>' if section.note else "")
        + f"{section.html}</section>"
        for section in sections
        if section.html
    )


MOST_SAMPLES = 6
MOST_BESIDE = 4  # pictures of each of several runs
MOST_KEPT = 8  # validations with attention in the report
MOST_NUMBERS = 30_000  # in each of them
COLORS = 10  # line colors in the style sheet
REPORT = "report.html"
Points = Callable[[Sequence[Record]], tuple[list[Number], list[Number | None]]]  # steps and values of a run


def write_report(
    folder: str | Path,
    *,
    title: str,
    about: str = "",
    scores: Mapping[str, Number] | None = None,
) -> Path:
    """Write `folder/report.html`. `scores` are final results, such as those on test data."""
    run = RunFiles(Path(folder))
    whole = page(title, about, run_sections(run, scores or {}), attention_kept(run))
    return atomic.write_text(run.folder / REPORT, whole)


def attention_kept(run: RunFiles, number: int = 0) -> dict[str, Any] | None:
    """Return attention on a validation input at a few validations, for the slider; None if none was stored."""
    try:
        found = load_history(run.folder, number)
    except RegardError:
        return None
    some = found.sample_examples(MOST_KEPT)
    return history_document(
        History(
            tuple(found.steps[place] for place in some),
            tuple(slim(found.records[place], MOST_NUMBERS) for place in some),
        )
    )


def run_sections(run: RunFiles, scores: Mapping[str, Number]) -> list[Section]:
    """Return the sections of one run: figures first, then curves."""
    records = run.records()
    return [
        Section("Results", tiles(_figures(run, records, scores)), _results_note(run)),
        Section("Curves", f'<div class="charts">{"".join(_charts(records))}</div>', "The best validation is ringed."),
        *(Section(*picture) for picture in run.pictures),
        Section("Samples through training", _samples(records)),
        *data_sections(run.check),
        Section("Machine", _pairs(run.machine) if run.machine else ""),
        Section("Recipe", _recipe(run.config)),
    ]


def side_by_side(runs: Sequence[RunFiles]) -> list[Section]:
    """Return the sections of several runs, one color each."""
    found = {run.name: run.records() for run in runs}
    last = [
        [name, samples[-1]]
        for name, records in found.items()
        if (samples := [one["sample"] for one in records if one.get("sample")])
    ]
    return [
        Section("Curves", curves(found)),
        Section("Pictures", _pictures_beside(runs)),
        Section("What differs", _differences(runs)),
        Section("The last sample of each", table(["run", "sample"], last) if last else ""),
    ]


def _pictures_beside(runs: Sequence[RunFiles]) -> str:
    """Return pictures with one column per run."""
    columns = {run.name: run.pictures[:MOST_BESIDE] for run in runs}
    if not any(columns.values()):
        return ""
    cells = "".join(
        f"<div><h3>{escape(name)}</h3>"
        + "".join(f"<figure><figcaption>{escape(one.title)}</figcaption>{one.html}</figure>" for one in pictures)
        + "</div>"
        for name, pictures in columns.items()
    )
    return f'<div class="beside">{cells}</div>'


def curves(found: Mapping[str, Sequence[Record]], first: Sequence[str] = ()) -> str:
    """Draw loss and scores of several runs, one color each, after the charts `first`."""
    key = "".join(
        f'<li><span class="swatch s{place % COLORS}"></span>{escape(name)}</li>' for place, name in enumerate(found)
    )
    every = [one for records in found.values() for one in _validations(records)]
    validated = dict.fromkeys(score for one in every for score in one["scores"])

    def lines(points: Points) -> list[ChartLine]:
        named = enumerate((name, points(records)) for name, records in found.items())
        return [ChartLine(name, xs, ys, f"s{place % COLORS}") for place, (name, (xs, ys)) in named]

    def training(records: Sequence[Record]) -> tuple[list[Number], list[Number | None]]:
        seen = [one for one in records if one["kind"] == "train"]
        return [one["step"] for one in seen], [one["loss"] for one in seen]

    def validation(score: str) -> Points:
        return lambda records: (
            [one["step"] for one in _validations(records)],
            [one["scores"].get(score) for one in _validations(records)],
        )

    charts = [*first, line_chart("Training loss", lines(training), legend=False)]
    charts += [line_chart(f"Validation {words(score)}", lines(validation(score)), legend=False) for score in validated]
    return f'<ul class="key">{key}</ul><div class="charts">{"".join(charts)}</div>'


def data_sections(check: Mapping[str, Any]) -> list[Section]:
    """Return the results of the data check before training."""
    if not check:
        return []
    findings = [[one["severity"], one["split"], one["what"], one["advice"]] for one in check["findings"]]
    html = (
        table(["severity", "split", "what", "advice"], findings) if findings else text("Nothing suspicious was found.")
    )
    splits = [
        [role, split["pairs"], split["skipped"], name, split[side]["tokens"], f"{split[side]['unknown_rate']:.2%}"]
        for role, split in check["splits"].items()
        for side, name in zip(("source", "target"), split["sides"], strict=True)
    ]
    sizes = table(["split", "examples", "skipped", "side", "tokens", "unknown"], splits) if splits else ""
    return [Section("Data", sizes + html)]


# ----------------------------------------------------------------------------------------------------------- contents
def _validations(records: Iterable[Record]) -> list[Record]:
    return [record for record in records if record["kind"] == "validation"]


def _figures(run: RunFiles, records: Sequence[Record], scores: Mapping[str, Number]) -> list[tuple[str, str]]:
    figures = [*_test_scores(run), *((words(name), f"{value:.4g}") for name, value in scores.items())]
    best = [record for record in _validations(records) if record["best"]]
    if best:
        reached = {name: value for name, value in best[-1]["scores"].items() if value is not None}
        figures += [(f"validation {words(name)}", f"{value:.4g}") for name, value in reached.items()]
        figures.append(("best at step", f"{best[-1]['step']:,}"))
    train = [record for record in records if record["kind"] == "train"]
    if train:
        last = train[-1]
        figures += [
            ("steps", f"{last['step']:,}"),
            ("epochs", f"{last['epoch']:.3g}"),
            (f"{last['unit']} seen", number(last["items"])),
            (f"{last['unit']} a second", number(last["items_per_second"])),
            ("time", duration(records[-1]["seconds"])),
            ("of which waiting for data", f"{last['waiting']:.0%}"),
        ]
        if last["skipped"]:
            figures.append(("steps skipped", f"{last['skipped']:,}"))
    if run.state == "training" and (done := run.share_done()):
        figures.append(("left", f"{duration(records[-1]['seconds'] * (1 - done) / done)} ({done:.0%} done)"))
    return figures


def _results_note(run: RunFiles) -> str:
    test = run.summary.get("test") if run.state == "ended" else None
    said = f" {str(test['words'])[:1].upper()}{str(test['words'])[1:]}." if test and "words" in test else ""
    return f"The weights were selected on validation data, so these scores are slightly optimistic.{said}"


def _test_scores(run: RunFiles) -> list[tuple[str, str]]:
    """Return the score on test data with its interval, and the scores of simple baselines."""
    test = run.summary.get("test") if run.state == "ended" else None
    if not isinstance(test, Mapping) or "metric" not in test:
        return []
    unit, name = "%" if test["percent"] else "", words(test["metric"])
    figures = [(f"test {name}, n = {test['count']:,}", f"{test['value']:.4g}{unit}")]
    figures.append(("its 95% interval", f"{test['low']:.4g} to {test['high']:.4g}{unit}"))
    return [*figures, *((f"baseline: {one}", f"{value:.4g}{unit}") for one, value in test["baselines"].items())]


def _charts(records: Sequence[Record]) -> list[str]:
    train = [record for record in records if record["kind"] == "train"]
    validations = _validations(records)
    best = next((record["step"] for record in reversed(validations) if record["best"]), None)

    def trained(name: str) -> ChartLine:
        return ChartLine(f"training {name}", [r["step"] for r in train], [r[name] for r in train])

    def validated(name: str) -> ChartLine:
        seen = [r for r in validations if r["scores"].get(name) is not None]
        steps, values = [r["step"] for r in seen], [r["scores"][name] for r in seen]
        return ChartLine(f"validation {words(name)}", steps, values, "validation", dots=True, mark=best)

    unit = train[-1]["unit"] if train else "tokens"
    names = list(dict.fromkeys(name for record in validations for name in record["scores"]))
    return [
        line_chart("Loss", [trained("loss"), *([validated("loss")] if "loss" in names else [])]),
        *(line_chart(f"Validation {words(name)}", [validated(name)]) for name in names if name != "loss"),
        line_chart("Learning rate", [trained("learning_rate")], zero=True),
        line_chart("Gradient norm", [trained("gradient")], zero=True),
        line_chart(f"{unit.capitalize()} per second", [trained("items_per_second")], zero=True),
    ]


def _samples(records: Sequence[Record]) -> str:
    samples = [(record["step"], record["sample"]) for record in records if record.get("sample")]
    if len(samples) > MOST_SAMPLES:  # the first, the last, and some between
        stride = (len(samples) - 1) / (MOST_SAMPLES - 1)
        samples = [samples[round(index * stride)] for index in range(MOST_SAMPLES)]
    rows = "".join(f'<tr><td class="number">{step:,}</td><td>{text(sample)}</td></tr>' for step, sample in samples)
    head = "<table><thead><tr><th>step</th><th>sample</th></tr></thead>"
    return f'<div class="wide">{head}<tbody>{rows}</tbody></table></div>' if rows else ""


def _differences(runs: Sequence[RunFiles]) -> str:
    """Return the recipe fields that differ between runs."""
    fields = [dict(_flat(run.config)) for run in runs]
    names = dict.fromkeys(name for one in fields for name in one)
    apart = [name for name in names if len({str(one.get(name, "–")) for one in fields}) > 1]
    rows = [[name, *(str(one.get(name, "–")) for one in fields)] for name in apart]
    return table(["setting", *(run.name for run in runs)], rows) if rows else text("None: the recipes are identical.")


def _recipe(config: Mapping[str, Any]) -> str:
    sections: dict[str, dict[str, Any]] = {"general": {}}
    for name, value in config.items():
        if isinstance(value, Mapping):
            sections[name] = dict(_flat(value))
        else:
            sections["general"][name] = value
    shown = {name: fields for name, fields in sections.items() if fields}
    return "".join(f"<details><summary>{escape(name)}</summary>{_table(shown[name])}</details>" for name in shown)


def _flat(tree: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, Any]]:
    for name, value in tree.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def _pairs(fields: Mapping[str, Any]) -> str:
    return f'<div class="wide pairs">{_table(fields)}</div>'


def _table(fields: Mapping[str, Any]) -> str:
    rows = "".join(f"<tr><td>{escape(str(k))}</td><td>{escape(str(v))}</td></tr>" for k, v in fields.items())
    return f"<table>{rows}</table>"
