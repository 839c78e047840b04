"""Automatic settings of a reader of documents."""

from typing import Any

from regard.inputs.text import defaults as texts
from regard.settings.decisions import Decision, Plan, Sample, Size, percentile, round_up, watch


def decide(kinds: tuple[str, str], sample: Sample) -> Plan:
    questions, documents = ([one[side] for one in sample.inputs] for side in (0, 1))
    cut = texts.tokenizer(documents, sample.count)
    asked, read = (texts.token_lengths(side, cut) for side in (questions, documents))
    answers = texts.token_lengths([text for text in sample.targets if text] or ["?"], cut)
    question = round_up(percentile(asked, 99.5) + 2, 8)
    window = min(384, round_up(percentile(read, 99) + question + 3, 8))
    overlap = min(64, window // 4)
    window = max(window, question + overlap + 16)
    decisions = [
        *cut,
        Decision(
            "data.max_question", question, f"199 of 200 questions have at most {percentile(asked, 99.5):.0f} tokens"
        ),
        Decision("data.overlap", overlap, "overlap of two windows of a long document"),
        Decision("data.max_length", window, f"99 of 100 documents have at most {percentile(read, 99):.0f} tokens"),
        Decision(
            "decoding.max_length",
            round_up(percentile(answers, 99.5) + 2, 4),
            "the length of the answers, and some more",
        ),
        texts.held_out(sample.count, "questions"),
        watch("f1", "words that an answer shares with the correct one"),
    ]
    common: dict[str, Any] = {"kind": "recurrent"}
    return Plan(decisions, [
        Size("small", {**common, "width": 96, "embedding": 96, "reading_layers": 1}, 4),
        Size("middle", {**common, "width": 128, "embedding": 128}, 6),
        Size("large", {**common, "width": 192, "embedding": 192}, 10, 20_000),
    ])  # fmt: skip
