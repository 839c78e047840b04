"""JSON Lines, as the data and the metrics of a run are read."""

import gzip
import json

import pytest

from regard.files.lines import read_jsonl
from regard.training.metrics import Metrics, read_metrics

ODD = "a\u2028b\u2029c\u0085d\x1ce\x0bf\x0cg"  # `str.splitlines` splits at each of them


def read(file):
    return [record if record is not None else (line.number, line.kind) for line, record in read_jsonl(file)]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_only_a_line_feed_ends_a_line(tmp_path, end):
    records = [{"text": ODD}, {"text": "b"}]
    text = "".join(json.dumps(record, ensure_ascii=False) + end for record in records)
    assert len(text.splitlines()) > len(records)
    (tmp_path / "x.jsonl").write_bytes(text.encode())
    assert read(tmp_path / "x.jsonl") == records
    (tmp_path / "x.jsonl.gz").write_bytes(gzip.compress(text.encode()))
    assert read(tmp_path / "x.jsonl.gz") == records


def test_what_is_no_object_is_told(tmp_path):
    file = tmp_path / "x.jsonl"
    file.write_bytes(b'\xef\xbb\xbf{"a": 1}\n\n  \n[1]\n{"a": "\xff"}\nnonsense\n{"a": 2}\n{"a": "cut o')
    assert read(file) == [
        {"a": 1},
        (2, "blank"),
        (3, "blank"),
        (4, "unreadable"),
        (5, "encoding"),
        (6, "unreadable"),
        {"a": 2},
        (8, "unreadable"),
    ]
    assert [line.problem for line, _ in read_jsonl(file)][3].startswith("not a JSON object")


def test_metrics_of_any_text_come_back_also_after_a_crash(tmp_path):
    record = {"kind": "validation", "step": 1, "scores": {"loss": 2.0}, "sample": ODD}
    metrics = Metrics(tmp_path, step=0)
    metrics.write(record)
    metrics.close()
    file = tmp_path / "metrics.jsonl"
    assert read_metrics(file) == [record]
    with file.open("a") as handle:
        handle.write('{"kind": "train", "ste')
    assert read_metrics(file) == [record]
    Metrics(tmp_path, step=1).close()  # who goes on from there begins with a clean file
    assert file.read_text().count("\n") == 1
    assert read_metrics(tmp_path / "nowhere") == []
