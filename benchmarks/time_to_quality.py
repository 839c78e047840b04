"""How long a translator trains until it is good: Multi30k English-German to 36 BLEU, each system by its own trainer.

    python benchmarks/time_to_quality.py [regard] [huggingface] [--seeds 1 2 3] [--times 3] [--rate 1e-3] [--json FILE]

It wants multi30k/train.en, … in the folder REGARD_DATA, and for Hugging Face transformers and accelerate in the same
environment. What is missing is left out, and said so.

BLEU is that of the whole validation part, greedy, by sacreBLEU (13a, mixed case). Settings were chosen by the same
part, as the time until it is reached is what is asked; the test part is not read. One thread; counted is the
processor's time from the first batch on, without validations.

regard        the recipe `multi30k-quick`, whose schedule ends about when that is reached, by the loop of `regard train`
huggingface   Marian of the same sizes, with the same subwords, by Seq2SeqTrainer. Its translation example fine-tunes
              (AdamW at 5e-5); for random weights it has the rate, schedule and decay that Hugging Face publishes for a
              model made from scratch (codeparrot-small: AdamW at 5e-4, cosine, decay 0.1), a warm-up of 1,000 steps or
              a fifth of all, label smoothing 0.1, Marian's dropout of 0.1, and batches of 64 sentences of like length.
              Its schedule ends after about `--times` as long as regard took (or `--seconds`).
"""

import argparse
import copy
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from sacrebleu.metrics.bleu import BLEU
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from peers.messages import has, peer
from regard import config, jobs
from regard.cost.hardware import processor
from regard.job import Job
from regard.outputs.text.translation import Translation
from regard.settings.model import TransformerSettings
from regard.special_tokens import END, PAD, START
from regard.training.loop import fit
from regard.training.parallel import Parallel

DATA = Path(os.environ.get("REGARD_DATA", "data"))
ENOUGH = 36.0
RECIPE, OFTEN = "multi30k-quick", {"training.validate_every": 125}
BATCH, RATE, WARM_UP, DECAY, SMOOTHING, DROPOUT = 64, 5e-4, 1000, 0.1, 0.1, 0.1
LONGEST = 80  # outputs of Hugging Face's, in subwords
PACED = 40  # steps that are timed before
VALIDATED = 10  # times in a run of Hugging Face's
SLACK = 1.2  # that it may take longer than was asked, so that its schedule comes to its end

Curve = list[dict[str, float]]


class Stopwatch:
    """Seconds of the processor since it was made, without what `validated` takes."""

    def __init__(self, name: str, translate: Callable[[], Sequence[str]], references: Sequence[str]) -> None:
        self.name, self.translate, self.references = name, translate, references
        self.start, self.curve = time.process_time(), Curve()

    @property
    def seconds(self) -> float:
        return time.process_time() - self.start

    def validated(self) -> float:
        now = self.seconds
        score = BLEU().corpus_score(list(self.translate()), [list(self.references)]).score
        self.curve.append({"seconds": now, "bleu": score})
        print(f"{self.name}: {score:.2f} BLEU after {now:.0f} s", flush=True)
        self.start += self.seconds - now
        return score


def writer(job: Job) -> Translation:
    assert isinstance(job.output, Translation)
    return job.output


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


def huggingface(job: Job, seed: int, folder: Path, seconds: float, rate: float, dropout: float) -> Curve:
    """Marian by Seq2SeqTrainer, stopped after so many seconds of training."""
    transformers = peer("transformers")
    model = marian(job, seed, dropout)
    words = writer(job).tokenizer
    train, valid = (job.splits[part].examples(10**6) for part in ("train", "valid"))
    rows = [
        {"input_ids": [*words.encode(one.input), END], "labels": [*words.encode(one.texts[0]), END]} for one in train
    ]

    def collate(batch: list[dict[str, list[int]]]) -> dict[str, Tensor]:
        inputs, labels = ([torch.tensor(row[name]) for row in batch] for name in ("input_ids", "labels"))
        padded = pad_sequence(inputs, batch_first=True, padding_value=PAD)
        wanted = pad_sequence(labels, batch_first=True, padding_value=-100)
        begun = model.prepare_decoder_input_ids_from_labels(wanted)  # as its own collator does, for label smoothing
        mask = (padded != PAD).long()
        return {"input_ids": padded, "attention_mask": mask, "decoder_input_ids": begun, "labels": wanted}

    @torch.inference_mode()
    def translate() -> list[str]:
        order = sorted(range(len(valid)), key=lambda number: len(valid[number].input))
        said = [""] * len(valid)
        for start in range(0, len(order), 128):
            part = order[start : start + 128]
            batch = collate([{"input_ids": [*words.encode(valid[i].input), END], "labels": [END]} for i in part])
            found = model.generate(
                input_ids=batch["input_ids"], attention_mask=batch["attention_mask"], num_beams=1, do_sample=False,
                max_new_tokens=LONGEST,
            )  # fmt: skip
            for number, row in zip(part, found.tolist(), strict=True):
                said[number] = words.decode(row[1 : row.index(END) if END in row else None])
        return said

    def trainer(model: Any, steps: int, *callbacks: Any) -> Any:
        how = transformers.Seq2SeqTrainingArguments(
            output_dir=str(folder), seed=seed, use_cpu=True, max_steps=steps, per_device_train_batch_size=BATCH,
            learning_rate=rate, lr_scheduler_type="cosine", warmup_steps=min(WARM_UP, steps // 5), weight_decay=DECAY,
            label_smoothing_factor=SMOOTHING, train_sampling_strategy="group_by_length", save_strategy="no",
            report_to="none", disable_tqdm=True, logging_steps=1000, dataloader_pin_memory=False,
        )  # fmt: skip
        return transformers.Seq2SeqTrainer(
            model=model, args=how, train_dataset=rows, data_collator=collate, callbacks=list(callbacks)
        )

    tried = trainer(copy.deepcopy(model), PACED)  # how long a step takes, so that the schedule can end in time
    start = time.process_time()
    tried.train()
    steps = int(seconds / (time.process_time() - start) * PACED)
    watch = Stopwatch(f"Hugging Face, seed {seed}", translate, [one.texts[0] for one in valid])

    class Watching(transformers.TrainerCallback):
        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            late = watch.seconds > SLACK * seconds
            if state.global_step % max(1, steps // VALIDATED) == 0 or state.global_step == steps or late:
                model.eval()
                control.should_training_stop = watch.validated() >= ENOUGH or late
                model.train()

    training = trainer(model, steps, Watching())
    watch.start = time.process_time()
    training.train()
    return watch.curve


def marian(job: Job, seed: int, dropout: float) -> Any:
    transformers, sizes = peer("transformers"), writer(job).recipe.model
    assert isinstance(sizes, TransformerSettings)
    transformers.set_seed(seed)
    wide, heads = sizes.feed_forward, sizes.heads
    return transformers.MarianMTModel(
        transformers.MarianConfig(
            vocab_size=writer(job).tokenizer.size, d_model=sizes.width, encoder_layers=sizes.encoder_layers,
            decoder_layers=sizes.decoder_layers, encoder_ffn_dim=wide, decoder_ffn_dim=wide,
            encoder_attention_heads=heads, decoder_attention_heads=heads,
            dropout=dropout, activation_function="relu", scale_embedding=True, max_position_embeddings=512,
            pad_token_id=PAD, bos_token_id=START, decoder_start_token_id=START, eos_token_id=END,
            forced_eos_token_id=None,
        )
    )  # fmt: skip


def reached(curve: Curve) -> float | None:
    """Seconds until a validation found enough."""
    return next((point["seconds"] for point in curve if point["bleu"] >= ENOUGH), None)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("systems", nargs="*", help="regard, huggingface; both, if none is given")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1], help="of all systems")
    parser.add_argument("--times", type=float, default=3.0, help="as long as regard took, for the others")
    parser.add_argument("--seconds", type=float, help="for the others, instead")
    parser.add_argument("--rate", type=float, default=RATE, help="of Hugging Face's")
    parser.add_argument("--dropout", type=float, default=DROPOUT, help="of Hugging Face's")
    parser.add_argument("--cache", type=Path, default=Path("runs/benchmark-quality"), help="of prepared data")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    torch.set_num_threads(1)
    if not (DATA / "multi30k" / "train.en").is_file():
        print(f"{DATA}/multi30k/train.en is missing: set REGARD_DATA. Nothing was measured.")
        return 0
    print(processor())
    job = jobs.make(config.read(RECIPE, OFTEN))
    job.prepare(given.cache)
    curves: dict[str, list[Curve]] = {}
    systems = given.systems or ["regard", "huggingface"]
    with tempfile.TemporaryDirectory() as folder:
        if "regard" in systems:
            curves["regard"] = [ours(job, seed, Path(folder) / f"regard-{seed}") for seed in given.seeds]
        took = [reached(curve) for curve in curves.get("regard", [])]
        known = [seconds for seconds in took if seconds is not None]
        limit = given.seconds or (given.times * statistics.median(known) if known else 0.0)
        if "huggingface" in systems and not (has("transformers") and has("accelerate")):
            print("transformers and accelerate are not both installed: Hugging Face is left out")
        elif "huggingface" in systems and not limit:
            print("nobody has said how long Hugging Face may train: give --seconds")
        elif "huggingface" in systems:
            curves["huggingface"] = [
                huggingface(job, seed, Path(folder) / f"hf-{seed}", limit, given.rate, given.dropout)
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
