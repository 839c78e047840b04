"""What the served page adds to an exported one, in a real browser that may ask this service and nobody else."""

import json
import os
import shutil
from dataclasses import replace

import numpy as np
import pytest

from axe_checks import violations
from regard.look.history import keep, load_history
from regard.serve.errors import Limits
from test_serve import run, serving  # noqa: F401  (run is a fixture)

playwright = pytest.importorskip("playwright.sync_api", reason="browser tests need Playwright: pip install playwright")
pytestmark = pytest.mark.slow
TEXT = "one red cat"


@pytest.fixture(scope="module")
def client(run):  # noqa: F811
    with serving({"pairs": run}, Limits()) as client:
        yield client


def no_violations(page):
    assert not violations(page)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_click_on_a_weight_says_how_it_came_about(open_page, client, run, scheme):  # noqa: F811
    page = open_page(f"{client.base_url}/?text=one+red+cat#kind=cross&layer=1&head=0", scheme=scheme)
    canvas = page.locator("canvas.over").first
    canvas.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog", name="computation of this weight")
    found = run.weight(TEXT, 1, 0, kind="cross", layer=1, head=0)
    dialog.locator("dl").wait_for()
    assert dialog.locator("h2").inner_text() == found.title
    assert dialog.locator("dt").all_inner_texts() == ["query q", "key k", *(name for name, _ in found.steps())]
    assert found.equation.replace("_", "") in dialog.locator("dl").text_content()
    lengths = dialog.locator("dd .caption").all_inner_texts()
    told = [np.linalg.norm(vector) for vector in (found.query, found.key)]
    assert [float(text.split()[-1]) for text in lengths] == pytest.approx(told, rel=1e-3)
    assert dialog.locator("[aria-current] th").inner_text() == found.column_label
    terms, parts = dialog.locator(".terms").all()
    assert terms.locator("tr").count() == 8
    told = {part.told: part.value for part in found.parts}
    largest = max(told, key=lambda name: abs(told[name]))
    assert f"{abs(told[largest]):.3g}" in parts.locator("tr", has_text=largest).first.inner_text()
    no_violations(page)
    page.keyboard.press("Escape")
    assert dialog.count() == 0
    box = canvas.bounding_box()
    page.mouse.click(box["x"] + box["width"] * 0.55, box["y"] + box["height"] * 0.8)
    dialog.locator("dl").wait_for()


def test_a_score_of_a_decoder_is_taken_apart(open_page, client, run):  # noqa: F811
    page = open_page(f"{client.base_url}/?text=one+red+cat#kind=decoder&layer=1&head=0")
    page.locator("canvas.over").first.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog", name="computation of this weight")
    own = run.weight(TEXT, 1, 0, kind="decoder", layer=1, head=0)
    playwright.expect(dialog.locator("h2")).to_have_text(own.title)
    numbers = dialog.locator(".terms").nth(1).locator("tr td:last-child").all_inner_texts()
    assert sum(float(number.replace("−", "-")) for number in numbers) == pytest.approx(own.score, abs=0.02)
    no_violations(page)


@pytest.fixture(scope="module")
def runs(tmp_path_factory, run):  # noqa: F811
    """A folder of two runs, one of which trains at the moment; of the other, two inputs were watched."""
    folder = tmp_path_factory.mktemp("runs")
    for name in ("ended", "<b>now"):
        shutil.copytree(run.folder, folder / name)
    history = load_history(run.folder)
    for step, record in zip(history.steps, history.records, strict=True):
        keep(replace(record, input="another input"), folder / "ended", 1, step)
    (folder / "<b>now" / "summary.json").unlink()
    (folder / "<b>now" / "lock").write_text(f"process {os.getpid()} on {os.uname().nodename}, since now\n")
    with serving({}, Limits(), [folder]) as client:
        client.folder = folder
        yield client


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_of_runs_follows_them_and_goes_back_and_forth(open_page, runs, scheme):
    page = open_page(f"{runs.base_url}/", scheme=scheme)
    page.wait_for_url("**/runs")
    playwright.expect(page.locator("#runs tbody th")).to_have_text(["<b>now", "ended"])
    page.get_by_role("checkbox", name="ended").check()
    page.locator("#report svg").first.wait_for()
    for heading in ("Results", "Curves", "Samples through training", "Data", "Machine", "Recipe"):
        assert page.get_by_role("heading", name=heading, exact=True).count() == 1
    assert page.locator("#report section > svg").count() >= 1  # where it looked, as the report has it
    page.locator("#looks canvas").first.wait_for()
    assert "given to the model" in page.locator("#looks").inner_text()
    other = page.locator("#looks [name=input]")
    assert other.locator("option").count() == 2  # the inputs that were watched
    other.select_option(label="2")
    playwright.expect(page.locator("#looks .headline")).to_contain_text("another input")
    playwright.expect(other).to_be_focused()
    page.get_by_role("checkbox", name="<b>now").check()  # what is chosen stays when more is shown
    playwright.expect(page.locator("#looks section")).to_have_count(2)
    playwright.expect(page.locator("#looks section", has_text="another input").locator("[name=input]")).to_have_value(
        "1"
    )
    page.get_by_role("checkbox", name="<b>now").uncheck()
    playwright.expect(page.locator("#report")).to_contain_text("Machine")
    no_violations(page)
    page.get_by_text("general").click()
    page.get_by_role("checkbox", name="<b>now").check()
    playwright.expect(page.locator("#report")).to_contain_text("What differs")
    assert page.locator(".beside h3").all_inner_texts() == ["<b>now", "ended"]
    assert page.locator(".beside > div").nth(1).locator("figure svg").count() >= 1
    assert page.locator(".state.training").count() == 1
    no_violations(page)
    page.go_back()
    playwright.expect(page.locator("#report")).to_contain_text("Machine")
    page.reload()
    playwright.expect(page.locator("#report")).to_contain_text("Machine")
    assert page.get_by_role("checkbox", name="ended").is_checked()


def test_the_page_of_a_run_that_trains_grows(open_page, runs):
    page = open_page(f"{runs.base_url}/runs?run=%3Cb%3Enow", size=(390, 800))
    tile = page.locator(".tiles div", has=page.get_by_text("steps", exact=True))
    playwright.expect(tile).to_contain_text("60")
    page.get_by_text("general").click()
    metrics = runs.folder / "<b>now" / "metrics.jsonl"
    last = [line for line in metrics.read_text().splitlines() if '"train"' in line][-1]
    with metrics.open("a") as more:
        more.write(last.replace('"step": 60', '"step": 61') + "\n")
    playwright.expect(tile).to_contain_text("61")
    html = (
        "<img src='data:image/png;base64,' alt='kept'><img src=x onerror=alert(1)><a href='https://elsewhere/'>go</a>"
    )
    html += "<style>* { display: none }</style><script>alert(2)</script>"
    picture = {"title": "New <b>one", "html": html, "note": ""}
    (runs.folder / "<b>now" / "pictures.json").write_text(json.dumps({"pictures": [picture]}))
    section = page.locator("#report section", has=page.get_by_role("heading", name="New <b>one"))
    section.wait_for()  # and what a stranger's file has in it does nothing
    assert section.locator("img").count() == 1
    assert section.locator("a, style, script").count() == 0
    assert page.locator("details[open]").count() == 1  # what was unfolded stays so
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_report_shows_attention_as_it_trained(open_page, run, scheme):  # noqa: F811
    page = open_page((run.folder / "report.html").as_uri(), scheme=scheme)
    page.locator("#regard canvas").first.wait_for()
    assert "given to the model" in page.locator("#regard .caption").first.inner_text()
    no_violations(page)
