"""Auxiliary exports: a language model for shallow fusion, a matcher for reranking of drawings."""

from functools import lru_cache
from pathlib import Path
from typing import Any

from regard.errors import CallError
from regard.light.description import Description, is_export
from regard.light.run import load


def load_other_run(about: Description, field: str, folder: str, kind: str) -> Any:
    """Return the output of an auxiliary export: the one stored with the run, or the folder given by the user in
    `field` of decoding.
    """
    inside = folder == getattr(about.recipe.decoding, field)  # pyright: ignore[reportAttributeAccessIssue]
    place, name = about.folder / field if inside else Path(folder).expanduser(), f"decoding.{field}={folder}"
    if inside and not is_export(place):
        raise CallError(f"{name}: {about.folder} was exported without it; export the run again")
    if not is_export(place):
        raise CallError(f"{name} is not an export: create one with regard export {folder} --to onnx -o FOLDER")
    return _loaded(str(place), name, kind)


@lru_cache(maxsize=2)
def _loaded(place: str, name: str, kind: str) -> Any:
    run = load(place)
    if run.about.says["kind"] != kind:
        raise CallError(f"{name} is an export of the job {run.recipe.job}, not of the job that is needed here")
    return run.job.output
