"""Schemas of requests and responses. Types are strict: "3" and NaN are not accepted as numbers."""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from regard.look.methods import METHODS, By
from regard.look.records import Head, Kind
from regard.look.views import View

MOST = 32  # hypotheses for an input
MOST_LABELS = 256  # labels to choose from
MODEL = Field(None, description="the name of a run, from /api/models; not needed if there is only one")


def _whole(text: str) -> str:
    """Reject half of a surrogate pair: JSON can escape it, but UTF-8 cannot encode it."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"character {error.start} is half of a character") from None
    return text


Text = Annotated[str, AfterValidator(_whole)]


HeadName = Annotated[str, Field(max_length=50)]
WITHOUT: list[str] = Field([], max_length=256, description="heads to mask, such as cross.2.3: kind, layer, head")


class Body(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)


class SamplingOptions(Body):
    """Sampling settings, used if `sample` is true."""

    sample: bool | None = Field(None, description="sample from the model's distribution instead of search")
    temperature: float | None = Field(None, ge=0, le=100, description="below 1 sharpens the distribution")
    top_k: int | None = Field(None, ge=0, le=1_000_000, description="sample from the k most probable tokens; 0 is all")
    top_p: float | None = Field(
        None, gt=0, le=1, description="sample from the smallest set of tokens with this total probability"
    )
    seed: int | None = Field(None, ge=0, lt=1 << 63, description="of the draws")
    max_length: int | None = Field(None, ge=1, le=1000, description="maximum number of tokens of an output")
    repetition_penalty: float | None = Field(
        None, ge=1, le=100, description="of a language model: above 1, earlier tokens become less probable"
    )
    stop: list[Text] | None = Field(None, max_length=16, description="of a language model: texts that end the output")


class Predict(SamplingOptions):
    """Fields that are not given have the values of the run's recipe."""

    inputs: list[Text] = Field(min_length=1, description="texts")
    model: str | None = MODEL
    beam: int | None = Field(None, ge=1, le=MOST, description="hypotheses kept at each step; 1 is greedy")
    n_best: int | None = Field(None, ge=1, le=MOST, description="hypotheses returned, at most beam")
    length_penalty: float | None = Field(None, ge=0, le=100, description="scores are divided by length ** this")
    labels: list[Text] | None = Field(
        None, min_length=1, max_length=MOST_LABELS, description="of a match model: what a picture may show"
    )
    templates: list[Text] | None = Field(
        None, min_length=1, max_length=MOST, description="text around labels, such as 'a photo of a {}'"
    )
    prefix: Text = Field("", description="forced prefix of every output")
    attention: bool = Field(False, description="also return the attention of the best output")
    without: list[HeadName] = WITHOUT

    def decoding(self) -> dict[str, Any]:
        return self.model_dump(exclude={"model", "inputs", "prefix", "attention", "without"}, exclude_none=True)


class StreamOptions(SamplingOptions):
    """Greedy, or sampled if sample is true: with beam search the first token is known only at the end."""

    text: Text
    model: str | None = MODEL
    prefix: Text = Field("", description="forced prefix of the output")

    def decoding(self) -> dict[str, Any]:
        given = self.model_dump(exclude={"model", "text", "prefix"}, exclude_none=True)
        return given | {"beam": 1, "n_best": 1, "coverage_penalty": 0.0}


class Look(SamplingOptions):
    """Without kind, layer and head, all attentions are returned; with them, only the selected ones."""

    text: Text
    model: str | None = MODEL
    output: Text | None = Field(None, description="use this output instead of the predicted one")
    prefix: Text = Field("", description="forced prefix of the output")
    without: list[HeadName] = WITHOUT
    instead: Text | None = Field(None, description="contrast with this word; for methods that explain the output")
    method: str = Field("raw", description=f"one of {', '.join(METHODS)}")
    kind: Kind | None = Field(None, description="cross-attention, or self-attention of encoder or decoder")
    layer: Annotated[int, Field(ge=-1000, le=1000)] | None = Field(None, description="from 0; -1 is the last")
    head: Head | None = Field(None, description="a head, from 0; or the mean or max over heads")
    n_best: int | None = Field(None, ge=1, le=MOST, description="also return other hypotheses, as beams")
    beam: int | None = Field(None, ge=1, le=MOST, description="hypotheses kept at each step")
    evidence: bool = Field(False, description="also test whether the output depends on the attended inputs")

    def decoding(self) -> dict[str, Any]:
        """Return the decoding settings."""
        return self.model_dump(include={*SamplingOptions.model_fields, "n_best", "beam"}, exclude_none=True)


class Explain(Body):
    """Explanation of an output, as by regard look RUN TEXT --explain HOW."""

    text: Text
    how: Literal["lens", "logits", "patching", "inputs", "scores"]
    model: str | None = MODEL
    output: Text | None = Field(None, description="explain this output instead of the predicted one")
    prefix: Text = Field("", description="forced prefix of the output")
    against_input: Text | None = Field(None, description="of patching: the second input")
    exchange: Text | None = Field(None, description="or OLD=NEW: the same input, with a word exchanged")
    instead: Text | None = Field(None, description="contrast with this word")
    without: list[HeadName] = WITHOUT
    row: Annotated[int, Field(ge=-9999, le=9999)] | None = Field(None, description="one step of the output, from 0")
    kind: Kind | None = Field(None, description="of patching: which attention, or whose positions")
    by: By | None = Field(None, description="what is patched or decomposed, or the attribution method")
    layer: Annotated[int, Field(ge=-1000, le=1000)] | None = Field(None, description="of scores")
    head: Annotated[int, Field(ge=-1000, le=1000)] | None = Field(None, description="of scores")
    format: Literal["json", "png", "svg", "pdf", "html"] = Field("json", description="the table, or a picture of it")

    def options(self) -> dict[str, Any]:
        return self.model_dump(exclude={"text", "how", "model", "against_input", "format"})


class Profile(Body):
    """Roles of the heads over validation inputs of the run's data, as by regard look RUN --profile."""

    model: str | None = MODEL
    inputs: int = Field(16, ge=1, le=256, description="number of validation inputs")
    training: bool = Field(False, description="instead, when each head took its role in training")
    format: Literal["json", "png", "svg", "pdf", "html"] = Field("json", description="the table, or a picture of it")


class TableOut(BaseModel):
    """A table of signed numbers; `words` are the texts of cells that are not numbers."""

    title: str
    about: str
    rows: list[str]
    columns: list[str]
    values: list[list[float]]
    words: list[list[str]] | None = None


class PictureOptions(Look):
    """A picture, drawn as by: regard look RUN TEXT -o FILE."""

    format: Literal["png", "svg", "pdf", "html"] = "png"
    view: View = Field("matrix", description="how to draw it")
    log: bool = Field(False, description="colors on a logarithmic scale")
    row: Annotated[int, Field(ge=-9999, le=9999)] | None = Field(None, description="of the overlay, this row only")
    hypothesis: int = Field(0, ge=0, le=MOST, description="of n_best; 0 is the best")
    words: bool = Field(False, description="sub-words merged into words")
    specials: bool = Field(True, description="show the tokens for begin and end of a text")
    against: str | None = Field(
        None, description="compare with this model; with masked heads, also with the same model"
    )
    same_output: bool = Field(True, description="force the first model's output on the second")


class PartOut(Look):
    """One part of a record, for the page."""

    part: Literal["outline", "table", "heads", "maps", "evidence"] = "outline"
    hypothesis: int = Field(0, ge=0, le=MOST, description="0 is the best")
    words: bool = False
    specials: bool = True


class WeightOptions(Body):
    """Explanation of one weight of /api/look. Without layer or head, those with the largest weight are used."""

    text: Text
    row: int = Field(ge=-9999, le=9999, description="row of the cell, from 0: the query")
    column: int = Field(ge=-9999, le=9999, description="column of the cell, from 0: the key")
    model: str | None = MODEL
    output: Text | None = Field(None, description="use this output instead of the predicted one")
    prefix: Text = Field("", description="forced prefix of the output")
    without: list[HeadName] = WITHOUT
    kind: Kind | None = Field(None, description="cross-attention, or self-attention of encoder or decoder")
    layer: Annotated[int, Field(ge=-1000, le=1000)] | None = Field(None, description="from 0; -1 is the last")
    head: Head | None = Field(None, description="a head, from 0; mean and max are as if none was given")
    words: bool = Field(False, description="rows and columns are words; of their pieces, the one with the most weight")
    tokens: bool = Field(False, description="also the contribution of each input part to the score; slower")
    specials: bool = Field(True, description="rows and columns count special tokens, too")


class OriginOut(BaseModel):
    """Contribution of a part of a query, of a key or of the input to a score."""

    side: Literal["query", "key", "both"]
    kind: str = Field(description="token, position, head, feed-forward, state, vector, bias, distance or rest")
    name: str
    value: float


class WeightOut(BaseModel):
    kind: Kind
    layer: int
    head: int
    row: int
    column: int
    row_label: str
    column_label: str
    title: str
    weight: float = Field(description="after the softmax")
    gate: float | None = Field(description="how much of what is seen is let through, where a model can look away")
    equation: str = Field(description="of the score, with its numbers")
    score: float
    bias: float | None = Field(description="what the position adds to the score")
    query: list[float] = Field(description="as the score compares it")
    key: list[float]
    terms: list[tuple[int, float]] = Field(description="dimensions that add most to the score, and how much")
    keys: list[str] = Field(description="of the query's row")
    place: int = Field(description="of this key among them")
    scores: list[float | None] = Field(description="before the softmax; null where the query may not look")
    weights: list[float] = Field(description="after the softmax")
    value_length: float
    added_length: float = Field(description="of what this weight adds to the output")
    share: float = Field(description="share of the output, projected on it; over all keys and heads they sum to one")
    parts: list[OriginOut] = Field(description="where the score comes from: they add up to score and bias together")
    tokens: list[OriginOut] = Field(description="the same by parts of the input, if it was asked for")
    shared_softmax: bool = Field(description="one softmax is over all rows")
    steps: list[tuple[str, str]] = Field(description="from the score to the output, in words and numbers")


class Uploaded(BaseModel):
    name: str = Field(description="use this name instead of a text; valid for ten minutes")
    takes: str


class OutputOut(BaseModel):
    text: str
    log_probability: float | None = Field(description="log p(output | input), summed over its tokens")
    score: float | None = Field(description="the score that ranks outputs")


class AlignmentOut(BaseModel):
    rows: list[str]
    columns: list[str]
    weights: dict[str, list[list[list[float]]]] = Field(description="by module: heads × rows × columns")


class SpanOut(BaseModel):
    label: str
    start: int = Field(description="its first word, from 0")
    end: int = Field(description="the word after its last one")
    text: str


class PredictionOut(OutputOut):
    input: str
    n_best: list[OutputOut]
    alignment: AlignmentOut | None = None
    labels: list[str] | None = Field(None, description="of a classifier: the labels given")
    probabilities: dict[str, float] | None = Field(None, description="of a classifier: of every class")
    words: list[str] | None = Field(None, description="of a tagger: the words of the text")
    tags: list[str] | None = Field(None, description="of a tagger: the tag of each word")
    spans: list[SpanOut] | None = Field(None, description="of a tagger with B- and I- tags: the marked spans")
    vector: list[float] | None = Field(None, description="of an encoder: the text as a vector")
    png: list[str] | None = Field(None, description="of a drawer: the pictures, best first, as PNG in base64")
    unknown: list[str] | None = Field(None, description="of a drawer: words that are not in its vocabulary")


class Predictions(BaseModel):
    model: str
    predictions: list[PredictionOut]


class ModelOut(BaseModel):
    name: str
    job: str
    about: str
    parameters: int
    looks: bool = Field(description="whether /api/look supports it")
    takes: list[str] = Field(
        description="what an input is: text, or the name of an upload; two parts are separated by a tab"
    )
    gives: str = Field(description="kind of its output: text, a label, numbers, ...")
    scores: dict[str, float] = Field(description="scores of its best validation")
    writes_text: bool = Field(
        description="whether it generates text token by token, which supports prefixes and streaming"
    )
    takes_instead: bool = Field(description="whether it supports contrasts with another word (instead)")
    methods: list[str] = Field(description="attention methods that support it")
    history: bool = Field(description="whether attention was recorded during training")
    explanations: list[str] = Field(description="supported explanations of /api/explain: how and by")
    decoding: dict[str, Any] = Field(description="default decoding settings")


class Models(BaseModel):
    models: list[ModelOut]


class RunOut(BaseModel):
    name: str
    state: Literal["training", "ended", "stopped"]
    job: str
    about: str
    step: int
    seconds: float
    done: float | None = Field(description="completed share, if a limit is set")
    best: dict[str, float | None] = Field(description="scores of the best validation")
    looks: int = Field(description="validations at which attention was recorded")
    inputs_watched: int = Field(description="validation inputs with recorded attention")


class Runs(BaseModel):
    runs: list[RunOut]


class RunReport(BaseModel):
    version: str
    html: str | None = Field(description="sections of the report; null if nothing has changed")


class Live(BaseModel):
    status: Literal["ok"]


class Ready(BaseModel):
    status: Literal["ready", "busy", "stopping"]
    waiting: dict[str, int] = Field(description="waiting requests, by model")


class Error(BaseModel):
    error: str = Field(description="what is wrong and what would work, as a sentence")
    field: str | None = Field(description="the field of the request that is wrong")
