"""Runs by their files, while they train and after: the page of one, of several, and the process that serves it."""

import json
import os
import re
import subprocess
import sys
import time

import numpy as np
import pytest

import regard
from regard.report.run import run_sections, side_by_side
from regard.report.run_files import RunFiles
from test_translate import recipe

TRAIN = {"kind": "train", "epoch": 0.5, "gradient": 1.0, "learning_rate": 1e-3, "unit": "tokens", "items": 10,
         "items_per_second": 5.0, "waiting": 0.25, "skipped": 0}  # fmt: skip


def line(step, loss):
    return json.dumps(TRAIN | {"step": step, "loss": loss, "seconds": float(step)}) + "\n"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "config.yaml").write_text("job: translate\ntraining: {max_steps: 40}\n")
    (tmp_path / "metrics.jsonl").write_text(line(10, 4.0))
    return tmp_path


def test_what_is_added_is_read_and_a_line_that_is_being_written_waits(folder):
    run, file = RunFiles(folder), folder / "metrics.jsonl"
    assert [one["step"] for one in run.records()] == [10]
    before = run.version
    with file.open("a") as more:
        more.write(line(20, 3.0) + line(30, 2.0)[:20])
    assert [one["step"] for one in run.records()] == [10, 20]
    assert run.version != before
    with file.open("a") as more:
        more.write(line(30, 2.0)[20:] + "[]\nnot json\n")
    assert [one["step"] for one in run.records()] == [10, 20, 30]
    assert run.share_done() == 0.75
    part = folder / "part"
    part.write_text(line(10, 4.0) + line(15, 3.5))  # as a run that goes on from a checkpoint writes it
    part.replace(file)
    assert [one["step"] for one in run.records()] == [10, 15]


def test_a_run_trains_has_ended_or_was_stopped(folder):
    run = RunFiles(folder)
    assert run.state == "stopped"
    host = os.uname().nodename
    (folder / "lock").write_text(f"process {os.getpid()} on {host}, since now\n")
    assert run.state == "training"
    assert "left" in run_sections(run, {})[0].html
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    (folder / "lock").write_text(f"process {process.pid} on {host}, since now\n")  # killed, and the file is left
    assert run.state == "stopped"
    (folder / "summary.json").write_text("{}")
    assert run.state == "ended"
    os.utime(folder / "metrics.jsonl", (2e9, 2e9))  # it goes on, with limits that were raised
    (folder / "lock").write_text(f"process {os.getpid()} on {host}, since now\n")
    assert run.state == "training"


def test_several_runs_have_a_color_each_and_what_differs(folder, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    (other / "config.yaml").write_text("job: translate\ntraining: {max_steps: 80}\n")
    (other / "metrics.jsonl").write_text(line(5, 1.0) + line(6, 0.5))
    found, _, differs, _ = side_by_side([RunFiles(folder), RunFiles(other)])
    assert found.html.count('class="line s1"') == 1
    assert re.findall(r"<td>(.*?)</td>", differs.html) == ["training.max_steps", "40", "80"]
    assert "other</li>" in found.html


@pytest.mark.slow
def test_a_page_while_it_trains_and_the_report_says_the_same(tmp_path):
    httpx = pytest.importorskip("httpx", reason="tests of the service need httpx")
    file = recipe(tmp_path, "recurrent", max_steps=400, validate_every=20, patience=0)
    (tmp_path / "runs").mkdir()
    words = [sys.executable, "-m", "regard", "train", str(file), "-o", str(tmp_path / "runs/mine"), "--watch"]
    process = subprocess.Popen(words, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    assert process.stderr is not None
    address = next(said.split()[-1] for said in process.stderr if "watch it train" in said)
    assert address.endswith("/runs?run=mine")
    here = address.rpartition("/")[0]
    with httpx.Client(base_url=here, timeout=20) as client:
        assert client.get("/").headers["location"] == "/runs"
        (one,) = until(lambda: [run for run in client.get("/api/runs").json()["runs"] if run["looks"]])
        assert one["state"] == "training"
        assert one["name"] == "mine"
        told = client.get("/api/runs/report", params={"run": "mine"}).json()
        assert "Validation bleu" in told["html"]
        assert len(client.get("/api/runs/looks", params={"run": "mine"}).json()["history"]) >= 1
        assert client.get("/api/runs/report", params={"run": "nobody"}).status_code == 404
        assert client.get("/api/runs/report").status_code == 422
    process.stderr.read()
    assert process.wait() == 0
    with pytest.raises(httpx.ConnectError):  # the page has ended with the training
        httpx.get(here)
    report = (tmp_path / "runs/mine/report.html").read_text(encoding="utf-8")
    for section in run_sections(RunFiles(tmp_path / "runs/mine"), {}):
        assert section.html in report
    for said in ("Attention during training", "Machine", "Data"):
        assert f"<h2>{said}</h2>" in report
    forced = regard.load(tmp_path / "runs/mine").history_of_looks().last
    assert forced.forced
    assert np.isfinite(forced.matrix().weights).all()


def until(condition):
    for _ in range(300):
        if found := condition():
            return found
        time.sleep(0.2)
    raise AssertionError("it has not come about within a minute")
