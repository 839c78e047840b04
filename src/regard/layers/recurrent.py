"""Recurrent layers over a sequence of vectors, in one direction or in two.

    →h_t = f(x_t, →h_{t−1}),   ←h_t = f(x_t, ←h_{t+1}),   h_t = [→h_t; ←h_t]

f: GRU (Cho et al. 2014, arXiv:1406.1078) or LSTM (Hochreiter and Schmidhuber 1997). Both directions: Schuster and
Paliwal 1997.

Padding is at the end, after all real tokens for the forward direction. For the backward direction
each row is reversed within its own length. Packed sequences give the same, but train more slowly on a CPU (a
layer of width 256, one measurement: GRU 1.6 times, LSTM 1.3 times).
"""

from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.attention.score import Recurrence
from regard.errors import CallError
from regard.layers.feed_forward import Dropout
from regard.layers.packed import has_active_hooks, product

Cell = Literal["gru", "lstm"]


class Recurrent(nn.Module):
    """Recurrent layers. `width`: width of the output states; each of two directions has half of it."""

    def __init__(
        self,
        inputs: int,
        width: int,
        *,
        cell: Cell = "gru",
        depth: int = 1,
        bidirectional: bool = True,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if bidirectional and width % 2:
            raise CallError(f"encoder width={width} must be even: two directions have half of it each")
        self.width = width
        kind = nn.GRU if cell == "gru" else nn.LSTM
        own = width // 2 if bidirectional else width
        widths = [inputs] + [width] * (depth - 1)
        ahead, back = Recurrence("encoder"), Recurrence("encoder", backward=True)
        self.ahead = nn.ModuleList(ahead.of(kind(n, own, batch_first=True)) for n in widths)
        self.back = nn.ModuleList(back.of(kind(n, own, batch_first=True)) for n in widths if bidirectional)
        self.dropout = Dropout(dropout)

    def forward(
        self, x: Float[Tensor, "B S E"], mask: Bool[Tensor, "B S"]
    ) -> tuple[Float[Tensor, "B S D"], Float[Tensor, "B D"]]:
        """Return the states, and the last state of each direction: forward at the last token, backward at the
        first. `mask`: which of x are real; they come first."""
        lengths = mask.sum(1).clamp(min=1)
        turned = _turned_round(lengths, x.shape[1])
        for layer, ahead in enumerate(self.ahead):
            x = x if layer == 0 else self.dropout(x)
            y = ahead(x)[0]
            if self.back:
                y = torch.cat([y, _reorder(self.back[layer](_reorder(x, turned))[0], turned)], dim=-1)
            x = y
        last = _reorder(x, (lengths - 1).unsqueeze(1)).squeeze(1)
        if self.back:
            own = self.width // 2
            last = torch.cat([last[:, :own], x[:, 0, own:]], dim=-1)
        return x, last


def _turned_round(lengths: Int[Tensor, " B"], size: int) -> Int[Tensor, "B S"]:
    """Return indices that reverse the first `lengths` positions of each row and keep the others."""
    place = torch.arange(size, device=lengths.device)
    mirror = lengths.unsqueeze(1) - 1 - place
    return torch.where(mirror >= 0, mirror, place)


def _reorder(x: Float[Tensor, "B S D"], index: Int[Tensor, "B M"]) -> Float[Tensor, "B M D"]:
    return x.gather(1, index.unsqueeze(2).expand(-1, -1, x.shape[2]))


# One prediction step of recurrent layers with packed weights, as `nn.GRU` and `nn.LSTM` for a sequence of one.
#
#     GRU    r, z = σ(a + b)   n = tanh(a_n + r b_n)   h ← (1 − z) n + z h              a = W x + b_w,  b = U h + b_u
#     LSTM   i, f, o = σ(a + b)   g = tanh(a_g + b_g)   c ← f c + i g   h ← o tanh(c)
#
# Cho et al. 2014 (arXiv:1406.1078), with torch's position of r; Hochreiter and Schmidhuber 1997.

Hidden = Tensor | tuple[Tensor, Tensor]  # layers × rows × width; an LSTM has two of them


def recurrent_step(rnn: nn.GRU | nn.LSTM, x: Float[Tensor, "N 1 E"], hidden: Hidden) -> tuple[Tensor, Hidden]:
    """Return `rnn(x, hidden)`, with a new hidden state."""
    if type(rnn) not in (nn.GRU, nn.LSTM):  # a replacement in a graph
        return rnn(x, hidden)
    if torch.is_grad_enabled() or rnn.training or has_active_hooks(rnn) or not rnn.bias:
        return rnn(x, hidden)
    if torch.compiler.is_compiling() or x.device.type != "cpu" or x.dtype != torch.float32:
        return rnn(x, hidden)
    below, states, cells = x[:, 0], [], []
    for layer in range(rnn.num_layers):
        h = (hidden[0] if isinstance(hidden, tuple) else hidden)[layer]
        gates = product(rnn, below, f"weight_ih_l{layer}", f"bias_ih_l{layer}")
        if isinstance(hidden, tuple):
            product(rnn, h, f"weight_hh_l{layer}", f"bias_hh_l{layer}", out=gates, add=True)
            i, f, g, o = gates.chunk(4, 1)
            c = torch.addcmul(f.sigmoid() * hidden[1][layer], i.sigmoid(), g.tanh())
            cells.append(c)
            below = o.sigmoid() * c.tanh()
        else:
            own, both = product(rnn, h, f"weight_hh_l{layer}", f"bias_hh_l{layer}"), 2 * h.shape[1]
            r, z = (gates[:, :both] + own[:, :both]).sigmoid_().chunk(2, 1)
            n = torch.addcmul(gates[:, both:], r, own[:, both:]).tanh_()
            below = torch.lerp(n, h, z)
        states.append(below)
    after = torch.stack(states)
    return below.unsqueeze(1), (after, torch.stack(cells)) if cells else after
