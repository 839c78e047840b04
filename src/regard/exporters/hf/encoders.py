"""Encoders of text with their heads, as BERT (norms after each part) or ESM (norms before each part)."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard.api import Run
from regard.attention.sinusoidal import sinusoids
from regard.encoders.bert import Bert
from regard.exporters.agreement import difference, require_same_tokens
from regard.exporters.base import Compared, RefusalError, misfits
from regard.exporters.hf import heads
from regard.exporters.hf.plan import FolderPlan, write_json
from regard.exporters.hf.tokenizer import write_tokenizer
from regard.inputs.tokenized import TokenizedInput
from regard.pretrained import bert, esm
from regard.pretrained.renamed import Renamed, to_theirs
from regard.settings.encoder import EncoderSettings

BERT_ACTIVATIONS = {"gelu": "gelu", "gelu_tanh": "gelu_new", "relu": "relu"}
ADDED = ["learned", "sinusoidal"]  # sinusoids leave as a table, like learned positions


class Layout(NamedTuple):
    """One of the two, for an encoder of these settings."""

    family: str
    prefix: str  # before the names of the body, where there is a head
    table: list[Renamed]
    config: dict[str, Any]


def plan(run: Run) -> "EncoderPlan":
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


def _bert(s: EncoderSettings) -> Layout:
    own = {
        "hidden_act": BERT_ACTIVATIONS[s.activation], "max_position_embeddings": s.max_positions,
        "type_vocab_size": s.token_types or 2,
    }  # fmt: skip
    return Layout("Bert", "bert", bert.table(s.layers), {**_common(s), **own})


def _esm(s: EncoderSettings) -> Layout:
    sizes: dict[str, Any] = esm.table_sizes(s.model_dump()) | {
        "positions": "rotary" if s.positions == "rotary" else "learned"
    }
    own = {
        "max_position_embeddings": s.max_positions + 1, "emb_layer_norm_before": s.embedding_norm,
        "position_embedding_type": "rotary" if s.positions == "rotary" else "absolute", "token_dropout": False,
        "mask_token_id": None,
    }  # fmt: skip
    return Layout("Esm", "esm", esm.table(**sizes), {**_common(s), **own})


class EncoderPlan(FolderPlan):
    spare = ("pooler.dense.weight", "pooler.dense.bias")  # of models whose vectors are pooled otherwise

    def __init__(self, run: Run, layout: Layout, head: heads.Head) -> None:
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
        if self.layout.family == "Esm":  # a head over attention that comes with the body; nothing reads it
            body["contact_head.regression.weight"] = torch.zeros(1, s.layers * s.heads)
            body["contact_head.regression.bias"] = torch.zeros(1)
        if s.positions == "rotary":  # computed, and kept all the same
            width = s.width // s.heads
            body["rotary_embeddings.inv_freq"] = 10000.0 ** (-torch.arange(0, width, 2).float() / width)
        whole = {f"{self.before}{name}": tensor for name, tensor in body.items()}
        return {**whole, **self.head.tensors(self.run, self.layout.prefix)}

    @property
    def before(self) -> str:
        """What the names of the body begin with."""
        return "" if self.head.bare else f"{self.layout.prefix}."

    def maps(self) -> list[Renamed]:
        return [one.prefixed("encoder.", self.before) for one in self.layout.table]

    def write_more(self, folder: Path) -> None:
        input = self.run.job.input
        longest = min(self.settings.max_positions, self.run.recipe.data.max_length + 1)
        types = self.layout.family == "Bert"
        write_tokenizer(folder, input.tokenizer, first=True, last=True, longest=longest, types=types)  # pyright: ignore[reportAttributeAccessIssue]
        for name, tree in self.head.files(self.run, longest).items():
            (folder / name).parent.mkdir(exist_ok=True)
            write_json(folder / name, tree)

    def compare(self, folder: Path, inputs: Sequence[Any]) -> Iterator[Compared]:
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
            yield Compared(
                self.run.job.input.name(one), *apart, asked.said, said, asked.said != said and asked.tied(said)
            )
