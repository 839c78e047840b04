"""The HTML file in a real browser, from which every request to another host is refused.

Needs Chromium and Playwright: `pip install playwright`, and /usr/bin/chromium or CHROMIUM=path.
"""

import os
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from regard import look

playwright = pytest.importorskip("playwright.sync_api", reason="browser tests need Playwright: pip install playwright")
CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium: apt-get install chromium, or CHROMIUM=path"),
]

HOSTILE = "</script><img src=x onerror=alert(1)>"
ROWS = ["la", "casa", HOSTILE, "</s>"]
COLUMNS = ["the", "שלום", "日本語", "مرحبا", "😀", "<b>&amp;", "</s>"]


def golden():
    """Two layers of three heads, two words of which have two pieces; a second hypothesis."""
    tables = np.random.default_rng(5).random((2, 3, len(ROWS), len(COLUMNS))).astype(np.float32)
    tables /= tables.sum(-1, keepdims=True)
    rows = look.axis(ROWS, words=[0, 0, 1, None])
    columns = look.axis(COLUMNS, words=[0, 1, 1, 2, 3, 4, None])
    record = look.record(list(tables), rows, columns, input=HOSTILE, output="مرحبا 日本語", scores=[-0.5] * 4)
    other = replace(record, output="otra", score=-2.0, attentions=tuple(
        replace(one, weights=one.weights[..., ::-1].copy()) for one in record.attentions))  # fmt: skip
    return replace(record, score=-1.0, beams=(other,)), tables


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture
def visit(browser, tmp_path):
    """Opens a record's page; anything that goes wrong in it, or asks for another host, fails the test."""
    wrong, contexts = [], []

    def opened(record, *, scheme="light", size=(1100, 900), **how):
        file = look.save(record, tmp_path / "page.html", **how)
        context = browser.new_context(color_scheme=scheme, viewport={"width": size[0], "height": size[1]})
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
        page.on("dialog", lambda dialog: wrong.append("a token was run as a script"))

        def only_this_file(route):
            if route.request.url.split("#")[0] == Path(file).as_uri():
                return route.continue_()
            wrong.append(f"asked for {route.request.url}")
            return route.abort()

        page.route("**/*", only_this_file)
        page.goto(Path(file).as_uri())
        return page

    yield opened
    for context in contexts:
        context.close()
    assert not wrong, wrong


def point_at(page, row, column, rows, columns):
    """Keys move the crosshair to a cell; what it says of it is returned."""
    canvas = page.locator("canvas.over").first
    canvas.focus()
    page.keyboard.press("Home")
    for _ in range(rows):
        page.keyboard.press("ArrowUp")
    for _ in range(row):
        page.keyboard.press("ArrowDown")
    for _ in range(column):
        page.keyboard.press("ArrowRight")
    return page.locator("output.readout").first.inner_text()


def choose(page, name, value):
    page.locator(f"select[name={name}]").select_option(value)


def numbers(page):
    page.locator("summary").click()
    page.locator("details tbody tr").first.wait_for()
    lines = page.locator("details tbody tr")
    cells = [[float(cell) for cell in line.locator("td").all_inner_texts()] for line in lines.all()]
    return np.array(cells), page.locator("details tbody th").all_inner_texts()


def test_numbers_are_those_of_the_array_and_tokens_are_text(visit):
    record, tables = golden()
    page = visit(record)
    assert page.locator("h1 bdi").all_inner_texts() == [HOSTILE, "مرحبا 日本語"]
    shown, labels = numbers(page)
    np.testing.assert_allclose(shown, tables.mean((0, 1)), atol=5.1e-5)
    assert labels == ROWS
    assert page.locator("details thead th").all_inner_texts() == COLUMNS
    assert point_at(page, 2, 4, 4, 7) == f"{HOSTILE} ← 😀: {tables.mean((0, 1))[2, 4]:.4f}"
    assert page.locator("img").count() == 0
    assert "Method: raw" in page.locator("p.caption").first.inner_text()


def test_layers_heads_words_and_special_tokens_can_be_chosen(visit):
    record, tables = golden()
    page = visit(record)
    choose(page, "layer", "1")
    choose(page, "head", "2")
    assert "layer 1, head 2" in page.locator("p.caption").first.inner_text()
    np.testing.assert_allclose(numbers(page)[0], tables[1, 2], atol=5.1e-5)
    page.get_by_label("words").check()
    page.get_by_label("special tokens").uncheck()
    merged = record.words().without_specials().matrix(layer=1, head=2)
    shown, _ = numbers(page)
    np.testing.assert_allclose(shown, merged.weights, atol=5.1e-5)
    assert "layer=1" in page.url
    choose(page, "head", "max")
    choose(page, "layer", "all")
    np.testing.assert_allclose(numbers(page)[0], record.words().without_specials().matrix(head="max").weights, atol=0.5)


def test_the_pointer_reads_cells_and_the_colours_are_painted(visit):
    record, tables = golden()
    page = visit(record)
    box = page.locator("canvas.over").bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + box["height"] * 0.8)
    told = page.locator("output.readout").inner_text()
    value = float(told.rsplit(": ", 1)[1])
    assert np.isclose(tables.mean((0, 1)), value, atol=5.1e-5).any()
    colours = page.evaluate(
        "() => { const c = document.querySelector('.sheet canvas'); const d = c.getContext('2d')"
        ".getImageData(0, 0, c.width, c.height).data; return new Set(new Uint32Array(d.buffer)).size; }"
    )
    assert colours > 20


def test_every_other_view_draws_the_record(visit):
    record, tables = golden()
    page = visit(record)
    choose(page, "view", "grid")
    assert page.locator(".grid button canvas").count() == 6
    page.locator(".grid button").nth(4).click()  # layer 1, head 1
    np.testing.assert_allclose(numbers(page)[0], tables[1, 1], atol=5.1e-5)
    choose(page, "view", "lines")
    choose(page, "head", "1")
    lines = {title.text_content() for title in page.locator("svg title").all()}
    assert f"casa ← 日本語: {tables[1, 1, 1, 2]:.4f}" in lines
    choose(page, "view", "text")
    page.get_by_role("button", name="casa").click()
    told = [float(span.get_attribute("title")) for span in page.locator(".marked span").all()]
    np.testing.assert_allclose(told, tables[1, 1, 1], atol=5.1e-5)
    choose(page, "view", "beams")
    page.get_by_role("button", name="#2").click()
    np.testing.assert_allclose(numbers(page)[0], tables[1, 1, :, ::-1], atol=5.1e-5)


def test_two_records_side_by_side_with_the_difference(visit):
    record, tables = golden()
    page = visit(record, against=replace(record.beams[0], model="other"))
    assert page.locator("figure").count() == 3
    mean = tables.mean((0, 1))
    np.testing.assert_allclose(numbers(page)[0], mean - mean[:, ::-1], atol=5.1e-5)


def test_dark_narrow_and_without_motion(visit):
    record, _ = golden()
    light, dark = visit(record), visit(record, scheme="dark", size=(380, 800))
    grounds = [page.evaluate("getComputedStyle(document.body).backgroundColor") for page in (light, dark)]
    assert grounds == ["rgb(255, 255, 255)", "rgb(18, 20, 28)"]
    assert dark.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_nothing_that_axe_finds(visit):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="pip install axe-playwright-python")
    record, _ = golden()
    for scheme in ("light", "dark"):
        page = visit(record, scheme=scheme)
        for view in ("matrix", "lines", "grid", "text", "beams"):
            choose(page, "view", view)
            found = axe.Axe().run(page)
            assert found.violations_count == 0, (scheme, view, found.generate_report())


def test_a_thousand_by_a_thousand_stays_fluent(visit):
    size = 1024
    tables = np.random.default_rng(0).random((1, size, size)).astype(np.float32)
    names = [str(i) for i in range(size)]
    page = visit(look.record(tables, names, look.axis(names)))
    page.locator("canvas.over").focus()
    spent = page.evaluate(
        "() => { const c = document.querySelector('canvas.over'), start = performance.now();"
        " for (let i = 0; i < 100; i++) c.dispatchEvent(new KeyboardEvent('keydown', {key: 'ArrowRight'}));"
        " return (performance.now() - start) / 100; }"
    )
    assert spent < 16  # milliseconds a move: 60 pictures a second
    assert page.locator("output.readout").inner_text() == f"0 ← 100: {tables[0, 0, 100]:.4f}"


def test_the_widget_draws_in_a_page_that_is_not_its_own(visit):
    pytest.importorskip("anywidget", reason='the widget needs the notebook extra: pip install "regard[notebook]"')
    record, tables = golden()
    shown = look.widget(record)
    page = visit(record)
    page.goto("about:blank")
    page.evaluate(
        """async ([code, text]) => {
          const module = await import(URL.createObjectURL(new Blob([code], { type: "text/javascript" })));
          globalThis.close_ = module.default.render({ model: { get: () => text }, el: document.body });
        }""",
        [shown._esm, shown.page],
    )
    np.testing.assert_allclose(numbers(page)[0], tables.mean((0, 1)), atol=5.1e-5)
    page.evaluate("close_()")
