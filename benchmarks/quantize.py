"""How much faster a language model generates with weights in fewer bits: SmolLM2-135M's shape, one text at a time.

    python benchmarks/quantize.py [--tokens 32] [--rounds 5] [--threads 0]

The weights are random: only time is measured. Each step reads all weights once, so its limit is memory bandwidth /
bytes of weights. The bandwidth is the sum of a table that is larger than any cache. It is measured directly before each
timing, because it changes from minute to minute on a shared host; `of bandwidth` is the median of these ratios. Systems
take turns; other figures are medians of the rounds. With one thread, the processor's time is reported.

With real weights, their perplexity, and other systems: `python benchmarks/smollm2.py`.
"""

import statistics
import time
from collections.abc import Callable

import click
import torch

from regard.cost.hardware import processor
from regard.generation.sampling import SamplingState, generate
from regard.layers import packed
from regard.layers.quantized import QuantizedLinear, quantize
from regard.models.language_model import LanguageModel
from regard.settings.language_model import LanguageModelSettings
from regard.tasks.text.output import build_language_model

WORDS, CONTEXT = 49152, 2048
SHAPE = {
    "vocabulary": WORDS, "width": 576, "layers": 30, "heads": 9, "kv_heads": 3, "feed_forward": 1536,
    "positions": "rotary", "norm": "rms", "activation": "swiglu", "bias": False, "tied": True, "context": CONTEXT,
}  # fmt: skip
PREFILL = 1000


def measure_bandwidth(table: torch.Tensor, rounds: int = 3) -> float:
    """Return the bytes a second that the sum of a large table reads."""
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
    written = generate(
        model, [[5, 6, 7]], SamplingState(temperature=0.0), context=CONTEXT, max_length=tokens + 1, end=None,
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
            packed.reserve(model)
            model.load_state_dict(weights)
        else:
            quantize(model, precision)
        models[precision or "float32"] = model
        step_seconds(model, 2)
    steps: dict[str, list[float]] = {name: [] for name in models}
    reading: dict[str, list[float]] = {name: [] for name in models}
    shares: dict[str, list[float]] = {name: [] for name in models}
    limits: list[float] = []
    table = torch.ones(2**26)
    for _ in range(rounds):
        for name, model in models.items():
            limits.append(measure_bandwidth(table))
            steps[name].append(step_seconds(model, tokens))
            shares[name].append(weight_bytes(model) / steps[name][-1] / limits[-1])
            reading[name].append(seconds(lambda: prefill(model)))  # noqa: B023 (called at once)
    spread = f"{min(limits) / 1e9:.1f} to {max(limits) / 1e9:.1f}"
    print(f"{processor()}; memory {statistics.median(limits) / 1e9:.1f} GB/s ({spread}); random weights")
    print(f"{'weights':<10}{'MB':>7}{'tokens/s':>10}{'× float32':>11}{'of bandwidth':>14}{'prefill of 1,000':>18}")
    for name, model in models.items():
        step, share = statistics.median(steps[name]), statistics.median(shares[name])
        gain = statistics.median(a / b for a, b in zip(steps["float32"], steps[name], strict=True))
        prefilled = PREFILL / statistics.median(reading[name])
        size = weight_bytes(model) / 1e6
        print(f"{name:<10}{size:>7.0f}{1 / step:>10.1f}{gain:>11.2f}{share:>14.0%}{prefilled:>12.0f} tokens/s")


if __name__ == "__main__":
    main()
