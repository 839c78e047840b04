"""The files of the web page: its modules, and the API description as plain HTML. Nothing is loaded from other sites."""

from collections.abc import Iterator, Mapping
from html import escape
from importlib.resources import files
from typing import Any

from regard.look.html import MODULES, STYLES

OWN = (
    "serve.js", "form.js", "asking.js", "asked.js", "examples.js", "files.js", "microphone.js", "other_input.js",
    "runs.js", "serve.css",
)  # fmt: skip
TYPES = {"js": "text/javascript", "css": "text/css"}


def page_files() -> dict[str, tuple[bytes, str]]:
    """Return path → content and media type. Exported pages use the same drawing modules."""
    own, views = files("regard.serve") / "page", files("regard.look") / "page"
    found = {"/": (own / "index.html").read_bytes(), "/runs": (own / "runs.html").read_bytes()}
    found |= {f"/page/{name}": (views / name).read_bytes() for name in (*MODULES, "page.css", "report.css", *STYLES)}
    found |= {f"/page/{name}": (own / name).read_bytes() for name in OWN}
    return {path: (content, TYPES.get(path.rpartition(".")[2], "text/html")) for path, content in found.items()}


def description(tree: Mapping[str, Any]) -> str:
    """Return the OpenAPI description as HTML."""
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>regard: the API</title>
<link rel="stylesheet" href="/page/page.css">
<link rel="stylesheet" href="/page/style.css">
<link rel="stylesheet" href="/page/serve.css">
</head>
<body>
<main class="regard docs">
<h1>The API</h1>
<p>{escape(tree["info"]["description"])} For programs: <a href="/openapi.json">openapi.json</a>.</p>
{"".join(_operations(tree))}
</main>
</body>
</html>
"""


def _operations(tree: Mapping[str, Any]) -> Iterator[str]:
    schemas = tree["components"]["schemas"]
    for path, methods in tree["paths"].items():
        for method, operation in methods.items():
            yield f"<h2><code>{method.upper()} {escape(path)}</code></h2>\n<p>{escape(operation['summary'])}</p>\n"
            body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
            if "$ref" in body:
                schema = schemas[body["$ref"].rpartition("/")[2]]
                yield f"<p>{escape(schema.get('description', ''))}</p>\n{_table(schema)}"
            answers = {code: one["description"] for code, one in operation["responses"].items() if code != "200"}
            if answers:
                yield f"<p>{'; '.join(f'{code}: {escape(text)}' for code, text in answers.items())}</p>\n"


def _table(schema: Mapping[str, Any]) -> str:
    needed = schema.get("required", ())
    rows = "".join(
        f"<tr><th scope='row'><code>{escape(name)}</code></th><td>{escape(_kind(field))}"
        f"{' (needed)' if name in needed else ''}</td><td>{escape(field.get('description', ''))}</td></tr>\n"
        for name, field in sorted(schema["properties"].items(), key=lambda item: item[0] not in needed)
    )
    head = "<tr><th>field</th><th>type</th><th>meaning</th></tr>"
    return f"<table><thead>{head}</thead>\n<tbody>{rows}</tbody></table>\n"


def _kind(field: Mapping[str, Any]) -> str:
    """Return a field's type, such as `integer 1 to 32`, `list of string`, `cross | encoder | decoder`."""
    if "anyOf" in field:
        return " | ".join(kind for one in field["anyOf"] if (kind := _kind(one)) != "null")
    if "enum" in field:
        return " | ".join(map(str, field["enum"]))
    if field.get("type") == "array":
        return f"list of {_kind(field['items'])}"
    bounds = [field.get("minimum", field.get("exclusiveMinimum")), field.get("maximum", field.get("exclusiveMaximum"))]
    return f"{field.get('type', '')}{f' {bounds[0]:g} to {bounds[1]:g}' if None not in bounds else ''}"
