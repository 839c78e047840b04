"""Which recipe belongs to which task."""

from regard.settings.answer import AnswerRecipe
from regard.settings.caption import CaptionRecipe
from regard.settings.classify import ClassifyRecipe
from regard.settings.draw import DrawRecipe
from regard.settings.encode import EncodeRecipe
from regard.settings.forecast import ForecastRecipe
from regard.settings.generate import GenerateRecipe
from regard.settings.match import MatchRecipe
from regard.settings.recipe import Recipe
from regard.settings.transcribe import TranscribeRecipe
from regard.settings.translate import TranslateRecipe

TASKS: dict[str, type[Recipe]] = {
    "answer": AnswerRecipe,
    "caption": CaptionRecipe,
    "classify": ClassifyRecipe,
    "draw": DrawRecipe,
    "encode": EncodeRecipe,
    "forecast": ForecastRecipe,
    "generate": GenerateRecipe,
    "match": MatchRecipe,
    "transcribe": TranscribeRecipe,
    "translate": TranslateRecipe,
}
