"""Settings of plain text: source and tokenizer."""

from collections.abc import Iterator
from typing import ClassVar, Literal

from pydantic import Field

from regard.data.settings import Testing
from regard.settings.base import Settings


class TextTokenizerSettings(Settings):
    """Tokenizer settings. All kinds restore every character, including line ends and spaces."""

    kind: Literal["character", "byte", "bpe"] = Field(
        "bpe", description="character, byte, or bpe: pairs of bytes merged as in GPT-2, which can encode every text"
    )
    size: int = Field(8000, ge=8, description="maximum entries of the vocabulary, including the four special tokens")
    min_frequency: int = Field(1, ge=1, description="how often a character or merged pair must occur to be kept")
    learn_from: int = Field(50_000_000, ge=1, description="about how many bytes to learn it from, sampled evenly")

    def problems(self) -> Iterator[tuple[str, str]]:
        if self.kind == "bpe" and self.size < 260:
            yield "size", "is too small for bpe: the 256 bytes and four special tokens are always there"


class TextDataSettings(Settings):
    """Plain text. Each of train, valid and test is FILE, a glob such as 'a/*.txt', a folder, or several with commas.
    corpus:NAME means the sentences of a corpus that comes with regard.

    UTF-8; also .gz, .bz2, .xz and .zst. Tokens are kept in memory-mapped files that are made once, so data may be of
    any size.
    """

    testing: ClassVar[Testing] = Testing(2000, 10_000, 500_000)  # bytes

    train: str = Field(
        description="training text: FILE, 'GLOB', a folder, several with commas, or corpus:NAME; in .json and .jsonl, "
        "each object is a document or a chat"
    )
    valid: str | None = Field(None, description="validation text; by default the last part of the training text")
    test: str | None = Field(None, description="test text, for `regard evaluate`; by default the validation text")
    documents: Literal["file", "line", "paragraph"] = Field(
        "file", description="text between begin and end tokens: a file, a line, or a paragraph (between blank lines)"
    )
    tokenizer: TextTokenizerSettings = Field(
        TextTokenizerSettings.model_validate({}), description="how text is cut into tokens"
    )
    max_bad: float = Field(0.01, ge=0, le=1, description="the share of lines that are not UTF-8 that is tolerated")
    valid_share: float = Field(0.1, gt=0, lt=1, description="the last part of the text, if valid is not given")
    valid_most: int = Field(4_000_000, ge=1, description="maximum bytes to hold out for validation")
    test_share: float = Field(
        0.0, ge=0, lt=0.5, description="the very last part of the text, held out for testing if test is not given"
    )
    cache: str | None = Field(None, description="folder for prepared data; by default inside the run's folder")
