"""Options of `look`, the same for a run and for an exported run. Needs no torch."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from regard.look.records import AttentionRecord, Head
from regard.metrics.alignment import Gold
from regard.outputs.refusals import drawn, refuse_both
from regard.settings.recipe import Recipe

Overrides = Iterable[str] | Mapping[str, Any]


@dataclass(frozen=True)
class LookOptions:
    """The options of one look. An output raises an error for options that it does not support."""

    output: Any = None  # the output to explain; None: the predicted one
    method: str = "raw"  # one of regard.look.methods.METHODS
    gold: Gold | None = None
    layer: int | None = None  # layer and head that evidence is computed for
    head: Head = "mean"
    name: str = ""  # of the model
    prefix: str = ""  # forced prefix of the predicted output
    instead: str | None = None  # contrast word: explain the lead of the output over it
    sample: bool = False  # sample the predicted output, by the decoding settings, where supported
    evidence: bool = False  # whether to compute the evidence of the record's card, which runs the model many times


class Looks(ABC):
    folder: Any
    recipe: Recipe

    def look(
        self,
        text: Any,
        overrides: Overrides = (),
        *,
        output: Any = None,
        method: str = "raw",
        gold: Gold | None = None,
        layer: int | None = None,
        head: Head = "mean",
        prefix: str = "",
        without: Sequence[str] = (),
        evidence: bool = False,
        instead: str | None = None,
        sample: bool | None = None,
        **decoding: Any,
    ) -> AttentionRecord:
        """Return the attention record of the predicted output for a text, or of `output` if given.

        `method`: one of `regard.look.methods.METHODS`. `evidence`: also measure whether the model needs the inputs it
        attends to (comprehensiveness, sufficiency), with many model runs; `layer` and `head` select the weights.
        `n_best=3` adds the other hypotheses as `record.beams`. `prefix` is a forced prefix of the output.
        `without=["cross.2.3"]` masks head 3 of layer 2 of the attention over the source.
        `instead="dog"` explains each word in contrast to this one, for methods that score the output.
        `sample=True` samples the output (`temperature=0.8, top_k=20, top_p=0.9, seed=1`).
        """
        refuse_both(prefix, output)
        drawing = drawn(self.recipe.job, self.decoding_defaults(), sample)
        options = LookOptions(
            output, method, gold, layer, head, self.folder.name, prefix, instead, bool(sample), evidence
        )
        return self._looked(text, overrides, options, without, {**decoding, **drawing})

    @abstractmethod
    def _looked(
        self, text: Any, overrides: Overrides, options: LookOptions, without: Sequence[str], decoding: Mapping[str, Any]
    ) -> AttentionRecord:
        """Return the record; `decoding` holds changed decoding settings."""

    def decoding_defaults(self) -> dict[str, Any]:
        """Return the decoding settings of the run by name; empty if it generates no text."""
        return self.recipe.model_dump(mode="json").get("decoding", {})
