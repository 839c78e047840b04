"""What the served page adds to an exported one, in a real browser that may ask this service and nobody else."""

import os
import shutil

import pytest

from test_serve import run, serving  # noqa: F401  (run is a fixture)

from regard.serve.limits import Limits  # isort: skip

playwright = pytest.importorskip("playwright.sync_api", reason="browser tests need Playwright: pip install playwright")
axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="pip install axe-playwright-python")
CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium: apt-get install chromium, or CHROMIUM=path"),
]
TEXT = "one red cat"


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture
def visit(browser):
    """Opens an address; what goes wrong there, or asks for another host, fails the test."""
    wrong, contexts = [], []

    def opened(address, *, scheme="light", size=(1280, 900)):
        context = browser.new_context(color_scheme=scheme, viewport={"width": size[0], "height": size[1]})
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)

        here = "/".join(address.split("/", 3)[:3])

        def only_here(route):
            if route.request.url.startswith((here, "data:", "blob:")):
                return route.continue_()
            wrong.append(route.request.url)
            return route.abort()

        page.route("**/*", only_here)
        page.goto(address)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert not wrong, wrong


@pytest.fixture(scope="module")
def client(run):  # noqa: F811
    with serving({"pairs": run}, Limits()) as client:
        yield client


def no_violations(page):
    found = axe.Axe().run(page)
    assert found.violations_count == 0, found.generate_report()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_click_on_a_weight_says_how_it_came_about(visit, client, run, scheme):  # noqa: F811
    page = visit(f"{client.base_url}/?text=one+red+cat#kind=cross&layer=1&head=0", scheme=scheme)
    canvas = page.locator("canvas.over").first
    canvas.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog", name="how this weight came about")
    found = run.weight(TEXT, 1, 0, kind="cross", layer=1, head=0)
    dialog.locator("dl").wait_for()
    assert dialog.locator("h2").inner_text() == found.title
    assert dialog.locator("dt").all_inner_texts() == [name for name, _ in found.steps()]
    assert found.equation in dialog.inner_text()
    assert dialog.locator("[aria-current] th").inner_text() == found.column_label
    assert dialog.locator(".terms tr").count() == 8
    no_violations(page)
    page.keyboard.press("Escape")
    assert dialog.count() == 0
    box = canvas.bounding_box()
    page.mouse.click(box["x"] + box["width"] * 0.55, box["y"] + box["height"] * 0.8)
    dialog.locator("dl").wait_for()
