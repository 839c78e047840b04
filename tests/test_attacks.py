"""Clients that mean harm, or look as if: requests that cost much, slow ones, many at once; and the service's end."""

import json
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from regard.errors import CallError
from regard.serve.command import listen
from regard.serve.errors import Limits
from regard.serve.middleware import ServiceMetrics
from regard.serve.running import CancelledRequestError
from regard.serve.schemas import Look, PartOut, PictureOptions, Predict, StreamOptions
from regard.serve.server import pending_connections
from regard.serve.service import LANES, SLICE, Worker
from regard.work import at_once, before_step
from test_serve import ask, httpx, metric, run, serving  # noqa: F401  (run is a fixture)

LONG = "one red cat two blue dog " * 83  # 498 tokens
COSTLY = {"model": "pairs", "text": LONG, "output": "uno rojo gato dos azul perro " * 83, "method": "leave-one-out"}
IMMENSE = {**COSTLY, "text": LONG * 3, "output": COSTLY["output"] * 3}  # minutes, on any machine


@pytest.fixture(scope="module")
def client(run):  # noqa: F811
    limits = Limits(max_length=20_000, timeout=20, max_work=10**9, idle_timeout=0.4)
    with serving({"pairs": run}, limits) as client:
        yield client


def connected(client, sent=b""):
    made = socket.create_connection((client.base_url.host, client.base_url.port), timeout=10)
    made.sendall(sent)
    return made


def post(path, body, length=None):
    """A request as bytes; `length` is what it says of its body."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(content) if length is None else length}\r\n\r\n".encode() + content


def until(condition, seconds=15.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it never came true"
        time.sleep(0.02)


# ------------------------------------------------------------------------------------------ requests that cost too much
def test_more_work_than_a_request_may_ask_for_is_refused_before_it_begins(run):  # noqa: F811
    with serving({"pairs": run}, Limits(max_length=5000, max_work=50_000)) as client:
        for path in ("/api/look", "/api/page", "/api/picture"):
            refused = client.post(path, json=COSTLY)
            assert refused.status_code == 422
            assert "more than 50,000 vectors" in refused.json()["error"]
        assert metric(client, "regard_batch_seconds_total", model="pairs") < 15
        long = ask(client, inputs=["one red cat"] * 64, beam=32, n_best=32, max_length=1000, length_penalty=0)
        assert long.status_code in (200, 422)
        assert ask(client, inputs=["one red cat"]).status_code == 200


def test_work_that_nobody_waits_for_ends(run):  # noqa: F811
    """After a time-out, and when the client leaves; and the model is free for others."""
    with serving({"pairs": run}, Limits(max_length=20_000, max_work=10**9, timeout=1.0)) as client:
        assert client.post("/api/look", json=IMMENSE).status_code == 504
        until(lambda: metric(client, "regard_batches_total") == 1)
        with connected(client, post("/api/look", IMMENSE)):
            time.sleep(0.2)
        until(lambda: metric(client, "regard_requests_total", path="/api/look", status="499") == 1)
        until(lambda: metric(client, "regard_batches_total") == 2)
        assert ask(client, inputs=["one red cat"]).status_code == 200


def test_predictions_go_on_while_looks_fill_all_lanes(client):
    ask(client, inputs=["one red cat"])  # warm
    sockets = [connected(client, post("/api/look", {**COSTLY, "beam": n})) for n in range(1, LANES + 3)]
    try:
        until(lambda: metric(client, "regard_queue_length") >= 2)  # the lanes are full, and two wait
        before = metric(client, "regard_batches_total")
        assert ask(client, inputs=["one red cat"]).status_code == 200
        until(lambda: metric(client, "regard_batches_total") == before + 1)  # no look has ended
    finally:
        for made in sockets:
            made.close()
    until(lambda: metric(client, "regard_queue_length") == 0, 20)


@pytest.fixture
def worker():
    worker = Worker("m", ServiceMetrics(), queue=9, max_batch=4, max_work=1000)
    worker.start()
    yield worker
    worker.stop()


def test_lanes_take_turns_between_steps(worker):
    order = []

    def work(inputs):
        for _ in range(4):
            order.append(inputs[0])
            time.sleep(SLICE)
            before_step(1)
        return inputs

    answers = [
        worker.submit([name], partial(at_once, work), group)
        for name, group in (("a", None), ("b", None), ("c", "group"))
    ]
    assert [answer.result(10) for answer in answers] == [["a"], ["b"], ["c"]]
    assert all({"a", "b", "c"} <= set(order[start : start + 6]) for start in range(4)), order


def test_unwanted_and_immense_work_ends_at_its_next_step(worker):
    began, go = threading.Event(), threading.Event()

    def work(inputs):
        began.set()
        assert go.wait(10)
        before_step(1)
        raise AssertionError("it went on")

    answer = worker.submit(["a"], partial(at_once, work))
    assert began.wait(10)
    assert not answer.cancel()  # it is under way
    go.set()
    with pytest.raises(CancelledRequestError):
        answer.result(10)

    def immense(inputs):
        while True:
            before_step(400)

    with pytest.raises(CallError, match="more than 1,000 vectors"):
        worker.submit(["a"], partial(at_once, immense)).result(10)


# -------------------------------------------------------------------------------------------------------------- numbers
NUMBERS = [5e-324, 1e-45, 1e-39, 1.17e-38, 1e-9, 3.5e38, 1.7e308, -0.0, -1, 0, 2**31, 2**63, 2**64, 10**400]
FIELDS = sorted(
    {
        (path, name)
        for path, body in {
            "predict": Predict,
            "look": Look,
            "picture": PictureOptions,
            "stream": StreamOptions,
            "page": PartOut,
        }.items()
        for name, field in body.model_fields.items()
        if any(kind in str(field.annotation) for kind in ("int", "float"))
    }
)


@pytest.mark.parametrize(("path", "field"), FIELDS)
def test_no_number_is_a_fault_of_the_service(client, path, field):
    body = {"model": "pairs", "max_length": 2} if path in ("predict", "stream") else {"model": "pairs"}
    body |= {"inputs": ["one"]} if path == "predict" else {"text": "one"}
    if path in ("predict", "stream"):
        body["sample"] = field in ("temperature", "top_k", "top_p", "seed")
    for number in [*map(repr, NUMBERS), "NaN", "Infinity", "-Infinity", "1e999"]:
        content = json.dumps({**body, field: "?"}).replace('"?"', number)
        answer = client.post(f"/api/{path}", content=content, headers={"content-type": "application/json"})
        assert answer.status_code in (200, 400, 422), (number, answer.text)
        assert "the model failed" not in answer.text, number
        if answer.status_code != 200:
            assert answer.json()["error"]


# ---------------------------------------------------------------------------------------------------------- connections
@pytest.mark.parametrize("after_an_answer", [False, True])
@pytest.mark.parametrize("drops", [b"", b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n"], ids=["idle", "slow"])
def test_connections_that_wait_are_closed(client, drops, after_an_answer):
    """Idle, or with a head that comes drop by drop."""
    with connected(client) as slow:
        if after_an_answer:
            slow.sendall(b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
            told = b""
            while not told.endswith(b"}"):
                told += slow.recv(5000)
        started, answer = time.perf_counter(), None
        slow.settimeout(0.05)
        for drop in (drops[place : place + 1] for place in range(200)):
            try:
                slow.sendall(drop)
                answer = slow.recv(1000)
                break
            except TimeoutError:
                continue
            except OSError:
                answer = b""
                break
        assert answer is not None, "it is still open"
        assert time.perf_counter() - started > 0.3
        assert (b" 408 " in answer) == bool(drops)


def test_an_answer_that_nobody_reads_is_dropped(client):
    """Before, it stayed in memory for as long as the client liked."""
    body = {"model": "pairs", "text": LONG[: len(LONG) // 2], "output": COSTLY["output"][: len(LONG) // 2]}
    with connected(client) as deaf:
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf.sendall(post("/api/look", body))
        path = {"path": "/api/look", "status": "200"}
        before = metric(client, "regard_requests_total", **path)
        until(lambda: metric(client, "regard_requests_total", **path) > before, 15)
        connections = client.server.server_state.connections
        until(lambda: all(one.transport.get_write_buffer_size() == 0 for one in list(connections)))


def test_too_many_connections_are_turned_away_and_others_served_again(run):  # noqa: F811
    asking = b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with serving({"pairs": run}, Limits(max_connections=5)) as client:
        many = [connected(client) for _ in range(5)]
        until(lambda: len(client.server.server_state.connections) == 5)
        with connected(client, asking) as one_more:
            answer = one_more.recv(1000)
            assert b" 503 " in answer
            assert b"retry-after" in answer
        for made in many:
            made.close()
        until(lambda: not client.server.server_state.connections)
        assert client.get("/health/live").status_code == 200


@pytest.mark.parametrize("limit", [{"max_uploads": 2}, {"max_held": 25_000}])
def test_uploads_at_once_are_bounded(run, limit):  # noqa: F811
    with serving({"pairs": run}, Limits(max_upload=10_000, idle_timeout=20, **limit)) as client:
        slow = [connected(client, post("/api/upload?model=pairs", b"x", length=10_000)) for _ in range(2)]
        time.sleep(0.2)
        refused = client.post("/api/upload?model=pairs", content=b"x" * 9_000)
        assert refused.status_code == 503
        assert int(refused.headers["retry-after"]) >= 1
        assert ask(client, inputs=["one red cat"]).status_code == 200
        for made in slow:
            made.close()

        def allowed():
            return client.post("/api/upload?model=pairs", content=b"x" * 9_000).status_code == 422  # it takes text

        until(allowed)


# -------------------------------------------------------------------------------------------------------------- the end
def test_the_end_cuts_nobody_off_under_load(run):  # noqa: F811
    """Every request that got through is answered. Afterwards, connections are refused, not reset."""
    cut, answered, began = [], [], threading.Event()

    def keep_asking(base, fresh):
        with httpx.Client(base_url=base, timeout=20) as own:
            while True:
                try:
                    answer = ask(own, inputs=["one red cat"], beam=1)
                    answered.append(answer.status_code)
                    began.set()
                except httpx.ConnectError as error:
                    if "reset" in str(error):
                        cut.append(error)
                    return
                except httpx.HTTPError as error:
                    cut.append(error)
                    return
                if fresh:
                    own.close()
                    own = httpx.Client(base_url=base, timeout=20)

    with ThreadPoolExecutor(12) as pool:
        with serving({"pairs": run}, Limits()) as client:
            asking = [pool.submit(keep_asking, client.base_url, number % 2) for number in range(12)]
            assert began.wait(20)
            assert client.get("/health/ready").json()["status"] == "ready"
            time.sleep(0.5)
            client.server.should_exit = True
            time.sleep(0.2)
        for one in asking:
            one.result(20)
    assert cut == []
    assert set(answered) <= {200, 503}


def test_who_is_connected_when_it_ends_may_still_ask(run):  # noqa: F811
    with serving({"pairs": run}, Limits()) as client, connected(client) as quiet:
        until(lambda: client.server.server_state.connections)
        client.server.should_exit = True
        until(lambda: client.server._app.state.service.stopping)
        quiet.sendall(b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b" 200 " in quiet.recv(1000)


def test_connections_that_nobody_has_taken_yet_are_taken():
    """The system holds them for us, and would reset them when the socket is closed."""
    with listen("127.0.0.1", 0) as place:
        made = [socket.create_connection(place.getsockname()) for _ in range(3)]
        taken = pending_connections(place)
        assert {one.getpeername() for one in taken} == {one.getsockname() for one in made}
        for one in (*made, *taken):
            one.close()


def test_errors_name_no_path_of_this_machine(run, tmp_path):  # noqa: F811
    """Settings that a model refuses, and files that were sent: no folder is named."""
    with serving({"pairs": run}, Limits()) as client:
        service = client.server._app.state.service
        answers = [
            ask(client, inputs=["one red cat"], temperature=1e-40, top_k=1),
            client.post("/api/stream", json={"text": "one red cat", "temperature": 1e-40}),
        ]
        for answer in answers:
            assert "mistake in pairs" in answer.text, answer.text
            assert str(run.folder) not in answer.text
        sent = f"{service._uploads._folder.name}/3f.png"
        assert service.sentence(CallError(f"{sent}: too large")) == "the file that was sent: too large"
        for place in (run.folder, run.folder.resolve(), Path(run.recipe.data.train).parent):
            assert service.sentence(CallError(f"{place}/x is not there")) == "pairs/x is not there"


def test_without_the_key_no_name_of_a_model_is_told(run):  # noqa: F811
    client_form = {"method": "GET", "url": "/languages", "data": {"api_key": "key"}}  # as libretranslatepy asks
    with serving({"secret-en-de": run}, Limits(api_key="key")) as client:
        paths = {route.path for route in client.server._app.routes if "GET" in getattr(route, "methods", ())}
        assert {"/", "/docs", "/openapi.json", "/languages", "/health/ready", "/metrics", "/api/runs"} <= paths
        for path in paths:
            answer = client.get(path, follow_redirects=True)
            assert "secret" not in answer.text, path
            assert answer.status_code in (200, 401, 422), path
        assert client.get("/languages").status_code == 401
        assert client.get("/health/ready").json() == {"status": "ready", "waiting": {}}
        assert client.get("/languages?api_key=no").status_code == 401
        for known in (client.get("/languages?api_key=key"), client.request(**client_form)):
            assert known.json()[0]["code"] == "en"
        client.headers["authorization"] = "Bearer key"
        assert "secret-en-de" in client.get("/health/ready").json()["waiting"]
        assert client.get("/languages").json()[0]["targets"] == ["de"]


def test_health_tells_what_is_up_from_what_is_ready(run):  # noqa: F811
    with serving({"pairs": run}, Limits(queue=1)) as client:
        assert client.get("/health/ready").json() == {"status": "ready", "waiting": {"pairs": 0, "/drawing": 0}}
        client.server._app.state.service.stopping = True
        answer = client.get("/health/ready")
        assert (answer.status_code, answer.json()["status"]) == (503, "stopping")
        assert answer.headers["connection"] == "close"
        assert client.get("/health/live").status_code == 200
