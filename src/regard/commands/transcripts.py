"""Transcripts as subtitles (WebVTT) or as tiers for phoneticians (TextGrid), and the real-time factor."""

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from regard.errors import CallError
from regard.files import atomic
from regard.outputs.text.transcript import Transcript

ENDINGS = {"vtt": ".vtt", "textgrid": ".TextGrid"}


def write_timed(predictions: Sequence[Any], form: str, output: Path | None) -> None:
    """Write one recording to standard output or a file; several to a folder, named after the recordings."""
    transcripts = [one for one in predictions if isinstance(one, Transcript)]
    if len(transcripts) != len(predictions):
        raise CallError(f"--format {form} needs transcripts of sound: these predictions have no timestamps")
    if len(transcripts) == 1 and (output is None or not output.is_dir()):
        return _write(output, transcripts[0].written(form))
    if output is None or output.is_file():
        raise CallError(f"--format {form} of {len(transcripts)} recordings needs a folder: --output FOLDER")
    output.mkdir(parents=True, exist_ok=True)
    files = [output / (Path(one.input).stem + ENDINGS[form]) for one in transcripts]
    if len(set(files)) < len(files):
        raise CallError("two recordings have the same name: rename one, as each transcript needs its own file")
    for one, file in zip(transcripts, files, strict=True):
        _write(file, one.written(form))
    print(f"written: {len(files)} files in {output}", file=sys.stderr)


class SpeedReport:
    """Print problems of recordings and the real-time factor to standard error; time is counted inside `with`."""

    def __init__(self) -> None:
        self.took = self.seconds = self._begin = 0.0

    def __enter__(self) -> None:
        self._begin = time.perf_counter()

    def __exit__(self, *error: object) -> None:
        self.took += time.perf_counter() - self._begin

    def add(self, predictions: Sequence[Any]) -> None:
        for one in predictions:
            if isinstance(one, Transcript):
                self.seconds += one.seconds
                if one.note:
                    print(f"regard: {one.input}: {one.note}", file=sys.stderr)

    def tell(self) -> None:
        if self.seconds:
            factor = f"real-time factor {self.took / self.seconds:.3f}"
            print(f"{self.seconds:,.1f} seconds of sound in {self.took:,.1f} seconds: {factor}", file=sys.stderr)


def _write(file: Path | None, text: str) -> None:
    if file is None:
        return print(text, end="")
    atomic.write_text(file, text)
