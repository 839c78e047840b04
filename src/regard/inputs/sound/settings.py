"""Settings of recordings, of what is done to sound, and of what listens to it."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from regard.data.pairs import Columns
from regard.data.settings import Column, FileFormat
from regard.settings.base import Settings
from regard.settings.model import RecurrentSettings, TransformerSettings


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
    noise: float | None = Field(
        None, ge=0, description="add white noise, at least so many dB below the recording; null is none"
    )


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


@dataclass(frozen=True)
class Spoken:
    """Texts that stand for others: (as the file has it, what is said)."""

    texts: tuple[tuple[str, str], ...]

    def __call__(self, value: object) -> object:
        return dict(self.texts).get(value, value) if isinstance(value, str) else value


class RecordingSettings(Settings):
    """Recordings, and what is written beside each: what is said in it, or what it is."""

    train: str = Field(description="training data: a list, a folder, FILE.tar or corpus:NAME")
    valid: str | None = Field(None, description="validation data; by default a part of the training data, held out")
    test: str | None = Field(None, description="test data, for `regard evaluate`")
    format: FileFormat = Field("auto", description="format of lists; auto goes by the ending of the name")
    path: Column | None = Field(
        None, description="column of the path: a name, or a number from 0; by default 'path', or the first column"
    )
    header: bool | None = Field(
        None, description="whether the first line of TSV and CSV names the columns; by default if columns are named"
    )
    name_text: str | None = Field(
        None,
        description="folders and tars: a regular expression that finds the text in a file's name, as (?P<text>...)",
    )
    valid_names: str | None = Field(
        None, description="a regular expression: files whose name it finds are for validation, not for training"
    )
    test_names: str | None = Field(
        None, description="a regular expression: files whose name it finds are for testing, not for training"
    )
    sound: SoundSettings = Field(SoundSettings.model_validate({}), description="how sound becomes features")
    augment: AugmentSettings = Field(AugmentSettings.model_validate({}), description="changes for training")
    max_seconds: float = Field(30.0, gt=0, description="longer recordings are left out of training")
    max_bad: float = Field(
        0.01,
        ge=0,
        le=1,
        description="the share of recordings without sound or text that is tolerated (and skipped)",
    )
    valid_share: float = Field(
        0.05, gt=0, lt=1, description="the share of training recordings held out for validation if valid is not given"
    )
    valid_most: int = Field(500, ge=1, description="most training recordings, about, to hold out for validation")
    cache: str | None = Field(None, description="folder for prepared data; by default inside the run's folder")

    @property
    def columns(self) -> Columns:
        """Those of lists. `folders`: in folders and tars, the sub-folders name the classes."""
        raise NotImplementedError

    @property
    def joined(self) -> JoinSettings | None:
        """How longer recordings are made of short ones; None: not at all."""
        return None

    @property
    def most_tokens(self) -> int:
        """Of what is written beside a recording of training."""
        return 1 << 30

    @property
    def limits(self) -> str:
        """What training leaves out is longer than this."""
        return f"data.max_seconds={self.max_seconds:g}"

    def problems(self) -> Iterator[tuple[str, str]]:
        patterns = {"name_text": self.name_text, "valid_names": self.valid_names, "test_names": self.test_names}
        for name, pattern in patterns.items():
            try:
                groups = re.compile(pattern or "").groupindex
            except re.error as problem:
                yield name, f"is no regular expression: {problem}"
            else:
                if name == "name_text" and pattern is not None and "text" not in groups:
                    yield name, "must have a group (?P<text>...): that is the text"


class SoundDataSettings(RecordingSettings):
    """Recordings, and what is said in each.

    Each of train, valid and test is a list (FILE.tsv, .csv, .jsonl: a path and a text a line; paths are taken from the
    folder of the list), a folder (x.wav with x.txt beside it), FILE.tar (the same, packed), or corpus:NAME.
    """

    text: Column | None = Field(
        None, description="column of the text: a name, or a number from 0; by default 'text', or the second column"
    )
    spoken: dict[str, str] = Field({}, description="texts that stand for others: {'7': seven}")
    join: JoinSettings | None = Field(None, description="make sequences of short recordings; null is as they are")
    max_length: int = Field(400, ge=2, description="texts of more tokens are left out of training")

    @property
    def columns(self) -> Columns:
        return Columns(self.path, self.text, self.header, ("path", "text"), Spoken(tuple(sorted(self.spoken.items()))))

    @property
    def joined(self) -> JoinSettings | None:
        return self.join

    @property
    def most_tokens(self) -> int:
        return self.max_length

    @property
    def limits(self) -> str:
        return f"{super().limits} or data.max_length={self.max_length} tokens"


class PyramidSettings(RecurrentSettings):
    """A pyramid of recurrent layers in both directions, each of which halves the number of frames."""

    cell: Literal["gru", "lstm"] = Field("lstm", description="recurrent cell of encoder and decoder")
    stack: int = Field(1, ge=1, description="frames that are put together before the first layer")
    pyramid: int = Field(3, ge=0, description="layers after the first that each halve the number of frames")
    encoder_layers: int = Field(1, ge=1, description="layers before the pyramid")
    positions: bool = Field(True, description="tell the decoder when each vector of the memory was heard")

    def problems(self) -> Iterator[tuple[str, str]]:
        yield from super().problems()
        if not self.bidirectional:
            yield "bidirectional", "must be true: the pyramid reads sound in both directions"
        if self.doubly_stochastic:
            yield "doubly_stochastic", "is for pictures: of sound, much is pause that no letter looks at"
        yield from _tied(self.tied)

    @property
    def reduction(self) -> int:
        """Frames for each vector of the memory."""
        return self.stack * 2**self.pyramid


class ConvolutionSettings(TransformerSettings):
    """Convolutions that make four frames one, then the blocks of a Transformer."""

    channels: int = Field(32, ge=1, description="channels of the two convolutions")

    def problems(self) -> Iterator[tuple[str, str]]:
        yield from super().problems()
        yield from _tied(self.tied)

    @property
    def reduction(self) -> int:
        return 4


def _tied(tied: str) -> Iterator[tuple[str, str]]:
    if tied == "all":
        yield "tied", "is all, but sound has no word vectors to share; output shares the decoder's"
