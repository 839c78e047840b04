"""Files that mean harm: models, archives, pictures and recordings of a stranger. They cost a sentence, no more.

What is only damaged is tested beside its reader; here are files that lie about their size, point elsewhere, or unpack
to more than memory holds.
"""

import io
import json
import struct
import tarfile
import zipfile
from contextlib import nullcontext, suppress
from itertools import pairwise

import numpy as np
import pytest
import yaml
from PIL import Image

import regard
from regard import look
from regard.detect import files
from regard.detect.begin import make_recipe
from regard.errors import CallError, RegardError
from regard.inputs import media_files
from regard.inputs.sound.item import SoundSource
from regard.inputs.sound.recording import SoundError, read_sound
from regard.inputs.sound.settings import SoundDataSettings
from regard.pretrained.families import read
from regard.serve.uploads import Uploads, check_sound
from test_serve import run  # noqa: F401  (a fixture)


# --------------------------------------------------------------------------------------------- archives that are data
@pytest.mark.parametrize(
    ("bound", "problem"),
    [
        ({"SMALL": 10_000}, "holds more than .* bytes in .*: unpack it yourself"),
        ({"MOST_FILES": 3}, "has more than 3 files: unpack it yourself"),
        ({"RESERVE": 2**62, "SHARE": 1.0}, r"the disk of .* has 0.0 GB to spare: make room"),
    ],
    ids=["ratio", "files", "reserve"],
)
@pytest.mark.parametrize("name", ["data.zip", "data.tar.gz"])
def test_an_archive_that_would_fill_the_disk_is_refused_before_it_is_unpacked(
    tmp_path, monkeypatch, name, bound, problem
):
    file, content = tmp_path / name, b"a text\tgood\n" * 50_000
    names = [f"{number}.tsv" for number in range(4)]
    if name.endswith("zip"):
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as packed:
            for one in names:
                packed.writestr(one, content)
    else:
        with tarfile.open(file, "w:gz") as packed:
            for one in names:
                about = tarfile.TarInfo(one)
                about.size = len(content)
                packed.addfile(about, io.BytesIO(content))
    for constant, value in bound.items():
        monkeypatch.setattr(files, constant, value)
    with pytest.raises(CallError, match=problem):
        make_recipe(str(file), tmp_path / "run", seconds=1)
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_member_that_claims_more_than_any_disk_has_is_refused(tmp_path):
    about = tarfile.TarInfo("zeros.tsv")
    about.size = 10**13
    (tmp_path / "data.tar").write_bytes(about.tobuf(tarfile.GNU_FORMAT) + bytes(1024))
    with pytest.raises(CallError, match="holds more than 1,000,000,000 bytes in 1,536"):
        make_recipe(str(tmp_path / "data.tar"), tmp_path / "run", seconds=1)


# ------------------------------------------------------------------------------------------------ the folder of a model
HOSTILE = {
    "empty": b"", "list": b"[]", "nothing in it": b"{}", "null": b"null", "no text": b"\xff\xfe\x00",
    "deep": b"[" * 50_000,
    "a number": b"9" * 5_000, "wrong types": b'{"names": 3, "separator": [], "called": 1, "model": "x", "version": {}}',
}  # fmt: skip


@pytest.mark.parametrize("name", ["config.yaml", "tokenizer.json", "model.safetensors"])
@pytest.mark.parametrize("content", HOSTILE.values(), ids=HOSTILE)
def test_a_run_with_a_hostile_file_is_refused_in_a_sentence(run, tmp_path, name, content):  # noqa: F811
    for file in run.folder.iterdir():
        if file.is_file():
            (tmp_path / file.name).write_bytes(content if file.name == name else file.read_bytes())
    with pytest.raises(RegardError, match=tmp_path.name):
        regard.load(tmp_path)


def test_a_recipe_that_asks_for_too_much_is_refused(run, tmp_path):  # noqa: F811
    for file in run.folder.iterdir():
        if file.is_file():
            (tmp_path / file.name).write_bytes(file.read_bytes())
    whole = yaml.safe_load((tmp_path / "config.yaml").read_text())
    for change in ({"width": 10**9}, {"decoder_layers": 10**7}, {"heads": 2**70}, {"feed_forward": 10**12}):
        (tmp_path / "config.yaml").write_text(yaml.safe_dump({**whole, "model": {**whole["model"], **change}}))
        with pytest.raises(RegardError):
            regard.load(tmp_path)
    laughs = [f"{b}: &{b} [*{a}, *{a}, *{a}]" for a, b in pairwise("abcdefghijklmnopqrstuvw")]
    (tmp_path / "config.yaml").write_text("\n".join(["a: &a [x, x]", *laughs]))
    with pytest.raises(RegardError, match=r"config\.yaml"):
        regard.load(tmp_path)


def named(text):
    return struct.pack("<Q", len(text)) + text


def field(name, kind, value):
    return named(name) + struct.pack("<I", kind) + value


GGUF = {
    "counts": struct.pack("<IQQ", 3, 2**62, 2**62),
    "an array of 2^60": struct.pack("<IQQ", 3, 0, 1) + field(b"a", 9, struct.pack("<IQ", 4, 2**60)),
    "2^60 texts": struct.pack("<IQQ", 3, 0, 1) + field(b"a", 9, struct.pack("<IQ", 8, 2**60)) + b"\0" * 800,
    "arrays in arrays": struct.pack("<IQQ", 3, 0, 1) + field(b"a", 9, struct.pack("<IQ", 9, 1) * 5000),
    "a long name": struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q", 2**63),
    "no such type": struct.pack("<IQQ", 3, 0, 1) + field(b"a", 99, b"\0" * 8),
    "dimensions": struct.pack("<IQQ", 3, 1, 0) + named(b"t") + struct.pack("<I", 2**31),
    "sizes": struct.pack("<IQQ", 3, 1, 0) + named(b"t") + struct.pack("<IQQIQ", 2, 2**40, 2**40, 0, 0) + b"\0" * 64,
    "a place": struct.pack("<IQQ", 3, 1, 0) + named(b"t") + struct.pack("<IQIQ", 1, 4, 0, 2**62) + b"\0" * 64,
    "alignment": struct.pack("<IQQ", 3, 1, 1) + field(b"general.alignment", 4, struct.pack("<I", 0)) + named(b"t")
    + struct.pack("<IQIQ", 1, 4, 0, 0) + b"\0" * 64,
    "no such weights": struct.pack("<IQQ", 3, 1, 0) + named(b"t") + struct.pack("<IQIQ", 1, 4, 999, 0) + b"\0" * 64,
    "no text": struct.pack("<IQQ", 3, 0, 1) + field(b"general.architecture", 8, named(b"\xff\xfe")),
    "a name and nothing else": struct.pack("<IQQ", 3, 0, 1) + field(b"general.architecture", 8, named(b"llama")),
}  # fmt: skip


@pytest.mark.parametrize("content", GGUF.values(), ids=GGUF)
def test_a_gguf_file_that_lies_is_refused_at_once(tmp_path, content):
    pytest.importorskip("gguf", reason="pip install 'regard[pretrained]'")
    file = tmp_path / "x.gguf"
    file.write_bytes(b"GGUF" + content)
    with pytest.raises(RegardError, match=r"x\.gguf"):
        read(file)


def header(tree):
    text = json.dumps(tree).encode()
    return struct.pack("<Q", len(text)) + text


SAFETENSORS = {
    "a head of 2^63 bytes": struct.pack("<Q", 2**63),
    "a head beyond the file": struct.pack("<Q", 10**12) + b"{}",
    "shapes": header({"a": {"dtype": "F32", "shape": [2**40, 2**40], "data_offsets": [0, 4]}}) + b"1234",
    "places": header({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 2**43]}}),
    "overlapping": header({n: {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]} for n in "ab"}) + b"1234",
    "nobody's": header({"x": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}) + b"1234",
}


@pytest.mark.parametrize("content", SAFETENSORS.values(), ids=SAFETENSORS)
def test_weights_that_lie_are_refused(tmp_path, content):
    (tmp_path / "config.json").write_text('{"model_type": "gpt2"}')
    (tmp_path / "model.safetensors").write_bytes(content)
    with pytest.raises(RegardError, match=tmp_path.name):
        read(tmp_path)


@pytest.mark.parametrize("content", [*HOSTILE.values(), b'{"weight_map": []}', b'{"weight_map": {"a": "../../x"}}'])
def test_an_index_that_points_elsewhere_or_is_none_is_refused(tmp_path, content):
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    (tmp_path / "model.safetensors.index.json").write_bytes(content)
    with pytest.raises(RegardError, match=tmp_path.name):
        read(tmp_path)


# ------------------------------------------------------------------------------------------------------------- archives
def archive(path, *members):
    with tarfile.open(path, "w") as packed:
        for name, content, how in members:
            member = tarfile.TarInfo(name)
            member.size = len(content)
            for key, value in how.items():
                setattr(member, key, value)
            packed.addfile(member, io.BytesIO(content))
    return path


def png():
    file = io.BytesIO()
    Image.new("RGB", (4, 4)).save(file, "PNG")
    return file.getvalue()


def wav(rate=8000, channels=1, frames=80, bits=16, promised=None):
    data = bytes(frames * channels * bits // 8)
    size = len(data) if promised is None else promised
    form = struct.pack("<HHIIHH", 1, channels, rate, rate * channels * bits // 8 % 2**32, channels * bits // 8, bits)
    return (
        b"RIFF"
        + struct.pack("<I", (36 + size) % 2**32)
        + b"WAVEfmt "
        + struct.pack("<I", 16)
        + form
        + b"data"
        + (struct.pack("<I", size) + data)
    )


LINKS = [
    ("link.png", b"", {"type": tarfile.SYMTYPE, "linkname": "/etc/passwd"}),
    ("hard.png", b"", {"type": tarfile.LNKTYPE, "linkname": "a/1.png"}),
    ("device.png", b"", {"type": tarfile.CHRTYPE, "devmajor": 1, "devminor": 5}),
    ("pipe.wav", b"", {"type": tarfile.FIFOTYPE}),
    ("a/link.wav", b"", {"type": tarfile.SYMTYPE, "linkname": "../../../etc/passwd"}),
]


def test_only_files_of_an_archive_are_read_and_nothing_is_written(tmp_path):
    """Links and devices are passed by. A name that leads out of the archive is a name, and no place."""
    inside = tmp_path / "inside"
    inside.mkdir()
    pictures = archive(inside / "a.tar", ("a/1.png", png(), {}), ("../../out.png", png(), {}), *LINKS)
    assert media_files.find_member(pictures, "a/1.png") is not None
    assert not {"device.png", "a/link.wav"} & {*media_files.members(pictures)}
    sounds = archive(inside / "b.tar", ("a/1.wav", wav(), {}), ("../../out/2.wav", wav(), {}), *LINKS)
    settings = SoundDataSettings(train=str(sounds), name_text=r"(?P<text>\d)\.wav")
    read = SoundSource.of(settings, str(sounds), "train").read()
    found = {one.name: len(read_sound(one.place).samples) for one in read}
    assert found.items() >= {"a/1.wav": 80}.items()
    assert {*found.values()} == {80}
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["a.tar", "b.tar", "inside"]


def test_a_member_that_unpacks_to_more_than_memory_holds_is_not_unpacked(tmp_path, monkeypatch):
    monkeypatch.setattr(media_files, "LARGEST", 10_000)
    packed = tmp_path / "a.tar.gz"
    with tarfile.open(packed, "w:gz") as file:
        for name, size in (("1.wav", 300), ("2.wav", 10**7)):
            member = tarfile.TarInfo(name)
            member.size = size
            file.addfile(member, io.BytesIO(wav()[:size].ljust(size, b"\0")))
    settings = SoundDataSettings(train=str(packed), name_text=r"(?P<text>\d)\.wav")
    for one in SoundSource.of(settings, str(packed), "train").read():
        with pytest.raises(RegardError, match="more than 10,000: unpack") if one.name == "2.wav" else nullcontext():
            read_sound(one.place)


def arrays(path, header, content):
    """An .npz whose arrays have a header of our choice."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        for name in ("record", "weights0", "x_train", "y_train"):
            text = header.encode().ljust(117) + b"\n"
            packed.writestr(f"{name}.npy", b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + content)
    return path


@pytest.mark.parametrize(
    "shape",
    ["(1152921504606846976,)", "(10995116277760, 3)", "(-1,)", "(3,)"],
    ids=["2^60", "30 TB", "-1", "none"],
)
def test_a_record_that_lies_is_refused(tmp_path, shape):
    file = arrays(tmp_path / "x.npz", f"{{'descr': '|u1', 'fortran_order': False, 'shape': {shape}, }}", b"abc")
    with pytest.raises(RegardError, match=r"x\.npz"):
        look.load(file)


def test_an_archive_larger_than_memory_is_not_unpacked(tmp_path, monkeypatch):
    file = arrays(tmp_path / "x.npz", "{'descr': '|u1', 'fortran_order': False, 'shape': (1000000,), }", bytes(10**6))
    assert file.stat().st_size < 20_000
    monkeypatch.setattr("regard.files.hub.os.sysconf", lambda name: 1000)
    with pytest.raises(RegardError, match="unpacks to"):
        look.load(file)


# ---------------------------------------------------------------------------------------------- pictures and recordings
LYING = {
    "rate": wav(rate=0), "no channels": wav(channels=0), "no bits": wav(bits=0), "4 GB": wav(promised=2**32 - 50),
    "wide": wav(bits=65_528), "fast": wav(rate=2**31 - 1, promised=2**31), "empty": wav(frames=0),
}  # fmt: skip


@pytest.mark.parametrize("content", LYING.values(), ids=LYING)
def test_a_recording_that_lies_is_refused(content):
    pytest.importorskip("soundfile", reason="pip install 'regard[audio]'")
    with pytest.raises(SoundError):
        read_sound(content)
    with suppress(CallError):  # one that only promises too much may be heard as far as it goes
        assert check_sound(content) == ".wav"


def test_a_small_file_of_endless_silence_is_too_much(monkeypatch):
    soundfile = pytest.importorskip("soundfile", reason="pip install 'regard[audio]'")
    file = io.BytesIO()
    soundfile.write(file, np.zeros((40_000, 8), np.int16), 200_000, format="FLAC")
    content = file.getvalue()
    assert len(content) < 20_000
    assert check_sound(content) == ".flac"
    monkeypatch.setattr("regard.serve.uploads.SAMPLES", 300_000)
    with pytest.raises(RegardError, match="320,000 samples are too many"):
        check_sound(content)
    monkeypatch.setattr("regard.inputs.sound.recording.MOST_SAMPLES", 300_000)
    with pytest.raises(SoundError, match="320,000 samples, more than 300,000"):
        read_sound(content)


@pytest.mark.parametrize(
    "markup", [b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>", b"<!doctype html><script>"]
)
def test_what_a_browser_would_run_is_never_kept_under_a_name_of_its_sender(markup):
    """The name of an upload is ours, and so is its ending: markup is never kept as a picture, whatever is around it."""
    uploads = Uploads()
    for start in (b"", b"GIF89a", b"\x89PNG\r\n\x1a\n", b"RIFF\0\0\0\0WEBP", b"BM"):
        with pytest.raises(RegardError, match="this picture cannot be read"):
            uploads.add(start + markup, "image")
    name = uploads.add(png() + markup, "image")  # a picture with something after its end
    assert uploads.path(name, "image").suffix == ".png"
    uploads.close()
