"""Parse the body of a request into model work. No input of a client is used as a file path."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

from regard.errors import CallError, nearest
from regard.look import AttentionRecord
from regard.look.value_table import ValueTable
from regard.serve import schemas
from regard.serve.errors import Limits, RefusedError
from regard.serve.records import Recent, require_sendable, token_cell
from regard.serve.running import Work
from regard.serve.uploads import EXAMPLE_PREFIX as EXAMPLE
from regard.serve.uploads import WHAT, ModelExamples, Uploads, table_text
from regard.work import Answers, Take, at_once

if TYPE_CHECKING:
    from regard.loading import AnyRun


class ParsedRequest(NamedTuple):
    """A query to a model. `group`: queries that can be decoded together; None for one that runs alone."""

    model: str
    inputs: list[str]
    work: Work
    group: Any = None


class RequestParser:
    def __init__(self, runs: "Mapping[str, AnyRun]", limits: Limits, uploads: Uploads, examples: ModelExamples) -> None:
        self._runs, self._limits, self._uploads, self._examples = runs, limits, uploads, examples
        self._recent = {name: Recent() for name in runs}

    def find(self, name: str | None) -> "tuple[str, AnyRun]":
        if name is None and len(self._runs) == 1:
            return next(iter(self._runs.items()))
        if name is None:
            raise RefusedError(422, f"name the model: one of {', '.join(self._runs)}", "model")
        if name not in self._runs:
            raise RefusedError(404, f"no model {name[:100]!r}{nearest(name[:100], self._runs)}", "model")
        return name, self._runs[name]

    def require_short(self, text: str, field: str) -> None:
        if len(text) > self._limits.max_length:
            raise RefusedError(422, f"{len(text)} characters: {self._limits.max_length} at most", field)

    def given(self, name: str, text: str) -> Any:
        """Return the model's input: the text, or the upload or example named so; two parts have a tab between."""
        run = self._runs[name]
        kinds = run.job.input.kinds
        if not any(kind in WHAT for kind in kinds) or (kinds == ("table",) and "\n" in text):  # the text of a table
            return text
        parts = self._parts(run, text)
        own = [
            self._examples.part(name, part, place) if kind in WHAT else None for place, (part, kind) in enumerate(parts)
        ]
        if any(one is not None for one in own):
            found = [part if one is None else one for one, (part, _) in zip(own, parts, strict=True)]
            return tuple(found) if len(found) > 1 else found[0]
        files = [self._uploads.path(part, kind) if kind in WHAT else part for part, kind in parts]
        if kinds == ("table",):
            return table_text(files[0])
        (one,) = run.job.input.parse(["\t".join(map(str, files))])
        return one

    def sound(self, name: str, word: str) -> bytes:
        """Return an uploaded recording or an example as WAV."""
        run = self._runs[name]
        heard = run.job.input.heard(self.given(name, word)) if "sound" in run.job.input.kinds else None
        if heard is None:
            raise CallError(f"the model {name} takes no recording")
        return heard

    def _parts(self, run: "AnyRun", text: str) -> list[tuple[str, str]]:
        """Return the parts of one input, each with its kind."""
        kinds = run.job.input.kinds
        parts = text.split("\t", len(kinds) - 1)
        if len(parts) != len(kinds):
            wanted = "<TAB>".join(f"name of the {WHAT[kind]}" if kind in WHAT else kind for kind in kinds)
            raise CallError(f"this model takes {' and '.join(kinds)}: send {wanted}; /api/upload gives the name")
        return list(zip(parts, kinds, strict=True))

    # ------------------------------------------------------------------------------------------------------- outputs
    def predict(self, body: schemas.Predict) -> ParsedRequest:
        name, run = self.find(body.model)
        if len(body.inputs) > self._limits.max_inputs:
            raise RefusedError(422, f"{len(body.inputs)} inputs: send {self._limits.max_inputs} at most", "inputs")
        for field in ("inputs", "labels", "templates"):
            for number, text in enumerate(getattr(body, field) or ()):
                self.require_short(text, f"{field}.{number}")
        self.require_short(body.prefix, "prefix")
        decoding = body.decoding()

        def joining(take: Take) -> Answers:
            answers = run.predict_arriving(take, parse=partial(self.given, name), prefix=body.prefix, **decoding)
            for arrived, found in answers:
                yield arrived, found if isinstance(found, Exception) else found.as_dict() | {"input": arrived.one}

        def at_a_time(inputs: list[str]) -> list[dict[str, Any]]:
            given = [self.given(name, text) for text in inputs]
            found = run.predict(
                given, prefix=body.prefix, attention=body.attention, without=body.without, **decoding
            )  # fmt: skip
            tables = (table for one in found if one.alignment for table in one.alignment.weights.values())
            require_sendable(tables, "send fewer or shorter inputs")
            return [one.as_dict() | {"input": text} for one, text in zip(found, inputs, strict=True)]

        same = ("predict", body.prefix, body.attention, tuple(body.without), json.dumps(decoding, sort_keys=True))
        joins = not (body.attention or body.without)
        # Sampling may depend on the position in a batch: run alone, so that the same seed gives the same output.
        by_itself = _random(run, decoding) and not (joins and run.job.output.draws_alone)
        work = joining if joins else partial(at_once, at_a_time)
        return ParsedRequest(name, body.inputs, work, None if by_itself else same)

    # ---------------------------------------------------------------------------------------------------------- looks
    def look(self, body: schemas.Look) -> ParsedRequest:
        """Return a query whose result is a record."""
        name, ask = self._span_reader(body, _about(body))
        return ParsedRequest(name, [body.text], once(ask))

    def remembered_look(self, body: schemas.PartOut, answer: Callable[[AttentionRecord], Any]) -> ParsedRequest:
        """Return a cached query for a page, which fetches several parts; `answer` is applied to the record."""
        about = _about(body) | {"evidence": True} if body.part == "evidence" else {}
        name, ask = self._span_reader(body, about)
        key = (*_key(body), *about.values())
        return ParsedRequest(name, [body.text], once(lambda: answer(self._recent[name].get(key, ask))))

    def _span_reader(self, body: schemas.Look, about: dict[str, Any]) -> tuple[str, Callable[[], AttentionRecord]]:
        name, run = self.find(body.model)
        for field in ("text", "output", "prefix", "instead"):
            self.require_short(getattr(body, field) or "", field)

        def ask() -> AttentionRecord:
            record = run.look(
                self.given(name, body.text), output=body.output, prefix=body.prefix, method=body.method,
                without=body.without, instead=body.instead, **about, **body.decoding(),
            )  # fmt: skip
            return _with_served_name(record, name, self._told(name, body.text, record.input))

        return name, ask

    def _told(self, name: str, text: str, says: str) -> str | None:
        """Return the public name that replaces a server path in `record.input`; None keeps it."""
        run = self._runs[name]
        path = text.startswith(EXAMPLE) and says == run.job.input.name(self.given(name, text))
        if not path and not {"image", "sound"} & set(run.job.input.kinds):
            return None
        return ": ".join(_show_part(part, kind) for part, kind in self._parts(run, text))

    def explain(self, body: schemas.Explain) -> ParsedRequest:
        """Return a query whose result is a table."""
        name, run = self.find(body.model)
        for field in ("text", "output", "prefix", "against_input", "exchange", "instead"):
            self.require_short(getattr(body, field) or "", field)

        def ask() -> ValueTable:
            other = None if body.against_input is None else self.given(name, body.against_input)
            return run.explain(self.given(name, body.text), body.how, against_input=other, **body.options())

        return ParsedRequest(name, [body.text], once(ask))

    def profile(self, body: schemas.Profile) -> ParsedRequest:
        """Return a query whose result is a table."""
        name, run = self.find(body.model)

        def ask() -> ValueTable:
            return run.role_history() if body.training else run.head_profile(body.inputs)

        return ParsedRequest(name, [""], once(ask))

    def weight(self, body: schemas.WeightOptions) -> ParsedRequest:
        """Return a query whose result is a dictionary."""
        look = schemas.PartOut(**body.model_dump(include={"text", "model", "output", "prefix", "without"}))
        name, seen = self._span_reader(look, {})
        run, key = self._runs[name], _key(look)

        def told() -> dict[str, Any]:
            row, column = body.row, body.column
            if body.words or not body.specials:  # the page counts the rows and columns that it shows
                row, column = token_cell(self._recent[name].get(key, seen), body)
            found = run.weight(
                self.given(name, body.text), row, column, kind=body.kind, layer=body.layer, prefix=body.prefix,
                head=body.head if isinstance(body.head, int) else None, output=body.output, without=body.without,
                tokens=body.tokens,
            )  # fmt: skip
            return found.as_dict()

        return ParsedRequest(name, [body.text], once(told))

    # --------------------------------------------------------------------------------------------------------- files
    def upload(self, model: str | None, content: bytes) -> schemas.Uploaded:
        _, run = self.find(model)
        kinds = run.job.input.kinds
        kind = next((kind for kind in kinds if kind in WHAT), None)
        if kind is None:
            raise CallError(f"the model {model or ''} takes text: there is nothing to upload for it")
        return schemas.Uploaded(name=self._uploads.add(content, kind), takes=kind)


def once(ask: Callable[[], Any]) -> Work:
    """Return work for a query about one input."""
    return partial(at_once, lambda inputs: [ask() for _ in inputs])


def _key(body: schemas.Look) -> tuple[Any, ...]:
    """Return the cache key: equal queries share one record."""
    decoding = json.dumps(body.decoding(), sort_keys=True)
    return (body.text, body.output, body.prefix, body.method, body.instead, tuple(body.without), decoding)


def _about(body: schemas.Look) -> dict[str, Any]:
    """Return whether evidence is requested, and for which cross-attention weights."""
    about: dict[str, Any] = {"evidence": body.evidence}
    if body.kind in (None, "cross"):
        about |= {"layer": body.layer, "head": "mean" if body.head is None else body.head}
    return about


@runtime_checkable
class _MayDraw(Protocol):
    """Decoding settings that can enable sampling."""

    @property
    def random(self) -> bool: ...

    def model_copy(self, *, update: Mapping[str, Any]) -> "_MayDraw": ...


def _random(run: "AnyRun", decoding: Mapping[str, Any]) -> bool:
    """Return whether the run samples its output with these settings."""
    settings = dict(run.recipe).get("decoding")  # some jobs have no such section
    return isinstance(settings, _MayDraw) and settings.model_copy(update=decoding).random


def _show_part(part: str, kind: str) -> str:
    if kind not in WHAT:
        return part
    number = part.removeprefix(EXAMPLE)
    return f"example {int(number) + 1}" if part.startswith(EXAMPLE) and number.isdecimal() else WHAT[kind]


def _with_served_name(record: AttentionRecord, model: str, what: str | None) -> AttentionRecord:
    """Replace the path in a record by the name under which the model is served."""
    told = {"model": model} | ({} if what is None else {"input": what})
    return replace(record, **told, beams=tuple(_with_served_name(beam, model, what) for beam in record.beams))
