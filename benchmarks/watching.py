"""What watching costs: the forward pass of a Transformer, watched and not watched.

    python benchmarks/watching.py                       # 12 layers of width 768, as BERT-base, on 256 tokens
    python benchmarks/watching.py --tokens 512          # three minutes of a quiet core
    python benchmarks/watching.py --layers 6 --width 256 --json

Models: `nn.TransformerEncoder` takes its fast path; `sdpa` is the same layer with scaled_dot_product_attention; `bert`
and `gpt2` are those of transformers, if it is installed. Each is watched in one layer, in all layers and not at all.
The ways take turns. Each is compared with the mean of the two passes of its round that are not watched (`not` and
`again`), and the median of the rounds counts, in processor time of all threads. `again`, compared with `not` alone,
shows how far apart two measurements of the same pass are. A model's lines are printed as soon as it is measured; after
--seconds of the clock no new round begins, so on a busy machine there are fewer rounds.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard import look

HEADS = 12


class Layer(nn.Module):
    """Pre-norm, with the fused kernel."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.project, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.feed_forward = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.project(self.norm(x)).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        return x + self.feed_forward(self.between(x))


def models(layers: int, width: int, tokens: int) -> dict[str, tuple[nn.Module, Tensor, str]]:
    """A model, what it is given, and the name of the attention in its middle."""
    x, middle = torch.randn(1, tokens, width), layers // 2
    block = nn.TransformerEncoderLayer(width, HEADS, 4 * width, batch_first=True)
    found: dict[str, tuple[nn.Module, Tensor, str]] = {
        "nn.TransformerEncoder": (nn.TransformerEncoder(block, layers), x, f"layers.{middle}.self_attn"),
        "sdpa": (nn.Sequential(*(Layer(width) for _ in range(layers))), x, str(middle)),
    }
    try:
        import transformers
    except ImportError:
        return found
    ids = torch.randint(5, 1000, (1, tokens))
    bert = transformers.BertConfig(
        vocab_size=1000, hidden_size=width, num_hidden_layers=layers, num_attention_heads=HEADS,
        intermediate_size=4 * width, max_position_embeddings=tokens,
    )  # fmt: skip
    gpt2 = transformers.GPT2Config(vocab_size=1000, n_embd=width, n_layer=layers, n_head=HEADS, n_positions=tokens)
    found["bert"] = transformers.BertModel(bert), ids, f"encoder.layer.{middle}.*"
    found["gpt2"] = transformers.GPT2Model(gpt2), ids, f"h.{middle}.*"
    return found


def benchmark(layers: int, width: int, tokens: int, rounds: int, limit: float) -> Iterator[dict]:
    for name, (model, given, middle) in models(layers, width, tokens).items():
        model.eval()
        ways: dict[str, Callable[[], Any]] = {
            "not": nullcontext,
            "one layer": lambda model=model, middle=middle: look.watching(model, only=middle),
            "all layers": lambda model=model: look.watching(model),
            "again": nullcontext,
        }
        seconds: dict[str, list[float]] = {way: [] for way in ways}
        began = time.monotonic()
        for number in range(rounds + 1):
            if number > 1 and time.monotonic() - began > limit:
                break
            for way, context in ways.items():
                with torch.inference_mode(), context():
                    start = time.process_time()
                    model(given)
                    took = time.process_time() - start
                if number:  # the first round warms up
                    seconds[way].append(took)
        plain = [(one + two) / 2 for one, two in zip(seconds["not"], seconds["again"], strict=True)]
        for way, took in seconds.items():
            beside = seconds["not"] if way == "again" else plain
            cost = 0.0 if way == "not" else statistics.median(a / b for a, b in zip(took, beside, strict=True)) - 1
            median = statistics.median(took)
            yield {"model": name, "watched": way, "seconds": median, "cost": cost, "rounds": len(took)}


def shown(row: dict) -> str:
    cost = f"{100 * row['cost']:>+7.1f}%"
    return f"{row['model']:<22} {row['watched']:<11} {1000 * row['seconds']:>8.1f} {cost} {row['rounds']:>7}"


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--width", type=int, default=768, help=f"divided among {HEADS} heads")
    parser.add_argument("--tokens", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=7, help="the median of so many measurements counts")
    parser.add_argument("--seconds", type=float, default=120.0, help="for one model; then no other round begins")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of the table")
    options = parser.parse_args(arguments)
    if options.width % HEADS:
        parser.error(f"--width {options.width} is no multiple of {HEADS} heads")
    rows = benchmark(options.layers, options.width, options.tokens, options.rounds, options.seconds)
    if options.json:
        print(json.dumps({"torch": torch.__version__, "threads": torch.get_num_threads(), "rows": [*rows]}, indent=2))
        return
    print(f"{'model':<22} {'watched':<11} {'ms':>8} {'cost':>8} {'rounds':>7}")
    for row in rows:
        print(shown(row), flush=True)


if __name__ == "__main__":
    main()
