"""Marian by Hugging Face's Seq2SeqTrainer, for `benchmarks/time_to_quality.py`."""

import copy
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from peers.messages import peer
from peers.quality import ENOUGH, PACED, SLACK, VALIDATED, Curve, Stopwatch, sizes_of, writer
from regard.job import Job
from regard.special_tokens import END, PAD, START

BATCH, RATE, WARM_UP, DECAY, SMOOTHING, DROPOUT = 64, 5e-4, 1000, 0.1, 0.1, 0.1
LONGEST = 80  # outputs, in subwords


def huggingface(
    job: Job, seed: int, folder: Path, seconds: float, rate: float | None = None, dropout: float | None = None
) -> Curve:
    """Marian by Seq2SeqTrainer, stopped after so many seconds of training."""
    transformers = peer("transformers")
    model = marian(job, seed, DROPOUT if dropout is None else dropout)
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
            learning_rate=rate or RATE, lr_scheduler_type="cosine", warmup_steps=min(WARM_UP, steps // 5),
            weight_decay=DECAY, label_smoothing_factor=SMOOTHING, train_sampling_strategy="group_by_length",
            save_strategy="no", report_to="none", disable_tqdm=True, logging_steps=1000, dataloader_pin_memory=False,
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
    transformers, sizes = peer("transformers"), sizes_of(job)
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
