"""The bodies of requests and answers. Types are strict: "3" is not a number, and NaN is none either."""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from regard.look.methods import METHODS, By
from regard.look.records import Head, Kind
from regard.look.views import View

MOST = 32  # hypotheses of an input
MOST_LABELS = 256  # to choose from
MODEL = Field(None, description="the name of a run, from /api/models; not needed if there is only one")


def _whole(text: str) -> str:
    """JSON can escape half of a character, which no text in UTF-8 can hold."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"character {error.start} is half of a character") from None
    return text


Text = Annotated[str, AfterValidator(_whole)]


HeadName = Annotated[str, Field(max_length=50)]
WITHOUT: list[str] = Field([], max_length=256, description="heads to leave out, such as cross.2.3: kind, layer, head")


class Body(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)


class Sampling(Body):
    """How to draw, where `sample` is true."""

    sample: bool | None = Field(None, description="draw from the model's distribution rather than search")
    temperature: float | None = Field(None, ge=0, le=100, description="below 1 sharpens the distribution")
    top_k: int | None = Field(None, ge=0, le=1_000_000, description="draw from the k most probable tokens; 0 is all")
    top_p: float | None = Field(None, gt=0, le=1, description="draw from the fewest tokens that hold so much")
    seed: int | None = Field(None, ge=0, lt=1 << 63, description="of the draws")
    max_length: int | None = Field(None, ge=1, le=1000, description="most tokens of an output")
    repetition_penalty: float | None = Field(
        None, ge=1, le=100, description="of a language model: above 1, what was said is less probable"
    )
    stop: list[Text] | None = Field(None, max_length=16, description="of a language model: texts that end the output")


class Predict(Sampling):
    """What is not given is as the run's recipe has it."""

    inputs: list[Text] = Field(min_length=1, description="texts")
    model: str | None = MODEL
    beam: int | None = Field(None, ge=1, le=MOST, description="hypotheses kept at each step; 1 is greedy")
    n_best: int | None = Field(None, ge=1, le=MOST, description="hypotheses given back, at most beam")
    length_penalty: float | None = Field(None, ge=0, le=100, description="scores are divided by length ** this")
    labels: list[Text] | None = Field(
        None, min_length=1, max_length=MOST_LABELS, description="of a match model: what a picture may show"
    )
    templates: list[Text] | None = Field(
        None, min_length=1, max_length=MOST, description="what labels are put into, such as 'a photo of a {}'"
    )
    prefix: Text = Field("", description="every output has to begin with this")
    attention: bool = Field(False, description="also say where the best output looked")
    without: list[HeadName] = WITHOUT

    def decoding(self) -> dict[str, Any]:
        return self.model_dump(exclude={"model", "inputs", "prefix", "attention", "without"}, exclude_none=True)


class Stream(Sampling):
    """Greedy, or drawn if sample is true: a beam search does not know its first word before its last."""

    text: Text
    model: str | None = MODEL
    prefix: Text = Field("", description="the output has to begin with this")

    def decoding(self) -> dict[str, Any]:
        given = self.model_dump(exclude={"model", "text", "prefix"}, exclude_none=True)
        return given | {"beam": 1, "n_best": 1, "coverage_penalty": 0.0}


class Look(Sampling):
    """Without kind, layer and head, all attentions are sent; with them, only what they choose."""

    text: Text
    model: str | None = MODEL
    output: Text | None = Field(None, description="look at this output instead of the model's own")
    prefix: Text = Field("", description="or at one that begins with this")
    without: list[HeadName] = WITHOUT
    instead: Text | None = Field(None, description="why not this word; of methods that ask about the output")
    method: str = Field("raw", description=f"one of {', '.join(METHODS)}")
    kind: Kind | None = Field(None, description="attention over the source, or of encoder or decoder over itself")
    layer: Annotated[int, Field(ge=-1000, le=1000)] | None = Field(None, description="from 0; -1 is the last")
    head: Head | None = Field(None, description="a head, from 0; or the mean or max of them")
    n_best: int | None = Field(None, ge=1, le=MOST, description="also other hypotheses, as beams")
    beam: int | None = Field(None, ge=1, le=MOST, description="hypotheses kept at each step")
    evidence: bool = Field(False, description="ask the model, too, whether it needs what it looks at")

    def decoding(self) -> dict[str, Any]:
        """How the output is written; of a run, what it knows."""
        return self.model_dump(include={*Sampling.model_fields, "n_best", "beam"}, exclude_none=True)


class Explain(Body):
    """Why a model says what it says: as by regard look RUN TEXT --explain HOW."""

    text: Text
    how: Literal["lens", "logits", "patching", "inputs", "scores"]
    model: str | None = MODEL
    output: Text | None = Field(None, description="explain this output instead of the model's own")
    prefix: Text = Field("", description="or one that begins with this")
    against_input: Text | None = Field(None, description="of patching: the second input")
    exchange: Text | None = Field(None, description="or OLD=NEW: the same one, with a word exchanged")
    instead: Text | None = Field(None, description="why not this word")
    without: list[HeadName] = WITHOUT
    row: Annotated[int, Field(ge=-9999, le=9999)] | None = Field(None, description="one step of the output, from 0")
    kind: Kind | None = Field(None, description="of patching: which attention, or whose positions")
    by: By | None = Field(None, description="what is patched or taken apart, or by which method inputs count")
    layer: Annotated[int, Field(ge=-1000, le=1000)] | None = Field(None, description="of scores")
    head: Annotated[int, Field(ge=-1000, le=1000)] | None = Field(None, description="of scores")
    format: Literal["json", "png", "svg", "pdf", "html"] = Field("json", description="the table, or a picture of it")

    def options(self) -> dict[str, Any]:
        return self.model_dump(exclude={"text", "how", "model", "against_input", "format"})


class Profile(Body):
    """What each head looks for, over validation inputs of the run's data: as by regard look RUN --profile."""

    model: str | None = MODEL
    inputs: int = Field(16, ge=1, le=256, description="so many validation inputs")
    training: bool = Field(False, description="when each head took its role, over what training kept, instead")
    format: Literal["json", "png", "svg", "pdf", "html"] = Field("json", description="the table, or a picture of it")


class TableOut(BaseModel):
    """A table of numbers with a sign; `words` is what to write into its cells, where that is no number."""

    title: str
    about: str
    rows: list[str]
    columns: list[str]
    values: list[list[float]]
    words: list[list[str]] | None = None


class Picture(Look):
    """Drawn as by: regard look RUN TEXT -o FILE."""

    format: Literal["png", "svg", "pdf", "html"] = "png"
    view: View = Field("matrix", description="how to draw it")
    log: bool = Field(False, description="colors on a logarithmic scale")
    row: Annotated[int, Field(ge=-9999, le=9999)] | None = Field(None, description="of the overlay, this row only")
    hypothesis: int = Field(0, ge=0, le=MOST, description="of n_best; 0 is the best")
    words: bool = Field(False, description="sub-words merged into words")
    specials: bool = Field(True, description="with the tokens that begin and end a text")
    against: str | None = Field(
        None, description="hold against this model; a model without a head against itself with all"
    )
    same_output: bool = Field(True, description="the second model is shown the first one's output; else its own")


class Part(Look):
    """For the page: one part of a record."""

    part: Literal["outline", "table", "heads", "maps", "evidence"] = "outline"
    hypothesis: int = Field(0, ge=0, le=MOST, description="0 is the best")
    words: bool = False
    specials: bool = True


class Weight(Body):
    """How one weight of what /api/look shows came about. Without a layer or a head, those with the most weight."""

    text: Text
    row: int = Field(ge=-9999, le=9999, description="of the cell, from 0: who looks")
    column: int = Field(ge=-9999, le=9999, description="of the cell, from 0: what is looked at")
    model: str | None = MODEL
    output: Text | None = Field(None, description="look at this output instead of the model's own")
    prefix: Text = Field("", description="or at one that begins with this")
    without: list[HeadName] = WITHOUT
    kind: Kind | None = Field(None, description="attention over the source, or of encoder or decoder over itself")
    layer: Annotated[int, Field(ge=-1000, le=1000)] | None = Field(None, description="from 0; -1 is the last")
    head: Head | None = Field(None, description="a head, from 0; mean and max are as if none was given")
    words: bool = Field(False, description="rows and columns are words; of their pieces, the one with the most weight")
    tokens: bool = Field(False, description="also what each part of the input brings to the score; takes longer")
    specials: bool = Field(True, description="rows and columns count special tokens, too")


class OriginOut(BaseModel):
    """What a part of a query, of a key or of the input adds to a score."""

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
    share: float = Field(description="of the way to the whole output; over all keys and heads they sum to one")
    parts: list[OriginOut] = Field(description="where the score comes from: they add up to score and bias together")
    tokens: list[OriginOut] = Field(description="the same by parts of the input, if it was asked for")
    shared_softmax: bool = Field(description="one softmax is over all rows")
    steps: list[tuple[str, str]] = Field(description="from the score to the output, in words and numbers")


class Uploaded(BaseModel):
    name: str = Field(description="stands for the file wherever a text would stand for itself, for ten minutes")
    takes: str


class OutputOut(BaseModel):
    text: str
    log_probability: float | None = Field(description="log p(output given the input), summed over its tokens")
    score: float | None = Field(description="what outputs are ranked by")


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
    spans: list[SpanOut] | None = Field(None, description="of a tagger whose tags begin and go on: what they mark")
    vector: list[float] | None = Field(None, description="of an encoder: the text as a vector")
    png: list[str] | None = Field(None, description="of a drawer: the pictures, best first, as PNG in base64")
    unknown: list[str] | None = Field(None, description="of a drawer: words that it does not know")


class Predictions(BaseModel):
    model: str
    predictions: list[PredictionOut]


class ModelOut(BaseModel):
    name: str
    job: str
    about: str
    parameters: int
    looks: bool = Field(description="whether /api/look works for it")
    takes: list[str] = Field(
        description="what an input is: text, or the name of an upload; where it is two things, a tab stands between"
    )
    gives: str = Field(description="what it makes of its input: text, a label, numbers, ...")
    scores: dict[str, float] = Field(description="of its best validation")
    writes_text: bool = Field(description="whether it writes text token by token, which can be led or gone on with")
    takes_instead: bool = Field(description="whether it can be asked why it said this, and not another word")
    methods: list[str] = Field(description="of looking: those that have something to say of it")
    history: bool = Field(description="whether attention was kept as it trained")
    explanations: list[str] = Field(description="of /api/explain: how, and by what; those that have an answer")
    decoding: dict[str, Any] = Field(description="how it writes its output, if nothing else is asked for")


class Models(BaseModel):
    models: list[ModelOut]


class RunOut(BaseModel):
    name: str
    state: Literal["training", "ended", "stopped"]
    job: str
    about: str
    step: int
    seconds: float
    done: float | None = Field(description="the share of it that is behind, if something limits it")
    best: dict[str, float | None] = Field(description="scores of the best validation")
    looks: int = Field(description="validations at which attention was kept")
    inputs_watched: int = Field(description="validation inputs on which it was kept")


class Runs(BaseModel):
    runs: list[RunOut]


class RunReport(BaseModel):
    version: str
    html: str | None = Field(description="sections of the report; null if nothing has changed")


class Live(BaseModel):
    status: Literal["ok"]


class Ready(BaseModel):
    status: Literal["ready", "busy", "stopping"]
    waiting: dict[str, int] = Field(description="requests that wait, by model")


class Error(BaseModel):
    error: str = Field(description="what is wrong and what would work, as a sentence")
    field: str | None = Field(description="the field of the request that it is about")
