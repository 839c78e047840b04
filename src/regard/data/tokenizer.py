"""Encode and decode text: words, characters, bytes, BPE (1508.07909) and unigram pieces (1804.10959).

It uses the `tokenizers` library, and saves an ordinary tokenizer.json that other tools read. Additions of regard:

- the four special tokens have the same ids in every vocabulary, and text can never be read as one of them: the
  letters `</s>` in a sentence do not end it;
- decoding restores words exactly. A punctuation mark of kind `word` carries its glue: `"Hola", dijo.` is kept as
  `"￭ Hola ￭" ￭, dijo ￭.`, so joining is exact for ¿ ¡ « » and both kinds of quotes, and words keep one form each
  wherever they stand;
- every piece has its position in the text (`Span`), which plots and alignments need;
- a tokenizer.json of another tool is supported, with its special tokens (`specials` has their ids);
- training gives the same vocabulary every time (the library's unigram trainer depends on the order of a hash table).

White space becomes single spaces for all kinds but `character`, `byte` and `bytes`, which keep every character. Text is
normalized to NFC.
"""

import codecs
import json
import re
from bisect import bisect_right
from collections.abc import Container, Iterable, Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any, Literal, NamedTuple

from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, processors, trainers
from tokenizers import Tokenizer as Inner

from regard.corpora.loading import WORD
from regard.data.settings import TokenizerKind as Kind
from regard.data.vocabulary import special_ids_of
from regard.errors import CallError, RegardError
from regard.files import atomic
from regard.special_tokens import SPECIAL_TOKENS, UNK

# Build each kind of tokenizer from the components of the `tokenizers` library.

GLUE = "￭"  # on a punctuation mark: no space on this side
INNER = "##"  # on a piece of WordPiece: it continues the word (1810.04805; regard reads it, but does not write it)
SPACE = "▁"  # in BPE and unigram pieces: a space comes before
_MARKS = r"\p{P}\p{S}"
# An apostrophe between letters and a point between digits belong to the word: don't, l'eau, 3.14, 10:30.
_INNER = r"(?!(?<=[\p{L}\p{M}])['’]\p{L})(?!(?<=\p{N})[.,:]\p{N})"
_AFTER_INNER = r"(?!(?<=[\p{L}\p{M}]['’])\p{L})(?!(?<=\p{N}[.,:])\p{N})"


def _byte_letters() -> dict[str, bytes]:
    """Return the printable letter that the library uses for each byte: itself if printable, else U+0100 and up."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    letters = {chr(byte): bytes([byte]) for byte in printable}
    return letters | {chr(0x100 + place): bytes([byte]) for place, byte in enumerate(others)}


BYTES = _byte_letters()


def build_untrained(kind: Kind | Literal["bytes"], lowercase: bool) -> Inner:
    inner = Inner(_model(kind))
    inner.normalizer = _normalizer(kind, lowercase)
    inner.pre_tokenizer = _pre_tokenizer(kind)
    inner.decoder = _decoder(kind)
    if kind == "byte":
        inner.add_special_tokens(SPECIAL_TOKENS)
    return inner


def _model(kind: Kind | Literal["bytes"]) -> models.Model:
    if kind == "bytes":
        return models.BPE()
    if kind == "bpe":
        return models.BPE(unk_token=SPECIAL_TOKENS[UNK], fuse_unk=True)
    if kind == "unigram":
        return models.Unigram()
    if kind == "byte":
        letters = sorted(BYTES, key=BYTES.__getitem__)  # id = byte + 4
        return models.BPE({piece: index for index, piece in enumerate(SPECIAL_TOKENS + letters)}, [])
    return models.WordLevel(unk_token=SPECIAL_TOKENS[UNK])


def trainer(kind: Kind | Literal["bytes"], size: int, min_frequency: int) -> trainers.Trainer:
    common: dict[str, Any] = {"vocab_size": size, "special_tokens": SPECIAL_TOKENS, "show_progress": False}
    if kind == "unigram":
        return trainers.UnigramTrainer(unk_token=SPECIAL_TOKENS[UNK], **common)
    if kind in ("bpe", "bytes"):  # all 256 bytes are in the vocabulary, so no text is unknown
        alphabet = list(BYTES) if kind == "bytes" else []
        return trainers.BpeTrainer(min_frequency=min_frequency, initial_alphabet=alphabet, **common)
    return trainers.WordLevelTrainer(min_frequency=min_frequency, **common)


def _normalizer(kind: Kind | Literal["bytes"], lowercase: bool) -> normalizers.Normalizer:
    steps: list[normalizers.Normalizer] = [normalizers.NFC()]
    if lowercase:
        steps.append(normalizers.Lowercase())
    if kind not in ("character", "byte", "bytes"):
        steps += [normalizers.Replace(Regex(r"\s+"), " "), normalizers.Strip()]
    if kind == "space":
        # In other kinds "<" is separate, and no piece can spell a special token. Here it could, and would take its id.
        steps.append(normalizers.Replace(Regex(r"<(?=(pad|unk|s|/s)>)"), "‹"))
    if kind == "word":
        marks = f"[{_MARKS}&&[^{GLUE}]]"
        steps += [
            normalizers.Replace(GLUE, "■"),
            normalizers.Replace(Regex(rf"(?<=\S)(?={marks}){_INNER}"), f" {GLUE}"),
            normalizers.Replace(Regex(rf"(?<={marks})(?=[^\s{_MARKS}]){_AFTER_INNER}"), f"{GLUE} "),
        ]
    return normalizers.Sequence(steps)


def _pre_tokenizer(kind: Kind | Literal["bytes"]) -> pre_tokenizers.PreTokenizer:
    if kind in ("byte", "bytes"):  # `bytes` first cuts text into words, as GPT-2 does; no piece crosses them
        return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=kind == "bytes")
    if kind == "character":
        return pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    if kind in ("word", "space"):
        return pre_tokenizers.WhitespaceSplit()
    return pre_tokenizers.Sequence(
        [
            pre_tokenizers.Metaspace(replacement=SPACE, prepend_scheme="always"),
            pre_tokenizers.Split(Regex(rf"{SPACE}?[{_MARKS}&&[^{SPACE}]]+"), "isolated"),
        ]
    )


def _decoder(kind: Kind | Literal["bytes"]) -> decoders.Decoder:
    """Return the decoder for other readers of the file; `decode` does not use it, as it also needs positions."""
    if kind in ("byte", "bytes"):
        return decoders.ByteLevel()
    if kind == "character":
        return decoders.Fuse()
    if kind in ("bpe", "unigram"):
        return decoders.Metaspace(replacement=SPACE, prepend_scheme="always")
    glue = decoders.WordPiece(prefix=GLUE, cleanup=False)
    return decoders.Sequence([glue, decoders.Fuse(), decoders.Replace(f"{GLUE} ", "")]) if kind == "word" else glue


def kind_of(inner: Inner) -> Kind | Literal["wordpiece", "bytes"]:
    """Return the kind, or one of two more: WordPiece, which only other tools write, and `bytes`, BPE over bytes as in
    GPT-2."""
    model = type(inner.model).__name__
    if model == "WordPiece":
        return "wordpiece"
    if model == "Unigram":
        return "unigram"
    if model == "BPE" and isinstance(inner.decoder, decoders.ByteLevel):
        return "byte" if inner.get_vocab_size() == len(SPECIAL_TOKENS) + len(BYTES) else "bytes"
    if model == "BPE":
        return "bpe"
    if isinstance(inner.pre_tokenizer, pre_tokenizers.Split):
        return "character"
    return "word" if isinstance(inner.decoder, decoders.Sequence) else "space"


def canonical(inner: Inner) -> Inner:
    """Return the same unigram vocabulary in an order that does not depend on the trainer's hash tables.

    Characters without a learned score get the lowest one plus a ten-thousandth more each, in the order of a hash table;
    equal scores have that order, too. Therefore the former get one score, and entries are sorted.
    """
    spec = json.loads(inner.to_str())
    vocabulary = spec["model"]["vocab"]
    learned = vocabulary[len(SPECIAL_TOKENS) :]
    lowest = min((score for _, score in learned), default=0.0)
    spread = lowest + 1e-4 * sum(len(piece) == 1 for piece, _ in learned)
    scores = {piece: round(lowest if len(piece) == 1 and score < spread else score, 6) for piece, score in learned}
    ordered = sorted(scores.items(), key=lambda entry: (-entry[1], entry[0]))
    spec["model"]["vocab"] = vocabulary[: len(SPECIAL_TOKENS)] + [list(entry) for entry in ordered]
    return Inner.from_str(json.dumps(spec))


TOKENIZER = "tokenizer.json"  # its name in the folder of a run
TARGET = "tokenizer.target.json"  # of the output, in a run whose input has its own tokenizer


class TextSpan(NamedTuple):
    """The position of a piece in its text: characters start ≤ i < end, which begin in the word-th word, from 0."""

    start: int
    end: int
    word: int


class Tokenizer:
    """A vocabulary, from `train` or `load`; `encode` returns ids without special tokens."""

    def __init__(self, inner: Inner) -> None:
        inner.encode_special_tokens = True  # "</s>" in a text is five characters, not the end of the sentence
        inner.no_truncation()  # a file of another tool may request both; the callers do these themselves
        inner.no_padding()
        self._inner = inner
        self.kind = kind_of(inner)
        self.specials = special_ids_of(inner)

    @classmethod
    def train(
        cls,
        texts: Iterable[str],
        kind: Kind | Literal["bytes"],
        *,
        size: int = 8000,
        min_frequency: int = 1,
        lowercase: bool = False,
    ) -> "Tokenizer":
        """Learn a vocabulary of at most `size` entries from texts, which are read once and not kept.

        `min_frequency` counts words, characters, or the pairs that BPE merges; unigram and byte do not use it.
        The characters that were seen are always part of a BPE vocabulary, also when they alone are more than `size`.
        """
        inner = build_untrained(kind, lowercase)
        if kind == "byte":
            return cls(inner)  # nothing to learn
        inner.train_from_iterator(texts, trainer(kind, size, min_frequency))
        return cls(canonical(inner) if kind == "unigram" else inner)

    @property
    def size(self) -> int:
        return self._inner.get_vocab_size()

    @property
    def begins(self) -> bool:
        """Return whether its file adds a start token to every text."""
        return self._inner.encode("a").ids[:1] == [self.specials.start]

    def encode(self, text: str) -> list[int]:
        try:
            text.encode()
        except UnicodeEncodeError as problem:
            half = text[problem.start]
            raise CallError(f"character {problem.start} of the text is {half!r}, half of a character") from None
        return self._inner.encode(text, add_special_tokens=False).ids

    def encode_batch(self, texts: list[str]) -> list[list[int]]:
        return [encoding.ids for encoding in self._inner.encode_batch_fast(texts, add_special_tokens=False)]

    def frame_ids(self, first: Sequence[int], second: Sequence[int] | None = None) -> tuple[list[int], list[int]]:
        """Return the encoder input of one text or of a pair, and the segment of each token.

        start first end            0 0 … 0                     [CLS] a text [SEP]
        start first end second end 0 0 … 0 1 … 1               [CLS] a question [SEP] a document [SEP]
        """
        start, end = self.specials.start, self.specials.end
        if start is None or end is None:
            raise CallError("this vocabulary has no tokens that begin and end a text, which an encoder needs")
        tokens = [start, *first, end]
        types = [0] * len(tokens)
        if second is not None:
            tokens += [*second, end]
            types += [1] * (len(second) + 1)
        return tokens, types

    def framed_by(self, start: int | None, end: int | None) -> "Tokenizer":
        """Return a copy with other start and end tokens, which its file then has, too."""
        names = {index: self._inner.id_to_token(index) for index in (start, end) if index is not None}
        before, after = ([names[index]] if index in names else [] for index in (start, end))
        changed = Inner.from_str(self.to_json())
        changed.post_processor = processors.TemplateProcessing(
            single=[*before, "$A", *after], pair=[*before, "$A", *after, "$B:1", *(f"{name}:1" for name in after)],
            special_tokens=[(name, index) for index, name in names.items()],
        )  # fmt: skip
        return Tokenizer(changed)

    def entry(self, index: int) -> str | None:
        """Return an entry of the vocabulary; None for an unused id."""
        return self._inner.id_to_token(index)

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Return the entries of the vocabulary unchanged: '▁Hund', '￭,', '</s>'."""
        return [self._inner.id_to_token(index) or self.specials.names.get(self.specials.unk, "") for index in ids]

    def decode(self, ids: Iterable[int], unknown: Iterable[str] = ()) -> str:
        """Return plain text. Pad, start and end are dropped; the i-th `<unk>` becomes `unknown[i]` if there is one."""
        return "".join(self._surface(list(ids), unknown)).strip(self._trimmed)

    def labels(self, ids: Iterable[int]) -> list[str]:
        """Return labels for a plot: each piece as plain text, special tokens by their names."""
        ids = list(ids)
        plain = [text.strip() or ("␣" if text else "·") for text in self._surface(ids, ())]  # ·: half a character
        return [self.specials.names.get(index, text) for index, text in zip(ids, plain, strict=True)]

    def spans(self, text: str, words: re.Pattern[str] = WORD) -> list[TextSpan]:
        """Return the position in `text` of each piece of `encode(text)`.

        Words are counted as in the alignments of the embedded corpora; `re.compile(r"\\S+")` splits at spaces.
        """
        encoding = self._inner.encode(text, add_special_tokens=False)
        offsets = encoding.offsets
        if self.kind == "word":  # the library adds the glue of a mark to the character before it
            ends = [0, *(end for _, end in offsets)]
            offsets = [(max(start, before), end) for before, (start, end) in zip(ends, offsets, strict=False)]
        elif offsets and encoding.tokens[0] == SPACE:  # the space added before the text is not in it
            offsets[0] = (0, 0)
        return _spans(text, offsets, words)

    def decoded_spans(self, ids: Iterable[int]) -> list[TextSpan]:
        """Return the position in `decode(ids)` of each id; special tokens and half characters are empty spans."""
        surface = self._surface(list(ids), ())
        text = "".join(surface)
        shift = len(text) - len(text.lstrip(self._trimmed))
        text = text.strip(self._trimmed)
        ends = [min(max(0, end - shift), len(text)) for end in accumulate(map(len, surface))]
        return _spans(text, zip([0, *ends], ends, strict=False), WORD)

    def save(self, path: Path | str) -> None:
        atomic.write_text(path, self.to_json())

    @classmethod
    def load(cls, path: Path | str) -> "Tokenizer":
        text = Path(path).read_text(encoding="utf-8", errors="replace")
        try:
            return cls.from_json(text)
        except RegardError:
            raise
        except Exception as error:  # the library raises errors without a type
            raise RegardError(f"{path} is not a tokenizer, or is damaged: {error}") from None

    @classmethod
    def of_run(cls, folder: Path, name: str = TOKENIZER) -> "Tokenizer":
        """Load the tokenizer of a trained model."""
        try:
            return cls.load(folder / name)
        except OSError as error:
            raise RegardError(f"{folder}: the run's tokenizer is missing or damaged ({error})") from None

    def to_json(self) -> str:
        return self._inner.to_str()

    @classmethod
    def from_json(cls, text: str) -> "Tokenizer":
        return cls(Inner.from_str(text))

    @property
    def _trimmed(self) -> str:
        return "" if self.kind in ("character", "byte", "bytes") else " "

    def _surface(self, ids: Sequence[int], unknown: Iterable[str]) -> list[str]:
        """Return the text of each id, with the space before it."""
        replacements, silent = iter(unknown), self.specials.names.keys() - {self.specials.unk}
        pieces = [
            next(replacements, piece) if index == self.specials.unk else "" if index in silent else piece
            for index, piece in zip(ids, self.pieces(ids), strict=True)
        ]
        if self.kind == "character":
            return pieces
        if self.kind in ("byte", "bytes"):
            return _utf8(ids, pieces, self.specials.names)
        if self.kind == "wordpiece":
            return [piece.removeprefix(INNER) if piece.startswith(INNER) else piece and " " + piece for piece in pieces]
        if self.kind in ("bpe", "unigram"):
            return [piece.replace(SPACE, " ") for piece in pieces]
        return list(_glue_pieces(pieces)) if self.kind == "word" else [" " + piece if piece else "" for piece in pieces]


def _glue_pieces(pieces: Iterable[str]) -> Iterator[str]:
    space = ""
    for piece in pieces:
        if not piece:
            yield ""
            continue
        text = piece.removeprefix(GLUE).removesuffix(GLUE)
        yield text if piece.startswith(GLUE) else space + text
        space = "" if piece.endswith(GLUE) else " "


def _utf8(ids: Iterable[int], pieces: Iterable[str], specials: Container[int]) -> list[str]:
    """Join bytes to characters: the last byte of a character returns it, the others return nothing."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    surface = [
        piece if index in specials else decoder.decode(b"".join(BYTES[letter] for letter in piece))
        for index, piece in zip(ids, pieces, strict=True)
    ]
    if surface:
        surface[-1] += decoder.decode(b"", final=True)
    return surface


def _spans(text: str, offsets: Iterable[tuple[int, int]], words: re.Pattern[str]) -> list[TextSpan]:
    first = [match.start() for match in words.finditer(text)]
    spans = []
    for start, end in offsets:
        while start < end and text[start].isspace():  # the space before is not part of a piece
            start += 1
        spans.append(TextSpan(start, end, max(0, bisect_right(first, start) - 1)))
    return spans
