"""Speed of training and decoding of translators: regard compared with the libraries that people use.

    python benchmarks/translate.py [train|decode] [--rounds N] [--data DIR] [--json]

Needs the Multi30k files (`multi30k/train.en`, …) in DIR or in the folder REGARD_DATA, and the libraries of
`benchmarks/peers.txt` in the same environment. A library that is missing is left out and named.

train    Compared: torch.nn.Transformer, Hugging Face Marian, x-transformers and regard, on the same batches (Multi30k,
         joint BPE of 8,000, about 4,096 target tokens). Settings of all: 3+3 layers, width 256, feed-forward 1024 with
         relu, 8 heads, one table for both embeddings and the output, label smoothing 0.1, torch's fused AdamW,
         gradients cut at 1, --threads threads. Dropout is 0.1 of embeddings and of what each part adds, and nowhere
         else: dropout inside attention would cost the others more than regard. Counted are real tokens, source and
         target.
decode   Compared: the same weights in regard, in Hugging Face Marian and in CTranslate2 (float32 and int8). They are a
         model of regard, trained for three epochs and kept in the cache folder; the logits of Marian must be equal.
         The 1,000 sentences of test_2016_flickr, sorted by length; greedy and with five beams, length penalty 1; a
         sentence ends when five hypotheses have ended. Each system gets its fastest settings, tried on validation
         sentences: the batch size (32 to 512); the use of the cores (one process with n threads, or n processes with
         one thread); and for CTranslate2 the instruction set (its default, which is AVX2, and
         CT2_FORCE_CPU_ISA=AVX512). Reported are sentences a second and how many outputs are equal to those of regard,
         token by token.

Time is that of the clock; with --threads 1 it is processor time, which other programs hardly change. Systems take
turns, update by update and pass by pass. Figures are medians; a ratio is the median of the ratios of each turn, so that
a disturbance of the machine affects both sides of it.
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
from regard import config
from regard.cost.hardware import processor
from regard.job import Job, make_job
from regard.kernels.compiled import keep_memory


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
    job = make_job(config.read("translate-transformer", {"data": how}))
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
