"""A run and its export to ONNX, asked the same: what `regard.light` says is held against torch."""

import json
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard.api import Run
from regard.errors import CallError
from regard.inputs.image.source import PictureSource
from regard.inputs.series.times import labels
from regard.light.run import OnnxRun, load
from regard.serve.errors import Limits
from regard.tasks.picture.codes import as_image
from regard.tasks.text.transcript import Transcript
from test_serve import serving

SEARCHES: dict[str, tuple[dict[str, Any], ...]] = {
    "text": (
        {"beam": 1}, {"beam": 3, "n_best": 2, "attention": True}, {"beam": 3, "coverage_penalty": 0.3},
        {"sample": True, "n_best": 2, "top_p": 0.8, "seed": 5},
    ),
    "transcript": (  # by default with CTC and a language model
        {"attention": True}, {"beam": 1}, {"language_model": None, "beam": 3, "n_best": 2, "coverage_penalty": 0.3},
        {"ctc": 0.0, "n_best": 2}, {"ctc": 0.0, "language_model": None, "beam": 1}, {"sample": True, "seed": 2},
        {"window": 0.3, "prefix": "7", "attention": True},
    ),
    "continuation": ({"temperature": 0.0}, {"n_best": 2, "repetition_penalty": 1.2}, {"top_k": 7}),
    "labels": ({"n_best": 2},),
    "tags": ({},),
    "vector": ({},),
    "span": ({"n_best": 3},),
    "values": ({},),
    "towers": ({"n_best": 2}, {"labels": ["a red circle", "a blue square"], "n_best": 2}),
    "drawing": ({"temperature": 0.0}, {"candidates": 3, "n_best": 2, "top_k": 5, "seed": 4}),
}  # fmt: skip
UNKNOWN = {"prefix": "日", "replace_unknown": True}  # of what reads words: begins with one that nobody knows
SERVED = ("recurrent", "asked", "recognizer", "gpt2", "drawer", "forecaster", "esm encoder")  # every form of a request
TOLD = (
    "gives",
    "gives_attention",
    "writes_text",
    "gives_vectors",
    "draws",
    "takes_prefix",
    "takes_gold",
    "takes_prompt",
)
USUAL = {"max_length": 12}


def held_equal(run: Run, folder: Path, inputs: list[Any], *, serve: bool = True) -> OnnxRun:
    """All ways of predicting, streams, scores of given outputs, records, and the service."""
    light = load(folder)
    kind = light.about.says["kind"]
    settings = run.recipe.model_dump().get("decoding", {})
    usual = {name: value for name, value in USUAL.items() if name in settings and kind != "span"}
    words = [UNKNOWN] if getattr(run.recipe, "reads_words", False) else []
    for how in (*SEARCHES[kind], *words):
        for one, other in zip(*(asked.predict(inputs, **usual, **how) for asked in (run, light)), strict=True):
            same_prediction(one, other)
            assert how is not UNKNOWN or one.text.startswith(tuple(" ".join(inputs).split()))
    if kind in ("tags", "labels") and run.job.input.kinds == ("text",):  # longer than the model reads at once
        long = " ".join([inputs[0]] * 80)
        same_prediction(run.predict(long), light.predict(long))
    if run.job.output.writes_text:
        same_stream(run, light, inputs[0], usual)
    assert {name: getattr(light.job.output, name) for name in TOLD} == {
        name: getattr(run.job.output, name) for name in TOLD
    }
    assert light.job.input.kinds == run.job.input.kinds
    given = outputs_for(run, light, inputs, usual)
    if given:
        ours, theirs = ([one.score for one in asked.score(inputs, given)] for asked in (run, light))
        np.testing.assert_allclose(ours, theirs, atol=2e-4)
    same_record(run.look(inputs[0], **usual), light.look(inputs[0], **usual))
    if serve:
        served(run, light, inputs)
    return light


def outputs_for(run: Run, light: OnnxRun, inputs: list[Any], usual: dict[str, Any]) -> list[Any]:
    """To be scored: what the model says, or what its kind takes."""
    said = run.predict(inputs, **usual)
    if hasattr(said[0], "vector"):
        same_record(*(asked.look(inputs[0], output=inputs[1]) for asked in (run, light)))
        return inputs[::-1]
    if hasattr(said[0], "picture"):
        same_record(*(asked.look(inputs[0], output=said[1].picture) for asked in (run, light)))
        return [one.picture for one in said]
    if hasattr(said[0], "series"):
        for asked in (run, light):
            with pytest.raises(CallError, match="scored against the actual values"):
                asked.score(inputs, ["1"] * len(inputs))
        return []
    return [" ".join(getattr(one, "tags", [one.text])) for one in said]


def served(run: Run, light: OnnxRun, inputs: list[Any]) -> None:
    """The service offers of an export what it offers of its run, in its own form and in those of others."""
    with serving({"it": light}, Limits()) as client:
        text = _sent(client, inputs[0], run.job.input.kinds)
        for path, body in (("predict", {"inputs": [text]}), ("look", {"text": text}), ("page", {"text": text})):
            answer = client.post(f"/api/{path}", json=body)
            assert answer.status_code == 200, answer.text
        asked = {"model": "it", "prompt": text, "temperature": 0, "max_tokens": 5}
        written = client.post("/v1/completions", json=asked)
        if not run.job.output.takes_prompt:
            assert (written.status_code, written.json()["error"]["type"]) == (422, "invalid_request_error")
        else:
            said = run.predict(text, temperature=0.0, max_length=5).text
            assert written.json()["choices"][0]["text"] == said
            lines = client.post("/v1/completions", json={**asked, "stream": True}).text.split("\n\n")
            pieces = [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: {")]
            assert "".join(one["choices"][0]["text"] for one in pieces) == said
            chat = {**asked, "messages": [{"role": "user", "content": text}]}
            del chat["prompt"]
            assert client.post("/v1/chat/completions", json=chat).json()["choices"][0]["message"]["content"]
        if run.job.output.gives_vectors:
            found = client.post("/v1/embeddings", json={"model": "it", "input": inputs}).json()["data"]
            ours = [one.vector for one in run.predict(inputs)]
            np.testing.assert_allclose([one["embedding"] for one in found], ours, atol=2e-5)
        if run.recipe.job == "translate":
            told = client.post("/translate", data={"q": text, "target": "it"}).json()
            assert told == {"translatedText": run.predict(text).text}


def _sent(client: Any, one: Any, kinds: tuple[str, ...]) -> str:
    """An input as somebody sends it: tables and files are uploaded, and named."""
    parts = []
    for kind, part in zip(kinds, one if isinstance(one, tuple) else (one,), strict=True):
        name = part if kind == "text" else client.post("/api/upload", content=_content(kind, part)).json()["name"]
        parts.append(name)
    return "\t".join(parts)


def _content(kind: str, part: str) -> bytes:
    if kind == "table":
        return part.encode()
    return _picture(part) if part.startswith("corpus:") else Path(part).read_bytes()


def _table(run: Run) -> str:
    """The last window of a corpus, as a person would send it."""
    input: Any = run.job.input
    item, roles = input.read(run.recipe.data.train), input.fitted.roles  # pyright: ignore[reportAttributeAccessIssue]
    names = [*(() if input.layout.convert else roles.targets), *roles.past, *roles.future]
    columns = [input.unscale(item, place) for place in range(len(names))]
    rows = zip(labels(item.times, input.fitted.dates), *columns, strict=True)
    return "\n".join(",".join(map(str, row)) for row in [(roles.time or "line", *names), *rows])


def _picture(word: str) -> bytes:
    out = BytesIO()
    as_image(PictureSource.find(word)).save(out, format="PNG")
    return out.getvalue()


def same_stream(run: Run, light: OnnxRun, one: Any, usual: dict[str, Any]) -> None:
    told: list[list[Any]] = [[], []]
    streamed = (
        asked.stream(one, lambda *news, own=own: own.append(news), **usual)
        for asked, own in zip((run, light), told, strict=True)
    )
    same_prediction(*streamed)
    assert told[0] == told[1]
    assert told[0]


def same_prediction(one: Any, other: Any) -> None:
    if hasattr(one, "vector"):
        return np.testing.assert_allclose(one.vector, other.vector, atol=2e-5)
    if hasattr(one, "series"):
        for table, again in zip(one.series, other.series, strict=True):
            assert (table.name, table.times, table.targets) == (again.name, again.times, again.targets)
            for name in ("values", "bands", "past", "actual"):
                np.testing.assert_allclose(getattr(table, name), getattr(again, name), rtol=1e-4, atol=1e-4)
        return None
    assert [said.text for said in one.n_best] == [said.text for said in other.n_best]
    for picture, again in zip(getattr(one, "pictures", ()), getattr(other, "pictures", ()), strict=True):
        assert np.abs(picture.astype(int) - again).max() <= 1  # shades are rounded
    assert one.as_dict().keys() == other.as_dict().keys()
    if isinstance(one, Transcript):
        for heard, again in zip(one.words + one.tokens, other.words + other.tokens, strict=True):
            assert heard.text == again.text
            assert (heard.start, heard.end) == pytest.approx((again.start, again.end), abs=1e-3)
    assert (one.alignment is None) == (other.alignment is None)
    if one.alignment is not None:
        assert (one.alignment.rows, one.alignment.columns) == (other.alignment.rows, other.alignment.columns)
        for name, weights in one.alignment.weights.items():
            np.testing.assert_allclose(weights, other.alignment.weights[name], atol=2e-5)
    for said, again in zip(one.n_best, other.n_best, strict=True):
        np.testing.assert_allclose(said.score, again.score, atol=2e-4)
        np.testing.assert_allclose(said.log_probability, again.log_probability, atol=2e-4)


def example_inputs(run: Run, folder: Path) -> list[Any]:
    """Two inputs of its kind: texts, or files."""
    if run.recipe.job == "answer":
        long = " ".join(f"We eat {number} loaves with Pedro." for number in range(40))  # no sentence twice: no ties
        return ["Who is here?\nThe queen is here. We eat bread.", f"What do we eat?\n{long}"]
    if run.recipe.job == "draw":
        return ["a red circle above a blue square", "a green square"]
    if run.recipe.job == "forecast":
        return [_table(run)]
    if run.recipe.job == "ask":
        return [("corpus:shapes#0", "what color is the circle?"), ("corpus:shapes#1", "what is below the square?")]
    if run.job.input.kind == "text":
        return ["The queen is here", "We eat bread with Pedro"]
    if run.job.input.kind == "table":
        chance = np.random.default_rng(3)  # a column of numbers, as a service is sent it
        return [
            "\n".join([run.job.input.fitted.roles.columns[0], *map(str, some)]) for some in chance.normal(0, 1, (2, 40))
        ]
    names = [str(folder / name) for name in ("one", "two")]
    for seed, name in enumerate(names):
        noise = np.random.default_rng(seed)
        if run.job.input.kind == "image":
            from PIL import Image

            Image.fromarray(noise.integers(0, 256, (9, 11, 3), np.uint8)).save(f"{name}.png")
        else:
            import soundfile

            soundfile.write(f"{name}.wav", noise.normal(0, 0.1, 5000 + 3000 * seed), 11025)
    return [f"{name}.{'png' if run.job.input.kind == 'image' else 'wav'}" for name in names]


def same_record(one: Any, other: Any) -> None:
    named = ("name", "kind", "layer", "rows", "columns")
    for table, again in zip(one.attentions, other.attentions, strict=True):
        assert [getattr(table, name) for name in named] == [getattr(again, name) for name in named]
        np.testing.assert_allclose(table.weights, again.weights, atol=2e-5)
    assert one.axes == other.axes
    assert (one.method, one.input, one.output, one.forced) == (other.method, other.input, other.output, other.forced)
    np.testing.assert_allclose(one.scores, other.scores, atol=2e-4)
    assert _pieces(one) == _pieces(other)
    assert (one.said is None) == (other.said is None)
    if one.said is not None:
        assert one.said.names == other.said.names
        assert one.said.marks == other.said.marks
        np.testing.assert_allclose(one.said.values, other.said.values, atol=1e-5, rtol=1e-5)
        assert (len(one.said.frames), one.said.regions) == (len(other.said.frames), other.said.regions)


def _pieces(record: Any) -> list[list[tuple[str, str]]]:
    return [[(token.text, token.piece) for token in step] for step in record.next_tokens]
