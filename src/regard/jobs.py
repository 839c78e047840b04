"""The table of jobs: input, output and recipe of each.

| input ╲ output | text       | labels   | a label a token | span   | values   | vector        | picture |
|----------------|------------|----------|-----------------|--------|----------|---------------|---------|
| nothing        | generate   |          |                 |        |          |               |         |
| text           | translate  | classify | tag             |        |          | encode, match | draw    |
| two texts      |            | classify |                 | answer |          |               |         |
| image          | caption    | classify |                 |        |          | match         |         |
| image + text   | ask        |          |                 |        |          |               |         |
| sound          | transcribe | classify |                 |        |          |               |         |
| series         |            | classify |                 |        | forecast |               |         |

To add a job, add a row here. Classes are imported when a recipe of the job is read or the job is made.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from regard.catalog import load_object

if TYPE_CHECKING:
    from regard.inputs.base import Input
    from regard.job import Job
    from regard.settings.recipe import Recipe

PROMPT = "regard.inputs.prompt.input:PromptInput"
TEXT, IMAGE = "regard.inputs.text.input:TextInput", "regard.inputs.image.input:ImageInput"
TWO_TEXTS = "regard.inputs.text.two_texts_input:TwoTextsInput"
SOUND = "regard.inputs.sound.input:SoundInput"
SERIES = "regard.inputs.series.input:SeriesInput"
WINDOWS = "regard.inputs.series.window_input:WindowInput"
QUESTION = "regard.inputs.question.input:QuestionInput"


class Row(NamedTuple):
    """Paths of the classes for the recipe, the input and the output of a job, each as "package.module:name".

    `input` is usually one class; a pair if both come together; or a mapping from each `data.kind` to a class.
    """

    recipe: str
    input: str | tuple[str, str] | Mapping[str, str]
    output: str


JOBS: dict[str, Row] = {
    "answer": Row("regard.outputs.span.settings:AnswerRecipe", QUESTION, "regard.outputs.span.output:SpanOutput"),
    "ask": Row("regard.outputs.text.picture_settings:AskRecipe", (IMAGE, TEXT), "regard.outputs.text.replies:Replies"),
    "caption": Row(
        "regard.outputs.text.picture_settings:CaptionRecipe", IMAGE, "regard.outputs.text.captions:Captions"
    ),
    "classify": Row(
        "regard.outputs.labels.settings:ClassifyRecipe",
        {"text": TEXT, "texts": TWO_TEXTS, "image": IMAGE, "sound": SOUND, "series": SERIES},
        "regard.outputs.labels.output:LabelsOutput",
    ),
    "draw": Row("regard.outputs.picture.settings:DrawRecipe", TEXT, "regard.outputs.picture.output:PictureOutput"),
    "encode": Row("regard.outputs.vector.settings:EncodeRecipe", TEXT, "regard.outputs.vector.encode:VectorOutput"),
    "forecast": Row(
        "regard.outputs.values.settings:ForecastRecipe", WINDOWS, "regard.outputs.values.output:ValuesOutput"
    ),
    "generate": Row(
        "regard.outputs.text.generate_settings:GenerateRecipe", PROMPT, "regard.outputs.text.continuation:Continuation"
    ),
    "match": Row(
        "regard.outputs.vector.settings:MatchRecipe",
        "regard.outputs.vector.two_towers:image_input",
        "regard.outputs.vector.match:Match",
    ),
    "tag": Row(
        "regard.outputs.tags.settings:TagRecipe",
        "regard.inputs.text.words:WordsInput",
        "regard.outputs.tags.output:TagsOutput",
    ),
    "transcribe": Row(
        "regard.outputs.text.transcribe_settings:TranscribeRecipe",
        SOUND,
        "regard.outputs.text.transcription:Transcription",
    ),
    "translate": Row(
        "regard.outputs.text.settings:TranslateRecipe", TEXT, "regard.outputs.text.translation:Translation"
    ),
}

_WRITE = "regard.outputs.text.defaults"

#: Input and target of a user's data → its job, and the module that decides the settings.
FROM_DATA: dict[tuple[str, str], tuple[str, str]] = {
    ("nothing", "text"): ("generate", f"{_WRITE}:generate"),
    ("text", "text"): ("translate", f"{_WRITE}:translate"),
    ("image", "text"): ("caption", f"{_WRITE}:caption"),
    ("sound", "text"): ("transcribe", f"{_WRITE}:transcribe"),
    ("image+text", "text"): ("ask", f"{_WRITE}:ask"),
    **{
        (kind, "label"): ("classify", "regard.outputs.labels.defaults:decide")
        for kind in ("text", "texts", "image", "sound", "series")
    },
    ("text", "tags"): ("tag", "regard.outputs.tags.defaults:decide"),
    ("question", "span"): ("answer", "regard.outputs.span.defaults:decide"),
    ("series", "values"): ("forecast", "regard.outputs.values.defaults:decide"),
}


#: User data → recommended recipe, listed by `regard recipes`.
BEGIN: dict[str, str] = {
    "texts and their translations": "translate-transformer",
    "plain text": "language-model",
    "texts and labels": "languages",
    "two texts and a label": "texts-classify",
    "photos and labels": "photos-classify",
    "small pictures and labels": "digits-vit",
    "recordings and labels": "tones-classify",
    "series and labels": "series-classify",
    "words and a tag for each": "tags",
    "questions, documents and answers": "answer-recurrent",
    "pairs of texts that mean the same": "encode-transformer",
    "photos and captions, to caption others": "photos-caption",
    "drawings and captions, to caption others": "shapes-caption",
    "pictures and questions about them": "shapes-ask",
    "pictures and captions, to search or label": "shapes-match",
    "pictures and captions, to draw": "shapes-draw",
    "recordings of sentences and their texts": "speech",
    "recordings of numbers or signals and their texts": "tones",
    "a table of series over time": "stocks-forecast",
}


def recipe_class(job: str) -> "type[Recipe]":
    """Return the recipe class of a job."""
    return load_object(JOBS[job].recipe)


def make(recipe: "Recipe") -> "Job":
    """Return the job of a recipe, with its input and output."""
    from regard.job import Job

    row = JOBS[recipe.job]
    where = row.input[recipe.data.kind] if isinstance(row.input, Mapping) else row.input
    input = load_object(where)(recipe) if isinstance(where, str) else _joint(recipe, *where)
    return Job(recipe, input, load_object(row.output)(recipe, input))


def _joint(recipe: "Recipe", first: str, second: str) -> "Input":
    from regard.inputs.joint import JointInput

    return JointInput(recipe, load_object(first)(recipe), load_object(second)(recipe))
