"""The files of the web page: its modules, and the API description as plain HTML. Nothing is loaded from other sites."""

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from html import escape
from importlib.resources import files
from pathlib import Path
from threading import Lock
from typing import Any

from fastapi import FastAPI, Query
from fastapi.responses import RedirectResponse

from regard.errors import nearest
from regard.light.session import is_export
from regard.look.history import load_history
from regard.look.html import MODULES, STYLES, history_document
from regard.report.run import ATTENTION, REFERENCE, fragment, run_sections, side_by_side
from regard.report.run_files import RunFiles, runs_in, unused_name
from regard.serve import schemas
from regard.serve.errors import RefusedError
from regard.settings.recipe import CONFIG

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


# The page of runs: training curves from the files of runs, one by one or compared. No model is used.
#
# A run is looked up by its name among the given ones and those in a folder of runs at this moment; a client never
# sends a path.

MOST = 10  # runs in a comparison: as many as there are colors


class RunFolders:
    """Folders of runs. `served`: runs of models by name; `folders`: runs, or folders searched at every request."""

    def __init__(self, served: Mapping[str, Path], folders: Iterable[Path] = ()) -> None:
        self._served, self._folders = dict(served), list(folders)
        self._known: dict[Path, RunFiles] = {}
        self._lock = Lock()

    def all(self) -> dict[str, RunFiles]:
        """Return the runs by folder name, sorted; equal names are numbered."""
        found = {name: self._known.setdefault(folder, RunFiles(folder, name)) for name, folder in self._served.items()}
        taken = set(self._served.values())
        for given in self._folders:
            for folder in runs_in(given) or [given]:
                if (folder / CONFIG).is_file() and folder not in taken and not is_export(folder):
                    name = unused_name(folder, found)
                    found[name] = self._known.setdefault(folder, RunFiles(folder, name))
        return found

    def chosen(self, names: list[str]) -> list[RunFiles]:
        runs = self.all()
        if not names or len(names) > MOST:
            raise RefusedError(422, f"{len(names)} runs: name one to {MOST} of them, as run=NAME", "run")
        for name in names:
            if name not in runs:
                raise RefusedError(404, f"no run {name[:100]!r}{nearest(name[:100], runs)}", "run")
        return [runs[name] for name in names]

    def report(self, names: list[str], since: str) -> schemas.RunReport:
        """Return the report. One request at a time, since a run's records are read incrementally."""
        with self._lock:
            runs = self.chosen(names)
            version = " ".join(run.version for run in runs)
            if version == since:
                return schemas.RunReport(version=version, html=None)
            sections = run_sections(runs[0], {}) if len(runs) == 1 else side_by_side(runs)
            return schemas.RunReport(version=version, html=fragment(sections))

    def listed(self) -> schemas.Runs:
        with self._lock:
            return schemas.Runs(runs=[_list_entry(name, run) for name, run in self.all().items()])

    def looks(self, name: str, number: int) -> dict[str, Any]:
        (run,) = self.chosen([name])
        return history_document(load_history(run.folder, number)) | {"title": ATTENTION, "note": REFERENCE}


def _list_entry(name: str, run: RunFiles) -> schemas.RunOut:
    records, config = run.records(), run.config
    best = next((one["scores"] for one in reversed(records) if one["kind"] == "validation" and one["best"]), {})
    return schemas.RunOut(
        name=name, state=run.state, job=str(config.get("job", "")), about=str(config.get("about", "")),
        step=records[-1]["step"] if records else 0, seconds=records[-1]["seconds"] if records else 0.0,
        done=run.share_done(), best=best, looks=run.validations,
        inputs_watched=run.inputs_watched,
    )  # fmt: skip


def add_run_pages(app: FastAPI, folders: RunFolders, *, is_first: bool) -> None:
    """Add the page of runs. `is_first`: no models are served, so this is the start page."""

    @app.get("/api/runs", summary="List the runs and their progress")
    async def runs() -> schemas.Runs:
        return await asyncio.to_thread(folders.listed)

    @app.get("/api/runs/report", summary="Return the report of one run, or a comparison of several, as HTML")
    async def report(
        run: list[str] = Query([], max_length=100),  # noqa: B008
        since: str = Query(
            "", max_length=10_000, description="the version that the client has; html is null if it is current"
        ),
    ) -> schemas.RunReport:
        return await asyncio.to_thread(folders.report, run, since)

    @app.get("/api/runs/looks", include_in_schema=False)
    async def looks(run: str, number: int = Query(0, ge=0, le=9999)) -> dict[str, Any]:
        return await asyncio.to_thread(folders.looks, run, number)

    if is_first:

        @app.get("/", include_in_schema=False)
        async def first() -> RedirectResponse:
            return RedirectResponse("/runs")
