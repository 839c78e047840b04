"""Read the tokenizer files of model folders as a `Tokenizer`."""

import json
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tokenizers import BertWordPieceTokenizer, Regex, decoders, models, normalizers, pre_tokenizers
from tokenizers import Tokenizer as Inner

from regard.data.tokenizer import SPACE, Tokenizer
from regard.data.vocabulary import OURS
from regard.errors import CallError, RegardError
from regard.special_tokens import SPECIAL_TOKENS, UNK


def wordpiece(folder: Path) -> Tokenizer:
    """Read tokenizer.json, or BERT's vocab.txt with the case and accent settings of tokenizer_config.json."""
    if (folder / "tokenizer.json").is_file():
        return load(folder / "tokenizer.json")
    vocabulary = folder / "vocab.txt"
    if not vocabulary.is_file():
        raise CallError(f"{folder} has no tokenizer.json and no vocab.txt, so it has no tokenizer")
    told = settings_of(folder)
    lowercase = bool(told.get("do_lower_case", True))
    inner = BertWordPieceTokenizer(
        str(vocabulary),
        lowercase=lowercase,
        strip_accents=told.get("strip_accents"),
        handle_chinese_chars=bool(told.get("tokenize_chinese_chars", True)),
    )
    return Tokenizer.from_json(inner.to_str())


def load(file: Path) -> Tokenizer:
    try:
        return Tokenizer.load(file)
    except Exception as error:  # the library raises only this class
        raise CallError(f"{file} cannot be read: {error}") from None


def settings_of(folder: Path) -> dict:
    file = folder / "tokenizer_config.json"
    return json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}


def byte_pairs(folder: Path) -> Tokenizer:
    """Read tokenizer.json, or the vocab.json and merges.txt of GPT-2."""
    if (folder / "tokenizer.json").is_file():
        tokenizer = load(folder / "tokenizer.json")
        if tokenizer.kind != "bytes" and tokenizer.specials != OURS:
            raise CallError(f"{folder / 'tokenizer.json'}: only byte-level BPE, as in GPT-2, is supported here")
        return tokenizer
    vocabulary, merges = folder / "vocab.json", folder / "merges.txt"
    if not (vocabulary.is_file() and merges.is_file()):
        raise CallError(f"{folder} has no tokenizer.json, and no vocab.json with merges.txt")
    pairs = [
        line for line in merges.read_text(encoding="utf-8").split("\n") if line and not line.startswith("#version")
    ]
    entries = json.loads(vocabulary.read_text(encoding="utf-8"))
    return byte_level(
        entries, pairs, "gpt-2", [name for name in entries if name.startswith("<|") and name.endswith("|>")]
    )


#: Splits of text before bytes are merged, by their names in GGUF files. Without a pattern, the split is that of GPT-2;
#: digits=True first splits off every digit.
LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)
CUTS: dict[str, tuple[str | None, bool]] = {
    "gpt-2": (None, False),
    "default": (None, False),
    "smollm": (None, True),
    "llama-bpe": (LLAMA3, False),
}


def byte_level(entries: Mapping[str, int], merges: Sequence[str], cut: str, specials: Sequence[str]) -> Tokenizer:
    """Return a tokenizer of BPE over bytes (Radford et al. 2019, section 2.2)."""
    if cut not in CUTS:
        raise CallError(f"the tokenizer splits text by {cut!r}, which is not supported; supported: {', '.join(CUTS)}")
    pattern, digits = CUTS[cut]
    steps: list[pre_tokenizers.PreTokenizer] = [pre_tokenizers.Digits(individual_digits=True)] if digits else []
    if pattern is not None:
        steps.append(pre_tokenizers.Split(Regex(pattern), "isolated"))
    steps.append(pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=pattern is None))
    pairs = [(first, second) for first, _, second in (pair.partition(" ") for pair in merges)]
    inner = Inner(models.BPE(dict(entries), pairs))
    inner.pre_tokenizer = pre_tokenizers.Sequence(steps)
    inner.decoder = decoders.ByteLevel()
    inner.add_special_tokens(list(specials))
    return Tokenizer(inner)


# SentencePiece models (Kudo and Richardson 2018, arXiv:1808.06226), read without the library that made them.
#
# A .spm or .model file is a protobuf message: 1 pieces (1 text, 2 score, 3 type), 2 training (3 the kind of model),
# 3 normalization (2 a compiled table of characters, 4 whether spaces are merged). Only these fields are read: a few
# lines for the wire format replace two dependencies.

UNIGRAM = 1  # the kind of model; 2 is BPE
NORMAL, USER_DEFINED = 1, 4  # types of pieces that occur in text
FAR = 1e6  # a piece with a score lower by this is only chosen if there is no other split


@dataclass(frozen=True)
class SentencePiece:
    """Pieces with their log-probabilities, and the table for normalization."""

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
                    raise CallError(f"{file}: only SentencePiece models of the kind unigram are supported")
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
    """Yield (number, value) of each field of a message: numbers as int, all else as bytes."""
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
    """Return the tokenizer of a model, with the ids of a vocabulary that starts with our four special tokens.

    Two models, one for each language, may share a vocabulary. Pieces of the other model are kept for decoding, but are
    only chosen if this model has no other split. `whole` are entries that are matched in text unchanged, such as
    >>fra<<, the target language of a multilingual model.
    """
    low = min(model.scores.values())
    # Longer pieces score lower: an unknown character is split off alone, without known neighbors.
    scores = [(piece, model.scores.get(piece, low - FAR * len(piece) ** 2)) for piece in vocabulary]
    inner = Inner(models.Unigram(scores, unk_id=UNK))
    # A special token in the text is not treated as special.
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
