"""Text comes in: token ids, an encoder of words, and words to look at."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from torch import Tensor, nn

from regard.data.check_report import CheckReport
from regard.data.examples import Example, Examples
from regard.data.pairs import Pair
from regard.data.settings import TokenizerSettings
from regard.data.tables import Role
from regard.data.tokenizer import TOKENIZER, Tokenizer
from regard.errors import CallError, RegardError
from regard.inputs.base import Input, Targets, Vocabulary
from regard.inputs.column import Column
from regard.inputs.text.body_settings import PretrainedReaderSettings, RecurrentTextSettings
from regard.inputs.text.examples import PairExamples
from regard.inputs.text.frame import Frame
from regard.inputs.text.pair_check import check
from regard.inputs.text.pair_prepare import prepare
from regard.inputs.text.pair_store import PairStore
from regard.inputs.text.splits import Split, pair_source
from regard.layers.embedding import Embedding
from regard.layers.word_dropout import WordDropout
from regard.look.axis import Axis, Token
from regard.parts import build_pooling, text_encoder
from regard.pretrained import encoder as pretrained_encoder
from regard.pretrained import keep_settings, kept_settings
from regard.settings.encoder import EncoderSettings, PretrainedSettings
from regard.settings.model import RecurrentSettings, TransformerSettings
from regard.settings.recipe import Recipe


class TextItem(NamedTuple):
    text: str
    ids: list[int]


class TextInput(Input):
    kind: ClassVar[str] = "text"

    def __init__(self, recipe: Recipe, section: Callable[[Any], Any] = lambda recipe: recipe.model) -> None:
        """`section`: the part of a recipe that has the sizes of the encoder."""
        super().__init__(recipe)
        self._section = section
        self._tokenizer: Tokenizer | None = None
        self._sizes: EncoderSettings | None = None  # of a pretrained encoder
        self._weights: dict[str, Tensor] | None = None  # that training begins with

    # ------------------------------------------------------------------------------------------------------- the files
    def prepare(self, cache: Path, targets: Targets, *, strict: bool = True) -> dict[Role, Examples]:
        """Two passes over the training data to learn both vocabularies, and one over each split to store ids."""
        prepared = prepare(self.data, cache, self, targets, strict=strict)
        return {role: self.examples(store, prepared.splits[role]) for role, store in prepared.stores.items()}

    def examples(self, store: PairStore, split: Split) -> PairExamples:
        return PairExamples(store, split, self.frame, self.example)

    @property
    def known(self) -> Tokenizer | None:
        """The vocabulary that is not learned: of a run that was restored, or of a pretrained encoder."""
        self._begin_with_pretrained()
        return self._tokenizer

    def keep(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer

    def writer(self) -> Vocabulary:
        return self.tokenizer

    def learn(self, sources: Iterable[str], targets: Iterable[str]) -> Tokenizer:
        """The vocabulary of inputs; with `joint`, that of inputs and outputs."""
        how = self.data.tokenizer
        texts = chain(sources, targets) if self._joint else sources
        return Tokenizer.train(texts, how.kind, size=how.size, min_frequency=how.min_frequency, lowercase=how.lowercase)

    def check(self, splits: dict[Role, Examples], vocabulary: Vocabulary) -> CheckReport:
        stores: dict[Role, PairStore] = {
            role: one.store for role, one in splits.items() if isinstance(one, PairExamples)
        }
        sides = self.data.columns.sides
        sizes = {sides[0]: self.tokenizer.size, sides[1]: vocabulary.size}
        return check(self.data, stores, sizes, two_texts=isinstance(vocabulary, Tokenizer))

    def test(self) -> tuple[list[Example], str]:
        """Nothing is cut or skipped for its length: a score is of all the data."""
        source = pair_source(self.data, "test")
        if source is None:
            raise self.no_test_data()
        items = list(source.read())
        pairs = [item for item in items if isinstance(item, Pair)]
        if not pairs:
            raise RegardError(f"data.test={source.where}: there is not one {self._noun} in it")
        lost = len(items) - len(pairs)
        examples = [self.example(pair) for pair in pairs]
        return examples, f"{lost} lines of {source.where} that are no {self._noun}" if lost else ""

    def column(self, values: Mapping[str, Any], cache: Path, role: Role) -> Column:
        """Its words are learned from the training data."""
        if self._tokenizer is None:
            self.keep(self.known or self.learn(values.values(), ()))
        return super().column(values, cache, role)

    def example(self, pair: Pair) -> Example:
        """A pair of the files as a person would give it."""
        return Example(pair.source, (pair.target,))

    def save(self, folder: Path) -> None:
        self.tokenizer.save(folder / TOKENIZER)
        if self._sizes is not None:
            keep_settings(self._sizes, folder)

    def restore(self, folder: Path) -> None:
        self._tokenizer = Tokenizer.of_run(folder)
        if isinstance(self.settings, PretrainedSettings):
            self._sizes = kept_settings(folder)

    # ------------------------------------------------------------------------------------------------------- one's own
    def read(self, one: Any) -> TextItem:
        if not isinstance(one, str):
            raise CallError(f"an input is a text, not {type(one).__name__}")
        ids = self.tokenizer.encode(one)
        return TextItem(one, ids[: self.data.max_length - 1] if self._cuts else ids)

    def length(self, item: TextItem) -> int:
        return len(item.ids)

    def collate(self, items: Sequence[TextItem]) -> Tensor:
        return self.frame.read([item.ids for item in items])

    # ------------------------------------------------------------------------------------------------------- the model
    def encoder(self, decoder: Any = None) -> nn.Module:
        settings = self._sizes if isinstance(self.settings, PretrainedSettings) else self.settings
        encoder = text_encoder(settings, self.tokenizer.size, pad=self.frame.pad)
        if self._weights is not None and not next(encoder.parameters()).is_meta:  # its cost has no weights
            encoder.load_state_dict(self._weights)
        return encoder

    def pooling(self, width: int) -> nn.Module:
        s = self.settings
        own = isinstance(s, RecurrentTextSettings) and s.self_attention
        return build_pooling(s.pooling, s.score, width, self_attention=own)

    def noise(self) -> nn.Module | None:
        s, specials = self.settings, self.tokenizer.specials
        if not s.word_dropout:
            return None
        if specials.unk is None:
            raise CallError(f"word_dropout={s.word_dropout:g} needs a vocabulary with a token for unknown words")
        keep = [index for index in (specials.pad, specials.start, specials.end) if index is not None]
        return WordDropout(s.word_dropout, unknown=specials.unk, keep=keep)

    @property
    def frozen(self) -> bool:
        return isinstance(self.settings, PretrainedReaderSettings) and self.settings.frozen

    # --------------------------------------------------------------------------------------------------------- looking
    def axis(self, item: TextItem) -> Axis:
        tokenizer, frame = self.tokenizer, self.frame
        tokens = [] if frame.first is None else [Token(tokenizer.labels([frame.first])[0], special=True)]
        labels, spans = tokenizer.labels(item.ids), tokenizer.spans(item.text)
        for index, label, span in zip(item.ids, labels, spans, strict=False):  # a long text may have been cut
            unknown = index == tokenizer.specials.unk
            label = item.text[span.start : span.end] or label if unknown else label
            tokens.append(Token(label, (span.start, span.end), span.word))
        return Axis((*tokens, Token(tokenizer.labels([frame.end])[0], special=True)), item.text)

    def parts(self, item: TextItem) -> list[int]:
        return list(range(self.frame.before, self.frame.before + len(item.ids)))

    def without(self, item: TextItem, parts: Collection[int]) -> Any:
        return item._replace(ids=[index for place, index in enumerate(item.ids) if place not in parts])

    def vectors(self, encoder: nn.Module) -> nn.Module:
        embedding = encoder.embedding
        assert isinstance(embedding, Embedding)
        return embedding.table

    # ----------------------------------------------------------------------------------------------------------- parts
    @property
    def data(self) -> Any:
        return self.recipe.data  # pyright: ignore[reportAttributeAccessIssue] (every recipe of a job has it)

    @property
    def settings(self) -> Any:
        return self._section(self.recipe)

    @property
    def tokenizer(self) -> Tokenizer:
        if self._tokenizer is None:
            raise RuntimeError("there is no vocabulary yet: prepare or restore comes first")
        return self._tokenizer

    @property
    def shared_vocabulary(self) -> Tokenizer | None:
        return self._tokenizer if self._joint else None

    @property
    def frame(self) -> Frame:
        """Encoders that stand alone read a first token, whose vector stands for the whole text."""
        first = isinstance(self.settings, EncoderSettings | PretrainedSettings)
        return Frame.of(self.tokenizer.specials, first=first)

    @property
    def _noun(self) -> str:
        one, other = self.data.columns.sides
        return "pair" if (one, other) == ("source", "target") else f"{one} with its {other}"

    @property
    def _cuts(self) -> bool:
        """Whether of a long text the beginning is read, as training did. What writes a text over a memory needs all."""
        alone = not isinstance(self.settings, RecurrentSettings | TransformerSettings)
        return alone and "overlong" in type(self.data).model_fields and self.data.overlong == "cut"

    @property
    def _joint(self) -> bool:
        how = self.data.tokenizer
        return isinstance(how, TokenizerSettings) and how.joint

    def _begin_with_pretrained(self) -> None:
        settings = self.settings
        if isinstance(settings, PretrainedSettings) and self._tokenizer is None:
            found = pretrained_encoder(settings.path, dropout=settings.dropout)
            self._sizes, self._tokenizer, self._weights = found.settings, found.tokenizer, found.weights
            limit = found.settings.max_positions
            if found.settings.positions == "learned" and self.data.max_length > limit:
                raise CallError(
                    f"data.max_length={self.data.max_length} is more than the {limit} positions that the encoder of "
                    f"{settings.path} knows"
                )
