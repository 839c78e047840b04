"""Files that are there as a whole or not at all: interrupted, on a full disk, under any name."""

import os
import resource
import signal
import stat
import subprocess
import sys
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import regard
from regard.data.prepare import built_once
from regard.errors import CallError, RegardError
from regard.files import atomic
from regard.training.loop import fit
from training_example import Words, new_model, settings

ODD_NAMES = [
    "a b", "-o", "ünïcode\u2028😀", "new\nline", "%s{}*?[x]", "'\"$HOME`", ".hidden", "x.part", "n" * 255, "é" * 127,
]  # fmt: skip
LIMIT = 1 << 20


@contextmanager
def disk_of(size: int):
    """No file may grow beyond this: the system refuses the write itself, as it does on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


WRITERS = {
    "text": lambda path, size: atomic.write_text(path, "x" * size),
    "bytes": lambda path, size: atomic.write_bytes(path, b"x" * size),
    "tensors": lambda path, size: atomic.write_tensors(path, {"x": torch.zeros(size, dtype=torch.uint8)}),
    "with": lambda path, size: atomic.write_with(path, lambda part: part.write_bytes(bytes(size))),
}


@pytest.mark.parametrize("name", ODD_NAMES, ids=ascii)
def test_any_name(tmp_path, name):
    for text in ("old", "new"):
        assert atomic.write_text(tmp_path / name, text) == tmp_path / name
        assert (tmp_path / name).read_text() == text
    assert os.listdir(tmp_path) == [name]


@pytest.mark.parametrize("writer", WRITERS)
def test_a_full_disk_leaves_the_old_file_and_is_a_sentence(tmp_path, writer):
    file = tmp_path / "file"
    WRITERS[writer](file, 1000)
    old = file.read_bytes()
    with (
        disk_of(LIMIT),
        pytest.raises(RegardError, match=r"file cannot be written \(.*File too large.*content is unchanged"),
    ):
        WRITERS[writer](file, 2 * LIMIT)
    assert file.read_bytes() == old
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_an_interrupted_write_leaves_the_old_file(tmp_path, error):
    def write(part: Path) -> None:
        part.write_text("half")
        raise error

    atomic.write_text(tmp_path / "file", "old")
    with pytest.raises(error):
        atomic.write_with(tmp_path / "file", write)
    assert (tmp_path / "file").read_text() == "old"
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_process_killed_at_any_moment_leaves_the_old_file(tmp_path, call):
    file = tmp_path / "file"
    file.write_text("old")
    kill = f"import os, signal; os.{call} = lambda *a: os.kill(os.getpid(), signal.SIGKILL)"
    code = f"{kill}\nfrom regard.files import atomic; atomic.write_text({str(file)!r}, 'new')"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode < 0
    assert file.read_text() == "old"
    atomic.write_text(file, "newer")  # and what is left of it is in nobody's way
    assert file.read_text() == "newer"
    assert os.listdir(tmp_path) == ["file"]


def test_all_is_on_the_disk_before_the_name_and_the_name_after(tmp_path, monkeypatch):
    done = []
    fsync, replace = os.fsync, os.replace

    def name_of(handle):
        return "folder" if stat.S_ISDIR(os.fstat(handle).st_mode) else "file"

    monkeypatch.setattr(os, "fsync", lambda handle: (done.append(name_of(handle)), fsync(handle)))
    monkeypatch.setattr(os, "replace", lambda *names: (done.append("rename"), replace(*names)))
    atomic.write_text(tmp_path / "file", "new")
    assert done == ["file", "rename", "folder"]


@pytest.fixture
def synced(monkeypatch):
    """The inodes that were synced, and the names that were given, in their order."""
    done, fsync, rename = [], os.fsync, os.rename
    monkeypatch.setattr(os, "fsync", lambda handle: (done.append(os.fstat(handle).st_ino), fsync(handle)))
    monkeypatch.setattr(os, "rename", lambda old, new: (done.append(Path(new).name), rename(old, new)))
    return done


def test_a_step_of_the_cache_is_on_the_disk_before_its_name_and_the_name_after(tmp_path, synced):
    def build(place: Path) -> None:
        (place / "a").write_text("x")

    folder = built_once(tmp_path, "step", 1, build)
    name = synced.index(folder.name)
    assert {path.stat().st_ino for path in (*folder.iterdir(), folder)} == set(synced[:name])
    assert synced[name + 1 :] == [tmp_path.stat().st_ino]


def test_no_checkpoint_knows_of_a_step_whose_metrics_could_be_lost(tmp_path, synced):
    fit(new_model(), Words(), settings(max_steps=6, save_every=2), tmp_path)
    lines = (tmp_path / "metrics.jsonl").stat().st_ino
    names = [place for place, one in enumerate(synced) if str(one).startswith("step-")]
    assert names
    for before, name in pairwise([-1, *names]):
        assert lines in synced[before + 1 : name]


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(CallError, match=rf"no such folder: {tmp_path}/nowhere"):
        atomic.write_text(tmp_path / "nowhere" / "file", "")


def test_links_are_followed_and_devices_stay_devices(tmp_path):
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to("real")
    atomic.write_text(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"
    (tmp_path / "null").symlink_to(os.devnull)
    atomic.write_text(tmp_path / "null", "gone")
    assert Path(os.devnull).is_char_device()
    (tmp_path / "full").symlink_to("/dev/full")
    with pytest.raises(RegardError, match="No space left on device"):
        atomic.write_text(tmp_path / "full", "no")


def test_tensors_come_back_also_views_of_others(tmp_path):
    whole = torch.arange(12.0).view(3, 4)
    learned = whole.clone().requires_grad_()
    atomic.write_tensors(tmp_path / "file", {"turned": whole.T, "cut": whole[1], "grad": learned})
    found = load_file(tmp_path / "file")
    assert torch.equal(found["turned"], whole.T)
    assert torch.equal(found["cut"], whole[1])
    assert torch.equal(found["grad"], whole)


@pytest.mark.parametrize("umask", [0o022, 0o002, 0o077])
def test_files_have_the_mode_of_the_umask(tmp_path, umask):
    before = os.umask(umask)
    try:
        for number, write in enumerate(WRITERS.values()):
            write(tmp_path / f"{number}", 10)
        atomic.write_folder(tmp_path / "folder", lambda part: atomic.save_tensors(part / "x", {"x": torch.ones(1)}))
        fit(new_model(), Words(), settings(max_steps=6, save_every=2), tmp_path / "run")
    finally:
        os.umask(before)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {"model.safetensors", "x", "0"} <= {path.name for path in files}
    assert {path.name: stat.S_IMODE(path.stat().st_mode) for path in files if path.stat().st_mode & umask} == {}
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o666 & ~umask}


# ------------------------------------------------------------------------------------------------------------- folders
def test_a_folder_is_replaced_as_a_whole(tmp_path):
    for name in ("one", "two"):
        atomic.write_folder(tmp_path / "folder", lambda part, name=name: (part / name).write_text(name))
    assert os.listdir(tmp_path) == ["folder"]
    assert os.listdir(tmp_path / "folder") == ["two"]


def test_all_files_of_a_folder_are_on_the_disk_before_its_name(tmp_path, synced):
    def fill(part: Path) -> None:
        (part / "one" / "two").mkdir(parents=True)
        (part / "one" / "two" / "file").write_text("x")

    atomic.write_folder(tmp_path / "folder", fill)
    folder = tmp_path / "folder"
    name = synced.index("folder")
    assert {path.stat().st_ino for path in (*folder.rglob("*"), folder)} == set(synced[:name])


@pytest.mark.parametrize("again", ["load", "write"])
def test_a_folder_put_aside_by_a_process_that_died_comes_back(tmp_path, again):
    """It dies between the two renames: the old folder has no name, and the new one has none yet."""
    folder = tmp_path / "export"
    atomic.write_folder(folder, lambda part: (part / "one").write_text("one"))
    kill = "import os, signal\ndef die(self, to): os.kill(os.getpid(), signal.SIGKILL)\n"
    code = (
        "from pathlib import Path; from regard.files import atomic; rename = Path.rename\n" + kill +
        "Path.rename = lambda self, to: rename(self, to) if 'old' in Path(to).name else die(self, to)\n"
        f"atomic.write_folder(Path({str(folder)!r}), lambda part: (part / 'two').write_text('two'))"
    )  # fmt: skip
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -signal.SIGKILL
    assert not folder.exists()
    if again == "load":
        with pytest.raises(CallError):  # one file makes no run
            regard.load(folder)
        assert (folder / "one").read_text() == "one"
        return

    def fill(part: Path) -> None:
        (part / "three").write_text("three")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        atomic.write_folder(folder, fill)
    assert os.listdir(tmp_path) == ["export"]
    assert os.listdir(folder) == ["one"]


def test_a_folder_that_cannot_be_filled_leaves_the_old_one(tmp_path):
    def fill(part: Path) -> None:
        (part / "two").write_text("two")
        (part / "large").write_bytes(bytes(2 * LIMIT))

    atomic.write_folder(tmp_path / "folder", lambda part: (part / "one").write_text("one"))
    with disk_of(LIMIT), pytest.raises(RegardError, match="folder cannot be written"):
        atomic.write_folder(tmp_path / "folder", fill)
    assert os.listdir(tmp_path) == ["folder"]
    assert os.listdir(tmp_path / "folder") == ["one"]
