"""The report, its charts, and what the user sees while a model trains."""

import io
import json
import re
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser
from pathlib import Path

import pytest
import yaml
from rich.console import Console

from regard.report.charts import ChartLine, line_chart, number, safe_markup, thin, tick_labels, ticks
from regard.report.run import table, text, write_report
from regard.training.loop import fit
from regard.training.progress import Display, ProgressLines, duration
from training_example import Words, new_model, settings, validate

HOSTILE = "</td><script>alert('x')</script>&"


class Page(HTMLParser):
    """All tags that were opened, and whether they were closed in order."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.open: list[str] = []
        self.texts: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.feed(source)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in {"meta", "br"}:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


@pytest.fixture
def report(tmp_path: Path) -> str:
    fit(new_model(), Words(), settings(), tmp_path, evaluate=validate, sample=lambda model: HOSTILE)
    picture = {"title": "By length", "html": table(["words", "BLEU"], [("1–5", 44.25), (HOSTILE, 1)])}
    picture["note"] = "Longer is harder."
    (tmp_path / "pictures.json").write_text(json.dumps({"pictures": [picture]}))
    config = {"job": HOSTILE, "training": {"betas": [0.9, 0.98]}, "model": {"inner": {"width": 17}}}
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(config))
    file = write_report(tmp_path, title=HOSTILE, scores={"bleu": 97.125})
    return file.read_text(encoding="utf-8")


def test_report_is_whole_and_says_everything(report: str) -> None:
    page = Page(report)
    assert not page.open
    said = " ".join(page.texts)
    for expected in ("97.12", "validation loss", "24", "By length", "Longer is harder.", "44.2", "inner.width", "17"):
        assert expected in said
    assert page.tags.count("svg") == 4  # loss, learning rate, gradient, tokens per second


def test_report_needs_no_network_and_runs_nothing(report: str) -> None:
    page = Page(report)
    assert "script" not in page.tags
    assert not {"src", "href", "onload", "onclick"} & {name for name, _ in page.attributes}
    assert "url(" not in report
    assert report.count(text(HOSTILE)) > 1  # shown as text instead


def test_pictures_of_a_strangers_run_can_only_be_seen() -> None:
    kept = '<svg viewbox="0 0 9 9"><rect width="3" fill="#123"><title>a &lt; b</title></rect></svg>'
    assert safe_markup(kept) == kept
    assert safe_markup("<p>a<img src=x onerror=alert(1)><b onclick=go() style=top:0>c") == "<p>a<b>c</b></p>"
    assert safe_markup("<script>alert(1)</script><style>*{}</style><a href=//x>go</a>") == "go"
    assert safe_markup("<img alt=x src='data:image/png;base64,AA'>") == '<img alt="x" src="data:image/png;base64,AA">'
    assert safe_markup("<rect fill='url(//x)'></svg></p>") == "<rect></rect>"
    assert safe_markup("<iframe srcdoc='&lt;b'></iframe><form action=//x><input></form>&lt;i&gt;") == "&lt;i&gt;"


def test_report_of_a_run_without_validation(tmp_path: Path) -> None:
    fit(new_model(), Words(), settings(max_steps=3), tmp_path)
    page = Page(write_report(tmp_path, title="x").read_text())
    assert not page.open
    assert "Samples through training" not in page.texts


# ------------------------------------------------------------------------------------------------------------ charts
def test_chart_puts_points_where_they_belong() -> None:
    svg = line_chart("t & t", [ChartLine("loss", [0, 5, 10], [1.0, float("nan"), 3.0], dots=True, mark=10)])
    tree = ElementTree.fromstring(svg)
    (dot,), (mark,) = (
        [element for element in tree.iter("circle") if element.attrib["class"] == kind]
        for kind in ("dot train", "mark train")
    )
    assert float(dot.attrib["cx"]) < float(mark.attrib["cx"])
    assert float(dot.attrib["cy"]) > float(mark.attrib["cy"])  # larger values are higher up
    assert mark[0].text == "loss at 10: 3"
    path = next(element for element in tree.iter("path"))
    assert len(re.findall(r"[ML]", path.attrib["d"])) == 2  # NaN is left out


def test_chart_of_one_point_and_of_none() -> None:
    assert "circle" in line_chart("one", [ChartLine("a", [3], [2.0])])
    assert line_chart("none", [ChartLine("a", [], [])]) == ""
    ElementTree.fromstring(line_chart("flat", [ChartLine("a", [1, 2], [0.0, 0.0])]))


def test_ticks_are_round_and_inside() -> None:
    assert ticks(0, 10) == [0, 2, 4, 6, 8, 10]
    assert ticks(0.13, 0.58, 5) == pytest.approx([0.2, 0.3, 0.4, 0.5])
    assert ticks(5, 5) == [5]


def test_thinning_keeps_the_mean() -> None:
    xs, ys = thin(list(range(900)), [float(x) for x in range(900)], 300)
    assert (len(xs), xs[0], ys[-1]) == (300, 1.0, 898.0)
    assert thin([1, 2], [3.0, 4.0], 300) == ([1, 2], [3.0, 4.0])


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (0, "0"),
        (3.14159, "3.14"),
        (1250, "1,250"),
        (48_000, "48k"),
        (1_200_000, "1.2M"),
        (5e-4, "5.0e-4"),
        (0.05, "0.05"),
    ],
)
def test_numbers_are_short(value: float, said: str) -> None:
    assert number(value) == said


# ---------------------------------------------------------------------------------------------------------- progress
TRAIN = {"step": 1500, "epoch": 1.25, "loss": 2.5, "learning_rate": 1e-3, "unit": "labels", "items_per_second": 4321.0}
VALIDATION = {"step": 1500, "scores": {"loss": 2.25, "bleu": 31.4}, "best": True, "sample": "[red]ein Haus"}


@pytest.mark.parametrize("kind", [ProgressLines, Display])
def test_progress_shows_loss_speed_time_scores_and_sample(kind: type[ProgressLines]) -> None:
    console = Console(file=io.StringIO(), width=100, force_terminal=kind is Display, color_system=None)
    shown = kind(console)
    shown.start()
    shown.train(TRAIN, 0.5, 245.0)
    shown.validation(VALIDATION)
    shown.say("a message")
    shown.stop()
    assert isinstance(console.file, io.StringIO)
    printed = console.file.getvalue()
    for expected in (
        "1,500",
        "loss 2.5000",
        "4,321 labels/s",
        "4 min 05 s left",
        "bleu 31.4",
        "best so far",
        "a message",
    ):
        assert expected in printed
    assert "[red]ein Haus" in printed  # not read as markup


def test_progress_without_an_end_or_a_loss() -> None:
    console = Console(file=io.StringIO(), width=100, force_terminal=True)
    shown = Display(console)
    shown.start()
    shown.train({**TRAIN, "loss": None}, None, None)
    shown.stop()
    assert isinstance(console.file, io.StringIO)
    assert "loss unknown" in console.file.getvalue()


@pytest.mark.parametrize(("seconds", "said"), [(3.4, "3 s"), (59.9, "1 min 00 s"), (7380.0, "2 h 03 min")])
def test_durations(seconds: float, said: str) -> None:
    assert duration(seconds) == said


def test_neighbors_on_an_axis_have_labels_of_their_own():
    assert tick_labels([6.73, 6.735, 6.74]) == ["6.730", "6.735", "6.740"]
    assert tick_labels([100.0, 100.5, 101.0]) == ["100.0", "100.5", "101.0"]
    assert tick_labels([0, 500, 1000]) == ["0", "500", "1,000"]
