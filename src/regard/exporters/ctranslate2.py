"""Export to CTranslate2, a fast engine for Transformers on CPUs: translators and language models, by its specs.

Its blocks match ours: queries, keys and values are one product, norms come before or after each part, and positions
are a table. Its beam search divides a log-probability by length ** length_penalty, as ours does.
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from regard.attention.positions import Learned, Sinusoidal, sinusoids
from regard.data.tokenizer import TOKENIZER, Tokenizer
from regard.decoders.transformer import TransformerDecoder
from regard.encoders.text import TransformerEncoder
from regard.exporters.base import Comparison, ExportPlan, ExportRequest, Format, RefusalError, entries, misfits
from regard.exporters.proof import (
    WRITTEN,
    LogitsModel,
    compare_texts,
    difference,
    greedy_tokens,
    never,
    search_outputs,
    suppressed_ids,
    tied_at,
)
from regard.layers.transformer import Block
from regard.models.language_model import LanguageModel
from regard.models.seq2seq import Seq2Seq
from regard.special_tokens import END

ACTIVATIONS = {"relu": "RELU", "gelu": "GELU", "gelu_tanh": "GELUTanh", "swish": "SWISH", "swiglu": "SWISH"}
POSITIONS = 1024  # rows of a table of sinusoids
TARGET = "tokenizer.target.json"


class CTranslate2(Format):
    name: ClassVar[str] = "ctranslate2"
    dtypes: ClassVar[tuple[str, ...]] = ("float32", "float16", "int8")
    writes: ClassVar[tuple[str, ...]] = ("ctranslate2",)

    def plan(self, request: ExportRequest) -> ExportPlan:
        model, s = request.run.model, request.run.recipe.model  # pyright: ignore[reportAttributeAccessIssue]
        if isinstance(model, LanguageModel):
            wrong = misfits(s, positions=["learned", "sinusoidal", "rotary"])
            wrong += [] if s.bias or s.norm == "rms" else [f"model.norm={s.norm} without model.bias"]
        elif isinstance(getattr(model, "encoder", None), TransformerEncoder) and isinstance(
            getattr(model, "decoder", None), TransformerDecoder
        ):
            wrong = misfits(s, positions=["learned", "sinusoidal"], combine=["add"], score=["scaled_dot"])
            wrong += misfits(s, kv_heads=[None, s.heads])
        else:
            raise RefusalError("it runs only Transformers that generate text from text")
        if wrong:
            raise RefusalError(f"it does not have {', '.join(wrong)}")
        return GeneratorPlan(request) if isinstance(model, LanguageModel) else TranslatorPlan(request)


class EnginePlan(ExportPlan):
    library = "ctranslate2"

    def __init__(self, request: ExportRequest) -> None:
        self.wish, self.run, self.settings = request, request.run, request.run.recipe.model  # pyright: ignore[reportAttributeAccessIssue]

    def save(self, spec: Any, folder: Path, eps: float) -> None:
        spec.config.layer_norm_epsilon = eps
        spec.validate()
        spec.optimize(quantization=None if self.wish.dtype == "float32" else self.wish.dtype)
        spec.save(str(folder))

    def activation(self) -> Any:
        from ctranslate2.specs import common_spec

        return getattr(common_spec.Activation, ACTIVATIONS[self.settings.activation])


class TranslatorPlan(EnginePlan):
    tags = ("translation",)
    how = (
        'translator = ctranslate2.Translator(FOLDER)\ntokenizer = tokenizers.Tokenizer.from_file("tokenizer.json")\n'
        "translator.translate_batch([tokenizer.encode(text).tokens], **generation)   # see generation.json"
    )

    def write(self, folder: Path) -> None:
        from ctranslate2.specs import TransformerSpec

        s, model = self.settings, self.run.model
        source, target = self.run.job.input.tokenizer, self.run.job.output.tokenizer  # pyright: ignore[reportAttributeAccessIssue]
        assert isinstance(model, Seq2Seq)
        assert isinstance(model.encoder, TransformerEncoder)
        assert isinstance(model.decoder, TransformerDecoder)
        spec: Any = TransformerSpec.from_config(
            (s.encoder_layers, s.decoder_layers), s.heads, pre_norm=s.norm_first, activation=self.activation(),
            ffn_glu=s.activation == "swiglu", rms_norm=s.norm == "rms",
        )  # fmt: skip
        fill_side(spec.encoder, model.encoder, spec.encoder.embeddings[0])
        fill_side(spec.decoder, model.decoder, spec.decoder.embeddings)
        spec.encoder.scale_embeddings = spec.decoder.scale_embeddings = math.sqrt(s.width)
        fill_linear(spec.decoder.projection, model.output)
        spec.register_source_vocabulary(entries(source, source.size))
        spec.register_target_vocabulary(entries(target, target.size))
        spec.config.add_source_eos = True
        spec.config.decoder_start_token = spec.config.bos_token
        eps = next(model.decoder._blocks()).attention_norm.eps
        self.save(spec, folder, 1e-5 if eps is None else float(eps))  # pyright: ignore[reportArgumentType]
        write_tokenizers(folder, source, target)
        write_options(folder, self.options())

    def options(self) -> dict[str, Any]:
        """Return the arguments of `translate_batch` that reproduce the search of the run."""
        d = self.run.recipe.decoding  # pyright: ignore[reportAttributeAccessIssue]
        names = self.run.job.output.tokenizer.pieces(never(d))  # pyright: ignore[reportAttributeAccessIssue]
        return {
            "beam_size": d.beam, "length_penalty": d.length_penalty, "max_decoding_length": d.max_length,
            "min_decoding_length": d.min_length, "suppress_sequences": [[name] for name in names],
            "return_end_token": True,  # it counts in the length that divides a score, as in ours
        }  # fmt: skip

    def engine(self, folder: Path) -> Any:
        import ctranslate2

        return ctranslate2.Translator(str(folder), compute_type=compute_type(self.wish.dtype), inter_threads=1)

    def test_scores(self, folder: Path, output: Any, examples: Any) -> Mapping[str, float]:
        """Return the test scores of the texts that the engine decodes."""
        engine, input = self.engine(folder), self.run.job.input
        sources = [input.tokenizer.pieces(input.read(one.input).ids) for one in examples]  # pyright: ignore[reportAttributeAccessIssue]
        target = output.tokenizer
        ids = {name: index for index, name in enumerate(entries(target, target.size))}
        found = engine.translate_batch(sources, **self.options())
        tokens = ([ids[name] for name in one.hypotheses[0]] for one in found)
        said = [target.decode([index for index in some if index != END]) for some in tokens]
        return output.scores(self.run.model, said, examples, False).values

    def compare(self, folder: Path, inputs: Sequence[Any]) -> Iterator[Comparison]:
        engine = self.engine(folder)
        model, input, target = self.run.model, self.run.job.input, self.run.job.output.tokenizer  # pyright: ignore[reportAttributeAccessIssue]
        assert isinstance(model, Seq2Seq)
        ids = {name: index for index, name in enumerate(entries(target, target.size))}

        def ask(source: list[str], greedy: bool) -> list[int]:
            how = {**self.options(), **({"beam_size": 1} if greedy else {})}
            return [ids[name] for name in engine.translate_batch([source], **how)[0].hypotheses[0]]

        for one, own in zip(inputs, search_outputs(self.run, inputs), strict=True):
            item = input.read(one)
            source = input.tokenizer.pieces(item.ids)  # pyright: ignore[reportAttributeAccessIssue]
            with torch.inference_mode():
                expected = model.score(input.collate([item]), torch.tensor([[*own.tokens, END]]))[0]
            (scored,) = engine.score_batch([source], [target.pieces(own.tokens)])
            found = difference(expected, torch.tensor(scored.log_probs), "log-probabilities")
            yield Comparison(one, *found, *compare_texts(self.run, one, own.held_against(partial(ask, source))))


class GeneratorPlan(EnginePlan):
    tags = ("text-generation",)
    how = (
        'generator = ctranslate2.Generator(FOLDER)\ntokenizer = tokenizers.Tokenizer.from_file("tokenizer.json")\n'
        "generator.generate_batch([tokenizer.encode(text).tokens])"
    )

    def write(self, folder: Path) -> None:
        from ctranslate2.specs import TransformerDecoderModelSpec

        s, model, tokenizer = self.settings, self.run.model, self.run.job.input.tokenizer  # pyright: ignore[reportAttributeAccessIssue]
        assert isinstance(model, LanguageModel)
        turned = {"rotary_dim": 0, "rotary_interleave": False, "rotary_base": s.rotary_base}
        spec = TransformerDecoderModelSpec.from_config(
            s.layers, s.heads, pre_norm=True, activation=self.activation(), ffn_glu=s.activation == "swiglu",
            rms_norm=s.norm == "rms", num_heads_kv=s.kv_heads if s.kv_heads != s.heads else None,
            **(turned if s.positions == "rotary" else {}),
        )  # fmt: skip
        fill_side(spec.decoder, model.decoder, spec.decoder.embeddings)
        spec.decoder.scale_embeddings = False
        fill_linear(spec.decoder.projection, model.output)
        names = entries(tokenizer, model.output.out_features)
        spec.register_vocabulary(names)
        specials = tokenizer.specials
        for role, index in (("bos", specials.start), ("eos", specials.end), ("unk", specials.unk)):
            setattr(spec.config, f"{role}_token", "" if index is None else names[index])
        self.save(spec, folder, float(model.decoder.norm.eps))  # pyright: ignore[reportArgumentType]
        write_tokenizers(folder, tokenizer, tokenizer)

    def engine(self, folder: Path) -> Any:
        import ctranslate2

        return ctranslate2.Generator(str(folder), compute_type=compute_type(self.wish.dtype), inter_threads=1)

    def stand_in(self, folder: Path) -> nn.Module:
        engine, model = self.engine(folder), self.run.model
        assert isinstance(model, LanguageModel)
        names = entries(self.run.job.input.tokenizer, model.output.out_features)  # pyright: ignore[reportAttributeAccessIssue]

        def ask(tokens: Tensor) -> Tensor:
            rows = [[names[index] for index in row] for row in tokens.tolist()]
            return torch.from_numpy(np.array(engine.forward_batch(rows)))

        return LogitsModel(model, ask)

    def compare(self, folder: Path, inputs: Sequence[Any]) -> Iterator[Comparison]:
        engine = self.engine(folder)
        model, tokenizer = self.run.model, self.run.job.input.tokenizer  # pyright: ignore[reportAttributeAccessIssue]
        assert isinstance(model, LanguageModel)
        names = entries(tokenizer, model.output.out_features)
        specials = tokenizer.specials
        hidden = suppressed_ids(specials)
        for text in inputs:
            read = self.run.job.input.read(text).ids[-self.settings.context + WRITTEN :]
            own = greedy_tokens(self.run, read, WRITTEN)
            told = [*read, *own]
            with torch.inference_mode():
                logits = model.logits(model.features(torch.tensor([told])))[0]
            theirs = torch.tensor(np.array(engine.forward_batch([[names[index] for index in told]])))[0]
            found = difference(logits, theirs, "logits")
            (result,) = engine.generate_batch(
                [[names[index] for index in read]], max_length=WRITTEN, include_prompt_in_result=False, beam_size=1,
                suppress_sequences=[[names[index]] for index in hidden],
            )  # fmt: skip
            written = list(result.sequences_ids[0])
            own = [index for index in own if index != specials.end]
            parted = own != written and tied_at(logits[len(read) - 1 :], own, written)
            yield Comparison(text, *found, tokenizer.decode(own), tokenizer.decode(written), parted)


def compute_type(dtype: str) -> str:
    """Return the type of computation: that of the weights, but float32 for float16 without a GPU."""
    return "int8" if dtype == "int8" else "float32"


def fill_side(spec: Any, side: TransformerEncoder | TransformerDecoder, embeddings: Any) -> None:
    """Fill the spec of an encoder or a decoder: embeddings, positions, blocks, final norm."""
    embeddings.weight = numbers(side.embedding.table.weight)
    positions = side.embedding.positions
    if isinstance(positions, Sinusoidal):
        spec.position_encodings.encodings = sinusoids(POSITIONS, positions.width).numpy()
    elif isinstance(positions, Learned):
        spec.position_encodings.encodings = numbers(positions.table)
    for layer, block in zip(spec.layer, side.layers, strict=True):
        assert isinstance(block, Block)
        fill_block(layer, block)
    if not isinstance(side.norm, nn.Identity):
        fill_norm(spec.layer_norm, side.norm)


def fill_block(spec: Any, block: Block) -> None:
    own = block.attention
    fill_linear(spec.self_attention.linear[0], own.project)
    fill_linear(spec.self_attention.linear[1], own.out)
    fill_norm(spec.self_attention.layer_norm, block.attention_norm)
    if block.cross is not None and block.cross_norm is not None:
        fill_linear(spec.attention.linear[0], block.cross.project)
        fill_linear(spec.attention.linear[1], block.cross.project_kv)
        fill_linear(spec.attention.linear[2], block.cross.out)
        fill_norm(spec.attention.layer_norm, block.cross_norm)
    widen = block.feed_forward.widen
    if block.feed_forward.gated:
        gate, value = widen.weight.chunk(2)
        spec.ffn.linear_0.weight, spec.ffn.linear_0_noact.weight = numbers(gate), numbers(value)
    else:
        fill_linear(spec.ffn.linear_0, widen)
    fill_linear(spec.ffn.linear_1, block.feed_forward.narrow)
    fill_norm(spec.ffn.layer_norm, block.feed_forward_norm)


def fill_linear(spec: Any, layer: nn.Linear) -> None:
    spec.weight = numbers(layer.weight)
    if layer.bias is not None:
        spec.bias = numbers(layer.bias)


def fill_norm(spec: Any, layer: nn.Module) -> None:
    spec.gamma = numbers(layer.weight)  # pyright: ignore[reportArgumentType]
    if getattr(layer, "bias", None) is not None:
        spec.beta = numbers(layer.bias)  # pyright: ignore[reportArgumentType]


def numbers(weights: Tensor) -> Any:
    """Return a copy as an array: the engine's quantizer multiplies arrays by their scales in place."""
    return weights.detach().float().cpu().numpy().copy()


def write_tokenizers(folder: Path, source: Tokenizer, target: Tokenizer) -> None:
    (folder / TOKENIZER).write_text(source.to_json(), encoding="utf-8")
    if target is not source:
        (folder / TARGET).write_text(target.to_json(), encoding="utf-8")


def write_options(folder: Path, options: dict[str, Any]) -> None:
    (folder / "generation.json").write_text(json.dumps(options, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
