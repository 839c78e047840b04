"""Export a run as one HTML file that holds the page, the model and a small JavaScript runtime (`runtime/`).

The check runs in Chromium or Chrome, which opens the file from the disk without a network.
"""

import base64
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from html import unescape
from importlib.resources import files
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from regard.api import Run
from regard.errors import CallError, RegardError
from regard.exporters.base import Comparison, ExportPlan, ExportRequest, Format
from regard.exporters.html.payload import described_input, described_output, module_tree, payload
from regard.exporters.proof import is_tie, round_weights
from regard.look import html as look
from regard.look.axis import to_png
from regard.look.methods import METHODS
from regard.look.records import KINDS
from regard.tasks.result import LookOptions

# One file with the model, the runtime and the page. It opens from the disk and makes no connection.

RUNTIME = (
    "vectors.js", "module.js", "layers.js", "positions.js", "scores.js", "attention.js", "transformer.js",
    "recurrent.js", "images.js", "models.js", "classes.js", "load.js", "search.js", "tokenizer.js", "record.js",
    "weight.js", "answer.js",
)  # fmt: skip
START = 'begin(document.getElementById("regard"), JSON.parse(document.getElementById("regard-data").textContent));\n'


def whole_page(tree: dict[str, Any], title: str) -> str:
    """Return the page for `tree`: {about, model, check?}, see `page/main.js`."""
    parts = [
        look.script(),
        _script("regard.serve", "page/examples.js"),
        runtime(),
        _script("regard.exporters.html", "page/main.js"),
        START,
    ]
    return look.document_page(
        tree, title, style=look.style() + _read("regard.serve", "page/serve.css"), script="\n".join(parts)
    )


def runtime() -> str:
    """Return the JavaScript of the runtime, in a scope that exposes two names."""
    modules = "\n".join(_script("regard.exporters.html", f"runtime/{name}") for name in RUNTIME)
    return f"const {{ Exported, Tokenizer }} = (() => {{\n{modules}\nreturn {{ Exported, Tokenizer }};\n}})();"


def _script(package: str, name: str) -> str:
    return re.sub(r"^import .*?;\n|^export ", "", _read(package, name), flags=re.MULTILINE)


def _read(package: str, name: str) -> str:
    return (files(package) / name).read_text(encoding="utf-8")


FILE = "index.html"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
PATIENCE = 300  # seconds for a browser to compute all inputs of a check
EXAMPLES = 6


class Html(Format):
    name: ClassVar[str] = "html"
    dtypes: ClassVar[tuple[str, ...]] = ("float16", "float32")

    def plan(self, request: ExportRequest) -> ExportPlan:
        return HtmlPlan(request.run, request.dtype)

    def require(self, *, check: bool) -> None:
        if check and browser() is None:
            raise CallError(
                "the check of an html export needs Chromium or Chrome on the PATH: install one, "
                "or export with --no-check"
            )


class HtmlPlan(ExportPlan):
    library = "regard"
    tags = ("attention", "html")
    how = f"Open {FILE} in a browser, from the disk or a server. It needs no network and sends nothing."

    def __init__(self, run: Run, dtype: str) -> None:
        self.run, self.dtype = run, dtype
        self.input, self.output = described_input(run), described_output(run)  # these raise a RefusalError
        _, numbers = module_tree(run.model)
        size = sum(one.numel() for one in numbers.tensors) * (2 if dtype == "float16" else 4) * 4 / 3
        numbers_only = f"{size / 1e6:.1f} MB are the numbers of the model"
        self.announced = f"{FILE} will have about {size / 1e6 + 0.2:.1f} MB, of which {numbers_only}"

    def write(self, folder: Path) -> None:
        (folder / FILE).write_text(self._page(), encoding="utf-8")

    def compare(self, folder: Path, inputs: Sequence[Any]) -> Iterator[Comparison]:
        expected = [expected_of(self.run, self.output["kind"], one) for one in inputs]
        with tempfile.TemporaryDirectory() as place:  # the same page, with the inputs of the check
            page = Path(place) / "check.html"
            page.write_text(self._page([asked for _, asked in expected]), encoding="utf-8")
            answers = _answers(page)
        for one, (said, _), answer in zip(inputs, expected, answers, strict=True):
            name, theirs = self.run.job.input.name(one), answer["said"]
            far = float("nan") if answer["difference"] is None else float(answer["difference"])
            yield Comparison(name, far, answer["place"], said, theirs, is_tie(self.run, one, said, theirs))

    def stand_in(self, folder: Path) -> nn.Module:
        """Return the model with float16 weights; the page computes in higher precision."""
        return round_weights(self.run.model, getattr(torch, self.dtype))

    def _page(self, check: list[dict[str, Any]] | None = None) -> str:
        run = self.run
        tree = {
            "about": _about(run, [] if check else _examples(run)),
            "model": payload(run, self.dtype),
            "check": check,
        }
        return whole_page(tree, run.folder.name)


def _about(run: Run, examples: list[dict[str, Any]]) -> dict[str, Any]:
    parameters = sum(one.numel() for one in run.model.parameters())
    line = f"{run.recipe.about or run.recipe.job}. {parameters:,} parameters, all of them in this file."
    input = described_input(run)
    if input.get("windows"):
        line += f" Of texts of more than {input['max_length']} tokens, the picture shows the first part."
    return {"name": run.folder.name, "line": line, "examples": examples, "methods": METHODS, "kinds": KINDS}


def _examples(run: Run) -> list[dict[str, Any]]:
    """Return examples of the validation data, if it still exists."""
    try:
        found = run.examples(EXAMPLES)
    except (RegardError, OSError):
        return []
    shown = []
    for number, example in enumerate(found):
        axis = run.job.input.axis(run.job.input.read(example.input))
        right = example.texts[0] if example.texts else ""
        if axis.image is not None:
            shown.append({"text": f"example {number + 1}", "right": right, "image": to_png(axis.image)})
        else:
            shown.append({"text": str(example.input), "right": right})
    return shown


@torch.inference_mode()
def expected_of(run: Run, kind: str, one: Any) -> tuple[str, dict[str, Any]]:
    """Return the output of the run for an input, and the entry of the check with its logits for the page."""
    input, model = run.job.input, run.model
    item = input.read(one)
    source = input.collate([item])
    asked: dict[str, Any] = {"options": {}}
    pixels = getattr(item, "pixels", None)
    asked |= {"text": one} if pixels is None else {"pixels": _encode_numbers(pixels)}
    if kind == "labels":
        return run.job.predict([one])[0].text, {**asked, "ids": [], "logits": _encode_numbers(model.logits(source)[0])}  # pyright: ignore[reportCallIssue]
    told = run.job.output.tell(model, one, LookOptions())[0]
    ids = torch.tensor([told.target])
    if kind == "continuation":
        features, read = model.features(ids[:, :-1]), len(item.ids)  # pyright: ignore[reportCallIssue]
        asked |= {"ids": told.target[read:], "options": {"most": len(told.target) - read}}
    else:
        features = model.features(model.encode(source), ids)  # pyright: ignore[reportCallIssue]
        asked |= {"ids": told.target}
    return told.text, {**asked, "logits": _encode_numbers(model.logits(features)[0].log_softmax(-1))}  # pyright: ignore[reportCallIssue]


def _encode_numbers(numbers: Tensor) -> str:
    return base64.b64encode(numbers.float().contiguous().numpy().tobytes()).decode()


def browser() -> str | None:
    """Return the path of Chromium or Chrome, if installed."""
    return next((found for name in BROWSERS if (found := shutil.which(name))), None)


def _answers(page: Path) -> list[dict[str, Any]]:
    """Open the page from the disk without a network, and return what it wrote."""
    program = browser()
    assert program is not None, "Html.require asks first"
    alone = ["--host-resolver-rules=MAP * ~NOTFOUND", f"--user-data-dir={page.parent / 'browser'}"]
    rights = ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []  # Chromium requires it for root
    command = [program, "--headless", "--disable-gpu", *rights, *alone, "--dump-dom", page.as_uri()]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    except subprocess.TimeoutExpired:
        raise RegardError(f"{program} did not answer in {PATIENCE} seconds: export with --no-check") from None
    found = re.search(r'<pre id="checked">(.*?)</pre>', done.stdout, re.DOTALL)
    if found is None:
        raise RegardError(f"the page did not answer in {program}: {done.stderr[-300:].strip()}")
    return json.loads(unescape(found[1]))
