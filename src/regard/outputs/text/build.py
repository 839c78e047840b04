"""Build the models of recipes that generate text, from their settings."""

from typing import Any

from torch import nn

from regard.errors import CallError
from regard.models.captioner import Captioner
from regard.models.ctc import SpeechToText
from regard.models.language_model import LanguageModel
from regard.models.seq2seq import Seq2Seq
from regard.outputs.text.generate_settings import LanguageModelSettings
from regard.outputs.text.transcribe_settings import CtcSettings
from regard.parts import text_decoder
from regard.settings.model import RecurrentSettings, TransformerSettings


def build_writer(s: RecurrentSettings | TransformerSettings, tokens: int, encoder: nn.Module) -> Seq2Seq:
    """Build a decoder over the memory of this encoder, for a vocabulary of `tokens` tokens."""
    decoder = text_decoder(s, tokens, encoder)
    how: dict[str, Any] = {"tie": s.tied, "bias": s.output_bias, "label_smoothing": s.label_smoothing}
    if isinstance(s, CtcSettings):
        return SpeechToText(encoder, decoder, ctc=s.ctc, **how)
    if isinstance(s, RecurrentSettings) and s.doubly_stochastic:
        return Captioner(encoder, decoder, doubly_stochastic=s.doubly_stochastic, **how)
    return Seq2Seq(encoder, decoder, **how)


def build_language_model(s: LanguageModelSettings, tokens: int, pad: int | None = 0) -> LanguageModel:
    """Build a language model for a vocabulary of `tokens` tokens. `pad`: the id of padding, if there is one."""
    if s.vocabulary is not None and s.vocabulary < tokens:
        raise CallError(f"model.vocabulary={s.vocabulary} is less than the {tokens} tokens of the vocabulary")
    return LanguageModel(
        s.vocabulary or tokens, s.width, s.heads, s.layers,
        feed_forward=s.feed_forward, max_length=s.context, positions=s.positions, rotary_base=s.rotary_base,
        norm_kind=s.norm, norm_eps=s.norm_eps, activation=s.activation, bias=s.bias, kv_heads=s.kv_heads,
        dropout=s.dropout, tied=s.tied, label_smoothing=s.label_smoothing, pad=pad,
    )  # fmt: skip
