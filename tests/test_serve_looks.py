"""The service's pictures of attention: parts for the page, heads left out, files that are sent; and hostile clients."""

import base64
import io
import json
import wave
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from PIL import Image

from regard import api, look
from regard.errors import CallError
from regard.look.card import Figure, sentence
from regard.serve.errors import Limits
from regard.serve.uploads import Uploads, check_sound
from regard.tasks.result import Candidate, Prediction
from regard.work import at_once
from test_serve import run, serving  # noqa: F401  (run is a fixture)

TEXT = "one red cat"


@pytest.fixture(scope="module")
def client(run):  # noqa: F811
    sees = api.Run(run.folder, run.recipe, Spots(run.recipe, run.model))
    with serving({"pairs": run, "spots": sees}, Limits(max_length=200, max_upload=200_000)) as client:
        yield client


class Spots:
    """A job that takes pictures: it looks at each of 2 × 3 regions as much as the region is bright."""

    kinds, takes_prefix, writes_text, by_chance, gives = ("image",), False, False, False, "a place"
    takes_instead = False
    reader = staticmethod(lambda model: model)

    def __init__(self, recipe, model):
        self.recipe, self.model = recipe, model
        self.input = self.output = self

    def with_recipe(self, recipe):
        return Spots(recipe, self.model)

    def parse(self, words):
        return [Path(word) for word in words]

    def is_one(self, given):
        return isinstance(given, Path)

    def predict(self, inputs, *, prefix, attention):
        return [Prediction(str(path), [Candidate(f"{self.bright(path).argmax()}", 0.0, 0.0)]) for path in inputs]

    def predict_arriving(self, take, given, *, prefix):
        return at_once(lambda some: self.predict([given(one) for one in some], prefix=prefix, attention=False), take)

    def look(self, path, options):
        image = np.array(Image.open(path).convert("RGB"))
        weights = self.bright(path)[None, None]
        return look.record(weights, ["it"], look.axis(grid=(2, 3), image=image), input=str(path), output="it")

    def bright(self, path):
        gray = np.array(Image.open(path).convert("L").resize((3, 2), Image.Resampling.BOX), dtype=np.float64).ravel()
        return gray / gray.sum()


def png(values=(10, 20, 30, 40, 50, 100)):
    array = np.array(values, np.uint8).reshape(2, 3).repeat(20, 0).repeat(20, 1)
    file = io.BytesIO()
    Image.fromarray(array).save(file, format="PNG")
    return file.getvalue()


def part(client, **body):
    answer = client.post("/api/page", json={"model": "pairs", "text": TEXT, **body})
    assert answer.status_code == 200, answer.text
    return answer.json()


def numbers(text, shape):
    return np.frombuffer(base64.b64decode(text), "<f4").reshape(shape)


# ------------------------------------------------------------------------------------------- only what is shown is sent
def test_the_outline_has_no_weights_and_parts_have_those_of_python(client, run):  # noqa: F811
    record = run.look(TEXT, n_best=2)
    outline = part(client, n_best=2)
    assert "weights" not in str(outline["records"])
    assert [one["shape"] for one in outline["records"][0]["attentions"]] == [
        list(one.weights.shape) for one in record.attentions
    ]
    for choice in (
        {"kind": "cross", "layer": 1, "head": 1}, {"kind": "encoder", "head": "max"}, {"kind": "decoder", "layer": -1},
    ):  # fmt: skip
        told = part(client, n_best=2, part="table", **choice)
        expected = record.matrix(choice["kind"], choice.get("layer"), choice.get("head", "mean"))
        np.testing.assert_array_equal(numbers(told["values"], expected.weights.shape), expected.weights)
        assert told["card"]["title"] == expected.title
        assert [token["text"] for token in told["columns"]] == expected.columns.labels
    hidden = part(client, n_best=2, part="table", specials=False, words=True, head="max")
    expected = record.words().without_specials().matrix(head="max").weights
    np.testing.assert_array_equal(numbers(hidden["values"], expected.shape), expected)
    other = part(client, n_best=2, part="table", hypothesis=1)
    expected = record.beams[0].matrix().weights
    np.testing.assert_array_equal(numbers(other["values"], expected.shape), expected)
    assert outline["records"][0]["next_tokens"][0][0].keys() == {"text", "piece", "log_probability"}
    assert outline["records"][0]["evidence"] == []  # the model is asked for it when somebody wants it
    evidence = part(client, part="evidence", kind="cross", layer=1, head=0)
    figures = evidence["figures"]
    assert f"{figures[0]['value']:.1f} nats less sure" in evidence["sentence"]
    expected = run.look(TEXT, layer=1, head=0, evidence=True).evidence
    assert [figure["name"] for figure in figures] == [figure.name for figure in expected]
    np.testing.assert_allclose([figure["value"] for figure in figures], [one.value for one in expected], atol=1e-5)
    heads = part(client, n_best=2, part="heads", kind="cross", layer=0)["tables"]
    for head, table in enumerate(heads):
        expected = record.matrix("cross", 0, head).weights
        np.testing.assert_array_equal(numbers(table["values"], expected.shape), expected)


def test_maps_of_all_heads_are_small(client, run, monkeypatch):  # noqa: F811
    monkeypatch.setattr("regard.serve.records.MAP", 2)
    weights = run.look(TEXT).of_kind("cross")[1].weights[0]
    (_, layer) = part(client, part="maps", kind="cross")["layers"]
    found = layer["heads"][0]
    assert (found["q"], found["k"]) == (2, 2)
    half = [size // 2 for size in weights.shape]
    expected = [[weights[: half[0], : half[1]].max(), weights[: half[0], half[1] :].max()],
                [weights[half[0] :, : half[1]].max(), weights[half[0] :, half[1] :].max()]]  # fmt: skip
    np.testing.assert_array_equal(numbers(found["values"], (2, 2)), expected)


def test_the_model_is_asked_once_for_all_parts_of_a_page(client, run, monkeypatch):  # noqa: F811
    asked, real = [], type(run).look
    monkeypatch.setattr(type(run), "look", lambda self, text, **how: asked.append(text) or real(self, text, **how))
    for layer in (0, 1):
        for head in (0, 1, "mean"):
            part(client, text="two dog", part="table", layer=layer, head=head)
    assert asked == ["two dog"]
    part(client, text="two dog", part="table", output="dos")
    assert len(asked) == 2


def test_how_a_weight_came_about(client, run):  # noqa: F811
    body = {"model": "pairs", "text": TEXT, "row": 1, "column": 2}
    expected = run.weight(TEXT, 1, 2, kind="cross", layer=1, head=0)
    told = client.post("/api/weight", json={**body, "kind": "cross", "layer": 1, "head": 0}).json()
    assert told["title"] == expected.title
    np.testing.assert_allclose(told["scores"], expected.scores, atol=1e-5)
    assert [part["name"] for part in told["parts"]] == [part.told for part in expected.parts]
    assert sum(part["value"] for part in told["parts"]) == pytest.approx(expected.score, abs=1e-4)
    by_token = client.post("/api/weight", json={**body, "tokens": True}).json()["tokens"]
    assert by_token[-1]["name"] == "an input of zeros"
    strongest = client.post("/api/weight", json={**body, "head": "mean"}).json()
    assert strongest["weight"] == pytest.approx(run.weight(TEXT, 1, 2).weight, abs=1e-6)
    record = run.look(TEXT)
    source = record.axes["source"]
    first = source.real()[0]  # without special tokens it is column 0
    told = client.post("/api/weight", json={**body, "column": 0, "specials": False, "kind": "encoder"}).json()
    assert told["column_label"] == source.labels[first]
    told = client.post("/api/weight", json={**body, "row": 0, "column": 0, "words": True, "layer": 0, "head": 1}).json()
    (start, stop), cells = source.words()[0], record.matrix("cross", 0, 1).weights
    assert told["weight"] == pytest.approx(cells[slice(*record.axes["target"].words()[0]), start:stop].max(), abs=1e-6)
    for wrong in ({"row": 99}, {"column": "x"}, {"kind": "gate"}, {"row": 99, "words": True}, {"output": "x" * 300}):
        assert client.post("/api/weight", json={**body, **wrong}).status_code == 422


def test_looking_at_a_weight_is_work_that_is_counted(run):  # noqa: F811
    with serving({"pairs": run}, Limits(max_work=5)) as client:
        answer = client.post("/api/weight", json={"text": TEXT, "row": 0, "column": 0})
    assert answer.status_code == 422
    assert "vectors" in answer.json()["error"]


# ------------------------------------------------------------------------------------------------ heads that are silent
def test_heads_are_left_out_over_http(client, run):  # noqa: F811
    names = ["cross.0.1", "encoder.0.0"]
    told = client.post("/api/predict", json={"model": "pairs", "inputs": [TEXT], "without": names}).json()
    assert told["predictions"][0]["score"] == pytest.approx(run.predict(TEXT, without=names).score, abs=1e-5)
    seen = client.post("/api/look", json={"model": "pairs", "text": TEXT, "without": names}).json()
    assert seen["without"] == names
    expected = run.look(TEXT, without=names)
    for one, other in zip(seen["attentions"], expected.attentions, strict=True):
        np.testing.assert_allclose(one["weights"], other.weights, atol=1e-6)
    for wrong in (["cross.9.9"], ["x"], "cross.0.1", [1], ["x" * 60]):
        answer = client.post("/api/look", json={"model": "pairs", "text": TEXT, "without": wrong})
        assert answer.status_code == 422


def test_the_next_tokens_have_the_probabilities_of_the_model(run):  # noqa: F811
    record = run.look(TEXT)
    assert len(record.next_tokens) == len(record.scores)
    for token, score, found in zip(record.axes["target"].tokens, record.scores, record.next_tokens, strict=True):
        told = {one.text: one.log_probability for one in found}
        assert told[token.text] == pytest.approx(score, abs=1e-5)  # greedy or nearly so: it is among the five
        assert list(told.values()) == sorted(told.values(), reverse=True)
    other = record.next_tokens[0][1]
    assert run.look(TEXT, prefix=other.piece).output.startswith(other.piece)
    saved = look.load(record.save(run.folder / "saved.npz"))
    assert saved.next_tokens == record.next_tokens


def test_the_card_says_what_it_means():
    lost = Figure("comprehensiveness", 6.8, 1.0, 2.3, "high", unit="nats")
    assert "6.8 nats less sure; with shuffled weights, 2.3: these weights matter" in sentence([lost])
    assert sentence([replace(lost, value=2.3)]).endswith("these weights explain little here.")
    assert sentence([Figure("entropy (bits)", 1.0, 3.0)]) == "A row looks at about 2.0 of 8 places: a sharp focus."


def test_pictures_are_drawn_as_they_are_shown(client, run):  # noqa: F811
    def specials(**how):
        page = client.post("/api/picture", json={"model": "pairs", "text": TEXT, "format": "html", **how}).text
        tree = json.loads(page.split('id="regard-data">')[1].split("</script>")[0])
        return [token["special"] for token in tree["records"][0]["axes"]["source"]["tokens"]]

    assert specials() == [token.special for token in run.look(TEXT).axes["source"].tokens]
    assert specials(words=True, specials=False) == [False] * len(TEXT.split())


def test_two_are_drawn_side_by_side_and_prefixes_are_heard(client, run):  # noqa: F811
    body = {"model": "pairs", "text": TEXT, "without": ["cross.0.1"], "against": "pairs", "format": "svg"}
    assert client.post("/api/picture", json=body).content.startswith(b"<?xml")
    assert client.post("/api/picture", json={**body, "against": "nobody"}).status_code == 404
    own = {**body, "output": "dos", "without": [], "same_output": False}  # other rows: no difference, and no error
    assert client.post("/api/picture", json=own).status_code == 200
    seen = client.post("/api/look", json={"model": "pairs", "text": TEXT, "prefix": "azul"}).json()
    assert seen["output"] == run.predict(TEXT, prefix="azul").text


# -------------------------------------------------------------------------------------------------- files that are sent
def test_a_picture_is_sent_asked_about_and_forgotten(client):
    sent = client.post("/api/upload?model=spots", content=png())
    assert sent.status_code == 200, sent.text
    name = sent.json()["name"]
    assert sent.json()["takes"] == "image"
    (found,) = client.post("/api/predict", json={"model": "spots", "inputs": [name]}).json()["predictions"]
    assert (found["input"], found["text"]) == (name, "5")
    seen = client.post("/api/look", json={"model": "spots", "text": name}).json()
    assert seen["input"] == "picture"  # no path of ours is told
    np.testing.assert_allclose(seen["attentions"][0]["weights"][0][0], np.array([1, 2, 3, 4, 5, 10]) / 25, atol=1e-6)
    drawn = client.post("/api/picture", json={"model": "spots", "text": name, "view": "overlay", "format": "png"})
    assert drawn.content.startswith(b"\x89PNG")
    assert [one["takes"] for one in client.get("/api/models").json()["models"]] == [["text"], ["image"]]


@pytest.mark.parametrize(
    "name", ["/etc/passwd", "upload:../../etc/passwd", "upload:" + "0" * 32, "corpus:shapes#1", ""]
)
def test_nothing_but_what_was_sent_can_be_asked_about(client, name):
    asked = {"/api/predict": {"inputs": [name]}, "/api/look": {"text": name}, "/api/page": {"text": name}}
    for path, body in asked.items():
        answer = client.post(path, json={"model": "spots", **body})
        assert answer.status_code == 422
        assert "/api/upload" in answer.json()["error"]


@pytest.mark.parametrize(
    "content",
    [b"", b"GIF89a", png()[:60], b"\x00" * 500, b"<svg xmlns='http://www.w3.org/2000/svg'/>", b"%PDF-1.7"],
    ids=["empty", "a head only", "cut off", "zeros", "svg", "pdf"],
)
def test_what_is_no_picture_is_refused(client, content):
    answer = client.post("/api/upload?model=spots", content=content)
    assert answer.status_code == 422
    assert "picture" in answer.json()["error"]


def test_uploads_have_limits_and_need_a_model_that_takes_them(client):
    assert client.post("/api/upload?model=spots", content=b"x" * 200_001).status_code == 413
    assert client.post("/api/upload?model=pairs", content=png()).status_code == 422
    assert client.post("/api/upload", content=png()).status_code == 422
    wide = io.BytesIO()
    Image.new("1", (8_000, 8_000)).save(wide, format="PNG")
    answer = client.post("/api/upload?model=spots", content=wide.getvalue())
    assert "too many" in answer.json()["error"]


def test_files_are_deleted_when_they_are_old_or_too_many_and_at_the_end(monkeypatch):
    uploads = Uploads()
    first = uploads.add(png(), "image")
    path = uploads.path(first, "image")
    assert path.read_bytes() == png()
    with pytest.raises(CallError, match="takes a recording"):
        uploads.path(first, "sound")
    monkeypatch.setattr("regard.serve.uploads.MOST", 2)
    assert uploads.add(png(), "image") == first  # the name is that of the content
    path = uploads.path(first, "image")
    names = [uploads.add(png((1, 2, 3, 4, 5, last)), "image") for last in range(2)]
    assert not path.exists()
    monkeypatch.setattr("regard.serve.uploads.time.monotonic", lambda: 1e12)
    with pytest.raises(CallError, match="minutes"):
        uploads.path(names[0], "image")
    assert list(path.parent.iterdir()) == []
    uploads.close()
    assert not path.parent.exists()


def test_recordings_are_checked():
    pytest.importorskip("soundfile", reason="pip install 'regard[audio]'")
    file = io.BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setparams((1, 2, 8000, 0, "NONE", ""))
        sound.writeframes(np.arange(800, dtype=np.int16).tobytes())
    assert check_sound(file.getvalue()) == ".wav"
    for content in (b"", b"RIFF", b"\x00" * 100, png()):
        with pytest.raises(CallError, match="recording"):
            check_sound(content)


# ------------------------------------------------------------------------------------------------------------ hostility
def test_no_request_that_the_description_allows_is_a_fault(client):
    schemathesis = pytest.importorskip("schemathesis", reason="pip install schemathesis")
    schema = schemathesis.openapi.from_url(f"{client.base_url}/openapi.json")
    for found in schema.get_all_operations():
        statuses = call_with_anything(found.ok(), str(client.base_url))
        assert statuses
        assert max(statuses) < 500


def call_with_anything(operation, address):
    statuses = []

    @settings(max_examples=12, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(case=operation.as_strategy())
    def call(case):
        statuses.append(case.call(base_url=address).status_code)

    call()
    return statuses


@pytest.mark.slow
def test_two_thousand_requests_leave_no_memory_behind(client):
    status = Path("/proc/self/status")
    if not status.exists():
        pytest.skip("needs /proc, which Linux has")

    def resident():
        return int(status.read_text().split("VmRSS:")[1].split()[0]) / 1024

    def ask(number):
        text = ("one red cat", "two", "blue dog three")[number % 3]
        if number % 100:
            return client.post(
                "/api/predict", json={"model": "pairs", "inputs": [text], "beam": 1, "max_length": 3}
            ).status_code
        # Another question each time: records do not pile up either.
        body = {"model": "pairs", "text": text, "output": f"uno {number}", "part": "table"}
        return client.post("/api/page", json=body).status_code

    with ThreadPoolExecutor(16) as pool:
        assert set(pool.map(ask, range(400))) == {200}
        before = resident()
        assert set(pool.map(ask, range(400, 2400))) == {200}
    assert resident() - before < 12
