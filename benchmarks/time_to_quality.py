"""How long a translator trains until it is good: Multi30k English-German to 36 BLEU, each system by its own trainer.

    python benchmarks/time_to_quality.py [regard] [huggingface] [joeynmt] [--seeds 1 2 3] [--times 3] [--json FILE]

It wants multi30k/train.en, … in the folder REGARD_DATA, and in the same environment transformers and accelerate for
Hugging Face, joeynmt for JoeyNMT (benchmarks/peers.txt). What is missing is left out, and said so.

BLEU is that of the whole validation part, greedy, by sacreBLEU (13a, mixed case). Settings were chosen by the same
part, as the time until it is reached is what is asked; the test part is not read. One thread; counted is the
processor's time from the first batch on, without validations.

regard        the recipe `multi30k-quick`, whose schedule ends about when that is reached, by the loop of `regard train`
huggingface   Marian of the same sizes, with the same subwords, by Seq2SeqTrainer. Its translation example fine-tunes
              (AdamW at 5e-5); for random weights it has the rate, schedule and decay that Hugging Face publishes for a
              model made from scratch (codeparrot-small: AdamW at 5e-4, cosine, decay 0.1), a warm-up of 1,000 steps or
              a fifth of all, label smoothing 0.1, Marian's dropout of 0.1, and batches of 64 sentences of like length.
              Its schedule ends after about `--times` as long as regard took (or `--seconds`).
joeynmt       its Transformer of the same sizes, with the same subwords, all embeddings tied, by its TrainManager, as in
              its configs/iwslt14_deen_bpe.yaml: layer norm first, Xavier, Adam, loss per token, label smoothing 0.1.
              Dropout 0.1 and the rate are those of its configs/transformer_small.yaml, which had Noam's schedule in
              version 1 (factor 0.5, warm-up 1,000: a peak of 1.4e-3 at this width). Here that is its
              warmupinversesquareroot, the same with a fixed peak, so that the warm-up can be a fifth of a short run.
              (`plateau` of the first asks torch for an argument that is gone.) Batches of 2,048 tokens, padding
              included, of sentences as they come: it does not sort. About as long as Hugging Face.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
from pathlib import Path

import torch
from torch import nn

from peers.messages import has
from peers.quality import ENOUGH, Curve, Stopwatch, writer
from peers.quality_huggingface import huggingface
from peers.quality_joeynmt import joeynmt
from regard import config
from regard.cost.hardware import processor
from regard.job import Job, make_job
from regard.training.loop import fit
from regard.training.parallel import Parallel

DATA = Path(os.environ.get("REGARD_DATA", "data"))
RECIPE, OFTEN = "multi30k-quick", {"training.validate_every": 125}
OTHERS = {
    "huggingface": ("Hugging Face", ["transformers", "accelerate"], huggingface),
    "joeynmt": ("JoeyNMT", ["joeynmt"], joeynmt),
}


def ours(job: Job, seed: int, folder: Path) -> Curve:
    """`regard train`'s loop; what is validated is what it would save."""
    settings = job.recipe.training.model_copy(update={"seed": seed})
    torch.manual_seed(seed)
    model, valid = writer(job).build(), job.splits["valid"].examples(10**6)
    watch = Stopwatch(f"regard, seed {seed}", lambda: writer(job).greedily(model, [one.input for one in valid]),
                      [one.texts[0] for one in valid])  # fmt: skip

    def evaluate(model: nn.Module) -> dict[str, float]:
        model.eval()
        score = watch.validated()
        model.train()
        return {settings.metric: score}

    fit(model, job.batches(), settings, folder, evaluate=evaluate, parallel=Parallel(device=torch.device("cpu")),
        on_message=lambda text: None)  # fmt: skip
    return watch.curve


def reached(curve: Curve) -> float | None:
    """Seconds until a validation found enough."""
    return next((point["seconds"] for point in curve if point["bleu"] >= ENOUGH), None)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("systems", nargs="*", help="regard, huggingface, joeynmt; all, if none is given")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1], help="of all systems")
    parser.add_argument("--times", type=float, default=3.0, help="as long as regard took, for the others")
    parser.add_argument("--seconds", type=float, help="for the others, instead")
    parser.add_argument("--rate", type=float, help="of the others, instead of their own")
    parser.add_argument("--dropout", type=float, help="of the others, instead of their own")
    parser.add_argument("--cache", type=Path, default=Path("runs/benchmark-quality"), help="of prepared data")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    torch.set_num_threads(1)
    if not (DATA / "multi30k" / "train.en").is_file():
        print(f"{DATA}/multi30k/train.en is missing: set REGARD_DATA. Nothing was measured.")
        return 0
    print(processor())
    job = make_job(config.read(RECIPE, OFTEN))
    job.prepare(given.cache)
    curves: dict[str, list[Curve]] = {}
    systems = given.systems or ["regard", *OTHERS]
    with tempfile.TemporaryDirectory() as folder:
        if "regard" in systems:
            curves["regard"] = [ours(job, seed, Path(folder) / f"regard-{seed}") for seed in given.seeds]
        took = [reached(curve) for curve in curves.get("regard", [])]
        known = [seconds for seconds in took if seconds is not None]
        limit = given.seconds or (given.times * statistics.median(known) if known else 0.0)
        for system in [name for name in OTHERS if name in systems]:
            name, packages, train = OTHERS[system]
            if not all(has(package) for package in packages):
                print(f"{' and '.join(packages)} must be installed: {name} is left out")
            elif not limit:
                print(f"nobody has said how long {name} may train: give --seconds")
            else:
                curves[system] = [
                    train(job, seed, Path(folder) / f"{system}-{seed}", limit, given.rate, given.dropout)
                    for seed in given.seeds
                ]
    for name, found in curves.items():
        for curve in found:
            after, best = reached(curve), max(point["bleu"] for point in curve)
            said = f"{ENOUGH} BLEU after {after:.0f} s" if after else f"{ENOUGH} BLEU was not reached"
            print(f"{name}: {said}; best {best:.2f}, last {curve[-1]['bleu']:.2f} after {curve[-1]['seconds']:.0f} s")
    if given.json:
        given.json.write_text(json.dumps(curves, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
