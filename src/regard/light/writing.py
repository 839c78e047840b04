"""Text over a memory, with the graphs `encoder` and `decoder`: translations, captions, transcripts."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np

from regard.data.tokenizer import TARGET, Tokenizer
from regard.errors import CallError
from regard.generation.alignment import forced_alignment
from regard.inputs.sound.item import SoundItem
from regard.inputs.text_axis import written_axis
from regard.light.continuation import LightCoveredState, LightCovering, LightJointScores, LightLanguageModelFusion
from regard.light.outputs import LightOutput
from regard.light.record import UNSEEN, Between, join_steps, record_of
from regard.light.run import load
from regard.light.search import (
    GraphState,
    GraphSteps,
    LightHypothesis,
    LightRules,
    beam,
    draw,
    normalizer,
    of_sentence,
    token_by_token,
)
from regard.light.session import Arrays, Description, OnnxSession, is_export
from regard.look.axis import Axis
from regard.look.records import AttentionRecord
from regard.special_tokens import END, PAD, START, UNK
from regard.tasks.result import Alignment, Candidate, Prediction, in_groups
from regard.tasks.text.transcript import Transcript, in_windows, looked_at, note_of, stream_windows, token_times
from regard.tasks.text.writing import MOST, CrossAttentionArrays, next_tokens_of, token_places, with_source_words
from regard.work import before_step

GREEDY = {"beam": 1, "n_best": 1, "coverage_penalty": 0.0}


class LightForced(NamedTuple):
    """A forced output: log-probabilities of all tokens at each step, attention, and other outputs of the encoder."""

    known: np.ndarray  # T V
    seen: Arrays
    beside: Arrays


class LightWriter(LightOutput):
    takes_prefix: ClassVar[bool] = True
    gives_attention: ClassVar[bool] = True
    writes_text: ClassVar[bool] = True

    def __init__(self, about: Description, input: Any) -> None:
        super().__init__(about, input)
        own = (about.folder / TARGET).is_file()
        self.tokenizer = Tokenizer.of_run(about.folder, TARGET) if own else Tokenizer.of_run(about.folder)
        encoder, decoder = (OnnxSession(about.folder / f"{name}.onnx") for name in ("encoder", "decoder"))
        self._steps = GraphSteps(encoder, decoder, about.graphs["decoder"]["inputs"])
        self.about = about

    @property
    def takes_gold(self) -> bool:
        return self.input.kinds == ("text",)

    # ----------------------------------------------------------------------------------------------------- prediction
    def predict(self, inputs: Sequence[Any], *, prefix: str = "", attention: bool = False) -> list[Prediction]:
        items = [self.input.read(one) for one in inputs]
        found = self.search(items, prefix=prefix)
        return [
            self._prediction(one, item, hypotheses, attention)
            for one, item, hypotheses in zip(inputs, items, found, strict=True)
        ]

    def _prediction(self, one: Any, item: Any, hypotheses: Sequence[LightHypothesis], attention: bool) -> Prediction:
        unknown = self.recipe.decoding.replace_unknown and UNK in hypotheses[0].tokens
        seen = self._make_record(item, hypotheses[0].tokens) if attention or unknown else None
        return self._told(one, item, hypotheses, seen, attention)

    def _told(
        self,
        one: Any,
        item: Any,
        hypotheses: Sequence[LightHypothesis],
        weights: CrossAttentionArrays | None,
        attention: bool,
    ) -> Prediction:
        outputs = [Candidate(self.tokenizer.decode(h.tokens), h.log_probability, h.score) for h in hypotheses]
        tokens, alignment = hypotheses[0].tokens, None
        if weights is not None and weights.weights:
            if attention:
                rows = self.tokenizer.labels([*tokens, END])
                alignment = Alignment(rows, self.input.axis(item).labels, weights.weights)
            if UNK in tokens and self.recipe.decoding.replace_unknown:
                text = with_source_words(self.tokenizer, tokens, weights, self.input.tokenizer, item.text)
                outputs[0] = replace(outputs[0], text=text)
        return Prediction(self.input.name(one), outputs, alignment)

    def _make_record(self, item: Any, tokens: Sequence[int]) -> CrossAttentionArrays:
        """Return the attention when the model generates these tokens, by attention and by CTC, if it has them."""
        forced = self._force(item, tokens)
        gate = next((forced.seen[name] for name in forced.seen if self._kind(name) == "gate"), None)
        weights = {name: table for name, table in forced.seen.items() if self._kind(name) == "cross"}
        ctc = forced_alignment(forced.beside["ctc"][0], list(tokens)) if "ctc" in forced.beside else None
        if not weights and ctc is None and "cross" in map(self._kind, self.roles):
            raise CallError(UNSEEN)
        return CrossAttentionArrays({name: one if gate is None else one * gate for name, one in weights.items()}, ctc)

    def stream(self, one: Any, on_text: Callable[[str, str], None], *, prefix: str = "") -> Prediction:
        """Stream token by token, greedily or by sampling; a beam has no final tokens before its end."""
        ids: list[int] = []

        def told(token: int) -> None:
            if token != START:
                ids.append(token)
                on_text(self.tokenizer.labels([token])[0], self.tokenizer.decode(ids))

        item = self.input.read(one)
        (hypotheses,) = self.search([item], prefix=prefix, plain=True, on_step=told, **GREEDY)
        return self._prediction(one, item, hypotheses, attention=False)

    def score_outputs(self, inputs: Sequence[Any], outputs: Sequence[str]) -> list[Candidate]:
        found = []
        for one, said in zip(inputs, outputs, strict=True):
            tokens, state = self.tokenizer.encode(said), self._steps.start(self.input.collate([self.input.read(one)]))
            total = float(self._steps.log_probabilities(state, [tokens])[0])
            found.append(Candidate(said, total, total / (len(tokens) + 1) ** self.recipe.decoding.length_penalty))
        return found

    # ---------------------------------------------------------------------------------------------------------- search
    def search(
        self,
        items: Sequence[Any],
        *,
        prefix: str = "",
        plain: bool = False,
        on_step: Callable[[int], None] = lambda token: None,
        **how: Any,
    ) -> list[list[LightHypothesis]]:
        """Return the hypotheses of each item, best first; an empty item has the empty output.

        `plain`: use the decoder alone, without CTC or a language model.
        """
        decoding, begin = self.recipe.decoding.model_copy(update=how), self.tokenizer.encode(prefix)
        joint = None if plain or decoding.sample else self._joint(decoding)
        says_unknown = decoding.unknown or decoding.replace_unknown or UNK in begin
        never = (PAD, START) if says_unknown else (PAD, START, UNK)
        rules = LightRules(decoding.max_length, decoding.min_length, begin, never)

        def decode(numbers: list[int]) -> list[list[LightHypothesis]]:
            state = self._steps.start(self.input.collate([items[number] for number in numbers]))
            if not decoding.sample and (decoding.beam > 1 or decoding.coverage_penalty > 0 or joint is not None):
                return self._beam(state, rules, decoding, joint)
            return self._token_by_token(state, rules, decoding, on_step, numbers)

        lengths = [self.input.length(item) for item in items]
        results = [[LightHypothesis([], 0.0, 0.0)] for _ in items]
        filled = [number for number, length in enumerate(lengths) if length]
        for number, hypotheses in in_groups(filled, lengths, decoding.batch_tokens, decode):
            results[number] = hypotheses
        return results

    def _joint(self, how: Any) -> LightJointScores | None:
        """Return the decoder with the other scores of the search; None if there are none."""
        return None

    def _beam(
        self, state: GraphState, rules: LightRules, how: Any, joint: LightJointScores | None
    ) -> list[list[LightHypothesis]]:
        steps, begun = (self._steps, state) if joint is None else (joint, joint.start(state))
        if how.coverage_penalty > 0:
            last = max((name for name in self.roles if self._kind(name) == "cross"), key=self._layer, default=None)
            steps, begun = LightCovering(steps, last), LightCoveredState(begun)
        found = beam(
            steps, begun, rules, size=how.beam, n_best=how.n_best, alpha=how.length_penalty,
            coverage=how.coverage_penalty, normalize=joint is None,
        )  # fmt: skip
        if joint is None:
            return found
        # The model's own log-probabilities: the scores of the search also include CTC or a language model.
        rows = np.repeat(np.arange(state.rows), [len(some) for some in found])
        own = iter(self._steps.log_probabilities(state.select(rows), [one.tokens for some in found for one in some]))
        return [[one._replace(log_probability=float(next(own))) for one in some] for some in found]

    def _token_by_token(
        self, state: GraphState, rules: LightRules, how: Any, on_step: Callable[[int], None], numbers: Sequence[int]
    ) -> list[list[LightHypothesis]]:
        """Decode token by token. `numbers`: indices of the items among all inputs, which seed their samples."""
        copies = how.n_best if how.sample else 1
        state = state.select(np.arange(state.rows).repeat(copies)) if copies > 1 else state
        if how.sample:
            own = [number * copies + copy for number in numbers for copy in range(copies)]
            uniform = np.stack([of_sentence(how.seed, number)(rules.max_length + 1) for number in own])

            def choose(logits: np.ndarray, step: int, sentences: np.ndarray) -> np.ndarray:
                chance, warm = uniform[sentences, step], np.float32(how.temperature)
                return draw(logits / warm, chance, top_k=how.top_k, top_p=how.top_p)

            found = token_by_token(self._steps, state, rules, choose, on_step)
        else:
            found = token_by_token(self._steps, state, rules, on_step=on_step)
        alpha = how.length_penalty
        ranked = [one._replace(score=one.log_probability / (len(one.tokens) + 1) ** alpha) for one in found]
        groups = (ranked[start : start + copies] for start in range(0, len(ranked), copies))
        return [sorted(group, key=lambda one: -one.score) for group in groups]

    # --------------------------------------------------------------------------------------------------------- looking
    def look(self, one: Any, output: str | None, prefix: str) -> list[AttentionRecord]:
        item = self.input.item_of(one)
        if output is not None:
            tokens = self.tokenizer.encode(output)
            return [self._record(item, tokens, self.tokenizer.decode(tokens), None)]
        (found,) = self.search([item], prefix=prefix)
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

    def _force(self, item: Any, tokens: Sequence[int]) -> LightForced:
        """Force the output step by step with recorded attention; decoding records none."""
        state = self._steps.start(self.input.collate([item]), watch=True)
        first, steps, known = state.seen, [], []
        for token in [START, *tokens]:
            before_step(1)
            logits, state = self._steps.step(np.array([token]), state, watch=True)
            known.append(logits[0] - normalizer(logits)[0])
            steps.append(state.seen)
        encoder = {name: weights[0] for name, weights in first.items()}
        return LightForced(np.array(known), encoder | join_steps(steps), state.beside)

    def _kind(self, name: str) -> str:
        return self.roles[name][0]

    def _layer(self, name: str) -> int:
        return self.roles[name][1]


def _scores(forced: LightForced, tokens: Sequence[int]) -> tuple[float, ...]:
    """Return the log-probability of each token of the output, including the end."""
    return tuple(float(row[token]) for row, token in zip(forced.known, [*tokens, END], strict=True))


# Auxiliary exports: a language model for shallow fusion, a matcher for reranking of drawings.


def load_other_run(about: Description, field: str, folder: str, kind: str) -> Any:
    """Return the output of an auxiliary export: the one stored with the run, or the folder given by the user in
    `field` of decoding.
    """
    inside = folder == getattr(about.recipe.decoding, field)  # pyright: ignore[reportAttributeAccessIssue]
    place, name = about.folder / field if inside else Path(folder).expanduser(), f"decoding.{field}={folder}"
    if inside and not is_export(place):
        raise CallError(f"{name}: {about.folder} was exported without it; export the run again")
    if not is_export(place):
        raise CallError(f"{name} is not an export: create one with regard export {folder} --to onnx -o FOLDER")
    return _load_export(str(place), name, kind)


@lru_cache(maxsize=2)
def _load_export(place: str, name: str, kind: str) -> Any:
    run = load(place)
    if run.about.says["kind"] != kind:
        raise CallError(f"{name} is an export of the job {run.recipe.job}, not of the job that is needed here")
    return run.job.output


class LightTranscripts(LightWriter):
    """Transcripts with times: long recordings in windows, with CTC and a language model."""

    def _joint(self, how: Any) -> LightJointScores | None:
        ctc = how.ctc if "ctc" in self.about.graphs["encoder"]["outputs"] else 0.0
        voice = None if how.language_model is None else self._voice(how.language_model, how.language_model_weight)
        return LightJointScores(self._steps, ctc, voice) if ctc or voice else None

    def _voice(self, folder: str, weight: float) -> LightLanguageModelFusion:
        other = load_other_run(self.about, "language_model", folder, "continuation")
        places = token_places(f"decoding.language_model={folder}", other.tokenizer, self.tokenizer)
        return LightLanguageModelFusion(other.reader, weight, np.array(places))

    def predict(self, inputs: Sequence[Any], *, prefix: str = "", attention: bool = False) -> list[Any]:
        def said(items: list[SoundItem], begin: str) -> list[Any]:
            return super(LightTranscripts, self).predict(items, prefix=begin, attention=attention)

        return [*in_windows(self.input, inputs, self.recipe.decoding, prefix, said)]

    def stream(self, one: Any, on_text: Callable[[str, str], None], *, prefix: str = "") -> Transcript:
        def of_window(item: SoundItem, told: Any, begin: str) -> Any:
            return super(LightTranscripts, self).stream(item, told, prefix=begin)

        return stream_windows(self.input.pieces(one, self.recipe.decoding.window), on_text, prefix, of_window)

    def _prediction(
        self, one: Any, item: SoundItem, hypotheses: Sequence[LightHypothesis], attention: bool
    ) -> Transcript:
        return super()._prediction(one, item, hypotheses, attention and not item.silent)  # pyright: ignore[reportReturnType]

    def _told(
        self,
        one: Any,
        item: SoundItem,
        hypotheses: Sequence[LightHypothesis],
        weights: CrossAttentionArrays | None,
        attention: bool,
    ) -> Transcript:
        said, ids = super()._told(one, item, hypotheses, weights, attention), hypotheses[0].tokens
        words, tokens = (
            ((), ()) if weights is None else token_times(self.tokenizer, ids, weights, self.input.axis(item), item)
        )
        return Transcript(said.input, said.n_best, said.alignment, item.seconds, words, tokens, note_of(item))

    def look(self, one: Any, output: str | None, prefix: str) -> list[AttentionRecord]:
        return super().look(looked_at(self.input, one, self.recipe.decoding.window), output, prefix)
