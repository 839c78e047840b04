"""One file: the model, the runtime, the page. It opens from the disk, and no connection is made to anywhere."""

import re
from importlib.resources import files
from typing import Any

from regard.look import html as look

RUNTIME = (
    "vectors.js", "module.js", "layers.js", "positions.js", "scores.js", "attention.js", "transformer.js",
    "recurrent.js", "images.js", "models.js", "classes.js", "load.js", "search.js", "tokenizer.js", "record.js",
    "weight.js", "answer.js",
)  # fmt: skip
START = 'begin(document.getElementById("regard"), JSON.parse(document.getElementById("regard-data").textContent));\n'


def whole_page(tree: dict[str, Any], title: str) -> str:
    """`tree`: {about, model, check?}, see `page/main.js`."""
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
    """In a scope of its own, which it leaves under two names."""
    modules = "\n".join(_script("regard.exporters.html", f"runtime/{name}") for name in RUNTIME)
    return f"const {{ Exported, Tokenizer }} = (() => {{\n{modules}\nreturn {{ Exported, Tokenizer }};\n}})();"


def _script(package: str, name: str) -> str:
    return re.sub(r"^import .*?;\n|^export ", "", _read(package, name), flags=re.MULTILINE)


def _read(package: str, name: str) -> str:
    return (files(package) / name).read_text(encoding="utf-8")
