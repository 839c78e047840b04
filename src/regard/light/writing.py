"""Text over a memory, of the graphs `encoder` and `decoder`: translations, captions, transcripts."""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from regard.data.tokenizer import TARGET, Tokenizer
from regard.errors import CallError
from regard.inputs.text_axis import written_axis
from regard.light.beam import beam
from regard.light.description import Description
from regard.light.draw import draw, of_sentence
from regard.light.greedy import token_by_token
from regard.light.outputs import LightOutput
from regard.light.record import Between, joined, record_of
from regard.light.rules import Hypothesis, Rules, normalizer
from regard.light.session import Arrays, Session
from regard.light.steps import State, Steps
from regard.look.axis import Axis
from regard.look.records import AttentionRecord
from regard.outputs.groups import in_groups
from regard.outputs.result import Alignment, Candidate, Prediction
from regard.outputs.text.token_pieces import MOST, next_tokens_of
from regard.special_tokens import END, PAD, START, UNK
from regard.work import before_step

GREEDY = {"beam": 1, "n_best": 1, "coverage_penalty": 0.0}
NOT_HERE = ("coverage_penalty", "replace_unknown", "ctc", "language_model")  # of decoding; `regard export` says so


class Forced(NamedTuple):
    """A given output: log-probabilities of all tokens at each of its steps, and where the model looked."""

    known: np.ndarray  # T V
    seen: Arrays


class LightWriter(LightOutput):
    takes_prefix: ClassVar[bool] = True
    gives_attention: ClassVar[bool] = True
    writes_text: ClassVar[bool] = True

    def __init__(self, about: Description, input: Any) -> None:
        super().__init__(about, input)
        own = (about.folder / TARGET).is_file()
        self.tokenizer = Tokenizer.of_run(about.folder, TARGET) if own else Tokenizer.of_run(about.folder)
        encoder, decoder = (Session(about.folder / f"{name}.onnx") for name in ("encoder", "decoder"))
        self._steps = Steps(encoder, decoder, about.graphs["decoder"]["inputs"])
        self._exported = about.recipe

    @property
    def takes_gold(self) -> bool:
        return self.input.kinds == ("text",)

    # ----------------------------------------------------------------------------------------------------- prediction
    def predict(self, inputs: Sequence[Any], *, prefix: str = "", attention: bool = False) -> list[Prediction]:
        items = [self.input.read(one) for one in inputs]
        found = self._search(items, prefix=prefix)
        return [
            self._prediction(one, item, hypotheses, attention)
            for one, item, hypotheses in zip(inputs, items, found, strict=True)
        ]

    def _prediction(self, one: Any, item: Any, hypotheses: Sequence[Hypothesis], attention: bool) -> Prediction:
        outputs = [Candidate(self.tokenizer.decode(h.tokens), h.log_probability, h.score) for h in hypotheses]
        alignment = None
        if attention and self.input.length(item):
            tokens = hypotheses[0].tokens
            weights = {name: one for name, one in self._force(item, tokens).seen.items() if self._kind(name) == "cross"}
            if weights:
                rows = self.tokenizer.labels([*tokens, END])
                alignment = Alignment(rows, self.input.axis(item).labels, weights)
        return Prediction(self.input.name(one), outputs, alignment)

    def stream(self, one: Any, tell: Callable[[str, str], None], *, prefix: str = "") -> Prediction:
        """Greedily or by chance, token by token; a beam has nothing certain to tell before its end."""
        ids: list[int] = []

        def told(token: int) -> None:
            if token != START:
                ids.append(token)
                tell(self.tokenizer.labels([token])[0], self.tokenizer.decode(ids))

        item = self.input.read(one)
        (hypotheses,) = self._search([item], prefix=prefix, tell=told, **GREEDY)
        return self._prediction(one, item, hypotheses, attention=False)

    def given_candidates(self, inputs: Sequence[Any], outputs: Sequence[str]) -> list[Candidate]:
        found = []
        for one, said in zip(inputs, outputs, strict=True):
            tokens = self.tokenizer.encode(said)
            total = sum(_scores(self._force(self.input.read(one), tokens), tokens))
            found.append(Candidate(said, total, total / (len(tokens) + 1) ** self.recipe.decoding.length_penalty))
        return found

    # ---------------------------------------------------------------------------------------------------------- search
    def _search(
        self, items: Sequence[Any], *, prefix: str = "", tell: Callable[[int], None] = lambda token: None, **how: Any
    ) -> list[list[Hypothesis]]:
        """The hypotheses of each item, best first; what has nothing in it has nothing to say: an empty output."""
        decoding, begin = self._decoding().model_copy(update=how), self.tokenizer.encode(prefix)
        says_unknown = decoding.unknown or decoding.replace_unknown or UNK in begin
        never = (PAD, START) if says_unknown else (PAD, START, UNK)
        rules = Rules(decoding.max_length, decoding.min_length, begin, never)

        def decode(numbers: list[int]) -> list[list[Hypothesis]]:
            state = self._steps.start(self.input.collate([items[number] for number in numbers]))
            return self._decoded(state, rules, decoding, tell, numbers)

        lengths = [self.input.length(item) for item in items]
        results = [[Hypothesis([], 0.0, 0.0)] for _ in items]
        filled = [number for number, length in enumerate(lengths) if length]
        for number, hypotheses in in_groups(filled, lengths, decoding.batch_tokens, decode):
            results[number] = hypotheses
        return results

    def _decoded(
        self, state: State, rules: Rules, how: Any, tell: Callable[[int], None], numbers: Sequence[int]
    ) -> list[list[Hypothesis]]:
        """`numbers`: of the items among all that were given, which decide what each draws."""
        if how.beam > 1 and not how.sample:
            return beam(self._steps, state, rules, size=how.beam, n_best=how.n_best, alpha=how.length_penalty)
        copies = how.n_best if how.sample else 1
        state = state.select(np.arange(state.rows).repeat(copies)) if copies > 1 else state
        if how.sample:
            own = [number * copies + copy for number in numbers for copy in range(copies)]
            uniform = np.stack([of_sentence(how.seed, number)(rules.max_length + 1) for number in own])

            def choose(logits: np.ndarray, step: int, sentences: np.ndarray) -> np.ndarray:
                chance, warm = uniform[sentences, step], np.float32(how.temperature)
                return draw(logits / warm, chance, top_k=how.top_k, top_p=how.top_p)

            found = token_by_token(self._steps, state, rules, choose, tell)
        else:
            found = token_by_token(self._steps, state, rules, tell=tell)
        alpha = how.length_penalty
        ranked = [one._replace(score=one.log_probability / (len(one.tokens) + 1) ** alpha) for one in found]
        groups = (ranked[start : start + copies] for start in range(0, len(ranked), copies))
        return [sorted(group, key=lambda one: -one.score) for group in groups]

    def _decoding(self) -> Any:
        """Settings of the search; what belongs to torch is refused where somebody asks for it now."""
        how, before = self.recipe.decoding, self._exported.decoding
        for name in NOT_HERE:
            value = getattr(how, name, None)
            if value and value != getattr(before, name):
                raise CallError(f"decoding.{name}={value}: an export searches without it; ask the run itself")
        return how

    # --------------------------------------------------------------------------------------------------------- looking
    def look(self, one: Any, output: str | None, prefix: str) -> list[AttentionRecord]:
        item = self.input.item_of(one)
        if output is not None:
            tokens = self.tokenizer.encode(output)
            return [self._record(item, tokens, self.tokenizer.decode(tokens), None)]
        (found,) = self._search([item], prefix=prefix)
        return [self._record(item, h.tokens, self.tokenizer.decode(h.tokens), h.score) for h in found]

    def _record(self, item: Any, tokens: list[int], text: str, score: float | None) -> AttentionRecord:
        forced, ended = self._force(item, tokens), [*tokens, END]
        axes = {"target": self._axis(ended), "source": self.input.axis(item), "read": self._axis([START, *tokens])}
        best = np.argsort(-forced.known, axis=1, kind="stable")[:, :MOST]
        following = tuple(
            next_tokens_of(ended[:step], ids.tolist(), forced.known[step, ids].tolist(), self.tokenizer)
            for step, ids in enumerate(best)
        )
        return record_of(
            forced.seen, self.roles, Between(axes), output=text, score=score, scores=_scores(forced, tokens),
            next_tokens=following,
        )  # fmt: skip

    def _axis(self, ids: Sequence[int]) -> Axis:
        return written_axis(self.tokenizer, ids, (PAD, START, END))

    def _force(self, item: Any, tokens: Sequence[int]) -> Forced:
        """The output once more, step by step, watched: decoding itself never is."""
        state = self._steps.start(self.input.collate([item]), watch=True)
        first, steps, known = state.seen, [], []
        for token in [START, *tokens]:
            before_step(1)
            logits, state = self._steps.step(np.array([token]), state, watch=True)
            known.append(logits[0] - normalizer(logits)[0])
            steps.append(state.seen)
        encoder = {name: weights[0] for name, weights in first.items()}
        return Forced(np.array(known), encoder | joined(steps))

    def _kind(self, name: str) -> str:
        return self.roles[name][0]


def _scores(forced: Forced, tokens: Sequence[int]) -> tuple[float, ...]:
    """The log-probability of each token of the output, the end included."""
    return tuple(float(row[token]) for row, token in zip(forced.known, [*tokens, END], strict=True))
