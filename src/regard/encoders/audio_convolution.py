"""Sound into a memory, by convolutions and self-attention: a vector for every four frames.

    two convolutions of stride 2 in time and frequency, then N Transformer blocks

Dong et al. 2018, "Speech-Transformer", ICASSP; as in ESPnet.
"""

from torch import nn

from regard.attention.learned import Learned
from regard.attention.memory import Memory
from regard.attention.sinusoidal import Sinusoidal
from regard.encoders.audio import Sounds, real_frames
from regard.encoders.text import masked_mean
from regard.layers.dropout import Dropout
from regard.layers.norm import NormKind, norm
from regard.layers.stack import through
from regard.layers.transformer import Block


class ConvolutionEncoder(nn.Module):
    """Convolutions make four frames one; blocks of self-attention follow. The summary is the mean of the memory."""

    def __init__(
        self,
        bands: int,
        channels: int,
        layers: list[Block],
        *,
        positions: Sinusoidal | Learned | None = None,
        dropout: float = 0.0,
        final_norm: NormKind | None = "layer",
    ) -> None:
        """`final_norm`: blocks with norms first leave their sum without one, so it follows the last of them."""
        super().__init__()
        width = layers[0].width
        self.reduction = 4
        self.frames = nn.Identity()  # what gradients by the input are taken of
        self.memory_width = self.summary_width = width
        self.convolutions = nn.ModuleList(
            nn.Conv2d(before, channels, kernel_size=3, stride=2, padding=1) for before in (1, channels)
        )
        self.enter = nn.Linear(channels * -(-bands // 4), width)
        self.positions = nn.Identity() if positions is None else positions
        self.dropout = Dropout(dropout)
        self.layers = nn.ModuleList(block.placed("encoder", number) for number, block in enumerate(layers))
        self.norm = nn.Identity() if final_norm is None else norm(width, final_norm)

    def forward(self, source: Sounds) -> Memory:
        mask = real_frames(source)
        x = self.frames(source.values).unsqueeze(1)  # B 1 S F
        for convolution in self.convolutions:
            # Padding has to be zeros for each convolution, as it is beyond the end of the longest recording.
            x = convolution(x * mask[:, None, :, None]).relu()
            mask = mask[:, ::2]
        x = self.enter(x.transpose(1, 2).flatten(2))
        x = self.dropout(self.positions(x))
        x = self.norm(through(self.layers, x, mask))
        return Memory(x, mask, masked_mean(x, mask))
