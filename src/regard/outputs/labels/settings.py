"""What every classifier has, whatever comes in: examples with labels, and a head above its encoder."""

from typing import Any, Literal

from pydantic import Field, model_validator

from regard.data.label_writing import Writing
from regard.data.pairs import Columns
from regard.data.settings import Column, FilesSettings
from regard.settings.base import Settings


class LabelSettings(FilesSettings):
    """Where examples and their labels come from; shared by texts, pictures and recordings."""

    label: Column | None = Field(
        None, description="column of the label: a name, or a number from 0; by default 'label', or the second column"
    )
    separator: str | None = Field(
        None, min_length=1, description="what separates the labels of one example, such as '|'; null: one label each"
    )
    names: dict[str, str] = Field({}, description="what to call labels that the files write otherwise: {0: negative}")

    def columns_with(self, side: str, column: Column | None) -> Columns:
        """Those of the examples, which are called `side`, and of their labels."""
        return Columns(column, self.label, self.header, (side, "label"), self.writing, folders=True)

    @property
    def writing(self) -> Writing:
        """How labels are written in the files."""
        return Writing(self.separator, tuple(sorted(self.names.items())))

    @model_validator(mode="before")
    @classmethod
    def _labels_are_text(cls, given: Any) -> Any:
        """YAML reads `{0: negative}` as a number; a label is a text."""
        if isinstance(given, dict) and isinstance(given.get("names"), dict):
            return {**given, "names": {str(key): value for key, value in given["names"].items()}}
        return given


class HeadSettings(Settings):
    """What every classifier has above its encoder, and how its errors are weighed."""

    head_dropout: float = Field(0.1, ge=0, lt=1, description="share of the pooled vector dropped in training")
    label_smoothing: float = Field(0.0, ge=0, lt=1, description="probability spread over all classes in the loss")
    class_weights: Literal["none", "balanced"] | dict[str, float] = Field(
        "none", description="weight of each class in the loss; balanced: rare classes weigh more, {label: weight}"
    )
