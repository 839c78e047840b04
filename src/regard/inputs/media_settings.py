"""Settings of pictures and recordings in files, with what is said of each."""

import re
from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from regard.data.pairs import Columns
from regard.data.settings import FilesSettings


class MediaSettings(FilesSettings):
    """Where pictures or recordings are, and what is said of each; how many may be bad, and how many are held out."""

    files: str | None = Field(
        None, description="lists: folder or .tar that the names are in; by default the folder of the list"
    )
    split: str | None = Field(
        None, description="lists: column that says train, valid or test, where one file has all of them"
    )
    name_text: str | None = Field(
        None, description="folders and tars: a regular expression that finds the text in a file's name: (?P<text>...)"
    )
    valid_names: str | None = Field(
        None, description="a regular expression: files whose name it finds are for validation, not for training"
    )
    test_names: str | None = Field(
        None, description="a regular expression: files whose name it finds are for testing, not for training"
    )
    valid_share: float = Field(
        0.05, gt=0, lt=1, description="the share of the training data held out for validation if valid is not given"
    )
    valid_most: int = Field(500, ge=1, description="most of the training data, about, to hold out for validation")

    @property
    def columns(self) -> Columns:
        """Those of lists. `folders`: in folders and tars, the sub-folders name the classes."""
        raise NotImplementedError

    @property
    def brings(self) -> tuple[Literal["valid", "test"], ...]:
        names: dict[Literal["valid", "test"], str | None] = {"valid": self.valid_names, "test": self.test_names}
        return tuple(role for role, pattern in names.items() if self.split or pattern)

    def problems(self) -> Iterator[tuple[str, str]]:
        patterns = {"name_text": self.name_text, "valid_names": self.valid_names, "test_names": self.test_names}
        for name, pattern in patterns.items():
            try:
                groups = re.compile(pattern or "").groupindex
            except re.error as problem:
                yield name, f"is no regular expression: {problem}"
            else:
                if name == "name_text" and pattern is not None and "text" not in groups:
                    yield name, "must have a group (?P<text>...): that is the text"
