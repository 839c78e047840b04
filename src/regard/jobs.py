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
    from regard.settings.recipe import Recipe

PROMPT = "regard.inputs.prompt.input:PromptInput"
TEXT, IMAGE = "regard.inputs.text.input:TextInput", "regard.inputs.image.input:ImageInput"
LABELED_TEXT, TWO_TEXTS = "regard.inputs.text.input:LabeledTextInput", "regard.inputs.text.input:TwoTextsInput"
SOUND = "regard.inputs.sound.input:SoundInput"
SERIES = "regard.inputs.series.input:SeriesInput"
WINDOWS = "regard.inputs.series.input:WindowInput"
QUESTION = "regard.inputs.question.input:QuestionInput"

#: What makes the job of a recipe, for modules below it.
MAKE_JOB = "regard.job:make_job"


class JobRow(NamedTuple):
    """Paths of the classes for the recipe, the input and the output of a job, each as "package.module:name".

    `input` is usually one class; a pair if both come together; or a mapping from each `data.kind` to a class.
    """

    recipe: str
    input: str | tuple[str, str] | Mapping[str, str]
    output: str


JOBS: dict[str, JobRow] = {
    "answer": JobRow("regard.tasks.span.settings:AnswerRecipe", QUESTION, "regard.tasks.span.output:SpanOutput"),
    "ask": JobRow(
        "regard.tasks.text.picture_settings:AskRecipe",
        (IMAGE, TEXT),
        "regard.tasks.text.captions:VisualQuestionAnswering",
    ),
    "caption": JobRow("regard.tasks.text.picture_settings:CaptionRecipe", IMAGE, "regard.tasks.text.captions:Captions"),
    "classify": JobRow(
        "regard.tasks.labels.settings:ClassifyRecipe",
        {"text": LABELED_TEXT, "texts": TWO_TEXTS, "image": IMAGE, "sound": SOUND, "series": SERIES},
        "regard.tasks.labels.output:LabelsOutput",
    ),
    "draw": JobRow("regard.tasks.picture.settings:DrawRecipe", TEXT, "regard.tasks.picture.output:PictureOutput"),
    "encode": JobRow("regard.tasks.vector.settings:EncodeRecipe", TEXT, "regard.tasks.vector.encode:VectorOutput"),
    "forecast": JobRow(
        "regard.tasks.values.settings:ForecastRecipe", WINDOWS, "regard.tasks.values.output:ValuesOutput"
    ),
    "generate": JobRow(
        "regard.tasks.text.settings:GenerateRecipe", PROMPT, "regard.tasks.text.continuation:Continuation"
    ),
    "match": JobRow(
        "regard.tasks.vector.settings:MatchRecipe",
        "regard.tasks.vector.match:image_input",
        "regard.tasks.vector.match:Match",
    ),
    "tag": JobRow(
        "regard.tasks.tags.settings:TagRecipe",
        "regard.inputs.text.words:WordsInput",
        "regard.tasks.tags.output:TagsOutput",
    ),
    "transcribe": JobRow(
        "regard.tasks.text.settings:TranscribeRecipe",
        SOUND,
        "regard.tasks.text.transcription:Transcription",
    ),
    "translate": JobRow(
        "regard.tasks.text.settings:TranslateRecipe", TEXT, "regard.tasks.text.translation:Translation"
    ),
}

_WRITE = "regard.tasks.text.settings"

#: Input and target of a user's data → its job, and the module that decides the settings.
FROM_DATA: dict[tuple[str, str], tuple[str, str]] = {
    ("nothing", "text"): ("generate", f"{_WRITE}:generate"),
    ("text", "text"): ("translate", f"{_WRITE}:translate"),
    ("image", "text"): ("caption", f"{_WRITE}:caption"),
    ("sound", "text"): ("transcribe", f"{_WRITE}:transcribe"),
    ("image+text", "text"): ("ask", f"{_WRITE}:ask"),
    **{
        (kind, "label"): ("classify", "regard.tasks.labels.settings:decide")
        for kind in ("text", "texts", "image", "sound", "series")
    },
    ("text", "tags"): ("tag", "regard.tasks.tags.settings:decide"),
    ("question", "span"): ("answer", "regard.tasks.span.settings:decide"),
    ("series", "values"): ("forecast", "regard.tasks.values.settings:decide"),
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
