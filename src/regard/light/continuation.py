"""Text continuation with the graph `decoder` of a language model."""

from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np

from regard.errors import CallError
from regard.inputs.text_axis import written_axis
from regard.light.continuing import Reader, continued
from regard.light.description import Description
from regard.light.outputs import LightOutput
from regard.light.record import Between, record_of
from regard.light.rules import normalizer
from regard.light.session import Session
from regard.look.records import AttentionRecord
from regard.outputs.result import Candidate, Prediction
from regard.outputs.text.text_streamer import TextStreamer
from regard.outputs.text.token_pieces import MOST, next_tokens_of

LOOKED_AT = 20  # maximum tokens that `look` generates
GREEDY = SimpleNamespace(temperature=0.0, top_k=0, top_p=1.0, repetition_penalty=1.0, seed=0)


class LightContinuation(LightOutput):
    takes_prefix: ClassVar[bool] = True
    writes_text: ClassVar[bool] = True
    takes_prompt: ClassVar[bool] = True

    def __init__(self, about: Description, input: Any) -> None:
        super().__init__(about, input)
        self.tokenizer = input.tokenizer
        self.reader = Reader(Session(about.folder / "decoder.onnx"), about.graphs["decoder"]["inputs"])

    @property
    def context(self) -> int:
        return self.recipe.model.context

    def predict(self, inputs: Sequence[str], *, prefix: str = "", attention: bool = False) -> list[Prediction]:
        """Return continuations, best first, without the prompt."""
        how = self.recipe.decoding
        prompts = [text for text in inputs for _ in range(how.n_best)]
        texts = self._written(prompts, how, how.max_length, prefix)
        found = [Candidate(prefix + text.text, text.log_probability) for text in texts]
        groups = (found[place : place + how.n_best] for place in range(0, len(found), how.n_best))
        return [
            Prediction(text, sorted(group, key=lambda one: -(one.score or 0.0)))
            for text, group in zip(inputs, groups, strict=True)
        ]

    def stream(self, one: str, tell: Callable[[str, str], None], *, prefix: str = "") -> Prediction:
        """Stream pieces that are final: whole characters, and no part of a stop text."""
        said, text = "", self._begun(one, prefix)

        def news(piece: str) -> None:
            nonlocal said
            said += piece
            if piece:
                tell(piece, said)

        news(prefix)
        for _ in self._writing([text], self.recipe.decoding, self.recipe.decoding.max_length):
            news(text.new_text())
        news(text.new_text(last=True))
        return Prediction(one, [Candidate(said, text.log_probability)])

    def given_candidates(self, inputs: Sequence[str], outputs: Sequence[str]) -> list[Candidate]:
        """Return log p(output | input), without an end token: the output may continue."""
        found = []
        for text, said in zip(inputs, outputs, strict=True):
            new = self._after(text, said)
            tokens = [*self.input.read(text).ids, *new][-self.context - 1 :]
            known = self._known(tokens[:-1])
            told = [float(row[token]) for row, token in zip(known, tokens[1:], strict=True)]
            found.append(Candidate(said, sum(told[len(told) - len(new) :])))
        return found

    def look(self, one: str, output: str | None, prefix: str) -> list[AttentionRecord]:
        """Explain the prompt with its continuation: the given one, or a few tokens that the model
        generates greedily.
        """
        if output is not None:
            return [self._record([*self.input.read(one).ids, *self._after(one, output)], output, None)]
        how, prompt = self.recipe.decoding, self.input.read(one + prefix).ids
        longest = max(1, min(LOOKED_AT, how.max_length, self.context + 1 - len(prompt)))
        texts = self._written([one] * how.n_best, GREEDY if how.n_best == 1 else how, longest, prefix)
        best = sorted(texts, key=lambda text: -text.log_probability)
        return [self._record([*prompt, *text.ids], prefix + text.text, text.log_probability) for text in best]

    def _record(self, tokens: list[int], text: str, score: float | None) -> AttentionRecord:
        read, told = tokens[:-1], tokens[1:]
        if len(read) > self.context:
            raise CallError(f"the text has {len(read)} tokens; this model reads at most {self.context}: shorten it")
        if not told:
            said = self.tokenizer.decode(tokens)
            raise CallError(
                f"{said!r} has no predicted token; a language model predicts every token but the first: give more text"
            )
        logits, seen = self.reader.look(read)
        known = logits - normalizer(logits)[:, None]
        best = np.argsort(-known, axis=1, kind="stable")[:, :MOST]
        following = tuple(
            next_tokens_of(told[:step], ids.tolist(), known[step, ids].tolist(), self.tokenizer)
            for step, ids in enumerate(best)
        )
        sides = {"target": told, "read": read}
        axes = {name: written_axis(self.tokenizer, ids, self.tokenizer.specials.names) for name, ids in sides.items()}
        return record_of(
            {name: weights[0] for name, weights in seen.items()}, self.roles, Between(axes, columns="read"),
            output=text, score=score, scores=tuple(float(row[token]) for row, token in zip(known, told, strict=True)),
            next_tokens=following,
        )  # fmt: skip

    def _known(self, tokens: Sequence[int]) -> np.ndarray:
        """Return the log-probabilities after each token: T V."""
        logits, _ = self.reader.read([tokens], self.reader.start(1))
        return logits[0] - normalizer(logits[0])[:, None]

    def _after(self, text: str, said: str) -> list[int]:
        """Return the tokens of a continuation; some differ from the tokens of the same text alone."""
        return self.tokenizer.encode(text + said)[len(self.tokenizer.encode(text)) :]

    def _begun(self, prompt: str, prefix: str) -> TextStreamer:
        return TextStreamer(self.tokenizer, prompt, prefix, self.recipe.decoding.stop)

    def _written(self, prompts: Sequence[str], how: Any, most: int, prefix: str) -> list[TextStreamer]:
        texts = [self._begun(prompt, prefix) for prompt in prompts]
        for _ in self._writing(texts, how, most):
            pass
        return texts

    def _writing(self, texts: Sequence[TextStreamer], how: Any, most: int) -> Iterator[None]:
        """Yield whenever one of the texts has its next token, of at most `most` tokens."""
        special = self.tokenizer.specials
        never = {special.pad, special.unk, special.start} - {special.end, None}
        for new in continued(
            self.reader, [self.input.read(text.begin).ids for text in texts], how, context=self.context,
            max_length=most, end=special.end, forbidden=sorted(index for index in never if index is not None),
            ended=lambda new: texts[new.row].stopped,
        ):  # fmt: skip
            texts[new.row].add(new.token, new.log_probability)
            yield
