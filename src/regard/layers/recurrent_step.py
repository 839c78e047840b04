"""One prediction step of recurrent layers with packed weights, as `nn.GRU` and `nn.LSTM` for a sequence of one.

    GRU    r, z = σ(a + b)   n = tanh(a_n + r b_n)   h ← (1 − z) n + z h              a = W x + b_w,  b = U h + b_u
    LSTM   i, f, o = σ(a + b)   g = tanh(a_g + b_g)   c ← f c + i g   h ← o tanh(c)

Cho et al. 2014 (arXiv:1406.1078), with torch's position of r; Hochreiter and Schmidhuber 1997.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.layers.packed import listened, product

Hidden = Tensor | tuple[Tensor, Tensor]  # layers × rows × width; an LSTM has two of them


def recurrent_step(rnn: nn.GRU | nn.LSTM, x: Float[Tensor, "N 1 E"], hidden: Hidden) -> tuple[Tensor, Hidden]:
    """Return `rnn(x, hidden)`, with a new hidden state."""
    if type(rnn) not in (nn.GRU, nn.LSTM):  # a replacement in a graph
        return rnn(x, hidden)
    if torch.is_grad_enabled() or rnn.training or listened(rnn) or not rnn.bias:
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
