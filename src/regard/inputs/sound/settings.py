"""Settings of recordings, of augmentation, and of sound encoders."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Literal

from pydantic import Field

from regard.data.labels import LabelFormat
from regard.data.pairs import Columns
from regard.data.settings import Column, column
from regard.inputs.media_files import MediaSettings
from regard.settings.base import Settings
from regard.settings.model import PoolingSettings, RecurrentSettings, TransformerSettings
from regard.settings.recipe import Decision, percentile


class SoundSettings(Settings):
    """Sound features: log-mel energies of short windows."""

    rate: int = Field(
        16_000, ge=1000, description="sampling rate of the model, in samples a second; other files are resampled"
    )
    bands: int = Field(40, ge=4, description="bands of frequency, equally wide on the mel scale")
    window: float = Field(0.025, gt=0, le=1, description="seconds of sound in one frame")
    hop: float = Field(0.010, gt=0, le=1, description="seconds from one frame to the next")

    def problems(self) -> Iterator[tuple[str, str]]:
        if self.hop > self.window:
            yield "hop", f"is more than window={self.window:g}: sound between the frames would be lost"
        if self.hop * self.rate < 1:
            yield "hop", f"is less than one sample at rate={self.rate}"


class AugmentSettings(Settings):
    """Augmentation of recordings in training, different in each epoch. Validation and test data are not changed."""

    speeds: list[Annotated[float, Field(ge=0.5, le=2)]] = Field(
        [1.0], min_length=1, description="playback speeds (also of pitch); one is sampled for each recording and epoch"
    )
    band_masks: int = Field(0, ge=0, description="SpecAugment: number of masked groups of bands")
    band_width: int = Field(8, ge=0, description="maximum bands in such a group")
    time_masks: int = Field(0, ge=0, description="SpecAugment: number of masked stretches of time")
    time_width: float = Field(0.4, ge=0, description="longest such stretch, in seconds")
    time_share: float = Field(0.2, ge=0, le=1, description="longest such stretch, as a share of the recording")
    noise: float | None = Field(
        None, ge=0, description="add white noise, at least this number of dB below the sound; null: none"
    )


class JoinSettings(Settings):
    """Join short recordings to longer ones: a few, sampled at random, one after the other."""

    fewest: int = Field(2, ge=1, description="minimum number of recordings in a sequence")
    most: int = Field(4, ge=1, description="maximum number of recordings in a sequence")
    gap: tuple[Annotated[float, Field(ge=0)], Annotated[float, Field(ge=0)]] = Field(
        (0.0, 0.2), description="shortest and longest pause between two, in seconds"
    )
    train: int = Field(2000, ge=1, description="sequences in an epoch of training; sampled for each epoch")
    valid: int = Field(200, ge=1, description="sequences for validation, always the same")
    test: int = Field(1000, ge=1, description="sequences for testing, always the same")

    def problems(self) -> Iterator[tuple[str, str]]:
        if self.most < self.fewest:
            yield "most", f"is less than fewest={self.fewest}"
        if self.gap[1] < self.gap[0]:
            yield "gap", f"ends at {self.gap[1]:g}, before it starts"


class RecordingSettings(MediaSettings):
    """Recordings with their targets: transcripts or labels."""

    path: Column | None = column("path", "first column")
    sound: SoundSettings = Field(SoundSettings.model_validate({}), description="how sound becomes features")
    augment: AugmentSettings = Field(AugmentSettings.model_validate({}), description="augmentation in training")
    max_seconds: float = Field(
        30.0,
        gt=0,
        description="longer recordings are left out of training; where they have labels, they are read in windows of "
        "this length: training takes a different window of each in every epoch, prediction the mean of all",
    )

    @property
    def joined(self) -> JoinSettings | None:
        """How short recordings are joined; None: not at all."""
        return None


class SoundDataSettings(RecordingSettings):
    """Recordings with their transcripts.

    Each of train, valid and test is a list (FILE.tsv, .csv, .jsonl: a path and a text a line; paths are relative to
    the folder of the list), a folder (x.wav with x.txt next to it), FILE.tar (the same, packed), or corpus:NAME.
    """

    text: Column | None = column("text", "second column")
    spoken: dict[str, str] = Field({}, description="texts to replace by others: {'7': seven}")
    join: JoinSettings | None = Field(None, description="join short recordings to sequences; null: do not join")
    max_length: int = Field(400, ge=2, description="texts of more tokens are left out of training")

    @property
    def columns(self) -> Columns:
        return Columns(
            {"path": self.path, "text": self.text},
            self.header,
            target_text=LabelFormat(names=tuple(sorted(self.spoken.items()))),
        )

    @property
    def joined(self) -> JoinSettings | None:
        return self.join


# ------------------------------------------------------------------------------------------------------------ encoders
class PyramidSizes(Settings):
    """Pyramid of bidirectional recurrent layers, each of which halves the number of frames."""

    cell: Literal["gru", "lstm"] = Field("lstm", description="recurrent cell")
    stack: int = Field(1, ge=1, description="frames that are concatenated before the first layer")
    encoder_layers: int = Field(1, ge=1, description="layers before the pyramid")
    pyramid: int = Field(3, ge=0, description="layers after the first that each halve the number of frames")
    positions: bool = Field(True, description="give the decoder the time of each memory vector")

    @property
    def reduction(self) -> int:
        """Number of frames for each vector of the memory."""
        return self.stack * 2**self.pyramid


class ConvolutionSizes(Settings):
    """Convolutions that reduce the frames by four, then Transformer blocks."""

    channels: int = Field(32, ge=1, description="channels of the two convolutions")

    @property
    def reduction(self) -> int:
        return 4


class PyramidSettings(PyramidSizes, RecurrentSettings):
    """Pyramid encoder with a decoder that attends to it."""

    def problems(self) -> Iterator[tuple[str, str]]:
        yield from super().problems()
        if not self.bidirectional:
            yield "bidirectional", "must be true: the pyramid reads sound in both directions"
        if self.doubly_stochastic:
            yield "doubly_stochastic", "is for pictures: sound has pauses, to which no letter attends"


class ConvolutionSettings(ConvolutionSizes, TransformerSettings):
    """Transformer encoder and decoder, above convolutions."""


class SoundRecurrentSettings(PyramidSizes, PoolingSettings):
    """Pyramid encoder alone; its vectors are pooled to one."""

    kind: Literal["sound_recurrent"] = Field("sound_recurrent", description="sound_recurrent or sound_transformer")
    width: int = Field(128, ge=1, description="width of the states (each direction has half)")
    pyramid: int = Field(2, ge=0, description="layers after the first that each halve the number of frames")
    positions: bool = Field(False, description="give the pooling the time of each memory vector")
    dropout: float = Field(0.2, ge=0, lt=1, description="share of activations dropped in training")

    def problems(self) -> Iterator[tuple[str, str]]:
        yield from super().problems()
        if self.width % 2:
            yield "width", "must be even, as each direction has half of it"


class SoundTransformerSettings(ConvolutionSizes, PoolingSettings):
    """Transformer encoder above convolutions, alone; its vectors are pooled to one."""

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


# Settings chosen from recordings: sampling rate, length limit and augmentation.

SPEECH = 16_000  # samples a second; a higher rate improves speech little


SLOWEST = 0.9  # of the speeds that training plays recordings at
AT_ONCE = 10.0  # seconds; one part of a longer recording is enough for its label


def hearing(
    facts: Sequence[tuple[int, float]], *, most: float = float("inf"), done: str = "are read in windows"
) -> list[Decision]:
    """Choose settings. `most`: maximum seconds that are read at once; `done`: what happens to longer recordings."""
    rates, seconds = [fact[0] for fact in facts], [fact[1] for fact in facts]
    usual = max(set(rates), key=rates.count)
    rate = min(SPEECH, usual)
    why = f"recordings have {usual:,}" + (f"; {SPEECH:,} are enough for speech" if usual > SPEECH else "")
    longest = percentile(seconds, 100)
    limit, opened = round(longest * 1.2 + 0.5, 1), f"the longest that was opened has {longest:.2f}"
    if limit > most:
        limit, opened = most, f"{opened}: longer ones {done}"
    return [
        Decision("data.sound.rate", rate, why),
        Decision("data.sound.bands", 40, "usual for speech"),
        Decision("data.max_seconds", limit, opened),
    ]


def frames(seconds: float) -> int:
    """Duration of a recording at the slowest augmentation speed."""
    return int(seconds * 100 / SLOWEST) + 1


def augmentation(count: int) -> list[Decision]:
    if count > 20_000:
        return []
    why = f"{count:,} recordings are few: each epoch augments them differently"
    return [
        Decision("data.augment.speeds", [SLOWEST, 1.0, 1.1], why),
        Decision("data.augment.band_masks", 2, why),
        Decision("data.augment.band_width", 6, why),
        Decision("data.augment.time_masks", 1, why),
        Decision("data.augment.time_width", 0.1, why),
    ]


def usual_seconds(facts: Sequence[tuple[int, float]]) -> float:
    return percentile([fact[1] for fact in facts], 50)
