"""The HTML file in a real browser, from which every request to another host is refused."""

import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from regard import look
from regard.look.figure_layout import HEAT
from regard.look.records import NextToken, OutputView

pytestmark = pytest.mark.slow

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


@pytest.fixture
def visit(open_page, tmp_path):
    """Opens a record's page, or a file that is there already."""

    def opened(record, *, scheme="light", size=(1100, 900), **how):
        file = record if isinstance(record, Path) else look.save(record, tmp_path / "page.html", **how)
        return open_page(Path(file).as_uri(), scheme=scheme, size=size)

    return opened


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
    if name == "view":
        page.locator(f"input[name=view][value={value}]").check()
    else:
        page.locator(f"select[name={name}]").select_option(value)
    page.locator(".stage[aria-busy=false]").wait_for()


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
    np.testing.assert_allclose(
        numbers(page)[0], record.words().without_specials().matrix(head="max").weights, atol=5.1e-5
    )


def test_the_pointer_reads_cells_and_the_colors_are_painted(visit):
    record, tables = golden()
    page = visit(record)
    box = page.locator("canvas.over").bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + box["height"] * 0.8)
    told = page.locator("output.readout").inner_text()
    value = float(told.rsplit(": ", 1)[1])
    assert np.isclose(tables.mean((0, 1)), value, atol=5.1e-5).any()
    colors = page.evaluate(
        "() => { const c = document.querySelector('.sheet canvas'); const d = c.getContext('2d')"
        ".getImageData(0, 0, c.width, c.height).data; return new Set(new Uint32Array(d.buffer)).size; }"
    )
    assert colors > 20


def test_a_weight_says_of_its_row_what_a_file_without_a_model_knows(visit):
    record, tables = golden()
    page = visit(record)
    choose(page, "layer", "1")
    choose(page, "head", "2")
    point_at(page, 1, 3, 4, 7)
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog", name="computation of this weight")
    row = tables[1, 2, 1]
    assert dialog.locator("h2").inner_text() == f"casa ← مرحبا: {row[3]:.4f}"
    told = dialog.locator("tbody td:nth-child(2)").all_inner_texts()
    scores = [float(cell.replace("\N{MINUS SIGN}", "-")) for cell in told]
    np.testing.assert_allclose(scores, np.log(row / row.max()), atol=6e-4)
    assert dialog.locator("[aria-current] th").inner_text() == "مرحبا"
    assert "regard serve" in dialog.inner_text()
    page.keyboard.press("Escape")
    assert dialog.count() == 0
    assert page.evaluate("document.activeElement.className") == "over"
    choose(page, "head", "mean")  # no softmax has made it, so that there are no scores
    point_at(page, 2, 4, 4, 7)
    page.keyboard.press("Enter")
    assert dialog.locator("h2").inner_text() == f"{HOSTILE} ← 😀: {tables[1].mean(0)[2, 4]:.4f}"
    assert "score" not in dialog.locator("thead").inner_text()
    dialog.get_by_role("button", name="Close").click()
    assert dialog.count() == 0


def test_every_other_view_draws_the_record(visit):
    record, tables = golden()
    page = visit(record)
    choose(page, "view", "grid")
    assert page.locator(".tile canvas.over").count() == 6
    assert page.evaluate("[...document.querySelectorAll('.tile')].every((one) => one.scrollWidth <= one.clientWidth)")
    page.locator(".tile .open").nth(4).click()  # layer 1, head 1
    np.testing.assert_allclose(numbers(page)[0], tables[1, 1], atol=5.1e-5)
    choose(page, "view", "lines")
    choose(page, "head", "1")
    lines = {title.text_content() for title in page.locator("svg title").all()}
    assert f"casa ← 日本語: {tables[1, 1, 1, 2]:.4f}" in lines
    choose(page, "view", "text")
    page.get_by_role("button", name="casa", exact=True).click()
    told = [float(span.get_attribute("title")) for span in page.locator(".marked span").all()]
    np.testing.assert_allclose(told, tables[1, 1, 1], atol=5.1e-5)
    assert COLUMNS[1] + COLUMNS[2] in page.locator(".marked").inner_text()  # two pieces of one word
    choose(page, "view", "matrix")
    page.get_by_role("button", name="#2").click()  # of the tree: the other hypothesis, in every view
    assert "otra" in page.locator("h1").inner_text()
    np.testing.assert_allclose(numbers(page)[0], tables[1, 1, :, ::-1], atol=5.1e-5)
    choose(page, "view", "grid")
    page.locator(".tile .open").nth(0).click()
    np.testing.assert_allclose(numbers(page)[0], tables[0, 0, :, ::-1], atol=5.1e-5)


def test_two_records_side_by_side_with_the_difference(visit):
    record, tables = golden()
    page = visit(record, against=replace(record.beams[0], model="other"))
    assert page.locator("figure").count() == 3
    both, other, apart = page.locator(".trio .scale").all_inner_texts()
    assert both == other  # one scale for both, and one with a sign
    assert apart.startswith("−")
    mean = tables.mean((0, 1))
    np.testing.assert_allclose(numbers(page)[0], mean - mean[:, ::-1], atol=5.1e-5)


def test_words_light_up_in_every_view_and_stay_when_clicked(visit):
    record, tables = golden()
    page = visit(record)
    mean = tables.mean((0, 1))
    chip = page.locator(".rows .chip").nth(1)
    chip.hover()
    painted = page.locator(".columns .chip").evaluate_all("all => all.map((one) => one.style.background)")
    assert len(set(painted)) > 1
    reds = [int(color.split("(")[1].split(",")[0]) for color in painted]
    assert reds[int(mean[1].argmax())] == min(reds)
    chip.click()
    assert chip.get_attribute("aria-pressed") == "true"
    page.locator(".columns .chip").nth(3).hover()  # and now it is a column that lights up, in every map
    choose(page, "view", "grid")
    chips = page.locator(".rows .chip")
    chips.nth(2).hover()
    marked = page.locator(".tile canvas.over").evaluate_all(
        "all => all.map((c) => c.getContext('2d').getImageData(0, 0, c.width, c.height).data.some((v) => v))"
    )
    assert marked == [True] * 6
    page.locator("h1").hover()
    page.locator("[name=sort]").select_option("entropy")
    page.locator(".stage[aria-busy=false]").wait_for()
    bits = [float(line.split(" ")[0]) for line in page.locator(".tile .line").all_inner_texts()]
    assert bits == sorted(bits)


def test_heads_of_one_role_stand_together(visit):
    """Each of four heads looks at one kind of place alone; the last looks at all alike."""
    size = 6
    first = np.zeros((size, size), np.float32)
    first[:, 0] = 1
    heads = [np.full((size, size), 1 / size), first, np.eye(size), np.eye(size) * 0.8 + first * 0.2]
    record = look.record([np.stack(heads).astype(np.float32)], [f"r{i}" for i in range(size)], list("abcdef"))
    page = visit(record)
    choose(page, "view", "grid")
    page.locator("[name=sort]").select_option("role")
    page.locator(".stage[aria-busy=false]").wait_for()
    assert page.locator(".tile .open").all_inner_texts() == [f"layer 0 · head {head}" for head in (2, 3, 1, 0)]
    roles = [line.split(", ")[1:] for line in page.locator(".tile .line").all_inner_texts()]
    # Three places out of six are near the diagonal (two at its ends): chance is (2/6 · 2 + 3/6 · 4) / 6 = 0.44.
    # Of the second head, 0.8 are there, and all in the two rows where the first place is near the diagonal, too: 0.87.
    assert roles == [["diagonal +0.56"], ["diagonal +0.42"], ["first +0.83"], []]


def test_a_clicked_cell_tells_which_weight_it_is(visit):
    record, _ = golden()
    page = visit(record)
    page.evaluate("addEventListener('weight', ({ detail }) => { globalThis.told = detail; })")
    choose(page, "layer", "1")
    choose(page, "head", "2")
    page.locator("canvas.over").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert page.evaluate("told") == {"kind": "cross", "layer": 1, "head": 2, "row": 1, "column": 0}


def with_next_words():
    """An output of three tokens, each with two that were probable."""
    record, _ = golden()
    likely = [("la", "una"), ("casa", "cosa"), (HOSTILE, "y"), ("</s>", ".")]
    steps = tuple(
        tuple(NextToken(word, word, math.log(share)) for word, share in zip(words, (0.6, 0.3), strict=True))
        for words in likely
    )
    return replace(record, next_tokens=steps, beams=())


def test_the_film_reveals_word_by_word_what_was_probable(visit):
    page = visit(with_next_words())
    page.locator("input[name=film]").focus()
    page.keyboard.press("Home")
    assert page.locator(".rows .chip.ahead").count() == 3
    assert page.locator(".next bdi").all_inner_texts() == ["la", "una"]
    assert page.locator(".next .number").all_inner_texts() == ["60%", "30%"]
    page.keyboard.press("ArrowRight")
    assert page.locator(".rows .chip.ahead").count() == 2
    assert page.locator(".next .written").inner_text().startswith("casa")
    assert page.locator(".rows .chip").nth(1).locator("small").inner_text() == "61%"  # e ** -0.5
    page.get_by_role("button", name="Play").click()
    page.locator(".rows .chip.ahead").first.wait_for(state="detached")  # it plays to its end
    assert page.get_by_role("button", name="Play").count() == 1


@pytest.mark.parametrize("kind", ["labels", "marks", "values"])
def test_what_was_said_is_shown(visit, kind):
    columns = look.axis(times=range(3), unit="", signal=[1.0, 2.0, 3.0]) if kind == "values" else list("abc")
    said = {
        "labels": OutputView("labels", ("cat", "dog"), (0.75, 0.25)),
        "marks": OutputView("marks", text=f"a {HOSTILE} b", marks=((2, 2 + len(HOSTILE), "bad"),)),
        "values": OutputView("values", ("tomorrow",), (4.0,), (3.0,), (5.0,), "0.1 to 0.9"),
    }[kind]
    record = replace(look.record(np.full((1, 3), 1 / 3), ["cat"], columns, input="x", output="cat"), said=said)
    page = visit(record, view="overlay" if kind == "values" else "matrix")
    told = {"labels": (".said .number", ["75%", "25%"]), "marks": (".said mark", [f"{HOSTILE}bad"]),
            "values": (".legend .key", ["past", "forecast", "quantiles 0.1 to 0.9"])}[kind]  # fmt: skip
    assert page.locator(told[0]).all_inner_texts() == told[1]


def test_words_outside_the_vocabulary_are_told(visit):
    record, _ = golden()
    tokens = record.axes["source"].tokens
    axis = replace(record.axes["source"], tokens=(replace(tokens[0], unknown=True), *tokens[1:]))
    page = visit(replace(record, axes={**record.axes, "source": axis}))
    assert page.locator(".warning").inner_text().endswith("the")


def test_dark_narrow_and_without_motion(visit):
    record, _ = golden()
    light, dark = visit(record), visit(record, scheme="dark", size=(380, 800))
    grounds = [page.evaluate("getComputedStyle(document.body).backgroundColor") for page in (light, dark)]
    assert grounds == ["rgb(255, 255, 255)", "rgb(18, 20, 28)"]
    assert dark.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_nothing_that_axe_finds(visit):
    from axe_checks import violations

    record, _ = golden()
    for scheme in ("light", "dark"):
        page = visit(record, scheme=scheme)
        for view in ("matrix", "lines", "grid", "text"):
            choose(page, "view", view)
            found = violations(page)
            assert not found, (scheme, view, found)


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
    assert page.locator("output.readout").inner_text() == f"0 ← 100: {tables[0, 0, 100]:.4f}"
    drawing = page.evaluate(
        "() => { const box = document.querySelector('[name=log]'), start = performance.now(); box.click();"
        " return new Promise((done) => setTimeout(() => done(performance.now() - start))); }"
    )
    assert spent < drawing / 20  # a move draws next to nothing anew: some 5,000 times as fast, on any machine


def as_nbconvert_makes_it(html):
    """By nbconvert itself, where it is installed; it puts the HTML of an output into its page as it is."""
    try:
        from nbconvert import HTMLExporter
        from nbformat import v4
    except ImportError:
        return f"<!doctype html><meta charset=utf-8><body>{html}"
    told = v4.new_output("execute_result", data={"text/html": html}, execution_count=1)
    notebook = v4.new_notebook(cells=[v4.new_code_cell("seen", outputs=[told], execution_count=1)])
    return HTMLExporter(template_name="basic").from_notebook_node(notebook)[0]  # the others ask other hosts for MathJax


def sanitized(html):
    """By nbconvert itself, where it is installed: tags that it does not know become text, with what is in them."""
    try:
        from nbconvert.filters import clean_html
    except ImportError:
        known = r"</?(?:b|div|li|ul)(?: class='[^']*')?>"
        html = re.sub(r"<(\w+)((?: class='[^']*')?)(?: style='[^']*')>", r"<\1\2>", html)
        return re.sub(rf"({known})|<", lambda one: one[1] or "&lt;", html)
    return clean_html(html)


def test_a_saved_notebook_shows_it_without_a_kernel_or_a_network(visit, tmp_path):
    record, tables = golden()
    html = record._repr_mimebundle_()["text/html"]
    (tmp_path / "notebook.html").write_text(as_nbconvert_makes_it(html), encoding="utf-8")
    page = visit(tmp_path / "notebook.html")
    frame = page.frame_locator("iframe")
    np.testing.assert_allclose(numbers(frame)[0], tables.mean((0, 1)), atol=5.1e-5)
    assert not page.locator("img").is_visible()
    assert not page.locator(".regard-words").is_visible()
    frame.locator("select[name=layer]").select_option("1")
    frame.locator("select[name=head]").select_option("2")
    np.testing.assert_allclose(numbers(frame)[0], tables[1, 2], atol=5.1e-5)
    (tmp_path / "safe.html").write_text(re.sub(r"<style>.*?</style>|<iframe.*?</iframe>", "", html, flags=re.DOTALL))
    plain = visit(tmp_path / "safe.html")  # as GitHub leaves it
    assert plain.locator("img").is_visible()
    assert plain.evaluate("document.querySelector('img').naturalWidth") > 100
    lab = "<style>.jp-FileSize-hidden { display: none }</style>"  # as all pages of Jupyter have it
    (tmp_path / "sanitized.html").write_text(f"<meta charset=utf-8>{lab}{sanitized(html)}", encoding="utf-8")
    told = visit(tmp_path / "sanitized.html").locator("body").inner_text()  # what can be seen of it
    best = tables.mean((0, 1)).argmax(1)
    for row, column in zip(record.axes["target"].labels, best, strict=True):
        assert f"{row} ← {record.axes['source'].labels[column]}: " in told
    assert "srcdoc" not in told
    assert len(told) < 1000


# ------------------------------------------------------------------------------- images, sound, training, positions
def over_image():
    """Three words over 2 × 3 regions; the picture is white, so that what is seen of it is the veil."""
    weights = np.array([[0.5, 0.25, 0.125, 0.125, 0, 0], [0, 0, 0, 0.2, 0.3, 0.5], [1, 0, 0, 0, 0, 0]], np.float32)
    columns = look.axis(grid=(2, 3), image=np.full((40, 60, 3), 255, np.uint8))
    return look.record(weights, ["a", HOSTILE, "runs"], columns, input="dog.png", output="a dog runs"), weights


def region(page, row, column, rows, columns):
    """The color of the heat over a region, and its opacity, 0 to 1."""
    return page.evaluate(
        "([i, j, r, c]) => { const v = document.querySelector('.framed canvas.over');"
        " const d = v.getContext('2d').getImageData((j + .5) * v.width / c, (i + .5) * v.height / r, 1, 1).data;"
        " return [...d].map((part) => part / 255); }",
        [row, column, rows, columns],
    )


def heat(share):
    return [*HEAT(share)[:3], 0.6]


def test_the_heat_is_light_where_it_looked_and_reads_its_numbers(visit):
    record, weights = over_image()
    page = visit(record)  # which opens upon the picture
    page.get_by_role("button", name="a", exact=True).click()
    for place, weight in enumerate(weights[0]):
        assert region(page, *divmod(place, 3), 2, 3) == pytest.approx(heat(weight / (5 / 6)), abs=0.02)
    page.locator(".framed canvas[tabindex]").focus()
    page.keyboard.press("ArrowRight")
    assert page.locator("output.readout").inner_text() == f"a ← row 1, column 2: {weights[0, 1]:.4f}"
    assert page.locator(".strip button").count() == 3
    assert "largest 0.50" in page.locator(".strip button").first.inner_text()
    assert page.locator(".scale").inner_text() == "0  0.83; uniform: 0.17"
    page.locator(".strip button").nth(2).click()
    assert region(page, 0, 0, 2, 3) == pytest.approx(heat(1.0), abs=0.02)
    page.locator("[name=opacity]").fill("1")
    assert region(page, 0, 0, 2, 3)[3] == 1
    np.testing.assert_allclose(numbers(page)[0], weights, atol=5.1e-5)


def test_a_clicked_region_shows_where_it_looks(visit):
    table = np.random.default_rng(1).random((7, 7)).astype(np.float32)
    table /= table.sum(1, keepdims=True)
    axis = look.axis(["[CLS]", *"abcdef"], grid=(2, 3), image=np.full((40, 60, 3), 255, np.uint8))
    page = visit(look.record(table, axis), view="overlay")
    box = page.locator(".framed canvas[tabindex]").bounding_box()
    page.mouse.click(box["x"] + box["width"] * 0.5, box["y"] + box["height"] * 0.75)  # region e, which is row 5
    page.mouse.move(box["x"] + box["width"] * 0.9, box["y"] + box["height"] * 0.2)  # region c, which is column 3
    assert page.locator("output.readout").inner_text() == f"e ← c: {table[5, 3]:.4f}"
    page.get_by_role("button", name="[CLS]").click()
    row = table[0, 1:]
    assert region(page, 0, 0, 2, 3) == pytest.approx(heat(row[0] / max(row.max(), 5 / 6)), abs=0.02)


@pytest.mark.parametrize("signal", [np.sin(np.arange(40.0)), np.random.default_rng(0).random((5, 40))])
def test_sound_and_series_along_their_time(visit, signal):
    weights = np.random.default_rng(2).random((2, 8)).astype(np.float32)
    record = look.record(weights, ["yes", "no"], look.axis(times=np.arange(8) * 0.25, signal=signal))
    page = visit(record, view="overlay")
    page.get_by_role("button", name="no", exact=True).click()
    best = int(weights[1].argmax())
    told = page.locator("output.readout").first.inner_text()
    assert told == f"no looks most at {best * 0.25:g} s: {weights[1, best]:.4f}"
    colors = page.evaluate(
        "() => { const c = document.querySelector('canvas.signal'); const d = c.getContext('2d')"
        ".getImageData(0, 0, c.width, c.height).data; return new Set(new Uint32Array(d.buffer)).size; }"
    )
    assert colors > 8
    np.testing.assert_allclose(numbers(page)[0], weights, atol=5.1e-5)


def test_attention_as_training_goes_on(visit, tmp_path):
    from regard.look.card import entropy
    from regard.look.render import write_history
    from regard.look.views import ShownView

    tables = [np.random.default_rng(step).dirichlet(np.ones(5), (2, 3)).astype(np.float32) for step in range(4)]
    records = tuple(look.record(table, ["la", "casa", HOSTILE], list("abcde"), input="x") for table in tables)
    history = look.History((10, 20, 30, 40), records)
    file = write_history(history, ShownView(history.last), tmp_path / "page.html")
    page = visit(file)
    np.testing.assert_allclose(numbers(page)[0], tables[3].mean(0), atol=5.1e-5)
    page.locator("input[name=step]").focus()
    page.keyboard.press("Home")
    page.locator("output", has_text="step 10").wait_for()
    np.testing.assert_allclose(numbers(page)[0], tables[0].mean(0), atol=5.1e-5)
    choose(page, "head", "1")
    told = [title.text_content() for title in page.locator("figure.curve").first.locator("circle title").all()]
    values = [entropy(table[1].astype(np.float64)) for table in tables]
    assert told == [f"step {step}: {value:.4f}" for step, value in zip(history.steps, values, strict=True)]


def test_positions(visit, tmp_path):
    from regard.look.positions import similarity_by_distance, write_positions

    table = np.random.default_rng(0).normal(size=(7, 5))
    file = write_positions(table, "positions", tmp_path / "page.html")
    page = visit(file)
    np.testing.assert_allclose(numbers(page)[0], table, atol=5.1e-5)
    last = page.locator("circle title").last.text_content()
    assert last == f"distance 6: {similarity_by_distance(table)[6]:.4f}"


def test_what_axe_finds_in_the_other_views(visit, tmp_path):
    from axe_checks import violations

    sound = look.record(np.eye(3), list("abc"), look.axis(times=range(3), signal=[1.0, 2.0, 3.0]))
    record, _ = golden()
    for scheme in ("light", "dark"):
        pages = [visit(one, view="overlay", scheme=scheme) for one in (over_image()[0], sound)]
        for page in [*pages, visit(record, against=record.beams[0], scheme=scheme)]:
            found = violations(page)
            assert not found, (scheme, found)


def test_a_closed_view_leaves_nothing_behind(visit):
    record, _ = golden()
    page = visit(record)
    from regard.look.html import document, harmless, script
    from regard.look.views import ShownView

    page.goto("about:blank")
    left = page.evaluate(
        """async ([code, text]) => {
          let listeners = 0, watching = 0;
          const { addEventListener: add, removeEventListener: remove } = MediaQueryList.prototype;
          const media = MediaQueryList.prototype;
          media.addEventListener = function (...all) { listeners++; return add.apply(this, all); };
          media.removeEventListener = function (...all) { listeners--; return remove.apply(this, all); };
          const { observe, disconnect } = ResizeObserver.prototype;
          ResizeObserver.prototype.observe = function (...all) { watching++; return observe.apply(this, all); };
          ResizeObserver.prototype.disconnect = function () { watching--; return disconnect.apply(this); };
          const { mount } = await import(URL.createObjectURL(new Blob([code], { type: "text/javascript" })));
          for (let i = 0; i < 5; i++) {
            const view = mount(document.body, JSON.parse(text));
            view.close();
            await view.ready;
          }
          return [listeners, watching, document.body.childElementCount];
        }""",
        [script() + "\nexport { mount };", harmless(document(ShownView(record)))],
    )
    assert left == [0, 0, 0]
