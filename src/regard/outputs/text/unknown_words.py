"""A text in which words of its source stand for what the vocabulary does not know (`decoding/unknown.py`). No torch."""

from regard.data.tokenizer import Tokenizer
from regard.decoding.unknown import replace_unknown
from regard.outputs.text.seen import CrossAttention, Ids
from regard.special_tokens import SPECIAL_TOKENS, UNK


def with_source_words(target: Tokenizer, tokens: Ids, seen: CrossAttention, source: Tokenizer, text: str) -> str:
    """`text`: what was read, by `source`; each unknown token becomes the word of it that was most attended to."""
    spans = source.spans(text)
    starts, ends = {span.word: span.start for span in reversed(spans)}, {span.word: span.end for span in spans}
    words = [text[starts[span.word] : ends[span.word]] for span in spans]
    marked = [SPECIAL_TOKENS[UNK] if token == UNK else "" for token in tokens]
    found = replace_unknown(marked, seen.mean, words)
    return target.decode(tokens, [word for word, token in zip(found, tokens, strict=True) if token == UNK])
