"""SentencePiece models (Kudo and Richardson 2018, arXiv:1808.06226), read without the library that made them.

A .spm or .model file is a protobuf message: 1 pieces (1 text, 2 score, 3 type), 2 how it was trained (3 the kind of
model), 3 how text is normalized (2 a compiled table of characters, 4 whether spaces are made one). Only these fields
are looked at: a few lines of the wire format take the place of two dependencies.
"""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers
from tokenizers import Tokenizer as Inner

from regard.data.tokenizer import Tokenizer
from regard.data.tokenizer_kinds import SPACE
from regard.errors import CallError, RegardError
from regard.special_tokens import SPECIAL_TOKENS, UNK

UNIGRAM = 1  # the kind of model; 2 is BPE
NORMAL, USER_DEFINED = 1, 4  # types of pieces that text is cut into
FAR = 1e6  # a score so much lower is never chosen where there is any other way


@dataclass(frozen=True)
class SentencePiece:
    """The pieces that text is cut into, with their log-probabilities, and the table that normalizes text."""

    scores: dict[str, float]
    characters: bytes
    single_spaces: bool


def read(file: Path) -> SentencePiece:
    scores: dict[str, float] = {}
    characters, spaces = b"", True
    try:
        for number, value in _fields(file.read_bytes()):
            if number == 1:
                part = dict(_fields(_message(value)))
                if part.get(3, NORMAL) in (NORMAL, USER_DEFINED):
                    scores[_message(part[1]).decode()] = struct.unpack("<f", _message(part.get(2, bytes(4))))[0]
            elif number == 2:
                kind = dict(_fields(_message(value))).get(3, UNIGRAM)
                if kind != UNIGRAM:
                    raise CallError(f"{file}: only SentencePiece models of the kind unigram are understood")
            elif number == 3:
                part = dict(_fields(_message(value)))
                characters, spaces = _message(part.get(2, b"")), bool(part.get(4, 1))
    except (IndexError, KeyError, struct.error, UnicodeDecodeError, TypeError) as error:
        raise RegardError(f"{file} is not a SentencePiece model: {error}") from None
    if not scores:
        raise RegardError(f"{file} is not a SentencePiece model: it has no pieces")
    return SentencePiece(scores, characters, spaces)


def _message(value: "int | bytes") -> bytes:
    if not isinstance(value, bytes):
        raise TypeError("a number where a message should be")
    return value


def _fields(data: bytes) -> Iterator[tuple[int, "int | bytes"]]:
    """(number, value) of each field of a message: numbers as int, all else as bytes."""
    place = 0

    def varint() -> int:
        nonlocal place
        value = shift = 0
        while True:
            byte = data[place]
            place += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    while place < len(data):
        key = varint()
        kind = key & 7
        if kind == 0:
            yield key >> 3, varint()
            continue
        if kind not in (1, 2, 5):
            raise TypeError(f"a field of the kind {kind}")
        size = varint() if kind == 2 else 8 if kind == 1 else 4
        if place + size > len(data):
            raise IndexError("it ends too soon")
        yield key >> 3, data[place : place + size]
        place += size


def tokenizer(model: SentencePiece, vocabulary: Sequence[str], whole: Sequence[str] = ()) -> Tokenizer:
    """Text cut by the model, with the ids of a vocabulary that begins with our four special tokens.

    Two models, one for each language, may share a vocabulary. Pieces that only the other one has are there, for
    decoding, but are not chosen where this one has any way of its own. `whole` are entries that are found in text as
    they are, such as >>fra<<, which tells a model of many languages which one to write.
    """
    low = min(model.scores.values())
    # The longer, the worse: a character that this one does not know is taken alone, not with neighbors that it does.
    scores = [(piece, model.scores.get(piece, low - FAR * len(piece) ** 2)) for piece in vocabulary]
    inner = Inner(models.Unigram(scores, unk_id=UNK))
    # Text that spells a special token does not become one.
    steps: list[normalizers.Normalizer] = [normalizers.Replace(Regex(r"<(?=(pad|unk|s|/s)>)"), "‹")]
    if model.characters:
        steps.append(normalizers.Precompiled(model.characters))
    if model.single_spaces:
        steps += [normalizers.Replace(Regex(r"\s+"), " "), normalizers.Strip()]
    inner.normalizer = normalizers.Sequence(steps)
    inner.pre_tokenizer = pre_tokenizers.Metaspace(replacement=SPACE, prepend_scheme="always")
    inner.decoder = decoders.Metaspace(replacement=SPACE, prepend_scheme="always")
    inner.add_special_tokens(list(SPECIAL_TOKENS))
    inner.add_tokens(list(whole))
    return Tokenizer(inner)
