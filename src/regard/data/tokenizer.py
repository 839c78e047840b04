"""Text to numbers and back: words, characters, bytes, BPE (1508.07909) and unigram pieces (1804.10959).

The work is done by the `tokenizers` library; the file it saves is an ordinary tokenizer.json that other tools read.
What is ours:

- the four special tokens have the same ids in every vocabulary, and text can never be read as one of them: a sentence
  that contains the letters `</s>` does not end there;
- words come back as they were written. A punctuation mark of kind `word` carries its glue: `"Hola", dijo.` is kept as
  `"￭ Hola ￭" ￭, dijo ￭.`, so joining is exact for ¿ ¡ « » and both kinds of quotes, and words keep one form each
  wherever they stand;
- every piece knows its place in the text (`Span`), which pictures and alignments need;
- a tokenizer.json of another tool is read as it is, with special tokens of its own (`specials` tells their ids);
- training gives the same vocabulary every time (the library's unigram trainer depends on the order of a hash table).

White space is read as single spaces by all kinds but `character`, `byte` and `bytes`, which give back every character.
Text is normalized to NFC.
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
TARGET = "tokenizer.target.json"  # of what is written, in a run whose input has a tokenizer of its own


class Span(NamedTuple):
    """Where a piece stands in its text: characters start ≤ i < end, which begin in the word-th word, from 0."""

    start: int
    end: int
    word: int


class Tokenizer:
    """One vocabulary. Made by `train` or `load`; `encode` gives ids without special tokens."""

    def __init__(self, inner: Inner) -> None:
        inner.encode_special_tokens = True  # "</s>" in a text is five characters, not the end of the sentence
        inner.no_truncation()  # a file of another tool may ask for both; our callers do these themselves
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
        """Whether its file puts the token that begins a text before every text."""
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
        """What an encoder of one text or of a pair reads, and the segment that each token belongs to.

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
        """The same with other tokens that begin and end a text, which its file then says, too."""
        names = {index: self._inner.id_to_token(index) for index in (start, end) if index is not None}
        before, after = ([names[index]] if index in names else [] for index in (start, end))
        changed = Inner.from_str(self.to_json())
        changed.post_processor = processors.TemplateProcessing(
            single=[*before, "$A", *after], pair=[*before, "$A", *after, "$B:1", *(f"{name}:1" for name in after)],
            special_tokens=[(name, index) for index, name in names.items()],
        )  # fmt: skip
        return Tokenizer(changed)

    def entry(self, index: int) -> str | None:
        """An entry of the vocabulary; None: this id stands for nothing."""
        return self._inner.id_to_token(index)

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """The entries of the vocabulary, as they are: '▁Hund', '￭,', '</s>'."""
        return [self._inner.id_to_token(index) or self.specials.names.get(self.specials.unk, "") for index in ids]

    def decode(self, ids: Iterable[int], unknown: Iterable[str] = ()) -> str:
        """Plain text. Pad, start and end leave no trace; the i-th `<unk>` becomes `unknown[i]` if there is one."""
        return "".join(self._surface(list(ids), unknown)).strip(self._trimmed)

    def labels(self, ids: Iterable[int]) -> list[str]:
        """What to write beside a picture: each piece as the reader knows it, special tokens by their names."""
        ids = list(ids)
        plain = [text.strip() or ("␣" if text else "·") for text in self._surface(ids, ())]  # ·: half a character
        return [self.specials.names.get(index, text) for index, text in zip(ids, plain, strict=True)]

    def spans(self, text: str, words: re.Pattern[str] = WORD) -> list[Span]:
        """The place in `text` of each piece of `encode(text)`.

        Words are counted as in the alignments of our corpora; `re.compile(r"\\S+")` counts what spaces separate.
        """
        encoding = self._inner.encode(text, add_special_tokens=False)
        offsets = encoding.offsets
        if self.kind == "word":  # the library counts the glue of a mark to the character before it
            ends = [0, *(end for _, end in offsets)]
            offsets = [(max(start, before), end) for before, (start, end) in zip(ends, offsets, strict=False)]
        elif offsets and encoding.tokens[0] == SPACE:  # the space put before the text is not in it
            offsets[0] = (0, 0)
        return _spans(text, offsets, words)

    def decoded_spans(self, ids: Iterable[int]) -> list[Span]:
        """The place in `decode(ids)` of each id; special tokens and half characters are empty spans."""
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
        except Exception as error:  # the library behind it has no error of its own
            raise RegardError(f"{path} is no tokenizer, or damaged: {error}") from None

    @classmethod
    def of_run(cls, folder: Path, name: str = TOKENIZER) -> "Tokenizer":
        """That of a trained model."""
        try:
            return cls.load(folder / name)
        except OSError as error:
            raise RegardError(f"{folder}: the run has lost its tokenizer ({error})") from None

    def to_json(self) -> str:
        return self._inner.to_str()

    @classmethod
    def from_json(cls, text: str) -> "Tokenizer":
        return cls(Inner.from_str(text))

    @property
    def _trimmed(self) -> str:
        return "" if self.kind in ("character", "byte", "bytes") else " "

    def _surface(self, ids: Sequence[int], unknown: Iterable[str]) -> list[str]:
        """What each id adds to the text, the space before it included."""
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
    """Bytes joined to characters: the last byte of a character brings it, those before bring nothing."""
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
        while start < end and text[start].isspace():  # the space before belongs to no piece
            start += 1
        spans.append(Span(start, end, max(0, bisect_right(first, start) - 1)))
    return spans
