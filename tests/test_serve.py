"""The service, over real sockets: a run trained by the test, served by uvicorn on a free port of this machine."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import regard
from regard.errors import CallError
from regard.serve.schemas import Look, PictureOptions, Predict, StreamOptions
from regard.work import at_once, before_step
from test_translate import recipe

httpx = pytest.importorskip("httpx", reason="tests of the service need httpx")
pytest.importorskip("uvicorn", reason='the service needs the web extra: pip install "regard[web]"')

from regard.serve.app import create_app  # noqa: E402  (needs the web extra)
from regard.serve.command import listen, load_all, read_key, serve  # noqa: E402
from regard.serve.errors import Limits  # noqa: E402
from regard.serve.middleware import ServiceMetrics  # noqa: E402
from regard.serve.server import Server  # noqa: E402
from regard.serve.service import QueueFullError, Worker  # noqa: E402

BODIES = {"/api/predict": Predict, "/api/look": Look, "/api/picture": PictureOptions, "/api/stream": StreamOptions}
TEXTS = ["one red cat", "blue dog three", "two", "cat cat dog blue", "three"]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("served")
    return regard.train(recipe(folder, "transformer", max_steps=60, validate_every=60), output=folder / "run")


@contextmanager
def serving(runs, limits, folders=()):
    with listen("127.0.0.1", 0) as place:
        server = Server(create_app(runs, limits, folders), limits)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [place]})
        thread.start()
        try:
            with httpx.Client(base_url=f"http://127.0.0.1:{place.getsockname()[1]}", timeout=20) as client:
                client.server = server
                yield client
        finally:
            server.should_exit = True
            thread.join()


@pytest.fixture(scope="module")
def client(run):
    with serving({"pairs": run, "other": run}, Limits(max_length=200, max_inputs=7)) as client:
        yield client


def ask(client, **body):
    return client.post("/api/predict", json={"model": "pairs", **body})


def metric(client, name, **labels):
    """The sum of a metric's series that have these labels."""
    found = 0.0
    for line in client.get("/metrics").text.splitlines():
        series, _, value = line.rpartition(" ")
        if series.partition("{")[0] == name and all(f'{key}="{text}"' in series for key, text in labels.items()):
            found += float(value)
    return found


# ------------------------------------------------------------------------------------------------------ what it answers
def test_outputs_are_those_of_python(client, run):
    found = ask(client, inputs=TEXTS, n_best=2).json()
    assert found["model"] == "pairs"
    for told, expected in zip(found["predictions"], run.predict(TEXTS, n_best=2), strict=True):
        assert told["input"] == expected.input
        assert [one["text"] for one in told["n_best"]] == [one.text for one in expected.n_best]
        assert told["score"] == pytest.approx(expected.score, abs=1e-4)


def test_decoding_settings_arrive(client, run):
    assert ask(client, inputs=["one red cat"], prefix="azul").json()["predictions"][0]["text"].startswith("azul")
    how = {"sample": True, "seed": 3, "n_best": 3, "temperature": 2.0}
    drawn = ask(client, inputs=["one red cat"], **how).json()["predictions"][0]
    assert [one["text"] for one in drawn["n_best"]] == [one.text for one in run.predict("one red cat", **how).n_best]
    short = ask(client, inputs=["cat cat dog blue"], max_length=2).json()["predictions"][0]["text"]
    assert short == run.predict("cat cat dog blue", max_length=2).text


def test_attention_comes_with_it_if_asked_for(client, run):
    told = ask(client, inputs=["one red cat"], attention=True).json()["predictions"][0]["alignment"]
    expected = run.predict("one red cat", attention=True).alignment
    assert told["rows"] == expected.rows
    for name, weights in expected.weights.items():
        np.testing.assert_allclose(told["weights"][name], weights, atol=1e-5)
    assert "alignment" not in ask(client, inputs=["one red cat"]).json()["predictions"][0]


def test_explain_sends_the_table_of_the_run(client, run):
    body = {"model": "pairs", "text": "one red cat", "output": "uno rojo gato"}
    for more in (
        {"how": "lens"},
        {"how": "logits", "row": 1, "instead": "perro"},
        {"how": "inputs", "by": "attnlrp"},
        {"how": "patching", "against_input": "two red cat", "by": "positions"},
        {"how": "patching", "exchange": "one=two"},
    ):
        told = client.post("/api/explain", json=body | more)
        assert told.status_code == 200, told.text
        how, choice = more["how"], {name: value for name, value in more.items() if name != "how"}
        expected = run.explain(body["text"], how, output=body["output"], **choice).as_dict()
        np.testing.assert_allclose(told.json()["values"], expected["values"], atol=1e-5)
        assert told.json()["rows"] == expected["rows"]
    profile = client.post("/api/profile", json={"model": "pairs", "inputs": 2}).json()
    expected = run.head_profile(2).as_dict()
    assert (profile["rows"], profile["words"]) == (expected["rows"], expected["words"])
    trained = client.post("/api/profile", json={"model": "pairs", "training": True})
    assert trained.json()["values"] == run.role_history().as_dict()["values"]
    for path, more in (("explain", body | {"how": "lens"}), ("profile", {"model": "pairs", "inputs": 1})):
        drawn = client.post(f"/api/{path}", json=more | {"format": "svg"})
        assert (drawn.headers["content-type"], drawn.content[:5]) == ("image/svg+xml", b"<?xml")
    refused = client.post("/api/explain", json=body | {"how": "patching"})
    assert refused.status_code == 422
    assert "needs a second input" in refused.json()["error"]


def test_look_sends_only_what_was_chosen(client, run):
    record = run.look("one red cat")
    whole = client.post("/api/look", json={"model": "pairs", "text": "one red cat"}).json()
    assert [one["name"] for one in whole["attentions"]] == [one.name for one in record.attentions]
    assert whole["output"] == record.output
    body = {"model": "pairs", "text": "one red cat", "kind": "cross", "layer": 1, "head": 1}
    one = client.post("/api/look", json=body).json()
    assert len(one["attentions"]) == 1
    np.testing.assert_allclose(one["attentions"][0]["weights"], [record.matrix("cross", 1, 1).weights], atol=1e-6)
    mean = client.post("/api/look", json={**body, "layer": None, "head": "mean"}).json()
    np.testing.assert_allclose(mean["attentions"][0]["weights"], [record.matrix("cross").weights], atol=1e-6)
    last = client.post("/api/look", json={**body, "layer": -1, "head": None}).json()
    assert [(one["layer"], one["shape"][0]) for one in last["attentions"]] == [(1, 2)]
    encoder = client.post("/api/look", json={**body, "kind": "encoder", "layer": 0}).json()
    assert set(encoder["axes"]) == {"source", "target"}


def test_an_answer_that_would_be_too_large_is_refused(client, monkeypatch):
    monkeypatch.setattr("regard.serve.records.MOST_NUMBERS", 100)
    body = {"model": "pairs", "text": "one red cat"}
    refused = client.post("/api/look", json=body)
    assert refused.status_code == 422
    assert "choose kind, layer and head" in refused.json()["error"]
    assert client.post("/api/look", json={**body, "kind": "cross", "layer": 0}).status_code == 200  # 2 × 4 × 4
    assert ask(client, inputs=["one red cat"] * 3, attention=True).status_code == 422
    assert ask(client, inputs=["one red cat"] * 3).status_code == 200


def test_look_at_a_given_output_by_another_method(client, run):
    body = {"model": "pairs", "text": "one red cat", "output": "azul perro", "method": "leave-one-out"}
    told = client.post("/api/look", json=body).json()
    expected = run.look("one red cat", output="azul perro", method="leave-one-out")
    assert told["output"] == "azul perro"
    np.testing.assert_allclose(told["attentions"][0]["weights"], expected.attentions[0].weights, atol=1e-4)


@pytest.mark.parametrize(
    ("form", "start"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF"), ("html", b"<!doctype html>")]
)
def test_pictures(client, form, start):
    body = {"model": "pairs", "text": "one red cat", "layer": 1, "head": 0, "format": form}
    answer = client.post("/api/picture", json=body)
    assert answer.status_code == 200
    assert answer.content.startswith(start)
    assert form in answer.headers["content-type"]


def events(response):
    parts = [part.split("\n") for part in response.text.strip().split("\n\n")]
    return [(name.removeprefix("event: "), json.loads(data.removeprefix("data: "))) for name, data in parts]


@pytest.mark.parametrize("how", [{}, {"sample": True, "seed": 5, "temperature": 3.0}, {"prefix": "azul"}])
def test_a_stream_ends_where_predict_does(client, run, how):
    before = set(vars(run.model))
    response = client.post("/api/stream", json={"model": "pairs", "text": "cat cat dog blue", **how})
    assert response.headers["content-type"].startswith("text/event-stream")
    *tokens, (last, end) = events(response)
    expected = run.predict("cat cat dog blue", beam=1, **how)
    assert last == "end"
    assert end["text"] == expected.text
    assert end["score"] == pytest.approx(expected.score, abs=1e-4)
    assert {name for name, _ in tokens} == {"token"}
    assert " ".join(data["token"] for _, data in tokens) == tokens[-1][1]["text"] == expected.text  # word by word
    assert set(vars(run.model)) == before  # the model itself tells nobody


def test_answers_are_sent_at_once():
    """A body that waited for the acknowledgement of its head would come 40 ms late (Nagle's algorithm)."""
    with listen("127.0.0.1", 0) as place, socket.create_connection(place.getsockname()), place.accept()[0] as answering:
        assert answering.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_health_models_and_description(client, run):
    assert client.get("/health/live").json() == {"status": "ok"}
    models = client.get("/api/models").json()["models"]
    assert [(one["name"], one["job"], one["looks"]) for one in models] == [
        ("pairs", "translate", True),
        ("other", "translate", True),
    ]
    assert models[0]["parameters"] == sum(p.numel() for p in run.model.parameters())
    paths = client.get("/openapi.json").json()["paths"]
    assert set(paths) == {
        "/health/live",
        "/health/ready",
        "/metrics",
        "/api/models",
        "/api/predict",
        "/api/look",
        "/api/explain",
        "/api/profile",
        "/api/weight",
        "/api/runs",
        "/api/runs/report",
        "/api/picture",
        "/api/stream",
        "/api/upload",
        "/v1/models",
        "/v1/completions",
        "/v1/chat/completions",
        "/v1/embeddings",
        "/languages",
        "/translate",
    }
    page = client.get("/docs").text
    assert all(path in page for path in paths)
    assert "//" not in page.replace("<!doctype html>", "")  # nothing from elsewhere


# ------------------------------------------------------------------------------------------------------------- batching
def test_requests_that_wait_are_answered_together_each_with_its_own(run):
    expected = {text: run.predict(text).text for text in TEXTS}
    with serving({"pairs": run}, Limits()) as client:
        texts = TEXTS * 8
        with ThreadPoolExecutor(20) as pool:
            told = list(pool.map(lambda text: ask(client, inputs=[text]).json()["predictions"][0]["text"], texts))
        assert told == [expected[text] for text in texts]
        assert metric(client, "regard_batch_requests_total") == len(texts)
        assert metric(client, "regard_batches_total") < len(texts) / 2
        assert metric(client, "regard_requests_total", path="/api/predict", status="200") == len(texts)
        assert metric(client, "regard_request_seconds_bucket", path="/api/predict", le="+Inf") == len(texts)
        assert metric(client, "regard_queue_length") == 0
        assert client.get("/metrics").headers["content-type"].startswith("text/plain; version=")


@pytest.fixture
def held():
    """A worker whose first job holds it until it is let go."""
    worker = Worker("m", ServiceMetrics(), queue=5, max_batch=4, max_work=100)
    go, began = threading.Event(), threading.Event()
    calls = []

    def hold(inputs):
        began.set()
        assert go.wait(10)
        return inputs

    def work(inputs):
        calls.append(list(inputs))
        if "bad" in inputs:
            raise CallError("bad input")
        return [text.upper() for text in inputs]

    worker.start()
    holding = worker.submit(["hold"], partial(at_once, hold))
    assert began.wait(10)
    yield worker, partial(at_once, work), calls, go
    go.set()
    worker.stop()
    assert holding.result() == ["hold"]


def test_groups_limits_and_order_of_a_batch(held):
    worker, work, calls, go = held
    futures = [
        worker.submit(inputs, work, group)
        for inputs, group in [(["a"], 1), (["b", "c"], 2), (["d", "e"], 1), (["f", "g"], 1), (["h"], 1)]
    ]
    with pytest.raises(QueueFullError):
        worker.submit(["i"], work, 1)
    go.set()
    assert [future.result(10) for future in futures] == [["A"], ["B", "C"], ["D", "E"], ["F", "G"], ["H"]]
    assert sorted(calls) == [["a", "d", "e", "f"], ["b", "c"], ["g", "h"]]


def test_a_request_joins_work_that_is_under_way_and_is_answered_before_it_ends():
    """A sentence takes as many steps as it has letters; a bad one, and one that was given up, trouble nobody."""
    worker, taken = Worker("m", ServiceMetrics(), queue=9, max_batch=9, max_work=1000), []
    asked = {name: threading.Event() for name in ("first", "all")}

    def work(take):
        under_way = {}
        while came := [*under_way, *take()]:
            before_step(len(came))
            under_way = {one: under_way.get(one, 0) + 1 for one in came if not one.cancelled}
            taken.append(sorted(one.one for one in under_way))
            asked["first"].set()
            assert asked["all"].wait(10)
            for one in [one for one, steps in under_way.items() if steps == len(one.one)]:
                under_way.pop(one)
                yield one, CallError("bad input") if one.one == "bad" else one.one.upper()

    worker.start()
    try:
        long = worker.submit(["abcdefgh"], work, 1)
        assert asked["first"].wait(10)
        short, bad, left = (worker.submit([text], work, 1) for text in ("xy", "bad", "z" * 50))
        left.cancel()
        asked["all"].set()
        assert (short.result(10), long.result(10)) == (["XY"], ["ABCDEFGH"])
        with pytest.raises(CallError, match="bad input"):
            bad.result(10)
    finally:
        worker.stop()
    assert taken[:3] == [["abcdefgh"], ["abcdefgh", "bad", "xy"], ["abcdefgh", "bad", "xy"]]
    assert len(taken) == 8  # one piece of work, as long as its longest


def test_a_wrong_request_spoils_no_other(held):
    worker, work, _, go = held
    good, bad, also = (worker.submit([text], work, 1) for text in ("a", "bad", "b"))
    go.set()
    assert (good.result(10), also.result(10)) == (["A"], ["B"])
    with pytest.raises(CallError, match="bad input"):
        bad.result(10)


def test_stop_finishes_what_it_took_and_takes_no_more(held):
    worker, work, _, go = held
    taken, given_up = worker.submit(["a"], work, 1), worker.submit(["b"], work, 1)
    assert given_up.cancel()
    stopping = threading.Thread(target=worker.stop)
    stopping.start()
    while not worker._stopping:
        time.sleep(0.001)
    with pytest.raises(QueueFullError):
        worker.submit(["c"], work, 1)
    go.set()
    stopping.join(10)
    assert taken.result(0) == ["A"]


@pytest.fixture
def lock(run, monkeypatch):
    """Whoever has it holds the model, so that requests pile up behind it."""
    lock, predict = threading.Lock(), type(run).predict_arriving

    def held_predict(self, *args, **options):
        with lock:
            pass
        yield from predict(self, *args, **options)

    monkeypatch.setattr(type(run), "predict_arriving", held_predict)
    return lock


def test_a_service_that_stops_answers_what_it_has_taken(run, lock):
    with ThreadPoolExecutor(3) as pool, serving({"pairs": run}, Limits()) as client:
        with lock:
            answers = [pool.submit(ask, client, inputs=["one"], beam=beam) for beam in (1, 2, 3)]
            while metric(client, "regard_queue_length") < 2:  # one of them is with the model
                time.sleep(0.01)
            client.server.should_exit = True
            time.sleep(0.3)
        assert [answer.result(20).status_code for answer in answers] == [200, 200, 200]


def test_what_is_drawn_is_the_same_in_company(run, lock):
    """Its numbers depend on its place in its own request: the same seed gives the same output, whoever else asks."""
    how = {"sample": True, "seed": 3, "temperature": 2.0}
    with ThreadPoolExecutor(len(TEXTS)) as pool, serving({"pairs": run}, Limits()) as client:
        with lock:
            answers = [pool.submit(ask, client, inputs=[text], **how) for text in TEXTS]
            while sum(metric(client, f"regard_{name}") for name in ("queue_length", "batch_requests_total")) < len(
                TEXTS
            ):
                time.sleep(0.01)  # the first of them are with the model, and the others wait
        told = [answer.result(20).json()["predictions"][0]["text"] for answer in answers]
        assert metric(client, "regard_batch_requests_total") == len(TEXTS)
        while not metric(client, "regard_batches_total"):  # it is counted when it has ended
            time.sleep(0.01)
        assert metric(client, "regard_batches_total") == 1
    assert told == [run.predict(text, **how).text for text in TEXTS]


def test_a_full_queue_and_a_slow_model(run, lock):
    with serving({"pairs": run}, Limits(queue=1, timeout=1.0)) as client:
        with lock, ThreadPoolExecutor(6) as pool:
            answers = list(pool.map(lambda beam: ask(client, inputs=["one"], beam=beam), range(1, 7)))
        statuses = sorted(answer.status_code for answer in answers)
        assert set(statuses) == {503, 504}
        full = next(answer for answer in answers if answer.status_code == 503)
        assert int(full.headers["retry-after"]) >= 1
        assert "try again" in full.json()["error"]
        assert ask(client, inputs=["one"]).status_code == 200  # and it goes on


# ------------------------------------------------------------------------------------------------------ what it refuses
@pytest.mark.parametrize(
    ("body", "status", "field", "sentence"),
    [
        ({"inputs": []}, 422, "inputs", "at least 1"),
        ({"inputs": ["one"] * 8}, 422, "inputs", "7 at most"),
        ({"inputs": ["one", "x" * 201]}, 422, "inputs.1", "200 at most"),
        ({"inputs": ["one"], "prefix": "x" * 201}, 422, "prefix", "200 at most"),
        ({"inputs": ["one"], "labels": ["one", "x" * 201]}, 422, "labels.1", "200 at most"),
        ({"inputs": ["one"], "templates": ["x" * 201]}, 422, "templates.0", "200 at most"),
        ({"inputs": "one"}, 422, "inputs", "list"),
        ({"inputs": [1]}, 422, "inputs.0", "string"),
        ({"inputs": ["one"], "beam": "3"}, 422, "beam", "integer"),
        ({"inputs": ["one"], "beam": 10**30}, 422, "beam", ""),
        ({"inputs": ["one"], "beam": True}, 422, "beam", "integer"),
        ({"inputs": ["one"], "n_best": 3}, 422, None, "beam"),
        ({"inputs": ["one"], "temperature": -1}, 422, "temperature", "0"),
        ({"inputs": ["one"], "temperature": 0}, 422, None, "temperature"),
        ({"inputs": ["one"], "stop": ["."]}, 422, None, "stop"),
        ({"inputs": ["one"], "beem": 3}, 422, "beem", "did you mean 'beam'"),
        ({"inputs": ["one"], "model": "pears"}, 404, "model", "did you mean 'pairs'"),
        ({"inputs": ["one"], "model": None}, 422, "model", "pairs, other"),
        ({"inputs": ["one"], "model": "../../etc/passwd"}, 404, "model", "choose from"),
        ({"inputs": ["a\ud800"]}, 422, "inputs.0", "character 1 is half"),
        ({"inputs": ["one"], "\ud800": 1}, 422, None, "unicode"),
        ([], 422, None, ""),
        (None, 422, None, ""),
    ],
)
def test_wrong_fields_are_named(client, body, status, field, sentence):
    content = json.dumps({"model": "pairs", **body} if isinstance(body, dict) else body)
    answer = client.post("/api/predict", content=content, headers={"content-type": "application/json"})
    assert answer.status_code == status
    assert answer.json()["field"] == field
    assert sentence in answer.json()["error"]


@pytest.mark.parametrize(
    "body",
    [
        {"text": ""},
        {"text": "one", "method": "rau"},
        {"text": "one", "layer": 9},
        {"text": "one", "head": 9, "layer": 0},
        {"text": "one", "head": 1},
        {"text": "one", "head": "min"},
        {"text": "one", "kind": "crass"},
        {"text": "one", "layer": 10**40},
        {"text": "one", "output": "x" * 201},
    ],
)
def test_look_refuses_what_is_not_there(client, body):
    for path, more in (("/api/look", {}), ("/api/page", {"part": "table"})):
        answer = client.post(path, json={"model": "pairs", **body, **more})
        assert answer.status_code == 422
        assert answer.json()["error"]


@pytest.mark.parametrize(
    ("content", "statuses"),
    [
        (b'{"inputs": ["one"', {400}),
        (b'{"inputs": ["\xff\xfe"]}', {400}),
        (b"\xff" * 100, {400}),
        (b"", {422}),
        (b'{"model": "pairs", "inputs": ["one"], "temperature": NaN}', {400, 422}),
        (b'{"model": "pairs", "inputs": ["one"], "temperature": 1e999}', {400, 422}),
        (b'{"model": "pairs", "inputs": ["one"], "seed": ' + b"9" * 10000 + b"}", {400, 422}),
        (b"[" * 200_000, {400}),
        (b'{"inputs": ' + b"[" * 50_000 + b"]" * 50_000 + b"}", {400, 422}),
        (b'{"model": "pairs", "inputs": ["' + b"x" * 10_000_000 + b'"]}', {413}),
    ],
    ids=lambda value: str(value)[:40],
)
def test_hostile_bodies_never_break_it(client, content, statuses):
    for path in ("/api/predict", "/api/look", "/api/stream"):
        answer = client.post(path, content=content, headers={"content-type": "application/json"})
        assert answer.status_code in statuses
        assert isinstance(answer.json()["error"], str)


ODD = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(),
    st.text(max_size=5), st.lists(st.text(max_size=3), max_size=3),
    st.sampled_from(["pairs", "raw", "cross", "mean", "html", "grid", "beams", 1, 2, 0.5, ["one"]]),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
)  # fmt: skip


# Nothing here may depend on how fast the machine is.
@settings(
    max_examples=60, deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)  # fmt: skip
@given(data=st.data())
def test_no_request_is_a_fault_of_the_service(client, data):
    """Right fields, most with odd values: an answer or a sentence, never a 500."""
    path, model = data.draw(st.sampled_from(list(BODIES.items())))
    fields = data.draw(st.dictionaries(st.sampled_from([*model.model_fields, "nonsense"]), ODD, max_size=4))
    body = {"model": "pairs", "inputs": ["one"]} if path == "/api/predict" else {"model": "pairs", "text": "one"}
    answer = client.post(path, content=json.dumps(body | fields), headers={"content-type": "application/json"})
    assert answer.status_code in (200, 400, 404, 422)
    assert answer.status_code == 200 or answer.json()["error"]


def test_any_text_within_the_limit_is_answered(client):
    texts = ["", " ", "\x00", "</s>", "😀" * 200, "ab " * 66, "مرحبا\u2028\n"]
    answer = ask(client, inputs=texts)
    assert answer.status_code == 200
    assert [one["input"] for one in answer.json()["predictions"]] == texts
    assert client.post("/api/stream", json={"model": "pairs", "text": ""}).status_code == 200


def test_other_paths_methods_and_hosts(client):
    for path in ("/nowhere", "/page/../../etc/passwd", "/page/%2e%2e%2fapp.py", "/page/config.yaml", "/api/predict/"):
        answer = client.get(path, follow_redirects=False)
        assert answer.status_code in (404, 405, 307)
    assert client.get("/api/predict").json()["error"]


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:80", "127.0.0.1:8000", "[::1]", "[::1]:8000"])
def test_names_of_this_machine_are_answered(client, host):
    assert client.get("/health/live", headers={"host": host}).json() == {"status": "ok"}


@pytest.mark.parametrize(
    "host",
    ["evil.example:8000", "localhost.evil.example", "evil.example:localhost", "127.0.0.1.evil.example", "[::2]:8000",
     "[::1].evil.example", "localhost:80@evil.example", ""],
)  # fmt: skip
def test_other_names_are_refused(client, host):
    """A web site that points its own name here (DNS rebinding) would else read from a visitor's machine."""
    answer = client.get("/health/live", headers={"host": host})
    assert answer.status_code == 400
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert "ok" not in answer.text


def test_a_service_for_others_is_called_by_names_that_were_given_or_by_any(run):
    with serving({"pairs": run}, Limits(hosts=frozenset(["models.example", "fd00::7"]))) as client:
        for host, status in [("models.example:8000", 200), ("[fd00::7]:8000", 200), ("localhost", 400)]:
            assert client.get("/health/live", headers={"host": host}).status_code == status
    with serving({"pairs": run}, Limits(hosts=None)) as client:
        assert client.get("/health/live", headers={"host": "any.example"}).status_code == 200


def test_a_body_that_never_ends_and_one_that_never_comes(run):
    with serving({"pairs": run}, Limits(max_body=1000, timeout=0.5)) as client:
        answer = client.post("/api/predict", content=(b"x" * 500 for _ in range(10)))  # no length is told
        assert answer.status_code == 413
        with socket.create_connection((client.base_url.host, client.base_url.port), timeout=10) as slow:
            slow.sendall(b"POST /api/predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50\r\n\r\n{")
            assert b" 408 " in slow.recv(1000)


def test_headers_of_every_answer(client):
    for answer in (
        client.get("/"),
        client.get("/health/live"),
        client.get("/nowhere"),
        client.post("/api/look", json=1),
    ):
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cache-control"] == "no-store"
        assert "access-control-allow-origin" not in answer.headers


def test_the_key(run):
    with serving({"pairs": run}, Limits(api_key="clé")) as client:
        assert client.get("/health/live").status_code == 200
        for headers in ({}, {"authorization": "Bearer no"}, {"authorization": "Basic clé".encode()}):
            for path in ("/api/models", "/metrics"):
                answer = client.get(path, headers=headers)
                assert answer.status_code == 401
                assert answer.headers["www-authenticate"] == "Bearer"
        assert client.get("/api/models?key=clé").status_code == 401
        asked = {"q": "one", "target": "pairs"}  # LibreTranslate's clients have their key in the body
        found = [client.post("/translate", data={**asked, "api_key": key}).status_code for key in ("", "no", "clé")]
        assert found == [401, 401, 200]
        client.headers["authorization"] = "Bearer clé"  # as UTF-8
        assert ask(client, inputs=["one"]).status_code == 200


# ------------------------------------------------------------------------------------------------------ the page, files
def test_the_page_and_its_modules_come_from_here(client):
    page = client.get("/")
    assert page.headers["content-type"].startswith("text/html")
    for name in ("serve.js", "app.js", "matrix.js", "style.css", "serve.css", "page.css"):
        answer = client.get(f"/page/{name}")
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith(("text/javascript", "text/css"))
        assert "http" not in answer.text.replace("http://www.w3.org/2000/svg", "")
    told = client.post("/api/page", json={"model": "pairs", "text": "one red cat"}).json()
    assert {"open", "records", "cards", "methods", "kinds"} <= set(told)


def test_the_command_serves_until_told_to_stop(run, tmp_path):
    command = [sys.executable, "-m", "regard", "serve", str(run.folder), "--port", "0"]
    heard = {"preexec_fn": lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)}  # jobs in the background ignore it
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment, **heard) as it:
        address = it.stderr.readline().split()[1]
        assert address.startswith("http://127.0.0.1:")
        found = httpx.post(f"{address}api/predict", json={"inputs": ["one red cat"]}, timeout=20)
        it.send_signal(signal.SIGINT)
        rest = it.stderr.read()
    assert found.json()["predictions"][0]["text"] == run.predict("one red cat").text
    assert found.json()["model"] == "run"
    assert it.returncode == 130
    assert "Traceback" not in rest


def test_without_the_web_extra_it_says_what_to_install(run, monkeypatch):
    monkeypatch.delitem(sys.modules, "regard.serve.server")
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    with pytest.raises(CallError, match=r"pip install 'regard\[web\]'"):
        serve([run.folder], "127.0.0.1", 0, Limits())


def test_wrong_calls_of_the_command(run, tmp_path):
    with listen("127.0.0.1", 0) as taken, pytest.raises(CallError, match="another --port"):
        serve([run.folder], "127.0.0.1", taken.getsockname()[1], Limits())
    with pytest.raises(CallError, match="cannot be read"):
        read_key(tmp_path / "none")
    (tmp_path / "key").write_text(" \n")
    with pytest.raises(CallError, match="is empty"):
        read_key(tmp_path / "key")
    assert list(load_all([run.folder, run.folder])) == ["run", "run-2"]
