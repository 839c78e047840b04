"""Replacement of unknown words by words of the source (`decoding/unknown.py`). Needs no torch."""

from regard.data.tokenizer import Tokenizer
from regard.decoding.unknown import replace_unknown
from regard.outputs.text.seen import CrossAttention, Ids
from regard.special_tokens import SPECIAL_TOKENS, UNK


def with_source_words(target: Tokenizer, tokens: Ids, seen: CrossAttention, source: Tokenizer, text: str) -> str:
    """Return the text with each unknown token replaced by its most attended source word. `text`: the input of
    `source`.
    """
    spans = source.spans(text)
    starts, ends = {span.word: span.start for span in reversed(spans)}, {span.word: span.end for span in spans}
    words = [text[starts[span.word] : ends[span.word]] for span in spans]
    marked = [SPECIAL_TOKENS[UNK] if token == UNK else "" for token in tokens]
    found = replace_unknown(marked, seen.mean, words)
    return target.decode(tokens, [word for word, token in zip(found, tokens, strict=True) if token == UNK])
