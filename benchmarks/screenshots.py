"""The pictures of the page in README.md and docs/, taken of the page itself, so that they stay true.

    python benchmarks/screenshots.py [RUNS]     # or: make pictures

RUNS is a folder of runs by the names of their recipes; what is not there is trained first, for two minutes at the most.
Each picture is at most 200 KB. Needs Chromium and Playwright (`pip install playwright`).
"""

import os
import shutil
import sys
import threading
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any, Literal, NamedTuple

from PIL import Image

import regard
from regard.serve.app import create_app
from regard.serve.command import listen
from regard.serve.limits import Limits
from regard.serve.server import Server

PICTURES = Path(__file__).parents[1] / "docs" / "pictures"
LARGEST = 200_000  # bytes
SENTENCE = "text=The+black+hats+were+newer+than+the+red+windows."


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
    page.locator(".rows .chip").nth(2).click()


SHOTS = [
    Shot("film", "translate-recurrent", SENTENCE, act=film),
    Shot("heads", "translate-transformer", f"{SENTENCE}#view=grid", scheme="dark", act=point_at_a_word),
    Shot("side-by-side", "translate-recurrent", f"{SENTENCE}&against=translate-transformer"),
    Shot("caption", "shapes-caption", scheme="dark", act=point_at_a_word),
    Shot("forecast", "stocks-forecast"),
    Shot("phone", "tones", width=390, scheme="dark"),
]


def trained(folder: Path, recipe: str) -> regard.Run:
    place = folder / recipe
    if not (place / "summary.json").is_file():
        regard.train(recipe, output=place, time_limit="2m")
    return regard.load(place)


def small(content: bytes) -> bytes:
    """As few colors as it takes."""
    for colors in (0, 256, 96, 48):
        image = Image.open(BytesIO(content)).convert("RGB")
        file = BytesIO()
        (image.quantize(colors) if colors else image).save(file, format="PNG", optimize=True)
        if file.tell() <= LARGEST:
            return file.getvalue()
    raise SystemExit(f"a picture has {file.tell():,} bytes in {colors} colors: more than {LARGEST:,}")


def main(folder: Path) -> None:
    from playwright.sync_api import sync_playwright

    runs = {shot.recipe: trained(folder, shot.recipe) for shot in SHOTS}
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    PICTURES.mkdir(exist_ok=True)
    with listen("127.0.0.1", 0) as place, sync_playwright() as started:
        server = Server(create_app(runs, Limits()), Limits())
        thread = threading.Thread(target=server.run, kwargs={"sockets": [place]})
        thread.start()
        browser = started.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for name, recipe, search, width, scheme, act in SHOTS:
            page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
            query, _, view = search.partition("#")
            page.goto(f"http://127.0.0.1:{place.getsockname()[1]}/?model={recipe}&{query}#{view}")
            page.locator("#seen .stage[aria-busy=false]").wait_for()
            act(page)
            page.wait_for_timeout(500)
            file = PICTURES / f"{name}.png"
            file.write_bytes(small(page.screenshot(full_page=True)))
            print(f"{file.relative_to(PICTURES.parents[1])}: {file.stat().st_size / 1000:.0f} KB")
            page.close()
        browser.close()
        server.should_exit = True
        thread.join()


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "runs/pictures"))
