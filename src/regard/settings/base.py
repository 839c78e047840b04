"""The base of all settings: frozen, typed, and unforgiving about unknown keys."""

from collections.abc import Iterator

from pydantic import BaseModel, ConfigDict


class Settings(BaseModel):
    """One section of a recipe. Every field has a type, a default where one makes sense, and a description.

    What one field alone cannot tell (heads must divide width) is said by `problems`, in sentences; `config.read` runs
    it on every section and reports all mistakes together.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    def problems(self) -> Iterator[tuple[str, str]]:
        """(field, what is wrong with it) for impossible combinations. The field is relative to this section."""
        yield from ()
