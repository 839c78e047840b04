"""Export text encoders with their heads, as BERT (norms after each part) or ESM (norms before each part)."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard.api import Run
from regard.attention.positions import sinusoids
from regard.encoders.image import PictureEncoder, VisionTransformer, by_class_token
from regard.encoders.text import Bert
from regard.exporters.base import Comparison, RefusalError, misfits
from regard.exporters.hf import heads
from regard.exporters.hf.plan import FolderPlan, write_json, write_tokenizer
from regard.exporters.proof import difference, is_tie, require_same_tokens
from regard.inputs.tokenized import TokenizedInput
from regard.models.classifier import Classifier
from regard.pretrained import encoders, vit
from regard.pretrained.weights import WeightMap, to_theirs
from regard.settings.model import EncoderSettings

BERT_ACTIVATIONS = {"gelu": "gelu", "gelu_tanh": "gelu_new", "relu": "relu"}
ADDED = ["learned", "sinusoidal"]  # sinusoids are exported as a table, like learned positions


class EncoderLayout(NamedTuple):
    """Layout of BERT or ESM for the settings of an encoder."""

    family: str
    prefix: str  # of the names of the body, if there is a head
    table: list[WeightMap]
    config: dict[str, Any]


def plan_encoder(run: Run) -> "EncoderPlan":
    encoder, input = run.model.encoder, run.job.input
    if not isinstance(encoder, Bert) or not isinstance(input, TokenizedInput):
        raise RefusalError("of encoders of text, transformers has only Transformers with a begin token")
    head = heads.head_of(run)
    s: EncoderSettings = input.sizes
    as_bert = misfits(
        s, norm_first=[False], norm=["layer"], activation=[*BERT_ACTIVATIONS], positions=ADDED, embedding_norm=[True]
    )
    as_esm = misfits(
        s, norm_first=[True], norm=["layer"], activation=["gelu"], positions=[*ADDED, "rotary"], token_types=[0]
    )
    if head.only_bert:
        as_esm.append(f"a head for {head.only_bert}")
    if not as_bert:
        return EncoderPlan(run, _bert(s), head)
    if not as_esm:
        return EncoderPlan(run, _esm(s), head)
    raise RefusalError(f"BERT does not have {', '.join(as_bert)}, and ESM does not have {', '.join(as_esm)}")


def _common(s: EncoderSettings) -> dict[str, Any]:
    return {
        "hidden_size": s.width, "num_hidden_layers": s.layers, "num_attention_heads": s.heads,
        "intermediate_size": s.feed_forward, "layer_norm_eps": s.eps, "hidden_dropout_prob": s.dropout,
        "attention_probs_dropout_prob": s.attention_dropout,
    }  # fmt: skip


def _bert(s: EncoderSettings) -> EncoderLayout:
    own = {
        "hidden_act": BERT_ACTIVATIONS[s.activation], "max_position_embeddings": s.max_positions,
        "type_vocab_size": s.token_types or 2,
    }  # fmt: skip
    return EncoderLayout("Bert", "bert", encoders.bert_table(s.layers), {**_common(s), **own})


def _esm(s: EncoderSettings) -> EncoderLayout:
    sizes: dict[str, Any] = encoders.table_sizes(s.model_dump()) | {
        "positions": "rotary" if s.positions == "rotary" else "learned"
    }
    own = {
        "max_position_embeddings": s.max_positions + 1, "emb_layer_norm_before": s.embedding_norm,
        "position_embedding_type": "rotary" if s.positions == "rotary" else "absolute", "token_dropout": False,
        "mask_token_id": None,
    }  # fmt: skip
    return EncoderLayout("Esm", "esm", encoders.esm_table(**sizes), {**_common(s), **own})


class EncoderPlan(FolderPlan):
    spare = ("pooler.dense.weight", "pooler.dense.bias")  # of models with another pooling

    def __init__(self, run: Run, layout: EncoderLayout, head: heads.Head) -> None:
        super().__init__(run)
        self.layout, self.head = layout, head
        self.auto, self.tags = head.auto, (head.tag,)
        self.explain_loading()
        self.settings: EncoderSettings = run.job.input.sizes  # pyright: ignore[reportAttributeAccessIssue]

    def config(self) -> dict[str, Any]:
        tokenizer = self.run.job.input.tokenizer  # pyright: ignore[reportAttributeAccessIssue]
        specials = tokenizer.specials
        return {
            "architectures": [self.layout.family + self.head.architecture],
            "model_type": self.layout.family.lower(),
            "vocab_size": tokenizer.size,
            "pad_token_id": specials.pad,
            **self.layout.config,
            **self.head.config(self.run),
        }

    def tensors(self) -> Mapping[str, Tensor]:
        s, own = self.settings, "encoder."
        state = {name.removeprefix(own): one for name, one in self.state().items() if name.startswith(own)}
        if s.positions == "sinusoidal":
            state["embedding.positions.table"] = sinusoids(s.max_positions, s.width)
        if not s.token_types:
            state["types.weight"] = torch.zeros(2, s.width)
        body = to_theirs(self.layout.table, state)
        if self.layout.family == "Esm":  # a head over attention is part of the body; nothing reads it
            body["contact_head.regression.weight"] = torch.zeros(1, s.layers * s.heads)
            body["contact_head.regression.bias"] = torch.zeros(1)
        if s.positions == "rotary":  # computed, but stored, too
            width = s.width // s.heads
            body["rotary_embeddings.inv_freq"] = 10000.0 ** (-torch.arange(0, width, 2).float() / width)
        whole = {f"{self.before}{name}": tensor for name, tensor in body.items()}
        return {**whole, **self.head.tensors(self.run, self.layout.prefix)}

    @property
    def before(self) -> str:
        """Return the prefix of the names of the body."""
        return "" if self.head.bare else f"{self.layout.prefix}."

    def maps(self) -> list[WeightMap]:
        return [one.with_prefix("encoder.", self.before) for one in self.layout.table]

    def write_more(self, folder: Path) -> None:
        input = self.run.job.input
        longest = min(self.settings.max_positions, self.run.recipe.data.max_length + 1)
        types = self.layout.family == "Bert"
        write_tokenizer(folder, input.tokenizer, first=True, last=True, longest=longest, types=types)  # pyright: ignore[reportAttributeAccessIssue]
        for name, tree in self.head.files(self.run, longest).items():
            (folder / name).parent.mkdir(exist_ok=True)
            write_json(folder / name, tree)

    def compare(self, folder: Path, inputs: Sequence[Any]) -> Iterator[Comparison]:
        theirs, cut = self.load(folder), self.tokenizer(folder)
        for one in inputs:
            asked = self.head.ask(self.run, one)
            if asked.texts is not None:
                require_same_tokens(asked.tokens[0].tolist(), cut(*asked.texts)["input_ids"], asked.texts[0])
            types = {} if asked.types is None else {"token_type_ids": asked.types}
            with torch.inference_mode():
                out = theirs(input_ids=asked.tokens, attention_mask=torch.ones_like(asked.tokens), **types)
                found = asked.read(out)
            apart = difference(asked.expected, found, asked.what)
            said = asked.say(found)
            yield Comparison(
                self.run.job.input.name(one), *apart, asked.said, said, asked.said != said and asked.tied(said)
            )


# Image classifiers as Vision Transformers.

BILINEAR = 2  # Pillow's number


def plan_vit(run: Run) -> "VitPlan":
    model, s = run.model, run.recipe.model  # pyright: ignore[reportAttributeAccessIssue]
    assert isinstance(model, Classifier)
    if not isinstance(model.encoder, PictureEncoder) or not isinstance(model.encoder.body, VisionTransformer):
        raise RefusalError("of classifiers of pictures, transformers has our Vision Transformer only (model.kind=vit)")
    wrong = misfits(s, stem=[[], ()])
    if not by_class_token(model.encoder, model.pooling):
        wrong.append("a pooling of regions (only the class token, model.pooling=summary)")
    if run.job.output.labels.several:  # pyright: ignore[reportAttributeAccessIssue]
        wrong.append("several labels a picture")
    if wrong:
        raise RefusalError(f"ViT does not have {', '.join(wrong)}")
    return VitPlan(run, model.encoder, model.encoder.body)


class VitPlan(FolderPlan):
    auto, tags = "AutoModelForImageClassification", ("image-classification",)

    def __init__(self, run: Run, encoder: PictureEncoder, body: VisionTransformer) -> None:
        super().__init__(run)
        self.encoder, self.body = encoder, body
        self.explain_loading("processor", "AutoImageProcessor")
        self.notes = [] if run.recipe.data.fit == "squash" else [
            f"data.fit={run.recipe.data.fit}: other programs resize pictures without keeping the aspect ratio"
        ]  # fmt: skip

    def config(self) -> dict[str, Any]:
        s, body = self.run.recipe.model, self.body  # pyright: ignore[reportAttributeAccessIssue]
        block: Any = body.layers[0]
        names = self.run.job.output.labels.names  # pyright: ignore[reportAttributeAccessIssue]
        return {
            "architectures": ["ViTForImageClassification"], "model_type": "vit", "image_size": list(body.size),
            "patch_size": s.patch, "num_channels": body.channels, "hidden_size": s.width,
            "num_hidden_layers": s.layers, "num_attention_heads": s.heads,
            "intermediate_size": block.feed_forward.narrow.in_features, "hidden_act": "gelu", "qkv_bias": True,
            "layer_norm_eps": block.attention_norm.eps, "hidden_dropout_prob": s.dropout,
            "id2label": {str(number): name for number, name in enumerate(names)},
            "label2id": {name: number for number, name in enumerate(names)},
        }  # fmt: skip

    def tensors(self) -> Mapping[str, Tensor]:
        return to_theirs(self.maps(), self.state())

    def maps(self) -> list[WeightMap]:
        return vit.table(len(self.body.layers))

    def write_more(self, folder: Path) -> None:
        rows, columns = self.body.size
        mean, deviation = (x.flatten().tolist() for x in (self.encoder.mean, self.encoder.deviation))
        write_json(
            folder / "preprocessor_config.json",
            {
                "image_processor_type": "ViTImageProcessor", "do_resize": True, "resample": BILINEAR,
                "size": {"height": rows, "width": columns}, "do_rescale": True, "rescale_factor": 1 / 255,
                "do_normalize": True, "image_mean": mean, "image_std": deviation,
            },
        )  # fmt: skip

    def compare(self, folder: Path, inputs: Sequence[Any]) -> Iterator[Comparison]:
        import transformers

        theirs, ours = self.load(folder), self.run.model
        processor = transformers.AutoImageProcessor.from_pretrained(folder)
        names, input = self.run.job.output.labels.names, self.run.job.input  # pyright: ignore[reportAttributeAccessIssue]
        for one in inputs:
            pixels = input.read(one).pixels
            seen = processor(pixels.numpy(), return_tensors="pt", input_data_format="channels_first")
            with torch.inference_mode():
                expected = ours.logits(input.collate([input.read(one)]))[0]  # pyright: ignore[reportCallIssue]
                found = theirs(**seen).logits[0]
            said, told = (names[int(logits.argmax())] for logits in (expected, found))
            apart = difference(expected, found, "logits")
            yield Comparison(input.name(one), *apart, said, told, is_tie(self.run, one, said, told))
