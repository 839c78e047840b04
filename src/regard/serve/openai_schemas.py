"""Requests in the form of OpenAI's API. What is not given is as the run's recipe has it.

Fields that change what comes back, and that no model here follows, are refused unless they say "nothing of this";
those that only accompany a request (`user`, `metadata`) are taken and not looked at.
"""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from regard.serve.schemas import MOST, Body, Text

STOP = Annotated[list[Text], Field(max_length=16)]


class Sampled(Body):
    model: str = Field(description="the name of a run, from /v1/models")
    temperature: float | None = Field(None, ge=0, le=100)
    top_p: float | None = Field(None, gt=0, le=1)
    n: int = Field(1, ge=1, le=MOST, description="how many answers")
    seed: int | None = Field(None, ge=0, lt=1 << 63, description="the same seed draws the same; without one, by chance")
    stop: Text | STOP | None = None
    stream: bool = False
    stream_options: dict[str, Any] | None = None
    user: str | None = None
    metadata: dict[str, Any] | None = None
    presence_penalty: Literal[0] | None = None
    frequency_penalty: Literal[0] | None = None
    logit_bias: Annotated[dict[str, float], Field(max_length=0)] | None = None

    def sampling(self, most: int | None, stops: list[str]) -> dict[str, Any]:
        """The same as settings of decoding."""
        stop = [self.stop] if isinstance(self.stop, str) else self.stop or []
        given = {
            "temperature": self.temperature, "top_p": self.top_p, "seed": self.seed, "max_length": most,
            "n_best": self.n, "stop": [*stops, *stop] or None,
        }  # fmt: skip
        return {name: value for name, value in given.items() if value is not None}


class Completion(Sampled):
    """Texts that go on from prompts, by a language model."""

    prompt: Text | Annotated[list[Text], Field(min_length=1)]
    max_tokens: int | None = Field(None, ge=1, le=1000)
    best_of: Literal[1] | None = None
    echo: Literal[False] | None = None
    logprobs: Literal[0] | None = None
    suffix: Literal[""] | None = None


class ContentPart(BaseModel):
    type: Literal["text"]
    text: Text


class Message(BaseModel):
    role: Literal["system", "developer", "user", "assistant"]
    content: Text | list[ContentPart]

    @property
    def text(self) -> str:
        return self.content if isinstance(self.content, str) else "".join(part.text for part in self.content)


class ChatCompletion(Sampled):
    """What an assistant says next, written by a language model."""

    messages: list[Message] = Field(min_length=1, max_length=256)
    max_tokens: int | None = Field(None, ge=1, le=1000)
    max_completion_tokens: int | None = Field(None, ge=1, le=1000)
    logprobs: Literal[False] | None = None


class Embeddings(Body):
    """Vectors of texts, by an encoder."""

    model: str
    input: Text | Annotated[list[Text], Field(min_length=1)]
    encoding_format: Literal["float", "base64"] = "float"
    user: str | None = None
