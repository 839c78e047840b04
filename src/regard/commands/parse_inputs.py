"""Parse the words of a command into inputs and outputs of the job; with `--about`, into questions about a file."""

import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from textwrap import indent
from typing import TYPE_CHECKING, Any, Protocol

from regard.commands.options import plain_words
from regard.data.columns import FILES
from regard.data.files import PairSource
from regard.data.pairs import Columns, SkippedLine
from regard.errors import CallError, RegardError, meant
from regard.files.lines import ending
from regard.synonyms import synonyms

if TYPE_CHECKING:
    from regard.loading import AnyRun

WORD_A_LINE = (".conll", ".conllu", ".iob", ".bio")


def subject_of(run: "AnyRun", about: str | None) -> Any:
    """Load the file that `--about` names, once; None without `--about`."""
    return None if about is None else run.job.input.subject(about)


def inputs_of(run: "AnyRun", words: list[str], subject: Any = None) -> list[Any]:
    """Parse inputs. `subject`: the file that they are questions about, if any."""
    return run.job.input.parse(words) if subject is None else run.job.input.about(words, subject)


def refuse_no_texts(run: "AnyRun", words: list[str]) -> None:
    """Raise for words that are probably not texts: a setting without its section, a file name, or no text at all.

    Words after `--` are always texts.
    """
    if not run.job.output.takes_prompt and not all(word.strip() for word in words):
        raise CallError("the input is empty: give a text or a file to predict for")
    for word in words[: len(words) - plain_words(words)]:
        if (setting := _setting(run, word)) is not None:
            raise CallError(f"{word!r} looks like a setting: {setting}; if it is a text, put -- before it")
        if "text" in run.job.input.kinds and not run.job.input.takes_files:
            _refuse_file(word)


def _setting(run: "AnyRun", word: str) -> str | None:
    """Suggest a setting for `beam=4` or `beem=4`; None if no setting is similar."""
    key, equals, value = word.partition("=")
    *sections, name = key.split(".")
    if not equals or not re.fullmatch(r"[A-Za-z_][\w.]*", key) or re.search(r"\s", word) or _exists(word):
        return None
    known = [*getattr(type(getattr(run.recipe, "decoding", None)), "model_fields", ())]
    meanings = [meaning for meaning in synonyms(name) if "." in meaning]
    named = [meaning.removeprefix("decoding.") for meaning in meanings if meaning.startswith("decoding.")]
    near = [*named, meant(name, known), *(one for one in known if len(name) > 2 and one.startswith(name))]
    for one in near:
        if one is not None and one.partition("=")[0] in known:
            return f"write decoding.{one if '=' in one else f'{one}={value}'}"
    if sections and sections[0] in type(run.recipe).model_fields:
        return f"a trained run has a fixed {sections[0]}; only decoding.* can change"
    if any(meaning.startswith(("training.", "model.")) for meaning in meanings):
        return f"it belongs to training ({meanings[0].partition('=')[0]}); a trained run accepts only decoding.*"
    return None


def _refuse_file(word: str) -> None:
    as_text = "to read the name itself as a text, put -- before it"
    if _exists(word) and (Path(word).is_file() or "/" in word):
        what = "file" if Path(word).is_file() else "folder"
        read = "" if _MEDIA.search(word) or what == "folder" else f" (a file of inputs is read by --input {word})"
        raise CallError(f"{word} is a {what}, and this model reads texts{read}; {as_text}")
    if _FILE.fullmatch(word):
        raise CallError(f"no such file: {word}; a file of inputs is read by --input FILE; {as_text}")


def _exists(word: str) -> bool:
    try:
        return Path(word).expanduser().exists()
    except (OSError, ValueError):  # a long text, or one with a zero byte
        return False


_MEDIA = re.compile(r"\.(png|jpe?g|gif|bmp|webp|tiff?|wav|mp3|flac|ogg|m4a|mp4|pdf|docx?)$", re.IGNORECASE)
_FILE = re.compile(r"[\w./~\\:-]+\.(txt|csv|tsv|jsonl?|parquet|xlsx?|png|jpe?g|wav|mp3|flac|pdf|docx)", re.IGNORECASE)


def outputs_of(run: "AnyRun", words: list[str]) -> list[Any]:
    """Parse given outputs: texts, or the contents of named files."""
    return run.job.output.given(words)


def read_words(file: Path | None) -> Iterator[str]:
    """Yield the lines of a file, or of standard input."""
    if file is None:
        if sys.stdin.isatty():
            print("reading inputs, one per line; end with Ctrl-D", file=sys.stderr)
        yield from (line.rstrip("\r\n") for line in sys.stdin)
        return
    try:
        with file.open(encoding="utf-8") as handle:
            yield from (line.rstrip("\r\n") for line in handle)
    except OSError as error:
        raise CallError(f"{file}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        tables = ", ".join(PairSource.endings)
        raise CallError(f"{file} is not UTF-8 text (byte {error.start}); tables are read as {tables}") from None


def count_words(words: Iterator[Any]) -> int:
    """Count the inputs. The whole file is read, so that a bad line is found before the work begins."""
    return sum(1 for _ in words)


def read_inputs(run: "AnyRun", file: Path | None, column: str | None = None, *, about: bool = False) -> Iterator[Any]:
    """Yield inputs for `inputs_of`: rows of a table by the columns of training, else lines, one at a time.

    `column`: the column to read. `about`: the subject of questions is given separately.
    """
    if file is not None and run.job.input.kinds == ("table",):
        return iter([str(file)])
    if file is not None and ending(file) in WORD_A_LINE:
        raise CallError(f"{file} has one word per line: regard evaluate RUN data.test={file} scores it")
    if file is None or ending(file) not in PairSource.endings:
        if column is not None:
            raise CallError(f"--column {column}: {file or 'standard input'} is not a table; remove --column")
        return read_words(file)
    return _rows(run, file, column, about)


def _media_file(name: str, table: Path, files: str | None) -> Path:
    """Return the path of a file named in a table: here, in the folder of training files, or next to the table."""
    from regard.inputs.media_files import files_root

    places = [Path(name), files_root(files, table) / name, table.parent / name]
    return next((place for place in places if place.exists()), places[1])


def _rows(run: "AnyRun", file: Path, column: str | None, about: bool) -> Iterator[Any]:
    """Yield one input per row. An unreadable row is an error, since outputs would no longer match the rows."""
    input = run.job.input
    trained = getattr(run.recipe.data, "columns", None)  # pyright: ignore[reportAttributeAccessIssue]
    trained = trained if isinstance(trained, Columns) else Columns({"text": None, "": None})
    sides = [side for side in trained.sides if side != trained.optional][:-1]
    joint = len(input.kinds) > 1
    if len(sides) == 1 and sides[0] in FILES and not input.takes_files:
        sides = [trained.sides[-1]]  # the drawing is in the column before its text
    if about:
        sides = sides[1:] if joint else sides[:1]
    if column is not None and len(sides) > 1:
        raise CallError(f"--column {column}: an input here needs {len(sides)} columns, {' and '.join(sides)}")
    wanted = {side: trained.wanted[side] for side in sides}
    if column is not None:
        wanted = {sides[0]: int(column) if column.isdecimal() else column}
    source = PairSource(str(file), columns=Columns(wanted))
    if not file.is_file():
        raise CallError(f"no such file: {file}")
    try:
        for row in source.cells(file):
            if isinstance(row, SkippedLine):
                if row.kind == "blank":
                    continue
                raise RegardError(f"{row}; each row needs its own output: repair the row or remove it")
            texts = ["" if value is None else str(value) for value in row.values]
            if sides[0] in FILES:
                texts[0] = str(_media_file(texts[0], file, run.recipe.data.files))
            yield texts[0] if len(texts) == 1 else "\t".join(texts) if joint else tuple(texts)
    except CallError as error:
        if "column" not in str(error) or len(sides) > 1 or column is not None:
            raise
        raise CallError(f"{error}; name the column of the inputs with --column NAME") from None


class PredictionFormat(Protocol):
    """Write predictions in chunks: as lines or as one JSON array, to standard output or a file."""

    def written(self, predictions: Iterable[Any], *, first: bool) -> str:
        """Format some predictions; `first`: nothing has been written yet."""
        ...

    def end(self, *, empty: bool) -> str:
        """Return the text after the last prediction; `empty`: there were no predictions."""
        ...


@dataclass(frozen=True)
class LineWriter:
    """One line per hypothesis; `named`: each starts with the name of its input."""

    scores: bool
    named: bool = False

    def written(self, predictions: Iterable[Any], *, first: bool) -> str:
        return "".join(f"{line}\n" for one in predictions for line in self._lines(one))

    def _lines(self, prediction: Any) -> Iterator[str]:
        for one in prediction.n_best:
            score = "" if one.score is None else f"{one.score:.4f}"
            yield "\t".join([*[prediction.input] * self.named, *[score] * self.scores, one.text])

    def end(self, *, empty: bool) -> str:
        return ""


@dataclass(frozen=True)
class JsonArray:
    """One JSON document: `[{...}, {...}]`."""

    def written(self, predictions: Iterable[Any], *, first: bool) -> str:
        texts = [
            indent(json.dumps(one.as_dict(), ensure_ascii=False, indent=2), "  ", lambda line: True)
            for one in predictions
        ]
        return ("[\n" if first else ",\n") + ",\n".join(texts) if texts else ""

    def end(self, *, empty: bool) -> str:
        return "[]\n" if empty else "\n]\n"


class StandardOutput:
    """Counterpart of `ResumableFile` for a terminal or a pipe: each chunk is flushed when written."""

    done, empty = 0, True

    def write(self, text: str, inputs: int) -> None:
        self.empty = self.empty and not text
        sys.stdout.write(text)
        sys.stdout.flush()

    def leave(self) -> None: ...

    def finish(self) -> None: ...


@contextmanager
def progress(total: int | None, done: int) -> Iterator[Callable[[int], object]]:
    """Show a progress bar on standard error, if it is a terminal and the work is not short."""
    if total is None or total - done <= 1 or not sys.stderr.isatty():
        yield lambda count: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn, TimeRemainingColumn

    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("", total=total, completed=done)
        yield lambda count: bar.advance(task, count)
