"""Two inputs at once for graphs, with arrays named after their side."""

from collections.abc import Sequence
from typing import Any

from regard.inputs.joint_reader import JointItem, JointReader
from regard.light.description import Description
from regard.light.inputs import LightInput
from regard.light.session import Arrays

WHOLE = "source"  # graph name of an input of one array


class LightJoint(JointReader, LightInput):
    def __init__(self, about: Description, first: LightInput, second: LightInput) -> None:
        super().__init__(about)
        self.first, self.second = first, second

    def with_recipe(self, recipe: Any) -> Any:
        changed = super().with_recipe(recipe)
        changed.first, changed.second = self.first.with_recipe(recipe), self.second.with_recipe(recipe)
        return changed

    def collate(self, items: Sequence[JointItem]) -> Arrays:
        """Return arrays; a single array has the name of its side, several keep their names
        (`exporters/onnx/tensors.py`).
        """
        sides = zip(JointItem._fields, (self.first, self.second), zip(*items, strict=True), strict=True)
        return {
            side if name == WHOLE else name: array
            for side, input, some in sides
            for name, array in input.collate(some).items()
        }
