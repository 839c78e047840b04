"""What a language model gains from weights in fewer bits: SmolLM2-135M's shape, one text, beside what memory can do.

    python benchmarks/quantize.py [--tokens 32] [--rounds 5] [--threads 0]

The weights are random: only time is measured here. A step reads all weights once, so the most it can do is bandwidth /
bytes of weights. The bandwidth is measured in the same run, as the sum of a table that is larger than any cache.
Steps are those after the first token, whose prompt is read at once; prefill reads 1,000 tokens at once. Systems take
turns, and the median of the rounds counts. With one thread, the time of the processor counts, so that other work on the
machine disturbs less.

With real weights, their perplexity, and other systems beside it: `python benchmarks/smollm2.py`.
"""

import statistics
import time
from collections.abc import Callable

import click
import torch

from regard.cost.hardware import processor
from regard.decoding.continuing import Sampling, continued
from regard.layers import large_pages
from regard.layers.quantized import QuantizedLinear, quantize
from regard.models.language_model import LanguageModel
from regard.outputs.text.build import build_language_model
from regard.outputs.text.generate_settings import LanguageModelSettings

WORDS, CONTEXT = 49152, 2048
SHAPE = {
    "vocabulary": WORDS, "width": 576, "layers": 30, "heads": 9, "kv_heads": 3, "feed_forward": 1536,
    "positions": "rotary", "norm": "rms", "activation": "swiglu", "bias": False, "tied": True, "context": CONTEXT,
}  # fmt: skip
PREFILL = 1000


def bandwidth(rounds: int = 7) -> float:
    """Bytes a second."""
    table = torch.ones(2**26)
    return table.nbytes / statistics.median(seconds(table.sum) for _ in range(rounds))


def seconds(work: Callable[[], object]) -> float:
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    started = clock()
    work()
    return clock() - started


def weight_bytes(model: LanguageModel) -> int:
    """What a step reads: all matrices, the table of the output layer included, and one row of the embedding."""
    quantized = [module for module in model.modules() if isinstance(module, QuantizedLinear)]
    if quantized:
        return sum(module.nbytes for module in quantized)
    return sum(weight.nbytes for weight in model.parameters())


def step_seconds(model: LanguageModel, tokens: int) -> float:
    """Of one, in the mean of so many."""
    written = continued(
        model, [[5, 6, 7]], Sampling(temperature=0.0), context=CONTEXT, max_length=tokens + 1, end=None,
        device=torch.device("cpu"),
    )  # fmt: skip
    next(written)
    return seconds(lambda: list(written)) / tokens


@torch.inference_mode()
def prefill(model: LanguageModel) -> None:
    model.read(torch.arange(PREFILL).unsqueeze(0) + 5, model.start(1, places=PREFILL))


@click.command()
@click.option("--tokens", type=click.IntRange(min=2), default=32, help="Tokens to write.")
@click.option("--rounds", type=click.IntRange(min=1), default=5)
@click.option("--threads", type=click.IntRange(min=0), default=0, help="0: as many as torch takes.")
def main(tokens: int, rounds: int, threads: int) -> None:
    if threads:
        torch.set_num_threads(threads)
    models: dict[str, LanguageModel] = {}
    for precision in (None, "bf16", "int8"):
        torch.manual_seed(0)
        model = build_language_model(LanguageModelSettings.model_validate(SHAPE), WORDS).eval()
        if precision is None:
            weights = model.state_dict()
            large_pages.reserve(model)
            model.load_state_dict(weights)
        else:
            quantize(model, precision)
        models[precision or "float32"] = model
        step_seconds(model, 2)
    steps: dict[str, list[float]] = {name: [] for name in models}
    reading: dict[str, list[float]] = {name: [] for name in models}
    limits = []
    for _ in range(rounds):
        limits.append(bandwidth(3))
        for name, model in models.items():
            steps[name].append(step_seconds(model, tokens))
            reading[name].append(seconds(lambda: prefill(model)))  # noqa: B023 (called at once)
    limit = statistics.median(limits)
    print(f"{processor()}; memory {limit / 1e9:.1f} GB/s; random weights")
    print(f"{'weights':<10}{'MB':>7}{'tokens/s':>10}{'× float32':>11}{'of bandwidth':>14}{'prefill of 1,000':>18}")
    for name, model in models.items():
        step = statistics.median(steps[name])
        gain = statistics.median(a / b for a, b in zip(steps["float32"], steps[name], strict=True))
        share = weight_bytes(model) / step / limit
        prefilled = PREFILL / statistics.median(reading[name])
        size = weight_bytes(model) / 1e6
        print(f"{name:<10}{size:>7.0f}{1 / step:>10.1f}{gain:>11.2f}{share:>14.0%}{prefilled:>12.0f} tokens/s")


if __name__ == "__main__":
    main()
