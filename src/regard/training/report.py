"""`report.html`: one file that shows how a run went, in any browser, without a network or a script.

    write_report(folder, title="English to Spanish", config=recipe, scores={"bleu": 97.1}, sections=[...])

Curves come from `metrics.jsonl`. A job adds its own sections: alignments, BLEU by length, examples.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from regard.files import atomic
from regard.training.charts import Line, Number, line_chart, number
from regard.training.metrics import Record, read_metrics
from regard.training.progress import duration

MOST_SAMPLES = 6


@dataclass(frozen=True)
class Section:
    """A part of the report. `html` is put in as it is: make it with `table`, `text` or an SVG renderer."""

    title: str
    html: str
    note: str = ""


def text(words: str) -> str:
    """Plain text → HTML that keeps its line breaks and cannot do anything."""
    return f'<div class="text">{escape(words)}</div>'


def table(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Numbers to the right, everything escaped."""

    def cell(value: Any) -> str:
        if isinstance(value, int | float) and not isinstance(value, bool):
            return f'<td class="number">{number(value)}</td>'
        return f"<td>{escape(str(value))}</td>"

    head = "".join(f"<th>{escape(name)}</th>" for name in header)
    body = "".join("<tr>" + "".join(map(cell, row)) + "</tr>" for row in rows)
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def write_report(
    folder: str | Path,
    *,
    title: str,
    config: Mapping[str, Any],
    about: str = "",
    scores: Mapping[str, Number] | None = None,
    sections: Sequence[Section] = (),
) -> Path:
    """Write `folder/report.html`. `scores` are final results, such as those on test data."""
    folder = Path(folder)
    records = read_metrics(folder / "metrics.jsonl")
    parts = [
        Section("Results", tiles(_figures(records, scores or {}))),
        Section("Curves", f'<div class="charts">{"".join(_charts(records))}</div>', "The best validation is ringed."),
        *sections,
        Section("Samples through training", _samples(records)),
        Section("Recipe", _recipe(config)),
    ]
    return atomic.write_text(folder / "report.html", page(title, about, [section for section in parts if section.html]))


# ----------------------------------------------------------------------------------------------------------- contents
def _figures(records: Sequence[Record], scores: Mapping[str, Number]) -> list[tuple[str, str]]:
    figures = [(name, f"{value:.4g}") for name, value in scores.items()]
    train = [record for record in records if record["kind"] == "train"]
    best = [record for record in records if record["kind"] == "validation" and record["best"]]
    if best:
        figures += [
            (f"validation {name}", f"{value:.4g}") for name, value in best[-1]["scores"].items() if value is not None
        ]
        figures.append(("best at step", f"{best[-1]['step']:,}"))
    if train:
        last = train[-1]
        figures += [
            ("steps", f"{last['step']:,}"),
            ("epochs", f"{last['epoch']:.3g}"),
            (f"{last['unit']} seen", number(last["items"])),
            ("time", duration(records[-1]["seconds"])),
        ]
        if last["skipped"]:
            figures.append(("steps skipped", f"{last['skipped']:,}"))
    return figures


def tiles(figures: Iterable[tuple[str, str]]) -> str:
    cells = [f"<div><b>{escape(value)}</b><span>{escape(name)}</span></div>" for name, value in figures]
    return f'<div class="tiles">{"".join(cells)}</div>' if cells else ""


def _charts(records: Sequence[Record]) -> list[str]:
    train = [record for record in records if record["kind"] == "train"]
    validations = [record for record in records if record["kind"] == "validation"]
    best = next((record["step"] for record in reversed(validations) if record["best"]), None)

    def trained(name: str) -> Line:
        return Line(f"training {name}", [r["step"] for r in train], [r[name] for r in train])

    def validated(name: str) -> Line:
        seen = [r for r in validations if r["scores"].get(name) is not None]
        steps, values = [r["step"] for r in seen], [r["scores"][name] for r in seen]
        return Line(f"validation {name}", steps, values, "validation", dots=True, mark=best)

    unit = train[-1]["unit"] if train else "tokens"
    names = list(dict.fromkeys(name for record in validations for name in record["scores"]))
    return [
        line_chart("Loss", [trained("loss"), *([validated("loss")] if "loss" in names else [])]),
        *(line_chart(f"Validation {name}", [validated(name)]) for name in names if name != "loss"),
        line_chart("Learning rate", [trained("learning_rate")], zero=True),
        line_chart("Length of the gradient", [trained("gradient")], zero=True),
        line_chart(f"{unit.capitalize()} per second", [trained("items_per_second")], zero=True),
    ]


def _samples(records: Sequence[Record]) -> str:
    samples = [(record["step"], record["sample"]) for record in records if record.get("sample")]
    if len(samples) > MOST_SAMPLES:  # the first, the last, and some between
        stride = (len(samples) - 1) / (MOST_SAMPLES - 1)
        samples = [samples[round(index * stride)] for index in range(MOST_SAMPLES)]
    rows = "".join(f'<tr><td class="number">{step:,}</td><td>{text(sample)}</td></tr>' for step, sample in samples)
    return f"<table><thead><tr><th>step</th><th>sample</th></tr></thead><tbody>{rows}</tbody></table>" if rows else ""


def _recipe(config: Mapping[str, Any]) -> str:
    sections: dict[str, dict[str, Any]] = {"general": {}}
    for name, value in config.items():
        if isinstance(value, Mapping):
            sections[name] = dict(_flat(value))
        else:
            sections["general"][name] = value
    shown = {name: fields for name, fields in sections.items() if fields}
    return "".join(f"<details><summary>{escape(name)}</summary>{_pairs(shown[name])}</details>" for name in shown)


def _flat(tree: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, Any]]:
    for name, value in tree.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def _pairs(fields: Mapping[str, Any]) -> str:
    rows = "".join(f"<tr><td>{escape(str(k))}</td><td>{escape(str(v))}</td></tr>" for k, v in fields.items())
    return f"<table>{rows}</table>"


# --------------------------------------------------------------------------------------------------------------- page
def page(title: str, about: str, sections: Sequence[Section]) -> str:
    """A whole HTML document of sections, in the report's style."""
    body = "".join(
        f"<section><h2>{escape(section.title)}</h2>"
        + (f'<p class="note">{escape(section.note)}</p>' if section.note else "")
        + f"{section.html}</section>"
        for section in sections
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head><body><main>"
        f"<header><h1>{escape(title)}</h1><p>{escape(about)}</p></header>{body}"
        "<footer>made by regard</footer></main></body></html>\n"
    )


STYLE = """
:root { --paper: #fbfaf7; --card: #ffffff; --ink: #22252b; --soft: #6b7280; --rule: #e6e3dc;
  --train: #8fa3bf; --validation: #c2410c; --accent: #1d4e89; }
@media (prefers-color-scheme: dark) { :root { --paper: #14161a; --card: #1c1f25; --ink: #e7e5e0; --soft: #9aa1ac;
  --rule: #2d3139; --train: #6f88ab; --validation: #fb923c; --accent: #8ab8f0; } }
* { box-sizing: border-box }
body { margin: 0; background: var(--paper); color: var(--ink); font: 16px/1.55 system-ui, sans-serif }
main { max-width: 1180px; margin: 0 auto; padding: 2.5rem 1.25rem 4rem }
h1 { font-size: 2rem; line-height: 1.2; margin: 0 0 .3rem; letter-spacing: -.015em }
h2 { font-size: 1.15rem; margin: 2.6rem 0 .8rem; color: var(--accent) }
header p, .note, footer { color: var(--soft); margin: 0 0 .8rem }
footer { margin-top: 3.5rem; font-size: .85rem }
.tiles { display: grid; gap: .8rem; grid-template-columns: repeat(auto-fill, minmax(9.5rem, 1fr)) }
.tiles div, .chart, details { background: var(--card); border: 1px solid var(--rule); border-radius: 10px }
.tiles div { padding: .8rem 1rem }
.tiles b { display: block; font-size: 1.45rem; font-weight: 650; font-variant-numeric: tabular-nums; line-height: 1.25 }
.tiles span { color: var(--soft); font-size: .85rem }
.charts { display: grid; gap: .8rem; grid-template-columns: repeat(auto-fill, minmax(min(100%, 30rem), 1fr)) }
.chart { width: 100%; height: auto; padding: .5rem .3rem 0; font-family: inherit }
.chart text { fill: var(--soft); font-size: 12px }
.chart .title { fill: var(--ink); font-size: 14px; font-weight: 600 }
.chart .end { text-anchor: end } .chart .middle { text-anchor: middle }
.grid { stroke: var(--rule) }
.line { fill: none; stroke-width: 2; stroke-linejoin: round; stroke-linecap: round; stroke: var(--train) }
.line.validation { stroke: var(--validation) }
.dot { fill: var(--train) } .dot.validation { fill: var(--validation) }
.mark { fill: var(--card); stroke: var(--train); stroke-width: 2.5 } .mark.validation { stroke: var(--validation) }
.line.s0 { stroke: #1d4e89 } .dot.s0 { fill: #1d4e89 } .swatch.s0 { background: #1d4e89 }
.line.s1 { stroke: #c2410c } .dot.s1 { fill: #c2410c } .swatch.s1 { background: #c2410c }
.line.s2 { stroke: #2f855a } .dot.s2 { fill: #2f855a } .swatch.s2 { background: #2f855a }
.line.s3 { stroke: #9f3f8f } .dot.s3 { fill: #9f3f8f } .swatch.s3 { background: #9f3f8f }
.line.s4 { stroke: #b7791f } .dot.s4 { fill: #b7791f } .swatch.s4 { background: #b7791f }
.line.s5 { stroke: #0e7490 } .dot.s5 { fill: #0e7490 } .swatch.s5 { background: #0e7490 }
.line.s6 { stroke: #7c3aed } .dot.s6 { fill: #7c3aed } .swatch.s6 { background: #7c3aed }
.line.s7 { stroke: #be123c } .dot.s7 { fill: #be123c } .swatch.s7 { background: #be123c }
.line.s8 { stroke: #4d7c0f } .dot.s8 { fill: #4d7c0f } .swatch.s8 { background: #4d7c0f }
.line.s9 { stroke: #64748b } .dot.s9 { fill: #64748b } .swatch.s9 { background: #64748b }
.key { display: flex; flex-wrap: wrap; gap: .3rem 1.2rem; list-style: none; padding: 0; font-size: .9rem }
.swatch { display: inline-block; width: 1rem; height: .25rem; margin-right: .45rem; vertical-align: middle }
.wide { overflow-x: auto }
table { border-collapse: collapse; width: 100%; font-size: .92rem }
th { text-align: left; color: var(--soft); font-weight: 500 }
th, td { padding: .4rem .8rem .4rem 0; border-bottom: 1px solid var(--rule); vertical-align: top }
.number { font-variant-numeric: tabular-nums; white-space: nowrap }
.text { white-space: pre-wrap; overflow-wrap: anywhere }
details { padding: .55rem .9rem; margin-bottom: .5rem }
summary { cursor: pointer; font-weight: 600 }
details td:first-child { width: 16rem; color: var(--soft) }
@media print { body { background: none } .chart, .tiles div { break-inside: avoid } }
"""
