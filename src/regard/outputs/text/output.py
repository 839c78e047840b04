"""Text comes out: a decoder writes tokens, one after the other, over the memory of whatever came in.

    p(y | x) = Π_t p(y_t | y_<t, Memory(x))

What is the same for a translation, a caption and a transcript is here; what only one of them has (gold alignments,
several references, windows of a long recording) is in a file of its own beside this one.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Generic

import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from regard.data.batches import pad_sentences, padded
from regard.data.examples import Example, Examples
from regard.data.tokenizer import TOKENIZER, Tokenizer
from regard.decoders.decoder import Decoder
from regard.decoding.ctc_joint import LanguageModelVoice
from regard.decoding.protocol import Hypothesis
from regard.errors import CallError
from regard.inputs.base import Vocabulary
from regard.look.axis import Axis, Token
from regard.look.case import Case, Parts
from regard.models.captioner import Captioner
from regard.models.seq2seq import Seq2Seq
from regard.outputs.base import QUICK, I, LookOptions, Output, R, Told, device_of
from regard.outputs.result import Alignment, Candidate, Prediction, Scores
from regard.outputs.text.attended import GROUP, Attended, attended
from regard.outputs.text.search import Ids, grouped, in_groups, search
from regard.outputs.text.stream import stream_of
from regard.parts import text_decoder
from regard.settings.model import RecurrentSettings
from regard.special_tokens import END, PAD, START

TARGET = "tokenizer.target.json"  # of a run whose input has a tokenizer of its own


class TextOutput(Output[R, I, Seq2Seq], Generic[R, I]):
    takes_prefix: ClassVar[bool] = True
    writes_text: ClassVar[bool] = True

    def __init__(self, recipe: R, input: I) -> None:
        super().__init__(recipe, input)
        self._tokenizer: Tokenizer | None = None

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

    def load(self, written: str) -> Tokenizer:
        self._tokenizer = Tokenizer.from_json(written)
        return self._tokenizer

    def collate(self, targets: Sequence[NDArray[Any]]) -> Tensor:
        return padded(targets) if len(targets) else torch.full((1, 1), PAD)

    def save(self, folder: Path) -> None:
        """Beside the input's tokenizer, if it has one and is not the same."""
        if self.input.shared_vocabulary is None:
            self.tokenizer.save(folder / (TARGET if (folder / TOKENIZER).is_file() else TOKENIZER))

    def restore(self, folder: Path) -> None:
        own = (folder / TARGET).is_file()
        self._tokenizer = Tokenizer.of_run(folder, TARGET) if own else Tokenizer.of_run(folder)

    # ------------------------------------------------------------------------------------------------------- training
    def build(self) -> Seq2Seq:
        encoder = self.input.encoder(self.recipe.model)
        return self.assembled(encoder, text_decoder(self.recipe.model, self.tokenizer.size, encoder))

    def assembled(self, encoder: nn.Module, decoder: Decoder) -> Seq2Seq:
        s = self.recipe.model
        how: dict[str, Any] = {"tie": s.tied, "bias": s.output_bias, "label_smoothing": s.label_smoothing}
        if isinstance(s, RecurrentSettings) and s.doubly_stochastic:
            return Captioner(encoder, decoder, doubly_stochastic=s.doubly_stochastic, **how)
        return Seq2Seq(encoder, decoder, **how)

    def quick(self, model: Seq2Seq, valid: Examples) -> dict[str, float]:
        """Greedily and by the decoder alone."""
        examples = valid.examples(QUICK)
        said = self.greedily(model, [example.input for example in examples])
        return self.quick_scores(said, examples)

    @abstractmethod
    def quick_scores(self, said: Sequence[str], examples: Sequence[Example]) -> dict[str, float]: ...

    def sample(self, model: Seq2Seq, example: Example) -> str:
        said = self.greedily(model, [example.input])[0]
        return f"{self.input.name(example.input)}\n→ {said}\n= {example.texts[0]}"

    # ----------------------------------------------------------------------------------------------------- prediction
    def greedily(self, model: Seq2Seq, inputs: Sequence[Any]) -> list[str]:
        how = {"beam": 1, "n_best": 1, "coverage_penalty": 0.0, "sample": False}
        found = self.search(model, [self.input.read(one) for one in inputs], plain=True, **how)
        return [self.tokenizer.decode(hypotheses[0].tokens) for hypotheses in found]

    def predict(
        self, model: Seq2Seq, inputs: Sequence[Any], *, prefix: str = "", attention: bool = False
    ) -> list[Prediction]:
        items = [self.input.read(one) for one in inputs]
        found = self.search(model, items, prefix=prefix)
        looked: Sequence[Attended | None] = [None] * len(items)
        if items and (attention or self.needs_attention(found)):
            looked = attended(model, self.input, items, [hypotheses[0].tokens for hypotheses in found])
        return [
            self.prediction(one, item, hypotheses, seen, attention)
            for one, item, hypotheses, seen in zip(inputs, items, found, looked, strict=True)
        ]

    def prediction(
        self, one: Any, item: Any, hypotheses: list[Hypothesis], seen: Attended | None, attention: bool
    ) -> Prediction:
        outputs = [Candidate(self.tokenizer.decode(h.tokens), h.score, h.log_probability) for h in hypotheses]
        alignment = None if seen is None or not attention else self.alignment(item, hypotheses[0].tokens, seen)
        return Prediction(self.input.name(one), outputs, alignment)

    def alignment(self, item: Any, tokens: Ids, seen: Attended) -> Alignment | None:
        """The weights with what they stand between; None for a model that does not attend."""
        if not seen.weights:
            return None
        return Alignment(self.tokenizer.labels([*tokens, END]), self.input.axis(item).labels, seen.weights)

    def needs_attention(self, found: Sequence[Sequence[Hypothesis]]) -> bool:
        """Whether what was found cannot be told without knowing where the model looked."""
        return False

    def search(
        self,
        model: Seq2Seq,
        items: Sequence[Any],
        *,
        prefix: str = "",
        plain: bool = False,
        tell: Callable[[int], None] | None = None,
        **how: Any,
    ) -> list[list[Hypothesis]]:
        """The hypotheses of each item, best first; what has nothing in it has nothing to say: an empty output.

        `plain`: by the decoder alone, without what helps it.
        """
        decoding, begin = self.recipe.decoding.model_copy(update=how), self.tokenizer.encode(prefix)
        device = device_of(model)
        helped: dict[str, Any] = {} if plain else self.helped_by(model)

        def decode(numbers: list[int]) -> list[list[Hypothesis]]:
            with torch.inference_mode():
                memory = model.encode(self.input.collate([items[number] for number in numbers]).to(device))
            return search(model, memory, decoding, begin, tell=tell, **helped)

        lengths = [self.input.length(item) for item in items]
        results = [[Hypothesis([], 0.0, 0.0)] for _ in items]
        filled = [number for number, length in enumerate(lengths) if length]
        for number, hypotheses in in_groups(filled, lengths, decoding.batch_tokens, decode):
            results[number] = hypotheses
        return results

    def helped_by(self, model: Seq2Seq) -> dict[str, Any]:
        """What else has a say in the search: arguments of `search`."""
        language: LanguageModelVoice | None = None
        return {"language": language}

    def stream(self, model: Seq2Seq, one: Any, tell: Callable[[str, str], None], *, prefix: str = "") -> Prediction:
        """Greedily or by chance, token by token; a beam has nothing certain to tell before its end."""
        ids: list[int] = []

        def told(token: int) -> None:
            if token != START:
                ids.append(token)
                tell(self.tokenizer.labels([token])[0], self.tokenizer.decode(ids))

        item, how = self.input.read(one), {"beam": 1, "n_best": 1, "coverage_penalty": 0.0}
        (hypotheses,) = self.search(model, [item], prefix=prefix, plain=True, tell=told, **how)
        return self.prediction(one, item, hypotheses, None, attention=False)

    @torch.inference_mode()
    def score(self, model: Seq2Seq, inputs: Sequence[Any], outputs: Sequence[str]) -> list[Prediction]:
        """log p(output | input), the end symbol included: what decoding calls the log-probability of a hypothesis."""
        items, targets = [self.input.read(one) for one in inputs], [self.tokenizer.encode(said) for said in outputs]
        device = device_of(model)

        def score(numbers: list[int]) -> list[float]:
            source = self.input.collate([items[number] for number in numbers]).to(device)
            target = pad_sentences([targets[number] for number in numbers]).to(device)
            return model.score(source, target).sum(1).tolist()

        lengths = [max(self.input.length(item), len(target)) for item, target in zip(items, targets, strict=True)]
        totals = grouped(len(items), lengths, GROUP, score)
        return [
            Prediction(self.input.name(one), [Candidate(said, total, total)])
            for one, said, total in zip(inputs, outputs, totals, strict=True)
        ]

    # --------------------------------------------------------------------------------------------------------- looking
    def tell(self, model: Seq2Seq, one: Any, options: LookOptions) -> list[Told]:
        if options.output is not None:
            tokens = self.tokenizer.encode(options.output)
            return [Told(tokens, self.tokenizer.decode(tokens))]
        (found,) = self.search(model, [self.input.read(one)], prefix=options.prefix)
        return [Told(h.tokens, self.tokenizer.decode(h.tokens), h.score) for h in found]

    def case(self, model: Seq2Seq, one: Any, told: Told) -> Case:
        """Rows of a decoder's tables are the tokens it wrote; it looked at the source, and at what it read before."""
        input, item, device = self.input, self.input.read(one), device_of(model)
        if not input.length(item):
            raise CallError(f"the input {input.name(one)!r} has no token: there is nothing to look at")
        target = pad_sentences([told.target]).to(device)

        def ask(without: Sequence[Parts]) -> Tensor:
            items = [input.without(item, parts) if parts else item for parts in without]
            at_once = max(1, GROUP // (max(input.length(item), len(told.target)) + 1))
            at_once = len(items) if torch.is_grad_enabled() else at_once  # gradients are of one pass
            return torch.cat([
                model.score(input.collate(some).to(device), target.expand(len(some), -1))
                for some in (items[start : start + at_once] for start in range(0, len(items), at_once))
            ])  # fmt: skip

        tokens = told.target
        axes = {"target": self.axis([*tokens, END]), "source": input.axis(item), "read": self.axis([START, *tokens])}
        return Case(
            model, ask, axes, input.parts(item),
            vectors=input.vectors(model.encoder), gather=lambda products: input.gather(item, products),
            stream=stream_of(model.decoder, model.output, self.tokenizer, [*tokens, END]),
        )  # fmt: skip

    def axis(self, ids: Ids) -> Axis:
        """Tokens with their places in the text that they make together."""
        tokens = [
            Token(label, special=True)
            if index in (PAD, START, END)
            else Token(label, (span.start, span.end), span.word)
            for index, label, span in zip(
                ids, self.tokenizer.labels(ids), self.tokenizer.decoded_spans(ids), strict=True
            )
        ]
        return Axis(tuple(tokens), self.tokenizer.decode(ids))

    # ------------------------------------------------------------------------------------------------------ evaluation
    def evaluate(self, model: Seq2Seq, *, alignments: bool = False) -> Scores:
        examples, skipped = self.input.test()
        said = [found.text for found in self.predict(model, [example.input for example in examples])]
        scores = self.scores(model, said, examples, alignments)
        if skipped:
            scores.notes["skipped"] = skipped
        return scores

    @abstractmethod
    def scores(self, model: Seq2Seq, said: Sequence[str], examples: Sequence[Example], alignments: bool) -> Scores: ...

    @property
    def tokenizer(self) -> Tokenizer:
        if self._tokenizer is None:
            raise RuntimeError("there is no vocabulary yet: prepare or restore comes first")
        return self._tokenizer

    @property
    def vocabulary(self) -> Vocabulary:
        return self.tokenizer
