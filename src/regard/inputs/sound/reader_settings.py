"""What listens to sound on its own, without a decoder; and how what it heard becomes one vector."""

from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from regard.settings.pooling import PoolingSettings


class SoundRecurrentSettings(PoolingSettings):
    """A pyramid of recurrent layers in both directions, each of which halves the number of frames."""

    kind: Literal["sound_recurrent"] = Field("sound_recurrent", description="sound_recurrent or sound_transformer")
    cell: Literal["gru", "lstm"] = Field("lstm", description="recurrent cell")
    width: int = Field(128, ge=1, description="width of the states (each direction has half)")
    stack: int = Field(1, ge=1, description="frames that are put together before the first layer")
    encoder_layers: int = Field(1, ge=1, description="layers before the pyramid")
    pyramid: int = Field(2, ge=0, description="layers after the first that each halve the number of frames")
    positions: bool = Field(False, description="tell the pooling when each vector of the memory was heard")
    dropout: float = Field(0.2, ge=0, lt=1, description="share of activations dropped in training")

    def problems(self) -> Iterator[tuple[str, str]]:
        yield from super().problems()
        if self.width % 2:
            yield "width", "must be even, as each direction has half of it"

    @property
    def reduction(self) -> int:
        """Frames for each vector of the memory."""
        return self.stack * 2**self.pyramid


class SoundTransformerSettings(PoolingSettings):
    """Convolutions that make four frames one, then the blocks of a Transformer."""

    kind: Literal["sound_transformer"] = Field("sound_transformer", description="sound_recurrent or sound_transformer")
    channels: int = Field(32, ge=1, description="channels of the two convolutions")
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

    @property
    def reduction(self) -> int:
        return 4
