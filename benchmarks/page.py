"""Speed of the page in a browser: a matrix of 1,024 × 1,024, a text of 1,000 words, 48 heads.

    python benchmarks/page.py

click     milliseconds from a click that changes the view to the frame in which all of it that is in sight is painted
hover     milliseconds that pointing at a word or a cell takes: the median and the worst of 50
frames    a second, while the pointer moves over a view
Pass: at most 100 ms a click and 16 ms a hover, on two cores. Needs Chromium and Playwright (`pip install playwright`).
"""

import os
import shutil
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from rich.console import Console
from rich.table import Table

from regard import look

CLICK, HOVER = 100.0, 16.0  # milliseconds
CHOOSE = """async (view) => {
  const radio = document.querySelector(`[name=view][value=${view}]`), began = performance.now();
  radio.click();
  const stage = document.querySelector(".stage");
  while (stage.getAttribute("aria-busy") !== "false") await new Promise((next) => setTimeout(next));
  // A map is painted when it is about to be seen, which is told after a first frame; the second has them all.
  for (let frame = 0; frame < 2; frame++) await new Promise(requestAnimationFrame);
  document.body.getBoundingClientRect();
  return performance.now() - began;
}"""
POINT = """async (selector) => {
  const all = [...document.querySelectorAll(selector)];
  const some = Array.from({ length: 50 }, (_, i) => [all[(i * 7) % all.length], i / 50]);
  const spent = [], began = performance.now();
  for (const [one, share] of some) {
    const box = one.getBoundingClientRect();
    const [clientX, clientY] = [box.x + box.width * (0.3 + share / 2), box.y + box.height * 0.6];
    const start = performance.now();
    one.dispatchEvent(new PointerEvent("pointerover", { bubbles: true }));
    one.dispatchEvent(new PointerEvent("pointermove", { bubbles: true, clientX, clientY }));
    document.body.getBoundingClientRect(); // and the layout that it causes
    spent.push(performance.now() - start);
    await new Promise(requestAnimationFrame);
  }
  spent.sort((a, b) => a - b);
  return [spent[25], spent[49], (1000 * some.length) / (performance.now() - began)];
}"""


def words(count: int) -> look.Axis:
    names = [f"word{i}" for i in range(count)]
    return look.axis(names, words=range(count))


def records() -> dict[str, tuple[look.AttentionRecord, str, str]]:
    """Each with the view that is chosen, and what is pointed at in it."""
    chance = np.random.default_rng(0)
    large = chance.dirichlet(np.ones(1024), 1024).astype(np.float32)
    many = chance.dirichlet(np.ones(40), (4, 12, 40)).astype(np.float32)
    long = chance.dirichlet(np.ones(1000), 30).astype(np.float32)
    return {
        "matrix of 1,024 × 1,024": (look.record(large, words(1024)), "matrix", "canvas.over"),
        "1,000 words, 30 written": (look.record(long, words(30), words(1000)), "text", ".rows .chip"),
        "48 heads of 40 × 40": (look.record(list(many), words(40), words(40)), "grid", ".rows .chip"),
    }


def main() -> int:
    from playwright.sync_api import sync_playwright

    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    table, slow = Table("page", "click ms", "hover ms", "worst", "frames/s"), False
    with sync_playwright() as started, TemporaryDirectory() as folder:
        browser = started.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for name, (record, view, selector) in records().items():
            page = browser.new_page(viewport={"width": 1280, "height": 900})
            page.goto(look.save(record, Path(folder) / "page.html").as_uri())
            page.locator(".stage[aria-busy=false]").wait_for()
            clicks = []
            for _ in range(3):
                page.evaluate(CHOOSE, "lines" if view == "text" else "text")
                clicks.append(page.evaluate(CHOOSE, view))
            hover, worst, frames = page.evaluate(POINT, selector)
            slow |= sorted(clicks)[1] > CLICK or hover > HOVER
            table.add_row(name, f"{sorted(clicks)[1]:.0f}", f"{hover:.1f}", f"{worst:.1f}", f"{frames:.0f}")
            page.close()
        browser.close()
    Console().print(table)
    return int(slow)


if __name__ == "__main__":
    sys.exit(main())
