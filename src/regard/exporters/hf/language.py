"""Export language models in the layout of GPT-2, Llama, or Arcee (Llama with a plain feed-forward)."""

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.api import Run
from regard.attention.positions import sinusoids
from regard.exporters.base import Comparison, RefusalError, misfits
from regard.exporters.hf.plan import FolderPlan, write_json, write_tokenizer
from regard.exporters.proof import WRITTEN, difference, greedy_tokens, require_same_tokens, tied_at
from regard.models.language_model import LanguageModel
from regard.pretrained import language
from regard.pretrained.weights import WeightMap, to_theirs

ACTIVATIONS = {"gelu": "gelu", "gelu_tanh": "gelu_new", "relu": "relu"}


class LanguagePlan(FolderPlan):
    auto = "AutoModelForCausalLM"
    tags = ("text-generation",)
    prefix: str  # of the names of the body

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self.explain_loading()
        assert isinstance(run.model, LanguageModel)
        self.model = run.model
        self.settings: Any = run.recipe.model  # pyright: ignore[reportAttributeAccessIssue]
        specials = run.job.input.tokenizer.specials  # pyright: ignore[reportAttributeAccessIssue]
        self.specials = {"pad_token_id": specials.pad, "bos_token_id": specials.start, "eos_token_id": specials.end}

    @property
    @abstractmethod
    def table(self) -> list[WeightMap]:
        """Return the map from names of our weights to names of the layout."""

    @property
    def eps(self) -> float:
        return float(self.model.decoder.norm.eps)  # pyright: ignore[reportArgumentType]

    @property
    def hidden(self) -> int:
        """Return the inner width of the feed-forward layers."""
        return self.model.decoder.layers[0].feed_forward.narrow.in_features  # pyright: ignore[reportReturnType, reportAttributeAccessIssue]

    def tensors(self) -> Mapping[str, Tensor]:
        found = self.weights()
        return {name if name.startswith("lm_head") else f"{self.prefix}.{name}": one for name, one in found.items()}

    def weights(self, *, transposed: bool = True) -> dict[str, Tensor]:
        """Return weights without the prefix; `transposed`: in the order of the layout, else all output × input."""
        state = self.state()
        if self.settings.positions == "sinusoidal":
            state["decoder.embedding.positions.table"] = sinusoids(self.settings.context, self.settings.width)
        found = to_theirs([one if transposed else replace(one, turned=False) for one in self.table], state)
        return found if self.settings.tied else {**found, "lm_head.weight": state["output.weight"]}

    def maps(self) -> list[WeightMap]:
        return [one.with_prefix("", f"{self.prefix}.") for one in self.table]

    def write_more(self, folder: Path) -> None:
        input, decoding = self.run.job.input, self.run.recipe.decoding  # pyright: ignore[reportAttributeAccessIssue]
        never = {self.specials["pad_token_id"], input.tokenizer.specials.unk, self.specials["bos_token_id"]}  # pyright: ignore[reportAttributeAccessIssue]
        never -= {None, self.specials["eos_token_id"]}
        sampled = decoding.temperature > 0
        how = {
            **self.specials,
            "do_sample": sampled,
            "max_new_tokens": min(decoding.max_length, self.settings.context),
            "repetition_penalty": decoding.repetition_penalty,
            **({"suppress_tokens": sorted(never)} if never else {}),
            **({"temperature": decoding.temperature, "top_p": decoding.top_p} if sampled else {}),
            **({"top_k": decoding.top_k} if sampled else {}),
        }
        write_json(folder / "generation_config.json", {name: value for name, value in how.items() if value is not None})
        begins = input.read("").ids == input.read("a").ids[:1]  # pyright: ignore[reportAttributeAccessIssue]
        write_tokenizer(folder, input.tokenizer, first=begins, last=False, longest=self.settings.context)  # pyright: ignore[reportAttributeAccessIssue]

    def compare(self, folder: Path, inputs: Sequence[Any]) -> Iterator[Comparison]:
        theirs, cut = self.load(folder), self.tokenizer(folder)
        tokenizer = self.run.job.input.tokenizer  # pyright: ignore[reportAttributeAccessIssue]
        for text in inputs:
            read = self.run.job.input.read(text).ids[-self.settings.context + WRITTEN :]
            whole = self.run.job.input.read(text).ids
            require_same_tokens(whole, cut(text)["input_ids"] or whole, text)
            ids = torch.tensor([read])
            with torch.inference_mode():
                said = theirs.generate(
                    ids, attention_mask=torch.ones_like(ids), do_sample=False, temperature=None, top_p=None,
                    top_k=None, repetition_penalty=1.0, max_new_tokens=WRITTEN,
                )[0, len(read) :].tolist()  # fmt: skip
                own = greedy_tokens(self.run, read, WRITTEN)
                told = torch.tensor([[*read, *own]])
                logits = self.model.logits(self.model.features(told))
                found = difference(logits, theirs(told).logits, "logits")
            steps = logits[0, len(read) - 1 :]
            parted = own != said and tied_at(steps, own, said)
            # Unused rows of the table are decoded differently there, or not at all.
            ours, its = ([one for one in ids if tokenizer.entry(one) is not None] for ids in (own, said))
            yield Comparison(text, *found, tokenizer.decode(ours), cut.decode(its, skip_special_tokens=True), parted)


class Gpt2Plan(LanguagePlan):
    prefix = "transformer"

    @property
    def table(self) -> list[WeightMap]:
        return language.gpt2_table(self.settings.layers)

    def config(self) -> dict[str, Any]:
        s = self.settings
        return {
            "architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "vocab_size": self.model.output.out_features,
            "n_embd": s.width, "n_layer": s.layers, "n_head": s.heads, "n_inner": self.hidden, "n_positions": s.context,
            "activation_function": ACTIVATIONS[s.activation], "layer_norm_epsilon": self.eps,
            "resid_pdrop": s.dropout, "embd_pdrop": s.dropout, "attn_pdrop": s.dropout,
            "tie_word_embeddings": s.tied, **self.specials,
        }  # fmt: skip


class LlamaPlan(LanguagePlan):
    prefix = "model"

    @property
    def gated(self) -> bool:
        return self.settings.activation == "swiglu"

    @property
    def table(self) -> list[WeightMap]:
        s = self.settings
        return language.llama_table(s.layers, s.width, s.heads, s.kv_heads or s.heads, gated=self.gated)

    def config(self) -> dict[str, Any]:
        s = self.settings
        kind = ("LlamaForCausalLM", "llama", "silu") if self.gated else (
            "ArceeForCausalLM", "arcee", ACTIVATIONS[s.activation]
        )  # fmt: skip
        return {
            "architectures": [kind[0]], "model_type": kind[1], "hidden_act": kind[2],
            "vocab_size": self.model.output.out_features, "hidden_size": s.width, "intermediate_size": self.hidden,
            "num_hidden_layers": s.layers, "num_attention_heads": s.heads,
            "num_key_value_heads": s.kv_heads or s.heads, "head_dim": s.width // s.heads,
            "max_position_embeddings": s.context, "rms_norm_eps": self.eps,
            "rope_parameters": {"rope_type": "default", "rope_theta": s.rotary_base}, "attention_bias": False,
            "mlp_bias": False, "attention_dropout": s.dropout, "tie_word_embeddings": s.tied, **self.specials,
        }  # fmt: skip


def plan(run: Run) -> LanguagePlan:
    s: Any = run.recipe.model  # pyright: ignore[reportAttributeAccessIssue]
    as_gpt2 = misfits(
        s, norm=["layer"], bias=[True], positions=["learned", "sinusoidal"], activation=[*ACTIVATIONS],
        kv_heads=[None, s.heads],
    )  # fmt: skip
    as_llama = misfits(s, norm=["rms"], bias=[False], positions=["rotary"])
    if not as_llama:
        return LlamaPlan(run)
    if not as_gpt2:
        return Gpt2Plan(run)
    raise RefusalError(f"GPT-2 does not have {', '.join(as_gpt2)}, and Llama does not have {', '.join(as_llama)}")
