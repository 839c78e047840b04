"""Outputs of graphs: `regard.outputs.base.Output` without training, scores and explanation methods."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from copy import copy
from typing import Any, ClassVar

from regard.errors import CallError
from regard.light.description import Description
from regard.look.records import AttentionRecord
from regard.outputs.result import Candidate, Prediction
from regard.settings.recipe import Recipe


class LightOutput(ABC):
    takes_prefix: ClassVar[bool] = False
    gives_attention: ClassVar[bool] = False
    writes_text: ClassVar[bool] = False
    takes_prompt: ClassVar[bool] = False
    takes_instead: ClassVar[bool] = False
    gives_vectors: ClassVar[bool] = False
    draws: ClassVar[bool] = False
    draws_alone: ClassVar[bool] = False
    gives: ClassVar[str] = "text"

    def __init__(self, about: Description, input: Any) -> None:
        self.recipe: Any = about.recipe
        self.input, self.roles, self.says = input, about.attentions, about.says

    @property
    def takes_gold(self) -> bool:
        """Whether gold links can join its words to those of the input."""
        return False

    def with_recipe(self, recipe: Recipe) -> Any:
        """Return a copy under a changed recipe."""
        changed = copy(self)
        changed.recipe, changed.input = recipe, self.input.with_recipe(recipe)
        return changed

    def given(self, words: Sequence[str]) -> list[str]:
        """Parse given outputs."""
        return list(words)

    @abstractmethod
    def predict(self, inputs: Sequence[Any], *, prefix: str = "", attention: bool = False) -> list[Prediction]: ...

    def stream(self, one: Any, tell: Callable[[str, str], None], *, prefix: str = "") -> Prediction:
        raise CallError("this model writes nothing that could be streamed")

    @abstractmethod
    def given_candidates(self, inputs: Sequence[Any], outputs: Sequence[str]) -> list[Candidate]:
        """Return the log-probability of each given output."""

    @abstractmethod
    def look(self, one: Any, output: str | None, prefix: str) -> list[AttentionRecord]:
        """Return the records of the best output, or the given one, and of the other hypotheses."""
