"""Pictures in: every odd file is read as a person would see it, or named; and none ever stops a training."""

import errno
import io
import os
import signal
import struct
import tarfile
import threading
import time
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from regard import config
from regard.data.batches import made_ahead, random_generator
from regard.data.pairs import Columns, SkippedLine
from regard.data.prepare import find_splits
from regard.errors import CallError, RegardError
from regard.inputs.image import decode as image_worker
from regard.inputs.image.augment import OPERATIONS, augment
from regard.inputs.image.decode import BadPictureError, PictureForm, at_once, decode, decode_all, from_array
from regard.inputs.image.settings import PictureAugmentSettings
from regard.inputs.image.source import PictureSource
from regard.inputs.image.store import PictureStore, write_pictures
from regard.inputs.media_files import Bytes, find_file, members

FORM = PictureForm(6, 10)
LABELED = Columns({"image": None, "label": None}, folders=True)
CAPTIONED = Columns({"image": None, "caption": None})


def saved(image, format="PNG", **options):
    file = io.BytesIO()
    image.save(file, format=format, **options)
    return file.getvalue()


def plain(color=(200, 40, 90), size=(10, 6)):
    return Image.new("RGB", size, color)


@pytest.mark.parametrize(
    ("image", "color"),
    [
        (plain(), (200, 40, 90)),
        (plain().convert("RGBA"), (200, 40, 90)),
        (Image.new("RGBA", (10, 6), (200, 40, 90, 0)), (255, 255, 255)),  # transparent: what is behind it
        (Image.new("LA", (10, 6), (40, 0)), (255, 255, 255)),
        (plain().convert("P"), None),
        (Image.new("L", (10, 6), 77), (77, 77, 77)),
        (Image.new("1", (10, 6), 1), (255, 255, 255)),
        (Image.fromarray(np.full((6, 10), 65535, np.uint16)), (255, 255, 255)),
        (Image.fromarray(np.full((6, 10), 257 * 100, np.uint16)), (100, 100, 100)),
    ],
    ids=["RGB", "RGBA", "clear", "LA", "P", "L", "1", "white 16", "gray 16"],
)
def test_every_mode_becomes_what_one_sees(image, color):
    pixels = decode(saved(image), FORM).pixels
    assert pixels.shape == (3, 6, 10)
    assert pixels.dtype == np.uint8
    if color is not None:
        np.testing.assert_allclose(pixels.reshape(3, -1).mean(1), color, atol=1)


def test_odd_files_are_used_and_noted():
    cmyk = decode(saved(plain().convert("CMYK"), "JPEG"), FORM, "a.jpg")
    assert abs(int(cmyk.pixels[0].mean()) - 200) < 12
    assert cmyk.notes == ("in CMYK: converted to RGB without a color profile", "of fewer than 8 pixels a side")
    large = Image.new("RGB", (20, 12), "red")
    animated = decode(saved(large, "GIF", save_all=True, append_images=[Image.new("RGB", (20, 12), "blue")]), FORM)
    assert "animated" in animated.notes[0]
    assert animated.pixels[0].mean() > 250  # the first frame
    assert decode(saved(large), FORM, "b.jpg").notes == ("whose ending says jpg, but the content is PNG",)
    wide = decode(saved(Image.fromarray(np.full((12, 20), 500, np.uint16))), FORM)
    assert "of more than 8 bits" in wide.notes[0]


def test_a_picture_stands_as_the_camera_was_held():
    image = Image.new("RGB", (20, 12), "black")
    image.paste("white", (0, 0, 20, 6))  # the upper half
    exif = image.getexif()
    exif[0x0112] = 3  # upside down
    pixels = decode(saved(image, "JPEG", exif=exif, quality=95), FORM).pixels
    assert pixels[0, :2].mean() < 60
    assert pixels[0, 4:].mean() > 200


def bomb(width, height):
    """A PNG of a few hundred bytes that says it is very large."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    pixels = chunk(b"IDAT", zlib.compress(b"\0" * 1000))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + pixels + chunk(b"IEND", b"")


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "the file is empty"),
        (b"hello, this is a text", "not a picture of any known format"),
        (saved(plain(size=(100, 100)), "JPEG")[:300], "damaged or cut short"),
        (saved(plain(size=(300, 300)))[:120], "damaged or cut short"),
        (bomb(30_000, 30_000), "far too large|more than data.max_pixels"),
        (bomb(9_000, 9_000), "81,000,000|9,000×9,000 pixels are more than data.max_pixels=50,000,000 allows"),
        (
            saved(Image.fromarray(np.full((6, 10), np.nan, np.float32)), "TIFF"),
            "some of its pixels are NaN or infinite",
        ),
        (
            saved(Image.fromarray(np.full((6, 10), np.inf, np.float32)), "TIFF"),
            "some of its pixels are NaN or infinite",
        ),
    ],
)
def test_bad_files_say_why(data, reason):
    with pytest.raises(BadPictureError, match=reason):
        decode(data, FORM)


@pytest.mark.parametrize("fit", ["squash", "crop", "pad"])
def test_fit(fit):
    image = Image.new("RGB", (40, 12), "red")
    image.paste("blue", (0, 0, 13, 12))
    pixels = decode(saved(image), PictureForm(12, 12, fit=fit)).pixels
    red, white = pixels[0] > 200, (pixels > 250).all(0)
    if fit == "squash":
        assert 0.6 < red.mean() < 0.75
    elif fit == "crop":
        assert red.mean() > 0.9  # the middle is red
    else:
        assert white[0].all()
        assert white[-1].all()
        assert not white[6].any()


def test_arrays_must_be_pixels():
    assert from_array(np.zeros((4, 5), np.uint8), PictureForm(6, 10, 1)).pixels.shape == (1, 6, 10)
    for wrong in (np.full((4, 5), 7.0), np.zeros((4, 5, 2), np.uint8), np.zeros(5, np.uint8)):
        with pytest.raises(BadPictureError, match=r"a picture is uint8, or numbers from 0 to 1 \(data.white\)"):
            from_array(wrong, FORM)
    for numbers in (np.array([[0.0, 51.0]]), np.array([[0, 51]])):  # one number is one shade, whatever else is there
        assert from_array(numbers, PictureForm(1, 2, 1, white=255.0)).pixels.tolist() == [[[0, 51]]]
    with pytest.raises(BadPictureError, match="numbers from 0 to 255"):
        from_array(np.full((4, 5), 256), PictureForm(4, 5, 1, white=255.0))


def test_large_pictures_are_decoded_one_after_the_other():
    """Whoever decodes waits while the pixels of others fill the budget."""
    data, done = saved(plain(size=(40, 30))), threading.Event()
    with at_once.taken((10**6, 10**6)):  # more than there is: all of it
        thread = threading.Thread(target=lambda: (decode(data, FORM), done.set()))
        thread.start()
        assert not done.wait(0.2)
    assert done.wait(10)
    thread.join()
    with at_once.taken((100, 100)), at_once.taken((100, 100)):  # small ones stand beside each other
        assert decode(data, FORM).seen == "40×30 color"


def write_files(folder, count):
    files = []
    for number in range(count):
        path = folder / f"{number:03}.png"
        plain((number, 2 * number, 7)).save(path)
        files.append(Bytes(str(path)))
    return files


def test_workers_give_what_one_process_gives_in_order(tmp_path):
    files = write_files(tmp_path, 70)
    (tmp_path / "031.png").write_bytes(b"broken")
    found = list(decode_all(files, FORM, workers=2))
    for number, one in enumerate(found):
        if number == 31:
            assert isinstance(one, BadPictureError)
        else:
            assert one.pixels[:, 3, 4].tolist() == [number, 2 * number, 7]


def kill_while_it_reads(worker: Any, pipe: Path, picture: bytes | None) -> None:
    """Kill a worker that opens a pipe; whoever reads it next finds a picture in its place, or waits again."""
    while True:
        time.sleep(0.01)
        if worker._process is None:
            continue
        worker._process.send_signal(signal.SIGSTOP)
        try:
            handle = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
        except OSError as problem:
            if problem.errno != errno.ENXIO:  # nobody reads it yet
                raise
            worker._process.send_signal(signal.SIGCONT)
            continue
        if picture is not None:
            pipe.unlink()
            pipe.write_bytes(picture)
        worker._process.kill()
        worker._process.wait()
        return os.close(handle)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes with names")
@pytest.mark.parametrize("kills", [1, 2])
def test_a_worker_that_dies_at_work_loses_the_picture_on_which_it_dies_twice(tmp_path, kills):
    worker: Any = image_worker._Worker(FORM)
    files, pipe = write_files(tmp_path, 6), tmp_path / "003.png"
    pipe.unlink()
    os.mkfifo(pipe)

    def crash():
        for _ in range(kills):
            kill_while_it_reads(worker, pipe, saved(plain((3, 6, 7))) if kills == 1 else None)

    thread = threading.Thread(target=crash, daemon=True)
    thread.start()
    found: list[Any] = worker.decode(files)
    thread.join(10)
    assert not thread.is_alive()
    worker.stop()
    bad = [number for number, one in enumerate(found) if isinstance(one, BadPictureError)]
    assert bad == ([3] if kills == 2 else [])
    assert all("the decoder crashed on it" in str(found[number]) for number in bad)
    for number in {*range(6)} - {*bad}:
        assert found[number].pixels[:, 3, 4].tolist() == [number, 2 * number, 7]


def test_a_worker_that_dies_without_work_loses_nothing(tmp_path):
    worker: Any = image_worker._Worker(FORM)
    files = write_files(tmp_path, 5)
    assert len(worker.decode(files[:1])) == 1  # it runs
    worker._process.kill()
    worker._process.wait()
    found = worker.decode(files)
    worker.stop()
    assert not any(isinstance(one, BadPictureError) for one in found)


# ------------------------------------------------------------------------------------------------------ where they are
def test_class_folders(tmp_path):
    for label in ("cat", "dog"):
        (tmp_path / label / "more").mkdir(parents=True)
        plain().save(tmp_path / label / "1.png")
        plain().save(tmp_path / label / "more" / "2.jpg")
    (tmp_path / "cat" / ".hidden").write_text("x")
    found = list(PictureSource(str(tmp_path), "train", LABELED).read())
    assert [(one.name, one.texts) for one in found] == [
        ("cat/1.png", ("cat",)), ("cat/more/2.jpg", ("cat",)), ("dog/1.png", ("dog",)), ("dog/more/2.jpg", ("dog",)),
    ]  # fmt: skip
    with pytest.raises(CallError, match="needs a sub-folder for each class"):
        list(PictureSource(str(tmp_path / "cat" / "more"), "train", LABELED).read())


def test_members_of_a_tar_are_read_in_place(tmp_path):
    for name, color in (("a", (9, 9, 9)), ("b", (80, 90, 100))):
        plain(color).save(tmp_path / f"{name}.png")
    with tarfile.open(tmp_path / "all.tar", "w") as archive:
        archive.add(tmp_path / "a.png", "images/a.png")
        archive.add(tmp_path / "b.png", "images/b.png")
    (tmp_path / "list.csv").write_text('image,caption\nimages/a.png,"one, two"\nb.png,three\nb.png,four\nc.png,five\n')
    source = PictureSource(str(tmp_path / "list.csv"), "train", CAPTIONED, files=str(tmp_path / "all.tar"))
    first, second, missing = source.read()
    assert (first.texts, second.texts) == (("one, two",), ("three", "four"))
    assert decode(second.place.read(), FORM).pixels[:, 0, 0].tolist() == [80, 90, 100]
    assert isinstance(missing, SkippedLine)
    assert missing.line == 5
    assert "there is no picture 'c.png'" in missing.reason
    member = find_file(str(tmp_path / "all.tar" / "images" / "a.png"), "picture")
    assert decode(member.read(), FORM).pixels.max() == 9
    (tmp_path / "bad.tar").write_bytes(b"x" * 2000)
    with pytest.raises(CallError, match=r"cannot be read as a \.tar"):
        members(tmp_path / "bad.tar")


def test_arrays_of_an_npz(tmp_path):
    x = np.arange(5 * 4 * 3, dtype=np.uint8).reshape(5, 4, 3)
    np.savez(
        tmp_path / "a.npz",
        x_train=x,
        y_train=np.array([0, 1, 1, 7, 0]),
        x_test=x[:1],
        y_test=[1],
        classes=["no", "yes"],
    )
    found = list(PictureSource(str(tmp_path / "a.npz"), "train", LABELED).read())
    assert [one.texts[0] for one in found if not isinstance(one, SkippedLine)] == ["no", "yes", "yes", "no"]
    assert "label 7 is not one of the 2 classes" in found[3].reason
    assert len(list(PictureSource(str(tmp_path / "a.npz"), "test", LABELED).read())) == 1
    with pytest.raises(CallError, match="it has no array x_valid"):
        list(PictureSource(str(tmp_path / "a.npz"), "valid", LABELED).read())
    (tmp_path / "b.npz").write_bytes(b"no zip")
    with pytest.raises(RegardError, match=r"not a complete \.npz"):
        list(PictureSource(str(tmp_path / "b.npz"), "train", LABELED).read())


def test_what_is_held_out_is_not_trained_on(tmp_path):
    for label in "ab":
        (tmp_path / label).mkdir()
        write_files(tmp_path / label, 60)
    source = PictureSource(str(tmp_path), "train", LABELED)
    splits = find_splits({"train": source}, lambda _: 120, valid_share=0.2, valid_most=1000)
    names = {role: {one.name for one in split.read()} for role, split in splits.items()}
    assert not names["train"] & names["valid"]
    assert len(names["train"] | names["valid"]) == 120
    assert 10 < len(names["valid"]) < 40


def test_a_store_keeps_good_pictures_and_counts_bad_ones(tmp_path):
    (tmp_path / "in" / "a").mkdir(parents=True)
    (tmp_path / "in" / "b").mkdir()
    write_files(tmp_path / "in" / "a", 3)
    (tmp_path / "in" / "b" / "x.png").write_bytes(b"no picture")
    folder = tmp_path / "store"
    folder.mkdir()
    write_pictures(folder, PictureSource(str(tmp_path / "in"), "train", LABELED).read(), FORM, name="mine")
    store = PictureStore(folder)
    assert [entry.name for entry in store.entries] == ["a/000.png", "a/001.png", "a/002.png"]
    assert store.pixels[2, :, 0, 0].tolist() == [2, 4, 7]
    np.testing.assert_allclose(store.mean, [1 / 255, 2 / 255, 7 / 255])
    assert store.counts.read.bad == 1
    assert "x.png: b/x.png: not a picture" in str(store.counts.read.first["unreadable"][0])
    (folder / "values").write_bytes(b"short")
    with pytest.raises(RegardError, match="it is incomplete"):
        PictureStore(folder)


# -------------------------------------------------------------------------------------------------------- augmentation
def test_changes_follow_from_seed_epoch_and_row():
    pixels = np.random.default_rng(0).integers(0, 256, (3, 9, 14), dtype=np.uint8)
    how = PictureAugmentSettings(crop=0.3, shift=2, flip=True, operations=2, strength=0.7, erase=0.5)

    def changed(seed, epoch, row):
        return augment(pixels, how, random_generator(seed, epoch, row))

    assert np.array_equal(changed(1, 2, 3), changed(1, 2, 3))
    others = [changed(1, 2, 4), changed(1, 3, 3), changed(2, 2, 3)]
    assert all(not np.array_equal(changed(1, 2, 3), other) for other in others)
    assert all(other.shape == pixels.shape and other.dtype == np.uint8 for other in others)


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("mode", ["RGB", "L"])
def test_every_operation_keeps_size_and_mode(operation, mode):
    image = Image.fromarray(np.random.default_rng(1).integers(0, 256, (9, 14, 3), dtype=np.uint8)).convert(mode)
    changed = OPERATIONS[operation](image, -0.8)
    assert (changed.size, changed.mode) == (image.size, mode)


def test_single_changes_by_hand():
    pixels = np.arange(12, dtype=np.uint8).reshape(1, 3, 4)
    flips = {
        augment(pixels, PictureAugmentSettings(flip=True), random_generator(0, 0, row))[0, 0, 0] for row in range(20)
    }
    assert flips == {0, 3}
    for row in range(10):
        moved = augment(pixels, PictureAugmentSettings(shift=1), random_generator(0, 0, row))[0].astype(int)
        down, right = moved[1, 1] // 4 - 1, moved[1, 1] % 4 - 1
        rows, columns = np.clip(np.arange(3) + down, 0, 2), np.clip(np.arange(4) + right, 0, 3)
        np.testing.assert_array_equal(moved, pixels[0][rows[:, None], columns])


def test_items_made_ahead_are_the_same_and_errors_come_through():
    assert list(made_ahead(iter(range(50)))) == list(range(50))

    def broken():
        yield 1
        raise ValueError("here")

    with pytest.raises(ValueError, match="here"):
        list(made_ahead(broken()))
    stream = made_ahead(iter(range(10**9)))
    assert next(stream) == 0
    stream.close()  # its thread ends


def test_the_prefetching_thread_leaves_torch_its_random_numbers():
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    list(made_ahead(random_generator(0, 0, row).random() for row in range(5)))
    assert torch.equal(torch.rand(3), expected)


@pytest.mark.parametrize(
    ("recipe", "columns", "changes", "size"),
    [
        ("shapes-caption", "image\tcaption", [], (32, 24, 1)),
        ("shapes-ask", "image\tquestion\tanswer", [], (32, 24, 1)),
        ("shapes-draw", "image\tcaption", ["model.tokenizer.stages=[8, 8, 8, 8]"], (32, 32, 1)),
        ("photos-caption", "image\tcaption", [], (224, 224, 3)),  # what its network was trained on
        ("photos-caption", "image\tcaption", ["model.encoder={kind: cnn}"], (32, 24, 1)),
        ("photos-classify", "image\tlabel", ["model={kind: vit, patch: 16}"], (32, 32, 1)),
    ],
)
def test_sizes_that_are_auto_follow_the_pictures(recipe, columns, changes, size, tmp_path):
    """Gray, and of 30×22 pixels: unlike those that come with the recipes."""
    rows = [columns]
    for number in range(6):
        Image.fromarray(np.full((30, 22), 40 * number, np.uint8)).save(tmp_path / f"{number}.png")
        rows.append("\t".join([f"{number}.png", *["a thing"] * columns.count("\t")]))
    (tmp_path / "list.tsv").write_text("\n".join(rows), encoding="utf-8")
    data = config.read(recipe, [f"data.train={tmp_path / 'list.tsv'}", *changes]).data
    assert (data.height, data.width, data.channels) == size
