"""Data of others: fetched from a mirror that the test makes, laid out, and there as a whole or not at all."""

import gzip
import hashlib
import io
import json
import os
import re
import tarfile
import threading
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

import regard
from doc_commands import ROOT
from regard import config
from regard.cli import cli
from regard.datasets import fetch
from regard.datasets.fetch import fetch_set
from regard.datasets.table import DATA_SETS, DataSet, Remote
from regard.detect.detect import detect
from regard.errors import CallError, RegardError

CONTENT = bytes(range(256)) * 40
SUM = f"sha256:{hashlib.sha256(CONTENT).hexdigest()}"


class Handler(BaseHTTPRequestHandler):
    """Gives CONTENT, or the rest of it; of `short`, only a part, although it has promised all."""

    asked: list[str | None]

    def do_GET(self):
        wanted = self.headers.get("Range")
        self.asked.append(wanted)
        start = int(wanted.removeprefix("bytes=").removesuffix("-")) if wanted and "whole" not in self.path else 0
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(CONTENT) - start))
        self.end_headers()
        self.wfile.write(CONTENT[start:7000] if "short" in self.path and not start else CONTENT[start:])

    def log_message(self, *_):
        pass


@pytest.fixture
def server():
    Handler.asked = []
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()


def one(url, digest=SUM, files=None):
    return DataSet("", "", "", "", (Remote(url, digest),), "as_they_are", files or {url.rsplit("/", 1)[-1]: ""})


@pytest.mark.parametrize("name", ["short.bin", "short-whole.bin"])
def test_a_download_that_broke_off_goes_on(server, tmp_path, name):
    data = one(f"{server}/{name}")
    with pytest.raises(RegardError, match="ended 3,240 bytes early; run the same command again to resume"):
        fetch_set("set", data, tmp_path)
    assert not (tmp_path / "set").exists()
    if "whole" in name:  # a server that does not know ranges sends everything again; this one always breaks off
        with pytest.raises(RegardError):
            fetch_set("set", data, tmp_path)
        return
    assert (fetch_set("set", data, tmp_path) / name).read_bytes() == CONTENT
    assert Handler.asked == [None, "bytes=7000-"]
    fetch_set("set", data, tmp_path)
    assert len(Handler.asked) == 2  # what is there is not asked for
    assert os.listdir(tmp_path) == ["set"]


def test_another_file_than_it_was_is_not_kept(server, tmp_path):
    with pytest.raises(RegardError, match=r"its sha256 are .*the file has changed on the server"):
        fetch_set("set", one(f"{server}/a.bin", "sha256:00"), tmp_path)
    with pytest.raises(RegardError, match=r"b\.txt is missing in the download"):
        fetch_set("set", one(f"{server}/a.bin", files={"b.txt": ""}), tmp_path)
    with pytest.raises(RegardError, match=r"a\.bin: its lines are 41, not 40"):  # 40 ends of lines, and what follows
        fetch_set("set", one(f"{server}/a.bin", files={"a.bin": "lines:40"}), tmp_path)
    assert not [path for path in tmp_path.iterdir() if not path.name.endswith(".fetched")]
    (tmp_path / "set").mkdir()  # what others have put there stays
    (tmp_path / "set" / "mine.txt").write_text("mine")
    with pytest.raises(CallError, match=r"exists, but lacks a\.bin"):
        fetch_set("set", one(f"{server}/a.bin"), tmp_path)


def test_without_a_network_there_is_a_sentence_and_nothing_else(tmp_path, monkeypatch):
    with pytest.raises(RegardError, match=r"cannot be reached .*docs/datasets\.md"):
        regard.fetch("ett", tmp_path, mirror="http://127.0.0.1:9")
    assert os.listdir(tmp_path) == []
    with pytest.raises(CallError, match=r"unknown dataset: 'et'; did you mean 'ett'"):
        regard.fetch("et", tmp_path)


def test_the_command_fetches_from_a_mirror_and_says_what_to_train(tmp_path, capsys):
    mirror, content = tmp_path / "mirror" / "sst2", "a film\t1\n"
    mirror.mkdir(parents=True)
    for name, lines in (("train", 6920), ("dev", 872), ("test", 1821)):
        (mirror / f"{name}.tsv").write_text(content * lines)
    cli.main(["data", "sst2", "-o", str(tmp_path / "d"), "--mirror", f"file://{mirror.parent}"], standalone_mode=False)
    out, told = capsys.readouterr()
    assert out == f"{tmp_path / 'd' / 'sst2'}\n"
    assert f"REGARD_DATA={tmp_path / 'd'} regard train sst2-recurrent" in told
    assert (tmp_path / "d" / "sst2" / "dev.tsv").read_text() == content * 872


# -------------------------------------------------------------------------------------------------------------- layouts
ROLES = {"train": "a", "dev": "b", "test": "c"}


def zipped(file, members):
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)


@pytest.fixture
def folders(tmp_path):
    (tmp_path / "from").mkdir()
    (tmp_path / "to").mkdir()
    return tmp_path / "from", tmp_path / "to"


def test_fashion_mnist_becomes_arrays(folders):
    fetched, into = folders
    pixels = np.arange(5 * 784, dtype=np.uint8)
    for name in ("train", "t10k"):
        (fetched / f"{name}-images-idx3-ubyte.gz").write_bytes(gzip.compress(bytes(16) + pixels.tobytes()))
        (fetched / f"{name}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(bytes(8) + bytes([9, 1, 2, 3, 4])))
    fetch.fashion_mnist(fetched, into)
    arrays = np.load(into / "fashion_mnist.npz")
    np.testing.assert_array_equal(arrays["x_test"].ravel(), pixels)
    assert arrays["y_train"].tolist() == [9, 1, 2, 3, 4]
    assert arrays["classes"][9] == "Ankle boot"
    assert detect(str(into / "fashion_mnist.npz")).kinds == ("image", "label")


def test_flickr8k_becomes_a_list_and_a_tar(folders):
    fetched, into = folders
    tokens = "".join(f"{name}.jpg#{n}\tcaption {n} of {name}\n" for name in "abcd" for n in range(2))
    parts = {f"Flickr_8k.{part}Images.txt": f"{name}.jpg\n" for part, name in ROLES.items()}
    zipped(fetched / "Flickr8k_text.zip", {"Flickr8k.token.txt": tokens, **parts})
    zipped(fetched / "Flickr8k_Dataset.zip", {f"Flicker8k_Dataset/{name}.jpg": name for name in "abcd"})
    fetch.flickr8k(fetched, into)
    rows = (into / "captions.tsv").read_text().splitlines()
    assert rows[0] == "image\tindex\tsplit\tcaption"
    assert rows[3] == "b.jpg\t0\tvalid\tcaption 0 of b"
    assert len(rows) == 7  # d is of no part
    with tarfile.open(into / "images.tar") as photos:
        assert sorted(photos.getnames()) == ["a.jpg", "b.jpg", "c.jpg"]


def test_librispeech_becomes_lists_of_recordings(folders):
    fetched, into = folders
    for part in ("train-clean-5", "dev-clean-2"):
        with tarfile.open(fetched / f"{part}.tar.gz", "w:gz") as archive:
            for name, content in (("1-2-0000.flac", b"f"), ("1-2.trans.txt", b"1-2-0000 HELLO WORLD\n")):
                about = tarfile.TarInfo(f"LibriSpeech/{part}/1/2/{name}")
                about.size = len(content)
                archive.addfile(about, io.BytesIO(content))
    fetch.librispeech(fetched, into)
    assert (into / "train.tsv").read_text() == (
        "path\ttext\nLibriSpeech/train-clean-5/1/2/1-2-0000.flac\thello world\n"
    )
    assert (into / "LibriSpeech/dev-clean-2/1/2/1-2-0000.flac").read_bytes() == b"f"


def test_questions_become_tables(folders):
    fetched, into = folders
    for name in ("train_5500", "TREC_10"):
        (fetched / f"{name}.label").write_bytes("DESC:manner Where is Caf\xe9 A : B ?\n".encode("latin-1"))
    fetch.trec(fetched, into)
    assert (into / "test.tsv").read_text(encoding="utf-8").splitlines()[1] == "DESC\tmanner\tWhere is Café A : B ?"
    whole = {"version": "1.1", "data": [{"title": str(n), "paragraphs": []} for n in range(17)]}
    for name in ("train", "dev"):
        (fetched / f"{name}-v1.1.json").write_text(json.dumps(whole))
    fetch.squad(fetched, into)
    part = json.loads((into / "train-part-v1.1.json").read_text())
    assert [article["title"] for article in part["data"]] == ["0", "8", "16"]


def test_recordings_of_digits_are_counted(folders):
    fetched, into = folders
    zipped(fetched / "master.zip", {"x-master/recordings/0_a_0.wav": "a"})
    with pytest.raises(RegardError, match="1 recordings, not 3,000"):
        fetch.fsdd(fetched, into)
    zipped(fetched / "master.zip", {f"x-master/recordings/{n % 10}_a_{n}.wav": "a" for n in range(3000)})
    fetch.fsdd(fetched, into)
    with tarfile.open(into / "recordings.tar") as recordings:
        assert "7_a_7.wav" in recordings.getnames()


# ------------------------------------------------------------------------------------------------------------ the table
def test_every_file_that_a_recipe_names_is_of_a_data_set():
    for name, file in config.packaged_recipes().items():
        for folder, rest in re.findall(r"REGARD_DATA:-data\}/([^/]+)/([^,\s}]+)", file.read_text(encoding="utf-8")):
            assert rest in DATA_SETS[folder].files, f"{name}: {folder}/{rest}"


def test_every_data_set_has_its_lines_on_the_page():
    page = (ROOT / "docs" / "datasets.md").read_text(encoding="utf-8")
    for name, data in DATA_SETS.items():
        (row,) = [line for line in page.splitlines() if line.startswith(f"| `{name}` ")]
        for part in (data.home, data.licence, *(f"`{file}`" for file in data.files)):
            assert part in row, f"{name}: {part}"
        assert callable(getattr(fetch, data.layout))


def test_a_data_set_of_the_hub_is_looked_into(tmp_path, monkeypatch):
    """As the hub's own cache has it, and without a network."""
    constants = pytest.importorskip(
        "huggingface_hub.constants", reason="needs huggingface_hub: pip install 'regard[pretrained]'"
    )
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    place = tmp_path / "datasets--somebody--moods"
    data = place / "snapshots" / ("0" * 40) / "data"
    data.mkdir(parents=True)
    (place / "refs").mkdir()
    (place / "refs" / "main").write_text("0" * 40)
    pandas = pytest.importorskip("pandas", reason="needs pandas: pip install pandas")
    table = pandas.DataFrame({"text": [f"day {n} was fine" for n in range(60)], "label": ["good", "bad"] * 30})
    for part in ("train", "validation"):
        table.to_parquet(data / f"{part}-00000-of-00001.parquet")
    found = detect("hub:somebody/moods")
    assert found.kinds == ("text", "label")
    assert found.count == 60
    assert Path(found.data["valid"]).name == "validation-00000-of-00001.parquet"
    with pytest.raises(RegardError, match=r"cannot download the dataset somebody/else from the hub: .*needs a network"):
        detect("hub:somebody/else")
    table.to_parquet(data / "train-00001-of-00002.parquet")
    with pytest.raises(CallError, match=r"1 of 2 shards are present \(train-00001-of-00002\.parquet\): add the others"):
        detect("hub:somebody/moods")
    (data / "train-00000-of-00001.parquet").rename(data / "train.parquet")
    (data / "train-00001-of-00002.parquet").rename(data / "train-2.parquet")
    with pytest.raises(CallError, match=r"train is in several files \(train-2\.parquet, train\.parquet\)"):
        detect("hub:somebody/moods")
