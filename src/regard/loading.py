"""Load a trained model from its folder: a run, or its ONNX export, which needs no torch."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.errors import CallError, missing_package
from regard.files.atomic import recover
from regard.light.session import is_export

if TYPE_CHECKING:
    from regard.api import Run
    from regard.light.run import OnnxRun

    AnyRun = Run | OnnxRun


def load(folder: str | Path, *, quantize: Any = None) -> "AnyRun":
    """Load a run or an export. `quantize`: keep the weights of a run as "int8" or "bf16", for speed and memory."""
    recover(Path(folder))
    if not is_export(Path(folder)):
        try:
            from regard import api
        except ModuleNotFoundError as error:
            if (told := missing_package(error.name)) is None:
                raise
            told = f"{folder} is no export: {told}; an export (regard export RUN --to onnx) does without"
            raise CallError(told) from None
        return api.load(folder, quantize=quantize)
    if quantize is not None:
        raise CallError(f"quantize={quantize!r}: {folder} is an export; the run is exported with --dtype int8 instead")
    from regard.light.run import load as load_export

    return load_export(folder)
