"""Where examples come from, and what happens to bad ones and to those held out: what data sections share."""

from collections.abc import Iterator

from pydantic import Field

from regard.data.settings import Column, FileFormat
from regard.settings.base import Settings


class FileSettings(Settings):
    train: str = Field(description="training data: FILE or corpus:NAME; some sections take a folder, too")
    valid: str | None = Field(None, description="validation data; by default a part of the training data, held out")
    test: str | None = Field(None, description="test data, for `regard evaluate`")
    format: FileFormat = Field("auto", description="format of the files; auto goes by the ending of the name")
    max_bad: float = Field(
        0.01, ge=0, le=1, description="the share of unreadable or incomplete lines that is tolerated (and skipped)"
    )
    valid_share: float = Field(
        0.1, gt=0, lt=1, description="the share of the training data held out for validation if valid is not given"
    )
    valid_most: int = Field(2000, ge=1, description="most training examples, about, to hold out for validation")
    cache: str | None = Field(None, description="folder for prepared data; by default inside the run's folder")


class ColumnSettings(FileSettings):
    """Of lists with two columns: the input, and what is right for it."""

    header: bool | None = Field(
        None, description="whether the first line of TSV and CSV names the columns; by default if columns are named"
    )

    def column_problems(self, **columns: Column | None) -> Iterator[tuple[str, str]]:
        """What is wrong with a pair of columns, by the names of their settings."""
        (one, first), (other, second) = columns.items()
        if isinstance(first, str) != isinstance(second, str) and None not in (first, second):
            yield one, f"is {first!r} and {other} is {second!r}: give both by name or both by number"
        if first is not None and first == second:
            yield other, f"is {second!r}, the same column as {one}"
        if self.header is False and (isinstance(first, str) or isinstance(second, str)):
            yield "header", "is false, but columns are given by name; give their numbers, from 0"
