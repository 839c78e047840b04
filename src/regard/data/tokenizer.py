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
import re
from bisect import bisect_right
from collections.abc import Container, Iterable, Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Literal, NamedTuple

from tokenizers import Tokenizer as Inner
from tokenizers import processors

from regard.corpora.pair import WORD
from regard.data.special_ids import special_ids_of
from regard.data.tokenizer_kinds import BYTES, GLUE, INNER, SPACE, Kind, canonical, kind_of, trainer, untrained
from regard.errors import CallError, RegardError
from regard.files import atomic

TOKENIZER = "tokenizer.json"  # its name in the folder of a run
TARGET = "tokenizer.target.json"  # of the output, in a run whose input has its own tokenizer


class Span(NamedTuple):
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
        inner = untrained(kind, lowercase)
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

    def framed(self, first: Sequence[int], second: Sequence[int] | None = None) -> tuple[list[int], list[int]]:
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

    def spans(self, text: str, words: re.Pattern[str] = WORD) -> list[Span]:
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

    def decoded_spans(self, ids: Iterable[int]) -> list[Span]:
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
        return list(_glued(pieces)) if self.kind == "word" else [" " + piece if piece else "" for piece in pieces]


def _glued(pieces: Iterable[str]) -> Iterator[str]:
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


def _spans(text: str, offsets: Iterable[tuple[int, int]], words: re.Pattern[str]) -> list[Span]:
    first = [match.start() for match in words.finditer(text)]
    spans = []
    for start, end in offsets:
        while start < end and text[start].isspace():  # the space before is not part of a piece
            start += 1
        spans.append(Span(start, end, max(0, bisect_right(first, start) - 1)))
    return spans
