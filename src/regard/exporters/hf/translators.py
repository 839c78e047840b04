"""Export text-to-text Transformers as Marian (norms after each part) or Pegasus (norms before each part).

Both have our sinusoids, in another order of features (`pretrained/marian.py`), and scaled embeddings. Marian may have
a vocabulary for each side. Pegasus has tables of one size, so the smaller is padded with rows that are never
generated. A different tokenizer of the target is in the folder `target`.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.api import Run
from regard.attention.positions import sinusoids
from regard.decoders.transformer import TransformerDecoder
from regard.encoders.text import TransformerEncoder
from regard.errors import RegardError
from regard.exporters.base import Comparison, RefusalError, misfits
from regard.exporters.hf.plan import FolderPlan, write_json, write_tokenizer
from regard.exporters.proof import compare_texts, difference, never, require_same_tokens, search_outputs
from regard.models.seq2seq import Seq2Seq
from regard.pretrained import marian
from regard.pretrained.marian import NEVER, TARGET
from regard.pretrained.weights import WeightMap, to_theirs
from regard.special_tokens import END, PAD, SPECIAL_TOKENS, START

ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "swish": "swish"}
FEWEST_POSITIONS = 512


def plan(run: Run) -> "HuggingFaceTranslatorPlan":
    model = run.model
    assert isinstance(model, Seq2Seq)
    if not isinstance(model.encoder, TransformerEncoder) or not isinstance(model.decoder, TransformerDecoder):
        raise RefusalError("of encoder-decoder models, transformers has only Transformers from text to text")
    s: Any = run.recipe.model  # pyright: ignore[reportAttributeAccessIssue]
    wrong = misfits(
        s, positions=["sinusoidal"], combine=["add"], norm=["layer"], score=["scaled_dot"],
        activation=[*ACTIVATIONS], kv_heads=[None, s.heads],
    )  # fmt: skip
    if s.width % 2:
        wrong.append(f"model.width={s.width} (only even ones)")
    if wrong:
        raise RefusalError(f"Marian and Pegasus do not have {', '.join(wrong)}")
    return HuggingFaceTranslatorPlan(run)


class HuggingFaceTranslatorPlan(FolderPlan):
    auto = "AutoModelForSeq2SeqLM"
    tags = ("translation",)

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self.explain_loading()
        self.settings: Any = run.recipe.model  # pyright: ignore[reportAttributeAccessIssue]
        self.source, self.target = run.job.input.tokenizer, run.job.output.tokenizer  # pyright: ignore[reportAttributeAccessIssue]
        self.decoding: Any = run.recipe.decoding  # pyright: ignore[reportAttributeAccessIssue]
        data: Any = run.recipe.data
        self.positions = max(FEWEST_POSITIONS, data.max_length, self.decoding.max_length + 1)
        self.shared = self.settings.tied == "all"

    @property
    def sizes(self) -> tuple[int, int]:
        """Return the number of rows of the source and target tables."""
        if self.settings.norm_first:
            return (max(self.source.size, self.target.size),) * 2
        return self.source.size, self.target.size

    def config(self) -> dict[str, Any]:
        s, (source, target) = self.settings, self.sizes
        names = ["PegasusForConditionalGeneration"] if s.norm_first else ["MarianMTModel"]
        own = (
            {"normalize_before": True, "add_final_layer_norm": True, "tie_word_embeddings": self.shared}
            if s.norm_first
            else {
                "share_encoder_decoder_embeddings": self.shared, "decoder_vocab_size": target,
                "tie_word_embeddings": s.tied != "none",
            }
        )  # fmt: skip
        return {
            "architectures": names, "model_type": "pegasus" if s.norm_first else "marian", "is_encoder_decoder": True,
            "vocab_size": source, "d_model": s.width, "encoder_layers": s.encoder_layers,
            "decoder_layers": s.decoder_layers, "encoder_attention_heads": s.heads, "decoder_attention_heads": s.heads,
            "encoder_ffn_dim": s.feed_forward, "decoder_ffn_dim": s.feed_forward,
            "activation_function": ACTIVATIONS[s.activation], "max_position_embeddings": self.positions,
            "scale_embedding": True, "dropout": s.dropout, "attention_dropout": s.attention_dropout,
            "pad_token_id": PAD, "bos_token_id": START, "eos_token_id": END, "decoder_start_token_id": START,
            "forced_eos_token_id": None, **own,
        }  # fmt: skip

    def tensors(self) -> Mapping[str, Tensor]:
        s, state, (source, target) = self.settings, self.state(), self.sizes
        order = marian.alternating(s.width)
        found = to_theirs(self.maps(), state)

        def rows(name: str, count: int) -> Tensor:
            weights = state[name][:, order.argsort()]
            return F.pad(weights, (0, 0, 0, count - len(weights)))

        bias = state.get("output.bias", torch.zeros(self.target.size))
        found["final_logits_bias"] = F.pad(bias, (0, target - len(bias)), value=NEVER).unsqueeze(0)
        positions = sinusoids(self.positions, s.width)[:, order.argsort()]
        found |= {f"model.{side}.embed_positions.weight": positions.clone() for side in marian.SIDES}
        if self.shared:
            return {**found, "model.shared.weight": rows("decoder.embedding.table.weight", target)}
        found["model.encoder.embed_tokens.weight"] = rows("encoder.embedding.table.weight", source)
        found["model.decoder.embed_tokens.weight"] = rows("decoder.embedding.table.weight", target)
        if s.norm_first or s.tied == "none":
            found["lm_head.weight"] = rows("output.weight", target)
        if s.norm_first:  # a table of Pegasus that is unused if tables are not shared
            found["model.shared.weight"] = found["model.encoder.embed_tokens.weight"].clone()
        return found

    def maps(self) -> list[WeightMap]:
        s = self.settings
        return marian.table(s.encoder_layers, s.decoder_layers, marian.alternating(s.width), final_norms=s.norm_first)

    def write_more(self, folder: Path) -> None:
        d = self.decoding
        write_json(
            folder / "generation_config.json",
            {
                "pad_token_id": PAD, "bos_token_id": START, "eos_token_id": END, "decoder_start_token_id": START,
                "num_beams": d.beam, "length_penalty": d.length_penalty, "early_stopping": d.beam > 1,
                "min_new_tokens": d.min_length, "max_new_tokens": d.max_length + 1, "suppress_tokens": never(d),
            },
        )  # fmt: skip
        write_tokenizer(folder, self.source, first=False, last=True)
        if self.target is not self.source:
            write_tokenizer(folder / TARGET, self.target, first=False, last=True)

    def compare(self, folder: Path, inputs: Sequence[Any]) -> Iterator[Comparison]:
        theirs, cut = self.load(folder), self.tokenizer(folder)
        write = cut if self.target is self.source else self.tokenizer(folder, TARGET)
        self._require_same_decoding(write)
        model, input = self.run.model, self.run.job.input
        assert isinstance(model, Seq2Seq)

        def ask(source: Tensor, mask: Tensor, greedy: bool) -> list[int]:
            how = {"num_beams": 1, "early_stopping": False, "length_penalty": 1.0} if greedy else {}
            return theirs.generate(input_ids=source, attention_mask=mask, **how)[0, 1:].tolist()

        for one, own in zip(inputs, search_outputs(self.run, inputs), strict=True):
            item = input.read(one)
            source = input.collate([item])
            require_same_tokens(source[0].tolist(), cut(one)["input_ids"], one)
            mask, target = torch.ones_like(source), torch.tensor([[*own.tokens, END]])
            with torch.inference_mode():
                logits = model.logits(model.features(model.encode(source), target))
                begun = F.pad(target[:, :-1], (1, 0), value=START)
                told = theirs(input_ids=source, attention_mask=mask, decoder_input_ids=begun).logits
                found = difference(logits, told[..., : self.target.size], "logits")
                yield Comparison(
                    one, *found, *compare_texts(self.run, one, own.held_against(partial(ask, source, mask)))
                )

    def _require_same_decoding(self, write: Any) -> None:
        """Raise a `RegardError` if their tokenizer decodes an entry of the target vocabulary differently."""
        for first in range(len(SPECIAL_TOKENS), self.target.size):
            ids = [first, self.target.size - 1]
            ours, theirs = self.target.decode(ids), write.decode(ids, skip_special_tokens=True)
            if ours.strip() != theirs.strip():
                raise RegardError(f"the tokenizer of the export decodes {theirs!r} instead of {ours!r}")
