"""Settings of pictures and recordings in files, with their targets."""

import re
from abc import abstractmethod
from collections.abc import Iterator
from typing import ClassVar, Literal

from pydantic import Field

from regard.data.pairs import Columns
from regard.data.settings import FilesSettings, Testing, held_out


class MediaSettings(FilesSettings):
    """Where pictures or recordings and their targets are, how many may be bad, and how many are held out."""

    testing: ClassVar[Testing] = Testing(most=1000)

    files: str | None = Field(None, description="lists: folder or .tar of the files; by default the list's folder")
    split: str | None = Field(None, description="lists: column with train, valid or test, if one list has all splits")
    name_text: str | None = Field(
        None, description="folders and tars: regular expression for the text in a file name: (?P<text>...)"
    )
    valid_names: str | None = Field(None, description="regular expression for names of validation files")
    test_names: str | None = Field(None, description="regular expression for names of test files")
    valid_share: float = held_out(0.05)
    valid_most: int = Field(500, ge=1, description="about how many training items to hold out for validation at most")

    @property
    @abstractmethod
    def columns(self) -> Columns:
        """Columns of lists. `folders`: in folders and tars, the sub-folders name the classes."""

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
