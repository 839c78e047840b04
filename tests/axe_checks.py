"""What axe finds on a page. It is loaded once into each page, and only what is wrong comes back, which is quicker."""

from typing import Any

import pytest

axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="pip install axe-playwright-python")
RUN = """() => axe.run(document, { resultTypes: ["violations"] }).then(({ violations }) =>
  violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ target }) => target.join(" ")).join(", ")}`))"""


def violations(page: Any) -> list[str]:
    if not page.evaluate("'axe' in window"):
        page.evaluate(axe.Axe().axe_script)
    return page.evaluate(RUN)
