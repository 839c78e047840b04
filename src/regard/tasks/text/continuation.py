"""Text continuation: a decoder-only model reads the prompt and the tokens generated so far.

    p(y | x) = Π_t p(y_t | x, y_<t)

files  → token ids → windows → decoder → loss                    (training)
prompt → token ids → decoder → sample → token ids → text         (prediction)
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from regard.data.examples import Example
from regard.data.tokenizer import Tokenizer
from regard.errors import CallError
from regard.generation.sampling import SamplingState, generate
from regard.inputs.prompt.input import Prompt, PromptInput, TextStore, TextWindows
from regard.look.case import ExplainTarget, Parts
from regard.look.hooks import ROWS_AT_ONCE, in_passes
from regard.look.records import NextToken
from regard.models.language_model import LanguageModel
from regard.tasks.base import LookOptions, ModelPlan, Output, OutputRef
from regard.tasks.batched import device_of
from regard.tasks.final_score import ngram_bits
from regard.tasks.result import Candidate, Measure, Prediction, Scores, Tally
from regard.tasks.text.cross_attention import stream_of, token_of
from regard.tasks.text.output import build_language_model, most_probable
from regard.tasks.text.perplexity import TextLoss, text_loss, token_bits
from regard.tasks.text.settings import GenerateRecipe
from regard.tasks.text.writing import TextStreamer
from regard.work import before_step

# Attention of a language model: rows are the predicted tokens, columns the tokens read before them.


def continuation_case(
    model: LanguageModel, input: PromptInput, one: str, tokens: Sequence[int], context: int, instead: int | None
) -> ExplainTarget:
    """Return the case. `tokens`: all tokens of the prompt and its continuation. Row t was predicted after columns 0 …
    t. `instead`: the contrast token, whose lead is scored.
    """
    read, told = Prompt(one, list(tokens[:-1])), tokens[1:]
    if len(read.ids) > context:
        raise CallError(f"the text has {len(read.ids)} tokens; this model reads at most {context}: shorten it")
    if not told:
        raise CallError(
            f"{input.tokenizer.decode(tokens)!r} has no predicted token; "
            "a language model predicts every token but the first: give more text"
        )

    def ask(without: Sequence[Parts]) -> Tensor:
        return in_passes(without, len(read.ids), lambda some: _told_without(model, input, read, told, some, instead))

    return ExplainTarget(
        model, ask, {"target": input.axis(Prompt("", list(told))), "read": input.axis(read)},
        input.parts(read), columns="read", first=max(0, min(len(input.read(one).ids), len(told)) - 1),
        vectors=input.vectors(model.decoder), gather=lambda products: input.gather(read, products),
        stream=stream_of(model.decoder, model.output, input.tokenizer, told, instead),
    )  # fmt: skip


def _told_without(
    model: LanguageModel,
    input: PromptInput,
    read: Prompt,
    told: Sequence[int],
    without: Sequence[Parts],
    instead: int | None,
) -> Float[Tensor, "N T"]:
    """Return log p of each predicted token, given the tokens before it that are not occluded.

    Occluding a token does not change earlier predictions. Without any token to read, all tokens are equally probable.
    """
    device, places = device_of(model), input.parts(read)
    kept = torch.ones(len(without), len(read.ids), dtype=torch.long, device=device)
    for row, parts in zip(kept, without, strict=True):
        row[[places[part] for part in parts]] = 0
    last = kept.cumsum(1) - 1  # the position of the last token read before each step
    shortened = [input.without(read, parts) for parts in without]
    features = model.features(input.collate(shortened).to(device))
    features = features.take_along_dim(last.clamp(min=0).unsqueeze(2), dim=1)
    tokens = torch.tensor(told, device=device).expand(len(without), -1)
    known = model.log_probabilities(features, tokens, instead)
    return torch.where(last < 0, -math.log(model.output.out_features) if instead is None else 0.0, known)


# Training of a language model: every token of plain text is the target of those before it, in windows.

SHOWN = 40  # tokens of a shown piece of validation text
BLOCK = 200  # tokens of test text that are resampled together, for an interval
BYTES = 260  # tokens of a vocabulary of bytes, the special ones included


class ContinuationTraining(Output[GenerateRecipe, PromptInput, LanguageModel]):
    @property
    def is_sampling(self) -> bool:
        return self.recipe.decoding.temperature > 0

    def batches(self, split: TextStore, max_tokens: int, *, seed: int = 0) -> TextWindows:
        return TextWindows(split, self.context, max(1, max_tokens // self.context), seed=seed)

    def build(self) -> LanguageModel:
        return build_language_model(self.recipe.model, self.tokenizer.size, self.tokenizer.specials.pad)

    def planned(self) -> ModelPlan:
        tokenizer = self.recipe.data.tokenizer
        with torch.device("meta"):
            model = build_language_model(self.recipe.model, BYTES if tokenizer.kind == "byte" else tokenizer.size)
        note = "the vocabulary is taken as full (data.tokenizer.size); small data fills less"
        return ModelPlan(model, self.recipe.model.context, 1, note)

    def validate(self, model: LanguageModel, valid: TextStore) -> dict[str, float]:
        """Return loss, perplexity and bits per byte of all validation text, in adjacent windows."""
        return self._loss(model, valid, self.context).values()

    def sample_examples(self, valid: TextStore, most: int) -> list[Example]:
        """Return pieces of the validation text: the first half of each is the prompt, the rest is the reference."""
        length = min(SHOWN, self.context, len(valid))
        starts = range(0, len(valid) - length + 1, max(length, len(valid) // most))[:most]
        pieces = [valid.ids[start : start + length].tolist() for start in starts]
        decode, half = self.tokenizer.decode, length // 2
        return [Example(decode(piece[:half]), (decode(piece[half:]),)) for piece in pieces]

    def test_scores(self, model: LanguageModel, examples: TextStore, alignments: bool) -> Scores:
        """Return loss, perplexity and bits per byte of the test text, or of the validation text if there is none."""
        stride = self._stride
        found = self._loss(model, examples, stride)
        values = {**found.values(), "tokens": float(found.tokens), "bytes": float(found.bytes)}
        notes = {"text": examples.name, "window": f"{self.context} tokens, moved by {stride}"}
        if examples.unknown:
            notes["unknown"] = f"{examples.unknown:,} tokens are not in the vocabulary: bits per byte is too low"
        return Scores(values, notes, percent=["accuracy"])

    def measure(self) -> Measure:
        return Measure("bits_per_byte", higher_is_better=False, percent=False)

    def spread(self, examples: TextStore, most: int) -> TextStore:
        """Return the whole text: a part of a text is not a sample of texts."""
        return examples

    def answers(self, model: LanguageModel, examples: TextStore) -> Float[np.ndarray, " T"]:
        return token_bits(model, examples, context=self.context, stride=self._stride, rows=self._rows)

    def baselines(self, train: TextStore, examples: TextStore) -> dict[str, Float[np.ndarray, " T"]]:
        return {"n-gram model": ngram_bits(train.ids, examples.ids, self.tokenizer.size)}

    def tally(self, answers: Float[np.ndarray, " T"], examples: TextStore) -> Tally:
        """Return the tally over blocks of tokens, which are resampled together because neighboring tokens depend on
        each other.
        """
        blocks = np.arange(len(answers)) // BLOCK
        size = examples.bytes / max(1, len(answers))
        return Tally.of_shares(np.stack([np.bincount(blocks, answers), np.bincount(blocks) * size], 1))

    @property
    def _stride(self) -> int:
        return self.recipe.decoding.stride or max(1, self.context // 2)

    @property
    def _rows(self) -> int:
        return max(1, max(ROWS_AT_ONCE, self.recipe.training.max_tokens) // self.context)

    def _loss(self, model: LanguageModel, store: TextStore, stride: int) -> TextLoss:
        return text_loss(model, store, context=self.context, stride=stride, rows=self._rows)

    @property
    def context(self) -> int:
        return self.recipe.model.context

    @property
    def tokenizer(self) -> Tokenizer:
        return self.input.tokenizer

    @property
    def vocabulary(self) -> Tokenizer:
        return self.tokenizer

    def choice(self, word: str) -> int:
        return token_of(self.tokenizer, word)


# Generation of continuations by a language model, token by token.


@dataclass(frozen=True)
class Writer:
    """A text generator. `context`: maximum tokens that the model reads; `stop`: texts that end the output."""

    model: LanguageModel
    input: PromptInput
    context: int
    stop: Sequence[str]

    def begun(self, prompt: str, prefix: str = "") -> TextStreamer:
        return TextStreamer(self.input.tokenizer, prompt, prefix, self.stop)

    def written(self, prompts: Sequence[str], how: SamplingState, most: int, prefix: str = "") -> list[TextStreamer]:
        """Return all texts when they are complete."""
        texts = [self.begun(prompt, prefix) for prompt in prompts]
        for _ in self.writing(texts, how, most):
            pass
        return texts

    def writing(self, texts: Sequence[TextStreamer], how: SamplingState, most: int) -> Iterator[None]:
        """Yield whenever one of the texts has its next token, of at most `most` tokens."""
        special = self.input.tokenizer.specials
        never = {special.pad, special.unk, special.start} - {special.end, None}
        prompts = [self.input.read(text.begin).ids for text in texts]
        for new in generate(
            self.model, prompts, how, context=self.context, max_length=most, end=special.end,
            forbidden=sorted(index for index in never if index is not None), device=device_of(self.model),
            ended=lambda new: texts[new.row].stopped,
        ):  # fmt: skip
            texts[new.row].add(new.token, new.log_probability)
            yield


SAMPLE = 160  # tokens of the sample during training
LOOKED_AT = 20  # maximum tokens that `look` generates
GREEDY = SamplingState(temperature=0.0)


class Continuation(ContinuationTraining):
    takes_prefix: ClassVar[bool] = True
    writes_text: ClassVar[bool] = True
    takes_prompt: ClassVar[bool] = True
    takes_instead: ClassVar[bool] = True

    def sample(self, model: LanguageModel, example: Example) -> str:
        """Return the continuation of a piece of the validation text, line by line."""
        (text,) = self._writer(model).written([example.input], self._sampling, SAMPLE)
        return example.input + text.text

    # ----------------------------------------------------------------------------------------------------- prediction
    def predict(self, model: LanguageModel, inputs: Sequence[str], *, prefix: str = "") -> list[Prediction]:
        """Return continuations, best first, without the prompt. `prefix` is a forced prefix of each."""
        each, longest = self.recipe.decoding.n_best, self.recipe.decoding.max_length
        prompts = [text for text in inputs for _ in range(each)]
        texts = self._writer(model).written(prompts, self._sampling, longest, prefix)
        found = [Candidate(prefix + text.text, text.log_probability) for text in texts]
        groups = (found[place : place + each] for place in range(0, len(found), each))
        ranked = (sorted(group, key=lambda one: -(one.score or 0.0)) for group in groups)
        return [Prediction(text, group) for text, group in zip(inputs, ranked, strict=True)]

    def stream(
        self, model: LanguageModel, one: str, on_text: Callable[[str, str], None], *, prefix: str = ""
    ) -> Prediction:
        """Stream one continuation in pieces that are final: whole characters, and no part of a stop text."""
        writer, said = self._writer(model), ""
        text = writer.begun(one, prefix)

        def news(piece: str) -> None:
            nonlocal said
            said += piece
            if piece:
                on_text(piece, said)

        news(prefix)
        for _ in writer.writing([text], self._sampling, self.recipe.decoding.max_length):
            news(text.new_text())
        news(text.new_text(last=True))
        return Prediction(one, [Candidate(said, text.log_probability)])

    @torch.inference_mode()
    def score_outputs(self, model: LanguageModel, inputs: Sequence[str], outputs: Sequence[str]) -> list[Candidate]:
        """Return log p(output | input), without an end token: the output may continue."""
        found = []
        for text, said in zip(inputs, outputs, strict=True):
            new = self._after(text, said)
            tokens = torch.tensor([[*self.input.read(text).ids, *new][-self.context - 1 :]], device=device_of(model))
            scores = model.log_probabilities(model.features(tokens[:, :-1]), tokens[:, 1:])[0]
            found.append(Candidate(said, float(scores[len(scores) - len(new) :].sum())))
        return found

    @property
    def _sampling(self) -> SamplingState:
        how = self.recipe.decoding
        return SamplingState(how.temperature, how.top_k, how.top_p, how.repetition_penalty, how.seed)

    def _writer(self, model: LanguageModel) -> Writer:
        return Writer(model, self.input, self.context, self.recipe.decoding.stop)

    def _after(self, text: str, said: str) -> list[int]:
        """Return the tokens of a continuation; some differ from the tokens of the same text alone."""
        return self.tokenizer.encode(text + said)[len(self.tokenizer.encode(text)) :]

    # --------------------------------------------------------------------------------------------------------- looking
    def tell(self, model: LanguageModel, one: str, options: LookOptions) -> list[OutputRef]:
        """Return the prompt with its continuation: the given one, or a few tokens that the model generates greedily.

        With `options.sample` or decoding.n_best, the continuation is sampled as in `predict`.
        """
        if options.output is not None:
            return [OutputRef([*self.input.read(one).ids, *self._after(one, options.output)], options.output)]
        how, prompt = self.recipe.decoding, self.input.read(one + options.prefix).ids
        longest = max(1, min(LOOKED_AT, how.max_length, self.context + 1 - len(prompt)))
        sampling = self._sampling if options.sample or how.n_best > 1 else GREEDY
        texts = self._writer(model).written([one] * how.n_best, sampling, longest, options.prefix)
        told = [OutputRef([*prompt, *text.ids], options.prefix + text.text, text.log_probability) for text in texts]
        return sorted(told, key=lambda one: -(one.score or 0.0))

    @torch.inference_mode()
    def next_tokens(self, model: LanguageModel, one: str, ref: OutputRef) -> tuple[tuple[NextToken, ...], ...]:
        before_step(len(ref.target) - 1)
        features = model.features(torch.tensor([ref.target[:-1]], device=device_of(model)))[0]
        return most_probable(model.logits, features, ref.target[1:], self.tokenizer)

    def case(self, model: LanguageModel, one: str, ref: OutputRef) -> ExplainTarget:
        return continuation_case(model, self.input, one, ref.target, self.context, ref.instead)
