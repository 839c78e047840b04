"""Which recipe belongs to which task."""

from regard.settings.recipe import Recipe
from regard.settings.translate import TranslateRecipe

TASKS: dict[str, type[Recipe]] = {
    "translate": TranslateRecipe,
}
