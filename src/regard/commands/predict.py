"""`regard predict RUN [INPUT ...]`: from arguments, a file or standard input, to standard output or a file.

Inputs are read, predicted and written in chunks, in order: memory use does not depend on the length of a file. Only
pictures, subtitles and tiers are kept until the end.
"""

import json
import sys
import time
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from regard import config, loading
from regard.commands.options import settings_and_words
from regard.commands.parse_inputs import (
    JsonArray,
    LineWriter,
    PredictionFormat,
    StandardOutput,
    count_words,
    inputs_of,
    outputs_of,
    progress,
    read_inputs,
    read_words,
    refuse_no_texts,
    subject_of,
)
from regard.errors import CallError, RegardError
from regard.files import atomic
from regard.files.atomic import ResumableFile
from regard.tasks.result import SupportsSave, SupportsSaveTogether
from regard.tasks.text.transcript import Transcript
from regard.work import Workers

if TYPE_CHECKING:
    from regard.loading import AnyRun

# Transcripts as subtitles (WebVTT) or as tiers for phoneticians (TextGrid), and the real-time factor.

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


PICTURES = (".png", ".svg", ".pdf")
FEWEST, MOST = 16, 1024  # inputs in a chunk: small at first for early output, then full batches


class PredictRequest(NamedTuple):
    """Options of `regard predict`, as given on the command line.

    With several files, each line starts with the name of its file; unreadable files are reported and skipped. With
    `about` (a file, or - for standard input), the inputs are questions about it. `form` (vtt, textgrid) writes
    transcripts with timestamps. With `targets`, the given outputs are scored instead of decoded.
    Many inputs are divided among processes (`workers`; None: choose automatically).
    """

    input_file: Path | None = None
    output_file: Path | None = None
    n_best: int | None = None
    prefix: str = ""
    targets: Path | None = None
    scores: bool = False
    as_json: bool = False
    without: tuple[str, ...] = ()
    about: str | None = None
    form: str | None = None
    workers: int | None = None
    quantize: Any = None
    column: str | None = None


def predict(run: Path, inputs: tuple[str, ...], request: PredictRequest) -> None:
    """Print one output per line, in the order of the inputs; with several hypotheses, one per line, best first."""
    overrides, words = settings_and_words(inputs)
    if words and request.input_file is not None:
        raise CallError("give inputs either as arguments or with --input FILE")
    if request.about == "-" and not words and request.input_file is None:
        raise CallError("--about uses standard input: give the question as an argument, or with --input FILE")
    if request.n_best is not None:
        overrides += (f"decoding.n_best={request.n_best}",)
    if request.column is not None and request.input_file is None:
        raise CallError(f"--column {request.column} names a column of a table: give the table with --input FILE")
    loaded = loading.load(run, quantize=request.quantize)
    refuse_no_texts(loaded, words)
    inputs_in_file = partial(read_inputs, loaded, request.input_file, request.column, about=request.about is not None)
    total = len(words) if words else None if request.input_file is None else count_words(inputs_in_file())
    if (
        request.targets is not None
        and total is not None
        and (outputs := count_words(read_words(request.targets))) != total
    ):
        raise CallError(f"{total:,} inputs and {outputs:,} outputs: each input needs its output")
    if words and loaded.job.input.takes_files:
        words = [str(one) for one in loaded.job.input.parse(words)]  # each file of a folder separately
        total = len(words)
    work = _Progress(loaded, overrides, request, subject_of(loaded, request.about), total)
    work.write(iter(words) if words else inputs_in_file())
    if work.bad:
        of = "the" if work.total is None else f"{work.total:,}"
        raise RegardError(f"{len(work.bad):,} of {of} files could not be read and are skipped")


class _Progress:
    """One call of the command."""

    def __init__(
        self, run: "AnyRun", overrides: tuple[str, ...], request: PredictRequest, subject: Any, total: int | None
    ) -> None:
        self.run, self.overrides, self.wish, self.subject, self.total = run, overrides, request, subject, total
        self.speed = SpeedReport()
        self.bad: list[str] = []
        self.several_files = run.job.input.takes_files and total != 1

    def write(self, words: Iterator[str]) -> None:
        count = self.run.count_workers(self.wish.workers, None if self.wish.targets else self.total, self.overrides)
        with Workers(self._ask, count) as self.ask:
            self._write(words)

    def _ask(self, inputs: list[Any]) -> list[Any]:
        wish, attention = self.wish, self.wish.form is not None
        return self.run.predict(inputs, self.overrides, prefix=wish.prefix, without=wish.without, attention=attention)

    def _write(self, words: Iterator[str]) -> None:
        wish, output, file = self.wish, self.run.job.output, self.wish.output_file
        plain = not (wish.targets or wish.as_json or file or wish.without)
        if output.takes_prompt and plain and not self._several():
            return self._stream(words)
        if wish.form is not None:
            return write_timed(self._all(words), wish.form, file)
        if file is not None and not wish.as_json and (output.draws or file.suffix in PICTURES):
            return _draw(file, self._all(words))
        if file is not None and file.is_dir():
            raise CallError(f"{file} is a folder: these outputs are written to a file")
        self._write_pieces(words, self._form())

    def _form(self) -> PredictionFormat:
        if self.wish.as_json:
            return JsonArray()
        return LineWriter(self.wish.scores or self.wish.targets is not None, named=self.several_files)

    def _write_pieces(self, words: Iterator[str], form: PredictionFormat) -> None:
        file = self.wish.output_file
        sink = StandardOutput() if file is None else ResumableFile(file, self._key())
        if sink.done:
            print(f"regard: resuming {file}: {sink.done:,} inputs are done", file=sys.stderr)
        try:
            with progress(self.total, sink.done) as advance:
                for piece, predictions in self._predictions(words, sink.done):
                    sink.write(form.written(predictions, first=sink.empty), piece)
                    advance(piece)
            sink.write(form.end(empty=sink.empty), 0)
        except BaseException:
            sink.leave()
            if file is not None and sink.done and self._key() is not None:
                print(f"regard: {sink.done:,} inputs of {file} are done; the same command resumes", file=sys.stderr)
            raise
        sink.finish()
        self.speed.tell()

    def _all(self, words: Iterator[str]) -> list[Any]:
        found = list(chain.from_iterable(predictions for _, predictions in self._predictions(words, 0)))
        self.speed.tell()
        return found

    def _predictions(self, words: Iterator[str], done: int) -> Iterator[tuple[int, list[Any]]]:
        """Yield the number of words in each chunk and their predictions, after the first `done`.

        Chunk boundaries depend only on the number of words before, so that sampling is the same in a resumed call.
        """
        targets = None if self.wish.targets is None else read_words(self.wish.targets)
        at = sum(1 for _ in islice(words, done))
        if targets is not None:
            next(islice(targets, at, at), None)
        while piece := list(islice(words, min(MOST, max(FEWEST, at)))):
            at += len(piece)
            with self.speed:
                found = self._predict(piece, None if targets is None else list(islice(targets, len(piece))))
            self.speed.add(found)
            yield len(piece), found

    def _predict(self, piece: list[str], targets: list[str] | None) -> list[Any]:
        lines = inputs_of(self.run, piece, self.subject)
        if targets is not None:
            return self.run.score(lines, outputs_of(self.run, targets))
        if self.several_files:
            lines, bad = self.run.job.input.readable(lines)
            self.bad += bad
            for problem in bad:
                print(f"regard: {problem}", file=sys.stderr)
        return self.ask(lines)

    def _key(self) -> Any:
        """Return what the output depends on; None where the inputs cannot be read again."""
        wish = self.wish
        if wish.input_file is None:
            return None
        files = [wish.input_file, *self.run.weight_files, *([wish.targets] if wish.targets else [])]
        if wish.about is not None and Path(wish.about).is_file():
            files.append(Path(wish.about))
        stamps = [(str(file.resolve()), file.stat().st_size, file.stat().st_mtime_ns) for file in files]
        options = (wish.n_best, wish.prefix, wish.scores, wish.as_json, wish.without, self.subject, wish.quantize)
        options = (*options, wish.column)
        return [stamps, self.overrides, options]

    def _several(self) -> bool:
        """Return whether more than one output is requested, by the recipe or here."""
        recipe = config.build(config.override(config.as_tree(self.run.recipe), self.overrides), str(self.run.folder))
        return config.as_tree(recipe)["decoding"].get("n_best", 1) > 1

    def _stream(self, words: Iterator[str]) -> None:
        """Print each prompt and its continuation during decoding, with a line between prompts."""
        for number, word in enumerate(words):
            for prompt in inputs_of(self.run, [word], self.subject):
                if number:
                    print("\n" + "─" * 40)
                print(prompt, end="", flush=True)
                self.run.stream(prompt, _print_piece, self.overrides, prefix=self.wish.prefix)
                print()


def choices(labels: str | None, templates: tuple[str, ...]) -> tuple[str, ...]:
    """Return `--labels` and `--template` as settings; by default all labels are returned."""
    given: dict[str, Any] = {"templates": list(templates)} if templates else {}
    if labels is not None:
        names = [name.strip() for name in labels.split(",")]
        given |= {"labels": names, "n_best": len(names)}
    return tuple(f"decoding.{key}={json.dumps(value, ensure_ascii=False)}" for key, value in given.items())


def _draw(file: Path, predictions: list[Any]) -> None:
    if predictions and all(isinstance(one, SupportsSaveTogether) for one in predictions):
        for one in predictions:
            if one.note:
                print(f"regard: {one.input}: {one.note}", file=sys.stderr)
        predictions[0].save_with(predictions[1:], file)
    elif len(predictions) == 1 and isinstance(predictions[0], SupportsSave):
        predictions[0].save(file)
    else:
        raise CallError(f"{file}: a picture shows one prediction at a time, and cannot show text")
    print(f"written: {file}", file=sys.stderr)


def _print_piece(piece: str, _: str) -> None:
    print(piece, end="", flush=True)
