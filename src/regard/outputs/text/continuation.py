"""Text goes on: a decoder alone, which reads the prompt and what it has written since.

    p(y | x) = Π_t p(y_t | x, y_<t)

files  → token ids → windows → decoder → loss                    (training)
prompt → token ids → decoder → draw → token ids → text           (prediction)
"""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from regard.data.examples import Example
from regard.data.tokenizer import Tokenizer
from regard.decoding.continuing import Sampling, Written, continued
from regard.errors import CallError
from regard.inputs.prompt.input import Prompt, PromptInput
from regard.inputs.prompt.store import TextStore
from regard.inputs.prompt.windows import TextWindows
from regard.look.case import Case, Parts
from regard.look.passes import AT_ONCE, in_passes
from regard.models.language_model import LanguageModel
from regard.outputs.base import LookOptions, Output, Planned, Told
from regard.outputs.batched import device_of
from regard.outputs.result import Candidate, Prediction, Scores
from regard.outputs.text.generate_settings import GenerateRecipe, LanguageModelSettings
from regard.outputs.text.perplexity import TextLoss, text_loss
from regard.outputs.text.stream import stream_of, token_of
from regard.outputs.text.text_streamer import TextStreamer

SAMPLE = 160  # tokens of the sample while training
SHOWN = 40  # tokens of a piece of validation text that is shown
LOOKED_AT = 20  # most tokens that a look lets the model go on with
GREEDY = Sampling(temperature=0.0)
BYTES = 260  # tokens of a vocabulary of bytes, the special ones included


class Continuation(Output[GenerateRecipe, PromptInput, LanguageModel]):
    takes_prefix: ClassVar[bool] = True
    writes_text: ClassVar[bool] = True
    takes_prompt: ClassVar[bool] = True

    # ------------------------------------------------------------------------------------------------------- training
    def batches(self, split: TextStore, max_tokens: int, *, seed: int = 0) -> TextWindows:
        return TextWindows(split, self.context, max(1, max_tokens // self.context), seed=seed)

    def build(self) -> LanguageModel:
        return build_language_model(self.recipe.model, self.tokenizer.size, self.tokenizer.specials.pad)

    def planned(self) -> Planned:
        tokenizer = self.recipe.data.tokenizer
        with torch.device("meta"):
            model = build_language_model(self.recipe.model, BYTES if tokenizer.kind == "byte" else tokenizer.size)
        note = "the vocabulary is taken as full (data.tokenizer.size); small data fills less"
        return Planned(model, self.recipe.model.context, 1, note)

    def validate(self, model: LanguageModel, valid: TextStore) -> dict[str, float]:
        """Loss, perplexity and bits per byte of all validation text, in windows side by side."""
        return self._loss(model, valid, self.context).values()

    def some(self, valid: TextStore, most: int) -> list[Example]:
        """Pieces of the validation text: the first half of each is the prompt, and the rest would be right."""
        length = min(SHOWN, self.context, len(valid))
        starts = range(0, len(valid) - length + 1, max(length, len(valid) // most))[:most]
        pieces = [valid.ids[start : start + length].tolist() for start in starts]
        decode, half = self.tokenizer.decode, length // 2
        return [Example(decode(piece[:half]), (decode(piece[half:]),)) for piece in pieces]

    def sample(self, model: LanguageModel, example: Example) -> str:
        """How the model goes on from a piece of the validation text, line by line."""
        (text,) = self._continued(model, [example.input], self._sampling, SAMPLE)
        return example.input + text.text

    # ----------------------------------------------------------------------------------------------------- prediction
    def predict(self, model: LanguageModel, inputs: Sequence[str], *, prefix: str = "") -> list[Prediction]:
        """Continuations, best first; their texts do not repeat the prompt. `prefix` is what they begin with."""
        each, longest = self.recipe.decoding.n_best, self.recipe.decoding.max_length
        prompts = [text for text in inputs for _ in range(each)]
        texts = self._continued(model, prompts, self._sampling, longest, prefix)
        found = [Candidate(prefix + text.text, text.log_probability) for text in texts]
        groups = (found[place : place + each] for place in range(0, len(found), each))
        return [
            Prediction(text, sorted(group, key=lambda one: -(one.score or 0.0)))
            for text, group in zip(inputs, groups, strict=True)
        ]

    def stream(
        self, model: LanguageModel, one: str, tell: Callable[[str, str], None], *, prefix: str = ""
    ) -> Prediction:
        """One continuation in pieces, as soon as they are certain: whole characters, and no part of a stop text."""
        text, said = self._begun(one, prefix), ""

        def news(piece: str) -> None:
            nonlocal said
            said += piece
            if piece:
                tell(piece, said)

        news(prefix)
        for _ in self._writing(model, [text], self._sampling, self.recipe.decoding.max_length):
            news(text.new_text())
        news(text.new_text(last=True))
        return Prediction(one, [Candidate(said, text.log_probability)])

    @torch.inference_mode()
    def score(self, model: LanguageModel, inputs: Sequence[str], outputs: Sequence[str]) -> list[Prediction]:
        """log p(output | input), without an end token: the output may go on."""
        found = []
        for text, said in zip(inputs, outputs, strict=True):
            new = self._after(text, said)
            tokens = torch.tensor([[*self.input.read(text).ids, *new][-self.context - 1 :]], device=device_of(model))
            scores = model.log_probabilities(model.features(tokens[:, :-1]), tokens[:, 1:])[0]
            total = float(scores[len(scores) - len(new) :].sum())
            found.append(Prediction(text, [Candidate(said, total)]))
        return found

    def _continued(
        self, model: LanguageModel, prompts: Sequence[str], how: Sampling, max_length: int, prefix: str = ""
    ) -> list[TextStreamer]:
        texts = [self._begun(prompt, prefix) for prompt in prompts]
        for _ in self._writing(model, texts, how, max_length):
            pass
        return texts

    def _begun(self, prompt: str, prefix: str) -> TextStreamer:
        return TextStreamer(self.tokenizer, prompt, prefix, self.recipe.decoding.stop)

    def _writing(
        self, model: LanguageModel, texts: Sequence[TextStreamer], how: Sampling, max_length: int
    ) -> Iterator[Written]:
        """Every token, when its text has it."""
        special = self.tokenizer.specials
        never = {special.pad, special.unk, special.start} - {special.end, None}
        prompts = [self.input.read(text.begin).ids for text in texts]
        for written in continued(
            model, prompts, how, context=self.context, max_length=max_length, end=special.end,
            forbidden=sorted(index for index in never if index is not None), device=device_of(model),
            ended=lambda written: texts[written.row].stopped,
        ):  # fmt: skip
            texts[written.row].add(written.token, written.log_probability)
            yield written

    def _after(self, text: str, said: str) -> list[int]:
        """The tokens of what follows a text: some are others than alone."""
        return self.tokenizer.encode(text + said)[len(self.tokenizer.encode(text)) :]

    # --------------------------------------------------------------------------------------------------------- looking
    def tell(self, model: LanguageModel, one: str, options: LookOptions) -> list[Told]:
        """The prompt with what follows it: what is given, or what the model goes on with for a few tokens, greedily.

        With decoding.n_best, so many continuations, drawn as `predict` draws them.
        """
        if options.output is not None:
            return [Told([*self.input.read(one).ids, *self._after(one, options.output)], options.output)]
        how, prompt = self.recipe.decoding, self.input.read(one + options.prefix).ids
        longest = max(1, min(LOOKED_AT, how.max_length, self.context + 1 - len(prompt)))
        sampling = GREEDY if how.n_best == 1 else self._sampling
        texts = self._continued(model, [one] * how.n_best, sampling, longest, options.prefix)
        told = [Told([*prompt, *text.ids], options.prefix + text.text, text.log_probability) for text in texts]
        return sorted(told, key=lambda one: -(one.score or 0.0))

    def case(self, model: LanguageModel, one: str, told: Told) -> Case:
        """Rows are the tokens that were told, columns those that were read: row t was told after columns 0 … t."""
        first, *told_tokens = told.target
        read = Prompt(one, [first, *told_tokens[:-1]])
        if len(read.ids) > self.context:
            raise CallError(
                f"the text has {len(read.ids)} tokens, but this model looks back at {self.context}: give less of it"
            )
        if not told_tokens:
            raise CallError(f"of {one + told.text!r}, nothing is told: a model tells each token but the first")

        def ask(without: Sequence[Parts]) -> Tensor:
            return in_passes(
                without, len(read.ids),
                lambda some: self._told_without(model, read, told_tokens, some, told.instead),
            )  # fmt: skip

        axes = {"target": self.input.axis(Prompt("", told_tokens)), "read": self.input.axis(read)}
        return Case(
            model, ask, axes, self.input.parts(read), columns="read",
            vectors=self.input.vectors(model.decoder), gather=lambda products: self.input.gather(read, products),
            stream=stream_of(model.decoder, model.output, self.tokenizer, told_tokens, told.instead),
        )  # fmt: skip

    def choice(self, word: str) -> int:
        return token_of(self.tokenizer, word)

    def _told_without(
        self, model: LanguageModel, read: Prompt, told: Sequence[int], without: Sequence[Parts], instead: int | None
    ) -> Float[Tensor, "N T"]:
        """log p of each token that was told, by what was read before it and not left out.

        A token that is left out changes nothing before it. With nothing to read, all tokens are equally probable.
        """
        device, places = device_of(model), self.input.parts(read)
        kept = torch.ones(len(without), len(read.ids), dtype=torch.long, device=device)
        for row, parts in zip(kept, without, strict=True):
            row[[places[part] for part in parts]] = 0
        last = kept.cumsum(1) - 1  # the place of the last token that is read before each step
        shortened = [self.input.without(read, parts) for parts in without]
        features = model.features(self.input.collate(shortened).to(device))
        features = features.take_along_dim(last.clamp(min=0).unsqueeze(2), dim=1)
        tokens = torch.tensor(told, device=device).expand(len(without), -1)
        known = model.log_probabilities(features, tokens, instead)
        return torch.where(last < 0, -math.log(model.output.out_features) if instead is None else 0.0, known)

    # ------------------------------------------------------------------------------------------------------ evaluation
    def test_scores(self, model: LanguageModel, examples: TextStore, alignments: bool) -> Scores:
        """Loss, perplexity and bits per byte of the test text, or of the validation text if there is none."""
        stride = self.recipe.decoding.stride or max(1, self.context // 2)
        found = self._loss(model, examples, stride)
        values = {**found.values(), "tokens": float(found.tokens), "bytes": float(found.bytes)}
        notes = {"text": examples.name, "window": f"{self.context} tokens, moved by {stride}"}
        if examples.unknown:
            notes["unknown"] = f"{examples.unknown:,} tokens are not in the vocabulary: bits per byte is too low"
        return Scores(values, notes)

    def _loss(self, model: LanguageModel, store: TextStore, stride: int) -> TextLoss:
        rows = max(1, max(AT_ONCE, self.recipe.training.max_tokens) // self.context)
        return text_loss(model, store, context=self.context, stride=stride, rows=rows)

    # ----------------------------------------------------------------------------------------------------------- parts
    @property
    def _sampling(self) -> Sampling:
        how = self.recipe.decoding
        return Sampling(how.temperature, how.top_k, how.top_p, how.repetition_penalty, how.seed)

    @property
    def context(self) -> int:
        return self.recipe.model.context

    @property
    def tokenizer(self) -> Tokenizer:
        return self.input.tokenizer

    @property
    def vocabulary(self) -> Tokenizer:
        return self.tokenizer


def build_language_model(s: LanguageModelSettings, tokens: int, pad: int | None = 0) -> LanguageModel:
    """The model of a recipe, for a vocabulary of so many tokens. `pad`: the id of padding, if it has one."""
    if s.vocabulary is not None and s.vocabulary < tokens:
        raise CallError(f"model.vocabulary={s.vocabulary} is less than the {tokens} tokens of the vocabulary")
    return LanguageModel(
        s.vocabulary or tokens, s.width, s.heads, s.layers,
        feed_forward=s.feed_forward, max_length=s.context, positions=s.positions, rotary_base=s.rotary_base,
        norm_kind=s.norm, norm_eps=s.norm_eps, activation=s.activation, bias=s.bias, kv_heads=s.kv_heads,
        dropout=s.dropout, tied=s.tied, label_smoothing=s.label_smoothing, pad=pad,
    )  # fmt: skip
