"""How somebody asks where a model looks: the same of a run and of an export of one. No torch."""

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
    """What somebody wants to look at. An output refuses what it does not have."""

    output: Any = None  # the output that is looked at; None: the model's own
    method: str = "raw"  # one of regard.look.methods.METHODS
    gold: Gold | None = None
    layer: int | None = None  # evidence is about this layer and this head
    head: Head = "mean"
    name: str = ""  # of the model
    prefix: str = ""  # what the model's own output begins with
    instead: str | None = None  # another word: what is asked is how far the output is ahead of it
    sample: bool = False  # the model's own output is drawn, as its settings of decoding say, where it can be
    evidence: bool = False  # whether the record gets the evidence of its card, which takes asking the model many times


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
        """Where the model looks when it writes its output for a text, or `output`, if that is given.

        `method`: one of `regard.look.methods.METHODS`. `evidence`: whether the model needs what it looks at
        (comprehensiveness, sufficiency), for which it is asked many times; `layer` and `head` choose the weights that
        this is about. `n_best=3` brings the other hypotheses as `record.beams`. `prefix` is what the output has to
        begin with. `without=["cross.2.3"]`: as if head 3 of layer 2 of the attention over the source were not there.
        `instead="dog"`: why each word was written, and not this one; for methods that ask about the output.
        `sample=True`: the output is drawn (`temperature=0.8, top_k=20, top_p=0.9, seed=1`), not the most probable one.
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
        """`decoding`: what is changed of its settings."""

    def decoding_defaults(self) -> dict[str, Any]:
        """How the run writes its outputs, by the names of its settings; empty where it writes none."""
        return self.recipe.model_dump(mode="json").get("decoding", {})
