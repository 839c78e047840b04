"""The served page in a real browser: what a person sees first, clicks, breaks, reloads and takes away."""

import io
import json
import re

import numpy as np
import pytest
import yaml

import regard
from picture_example import write_pictures
from regard import api
from regard.errors import CallError
from regard.serve.errors import Limits
from test_draw import tree as drawing
from test_serve import run, serving  # noqa: F401  (run is a fixture)
from test_serve_looks import Spots, png

playwright = pytest.importorskip("playwright.sync_api", reason="browser tests need Playwright: pip install playwright")
pytestmark = pytest.mark.slow
HOSTILE = "two </script><img src=x onerror=alert(1)>"
expect = playwright.expect
DROP = """() => { const dataTransfer = new DataTransfer();
  dataTransfer.items.add(new File([new Uint8Array([0, 255])], "a.csv"));
  document.getElementById("ask").dispatchEvent(new DragEvent("drop", { dataTransfer, cancelable: true })); }"""
COMING = """() => { window.coming = []; new MutationObserver((changes) => changes.forEach(({ addedNodes }) =>
  window.coming.push(...[...addedNodes].filter((one) => one.matches?.(".coming")).map((one) => one.textContent))))
  .observe(document.body, { subtree: true, childList: true }); }"""


class Seeing(api.Run):
    def examples(self, most=6):
        raise CallError("the data is not there any more")


@pytest.fixture(scope="module")
def site(run, tmp_path_factory):  # noqa: F811
    """A translator twice, a model that takes pictures, one of recordings, one of tables and one that draws, hardly
    trained."""
    folder = tmp_path_factory.mktemp("page")
    short = {"training": {"max_steps": 2, "validate_every": 2, "looks": 0}}
    pictures = write_pictures(folder)
    (folder / "draw.yaml").write_text(yaml.safe_dump(drawing(pictures, max_steps=2, max_epochs=50) | {"decoding": {}}))
    runs = {
        "pairs": run, "other": run, "spots": Seeing(run.folder, run.recipe, Spots(run.recipe, run.model)),
        "tones": regard.train("tones-classify", output=folder / "tones", **short),
        "stocks": regard.train("stocks-forecast", output=folder / "stocks", **short),
        "draws": regard.train(folder / "draw.yaml", output=folder / "draws", check=False),
    }  # fmt: skip
    with serving(runs, Limits(max_length=200)) as client:
        yield client


@pytest.fixture
def visit(site, open_page):
    def opened(search="", *, scheme="light", width=1280):
        page = open_page(f"{site.base_url}/{search}", scheme=scheme, size=(width, 900))
        ready(page)
        return page

    return opened


def ready(page):
    page.locator("#seen .stage[aria-busy=false]").wait_for()
    expect(page.locator("#seen")).not_to_have_class("waiting")


def view(page, name):
    page.get_by_role("radio", name=name).check()
    ready(page)


def asked(page, path="/api/page"):
    """The bodies of what is asked from now on."""
    bodies = []
    page.on("request", lambda one: bodies.append(one.post_data_json) if one.url.endswith(path) else None)
    return bodies


def test_the_first_screen_tells_what_it_is_and_has_run_an_example(visit, run):  # noqa: F811
    page = visit()
    assert page.locator("h1").inner_text() == "pairs"
    line = page.locator("#line").inner_text()
    assert line.startswith("text → text · ")
    shown = [name for name in run.best_scores() if name != "loss"][:2]
    assert shown
    assert "parameters · validation" in line
    assert line.count("· validation ") == len(shown)  # each score names its part of the data
    examples = page.locator("#examples button")
    first = run.examples()[0].input
    assert 1 <= examples.count() <= 6
    assert examples.first.get_attribute("aria-pressed") == "true"
    said = run.predict(first).text
    expect(page.locator("#seen .headline")).to_have_text(f"pairs{first} → {said}")
    assert not page.locator("[name=prefix]").is_visible()  # what experts want is folded away
    examples.nth(1).click()
    expect(page.locator("#seen .headline")).to_contain_text(run.examples()[1].input)


def test_words_are_asked_edited_forced_and_gone_on_with(visit, run):  # noqa: F811
    page = visit("?model=pairs&text=one+red+cat")
    own = run.look("one red cat")
    shares = page.locator(".rows .chip small").all_inner_texts()
    assert len(shares) == len(own.scores)
    page.locator("input[name=film]").focus()
    page.keyboard.press("Home")
    other = own.next_tokens[0][1]
    expect(page.locator(".next li").nth(1)).to_contain_text(other.text)
    page.locator(".next button").first.click()  # goes on from there
    page.wait_for_url(f"**prefix={other.piece}**")
    expect(page.locator("#seen .headline")).to_contain_text(run.predict("one red cat", prefix=other.piece).text)
    # A beam search knows its words at its end: the film goes on from the chosen one. A greedy one is seen as it writes.
    expect(page.locator(".told")).to_have_text(re.compile(r"step \d of \d"))  # and not only how many there are
    page.go_back()
    expect(page.locator("#seen .headline")).to_have_text(f"pairsone red cat → {own.output}")
    page.select_option(".decoding [name=beam]", "1")
    page.wait_for_url("**beam=1**")
    ready(page)
    shown = page.locator(".rows .chip").count()
    page.evaluate(COMING)
    page.locator("input[name=film]").press("Home")
    page.locator(".next button").first.click()
    page.wait_for_url("**prefix=**")
    ready(page)
    tokens = []
    begun = page.input_value("[name=prefix]")
    run.stream("one red cat", lambda token, text: tokens.append(token.strip()), prefix=begun, beam=1)
    assert page.evaluate("window.coming") == tokens[:shown]  # no more than were seen before
    page.fill("[name=text]", HOSTILE)
    page.keyboard.press("Enter")
    expect(page.locator("#seen .headline")).to_contain_text(HOSTILE)
    page.locator("#asked summary").click()
    assert page.locator("#asked li").count() == 5
    page.locator("#asked a[href='/?model=pairs&text=one+red+cat']").click()
    expect(page.locator("#seen .headline")).to_have_text(f"pairsone red cat → {own.output}")


def test_the_numbers_are_those_of_python_and_the_card_says_what_it_means(visit, run):  # noqa: F811
    page = visit("?model=pairs&text=one+red+cat")
    page.select_option("main [name=layer]", "1")
    page.select_option("main [name=head]", "1")
    expect(page.locator("main p.caption").first).to_contain_text("layer 1, head 1")
    ready(page)
    page.click("text=Measure faithfulness")
    expect(page.locator("main .card .sentence")).to_contain_text("nats less sure")
    page.click("main .stage summary")
    cells = page.locator("main details td").all_inner_texts()[1:]  # the first is the corner
    expected = run.look("one red cat").matrix("cross", 1, 1).weights
    np.testing.assert_allclose(np.array(cells, float).reshape(expected.shape), expected, atol=1e-4)
    page.reload()  # the state is in the URL
    ready(page)
    assert page.input_value("main [name=head]") == "1"


def test_nothing_old_stays_under_a_new_name(visit):
    page = visit("?model=pairs&text=one+red+cat")
    page.route("**/api/page", lambda route: None)  # the answer does not come
    page.select_option("[name=model]", "other")
    expect(page.locator("h1")).to_have_text("other")
    assert page.locator("#seen *").count() == 0
    page.unroute("**/api/page")
    page.fill("[name=text]", "x" * 201)
    page.click("button.go")
    expect(page.locator("#status")).to_contain_text("201 characters: 200 at most")
    assert page.locator("#seen *").count() == 0
    page.route("**/api/**", lambda route: route.abort())
    page.fill("[name=text]", "one")
    page.click("button.go")
    expect(page.locator("#status")).to_contain_text("The service does not answer")


def test_a_head_is_taken_out_and_what_changes_is_told(visit, run):  # noqa: F811
    page = visit("?model=pairs&text=one+red+cat#view=grid")
    assert page.locator(".tile").count() == sum(len(one.weights) for one in run.look("one red cat").of_kind())
    page.get_by_role("button", name="Mask cross.1.1").click()
    silent = run.predict("one red cat", without=["cross.1.1"]).text
    expect(page.locator("#change")).to_contain_text(silent)
    ready(page)
    assert "without=cross.1.1" in page.url
    assert page.locator(".tile.out").count() == 1  # and the view stays
    page.get_by_role("button", name="Unmask cross.1.1").click()
    expect(page.locator("#bar")).to_be_hidden()


def test_side_by_side_each_has_its_own_output_or_both_the_same(visit, run):  # noqa: F811
    page = visit("?model=pairs&text=one+red+cat")
    bodies = asked(page)
    page.select_option("[name=against]", "other")
    page.locator("main .trio").wait_for()
    assert {body["output"] for body in bodies} == {None}
    bodies.clear()
    page.get_by_label("Use the same output for both").check()
    expect(page.locator("#status")).to_be_hidden()
    ready(page)
    assert run.predict("one red cat").text in {body["output"] for body in bodies if body["model"] == "other"}


def test_what_is_saved_is_what_is_shown(visit, tmp_path):
    page = visit("?model=pairs&text=one+red+cat&output=dos")
    page.get_by_label("words", exact=True).check()
    ready(page)
    page.get_by_label("special tokens").uncheck()
    ready(page)
    bodies = asked(page, "/api/picture")
    with page.expect_download() as saved:
        page.click("#keep")
    assert saved.value.suggested_filename == "pairs.png"
    assert (bodies[0]["words"], bodies[0]["specials"], bodies[0]["output"]) == (True, False, "dos")
    page.select_option("[name=format]", "json")  # a choice alone saves nothing
    with page.expect_download() as saved:
        page.click("#keep")
    saved.value.save_as(tmp_path / "saved.json")
    assert json.loads((tmp_path / "saved.json").read_text())["output"] == "dos"


def test_as_it_trained_shows_the_reference_as_such_and_leads_back(visit):
    page = visit("?model=pairs&text=one+red+cat")
    page.locator("#more summary").click()
    page.click("text=Training replay")
    page.wait_for_url("**/runs?run=pairs")
    page.locator("#looks input[name=step]").wait_for()
    assert "forced output" in page.locator("#looks .headline").inner_text()
    assert page.locator("#looks .rows h2").inner_text() == "Reference"
    page.reload()
    page.locator("#looks input[name=step]").wait_for()
    page.go_back()
    expect(page.locator("#seen .headline")).to_contain_text("one red cat →")


def test_a_cell_that_is_clicked_is_explained_as_it_is_counted_there(visit, run):  # noqa: F811
    """Words merged, special tokens hidden: the model is asked about the strongest of the tokens behind the cell."""
    page = visit("?model=pairs&text=one+red+cat#kind=cross&layer=1&head=0&words=true&specials=false")
    bodies = []
    page.on("request", lambda one: bodies.append(one.post_data_json) if one.url.endswith("/api/weight") else None)
    page.evaluate("document.addEventListener('weight', ({ detail }) => { window.told = detail; })")
    canvas = page.locator("main canvas.over").first
    canvas.focus()
    page.keyboard.press("End")
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog", name="computation of this weight")
    dialog.locator("dl").wait_for()
    last = len(run.look("one red cat").words().without_specials().axes["source"]) - 1
    assert page.evaluate("window.told") == {"kind": "cross", "layer": 1, "head": 0, "row": 0, "column": last}
    assert (bodies[0]["column"], bodies[0]["words"], bodies[0]["specials"]) == (last, True, False)
    words = run.look("one red cat").words().without_specials().matrix("cross", 1, 0)
    assert dialog.locator("h2").inner_text().startswith(words.rows.labels[0])
    dialog.get_by_role("button", name="Contributions of the input").click()
    expect(dialog.locator("h3", has_text="Contributions of the input")).to_be_visible(timeout=60_000)
    assert "an input of zeros" in dialog.locator("table.terms").last.inner_text()
    assert bodies[-1] == bodies[0] | {"tokens": True}
    page.keyboard.press("Escape")
    expect(canvas).to_be_focused()
    page.select_option("[name=head]", "mean")
    ready(page)
    page.locator("main canvas.over").first.press("Enter")
    expect(dialog.locator("h2 + .caption")).to_contain_text("the mean of several heads")  # and not what is told here
    assert page.evaluate("import('/page/paint.js').then((all) => all.roundNumbers(21.19, 29.42, 5))") == [
        22,
        24,
        26,
        28,
    ]


def test_a_picture_is_shown_as_one_and_survives_a_reload(visit, site):
    page = visit("?model=pairs&text=one")
    page.select_option("[name=model]", "spots")
    expect(page.locator("#examples")).to_be_empty()
    for hidden in ("[name=text]", "[name=n_best]", "[name=prefix]"):
        assert not page.locator(hidden).is_visible()  # only what it takes, and can be asked
    page.set_input_files("[name=file]", {"name": "a.png", "mimeType": "image/png", "buffer": png()})
    ready(page)
    assert page.get_by_role("radio", name="Picture").is_checked()
    assert page.locator(".framed:has(canvas) img").count() == 1  # and one without heat beside it
    site.server.config.app.state.service._uploads._kept.clear()  # ten minutes later
    page.reload()
    ready(page)
    assert page.locator("#seen .headline").inner_text() == "spotspicture → it"


def test_a_table_is_dropped_as_a_file_and_its_forecast_drawn(visit):
    page = visit("?model=stocks")
    expect(page.locator("#examples canvas").first).to_be_visible()
    months = np.arange("2000-01", "2004-01", dtype="datetime64[M]")
    table = io.StringIO()
    table.write("date,MSFT,AMZN,IBM,AAPL\n")
    for place, month in enumerate(months):
        table.write(f"{month}-01,{100 + place}.1234,{50 + place % 7}.1234,{80 - place % 5}.1234,{20 + place}.1234\n")
    assert len(table.getvalue()) > 1000  # more than a text may have
    page.set_input_files("[name=file]", {"name": "a.csv", "mimeType": "text/csv", "buffer": table.getvalue().encode()})
    expect(page.locator("#seen .headline")).to_contain_text("2003-12-01 →")
    assert "quantiles" in page.locator(".legend").inner_text()
    assert "2003" in page.locator("main output.readout").first.inner_text()  # a date, not a count of steps
    page.locator(".rows .chip").first.click()
    expect(page.locator("main output.readout").first).to_contain_text("2004-01-01 is forecast as")
    page.evaluate(DROP)
    expect(page.locator("#status")).to_contain_text("this table cannot be read")


def test_a_recording_can_be_heard_and_labels_have_probabilities(visit):
    page = visit("?model=tones")
    shares = [float(text.rstrip("%")) for text in page.locator(".said .number").all_inner_texts()]
    assert shares == sorted(shares, reverse=True)
    page.wait_for_function("document.querySelector('audio')?.src.startsWith('blob:')")
    methods = page.locator("[name=method] option").all_text_contents()  # folded away, so that it has no inner text
    assert "raw" in methods
    assert "rollout" not in methods  # it is a recurrent model
    second = page.locator(".said button").first
    name = second.locator("bdi").inner_text()
    second.click()  # what speaks for another label
    expect(page.locator("#seen .headline")).to_contain_text(f"→ {name}")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_that_axe_finds_and_nothing_too_wide(visit, scheme):
    from axe_checks import violations

    page = visit("?model=pairs&text=one+red+cat&against=other", scheme=scheme, width=390)
    for name in ("Side by side", "Why"):  # test_page_kinds.py tries the other views, for every kind of input
        view(page, name)
        if name == "Why":
            page.locator("table.why").wait_for()
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), name
        found = violations(page)
        assert not found, (name, found)
    one = "?model=pairs&text=one"
    for search in ("?model=draws", f"{one}&n_best=2&beam=2", f"{one}&sample=1"):
        page.goto(page.url.split("?")[0] + search)
        ready(page)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), search
        found = violations(page)
        assert not found, (search, found)


def test_the_output_is_searched_for_or_drawn_beside_its_film(visit, run):  # noqa: F811
    page = visit("?model=pairs&text=one+red+cat")
    page.select_option(".decoding [name=n_best]", "3")
    page.locator(".tree").wait_for()
    other = run.look("one red cat", n_best=3, beam=max(3, run.recipe.decoding.beam)).beams[0]
    page.get_by_role("button", name="#2").click()  # of the tree
    expect(page.locator("#seen .headline")).to_contain_text(f"→ {other.output}")
    ready(page)
    assert page.locator(".rows .chip").count() == len(other.axes["target"])
    with page.expect_download():
        bodies = asked(page, "/api/picture")
        page.click("#keep")
    assert bodies[0]["hypothesis"] == 1
    page.select_option(".decoding [name=sample]", "1")
    slider = page.locator(".decoding [name=temperature]")
    slider.focus()
    page.keyboard.press("End")
    page.wait_for_url("**sample=1&temperature=2**")
    how = {"sample": True, "temperature": 2.0}
    expect(page.locator("#seen .headline")).to_contain_text(f"→ {run.look('one red cat', **how).output}")
    expect(slider).to_be_focused()
    page.get_by_role("button", name="Sample again").click()
    page.wait_for_url("**seed=1**")
    drawn = run.look("one red cat", **how, seed=1).output
    expect(page.locator("#seen .headline")).to_have_text(f"pairsone red cat → {drawn}")
    page.reload()
    ready(page)
    expect(page.locator("#seen .headline")).to_have_text(f"pairsone red cat → {drawn}")
    bodies = asked(page, "/api/weight")
    page.locator("main canvas.over").first.focus()
    page.keyboard.press("Enter")
    page.get_by_role("dialog").locator("dl").wait_for()
    assert bodies[0]["output"] == drawn  # what is explained is what is shown


def test_a_drawing_appears_region_by_region(visit):
    page = visit("?model=draws")
    film = page.locator("input[name=film]")
    film.focus()
    page.keyboard.press("Home")
    picture = page.locator("img.drawing")
    assert picture.get_attribute("alt") == "the drawing after 1 of 6 regions"
    first = picture.get_attribute("src")
    assert page.evaluate("document.querySelector('img.drawing').decode().then(() => true)")
    lit = page.locator(".rows .chip").evaluate_all("all => all.filter((one) => one.style.background).length")
    assert lit > 0  # the words that this region was drawn from
    page.keyboard.press("End")
    assert picture.get_attribute("src") != first
    page.get_by_role("button", name="Sample again").click()
    page.wait_for_url("**seed=1**")
    ready(page)


def test_why_it_was_said(visit, run):  # noqa: F811
    page = visit("?model=pairs&text=one+red+cat&output=uno+rojo+gato")
    view(page, "Why")
    page.locator("table.why").wait_for()
    lens = run.explain("one red cat", "lens", output="uno rojo gato")
    assert page.locator("h2.answer").inner_text() == lens.title
    assert page.locator("table.why tbody td").all_inner_texts() == [cell for row in lens.words for cell in row]

    def shown(how, **choice):
        table = run.explain("one red cat", how, **choice, output="uno rojo gato")
        expect(page.locator("h2.answer")).to_have_text(table.title)
        cells = page.locator("table.why tbody td").evaluate_all("all => all.map((one) => Number(one.title))")
        np.testing.assert_allclose(np.array(cells).reshape(table.values.shape), table.values, rtol=1e-2, atol=1e-4)

    page.select_option("[name=why]", "inputs attnlrp")
    shown("inputs", by="attnlrp")
    page.select_option("[name=why]", "logits")
    page.select_option("[name=at]", "1")
    page.fill("[name=instead]", "perro")
    page.keyboard.press("Tab")
    shown("logits", row=1, instead="perro")
    page.reload()  # the state is in the URL
    shown("logits", row=1, instead="perro")
    assert page.evaluate("""() => {
        const [at, typed] = ["at", "instead"].map((name) => document.querySelector(`[name=${name}]`));
        [at.value, typed.value] = ["2", "gato"];
        at.dispatchEvent(new Event("change"));  // the fields are drawn anew, once that is ready,
        typed.dispatchEvent(new Event("input"));  // while somebody types into one that is still there
        return typed.isConnected;
    }""")
    expect(page.locator("[name=at]")).to_have_value("2")
    expect(page.locator("[name=instead]")).to_have_value("gato")
    page.select_option("[name=at]", "1")
    page.fill("[name=instead]", "zzz")
    page.keyboard.press("Tab")
    expect(page.locator("main .wrong")).to_contain_text("not in the vocabulary")
    page.fill("[name=instead]", "")
    page.keyboard.press("Tab")
    page.select_option("[name=why]", "patching heads")
    expect(page.locator("main [role=status]")).to_contain_text("Enter a second input")
    page.fill("[name=other]", "two red cat")
    page.keyboard.press("Tab")
    shown("patching", by="heads", row=1, against_input="two red cat")
    page.select_option("[name=whose]", "encoder")
    shown("patching", by="heads", row=1, against_input="two red cat", kind="encoder")
    bodies = asked(page, "/api/explain")
    with page.expect_download():
        page.click("#keep")
    assert (bodies[0]["how"], bodies[0]["format"]) == ("patching", "png")  # what is saved is what is shown
    page.select_option("[name=why]", "scores queries")
    page.select_option("[name=which]", "1.0")
    shown("scores", by="queries", row=1, layer=1, head=0)
    page.select_option("[name=why]", "profile")
    profile = run.head_profile()
    expect(page.locator("h2.answer")).to_have_text(profile.title, timeout=60_000)
    assert page.locator("table.why tbody td").all_inner_texts() == [cell for row in profile.words for cell in row]
