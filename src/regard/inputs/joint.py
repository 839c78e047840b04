"""Two inputs at once: a picture and a question, or the two that the row of `jobs.py` names.

    a list of three columns → first: encoder → vectors ┐
                              second: encoder → vectors ┴→ blocks over both → one Memory

Each of the two is an independent `Input` and only has to implement `Input.column`. In a run they share one folder. Two
inputs that keep a file of the same name there (two texts) cannot be combined.
"""

from collections.abc import Collection, Sequence
from typing import Any

from torch import nn

from regard.encoders.joint import Joint, JointEncoder
from regard.inputs.joint_data import JointData
from regard.inputs.joint_reader import JointItem
from regard.parts import final_norm, transformer_blocks
from regard.settings.model import TransformerSettings


class JointInput(JointData):
    # --------------------------------------------------------------------------------------------------- single inputs
    def collate(self, items: Sequence[JointItem]) -> Joint:
        return Joint(
            self.first.collate([item.first for item in items]), self.second.collate([item.second for item in items])
        )

    def is_overlong(self, one: Any) -> bool:
        first, second = self._two(one)
        return self.first.is_overlong(first) or self.second.is_overlong(second)

    @property
    def limit(self) -> str:
        return self.first.limit or self.second.limit

    # ------------------------------------------------------------------------------------------------------- the model
    def encoder(self, decoder: Any = None) -> JointEncoder:
        first, second = self.first.encoder(decoder), self.second.encoder(decoder)
        if not isinstance(decoder, TransformerSettings):
            return JointEncoder(first, second)
        blocks = transformer_blocks(decoder, decoder.joint_layers, decoder=False)  # pyright: ignore[reportAttributeAccessIssue]
        return JointEncoder(first, second, blocks, final_norm=final_norm(decoder))

    # ---------------------------------------------------------------------------------------------------- explanations
    def afresh(self, item: JointItem) -> JointItem:
        return JointItem(self.first.afresh(item.first), self.second.afresh(item.second))

    def parts(self, item: JointItem) -> list[int]:
        after = len(self.first.axis(item.first))
        return [*self.first.parts(item.first), *(after + place for place in self.second.parts(item.second))]

    def without(self, item: JointItem, parts: Collection[int]) -> JointItem:
        count = len(self.first.parts(item.first))
        first, second = {part for part in parts if part < count}, {part - count for part in parts if part >= count}
        return JointItem(
            self.first.without(item.first, first) if first else item.first,
            self.second.without(item.second, second) if second else item.second,
        )

    def vectors(self, encoder: nn.Module) -> nn.Module:
        """Return the parts of both inputs on the joint axis."""
        assert isinstance(encoder, JointEncoder)
        return encoder.vectors
