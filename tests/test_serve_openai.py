"""The service as programs of others expect it: OpenAI's own client, and LibreTranslate's form."""

import base64
import json

import numpy as np
import pytest

import regard
from test_generate import run as writer  # noqa: F401  (a fixture)
from test_serve import run, serving  # noqa: F401  (run is a fixture)

openai = pytest.importorskip(
    "openai", reason="these tests speak to the service as OpenAI's client does: pip install openai"
)

from regard.serve.errors import Limits  # noqa: E402


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("encode")
    (folder / "pairs.tsv").write_text("one red cat\tun gato rojo\ntwo dogs\tdos perros\na bird\tun pájaro\n")
    tree = {
        "job": "encode",
        "data": {
            "train": f"{folder}/pairs.tsv", "valid": f"{folder}/pairs.tsv", "max_length": 9,
            "tokenizer": {"kind": "word", "joint": True},
        },
        "model": {"kind": "transformer", "width": 8, "heads": 2, "layers": 1, "feed_forward": 16, "max_positions": 12},
        "training": {"max_tokens": 100, "max_steps": 2, "max_epochs": None, "validate_every": 2, "warmup": 1},
    }  # fmt: skip
    (folder / "encode.yaml").write_text(json.dumps(tree))
    return regard.train(folder / "encode.yaml", output=folder / "run")


@pytest.fixture(scope="module")
def service(run, writer, encoder):  # noqa: F811
    runs = {"opus-en-es": run, "pairs": run, "writer": writer, "encoder": encoder}
    with serving(runs, Limits(max_length=300)) as client:
        yield client


@pytest.fixture(scope="module")
def client(service):
    return openai.OpenAI(base_url=f"{service.base_url}/v1", api_key="none", max_retries=0)


def test_models_are_listed(client):
    assert [model.id for model in client.models.list()] == ["opus-en-es", "pairs", "writer", "encoder"]


def test_completions_are_those_of_python(client, writer):  # noqa: F811
    how = {"temperature": 0, "max_tokens": 8}
    found = client.completions.create(model="writer", prompt=["abcd", "kl"], **how)
    expected = [one.text for one in writer.predict(["abcd", "kl"], temperature=0, max_length=8)]
    assert [choice.text for choice in found.choices] == expected
    assert [choice.finish_reason for choice in found.choices] == ["length", "length"]
    assert (found.usage.prompt_tokens, found.usage.completion_tokens) == (6, 16)
    stopped = client.completions.create(model="writer", prompt="abcd", stop="no.", temperature=0, max_tokens=30)
    assert (stopped.choices[0].text, stopped.choices[0].finish_reason) == ("efghij klm", "stop")
    many = client.completions.create(model="writer", prompt="abcd", n=3, max_tokens=5, seed=1)
    assert len(many.choices) == 3
    drawn = {
        client.completions.create(model="writer", prompt="a", temperature=5, max_tokens=9).choices[0].text
        for _ in range(4)
    }
    assert len(drawn) > 1, "without a seed, each draws numbers of its own"


def test_a_chat_is_a_play(client, writer):  # noqa: F811
    messages = [{"role": "system", "content": "ab"}, {"role": "user", "content": [{"type": "text", "text": "cd"}]}]
    found = client.chat.completions.create(model="writer", messages=messages, temperature=0, max_completion_tokens=5)
    expected = writer.predict("System: ab\nUser: cd\nAssistant:", temperature=0, max_length=5).text
    assert (found.choices[0].message.role, found.choices[0].message.content) == ("assistant", expected)


def test_streams_come_in_pieces_that_make_the_whole(client):
    how = {"model": "writer", "temperature": 0, "max_tokens": 8, "stream": True}
    chunks = list(client.completions.create(prompt="abcd", **how))
    assert len(chunks) > 3
    assert "".join(chunk.choices[0].text for chunk in chunks) == "efghij k"
    assert [chunk.choices[0].finish_reason for chunk in chunks[-2:]] == [None, "length"]
    chunks = list(client.chat.completions.create(messages=[{"role": "user", "content": "abcd"}], **how))
    assert chunks[0].object == "chat.completion.chunk"
    assert "".join(chunk.choices[0].delta.content for chunk in chunks)


def test_embeddings_are_those_of_python(client, encoder):
    texts = ["one red cat", "a bird"]
    expected = [one.vector for one in encoder.predict(texts)]
    for form in ("float", "base64"):
        found = client.embeddings.create(model="encoder", input=texts, encoding_format=form)
        vectors = [one.embedding for one in found.data]
        if form == "base64":
            vectors = [np.frombuffer(base64.b64decode(one), "<f4") for one in vectors]
        np.testing.assert_allclose(vectors, expected, atol=1e-6)
    assert len(client.embeddings.create(model="encoder", input="a bird").data[0].embedding) == 8


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda c: c.completions.create(model="pairs", prompt="a"), "use a language model"),
        (lambda c: c.completions.create(model="writer", prompt="a", temperature=1e-45), "temperature"),
        (lambda c: c.completions.create(model="writer", prompt="a", logit_bias={"5": 1}), "logit_bias"),
        (lambda c: c.completions.create(model="writer", prompt="a" * 301), "300 at most"),
        (lambda c: c.completions.create(model="writer", prompt="a", n=2, stream=True), "only one text can be streamed"),
        (lambda c: c.chat.completions.create(model="writer", messages=[]), "messages"),
        (lambda c: c.embeddings.create(model="writer", input="a"), "use an encoder"),
        (lambda c: c.embeddings.create(model="nobody", input="a"), "no model 'nobody'"),
    ],
)
def test_errors_are_in_the_form_that_the_client_reads(client, call, told):
    with pytest.raises(openai.APIStatusError) as caught:
        call(client)
    assert caught.value.status_code in (404, 422)
    assert told in f"{caught.value.body['message']} {caught.value.body['param']}"
    assert caught.value.type == "invalid_request_error"


def test_translations_in_the_form_of_libretranslate(service, run):  # noqa: F811
    assert service.get("/languages").json() == [
        {"code": "auto", "name": "auto", "targets": ["pairs"]},
        {"code": "en", "name": "en", "targets": ["es"]},
    ]
    body = {"q": "one red cat", "source": "en", "target": "es"}
    said = {"translatedText": run.predict("one red cat").text}
    assert service.post("/translate", json=body).json() == service.post("/translate", data=body).json() == said
    for sent in ({"content": b"{"}, {"data": {"q": "cat"}}, {"json": {**body, "w": 1}}, {"json": {**body, "q": 3}}):
        assert service.post("/translate", **sent).status_code in (400, 422)
    several = service.post("/translate", json={**body, "q": ["two", "cat"], "source": "auto", "alternatives": 2}).json()
    assert several["translatedText"] == [one.text for one in run.predict(["two", "cat"], beam=3)]
    assert [len(others) for others in several["alternatives"]] == [2, 2]
    wrong = service.post("/translate", json={**body, "target": "fr"})
    assert (wrong.status_code, wrong.json()["error"]) == (
        400, "no model translates from en to fr; available: en to es, auto to pairs",
    )  # fmt: skip
