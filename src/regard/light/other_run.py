"""Another export that helps: a language model as a second opinion, a matcher as the judge of drawings."""

from functools import lru_cache
from pathlib import Path
from typing import Any

from regard.errors import CallError
from regard.light.description import Description, is_export
from regard.light.run import load


def load_other_run(about: Description, field: str, folder: str, kind: str) -> Any:
    """The output of an export of this kind: the one that the run was exported with, or whatever else somebody names;
    `field` of decoding says which."""
    inside = folder == getattr(about.recipe.decoding, field)  # pyright: ignore[reportAttributeAccessIssue]
    place, name = about.folder / field if inside else Path(folder).expanduser(), f"decoding.{field}={folder}"
    if inside and not is_export(place):
        raise CallError(f"{name}: {about.folder} was exported without it; export the run again")
    if not is_export(place):
        raise CallError(f"{name} is no export: regard export {folder} --to onnx -o FOLDER makes one")
    return _loaded(str(place), name, kind)


@lru_cache(maxsize=2)
def _loaded(place: str, name: str, kind: str) -> Any:
    run = load(place)
    if run.about.says["kind"] != kind:
        raise CallError(f"{name} is an export of the job {run.recipe.job}, which is of no help here")
    return run.job.output
