"""`regard predict RUN [INPUT ...]`: from arguments, a file or standard input, to standard output or a file."""

import json
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, TextIO

from regard import api, config
from regard.commands.asked import inputs_of, outputs_of
from regard.commands.timed import tell, write_timed
from regard.errors import CallError
from regard.files import atomic
from regard.outputs.result import SupportsSave, SupportsSaveTogether

PICTURES = (".png", ".svg", ".pdf")


def predict(
    run: Path,
    inputs: tuple[str, ...],
    input_file: Path | None,
    output_file: Path | None,
    n_best: int | None,
    prefix: str,
    targets: Path | None,
    scores: bool,
    as_json: bool,
    without: tuple[str, ...] = (),
    about: str | None = None,
    form: str | None = None,
) -> None:
    """One output a line, in the order of the inputs; with several hypotheses, a line each, best first.

    With `about` (a file, or - for standard input), the inputs are questions about it.

    With `form` (vtt, textgrid), what was heard when is written instead.

    With `targets`, nothing is decoded: the given outputs are scored, and come back with their log-probability.
    """
    overrides = tuple(text for text in inputs if text.startswith("decoding.") and "=" in text)
    texts = [text for text in inputs if text not in overrides]
    if texts and input_file is not None:
        raise CallError("give inputs as arguments or by --input FILE, not both")
    if n_best is not None:
        overrides += (f"decoding.n_best={n_best}",)
    loaded = api.load(run)
    if about == "-" and not texts and input_file is None:
        raise CallError("standard input is what --about names: give the question as an argument, or by --input FILE")
    lines = inputs_of(loaded, texts or list(_lines(input_file)), about)
    one = targets is None and not (as_json or output_file or without or _several(loaded, overrides))
    if loaded.job.output.takes_prompt and one:
        return _stream(loaded, lines, overrides, prefix)
    if targets is not None:
        predictions, scores = loaded.score(lines, outputs_of(loaded, list(_lines(targets)))), True
    else:
        begin = time.perf_counter()
        predictions = loaded.predict(lines, overrides, prefix=prefix, without=without, attention=form is not None)
        tell(predictions, time.perf_counter() - begin)
    if form is not None:
        return write_timed(predictions, form, output_file)
    if output_file is not None and not as_json and (output_file.suffix in PICTURES or _together(predictions)):
        return _draw(output_file, predictions)
    if output_file is not None and output_file.is_dir():
        raise CallError(f"{output_file} is a folder: these outputs are written to a file")
    if as_json:
        document = json.dumps([prediction.as_dict() for prediction in predictions], ensure_ascii=False, indent=2)
        return _write(output_file, [document])
    _write(output_file, _plain(predictions, scores))


def choices(labels: str | None, templates: tuple[str, ...]) -> tuple[str, ...]:
    """`--labels` and `--template` as settings; all labels are given back, if nobody says how many."""
    given: dict[str, Any] = {"templates": list(templates)} if templates else {}
    if labels is not None:
        names = [name.strip() for name in labels.split(",")]
        given |= {"labels": names, "n_best": len(names)}
    return tuple(f"decoding.{key}={json.dumps(value, ensure_ascii=False)}" for key, value in given.items())


def _together(predictions: list[Any]) -> bool:
    return bool(predictions) and all(isinstance(one, SupportsSaveTogether) for one in predictions)


def _draw(file: Path, predictions: list[Any]) -> None:
    if _together(predictions):
        for one in predictions:
            if one.note:
                print(f"regard: {one.input}: {one.note}", file=sys.stderr)
        predictions[0].save_with(predictions[1:], file)
        print(f"written: {file}", file=sys.stderr)
        return
    if len(predictions) != 1 or not isinstance(predictions[0], SupportsSave):
        raise CallError(f"{file}: a picture is drawn of one prediction at a time, and not of text")
    predictions[0].save(file)
    print(f"written: {file}", file=sys.stderr)


def _several(run: api.Run, overrides: tuple[str, ...]) -> bool:
    """Whether more than one output is asked for, by the recipe or here."""
    recipe = config.build(config.override(config.as_tree(run.recipe), overrides), str(run.folder))
    return config.as_tree(recipe)["decoding"].get("n_best", 1) > 1


def _stream(run: api.Run, prompts: list[str], overrides: tuple[str, ...], prefix: str) -> None:
    """Each prompt and what follows it, while it is written; a line between two of them."""
    for number, prompt in enumerate(prompts):
        if number:
            print("\n" + "─" * 40)
        print(prompt, end="", flush=True)
        run.stream(prompt, lambda piece, _: print(piece, end="", flush=True), overrides, prefix=prefix)
        print()


def _lines(file: Path | None) -> Iterator[str]:
    if file is None:
        if sys.stdin.isatty():
            print("reading inputs, one a line; end with Ctrl-D", file=sys.stderr)
        yield from (line.rstrip("\r\n") for line in sys.stdin)
        return
    try:
        with file.open(encoding="utf-8") as handle:
            yield from (line.rstrip("\r\n") for line in handle)
    except FileNotFoundError:
        raise CallError(f"{file}: no such file") from None
    except UnicodeDecodeError as error:
        raise CallError(f"{file} is not UTF-8 text (byte {error.start})") from None


def _plain(predictions: Iterable[Any], scores: bool) -> Iterator[str]:
    for prediction in predictions:
        for hypothesis in prediction.n_best:
            yield f"{hypothesis.score:.4f}\t{hypothesis.text}" if scores else hypothesis.text


def _write(file: Path | None, lines: Iterable[str]) -> None:
    if file is None:
        return _print(sys.stdout, lines)

    def write(part: Path) -> None:
        with part.open("w", encoding="utf-8") as handle:
            _print(handle, lines)

    atomic.write_with(file, write)


def _print(handle: TextIO, lines: Iterable[str]) -> None:
    for line in lines:
        print(line, file=handle)
