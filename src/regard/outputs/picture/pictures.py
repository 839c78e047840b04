"""The pictures that are learned from: the files of a captioner, cut into the regions that a drawing is made of."""

from regard.inputs.image.input import ImageInput
from regard.inputs.image.store import PictureStore
from regard.outputs.picture.build import grid_of
from regard.outputs.picture.settings import DrawRecipe


class CaptionedPictures(ImageInput):
    def __init__(self, recipe: DrawRecipe) -> None:
        super().__init__(recipe, lambda recipe: recipe.model.tokenizer)

    @property
    def grid(self) -> tuple[int, int]:
        assert isinstance(self.recipe, DrawRecipe)
        return grid_of(self.recipe)

    @property
    def train(self) -> PictureStore | None:
        """What mean and deviation are taken of; None where the weights bring them."""
        return self._train
