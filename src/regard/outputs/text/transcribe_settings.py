"""The recipe of sound to text."""

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from regard.data.settings import TokenizerSettings
from regard.inputs.sound.settings import ConvolutionSettings, PyramidSettings, SoundDataSettings
from regard.outputs.text.settings import DecodingSettings, WritingRecipe
from regard.settings.base import Settings


class SpeechDataSettings(SoundDataSettings):
    """Recordings with their texts."""

    tokenizer: TokenizerSettings = Field(
        TokenizerSettings.model_validate({"kind": "character"}), description="how text is cut into tokens"
    )

    def problems(self) -> Iterator[tuple[str, str]]:
        yield from super().problems()
        yield from self.tokenizer.problems_of_one_text()


class CtcSettings(Settings):
    ctc: float = Field(
        0.0, ge=0, lt=1, description="weight of the CTC loss relative to the decoder loss; 0 disables it"
    )


class ListenerSettings(PyramidSettings, CtcSettings):
    """Listen, Attend and Spell: a pyramid of bidirectional LSTMs, and a recurrent decoder with attention."""


class SpeechTransformerSettings(ConvolutionSettings, CtcSettings):
    """Convolutions that join four frames into one, then a Transformer encoder and decoder."""


class SpeechDecodingSettings(DecodingSettings):
    """Beam search, optionally with CTC and a language model."""

    max_length: int = Field(400, ge=1, description="maximum tokens of an output (of one window of a long recording)")
    batch_tokens: int = Field(8000, ge=1, description="frames of sound decoded together")
    ctc: float = Field(
        0.3, ge=0, lt=1, description="weight of CTC in the search, for models with CTC; 0 uses the decoder alone"
    )
    language_model: str | None = Field(None, description="folder of a `generate` run for shallow fusion")
    language_model_weight: float = Field(0.3, ge=0, description="weight of its log-probability")
    window: float = Field(
        30.0, gt=0, description="maximum seconds of a window; longer recordings are cut at quiet points"
    )


class TranscribeRecipe(WritingRecipe):
    """Sound to text: speech recognition and other transcription."""

    job: Literal["transcribe"] = Field("transcribe", description="the job: sound to text")  # pyright: ignore[reportIncompatibleVariableOverride]
    data: SpeechDataSettings = Field(description="the user's recordings and how they are read")
    model: Annotated[ListenerSettings | SpeechTransformerSettings, Field(discriminator="kind")] = Field(
        description="the model and its sizes"
    )
    decoding: SpeechDecodingSettings = Field(
        SpeechDecodingSettings.model_validate({}), description="how outputs are decoded"
    )

    def problems(self) -> Iterator[tuple[str, str]]:
        yield from super().problems()
        longest, window = self.data.max_seconds if self.data.join is None else None, self.decoding.window
        if longest is not None and window > 4 * longest:
            why = f"training recordings have at most data.max_seconds={longest:g}: set {4 * longest:g} or less"
            yield "decoding.window", f"is {window:g} seconds, but {why}"
