"""Text to more text: a language model on plain text files.

files  → token ids → windows → decoder → loss                    (training)
prompt → token ids → decoder → draw → token ids → text           (prediction)
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from torch import nn

from regard.data.check_report import CheckReport
from regard.data.tokenizer import TOKENIZER, Tokenizer
from regard.decoding.continuing import Drawing, Written, continued
from regard.errors import CallError
from regard.look import AttentionRecord, heat_map
from regard.look.of_model import evaluating
from regard.models.language_model import LanguageModel, TextBatch
from regard.old_job import PLAIN, Output, Picture, Prediction, Scores, Wish
from regard.outputs.text import text_looking
from regard.outputs.text.generate_settings import GenerateRecipe, LanguageModelSettings
from regard.outputs.text.plain_batches import TextWindows
from regard.outputs.text.plain_prepare import PreparedText, TextPart, prepare_text, refuse_if_useless, store_text
from regard.outputs.text.plain_store import TextStore
from regard.outputs.text.text_scoring import TextLoss, check_report, text_loss
from regard.outputs.text.text_writing import Continuation
from regard.settings.recipe import Recipe

SAMPLE, SHOWN = 160, 40  # tokens of the sample while training, and of the picture in the report


@dataclass(frozen=True)
class _Batches:
    """Windows as the model takes them."""

    windows: TextWindows

    def epoch(self, number: int, start: int = 0, rank: int = 0, world: int = 1) -> Iterator[TextBatch | None]:
        for window in self.windows.epoch(number, start, rank, world):
            yield None if window is None else TextBatch(window)

    def len_epoch(self, number: int) -> int:
        return self.windows.len_epoch(number)


class Generate:
    """The job, under one recipe. `prepare` (training) or `restore` (prediction) brings the tokenizer."""

    def __init__(self, recipe: Recipe, tokenizer: Tokenizer | None = None) -> None:
        assert isinstance(recipe, GenerateRecipe)
        self.recipe = recipe
        self._tokenizer = tokenizer
        self._prepared: PreparedText | None = None

    def under(self, recipe: Recipe) -> "Generate":
        """The same tokenizer under another recipe: other test data, another way of decoding."""
        return Generate(recipe, self._tokenizer)

    # ------------------------------------------------------------------------------------------------------ training
    def prepare(self, cache: Path) -> None:
        self._prepared = prepare_text(self.recipe.data, cache, tokenizer=self._tokenizer)
        self._tokenizer = self._prepared.tokenizer

    def check(self, cache: Path) -> CheckReport:
        prepared = prepare_text(self.recipe.data, cache, tokenizer=self._tokenizer, strict=False)
        with torch.device("meta"):
            model = build_language_model(self.recipe.model, prepared.tokenizer.size)
        return check_report(self.recipe, prepared, model)

    def build(self) -> LanguageModel:
        torch.manual_seed(self.recipe.training.seed)
        return build_language_model(self.recipe.model, self.tokenizer.size, self.tokenizer.specials.pad)

    def batches(self) -> _Batches:
        training = self.recipe.training
        return _Batches(TextWindows(self.data.train, self.context, self._rows, seed=training.seed))

    def fingerprint(self) -> str:
        return self.data.train.digest()

    def validate(self, model: nn.Module) -> dict[str, float]:
        """Loss, perplexity and bits per byte of all validation text, in windows side by side."""
        return self._loss(model, self.data.valid, self.context).values()

    def sample(self, model: nn.Module) -> str:
        """How the model goes on from the beginning of the validation text."""
        prompt = self.tokenizer.decode(self.data.valid.ids[:SHOWN].tolist())
        decoding = self.recipe.decoding.model_copy(update={"max_length": SAMPLE, "n_best": 1})
        job = self.under(self.recipe.model_copy(update={"decoding": decoding}))
        return prompt + job.predict(model, [prompt])[0].text

    def pictures(self, model: nn.Module) -> list[Picture]:
        """Where the model looks in the first tokens of the validation text."""
        assert isinstance(model, LanguageModel)
        tokens = self.data.valid.ids[: min(SHOWN, self.context)].tolist()
        text = self.tokenizer.decode(tokens)
        with evaluating(model):
            record = text_looking.look(model, self.tokenizer, tokens, self.context, text=text)
        matrix = record.matrix("decoder")
        rows, columns = ([token.text for token in axis.tokens] for axis in (matrix.rows, matrix.columns))
        note = "Attention to what was read before, the mean of all heads. Rows: the token that was told; columns: read."
        return [Picture(text.replace("\n", " ")[:80], heat_map(matrix.weights, rows, columns, text), note)]

    # ---------------------------------------------------------------------------------------------------- the folder
    def save(self, folder: Path) -> None:
        self.tokenizer.save(folder / TOKENIZER)

    def restore(self, folder: Path) -> None:
        self._tokenizer = Tokenizer.of_run(folder)

    # ---------------------------------------------------------------------------------------------------- prediction
    def inputs(self, words: Sequence[str]) -> list[str]:
        return list(words)

    def predict(
        self, model: nn.Module, inputs: Sequence[str], *, prefix: str = "", attention: bool = False
    ) -> list[Prediction]:
        """Continuations; `text` does not repeat the prompt. `prefix` is what they begin with."""
        if attention:
            raise CallError("a language model has no source to be aligned with; `look` shows what it looked back at")
        wanted = self.recipe.decoding.n_best
        stop = self.recipe.decoding.stop
        texts = [Continuation(self.tokenizer, text, prefix, stop) for text in inputs for _ in range(wanted)]
        for written in self._continued(model, texts):
            texts[written.row].add(written.token, written.log_probability)
        outputs = [Output(prefix + text.text, text.total, text.total) for text in texts]
        grouped = [outputs[place : place + wanted] for place in range(0, len(outputs), wanted)]
        best_first = (sorted(group, key=lambda output: -output.score) for group in grouped)
        return [Prediction(text, found) for text, found in zip(inputs, best_first, strict=True)]

    def stream(self, model: nn.Module, text: str, *, prefix: str = "") -> Iterator[tuple[str, float]]:
        """The continuation in pieces, as soon as they are certain: whole characters, and no part of a stop text."""
        one = Continuation(self.tokenizer, text, prefix, self.recipe.decoding.stop)
        if prefix:
            yield prefix, 0.0
        for written in self._continued(model, [one]):
            one.add(written.token, written.log_probability)
            if piece := one.news():
                yield piece, one.total
        yield one.news(last=True), one.total

    def _continued(self, model: nn.Module, texts: Sequence[Continuation]) -> Iterator[Written]:
        assert isinstance(model, LanguageModel)
        how, special = self.recipe.decoding, self.tokenizer.specials
        with evaluating(model):
            yield from continued(
                model,
                [self._begun(text.prompt) for text in texts],
                Drawing(how.temperature, how.top_k, how.top_p, how.repetition_penalty, how.seed),
                context=self.context,
                max_length=how.max_length,
                end=special.end,
                forbidden=[
                    index
                    for index in (special.pad, special.unk, special.start)
                    if index is not None and index != special.end
                ],
                device=next(model.parameters()).device,
                ended=lambda written: texts[written.row].stopped,
            )

    def _begun(self, prompt: list[int]) -> list[int]:
        """The prompt as the model reads it: after the begin token, if texts begin there or there is nothing else."""
        special, begin = self.tokenizer.specials, self.recipe.decoding.begin
        first = special.start if special.start is not None else special.end
        wanted = self.recipe.data.documents != "file" if begin is None else begin
        if prompt and not (wanted and first is not None):
            return prompt
        if first is None:
            raise CallError("an empty prompt needs a begin token, which this vocabulary does not have: give a prompt")
        return [first, *prompt]

    def score(self, model: nn.Module, inputs: Sequence[str], outputs: Sequence[str]) -> list[Prediction]:
        """log p(output | input), without an end token: the output may go on."""
        assert isinstance(model, LanguageModel)
        found = []
        for text, said in zip(inputs, outputs, strict=True):
            before = self.tokenizer.encode(text)
            new = self.tokenizer.encode(text + said)[len(before) :]
            tokens = [*self._begun(before), *new]
            with evaluating(model):
                scores = text_looking.log_probabilities(model, tokens[-self.context - 1 :])
            total = float(scores[len(scores) - len(new) :].sum())
            found.append(Prediction(text, [Output(said, total, total)]))
        return found

    def look(self, model: nn.Module, text: str, wish: Wish = PLAIN) -> AttentionRecord:
        """What the model looked back at when it told each token of a text, and the one that it thinks comes next."""
        assert isinstance(model, LanguageModel)
        if wish.gold is not None:
            raise CallError("gold links are between a source and an output, and a language model has no source")
        prompt = self._begun(self.tokenizer.encode(text))
        forced = self.tokenizer.encode(text + wish.output)[len(self.tokenizer.encode(text)) :] if wish.output else []
        with evaluating(model):
            return text_looking.look(
                model, self.tokenizer, [*prompt, *forced], self.context,
                method=wish.method, name=wish.name, text=text, output=wish.output or "",
            )  # fmt: skip

    # ---------------------------------------------------------------------------------------------------- evaluation
    def evaluate(self, model: nn.Module, *, alignments: bool = False) -> Scores:
        """Loss, perplexity and bits per byte of the test text, or of the validation text if there is none."""
        if alignments:
            raise CallError("a language model has no source to be aligned with")
        stride = self.recipe.decoding.stride or max(1, self.context // 2)
        with TemporaryDirectory(prefix="regard-evaluate-") as cache:
            part, store = self._test(Path(cache))
            with evaluating(model):
                found = self._loss(model, store, stride)
        values = {**found.values(), "tokens": float(found.tokens), "bytes": float(found.bytes)}
        notes = {"text": str(part), "window": f"{self.context} tokens, moved by {stride}"}
        if store.counts.unknown:
            notes["unknown"] = f"{store.counts.unknown:,} tokens are not in the vocabulary: bits per byte is too low"
        if store.counts.bad:
            notes["skipped"] = f"{store.counts.bad} lines that are no text"
        return Scores(values, notes)

    def _test(self, cache: Path) -> tuple[TextPart, TextStore]:
        data = self.recipe.data
        if data.test is not None:
            part = TextPart(data.test, "test", data.documents)
            store = store_text(cache, part, self.tokenizer)
            refuse_if_useless(store, part, data.max_bad)
            return part, store
        prepared = prepare_text(data.model_copy(update={"cache": None}), cache, tokenizer=self.tokenizer)
        return prepared.parts["valid"], prepared.valid

    def _loss(self, model: nn.Module, store: TextStore, stride: int) -> TextLoss:
        assert isinstance(model, LanguageModel)
        rows = max(1, max(4096, self.recipe.training.max_tokens) // self.context)
        return text_loss(model, store, context=self.context, stride=stride, rows=rows)

    @property
    def context(self) -> int:
        return self.recipe.model.context

    @property
    def _rows(self) -> int:
        return max(1, self.recipe.training.max_tokens // self.context)

    @property
    def tokenizer(self) -> Tokenizer:
        assert self._tokenizer is not None, "prepare or restore comes first"
        return self._tokenizer

    @property
    def data(self) -> PreparedText:
        assert self._prepared is not None, "prepare comes first"
        return self._prepared


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
