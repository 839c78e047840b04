"""How fast translators train and translate: regard beside the libraries that people use for it.

    python benchmarks/translate.py [train|decode] [--rounds N] [--data DIR] [--json]

It wants the Multi30k files (`multi30k/train.en`, …) in DIR, or in the folder REGARD_DATA; and beside regard, in one
environment with it, whatever of `benchmarks/peers.txt` is to be compared. What is missing is left out, and said so.

train    The same batches (Multi30k, joint BPE of 8,000, about 4,096 target tokens) for torch.nn.Transformer, Hugging
         Face's Marian, x-transformers and regard. All have 3+3 layers, width 256, feed-forward 1024 with relu, 8 heads,
         one table for both embeddings and the output; label smoothing 0.1; AdamW (torch's fused one), gradients cut at
         1. Dropout 0.1 of embeddings and of what each part adds, and nowhere else, in all four: dropout inside
         attention would cost the others more than us. Counted are real tokens, source and target, by the clock; with
         --threads 1 by the processor's time, which other work on the machine hardly changes.
decode   The same weights (a model of regard's, trained for three epochs and kept in the cache folder) in Hugging
         Face's Marian and in CTranslate2, in float32 and int8; the logits of Marian are compared first. The 1,000
         sentences of test_2016_flickr, greedily and with five beams, length penalty 1; a sentence is done when five
         hypotheses are. Each system has the setting that is fastest for it on validation sentences: the batch size, the
         use of the cores (processes × threads; all systems try 1 × n and n × 1), and for CTranslate2 the instruction
         set (its default, which is AVX2, and CT2_FORCE_CPU_ISA=AVX512). All get sentences sorted by length. Reported
         are sentences a second, by the clock (with --threads 1: by the processor's time), and how many outputs are
         equal to ours, token by token.

Systems take turns, update by update and pass by pass. The median counts; a ratio is the median of the ratios at each
turn, so that a disturbance of the machine, which is longer than a turn, disturbs both sides of it alike.
"""

import argparse
import json
import os
from pathlib import Path
from typing import Any

import torch

from peers.decoding import benchmark_decoding
from peers.messages import say
from peers.models import WORDS
from peers.training import benchmark_training
from regard import config, jobs
from regard.cost.hardware import processor
from regard.job import Job
from regard.native.allocation import keep_memory


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("what", nargs="?", choices=["train", "decode"], help="both, if not given")
    parser.add_argument("--rounds", type=int, help="updates to train (20) and passes to decode (3) that are timed")
    parser.add_argument("--sentences", type=int, help="to decode, of 1,000: for a quick look")
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("REGARD_DATA", "data")))
    parser.add_argument("--cache", type=Path, default=Path("runs/benchmark-translate"), help="kept between runs")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--json", action="store_true", help="one JSON document instead of tables")
    options = parser.parse_args(arguments)
    torch.set_num_threads(options.threads)
    keep_memory()  # as `regard predict` and `regard train` do; all systems have it
    if not (options.data / "multi30k" / "train.en").exists():
        return say(f"{options.data}/multi30k/train.en is missing: give --data or REGARD_DATA. Nothing was measured.")
    data = prepared(options.data / "multi30k", options.cache / "data")
    results: dict[str, Any] = {"torch": torch.__version__, "processor": processor()}
    if options.what != "decode":
        results["train"] = benchmark_training(data, options.rounds or 20)
    if options.what != "train":
        results["decode"] = benchmark_decoding(data, options.cache / "model", options.rounds or 3, options.sentences)
    if options.json:
        print(json.dumps(results, indent=2))
    else:
        show(results)


def prepared(folder: Path, cache: Path) -> Job:
    train, valid, test = (f"{folder}/{name}.en,{folder}/{name}.de" for name in ("train", "val", "test_2016_flickr"))
    how = {"train": train, "valid": valid, "test": test, "tokenizer": {"kind": "bpe", "size": WORDS, "joint": True}}
    job = jobs.make(config.read("translate-transformer", {"data": how}))
    job.prepare(cache)
    return job


def show(results: dict) -> None:
    print(f"torch {results['torch']}, {results['processor']}")
    if rows := results.get("train"):
        print(f"\n{'training':<24}{'tokens/s':>10}{'regard is':>12}{'parameters':>14}")
        for row in rows:
            print(
                f"{row['system']:<24}{row['tokens_per_second']:>10,.0f}{row['ratio']:>11.2f}×{row['parameters']:>14,}"
            )
    if rows := results.get("decode"):
        names = f"{'sentences/s':>13}{'regard is':>12}{'cores':>14}{'batch':>7}{'equal outputs':>15}"
        print(f"\n{'decoding':<24}{'beam':>5}{names}")
        for row in rows:
            print(
                f"{row['system']:<24}{row['beam']:>5}{row['sentences_per_second']:>13.0f}{row['ratio']:>11.2f}×"
                f"{row['setting']:>14}{row['batch']:>7}{row['equal_outputs']:>15,}"
            )


if __name__ == "__main__":
    main()
