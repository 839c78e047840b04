"""Sentences a second in decoding, with the same weights."""

import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from peers.messages import has, median_ratio, peer, say
from peers.models import WORDS
from peers.same_weights import as_marian, require_equal_logits, trained
from regard.data.batches import pad_sentences
from regard.inputs.text.pair_batches import TokenBatches
from regard.inputs.text.pair_prepare import PreparedPairs
from regard.models.seq2seq import Seq2Seq
from regard.outputs.text.search import search
from regard.outputs.text.settings import DecodingSettings
from regard.special_tokens import END, PAD, START, UNK

LONGEST = 128  # tokens of an output, the end symbol not counted; the others do count it, and get one more
Sentences = list[list[int]]
Decode = Callable[[Sentences, int, int], Sentences]  # sources, beam, batch size → outputs


def our_decode(model: Seq2Seq) -> Decode:
    def decode(sources: Sentences, beam: int, batch: int) -> Sentences:
        # regard measures a batch in source tokens
        mean = sum(map(len, sources)) / len(sources) + 1
        how = DecodingSettings.model_validate(
            {"beam": beam, "max_length": LONGEST, "batch_tokens": round(batch * mean)}
        )
        return [found[0].tokens for found in search(model, sources, how)]

    return decode


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


def ctranslate2_decode(marian: Any, folder: Path, threads: int) -> Decode:
    ctranslate2 = peer("ctranslate2")
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
    translator = ctranslate2.Translator(str(folder), compute_type="float32", inter_threads=1, intra_threads=threads)

    def decode(sources: Sentences, beam: int, batch: int) -> Sentences:
        found = translator.translate_batch(
            [[str(token) for token in ids] for ids in sources],
            beam_size=beam, max_batch_size=batch, max_decoding_length=LONGEST + 1, length_penalty=1.0,
        )  # fmt: skip
        return [[int(token) for token in result.hypotheses[0][:LONGEST]] for result in found]

    return decode


def benchmark_decoding(data: PreparedPairs, folder: Path, rounds: int) -> list[dict]:
    model = trained(data, folder)
    assert data.test is not None
    sources = [ids[:-1].tolist() for ids, _ in (data.test[number] for number in range(len(data.test)))]
    decoders: dict[str, Decode] = {"regard": our_decode(model)}
    if has("transformers"):
        marian = as_marian(model)
        require_equal_logits(model, marian, next(TokenBatches(data.valid, 4096).epoch(0)))
        decoders["Hugging Face Marian"] = marian_decode(marian)
        if has("ctranslate2"):
            decoders["CTranslate2"] = ctranslate2_decode(marian, folder / "ctranslate2", torch.get_num_threads())
    results = []
    for beam in (1, 5):
        batch = {name: best_batch(decode, sources[::4], beam) for name, decode in decoders.items()}
        speeds: dict[str, list[float]] = {name: [] for name in decoders}
        outputs: dict[str, Sentences] = {}
        for number in range(rounds):
            for name, decode in decoders.items():
                start = time.perf_counter()
                outputs[name] = decode(sources, beam, batch[name])
                speeds[name].append(len(sources) / (time.perf_counter() - start))
            say(f"beam {beam}, round {number + 1}: " + ", ".join(f"{n} {s[-1]:.0f}" for n, s in speeds.items()))
        results += [
            {
                "beam": beam,
                "system": name,
                "sentences_per_second": statistics.median(found),
                "ratio": median_ratio(speeds["regard"], found),
                "batch": batch[name],
                "equal_outputs": sum(a == b for a, b in zip(outputs[name], outputs["regard"], strict=True)),
                "rounds": found,
            }
            for name, found in speeds.items()
        ]
    return results


def best_batch(decode: Decode, sources: Sentences, beam: int, sizes: Sequence[int] = (16, 32, 64, 128)) -> int:
    """The quickest batch size, each tried once on a part of the sentences."""
    decode(sources[:8], beam, 8)
    seconds = {}
    for size in sizes:
        start = time.perf_counter()
        decode(sources, beam, size)
        seconds[size] = time.perf_counter() - start
    return min(seconds, key=seconds.__getitem__)
