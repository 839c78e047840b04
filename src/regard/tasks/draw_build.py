"""The model of a drawing recipe."""

from regard.attention.positions import LearnedTextAndGrid
from regard.data.image_store import PictureStore
from regard.models.drawer import Drawer
from regard.models.language_model import LanguageModel
from regard.models.picture_tokens import PictureTokeniser
from regard.settings.draw import DrawRecipe
from regard.tasks.pictures import colours


def grid_of(recipe: DrawRecipe) -> tuple[int, int]:
    """Rows × columns of the regions that a picture is drawn by."""
    stages = len(recipe.model.tokeniser.stages)
    return recipe.data.height >> stages, recipe.data.width >> stages


def build_drawer(recipe: DrawRecipe, words: int, train: PictureStore | None = None) -> Drawer:
    """`train`: the pictures whose mean and deviation are taken; None where the weights bring them."""
    s, data = recipe.model, recipe.data
    t, grid = s.tokeniser, grid_of(recipe)
    tokeniser = PictureTokeniser(
        (data.height, data.width), t.stages, t.codes,
        width=t.width, depth=t.depth, channels=data.channels, colours=colours(t, data, train), commitment=t.commitment,
    )  # fmt: skip
    text = data.max_length + 1  # and <s>
    writer = LanguageModel(
        words + t.codes, s.width, s.heads, s.layers,
        hidden=s.hidden, positions=LearnedTextAndGrid(s.width, text, grid),
        dropout=s.dropout, attention_dropout=0.0, label_smoothing=s.label_smoothing,
    )  # fmt: skip
    return Drawer(
        tokeniser, writer,
        words=words, text_length=data.max_length, text_weight=s.text_weight, tokeniser_rate=t.rate,
    )  # fmt: skip
