"""Sound comes in: features of short windows, an encoder that listens to them, and seconds to look at."""

from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention import Sinusoidal
from regard.data.check_report import CheckReport
from regard.data.examples import Example, Examples
from regard.data.tables import Role
from regard.encoders.audio_convolution import ConvolutionEncoder
from regard.encoders.audio_pyramid import PyramidEncoder
from regard.errors import CallError
from regard.inputs.base import Input, Targets, Vocabulary
from regard.inputs.sound.check import check_speech
from regard.inputs.sound.clock import Clock
from regard.inputs.sound.examples import Frames, SpeechExamples, collate
from regard.inputs.sound.features import log_mel
from regard.inputs.sound.files import speech_split, speech_splits
from regard.inputs.sound.prepare import learned, stored
from regard.inputs.sound.reader_settings import SoundTransformerSettings
from regard.inputs.sound.recording import Sound, SoundError, SoundFile, is_clipped, is_silent, sound_files
from regard.inputs.sound.resample import resample
from regard.inputs.sound.settings import ConvolutionSettings
from regard.inputs.sound.store import SpeechStore, Utterance
from regard.inputs.sound.windows import Window, windows
from regard.layers.transformer import Block
from regard.look.axis import Axis, axis
from regard.parts import added_positions, build_pooling, final_norm, transformer_blocks
from regard.settings.recipe import Recipe

SEEDS: dict[Role, int] = {"valid": 1, "test": 2}  # of sequences that are joined for measuring


class SoundItem(NamedTuple):
    """A recording or a window of one. What is silent has no more than a frame, and nobody has to listen to it."""

    name: str
    features: Float[Tensor, "S F"]
    start: float  # in the recording, in seconds
    seconds: float
    silent: bool
    clipped: bool


class SoundInput(Input):
    kind: ClassVar[str] = "sound"

    def __init__(self, recipe: Recipe, section: Callable[[Any], Any] = lambda recipe: recipe.model) -> None:
        """`section`: the part of a recipe that has the sizes of the encoder."""
        super().__init__(recipe)
        self._section = section

    # ------------------------------------------------------------------------------------------------------- the files
    def prepare(self, cache: Path, targets: Targets, *, strict: bool = True) -> dict[Role, Examples]:
        data = self.data
        cache = Path(data.cache).expanduser() if data.cache else cache
        splits = speech_splits(data)
        if strict:  # test recordings are read when they are asked for
            splits.pop("test", None)
        vocabulary = learned(cache, data, splits["train"], targets)
        return {
            role: self._examples(role, stored(cache, data, role, split, vocabulary, strict=strict), vocabulary)
            for role, split in splits.items()
        }

    def _examples(self, role: Role, store: SpeechStore, vocabulary: Vocabulary | None) -> SpeechExamples:
        join, train = self.data.joined, role == "train"
        sequences = {} if join is None else {"train": join.train, "valid": join.valid, "test": join.test}
        return SpeechExamples(
            store, vocabulary,
            augment=self.data.augment if train else None,
            join=join, sequences=sequences.get(role, 0),
            seed=self.recipe.training.seed if train else SEEDS[role],
        )  # fmt: skip

    def check(self, splits: dict[Role, Examples], vocabulary: Vocabulary) -> CheckReport:
        stores: dict[Role, SpeechStore] = {
            role: one.store for role, one in splits.items() if isinstance(one, SpeechExamples)
        }
        return check_speech(self.data, stores, vocabulary.size, self.clock.reduction)

    @property
    def has_test_data(self) -> bool:
        return speech_split(self.data, "test") is not None

    def test(self) -> tuple[list[Example], str]:
        """Their sound is read when it is asked for: what is mapped into memory outlives the folder it was in."""
        split = speech_split(self.data, "test")
        if split is None:
            raise self.no_test_data()
        with TemporaryDirectory(prefix="regard-test-", ignore_cleanup_errors=True) as folder:
            cache = Path(self.data.cache).expanduser() if self.data.cache else Path(folder)
            store = stored(cache, self.data, "test", split, None, strict=False)
        examples = self._examples("test", store, None)
        bad = store.counted.counts.read.bad
        note = f"{bad} recordings of {split} that cannot be used: regard check names them" if bad else ""
        return examples.examples(len(examples)), note

    # ------------------------------------------------------------------------------------------------------- one's own
    def parse(self, words: Sequence[str]) -> list[Path]:
        """Recordings, and all recordings in folders."""
        found: list[Path] = []
        for word in words:
            path = Path(word).expanduser()
            if not path.exists():
                raise CallError(f"{word}: there is no such recording")
            inside = list(sound_files(path)) if path.is_dir() else [path]
            if not inside:
                raise CallError(f"{word}: there is no recording in this folder")
            found += inside
        return found

    def read(self, one: Any) -> SoundItem:
        """A path, `Sound(samples, rate)`, or one of the examples; as a whole."""
        (item,) = self.pieces(one, float("inf"))
        return item

    def pieces(self, one: Any, longest: float) -> Iterator[SoundItem]:
        """Cut where it is quiet into windows of at most `longest` seconds, which are read one after the other."""
        if isinstance(one, SoundItem):
            yield one
            return
        if isinstance(one, Utterance):
            one = Sound(one.load(), self.data.sound.rate, one.name)
        if not isinstance(one, Sound | str | Path):
            raise CallError(f"an input is the path of a recording, or Sound(samples, rate), not {type(one).__name__}")
        name = self.name(one)
        try:
            if isinstance(one, Sound):
                yield from (self._item(name, window) for window in windows(one, longest))
                return
            with SoundFile(Path(one).expanduser()) as file:
                yield from (self._item(name, window) for window in windows(file, longest))
        except SoundError as problem:
            raise CallError(f"{name}: {problem}") from None

    def _item(self, name: str, window: Window) -> SoundItem:
        sound, how = window.sound, self.data.sound
        silent = is_silent(sound.samples)
        heard = torch.zeros(1, how.bands) if silent else log_mel(resample(sound.samples, sound.rate, how.rate), how)
        return SoundItem(name, heard, window.start, sound.seconds, silent, is_clipped(sound.samples))

    def name(self, one: Any) -> str:
        return one.name if isinstance(one, Sound | SoundItem | Utterance) else str(one)

    def length(self, item: SoundItem) -> int:
        """In frames: it is they that cost."""
        return 0 if item.silent else len(item.features)

    def collate(self, items: Sequence[SoundItem]) -> Frames:
        return collate([item.features for item in items])

    # ------------------------------------------------------------------------------------------------------- the model
    def encoder(self, decoder: Any = None) -> nn.Module:
        s, bands = self.settings, self.data.sound.bands
        if isinstance(s, ConvolutionSettings):
            return ConvolutionEncoder(
                bands, s.channels, transformer_blocks(s, s.encoder_layers, decoder=False),
                positions=added_positions(s), dropout=s.dropout, final_norm=final_norm(s),
            )  # fmt: skip
        if isinstance(s, SoundTransformerSettings):
            blocks = [Block(s.width, s.heads, s.feed_forward, dropout=s.dropout) for _ in range(s.encoder_layers)]
            return ConvolutionEncoder(bands, s.channels, blocks, positions=Sinusoidal(s.width), dropout=s.dropout)
        return PyramidEncoder(
            bands, s.width,
            cell=s.cell, depth=s.encoder_layers, pyramid=s.pyramid, stack=s.stack,
            positions=s.positions, dropout=s.dropout,
        )  # fmt: skip

    def pooling(self, width: int) -> nn.Module:
        return build_pooling(self.settings.pooling, self.settings.score, width)

    # --------------------------------------------------------------------------------------------------------- looking
    def axis(self, item: SoundItem) -> Axis:
        """Seconds of this recording or window; the signal is the spectrogram."""
        clock, sound, frames = self.clock, self.data.sound, len(item.features)
        vectors, until = clock.vectors(frames), (frames - 1) * sound.hop + sound.window
        labels = [f"{time:.2f}" for time in clock.middles(vectors)]
        times = np.clip(clock.edges(vectors)[:-1], 0.0, until).tolist()
        return axis(labels, times=times, until=until, signal=item.features.T)

    def without(self, item: SoundItem, parts: Collection[int]) -> SoundItem:
        """These frames are made silent: every band as low as it ever is in the recording."""
        owner = torch.arange(len(item.features)) // self.clock.reduction
        quiet = torch.isin(owner, torch.tensor(sorted(parts)))
        return item._replace(features=torch.where(quiet[:, None], item.features.amin(0), item.features))

    def vectors(self, encoder: nn.Module) -> nn.Module:
        assert isinstance(encoder, ConvolutionEncoder | PyramidEncoder)
        return encoder.frames

    def gather(self, item: SoundItem, products: Sequence[np.ndarray]) -> Float[np.ndarray, "N P"]:
        table = products[0].sum(-1)  # N S
        return np.add.reduceat(table, np.arange(0, table.shape[1], self.clock.reduction), axis=1)

    # ----------------------------------------------------------------------------------------------------------- parts
    @property
    def data(self) -> Any:
        return self.recipe.data  # pyright: ignore[reportAttributeAccessIssue] (every recipe of a job has it)

    @property
    def settings(self) -> Any:
        return self._section(self.recipe)

    @property
    def clock(self) -> Clock:
        return Clock(self.data.sound, self.settings.reduction)
