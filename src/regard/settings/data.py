"""Where pairs of text come from, and how they are cut into tokens."""

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from regard.settings.base import Settings

TokenizerKind = Literal["word", "space", "character", "byte", "bpe", "unigram"]
FileFormat = Literal["auto", "tsv", "csv", "jsonl", "parquet", "text", "dataset"]
Column = Annotated[int, Field(ge=0)] | str


class TokenizerSettings(Settings):
    """How text is cut into tokens; the vocabulary is learned from the training data."""

    kind: TokenizerKind = Field(
        "bpe",
        description="word (punctuation split off), space (what spaces separate), character, byte, bpe or unigram",
    )
    size: int = Field(8000, ge=8, description="most entries in a vocabulary, the four special tokens included")
    min_frequency: int = Field(1, ge=1, description="how often a word, character or merged pair must occur to be kept")
    lowercase: bool = Field(False, description="read all text in lower case")
    joint: bool = Field(False, description="one vocabulary for source and target")
    target_kind: TokenizerKind | None = Field(None, description="another kind for the target; by default the same")
    target_size: int | None = Field(None, ge=8, description="another size for the target; by default the same")
    learn_from: int = Field(
        1_000_000, ge=1, description="most pairs to learn a vocabulary from, taken evenly from all of them"
    )

    def problems(self) -> Iterator[tuple[str, str]]:
        if self.joint and self.target_kind not in (None, self.kind):
            yield "target_kind", f"is {self.target_kind}, but joint=true makes one vocabulary, of kind {self.kind}"
        if self.joint and self.target_size not in (None, self.size):
            yield "target_size", f"is {self.target_size}, but joint=true makes one vocabulary, of size {self.size}"


class PairDataSettings(Settings):
    """Pairs of a source and a target text.

    Each of train, valid and test is FILE (.tsv, .csv, .jsonl, .parquet; also .gz or .zst), FILE,FILE (two parallel text
    files), corpus:NAME (comes with regard), hub:NAME[:CONFIG] or a folder (through the `datasets` library).
    """

    train: str = Field(description="training pairs: FILE, FILE,FILE, corpus:NAME, hub:NAME or a folder")
    valid: str | None = Field(None, description="validation pairs; by default a part of the training pairs, held out")
    test: str | None = Field(None, description="test pairs, for `regard evaluate`")
    alignments: str | None = Field(
        None, description="gold word alignments of the test pairs, in Pharaoh or NAACL format, for alignment error"
    )
    format: FileFormat = Field("auto", description="format of the files; auto goes by the ending of the name")
    source: Column | None = Field(
        None, description="column of the source: a name, or a number from 0; by default 'source', or the first column"
    )
    target: Column | None = Field(
        None, description="column of the target: a name, or a number from 0; by default 'target', or the second column"
    )
    header: bool | None = Field(
        None, description="whether the first line of TSV and CSV names the columns; by default if columns are named"
    )
    tokenizer: TokenizerSettings = Field(
        TokenizerSettings.model_validate({}), description="how text is cut into tokens"
    )
    max_length: int = Field(256, ge=2, description="most tokens a side, the end token included")
    overlong: Literal["skip", "cut"] = Field("skip", description="what happens to pairs with a longer side")
    max_bad: float = Field(
        0.01, ge=0, le=1, description="the share of unreadable or incomplete lines that is tolerated (and skipped)"
    )
    valid_share: float = Field(
        0.02, gt=0, lt=1, description="the share of training sources held out for validation if valid is not given"
    )
    valid_most: int = Field(2000, ge=1, description="most training pairs, about, to hold out for validation")
    cache: str | None = Field(None, description="folder for prepared data; by default inside the run's folder")

    def problems(self) -> Iterator[tuple[str, str]]:
        if isinstance(self.source, str) != isinstance(self.target, str) and None not in (self.source, self.target):
            yield "source", f"is {self.source!r} and target is {self.target!r}: give both by name or both by number"
        if self.source is not None and self.source == self.target:
            yield "target", f"is {self.target!r}, the same column as source"
        if self.header is False and (isinstance(self.source, str) or isinstance(self.target, str)):
            yield "header", "is false, but columns are given by name; give their numbers, from 0"
