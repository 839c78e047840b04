"""The pictures of the page in README.md and docs/, taken of the page itself, so that they stay true.

    python benchmarks/screenshots.py [RUNS]                   # or: make pictures; --only tag,answer: these alone
    python benchmarks/screenshots.py RUNS --every FOLDER      # to look at: each view of each run

RUNS is a folder of runs by the names of their recipes; what is not there is trained first, for two minutes at the most.
squad is trained from data in the folder REGARD_DATA, for ten; without that folder, its picture stays as it was.
Each picture is at most 200 KB. `--every` takes the runs that are there, at 1920, 1280 and 390 pixels, light and dark,
with their reports, a weight that is explained and the file of a look. Needs Chromium and Playwright
(`pip install playwright`).
"""

import argparse
import os
import re
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any, Literal, NamedTuple

from PIL import Image

import regard
from regard import api
from regard.errors import RegardError
from regard.serve.app import create_app
from regard.serve.command import listen
from regard.serve.errors import Limits
from regard.serve.server import Server

PICTURES = Path(__file__).parents[1] / "docs" / "pictures"
DATA = {"squad": "squad/train-part-v1.1.json"}  # what is no recipe is trained from data
LARGEST = 200_000  # bytes
SENTENCE = "text=The+black+hats+were+newer+than+the+red+windows."


READY = "#seen .stage[aria-busy=false]"
WIDTHS = (1920, 1280, 390)
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")


class Shot(NamedTuple):
    name: str
    recipe: str
    search: str = ""
    width: int = 1280
    scheme: Literal["light", "dark"] = "light"
    act: Callable[[Any], None] = lambda page: None


def film(page: Any) -> None:
    page.locator("input[name=film]").focus()
    page.keyboard.press("Home")
    for _ in range(3):
        page.keyboard.press("ArrowRight")


def point_at_a_word(page: Any) -> None:
    chips = page.locator(".rows .chip")
    if chips.count() > 1:
        chips.nth(min(2, chips.count() - 2)).click()  # and not the end of a sentence


def another_question(page: Any) -> None:
    page.locator("#examples button").nth(2).click()
    page.locator(READY).wait_for()
    page.wait_for_timeout(1500)


SHOTS = [
    Shot("film", "translate-recurrent", SENTENCE, act=film),
    Shot("heads", "translate-transformer", f"{SENTENCE}#view=grid", scheme="dark", act=point_at_a_word),
    Shot("side-by-side", "translate-recurrent", f"{SENTENCE}&against=translate-transformer"),
    Shot("caption", "shapes-caption", scheme="dark", act=point_at_a_word),
    Shot("forecast", "stocks-forecast", act=point_at_a_word),
    Shot("phone", "tones", width=390, scheme="dark"),
    Shot("tag", "tags", act=point_at_a_word),
    Shot("classify", "digits-cnn", scheme="dark"),
    Shot("answer", "squad", act=another_question),
    Shot("generate", "shakespeare", act=point_at_a_word),
    Shot("ask", "shapes-ask", scheme="dark", act=point_at_a_word),
]


def trained(folder: Path, recipe: str) -> regard.Run:
    place = folder / recipe
    if not (place / "summary.json").is_file():
        data = Path(os.environ.get("REGARD_DATA", "data")) / DATA.get(recipe, "")
        regard.train(data if recipe in DATA else recipe, output=place, time_limit="10m" if recipe in DATA else "2m")
    return api.load(place)


def small(content: bytes) -> bytes:
    """As few colors as it takes."""
    for colors in (0, 256, 96, 48):
        image = Image.open(BytesIO(content)).convert("RGB")
        file = BytesIO()
        (image.quantize(colors) if colors else image).save(file, format="PNG", optimize=True)
        if file.tell() <= LARGEST:
            return file.getvalue()
    raise SystemExit(f"a picture has {file.tell():,} bytes in {colors} colors: more than {LARGEST:,}")


@contextmanager
def opened(runs: dict[str, regard.Run], folder: Path) -> Iterator[tuple[Any, str]]:
    """A browser, and the address of a service with these runs."""
    from playwright.sync_api import sync_playwright

    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    with listen("127.0.0.1", 0) as place, sync_playwright() as started:
        server = Server(create_app(runs, Limits(), folders=[folder]), Limits())
        thread = threading.Thread(target=server.run, kwargs={"sockets": [place]})
        thread.start()
        browser = started.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        try:
            yield browser, f"http://127.0.0.1:{place.getsockname()[1]}"
        finally:
            browser.close()
            server.should_exit = True
            thread.join()


def pictures(folder: Path, only: str) -> None:
    shots = [shot for shot in SHOTS if not only or shot.name in only.split(",")]
    runs: dict[str, regard.Run] = {}
    beside = [recipe for shot in shots for recipe in re.findall(r"against=([\w-]+)", shot.search)]
    for recipe in dict.fromkeys([*(shot.recipe for shot in shots), *beside]):
        try:
            runs[recipe] = trained(folder, recipe)
        except RegardError as problem:  # of data that is not here, the picture stays as it was
            print(f"{recipe}: left out: {problem}")
    PICTURES.mkdir(exist_ok=True)
    with opened(runs, folder) as (browser, address):
        for name, recipe, search, width, scheme, act in (shot for shot in shots if shot.recipe in runs):
            page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
            query, _, view = search.partition("#")
            page.goto(f"{address}/?model={recipe}&{query}#{view}")
            page.locator(READY).wait_for()
            act(page)
            page.wait_for_timeout(500)
            file = PICTURES / f"{name}.png"
            file.write_bytes(small(page.screenshot(full_page=True)))
            print(f"{file.relative_to(PICTURES.parents[1])}: {file.stat().st_size / 1000:.0f} KB")
            page.close()


def every(folder: Path, into: Path) -> None:
    """Each view of each run, a weight that is explained, its report, a look as a file, and the page of runs."""
    names = sorted(one.parent.name for one in folder.glob("*/summary.json"))
    runs = {name: api.load(folder / name) for name in names}
    saved = into / "saved"
    saved.mkdir(parents=True, exist_ok=True)
    for name, run in runs.items():
        run.look(run.examples(1)[0].input).save(saved / f"{name}-file.html")
    with opened(runs, folder) as (browser, address):
        for width, scheme in ((width, scheme) for width in WIDTHS for scheme in SCHEMES):
            page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)

            def keep(name: str, page: Any = page, end: str = f"{width}-{scheme}.png") -> None:
                page.evaluate("dispatchEvent(new Event('beforeprint'))")  # maps that are far down, too
                page.wait_for_timeout(200)
                page.screenshot(path=into / f"{name}-{end}", full_page=True)

            for name in names:
                page.goto(f"{address}/?model={name}")
                page.locator(READY).wait_for()
                point_at_a_word(page)
                for view in page.locator("[name=view]").evaluate_all("all => all.map((one) => one.value)"):
                    page.locator(f"[name=view][value={view}]").check()
                    page.locator(READY).wait_for()
                    if view == "why":
                        page.locator("h2.answer, main .wrong").first.wait_for()
                    keep(f"{name}-{view}")
                page.locator("[name=view][value=matrix]").check()
                page.locator(READY).wait_for()
                page.locator("main canvas.over").first.press("Enter")
                page.locator("dialog dl, dialog .wrong").first.wait_for()
                page.screenshot(path=into / f"{name}-weight-{width}-{scheme}.png")
                page.goto((folder / name / "report.html").absolute().as_uri())
                keep(f"{name}-report")
                for file in saved.glob(f"{name}-*.html"):
                    page.goto(file.absolute().as_uri())
                    keep(file.stem)
            page.goto(f"{address}/runs")
            page.locator("#runs tbody th").first.wait_for()
            keep("runs")
            page.close()
    print(f"{len(list(into.glob('*.png')))} pictures in {into}")


if __name__ == "__main__":
    given = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    given.add_argument("runs", type=Path, nargs="?", default=Path("runs/pictures"))
    given.add_argument("--every", type=Path, metavar="FOLDER")
    given.add_argument("--only", default="", metavar="NAMES", help="of pictures, with commas")
    asked = given.parse_args()
    every(asked.runs, asked.every) if asked.every else pictures(asked.runs, asked.only)
