"""One model, four times: regard's and the same in three other libraries, as equal as they allow."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from peers.messages import peer
from regard.attention.positions import sinusoids
from regard.models.build import build_seq2seq
from regard.models.seq2seq import Seq2Seq
from regard.settings.model import TransformerSettings
from regard.special_tokens import END, PAD, START

LAYERS, WIDTH, HIDDEN, HEADS, WORDS = 3, 256, 1024, 8, 8000
DROPOUT, SMOOTHING = 0.1, 0.1


def ours(norm_first: bool) -> Seq2Seq:
    torch.manual_seed(0)
    how = {
        "encoder_layers": LAYERS, "decoder_layers": LAYERS, "width": WIDTH, "feed_forward": HIDDEN, "heads": HEADS,
        "norm_first": norm_first, "tied": "all", "dropout": DROPOUT, "label_smoothing": SMOOTHING,
    }  # fmt: skip
    return build_seq2seq(TransformerSettings.model_validate(how), WORDS, WORDS)


class TorchPeer(nn.Module):
    """torch.nn.Transformer and what users write around it."""

    positions: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(WORDS, WIDTH, padding_idx=PAD)
        nn.init.normal_(self.table.weight, std=WIDTH**-0.5)
        self.register_buffer("positions", sinusoids(512, WIDTH))
        self.dropout = nn.Dropout(DROPOUT)
        self.core = nn.Transformer(WIDTH, HEADS, LAYERS, LAYERS, HIDDEN, DROPOUT, batch_first=True, norm_first=True)
        for module in self.core.modules():  # dropout in the same places as elsewhere
            if isinstance(module, nn.MultiheadAttention):
                module.dropout = 0.0
            if isinstance(module, nn.TransformerEncoderLayer | nn.TransformerDecoderLayer):
                module.dropout = nn.Dropout(0.0)  # the one inside the feed-forward

    def forward(self, source: Tensor, begun: Tensor) -> Tensor:
        hidden = source == PAD
        ahead = nn.Transformer.generate_square_subsequent_mask(begun.shape[1])
        features = self.core(
            self.embed(source), self.embed(begun), tgt_mask=ahead, tgt_is_causal=True,
            src_key_padding_mask=hidden, memory_key_padding_mask=hidden,
        )  # fmt: skip
        return F.linear(features, self.table.weight)

    def embed(self, tokens: Tensor) -> Tensor:
        return self.dropout(self.table(tokens) * WIDTH**0.5 + self.positions[: tokens.shape[1]])


def marian_model() -> Any:
    transformers = peer("transformers")
    return transformers.MarianMTModel(
        transformers.MarianConfig(
            vocab_size=WORDS, d_model=WIDTH, encoder_layers=LAYERS, decoder_layers=LAYERS, encoder_ffn_dim=HIDDEN,
            decoder_ffn_dim=HIDDEN, encoder_attention_heads=HEADS, decoder_attention_heads=HEADS, dropout=DROPOUT,
            activation_function="relu", scale_embedding=True, max_position_embeddings=512, pad_token_id=PAD,
            bos_token_id=START, decoder_start_token_id=START, eos_token_id=END, forced_eos_token_id=None,
        )
    )  # fmt: skip


class MarianPeer(nn.Module):
    """Hugging Face's Marian; it has its norms last."""

    def __init__(self) -> None:
        super().__init__()
        self.core = marian_model()

    def forward(self, source: Tensor, begun: Tensor) -> Tensor:
        mask = (source != PAD).long()
        return self.core(input_ids=source, attention_mask=mask, decoder_input_ids=begun, use_cache=False).logits


class XPeer(nn.Module):
    """x-transformers, with its flash attention. It has no biases in its attention."""

    def __init__(self) -> None:
        super().__init__()
        each = {
            "num_tokens": WORDS, "max_seq_len": 512, "depth": LAYERS, "heads": HEADS, "attn_dim_head": WIDTH // HEADS,
            "attn_flash": True, "ff_mult": HIDDEN // WIDTH, "ff_custom_activation": nn.ReLU(), "emb_dropout": DROPOUT,
            "attn_sublayer_dropout": DROPOUT, "ff_sublayer_dropout": DROPOUT,
        }  # fmt: skip
        sides = {f"{side}_{name}": value for side in ("enc", "dec") for name, value in each.items()}
        self.core = peer("x_transformers").XTransformer(dim=WIDTH, tie_token_emb=True, **sides)
        self.core.decoder.net.to_logits.weight = self.core.encoder.token_emb.emb.weight

    def forward(self, source: Tensor, begun: Tensor) -> Tensor:
        mask = source != PAD
        memory = self.core.encoder(source, mask=mask, return_embeddings=True)
        return self.core.decoder.net(begun, context=memory, context_mask=mask)
