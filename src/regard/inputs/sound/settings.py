"""Settings of recordings, of what is done to sound, and of what listens to it."""

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from regard.data.label_writing import Writing
from regard.data.pairs import Columns
from regard.data.settings import Column, column
from regard.inputs.media_settings import MediaSettings
from regard.settings.base import Settings
from regard.settings.model import RecurrentSettings, TransformerSettings
from regard.settings.pooling import PoolingSettings


class SoundSettings(Settings):
    """How sound becomes features: log-mel energies of short windows."""

    rate: int = Field(16_000, ge=1000, description="samples a second that the model hears; other files are resampled")
    bands: int = Field(40, ge=4, description="bands of frequency, equally wide on the mel scale")
    window: float = Field(0.025, gt=0, le=1, description="seconds of sound that one frame looks at")
    hop: float = Field(0.010, gt=0, le=1, description="seconds from one frame to the next")

    def problems(self) -> Iterator[tuple[str, str]]:
        if self.hop > self.window:
            yield "hop", f"is more than window={self.window:g}: sound between the frames would not be heard"
        if self.hop * self.rate < 1:
            yield "hop", f"is less than one sample at rate={self.rate}"


class AugmentSettings(Settings):
    """What training does to recordings, so that no two epochs hear the same. Validation and test are left alone."""

    speeds: list[Annotated[float, Field(ge=0.5, le=2)]] = Field(
        [1.0], min_length=1, description="one of these is drawn each time: how much faster (and higher) it is played"
    )
    band_masks: int = Field(0, ge=0, description="SpecAugment: groups of bands that are blotted out")
    band_width: int = Field(8, ge=0, description="most bands in such a group")
    time_masks: int = Field(0, ge=0, description="SpecAugment: stretches of time that are blotted out")
    time_width: float = Field(0.4, ge=0, description="longest such stretch, in seconds")
    time_share: float = Field(0.2, ge=0, le=1, description="longest such stretch, as a share of the recording")
    noise: float | None = Field(None, ge=0, description="add white noise, at least so many dB below; null is none")


class JoinSettings(Settings):
    """Make longer recordings of short ones: a few, drawn at random, one after the other."""

    fewest: int = Field(2, ge=1, description="fewest recordings in a sequence")
    most: int = Field(4, ge=1, description="most recordings in a sequence")
    gap: tuple[Annotated[float, Field(ge=0)], Annotated[float, Field(ge=0)]] = Field(
        (0.0, 0.2), description="shortest and longest pause between two, in seconds"
    )
    train: int = Field(2000, ge=1, description="sequences in an epoch of training; drawn anew for each epoch")
    valid: int = Field(200, ge=1, description="sequences for validation, always the same")
    test: int = Field(1000, ge=1, description="sequences for testing, always the same")

    def problems(self) -> Iterator[tuple[str, str]]:
        if self.most < self.fewest:
            yield "most", f"is less than fewest={self.fewest}"
        if self.gap[1] < self.gap[0]:
            yield "gap", f"ends at {self.gap[1]:g}, before it begins"


class RecordingSettings(MediaSettings):
    """Recordings, and what is written beside each: what is said in it, or what it is."""

    path: Column | None = column("path", "first column")
    sound: SoundSettings = Field(SoundSettings.model_validate({}), description="how sound becomes features")
    augment: AugmentSettings = Field(AugmentSettings.model_validate({}), description="changes for training")
    max_seconds: float = Field(
        30.0,
        gt=0,
        description="longer recordings are left out of training; where they have labels, they are heard in windows of "
        "so many seconds: training takes another window of each in every epoch, prediction the mean of all",
    )

    @property
    def joined(self) -> JoinSettings | None:
        """How longer recordings are made of short ones; None: not at all."""
        return None


class SoundDataSettings(RecordingSettings):
    """Recordings, and what is said in each.

    Each of train, valid and test is a list (FILE.tsv, .csv, .jsonl: a path and a text a line; paths are taken from the
    folder of the list), a folder (x.wav with x.txt beside it), FILE.tar (the same, packed), or corpus:NAME.
    """

    text: Column | None = column("text", "second column")
    spoken: dict[str, str] = Field({}, description="texts that stand for others: {'7': seven}")
    join: JoinSettings | None = Field(None, description="make sequences of short recordings; null is as they are")
    max_length: int = Field(400, ge=2, description="texts of more tokens are left out of training")

    @property
    def columns(self) -> Columns:
        return Columns(
            {"path": self.path, "text": self.text},
            self.header,
            target_text=Writing(names=tuple(sorted(self.spoken.items()))),
        )

    @property
    def joined(self) -> JoinSettings | None:
        return self.join


# ------------------------------------------------------------------------------------------------------------ encoders
class PyramidSizes(Settings):
    """A pyramid of recurrent layers in both directions, each of which halves the number of frames."""

    cell: Literal["gru", "lstm"] = Field("lstm", description="recurrent cell")
    stack: int = Field(1, ge=1, description="frames that are put together before the first layer")
    encoder_layers: int = Field(1, ge=1, description="layers before the pyramid")
    pyramid: int = Field(3, ge=0, description="layers after the first that each halve the number of frames")
    positions: bool = Field(True, description="tell what attends when each vector of the memory was heard")

    @property
    def reduction(self) -> int:
        """Frames for each vector of the memory."""
        return self.stack * 2**self.pyramid


class ConvolutionSizes(Settings):
    """Convolutions that make four frames one, then the blocks of a Transformer."""

    channels: int = Field(32, ge=1, description="channels of the two convolutions")

    @property
    def reduction(self) -> int:
        return 4


class PyramidSettings(PyramidSizes, RecurrentSettings):
    """The pyramid, under a decoder that attends to it."""

    def problems(self) -> Iterator[tuple[str, str]]:
        yield from super().problems()
        if not self.bidirectional:
            yield "bidirectional", "must be true: the pyramid reads sound in both directions"
        if self.doubly_stochastic:
            yield "doubly_stochastic", "is for pictures: of sound, much is pause that no letter looks at"


class ConvolutionSettings(ConvolutionSizes, TransformerSettings):
    """The Transformer, encoder and decoder, above convolutions."""


class SoundRecurrentSettings(PyramidSizes, PoolingSettings):
    """The pyramid on its own; what it heard becomes one vector."""

    kind: Literal["sound_recurrent"] = Field("sound_recurrent", description="sound_recurrent or sound_transformer")
    width: int = Field(128, ge=1, description="width of the states (each direction has half)")
    pyramid: int = Field(2, ge=0, description="layers after the first that each halve the number of frames")
    positions: bool = Field(False, description="tell the pooling when each vector of the memory was heard")
    dropout: float = Field(0.2, ge=0, lt=1, description="share of activations dropped in training")

    def problems(self) -> Iterator[tuple[str, str]]:
        yield from super().problems()
        if self.width % 2:
            yield "width", "must be even, as each direction has half of it"


class SoundTransformerSettings(ConvolutionSizes, PoolingSettings):
    """A Transformer encoder above convolutions, on its own; what it heard becomes one vector."""

    kind: Literal["sound_transformer"] = Field("sound_transformer", description="sound_recurrent or sound_transformer")
    width: int = Field(128, ge=1, description="width of the vectors between layers (d_model)")
    heads: int = Field(4, ge=1, description="attention heads")
    feed_forward: int = Field(512, ge=1, description="width inside the feed-forward layers")
    encoder_layers: int = Field(2, ge=1, description="depth")
    dropout: float = Field(0.1, ge=0, lt=1, description="share of activations dropped in training")

    def problems(self) -> Iterator[tuple[str, str]]:
        yield from super().problems()
        if self.width % self.heads:
            yield "heads", f"must divide width={self.width}"
        if self.width % 2:
            yield "width", "must be even: positions are sines and cosines"
