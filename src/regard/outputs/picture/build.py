"""The model of a drawing recipe, and its training pictures."""

from regard.attention.grid_positions import LearnedTextAndGrid
from regard.inputs.image.build import colors
from regard.inputs.image.input import ImageInput
from regard.inputs.image.store import PictureStore
from regard.models.drawer import Drawer
from regard.models.language_model import LanguageModel
from regard.models.picture_tokens import PictureTokenizer
from regard.outputs.picture.settings import DrawRecipe


def grid_of(recipe: DrawRecipe) -> tuple[int, int]:
    """Return the rows × columns of regions of a picture."""
    stages = len(recipe.model.tokenizer.stages)
    return recipe.data.height >> stages, recipe.data.width >> stages


def build_drawer(recipe: DrawRecipe, words: int, train: PictureStore | None = None) -> Drawer:
    """Build the model. `train`: the pictures for mean and deviation; None if the weights include them."""
    s, data = recipe.model, recipe.data
    t, grid = s.tokenizer, grid_of(recipe)
    tokenizer = PictureTokenizer(
        (data.height, data.width), t.stages, t.codes,
        width=t.width, depth=t.depth, channels=data.channels, colors=colors(t, data, train), commitment=t.commitment,
    )  # fmt: skip
    text = data.max_length + 1  # plus <s>
    writer = LanguageModel(
        words + t.codes, s.width, s.heads, s.layers,
        feed_forward=s.feed_forward, positions=LearnedTextAndGrid(s.width, text, grid),
        dropout=s.dropout, attention_dropout=0.0, label_smoothing=s.label_smoothing,
    )  # fmt: skip
    return Drawer(
        tokenizer, writer,
        words=words, text_length=data.max_length, text_weight=s.text_weight, tokenizer_rate=t.rate,
    )  # fmt: skip


class CaptionedPictures(ImageInput):
    """Training pictures: the files of a captioning dataset, cut into the regions of a drawing."""

    def __init__(self, recipe: DrawRecipe) -> None:
        super().__init__(recipe, lambda recipe: recipe.model.tokenizer)

    @property
    def grid(self) -> tuple[int, int]:
        assert isinstance(self.recipe, DrawRecipe)
        return grid_of(self.recipe)

    @property
    def multiple(self) -> int:
        assert isinstance(self.recipe, DrawRecipe)
        return 2 ** len(self.recipe.model.tokenizer.stages)

    @property
    def train(self) -> PictureStore | None:
        """Return the pictures for mean and deviation; None if the weights include them."""
        return self._train
