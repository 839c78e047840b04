"""The page of runs: training curves from the files of runs, one by one or compared. No model is used.

A run is looked up by its name among the given ones and those in a folder of runs at this moment; a client never sends
a path.
"""

import asyncio
from collections.abc import Iterable, Mapping
from pathlib import Path
from threading import Lock
from typing import Any

from fastapi import FastAPI, Query
from fastapi.responses import RedirectResponse

from regard.errors import nearest
from regard.light.description import is_export
from regard.look.history import load_history
from regard.look.html import history_document
from regard.report.page import ATTENTION, REFERENCE, fragment
from regard.report.run import run_sections, side_by_side
from regard.report.run_files import CONFIG, RunFiles, runs_in, unused_name
from regard.serve import schemas
from regard.serve.error_responses import RefusedError

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
            return schemas.Runs(runs=[_listed(name, run) for name, run in self.all().items()])

    def looks(self, name: str, number: int) -> dict[str, Any]:
        (run,) = self.chosen([name])
        return history_document(load_history(run.folder, number)) | {"title": ATTENTION, "note": REFERENCE}


def _listed(name: str, run: RunFiles) -> schemas.RunOut:
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
