"""`regard look RUN [INPUT]`: show attention in the terminal or write it to a file."""

import json
import sys
import warnings
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
from rich.console import Console

from regard import look as pictures
from regard.commands.options import settings_and_words
from regard.errors import CallError, nearest
from regard.look.axis import exchange_words
from regard.look.files import as_dict
from regard.look.methods import METHODS
from regard.look.records import AttentionRecord, Head, Kind
from regard.look.render import require_suffix
from regard.look.terminal import picture
from regard.look.value_table import ValueTable
from regard.look.views import ShownView, View, suitable_view
from regard.metrics.alignment import PHARAOH, Gold

POSITIONS = "positions"  # instead of a run: show sinusoidal positions


ASKED = {"kind", "target", "prefix", "without", "about"}  # options that all views of one input support
EXPLAINED = ASKED | {"explain", "against_input", "exchange", "by", "instead", "row"}


class LookRequest(NamedTuple):
    """Options of `regard look`, as given on the command line."""

    view: str | None = None
    kind: str | None = None
    layer: int | None = None
    head: str = "mean"
    method: str = "raw"
    log: bool = False
    words: bool = False
    no_specials: bool = False
    target: str | None = None
    gold: str | None = None
    n_best: int | None = None
    against: Path | None = None
    row: int | None = None
    prefix: str = ""
    without: tuple[str, ...] = ()
    about: str | None = None
    evidence: bool = False
    explain: str | None = None
    against_input: str | None = None
    exchange: str | None = None
    by: str | None = None
    instead: str | None = None
    profile: bool = False
    weight: str | None = None
    sample: bool = False


def look(run: Path, inputs: tuple[str, ...], output: Path | None, request: LookRequest, as_json: bool) -> None:
    """Draw in the terminal or to a file (the suffix sets its type); `--json` prints the record."""
    if output is not None:
        require_suffix(output)
    if str(run).startswith("hf:") and (request.profile or request.explain is not None):
        raise CallError("--profile and --explain need a run of regard; `regard import` converts models of many kinds")
    if request.profile:
        return profile(run, inputs, output, as_json)
    if request.weight is not None:
        return weight(run, inputs, output, request, as_json)
    if request.explain is not None:
        return explain(run, inputs, output, request, as_json)
    if request.against_input is not None or request.exchange is not None:
        raise CallError("--against-input and --exchange need --explain patching")
    if run.suffix == ".npz" and (inputs or request.method != "raw"):
        raise CallError(f"{run} is a saved record, with its own input and method: give no input or --method")
    record = get_record(run, inputs, request)
    against = None
    if request.against is not None:
        if request.about == "-":
            raise CallError("standard input can be read only once, but --against reads it twice: use --about FILE")
        again = request._replace(target=record.output or None, n_best=None, prefix="", without=(), sample=False)
        against = get_record(request.against, inputs or (record.input,), again)
    record, against = (one and read(one, request) for one in (record, against))
    assert record is not None
    kind = cast(Kind | None, request.kind)
    view = cast(View | None, request.view) or suitable_view(record, kind, against)
    shown = ShownView(record, view, kind, request.layer, head_of(request.head), request.log, against, request.row)
    if output is not None:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            pictures.save(
                record, output, view=shown.view, kind=shown.kind, layer=shown.layer, head=shown.head, log=shown.log,
                against=against, row=request.row,
            )  # fmt: skip
        for warning in caught:
            print(f"regard: {warning.message}", file=sys.stderr)
        print(f"written: {output}", file=sys.stderr)
    if as_json:
        document = as_dict(record) | {"card": [vars(figure) for figure in shown.figures]}
        print(json.dumps(document, ensure_ascii=False, indent=2, allow_nan=False))
    elif output is None:
        console = Console()
        console.print(picture(shown, console))


def explain(run: Path, inputs: tuple[str, ...], output: Path | None, request: LookRequest, as_json: bool) -> None:
    """Explain an output as a table of layers, heads or positions."""
    from regard import loading
    from regard.commands.parse_inputs import inputs_of, outputs_of, refuse_no_texts, subject_of

    known = EXPLAINED | {"layer", "head"} if request.explain == "scores" else EXPLAINED
    _refuse_others(request, known, f"--explain {request.explain}")
    overrides, texts = _texts(inputs)
    loaded = loading.load(run)
    refuse_no_texts(loaded, texts)
    subject = subject_of(loaded, request.about)
    if request.against_input is not None and request.exchange is not None:
        raise CallError("give either --against-input or --exchange")
    second = request.against_input if request.exchange is None else exchange_words(texts[0], request.exchange)
    seconds = [] if second is None else inputs_of(loaded, [second], subject)
    table = loaded.explain(
        inputs_of(loaded, texts, subject)[0],
        cast(str, request.explain),
        overrides,
        output=None if request.target is None else outputs_of(loaded, [request.target])[0],
        prefix=request.prefix,
        against_input=seconds[0] if seconds else None,
        without=request.without,
        row=request.row,
        instead=request.instead,
        kind=cast(Kind | None, request.kind),
        by=cast(Any, request.by),
        layer=request.layer,
        head=None if request.head == "mean" else cast(Any, head_of(request.head)),
    )
    _put(table, output, as_json)


def profile_of_training(run: Path, inputs: tuple[str, ...], output: Path | None, as_json: bool) -> None:
    """Show when each head took its role."""
    from regard import api

    if inputs:
        raise CallError("--profile --training takes no input: it uses all inputs that training.looks recorded")
    if output is not None:
        require_suffix(output)
    _put(api.load(run).role_history(), output, as_json)


def weight(run: Path, inputs: tuple[str, ...], output: Path | None, request: LookRequest, as_json: bool) -> None:
    """Explain one weight, step by step; in a file, the parts of its score."""
    from regard import loading
    from regard.commands.parse_inputs import inputs_of, outputs_of, refuse_no_texts, subject_of

    _refuse_others(request, ASKED | {"weight", "by"}, "--weight")
    if request.by not in (None, "tokens"):
        raise CallError(f"--by {request.by}: --weight takes --by tokens, or none")
    overrides, texts = _texts(inputs)
    places = [part.strip() for part in cast(str, request.weight).split(",")]
    if len(places) not in (2, 4) or not all(part.removeprefix("-").isdecimal() for part in places):
        raise CallError(f"--weight {request.weight}: write LAYER,HEAD,ROW,COLUMN or ROW,COLUMN, numbers from 0")
    *which, row, column = map(int, places)
    layer, head = which or (None, None)
    loaded = loading.load(run)
    refuse_no_texts(loaded, texts)
    found = loaded.weight(
        inputs_of(loaded, texts, subject_of(loaded, request.about))[0],
        row,
        column,
        overrides,
        kind=cast(Kind | None, request.kind),
        layer=layer,
        head=head,
        prefix=request.prefix,
        without=request.without,
        output=None if request.target is None else outputs_of(loaded, [request.target])[0],
        tokens=request.by == "tokens",
    )
    if output is not None:
        found.save(output)
        print(f"written: {output}", file=sys.stderr)
    if as_json:
        print(json.dumps(found.as_dict(), ensure_ascii=False, indent=2, allow_nan=False))
    elif output is None:
        print(found)


def _refuse_others(request: LookRequest, known: set[str], asked: str) -> None:
    for name, usual in LookRequest._field_defaults.items():
        if name not in known and getattr(request, name) != usual:
            raise CallError(f"{asked} does not support --{name.replace('_', '-')}: remove it")


def profile(run: Path, inputs: tuple[str, ...], output: Path | None, as_json: bool) -> None:
    """Show what each head attends to on some validation inputs, and the cost of masking it."""
    from regard import api

    if len(inputs) > 1 or (inputs and not inputs[0].isdecimal()):
        raise CallError("--profile takes the number of validation inputs, default 16")
    _put(api.load(run).head_profile(*map(int, inputs)), output, as_json)


def _put(table: ValueTable, output: Path | None, as_json: bool) -> None:
    if output is not None:
        table.save(output)
        print(f"written: {output}", file=sys.stderr)
    if as_json:
        print(json.dumps(table.as_dict(), ensure_ascii=False, indent=2))
    elif output is None:
        table.show()


def _texts(inputs: tuple[str, ...]) -> tuple[list[str], list[str]]:
    """Split the arguments into decoding settings and the one input."""
    overrides, texts = settings_and_words(inputs)
    texts = texts or _standard_input()
    if len(texts) != 1:
        raise CallError(f"regard look takes one input, not {len(texts)}: put a sentence in quotes")
    return list(overrides), texts


def get_record(run: Path, inputs: tuple[str, ...], request: LookRequest) -> AttentionRecord:
    """Return a saved record, or the record of a model on this input."""
    if run.suffix == ".npz":
        return pictures.load(run)
    if request.method not in METHODS:
        raise CallError(f"--method {request.method} is not known{nearest(request.method, METHODS)}")
    overrides, texts = _texts(inputs)
    if str(run).startswith("hf:"):
        return of_folder(Path(str(run).removeprefix("hf:")), texts[0], overrides, request)
    from regard import loading
    from regard.commands.parse_inputs import inputs_of, outputs_of, refuse_no_texts, subject_of

    decoding: dict[str, Any] = {"n_best": request.n_best} if request.n_best else {}
    if request.view == "beams" and not request.n_best:
        decoding["n_best"] = 3
    of_source = request.kind in (None, "cross")  # the model's evidence refers to cross-attention
    loaded = loading.load(run)
    refuse_no_texts(loaded, texts)
    one = inputs_of(loaded, texts, subject_of(loaded, request.about))[0]
    if note := loaded.job.input.look_note(one):
        print(f"regard: {note}", file=sys.stderr)
    return loaded.look(
        one,
        overrides,
        output=None if request.target is None else outputs_of(loaded, [request.target])[0],
        method=request.method,
        layer=request.layer if of_source else None,
        head=head_of(request.head) if of_source else "mean",
        gold=None if request.gold is None else gold_of(request.gold),
        prefix=request.prefix,
        without=request.without,
        evidence=request.evidence,
        instead=request.instead,
        sample=request.sample or None,
        **decoding,
    )


def of_folder(folder: Path, text: str, overrides: list[str], request: LookRequest) -> AttentionRecord:
    """Return the record of a Transformers model in a folder."""
    from regard.look.watch import look_at_folder

    asked = {"method": request.method, "gold": request.gold, "n_best": request.n_best, "prefix": request.prefix}
    asked |= {
        "without": request.without,
        "about": request.about,
        "evidence": request.evidence,
        "instead": request.instead,
    }
    asked["sample"] = request.sample
    for name, value in asked.items():
        if value != LookRequest._field_defaults[name]:
            raise CallError(f"--{name.replace('_', '-')}: not supported for a Transformers model; remove it")
    if overrides:
        raise CallError(f"{overrides[0]}: a Transformers model has no such setting; remove it")
    return look_at_folder(folder, text, request.target)


def read(record: AttentionRecord, request: LookRequest) -> AttentionRecord:
    record = record.words() if request.words else record
    return record.without_specials() if request.no_specials else record


def head_of(text: str) -> Head:
    if text in ("mean", "max"):
        return cast(Head, text)
    if text.removeprefix("-").isdecimal():
        return int(text)
    raise CallError(f"--head {text} is not a number, mean or max")


def gold_of(text: str) -> Gold:
    """Parse links in Pharaoh format: source word - target word, from 0; with ? instead of - if possible, not sure."""
    found = [(link, PHARAOH.fullmatch(link)) for link in text.split()]
    wrong = [link for link, match in found if match is None]
    if wrong:
        raise CallError(f"--gold: {wrong[0]!r} is not a link; write 0-0 1-2 (sure) and 1?3 (possible)")
    links = [(match[2] == "-", (int(match[1]), int(match[3]))) for _, match in found if match is not None]
    return Gold(frozenset(link for sure, link in links if sure), frozenset(link for sure, link in links if not sure))


def look_at_training(
    run: Path, inputs: tuple[str, ...], output: Path | None, request: LookRequest, as_json: bool
) -> None:
    """Show the attention on a validation input, by its number, during training."""
    from regard.look.history import History, load_history
    from regard.look.render import show_history, write_history

    if request.profile:
        return profile_of_training(run, inputs, output, as_json)
    if len(inputs) > 1 or (inputs and not inputs[0].isdecimal()):
        raise CallError(
            "--training takes the number of a validation input, from 0 (those that training.looks recorded)"
        )
    found = load_history(run, int(inputs[0]) if inputs else 0)
    history = History(found.steps, tuple(read(record, request) for record in found.records))
    kind, head = cast(Kind | None, request.kind), head_of(request.head)
    shown = ShownView(history.last, kind=kind, layer=request.layer, head=head, log=request.log)
    if output is not None:
        write_history(history, shown, output)
        print(f"written: {output}", file=sys.stderr)
    if as_json:
        print(json.dumps(history.as_dict(kind=kind, layer=request.layer, head=head), ensure_ascii=False, indent=2))
    elif output is None:
        console = Console()
        console.print(show_history(history, shown, console))


def look_at_positions(run: Path, output: Path | None, as_json: bool) -> None:
    """Show the position table of a run's encoder, or the sinusoidal one: 50 positions, 128 dimensions."""
    from regard.look.positions import draw_positions, similarity_by_distance, write_positions

    table, title = _classic() if str(run) == POSITIONS else _of_run(run)
    if output is not None:
        require_suffix(output)
        if output.suffix == ".npz":
            raise CallError(f"{output}: positions are drawn as .png, .svg, .pdf or .html")
        write_positions(table, title, output)
        print(f"written: {output}", file=sys.stderr)
    if as_json:
        alike = similarity_by_distance(table)
        print(json.dumps({"title": title, "table": table.tolist(), "similarity_by_distance": alike.tolist()}))
    elif output is None:
        console = Console()
        console.print(draw_positions(table, title, console))


def _classic() -> tuple[np.ndarray, str]:
    from regard.attention.positions import sinusoids

    return sinusoids(50, 128).numpy(), "Sinusoidal positions: PE(t, 2i) = sin(t / 10000^(2i/d)), PE(t, 2i+1) = cos"


def _of_run(run: Path) -> tuple[np.ndarray, str]:
    from regard import api

    for name, part in api.load(run).model.named_modules():
        table = getattr(part, "table", None)
        if name.endswith(".positions") and table is not None:
            table = table.detach().float().cpu().numpy()
            return table[:50], f"{run.name}: {type(part).__name__.lower()} positions ({name})"
    raise CallError(
        f"{run}: this model adds no positions to its tokens (recurrent models need none; rotary and relative positions "
        "act inside attention). `regard look positions` shows sinusoidal positions"
    )


def _standard_input() -> list[str]:
    if sys.stdin.isatty():
        raise CallError('give an INPUT to look at: regard look RUN "a sentence"')
    return [line.rstrip("\r\n") for line in sys.stdin if line.strip()]
