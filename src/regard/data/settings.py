"""Settings shared by inputs and outputs: tokenization, and how tables are read."""

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

from pydantic import BeforeValidator, Field

from regard.settings.base import Settings

TESTED, MOST_TESTED = 0.1, 0.15  # the share that is held out for testing, and the largest
TokenizerKind = Literal["word", "space", "character", "byte", "bpe", "unigram"]
FileFormat = Literal["auto", "tsv", "csv", "jsonl", "parquet", "xlsx", "tmx", "conll", "text", "dataset"]


def _as_number(value: Any) -> Any:
    """Convert numbers, which are texts on a command line: data.text=2 is a number."""
    return int(value) if isinstance(value, str) and value.removeprefix("-").isdecimal() else value


Column = Annotated[Annotated[int, Field(ge=0)] | str, BeforeValidator(_as_number)]
ColumnOfWords = Annotated[int | str, BeforeValidator(_as_number)]  # below 0: from the end


def column(what: str, place: str, name: str = "") -> Any:
    """Return the field of a column: its content, its position, and its name, if it differs from the content."""
    default = f"by default {name or what!r}, or the {place}"
    return Field(None, description=f"column of the {what}: a name, or a number from 0; {default}")


def held_out(share: float, what: str = "the training data") -> Any:
    """Return the field of the share of training data that is held out."""
    said = f"the share of {what} held out for validation if valid is not given"
    return Field(share, gt=0, lt=1, description=said)


def share_for_test(what: str) -> Any:
    """Return the field of the share of training data that is held out for testing."""
    said = f"the share of {what} held out for testing if test is not given; 0 holds nothing out"
    return Field(0.0, ge=0, lt=1, description=said)


class Testing(NamedTuple):
    """How much of a user's data is held out for testing: at least `fewest` examples, preferably `least`, at most
    `most`."""

    fewest: int = 10
    least: int = 60
    most: int = 2000

    def share(self, count: int) -> float:
        """Return the share for this number of examples; 0 if they are too few to divide."""
        share = min(MOST_TESTED, max(TESTED, self.least / max(1, count)), self.most / max(1, count))
        return round(share, 6) if count * share >= self.fewest else 0.0


class FilesSettings(Settings):
    """Settings of the files for training, validation and testing: the tolerated share of bad lines, and the held-out
    share."""

    testing: ClassVar[Testing] = Testing()

    train: str = Field(description="training data: FILE, a folder or corpus:NAME")
    valid: str | None = Field(None, description="validation data; by default a part of the training data, held out")
    test: str | None = Field(None, description="test data, for `regard evaluate`")
    test_share: float = share_for_test("the training data")
    format: FileFormat = Field("auto", description="format of the files; auto uses the ending of the name")
    max_bad: float = Field(0.01, ge=0, le=1, description="tolerated share of bad examples, which are skipped")
    valid_share: float = held_out(0.1)
    valid_most: int = Field(
        2000, ge=1, description="maximum number of training examples to hold out for validation, approximately"
    )
    header: bool | None = Field(None, description="whether the first line names the columns; detected by default")
    cache: str | None = Field(None, description="folder for prepared data; by default inside the run's folder")

    @property
    def brings(self) -> tuple[Literal["valid", "test"], ...]:
        """Return the roles whose examples are in the training data, too, and are marked there."""
        return ()

    def problems_of_columns(self, **given: Column | None) -> Iterator[tuple[str, str]]:
        """Yield problems of the columns of a table, by their names in settings."""
        seen: dict[Column, str] = {}
        for side, column in given.items():
            if column is not None and column in seen:
                yield side, f"is {column!r}, the same column as {seen[column]}"
            elif column is not None:
                seen[column] = side
        if self.header is False and any(isinstance(column, str) for column in seen):
            yield "header", "is false, but columns are given by name; give their numbers, from 0"


class TokenizerSettings(Settings):
    """Settings of the tokenizer; the vocabulary is learned from the training data."""

    kind: TokenizerKind = Field(
        "bpe",
        description="word (punctuation split off), space (split at spaces), character, byte, bpe or unigram",
    )
    size: int = Field(8000, ge=8, description="maximum size of a vocabulary, with the four special tokens")
    min_frequency: int = Field(1, ge=1, description="minimum frequency of a word, character or merged pair")
    lowercase: bool = Field(False, description="convert all text to lower case")
    joint: bool = Field(False, description="one vocabulary for source and target")
    target_kind: TokenizerKind | None = Field(None, description="kind for the target; by default the same")
    target_size: int | None = Field(None, ge=8, description="size for the target; by default the same")
    learn_from: int = Field(
        1_000_000, ge=1, description="maximum number of pairs to learn a vocabulary from, evenly sampled"
    )

    def problems_of_one_text(self) -> Iterator[tuple[str, str]]:
        if self.joint or self.target_kind or self.target_size:
            yield "tokenizer", "has one text only: joint, target_kind and target_size have no meaning here"

    def problems(self) -> Iterator[tuple[str, str]]:
        if self.joint and self.target_kind not in (None, self.kind):
            yield "target_kind", f"is {self.target_kind}, but joint=true makes one vocabulary, of kind {self.kind}"
        if self.joint and self.target_size not in (None, self.size):
            yield "target_size", f"is {self.target_size}, but joint=true makes one vocabulary, of size {self.size}"


def _of_words(value: Any) -> Any:
    return {"kind": "word", "size": 20_000, **value} if isinstance(value, dict) else value


#: The same where there is one text only, and words are what one wants if nothing else is said.
OneTextTokenizer = Annotated[TokenizerSettings, BeforeValidator(_of_words)]
WORDS = TokenizerSettings.model_validate(_of_words({}))
