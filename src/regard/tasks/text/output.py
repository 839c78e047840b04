"""Text output: a decoder generates token by token over the memory of any input.

    p(y | x) = Π_t p(y_t | y_<t, Memory(x))

This file holds what translations, captions and transcripts share. What only one of them has (gold alignments, several
references, windows of a long recording) is in a separate file of this folder.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Generic, NamedTuple

import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor, nn

from regard.attention.memory import Memory
from regard.data.batches import pad_rows, pad_sentences
from regard.data.examples import Example, Examples
from regard.data.tokenizer import TARGET, TOKENIZER, Tokenizer
from regard.errors import CallError
from regard.generation.beam import LengthPenalty
from regard.generation.engine import Hypothesis
from regard.inputs.base import Vocabulary
from regard.inputs.text.settings import token_lengths, writes_at_most
from regard.inputs.text_axis import written_axis
from regard.look.axis import Axis
from regard.look.case import ExplainTarget
from regard.look.hooks import ROWS_AT_ONCE
from regard.look.records import NextToken
from regard.models.build import text_decoder
from regard.models.language_model import LanguageModel
from regard.models.seq2seq import Captioner, Seq2Seq, SpeechToText
from regard.settings.language_model import LanguageModelSettings
from regard.settings.model import RecurrentSettings, TransformerSettings
from regard.settings.recipe import Decision
from regard.special_tokens import END, PAD, START
from regard.tasks.base import QUICK, I, Output, OutputRef, R
from regard.tasks.batched import device_of
from regard.tasks.result import Alignment, Candidate, LookOptions, Prediction, Scores
from regard.tasks.text.cross_attention import cross_attention, log_probabilities, score_forced, stream_of, token_of
from regard.tasks.text.search import ArrivingItems, PendingInput, Searching, Sorted, search_groups
from regard.tasks.text.settings import CtcSettings
from regard.tasks.text.writing import MOST, CrossAttentionArrays, Ids, next_tokens_of
from regard.work import Answers, Take

# Build the models of recipes that generate text, from their settings.


def build_writer(s: RecurrentSettings | TransformerSettings, tokens: int, encoder: nn.Module) -> Seq2Seq:
    """Build a decoder over the memory of this encoder, for a vocabulary of `tokens` tokens."""
    decoder = text_decoder(s, tokens, encoder)
    how: dict[str, Any] = {"tie": s.tied, "bias": s.output_bias, "label_smoothing": s.label_smoothing}
    if isinstance(s, CtcSettings):
        return SpeechToText(encoder, decoder, ctc=s.ctc, **how)
    if isinstance(s, RecurrentSettings) and s.doubly_stochastic:
        return Captioner(encoder, decoder, doubly_stochastic=s.doubly_stochastic, **how)
    return Seq2Seq(encoder, decoder, **how)


def build_language_model(s: LanguageModelSettings, tokens: int, pad: int | None = 0) -> LanguageModel:
    """Build a language model for a vocabulary of `tokens` tokens. `pad`: the id of padding, if there is one."""
    if s.vocabulary is not None and s.vocabulary < tokens:
        raise CallError(f"model.vocabulary={s.vocabulary} is less than the {tokens} tokens of the vocabulary")
    return LanguageModel(
        s.vocabulary or tokens, s.width, s.heads, s.layers,
        feed_forward=s.feed_forward, max_length=s.context, positions=s.positions, rotary_base=s.rotary_base,
        norm_kind=s.norm, norm_eps=s.norm_eps, activation=s.activation, bias=s.bias, kv_heads=s.kv_heads,
        dropout=s.dropout, tied=s.tied, label_smoothing=s.label_smoothing, pad=pad,
    )  # fmt: skip


# The most probable tokens at each step of a given output, in one pass through the model.
#
# p(y_t | y_<t, x) = softmax(W f_t),     the five largest for every t

AT_ONCE = 64  # steps per batch: the probabilities of all steps over a large vocabulary would not fit


def most_probable(
    logits: Callable[[Tensor], Tensor], features: Float[Tensor, "T D"], tokens: Sequence[int], tokenizer: Tokenizer
) -> tuple[tuple[NextToken, ...], ...]:
    """Return the most probable tokens. `features`: the decoder's features before each step; `tokens`: the output."""
    found = []
    for some in features.split(AT_ONCE):
        known = logits(some).float().log_softmax(-1)
        tops = known.topk(min(MOST, known.shape[-1]))
        for values, ids in zip(tops.values.tolist(), tops.indices.tolist(), strict=True):
            found.append(next_tokens_of(tokens[: len(found)], ids, values, tokenizer))
    return tuple(found)


GREEDY: dict[str, Any] = {"beam": 1, "n_best": 1, "coverage_penalty": 0.0}  # greedy


class ForcedOutputs(NamedTuple):
    """An example, and the attention when its text was forced through the model."""

    example: Example
    item: Any
    ids: Ids
    seen: CrossAttentionArrays


class TextOutput(Output[R, I, Seq2Seq], Generic[R, I]):
    takes_prefix: ClassVar[bool] = True
    writes_text: ClassVar[bool] = True
    takes_instead: ClassVar[bool] = True
    draws_alone: ClassVar[bool] = True
    gives_attention: ClassVar[bool] = True

    def __init__(self, recipe: R, input: I) -> None:
        super().__init__(recipe, input)
        self._tokenizer: Tokenizer | None = None

    @property
    def is_sampling(self) -> bool:
        return self.recipe.decoding.sample

    # -------------------------------------------------------------------------------------------------------- targets
    @property
    def key(self) -> Any:
        if self._tokenizer is not None or self.input.shared_vocabulary is not None:
            return None
        return self.recipe.data.tokenizer.model_dump()

    def learn(self, texts: Iterable[str]) -> Tokenizer:
        how = self.recipe.data.tokenizer
        self._tokenizer = self._tokenizer or self.input.shared_vocabulary
        if self._tokenizer is None:
            kind, size = how.target_kind or how.kind, how.target_size or how.size
            self._tokenizer = Tokenizer.train(
                texts, kind, size=size, min_frequency=how.min_frequency, lowercase=how.lowercase
            )
        return self._tokenizer

    def auto_settings(self) -> list[Decision]:
        """Decide the maximum number of generated tokens from the targets of some examples."""
        how = self.recipe.data.tokenizer
        kind, size = how.target_kind or how.kind, how.target_size or how.size
        texts = self.input.target_texts()
        cut = [Decision("tokenizer.kind", kind, ""), Decision("tokenizer.size", size, "")]
        return [writes_at_most(token_lengths(texts, cut))] if texts else []

    def load(self, written: str) -> Tokenizer:
        self._tokenizer = Tokenizer.from_json(written)
        return self._tokenizer

    def collate(self, targets: Sequence[NDArray[Any]]) -> Tensor:
        return pad_rows(targets) if len(targets) else torch.full((1, 1), PAD)

    def save(self, folder: Path) -> None:
        """Save the target tokenizer, if it is not the same as the input's."""
        if self.input.shared_vocabulary is None:
            self.tokenizer.save(folder / (TARGET if (folder / TOKENIZER).is_file() else TOKENIZER))

    def restore(self, folder: Path) -> None:
        own = (folder / TARGET).is_file()
        self._tokenizer = Tokenizer.of_run(folder, TARGET) if own else Tokenizer.of_run(folder)

    # ------------------------------------------------------------------------------------------------------- training
    def build(self) -> Seq2Seq:
        s = self.recipe.model
        return build_writer(s, self.tokenizer.size, self.input.encoder(s))

    def quick(self, model: Seq2Seq, valid: Examples) -> dict[str, float]:
        """Return quick scores with greedy decoding, by the decoder alone."""
        examples = valid.examples(QUICK)
        said = self.greedily(model, [example.input for example in examples])
        return self.quick_scores(said, examples)

    @abstractmethod
    def quick_scores(self, hypotheses: Sequence[str], examples: Sequence[Example]) -> dict[str, float]: ...

    def sample(self, model: Seq2Seq, example: Example) -> str:
        said = self.greedily(model, [example.input])[0]
        return f"{self.input.name(example.input)}\n→ {said}\n= {example.texts[0]}"

    # ----------------------------------------------------------------------------------------------------- prediction
    def greedily(self, model: Seq2Seq, inputs: Sequence[Any]) -> list[str]:
        pieces = [self.pieces(one) for one in inputs]
        items = [item for some in pieces for _, item in some]
        found = iter(self.search(model, items, plain=True, sample=False, **GREEDY))
        texts = ([self.tokenizer.decode(next(found)[0].tokens) for _ in some] for some in pieces)
        return [" ".join(filter(None, some)) if len(some) > 1 else some[0] for some in texts]

    def predict(
        self, model: Seq2Seq, inputs: Sequence[Any], *, prefix: str = "", attention: bool = False
    ) -> list[Prediction]:
        """Predict outputs. An input longer than the model's limit is read in pieces; the prefix applies
        to the first.
        """
        pieces = [self.pieces(one) for one in inputs]
        first = self._of_pieces(model, [some[0] for some in pieces], prefix, attention)
        more = iter(self._of_pieces(model, [piece for some in pieces for piece in some[1:]], "", attention))
        rest = ([next(more) for _ in some[1:]] for some in pieces)
        whole = (self.joined([one, *others]) if others else one for one, others in zip(first, rest, strict=True))
        return [replace(found, input=self.input.name(one)) for one, found in zip(inputs, whole, strict=True)]

    def _of_pieces(
        self, model: Seq2Seq, pieces: Sequence[tuple[Any, Any]], prefix: str, attention: bool
    ) -> list[Prediction]:
        if not pieces:
            return []
        ones, items = zip(*pieces, strict=True)
        return self._predictions(model, ones, items, self.search(model, items, prefix=prefix), attention)

    def _predictions(
        self, model: Seq2Seq, inputs: Sequence[Any], items: Sequence[Any], found: Sequence[Any], attention: bool
    ) -> list[Prediction]:
        looked: Sequence[CrossAttentionArrays | None] = [None] * len(items)
        if items and (attention or self.needs_attention(found)):
            looked = cross_attention(model, self.input, items, [hypotheses[0].tokens for hypotheses in found])
        return [
            self.prediction(one, item, hypotheses, seen, attention)
            for one, item, hypotheses, seen in zip(inputs, items, found, looked, strict=True)
        ]

    def predict_arriving(self, model: Seq2Seq, take: Take, parse: Callable[[Any], Any], *, prefix: str = "") -> Answers:
        searching = self._searching(model)
        source = ArrivingItems(
            take, lambda one: self.pieces(parse(one)), lambda piece: self.input.length(piece[1]),
            self.tokenizer.encode(prefix), searching.how.batch_tokens,
        )  # fmt: skip

        def answered() -> Answers:
            for arrived, begun in source.ready():
                yield arrived, begun if isinstance(begun, Exception) else self._whole(model, begun)

        def encode(pieces: list[Any]) -> Memory:
            return self._encode(model, [item for _, item in pieces])

        for place, found in search_groups(searching, encode, source):
            item = place.begun.items[place.number][1]
            source.found(place, self._own_scores(model, item, found) if searching.helped else found)
            yield from answered()
        yield from answered()

    def pieces(self, one: Any) -> list[tuple[Any, Any]]:
        """Return the pieces of an input, each with its item."""
        return [(one, self.input.read(one))]

    def joined(self, predictions: list[Any]) -> Prediction:
        """Join the predictions of an input's pieces into one, without alternatives and without attention."""
        if len(predictions) == 1:
            return predictions[0]
        best = [found.n_best[0] for found in predictions]
        text = " ".join(filter(None, (one.text.strip() for one in best)))
        total = [sum(getattr(one, name) for one in best) for name in ("log_probability", "score")]
        return Prediction(" ".join(found.input for found in predictions), [Candidate(text, *total)])

    def _whole(self, model: Seq2Seq, pending: PendingInput) -> Prediction:
        ones, items = zip(*pending.items, strict=True)
        found = [pending.found[number] for number in range(len(items))]
        return self.joined(self._predictions(model, ones, items, found, attention=False))

    def prediction(
        self, one: Any, item: Any, hypotheses: list[Hypothesis], weights: CrossAttentionArrays | None, attention: bool
    ) -> Prediction:
        """Return the prediction of an item; with `attention`, also the weights and axes, if the model has attention."""
        outputs = [Candidate(self.tokenizer.decode(h.tokens), h.log_probability, h.score) for h in hypotheses]
        alignment = None
        if attention and weights is not None and weights.weights:
            rows = self.tokenizer.labels([*hypotheses[0].tokens, END])
            alignment = Alignment(rows, self.input.axis(item).labels, weights.weights)
        return Prediction(self.input.name(one), outputs, alignment)

    def needs_attention(self, found: Sequence[Sequence[Hypothesis]]) -> bool:
        """Whether the output text depends on attention."""
        return False

    def search(
        self,
        model: Seq2Seq,
        items: Sequence[Any],
        *,
        prefix: str = "",
        plain: bool = False,
        on_step: Callable[[int], None] | None = None,
        **how: Any,
    ) -> list[list[Hypothesis]]:
        """Return the hypotheses of each item, best first; an empty item has the empty output.

        `plain`: use the decoder alone, without CTC or a language model.
        """
        searching = self._searching(model, plain=plain, on_step=on_step, **how)
        lengths = [self.input.length(item) for item in items]
        results = [[Hypothesis([], 0.0, 0.0)] for _ in items]
        source = Sorted(items, lengths, searching.how.batch_tokens, self.tokenizer.encode(prefix))
        for number, found in search_groups(searching, partial(self._encode, model), source):
            results[number] = self._own_scores(model, items[number], found) if searching.helped else found
        return results

    def _searching(
        self, model: Seq2Seq, *, plain: bool = False, on_step: Callable[[int], None] | None = None, **how: Any
    ) -> Searching:
        helped = {} if plain else self.helped_by(model)
        return Searching(model, self.recipe.decoding.model_copy(update=how), on_step=on_step, **helped)

    @torch.inference_mode()
    def _encode(self, model: Seq2Seq, items: list[Any]) -> Memory:
        return model.encode(self.input.collate(items).to(device_of(model)))

    def _own_scores(self, model: Seq2Seq, item: Any, hypotheses: Sequence[Hypothesis]) -> list[Hypothesis]:
        """Return the hypotheses with the model's own log-probabilities: the search also used other scores."""
        own = log_probabilities(model, self.input, [item] * len(hypotheses), [one.tokens for one in hypotheses])
        return [one._replace(log_probability=total) for one, total in zip(hypotheses, own, strict=True)]

    def helped_by(self, model: Seq2Seq) -> dict[str, Any]:
        """Return other scores of the search as arguments of `search`; empty if there are none."""
        return {}

    def stream(self, model: Seq2Seq, one: Any, on_text: Callable[[str, str], None], *, prefix: str = "") -> Prediction:
        """Stream token by token, greedily or by sampling; a beam has no final tokens before its end."""
        ids: list[int] = []

        def told(token: int) -> None:
            if token != START:
                ids.append(token)
                on_text(self.tokenizer.labels([token])[0], self.tokenizer.decode(ids))

        item = self.input.read(one)
        (hypotheses,) = self.search(model, [item], prefix=prefix, plain=True, on_step=told, **GREEDY)
        return self.prediction(one, item, hypotheses, None, attention=False)

    def score_outputs(self, model: Seq2Seq, inputs: Sequence[Any], outputs: Sequence[str]) -> list[Candidate]:
        """Return outputs with the log-probability and the score that the search gives the same text."""
        items, targets = [self.input.read(one) for one in inputs], [self.tokenizer.encode(said) for said in outputs]
        penalty = LengthPenalty(self.recipe.decoding.length_penalty)
        found = zip(outputs, targets, log_probabilities(model, self.input, items, targets), strict=True)
        return [Candidate(said, total, total / penalty(len(target) + 1)) for said, target, total in found]

    # --------------------------------------------------------------------------------------------------------- looking
    def tell(self, model: Seq2Seq, one: Any, options: LookOptions) -> list[OutputRef]:
        if options.output is not None:
            tokens = self.tokenizer.encode(options.output)
            return [OutputRef(tokens, self.tokenizer.decode(tokens))]
        (found,) = self.search(model, [self.input.read(one)], prefix=options.prefix)
        return [OutputRef(h.tokens, self.tokenizer.decode(h.tokens), h.score) for h in found]

    def next_tokens(self, model: Seq2Seq, one: Any, ref: OutputRef) -> tuple[tuple[NextToken, ...], ...]:
        def work(some: list[Ids], source: Any, target: Tensor) -> list[Any]:
            features = model.features(model.encode(source), target)[0]
            return [most_probable(model.logits, features, some[0], self.tokenizer)]

        (found,) = score_forced(model, self.input, [self.item_of(one)], [ref.target], work)
        return found

    def case(self, model: Seq2Seq, one: Any, ref: OutputRef) -> ExplainTarget:
        """Return the case: rows are the generated tokens, columns are the source and the tokens read before."""
        item, tokens = self.item_of(one), ref.target
        axes = {"target": self.axis([*tokens, END]), "source": self.input.axis(item)}
        axes["read"] = self.axis([START, *tokens])
        return self.asked(
            model, item, partial(model.score, instead=ref.instead), axes, target=pad_sentences([tokens]),
            at_steps=partial(model.score_steps, instead=ref.instead),
            stream=stream_of(model.decoder, model.output, self.tokenizer, [*tokens, END], ref.instead),
        )  # fmt: skip

    def choice(self, word: str) -> int:
        return token_of(self.tokenizer, word)

    def axis(self, ids: Ids) -> Axis:
        """Return tokens with their positions in the decoded text."""
        return written_axis(self.tokenizer, ids, (PAD, START, END))

    # ------------------------------------------------------------------------------------------------------ evaluation
    def test_scores(self, model: Seq2Seq, examples: Sequence[Example], alignments: bool) -> Scores:
        said = [found.text for found in self.predict(model, [example.input for example in examples])]
        return self.scores(model, said, examples, alignments)

    def forced(self, model: Seq2Seq, examples: Sequence[Example], tokens: int = ROWS_AT_ONCE) -> list[ForcedOutputs]:
        """Return the attention when the first text of each example is forced through the model."""
        items = [self.input.read(example.input) for example in examples]
        targets = [self.tokenizer.encode(example.texts[0]) for example in examples]
        looked = cross_attention(model, self.input, items, targets, tokens)
        return [ForcedOutputs(*one) for one in zip(examples, items, targets, looked, strict=True)]

    @abstractmethod
    def scores(
        self, model: Seq2Seq, hypotheses: Sequence[str], examples: Sequence[Example], alignments: bool
    ) -> Scores: ...

    @property
    def tokenizer(self) -> Tokenizer:
        if self._tokenizer is None:
            raise RuntimeError("there is no vocabulary yet: prepare or restore comes first")
        return self._tokenizer

    @property
    def vocabulary(self) -> Vocabulary:
        return self.tokenizer
