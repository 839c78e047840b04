"""Sound input: features of short windows, an encoder, and a time axis in seconds."""

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import nn

from regard.attention import Sinusoidal
from regard.data.batches import Padded
from regard.encoders.audio_convolution import ConvolutionEncoder
from regard.encoders.audio_pyramid import PyramidEncoder
from regard.inputs.base import summary_of
from regard.inputs.sound.data import SoundData
from regard.inputs.sound.item import SoundItem
from regard.inputs.sound.settings import ConvolutionSettings, SoundTransformerSettings
from regard.layers.transformer import Block
from regard.look.axis import Axis
from regard.parts import added_positions, build_pooling, final_norm, transformer_blocks


class SoundInput(SoundData):
    def collate(self, items: Sequence[SoundItem]) -> Padded:
        return Padded.of([torch.from_numpy(item.features) for item in items])

    def plain(self, one: Any) -> Float[np.ndarray, " D"]:
        """Return the course of each band and its variation."""
        return summary_of(self.read(one).features)

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

    # ---------------------------------------------------------------------------------------------------- explanations
    def axis(self, item: SoundItem) -> Axis:
        return self.times.axis(item.features)

    def without(self, item: SoundItem, parts: Collection[int]) -> SoundItem:
        """Return the item with these frames silent: every band at its minimum in the recording."""
        quiet = np.isin(np.arange(len(item.features)) // self.times.reduction, sorted(parts))
        return item._replace(features=np.where(quiet[:, None], item.features.min(axis=0), item.features))

    def vectors(self, encoder: nn.Module) -> nn.Module:
        assert isinstance(encoder, ConvolutionEncoder | PyramidEncoder)
        return encoder.frames

    def gather(self, item: SoundItem, products: Sequence[np.ndarray]) -> Float[np.ndarray, "N P"]:
        table = products[0].sum(-1)  # N S
        return np.add.reduceat(table, np.arange(0, table.shape[1], self.times.reduction), axis=1)
