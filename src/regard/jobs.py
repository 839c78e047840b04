"""Which recipe belongs to which job."""

from regard.outputs.labels.classify_settings import ClassifyRecipe
from regard.outputs.picture.settings import DrawRecipe
from regard.outputs.span.settings import AnswerRecipe
from regard.outputs.text.caption_settings import CaptionRecipe
from regard.outputs.text.generate_settings import GenerateRecipe
from regard.outputs.text.transcribe_settings import TranscribeRecipe
from regard.outputs.text.translate_settings import TranslateRecipe
from regard.outputs.values.settings import ForecastRecipe
from regard.outputs.vector.encode_settings import EncodeRecipe
from regard.outputs.vector.match_settings import MatchRecipe
from regard.settings.recipe import Recipe

JOBS: dict[str, type[Recipe]] = {
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
