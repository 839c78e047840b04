"""Text continuation: a decoder-only model reads the prompt and the tokens generated so far.

    p(y | x) = Π_t p(y_t | x, y_<t)

files  → token ids → windows → decoder → loss                    (training)
prompt → token ids → decoder → sample → token ids → text         (prediction)
"""

from collections.abc import Callable, Sequence
from typing import ClassVar

import torch

from regard.data.examples import Example
from regard.decoding.continuing import Sampling
from regard.look.case import Case
from regard.look.said import NextToken
from regard.models.language_model import LanguageModel
from regard.outputs.base import LookOptions, Told
from regard.outputs.batched import device_of
from regard.outputs.result import Candidate, Prediction
from regard.outputs.text.continuation_case import continuation_case
from regard.outputs.text.continuation_training import ContinuationTraining
from regard.outputs.text.next_tokens import most_probable
from regard.outputs.text.writing import Writer
from regard.work import before_step

SAMPLE = 160  # tokens of the sample during training
LOOKED_AT = 20  # maximum tokens that `look` generates
GREEDY = Sampling(temperature=0.0)


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
        self, model: LanguageModel, one: str, tell: Callable[[str, str], None], *, prefix: str = ""
    ) -> Prediction:
        """Stream one continuation in pieces that are final: whole characters, and no part of a stop text."""
        writer, said = self._writer(model), ""
        text = writer.begun(one, prefix)

        def news(piece: str) -> None:
            nonlocal said
            said += piece
            if piece:
                tell(piece, said)

        news(prefix)
        for _ in writer.writing([text], self._sampling, self.recipe.decoding.max_length):
            news(text.new_text())
        news(text.new_text(last=True))
        return Prediction(one, [Candidate(said, text.log_probability)])

    @torch.inference_mode()
    def given_candidates(self, model: LanguageModel, inputs: Sequence[str], outputs: Sequence[str]) -> list[Candidate]:
        """Return log p(output | input), without an end token: the output may continue."""
        found = []
        for text, said in zip(inputs, outputs, strict=True):
            new = self._after(text, said)
            tokens = torch.tensor([[*self.input.read(text).ids, *new][-self.context - 1 :]], device=device_of(model))
            scores = model.log_probabilities(model.features(tokens[:, :-1]), tokens[:, 1:])[0]
            found.append(Candidate(said, float(scores[len(scores) - len(new) :].sum())))
        return found

    @property
    def _sampling(self) -> Sampling:
        how = self.recipe.decoding
        return Sampling(how.temperature, how.top_k, how.top_p, how.repetition_penalty, how.seed)

    def _writer(self, model: LanguageModel) -> Writer:
        return Writer(model, self.input, self.context, self.recipe.decoding.stop)

    def _after(self, text: str, said: str) -> list[int]:
        """Return the tokens of a continuation; some differ from the tokens of the same text alone."""
        return self.tokenizer.encode(text + said)[len(self.tokenizer.encode(text)) :]

    # --------------------------------------------------------------------------------------------------------- looking
    def tell(self, model: LanguageModel, one: str, options: LookOptions) -> list[Told]:
        """Return the prompt with its continuation: the given one, or a few tokens that the model generates greedily.

        With `options.sample` or decoding.n_best, the continuation is sampled as in `predict`.
        """
        if options.output is not None:
            return [Told([*self.input.read(one).ids, *self._after(one, options.output)], options.output)]
        how, prompt = self.recipe.decoding, self.input.read(one + options.prefix).ids
        longest = max(1, min(LOOKED_AT, how.max_length, self.context + 1 - len(prompt)))
        sampling = self._sampling if options.sample or how.n_best > 1 else GREEDY
        texts = self._writer(model).written([one] * how.n_best, sampling, longest, options.prefix)
        told = [Told([*prompt, *text.ids], options.prefix + text.text, text.log_probability) for text in texts]
        return sorted(told, key=lambda one: -(one.score or 0.0))

    @torch.inference_mode()
    def next_tokens(self, model: LanguageModel, one: str, told: Told) -> tuple[tuple[NextToken, ...], ...]:
        before_step(len(told.target) - 1)
        features = model.features(torch.tensor([told.target[:-1]], device=device_of(model)))[0]
        return most_probable(model.logits, features, told.target[1:], self.tokenizer)

    def case(self, model: LanguageModel, one: str, told: Told) -> Case:
        return continuation_case(model, self.input, one, told.target, self.context, told.instead)
