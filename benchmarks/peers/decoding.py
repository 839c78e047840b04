"""Sentences a second in decoding, with the same weights.

One thread is timed by its processor time, so that other work on the machine does not count.
"""

import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import torch

from peers.ctranslate2_process import LONGEST, Sentences, TranslatorProcess
from peers.messages import has, median_ratio, peer, say
from peers.models import WORDS
from peers.same_weights import as_marian, require_equal_logits, trained
from regard.cost.hardware import processor
from regard.data.batches import pad_sentences
from regard.data.files import PairSource
from regard.inputs.text.input import TextItem
from regard.job import Job
from regard.models.seq2seq import Seq2Seq
from regard.special_tokens import END, PAD, START, UNK
from regard.work import Workers

# The others count the end symbol as a token of the output: they get LONGEST + 1.
Decode = Callable[[Sentences, int, int], Sentences]  # sources, beam, batch size → outputs
Settings = dict[str, Decode]  # of one system: how it uses the cores


class Best(NamedTuple):
    """What suits a system best."""

    setting: str
    batch: int


def our_decode(data: Job, model: Seq2Seq) -> Decode:
    def decode(sources: Sentences, beam: int, batch: int) -> Sentences:
        # regard measures a batch in source tokens
        mean = sum(map(len, sources)) / len(sources) + 1
        how = {"beam": beam, "max_length": LONGEST, "batch_tokens": round(batch * mean)}
        items = [TextItem("", ids) for ids in sources]
        output: Any = data.output
        return [found[0].tokens for found in output.search(model, items, **how)]

    return decode


def settings_by_cores(decode: Decode, threads: int, stack: ExitStack) -> Settings:
    """Return both uses of the cores: one process with all threads, and as many processes with one thread each."""

    def work(shares: list[tuple[int, int, list[int]]]) -> Sentences:
        return decode([ids for _, _, ids in shares], shares[0][0], shares[0][1])

    settings = {f"1 × {threads}": decode}
    if threads > 1:
        workers = stack.enter_context(Workers(work, threads, size=lambda share: len(share[2])))
        settings[f"{threads} × 1"] = lambda sources, beam, batch: workers([(beam, batch, ids) for ids in sources])
    return settings


def marian_decode(marian: Any) -> Decode:
    @torch.inference_mode()
    def decode(sources: Sentences, beam: int, batch: int) -> Sentences:
        order = sorted(range(len(sources)), key=lambda number: -len(sources[number]))
        results: Sentences = [[] for _ in sources]
        for start in range(0, len(order), batch):
            numbers = order[start : start + batch]
            tokens = pad_sentences([sources[number] for number in numbers])
            found = marian.generate(
                input_ids=tokens, attention_mask=(tokens != PAD).long(), num_beams=beam, do_sample=False,
                max_new_tokens=LONGEST + 1, length_penalty=1.0, early_stopping=beam > 1,
            )  # fmt: skip
            for number, ids in zip(numbers, found[:, 1:].tolist(), strict=True):
                results[number] = ids[: ids.index(END)] if END in ids else ids[:LONGEST]
        return results

    return decode


def save_for_ctranslate2(marian: Any, folder: Path) -> None:
    # The loader for Marian would start decoding with a vector of zeros, as the models of that project do.
    marian.config.normalize_before = marian.config.normalize_embedding = False
    spec = peer("ctranslate2.converters.transformers").BartLoader().get_model_spec(marian)
    names = [str(number) for number in range(WORDS)]
    spec.register_source_vocabulary(names)
    spec.register_target_vocabulary(names)
    spec.config.decoder_start_token, spec.config.eos_token, spec.config.unk_token = str(START), str(END), str(UNK)
    spec.config.bos_token = str(START)
    spec.config.add_source_eos = True
    spec.validate()
    spec.optimize()
    folder.mkdir(parents=True, exist_ok=True)
    spec.save(str(folder))


def ctranslate2_settings(folder: Path, compute_type: str, threads: int, stack: ExitStack) -> Settings:
    """Return both uses of the cores, each with its default instruction set and, where there is one, with AVX-512."""
    settings: Settings = {}
    for isa in ("", "AVX512") if "AVX512" in processor() else ("",):
        for inter, intra in sorted({(1, threads), (threads, 1)}):
            process = stack.enter_context(TranslatorProcess(folder, isa, compute_type, inter, intra))
            settings[f"{inter} × {intra}{isa and f' {isa}'}"] = process
    return settings


def benchmark_decoding(data: Job, folder: Path, rounds: int, sentences: int | None = None) -> list[dict]:
    model = trained(data, folder)
    files = PairSource.by_role(data.input.data)
    text: Any = data.input
    sources, tried = (
        [text.read(text.example(pair).input).ids for pair in islice(files[role].read(), sentences)]
        for role in ("test", "valid")
    )
    threads = torch.get_num_threads()
    with ExitStack() as stack:
        systems = {"regard": settings_by_cores(our_decode(data, model), threads, stack)}
        systems |= _others(data, model, folder, threads, stack)
        return [row for beam in (1, 5) for row in _rows(systems, sources, tried, beam, rounds)]


def _others(data: Job, model: Seq2Seq, folder: Path, threads: int, stack: ExitStack) -> dict[str, Settings]:
    systems: dict[str, Settings] = {}
    if has("transformers"):
        marian = as_marian(model)
        require_equal_logits(model, marian, next(data.output.batches(data.splits["valid"], 4096).epoch(0)))
        systems["Hugging Face Marian"] = settings_by_cores(marian_decode(marian), threads, stack)
        if has("ctranslate2"):
            save_for_ctranslate2(marian, folder / "ctranslate2")
            for compute_type in ("float32", "int8"):
                settings = ctranslate2_settings(folder / "ctranslate2", compute_type, threads, stack)
                systems[f"CTranslate2 {compute_type}"] = settings
    return systems


def _rows(systems: dict[str, Settings], sources: Sentences, tried: Sentences, beam: int, rounds: int) -> list[dict]:
    best = {name: best_setting(settings, tried, beam) for name, settings in systems.items()}
    speeds: dict[str, list[float]] = {name: [] for name in systems}
    outputs: dict[str, Sentences] = {}
    for number in range(rounds):
        for name, settings in systems.items():
            outputs[name], seconds = _time(settings[best[name].setting], sources, beam, best[name].batch)
            speeds[name].append(len(sources) / seconds)
        say(f"beam {beam}, round {number + 1}: " + ", ".join(f"{n} {s[-1]:.0f}" for n, s in speeds.items()))
    return [
        {
            "beam": beam,
            "system": name,
            "sentences_per_second": statistics.median(found),
            "ratio": median_ratio(speeds["regard"], found),
            "setting": best[name].setting,
            "batch": best[name].batch,
            "equal_outputs": sum(a == b for a, b in zip(outputs[name], outputs["regard"], strict=True)),
            "rounds": found,
        }
        for name, found in speeds.items()
    ]


def best_setting(
    settings: Settings, sources: Sentences, beam: int, sizes: Sequence[int] = (32, 64, 128, 256, 512)
) -> Best:
    """The quickest use of the cores and batch size, each tried once on sentences for validation."""
    seconds: dict[Best, float] = {}
    for setting, decode in settings.items():
        decode(sources[:64], beam, 8)
        for size in sizes:
            seconds[Best(setting, size)] = _time(decode, sources, beam, size)[1]
    return min(seconds, key=seconds.__getitem__)


def _time(decode: Decode, sources: Sentences, beam: int, batch: int) -> tuple[Sentences, float]:
    """Return the outputs and the seconds: by the clock, or with one thread those of the processor that decodes."""

    def now() -> float:
        if torch.get_num_threads() > 1:
            return time.perf_counter()
        return time.process_time() + (decode.processor_seconds if isinstance(decode, TranslatorProcess) else 0.0)

    start = now()
    return decode(sources, beam, batch), now() - start
