"""Plain text to token ids and windows: nothing lost, nothing twice, and what is wrong is told with its place."""

import gzip
from typing import NamedTuple

import numpy as np
import pytest
import zstandard

from regard.data.pairs import SkippedLine
from regard.data.store import Array, StoreWriter
from regard.data.tokenizer import Tokenizer
from regard.errors import CallError, RegardError
from regard.inputs.prompt import files
from regard.inputs.prompt.files import TextDataSettings, TextPart, TextPiece, TextSource, read_pieces, text_files
from regard.inputs.prompt.input import TextStore, TextWindows
from regard.job import make_job
from regard.special_tokens import END, START
from regard.tasks.text.settings import GenerateRecipe

TEXT = "Ay, marry, sir.\n\nWho goes there?\nñandú — 日本語\n" * 3


def settings(**given):
    return TextDataSettings.model_validate({"tokenizer": {"kind": "character"}, **given})


class Prepared(NamedTuple):
    tokenizer: Tokenizer
    train: TextStore
    valid: TextStore


def prepare_text(settings, cache) -> Prepared:
    job = make_job(GenerateRecipe.model_validate({"job": "generate", "data": settings, "model": {}}))
    splits = job.input.prepare(cache, job.output)
    return Prepared(job.input.tokenizer, splits["train"], splits["valid"])


def joined(items):
    return "".join(item.text for item in items if isinstance(item, TextPiece))


@pytest.mark.parametrize("block", [1, 2, 3, 7, 1 << 16])
@pytest.mark.parametrize("text", [TEXT, "日本語" * 20, "no line end", "x" * 50])
def test_pieces_of_any_size_are_the_text(tmp_path, monkeypatch, block, text):
    monkeypatch.setattr(files, "BLOCK", block)
    (tmp_path / "a.txt").write_text(text, encoding="utf-8")
    pieces = list(read_pieces([tmp_path / "a.txt"], "file"))
    assert joined(pieces) == text
    assert [piece.ends for piece in pieces] == [False] * (len(pieces) - 1) + [True]


def test_packed_files_globs_folders_and_commas(tmp_path):
    (tmp_path / "b.txt").write_text("two\n")
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(b"one\r\n"))
    (tmp_path / "c.zst").write_bytes(zstandard.compress(b"drei\n"))
    (tmp_path / "picture.png").write_bytes(b"\x89PNG")
    assert [path.name for path in text_files(str(tmp_path))] == ["a.txt.gz", "b.txt", "c.zst"]
    assert [path.name for path in text_files(f"{tmp_path}/b*,{tmp_path}/*.zst,{tmp_path}/b.txt")] == ["b.txt", "c.zst"]
    assert joined(read_pieces(text_files(str(tmp_path)), "file")) == "one\ntwo\ndrei\n"
    with pytest.raises(CallError, match=r"there is no file .*nothing\*"):
        text_files(f"{tmp_path}/nothing*")


def test_documents_by_line_and_paragraph(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "BLOCK", 5)
    (tmp_path / "a.txt").write_text("one\ntwo\n\n\nthree\n")
    by_line = list(read_pieces([tmp_path / "a.txt"], "line"))
    assert by_line == [TextPiece("one", True), TextPiece("two", True), TextPiece("three", True)]
    by_paragraph = list(read_pieces([tmp_path / "a.txt"], "paragraph"))
    assert [piece.text.strip("\n") for piece in by_paragraph] == ["one\ntwo", "three"]


def test_lines_that_are_no_text_are_told_and_the_rest_is_kept(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"good\nbad \xff\xfe\nfine\nzero \0 byte\nend\n")
    items = list(read_pieces([tmp_path / "a.txt"], "file"))
    assert joined(items) == "good\nfine\nend\n"
    bad = [item for item in items if isinstance(item, SkippedLine)]
    assert [(one.line, one.kind) for one in bad] == [(2, "encoding"), (4, "encoding")]
    assert "0xff" in bad[0].reason
    with pytest.raises(
        RegardError, match=r"2 of 5 lines \(40.0%\) cannot be used(.|\n)*a.txt:2: byte 5 \(0xff\) is not UTF-8"
    ):
        prepare_text(settings(train=str(tmp_path / "a.txt"), valid=str(tmp_path / "a.txt")), tmp_path / "cache")


def test_utf16_and_nothing_are_refused(tmp_path):
    (tmp_path / "wide.txt").write_bytes("hello".encode("utf-16"))
    with pytest.raises(CallError, match="UTF-16"):
        list(read_pieces([tmp_path / "wide.txt"], "file"))
    (tmp_path / "empty.txt").write_text("")
    with pytest.raises(RegardError, match="contains no usable examples"):
        prepare_text(settings(train=str(tmp_path / "empty.txt")), tmp_path / "cache")


def test_the_last_tenth_is_held_out_at_nanogpts_place(tmp_path):
    text = "".join(chr(ord("a") + number % 26) for number in range(1007))
    (tmp_path / "a.txt").write_text(text)
    prepared = prepare_text(settings(train=str(tmp_path / "a.txt")), tmp_path / "cache")
    decode = prepared.tokenizer.decode
    assert decode(prepared.train.ids.tolist()) == text[: int(0.9 * len(text))]
    assert decode(prepared.valid.ids.tolist()) == text[int(0.9 * len(text)) :]
    assert prepared.valid.bytes == len(text) - int(0.9 * len(text))
    assert prepared.valid.ids[0] == START  # so that the first character is predicted, too
    assert prepared.valid.ids[-1] == END
    assert END not in prepared.train.ids  # the text goes on


def test_lines_stay_whole_where_the_text_is_cut(tmp_path):
    (tmp_path / "a.txt").write_text("".join(f"line {number:02}\n" for number in range(20)))
    prepared = prepare_text(settings(train=str(tmp_path / "a.txt"), documents="line"), tmp_path / "cache")
    said = [prepared.tokenizer.decode(store.ids.tolist()) for store in (prepared.train, prepared.valid)]
    assert said[0] + said[1] == "".join(f"line {number:02}" for number in range(20))
    assert sum(one.counts.totals["documents"] for one in (prepared.train, prepared.valid)) == 20
    assert said[1].startswith("line")


@pytest.mark.parametrize(("kind", "size"), [("character", 100), ("byte", 100), ("bpe", 300)])
def test_every_kind_gives_back_every_character(tmp_path, kind, size):
    (tmp_path / "a.txt").write_text(TEXT, encoding="utf-8")
    how = settings(train=str(tmp_path / "a.txt"), valid=str(tmp_path / "a.txt"), tokenizer={"kind": kind, "size": size})
    prepared = prepare_text(how, tmp_path / "cache")
    assert prepared.tokenizer.decode(prepared.valid.ids.tolist()) == TEXT
    assert prepared.valid.bytes == len(TEXT.encode())
    if kind != "character":
        strange = "never seen: ẞ \t\n  🙂"
        assert prepared.tokenizer.decode(prepared.tokenizer.encode(strange)) == strange


def test_the_store_is_built_once_and_anew_if_the_file_changes(tmp_path, monkeypatch):
    (tmp_path / "a.txt").write_text(TEXT)
    how = settings(train=str(tmp_path / "a.txt"))
    first = prepare_text(how, tmp_path / "cache").train.digest()
    folders = sorted((tmp_path / "cache").iterdir())
    assert prepare_text(how, tmp_path / "cache").train.digest() == first
    assert sorted((tmp_path / "cache").iterdir()) == folders
    (tmp_path / "a.txt").write_text(TEXT + "more and more and more")
    assert prepare_text(how, tmp_path / "cache").train.digest() != first


# ------------------------------------------------------------------------------------------------------- windows
def store_of(folder, size):
    """A store whose tokens are 0, 1, 2, …"""
    with StoreWriter(folder, "numbers", tokens=Array("uint16")) as store:
        store.add("tokens", np.arange(size))
    return TextStore(folder)


def test_an_epoch_predicts_every_token_once_but_for_the_edges(tmp_path):
    windows = TextWindows(store_of(tmp_path, 107), context=7, rows=4, seed=3)
    for epoch in (0, 1):
        batches = list(windows.epoch(epoch))
        assert len(batches) == windows.len_epoch(epoch)
        told = np.concatenate([batch.tokens[:, 1:].numpy().ravel() for batch in batches])
        assert len(set(told)) == len(told) >= 107 - 1 - 2 * 7
        assert all((np.diff(row) == 1).all() for batch in batches for row in batch.tokens.numpy())


def test_order_depends_on_seed_and_epoch_and_goes_on_where_it_stopped(tmp_path):
    windows = TextWindows(store_of(tmp_path, 207), context=5, rows=6, seed=3)
    whole = [batch.tokens.tolist() for batch in windows.epoch(2)]
    again = TextWindows(store_of(tmp_path, 207), context=5, rows=6, seed=3)
    assert [batch.tokens.tolist() for batch in again.epoch(2, start=3)] == whole[3:]
    assert [batch.tokens.tolist() for batch in again.epoch(1)] != whole
    one, two = (list(again.epoch(2, rank=rank, world=2)) for rank in range(2))
    for left, right, both in zip(one, two, whole, strict=True):
        assert left.tokens.tolist() == both[0::2]
        assert (right.tokens.tolist() if right is not None else []) == both[1::2]


def test_a_text_shorter_than_the_context_is_one_window(tmp_path):
    [batch] = TextWindows(store_of(tmp_path, 6), context=64, rows=4).epoch(0)
    assert batch.tokens.tolist() == [[0, 1, 2, 3, 4, 5]]


def test_a_part_says_what_it_is():
    assert str(TextPart(TextSource("a.txt", "valid"), "held out", at=5)) == "a.txt (held out)"
