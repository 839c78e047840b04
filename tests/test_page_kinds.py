"""The page for every kind of input: what a person does first, in both schemes, wide and narrow, without an error.

Its models have weights at random: what they say is nonsense, and everything that can be done with them is real.
"""

import re
from urllib.parse import urlencode

import numpy as np
import pytest
import torch

import regard
from axe_checks import violations
from export_runs import LANGUAGE, TRANSLATOR, begin
from recipe_runs import small_corpora
from regard import look
from regard.look.history import keep
from regard.serve.errors import Limits
from test_serve import serving
from test_watch import line

playwright = pytest.importorskip("playwright.sync_api", reason="browser tests need Playwright: pip install playwright")
pytestmark = pytest.mark.slow
expect = playwright.expect

SHORT = {"decoding": {"max_length": 3}}
#: The kind of what comes in: a recipe and what is changed in it, the view that opens, what its page has to show, and by
#: what a second input is patched.
KINDS = {
    "text": ("translate-transformer", {"model": TRANSLATOR, **SHORT}, "matrix", ".columns .chip", "heads"),
    "picture": ("shapes-caption", SHORT, "overlay", ".framed img", "positions"),
    "sound": ("tones", SHORT, "overlay", "audio", "states"),
    "series": ("stocks-forecast", {}, "overlay", ".legend .key", "states"),
    "question and document": ("answer-recurrent", {}, "matrix", ".said mark", "states"),
    "prompt": ("language-model", {"model": LANGUAGE, **SHORT}, "matrix", ".rows .chip", "heads"),
    "picture and text": ("shapes-ask", SHORT, "overlay", ".framed img", "positions"),
}
OF_FILES = ("picture", "sound", "series", "picture and text")  # their examples are thumbnails


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kinds")
    runs = {}
    with small_corpora():
        for kind, (recipe, sections, *_) in KINDS.items():
            begin(recipe, sections, folder / kind)
            runs[kind] = regard.load(folder / kind)
            runs[f"another {kind}"] = unlike(regard.load(folder / kind))
            watched(runs[kind])
        with serving(runs, Limits()) as client:
            yield client


def unlike(run):
    """The same with other weights, to stand beside it."""
    torch.manual_seed(5)
    for parameter in run.model.parameters():
        parameter.data += 0.1 * torch.randn_like(parameter)
    return run


def watched(run):
    """As if it had trained for two validations, at each of which two inputs were looked at."""
    (run.folder / "metrics.jsonl").write_text(line(10, 4.0) + line(20, 3.0))
    for number, example in enumerate(run.examples(2)):
        record = run.look(example.input)
        for step in (10, 20):
            keep(record, run.folder, number, step)


def ready(page):
    page.locator("#seen .stage[aria-busy=false]").wait_for()
    expect(page.locator("#seen")).not_to_have_class("waiting")


def views(page):
    """All but `why`, which asks the model for long: test_serve_page.py tries it."""
    names = page.locator("[name=view]").evaluate_all("all => all.map((one) => one.value)")
    return [name for name in names if name != "why"]


#: The size of the smallest letters, what has no room for the ring of its focus, and words that a picture cuts off.
SIZES = """() => {
  const shown = [...document.querySelectorAll("main *")].filter((one) => one.checkVisibility());
  const written = shown.filter((one) => [...one.childNodes].some((node) => node.nodeType === 3 && node.data.trim()));
  const sizes = written.map((one) => {
    const svg = one.ownerSVGElement;
    return parseFloat(getComputedStyle(one).fontSize) * (svg ? svg.getScreenCTM().a : 1);
  });
  const ring = 4; // its width and its distance
  const clipped = ["#examples button", "main .chip", "main canvas.over[tabindex]"].filter((name) => {
    const one = document.querySelector(name);
    if (!one?.checkVisibility()) return false;
    let around = one.parentElement;
    while (around && getComputedStyle(around).overflow === "visible") around = around.parentElement;
    if (!around || around === document.documentElement) return false;
    const [inner, outer] = [one, around].map((each) => each.getBoundingClientRect());
    return inner.left - outer.left + around.scrollLeft < ring || inner.top - outer.top + around.scrollTop < ring;
  });
  const cut = [...document.querySelectorAll("main svg .word")].filter((one) => {
    const [word, svg] = [one, one.ownerSVGElement].map((each) => each.getBoundingClientRect());
    return word.left < svg.left - 1 || word.right > svg.right + 1;
  }).map((one) => one.textContent);
  const tiles = [...document.querySelectorAll("main .tile")].filter((one) => one.scrollWidth > one.clientWidth);
  cut.push(...tiles.map((one) => one.innerText));
  return [Math.min(...sizes), clipped, cut];
}"""


def in_order(page, name):
    """Nothing too wide, no text too small, no ring of the focus cut off, and nothing that axe finds."""
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), name
    smallest, clipped, cut = page.evaluate(SIZES)
    assert smallest >= 10, (name, smallest)
    assert not clipped, name
    assert not cut, (name, cut)
    found = violations(page)
    assert not found, (name, found)


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_person_does_first(site, open_page, kind):
    _, _, opens, shows, patched = KINDS[kind]
    page = open_page(f"{site.base_url}/?model={kind}")
    downloads = []
    page.on("download", lambda one: downloads.append(one))
    ready(page)
    page.select_option("[name=format]", "svg")  # a choice alone saves nothing
    # The first screen: its examples, of which the first is run; what it takes, in the view that suits it.
    examples = page.locator("#examples button")
    assert examples.count() >= 3
    assert examples.locator("img, canvas").count() == (examples.count() if kind in OF_FILES else 0)
    assert examples.first.get_attribute("aria-pressed") == "true"
    assert page.locator("[name=view]:checked").get_attribute("value") == opens
    expect(page.locator(shows).first).to_be_visible()
    takes = {"[name=text]": kind not in OF_FILES[:3], "[name=file]": kind in OF_FILES}
    assert {field: page.locator(field).is_visible() for field in takes} == takes
    # Another example; pointing at an output and pinning it.
    examples.nth(1).click()
    expect(examples.nth(1)).to_have_attribute("aria-pressed", "true")
    ready(page)
    remembers(page, examples)
    says_what_its_card_means(page, kind)
    chip = page.locator(".rows .chip").first
    chip.hover()
    assert "on" in chip.get_attribute("class").split()
    if page.locator(".rows .chip").count() > 1:
        chip.click()
        assert chip.get_attribute("aria-pressed") == "true"
    # The film, to its end.
    if page.locator("input[name=film]").count():
        page.get_by_role("slider", name="step of decoding").press("Home")
        ahead = page.locator(".rows .chip.ahead")
        assert ahead.count() == page.locator(".rows .chip").count() - 1
        assert page.locator(".next li").count() == 5
        page.get_by_role("button", name="Play").click()
        expect(ahead).to_have_count(0, timeout=20_000)
        # Another word than the one that was written: the model goes on from there, after a prompt as well.
        page.get_by_role("slider", name="step of decoding").press("Home")
        other = page.locator(".next button").filter(has_not_text="</s>").first
        word = other.locator("bdi").inner_text().strip()
        other.click()
        page.wait_for_url("**prefix=**")
        ready(page)
        given, wrote = page.locator("#seen .headline bdi").all_inner_texts()
        assert wrote.startswith(word)
        assert wrote != given  # what it wrote, and not the prompt again
    else:
        assert kind in ("series", "question and document")  # they write no text
    # Heads, one of them large, a weight of it.
    page.get_by_role("radio", name="Heads").check()
    ready(page)
    assert page.locator(".tile .framed img").count() == (page.locator(".tile").count() if "picture" in kind else 0)
    page.locator(".tile .open").last.click()
    ready(page)
    assert page.locator("[name=view]:checked").get_attribute("value") == "matrix"
    special = page.locator("main .chip.special").count() > 0  # else there is nothing to leave out
    assert page.get_by_label("special tokens").count() == special
    page.locator("main canvas.over").first.press("Enter")
    dialog = page.get_by_role("dialog", name="computation of this weight")
    dialog.locator("dl").wait_for()
    in_order(page, "weight")
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    for scheme, width in (("light", 1920), ("dark", 390)):
        page.emulate_media(color_scheme=scheme)
        page.set_viewport_size({"width": width, "height": 900})
        for view in views(page):
            page.locator(f"[name=view][value={view}]").check()
            ready(page)
            in_order(page, f"{view}, {scheme}")
    assert not downloads
    page.set_viewport_size({"width": 1280, "height": 900})
    another_input_is_patched(page, kind, patched)
    stands_beside_another(page, kind)
    shows_how_it_trained(page, site, kind)


def remembers(page, examples):
    """A step back and forth, what was asked before, and a link: each brings the same again."""
    headline, link = page.locator("#seen .headline").inner_text(), page.url
    expect(page.locator("#asked li")).to_have_count(2)
    page.go_back()
    expect(examples.first).to_have_attribute("aria-pressed", "true")
    ready(page)
    page.locator("#asked summary").click()
    page.locator("#asked a").last.click()  # the latest stands first
    page.wait_for_url(link)
    ready(page)
    expect(page.locator("#seen .headline")).to_have_text(headline)
    page.reload()
    ready(page)
    expect(page.locator("#seen .headline")).to_have_text(headline)


def says_what_its_card_means(page, kind):
    """In a sentence with a number; and, where there is something to leave out, whether the model needs it."""
    expect(page.locator(".card .sentence")).to_have_text(re.compile(r"looks at about [\d.]+ of \d+ places"))
    more = page.get_by_role("button", name="Measure faithfulness")
    if more.count():
        more.click()
        if kind == "question and document":  # rows are words of the question
            expect(page.locator(".card [role=status]")).to_contain_text("these rows are not output steps")
            return
        told = re.compile(r"Without the top parts of the input, .*\d.*weights")
        expect(page.locator(".card .sentence")).to_have_text(told, timeout=30_000)  # the model is asked many times


def another_input_is_patched(page, kind, by):
    """The second input is chosen among the examples; where both are not of one length, a sentence says so."""
    page.locator("[name=view][value=why]").check()
    page.select_option("[name=why]", f"patching {by}")
    expect(page.locator("main [role=status]")).to_contain_text("Enter a second input")
    other = page.locator(".asks .examples button").nth(2)
    with page.expect_response(lambda one: '"how":"patching"' in (one.request.post_data or "")) as asked:
        other.click()
    assert asked.value.request.post_data_json["by"] == by
    expect(page.locator(".asks .examples button").nth(2)).to_have_attribute("aria-pressed", "true")
    assert asked.value.ok == (kind in ("text", "picture", "series"))
    if asked.value.ok:
        expect(page.locator("h2.answer")).to_contain_text("Effect of")
    else:
        expect(page.locator("main .wrong")).to_have_text(
            re.compile("need the same length|give this answer the same score")
        )
    in_order(page, "why")


def stands_beside_another(page, kind):
    """Each with its own output; both with the same one, where an output can be given."""
    page.select_option("[name=against]", f"another {kind}")
    page.locator("main .trio").wait_for()
    ready(page)
    names = page.locator(".trio figcaption b").all_inner_texts()
    assert names[:2] == [f"{kind} (raw)", f"another {kind} (raw)"]
    same = page.get_by_label("Use the same output for both")
    assert same.is_visible() == (kind != "series")
    if same.is_visible():
        with page.expect_request(lambda one: f'"another {kind}"' in (one.post_data or "")) as asked:
            same.check()
        assert asked.value.post_data_json["output"] is not None
        ready(page)
    in_order(page, "side by side")


def shows_how_it_trained(page, site, kind):
    page.goto(f"{site.base_url}/runs?run={kind}")
    step = page.locator("#looks input[name=step]")
    step.wait_for()
    expect(page.locator("#looks .stage[aria-busy=false]")).to_have_count(1)
    drawn = "#looks .framed img" if kind.startswith("picture") else "#looks canvas"
    expect(page.locator(drawn).first).to_be_visible()
    step.press("Home")
    expect(page.locator("#looks .slider output").first).to_have_text("step 10")
    assert page.locator("#looks [name=input] option").count() == 2
    link = page.get_by_role("link", name="Open this model")
    expect(link).to_have_attribute("href", f"/?{urlencode({'model': kind})}")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_a_word_outside_the_vocabulary_is_told(site, open_page):
    page = open_page(f"{site.base_url}/?model=text&text=this+chair+\N{CJK UNIFIED IDEOGRAPH-72AC}")
    expect(page.locator("main .warning")).to_contain_text("Not in the vocabulary")


def test_long_inputs_and_one_saturated_row_stay_readable(open_page, tmp_path):
    """A thousand words are looked at; one row looks at one of them alone."""
    words = [f"word{i}" for i in range(1000)]
    weights = np.random.default_rng(0).dirichlet(np.full(1000, 0.02), 20).astype(np.float32)
    weights[3] = np.eye(1000, dtype=np.float32)[7]
    record = look.record(weights, words[:20], look.axis(words), input=" ".join(words), output="short")
    page = open_page(look.save(record, tmp_path / "long.html", against=record).as_uri())
    page.locator(".stage[aria-busy=false]").wait_for()
    assert len(page.locator("h1").inner_text()) < 120
    assert page.locator(".trio .scale").count() == 3  # of both, and of their difference
    page.get_by_role("radio", name="Matrix").check()
    top = float(page.locator(".scale").inner_text().split()[1])
    assert top == pytest.approx(np.quantile(weights.max(1), 0.75, method="lower"), abs=0.006)
    assert top < 0.9
    assert page.locator(".scale").inner_text().endswith("and more")
    page.get_by_role("radio", name="Lines").check()
    page.locator("svg .line").first.wait_for()
    assert page.locator("svg .line").count() <= 20 * 6  # a few of each row, and no solid surface
