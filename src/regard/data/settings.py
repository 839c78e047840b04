"""Settings that several inputs and outputs share: how text is cut into tokens, and how tables are read."""

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

from pydantic import BeforeValidator, Field

from regard.settings.base import Settings

TESTED, MOST_TESTED = 0.1, 0.15  # the share that is held out for testing, and the largest
TokenizerKind = Literal["word", "space", "character", "byte", "bpe", "unigram"]
FileFormat = Literal["auto", "tsv", "csv", "jsonl", "parquet", "xlsx", "tmx", "conll", "text", "dataset"]


def _counted(given: Any) -> Any:
    """On a command line, all are texts: data.text=2 is a number."""
    return int(given) if isinstance(given, str) and given.removeprefix("-").isdecimal() else given


Column = Annotated[Annotated[int, Field(ge=0)] | str, BeforeValidator(_counted)]
ColumnOfWords = Annotated[int | str, BeforeValidator(_counted)]  # below 0, from the end


def column(what: str, place: str, name: str = "") -> Any:
    """The field of a column: what stands in it, its place, and what it is called, if that is something else."""
    default = f"by default {name or what!r}, or the {place}"
    return Field(None, description=f"column of the {what}: a name, or a number from 0; {default}")


def held_out(share: float, what: str = "the training data") -> Any:
    """The field of the share of training data that is held out."""
    said = f"the share of {what} held out for validation if valid is not given"
    return Field(share, gt=0, lt=1, description=said)


def share_for_test(what: str) -> Any:
    """The field of the share of training data that is held out for testing."""
    said = f"the share of {what} held out for testing if test is not given; 0 holds nothing out"
    return Field(0.0, ge=0, lt=1, description=said)


class Testing(NamedTuple):
    """How much of a user's data is held out for testing: not fewer than `fewest`, at best `least`, at most `most`."""

    fewest: int = 10
    least: int = 60
    most: int = 2000

    def share(self, count: int) -> float:
        """The share of so many examples; 0 if they are too few to be divided."""
        share = min(MOST_TESTED, max(TESTED, self.least / max(1, count)), self.most / max(1, count))
        return round(share, 6) if count * share >= self.fewest else 0.0


class FilesSettings(Settings):
    """Where the examples of training, validation and testing are; how many may be bad, and how many are held out."""

    testing: ClassVar[Testing] = Testing()

    train: str = Field(description="training data: FILE, a folder or corpus:NAME")
    valid: str | None = Field(None, description="validation data; by default a part of the training data, held out")
    test: str | None = Field(None, description="test data, for `regard evaluate`")
    test_share: float = share_for_test("the training data")
    format: FileFormat = Field("auto", description="format of the files; auto goes by the ending of the name")
    max_bad: float = Field(0.01, ge=0, le=1, description="the share of bad ones that is tolerated (and skipped)")
    valid_share: float = held_out(0.1)
    valid_most: int = Field(2000, ge=1, description="most of the training data, about, to hold out for validation")
    header: bool | None = Field(None, description="whether a first line names the columns; by default found out")
    cache: str | None = Field(None, description="folder for prepared data; by default inside the run's folder")

    @property
    def brings(self) -> tuple[Literal["valid", "test"], ...]:
        """The roles whose examples the training data has as well, and tells apart."""
        return ()

    def problems_of_columns(self, **given: Column | None) -> Iterator[tuple[str, str]]:
        """Of the columns of a table, by what the settings call them."""
        seen: dict[Column, str] = {}
        for side, column in given.items():
            if column is not None and column in seen:
                yield side, f"is {column!r}, the same column as {seen[column]}"
            elif column is not None:
                seen[column] = side
        if self.header is False and any(isinstance(column, str) for column in seen):
            yield "header", "is false, but columns are given by name; give their numbers, from 0"


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
    learn_from: int = Field(1_000_000, ge=1, description="most pairs to learn a vocabulary from, evenly chosen")

    def problems_of_one_text(self) -> Iterator[tuple[str, str]]:
        if self.joint or self.target_kind or self.target_size:
            yield "tokenizer", "has one text only: joint, target_kind and target_size have no meaning here"

    def problems(self) -> Iterator[tuple[str, str]]:
        if self.joint and self.target_kind not in (None, self.kind):
            yield "target_kind", f"is {self.target_kind}, but joint=true makes one vocabulary, of kind {self.kind}"
        if self.joint and self.target_size not in (None, self.size):
            yield "target_size", f"is {self.target_size}, but joint=true makes one vocabulary, of size {self.size}"


def _of_words(given: Any) -> Any:
    return {"kind": "word", "size": 20_000, **given} if isinstance(given, dict) else given


#: The same where there is one text only, and words are what one wants if nothing else is said.
OneTextTokenizer = Annotated[TokenizerSettings, BeforeValidator(_of_words)]
WORDS = TokenizerSettings.model_validate(_of_words({}))
