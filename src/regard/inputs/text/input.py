"""Text input: token ids, an encoder, and words as its axis."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
from torch import Tensor, nn

from regard.data.check import DataCheck, are_labels
from regard.data.check_report import CheckReport
from regard.data.examples import Example, Examples
from regard.data.files import PairSource
from regard.data.pairs import BETWEEN, Pair, SkippedLine
from regard.data.prepare import PrepareCache, Split, find_test, with_progress
from regard.data.settings import TokenizerSettings
from regard.data.store import Store
from regard.data.tables import Role
from regard.data.tokenizer import Tokenizer
from regard.data.vocabulary import SpecialIds, Targets, Vocabulary
from regard.data.windows import in_pieces
from regard.errors import CallError, RegardError
from regard.inputs.column import InputColumn
from regard.inputs.text.pairs import Frame, PairExamples, write_pairs
from regard.inputs.text.settings import PretrainedReaderSettings, RecurrentTextSettings
from regard.inputs.text.two_texts import TwoTextsItem, TwoTextsReader, fitting
from regard.inputs.text_axis import read_axis
from regard.inputs.tokenized import TokenizedInput
from regard.layers.feed_forward import WordDropout
from regard.look.axis import Axis
from regard.models.build import build_pooling
from regard.settings.model import EncoderSettings, PretrainedSettings, RecurrentSettings, TransformerSettings

LOOKED_AT = 2000  # pairs whose lengths determine the length limits


class TextData(TokenizedInput):
    """Texts from files: pairs on disk as token ids, and the data check."""

    def prepare(self, cache: Path, targets: Targets, *, strict: bool = True) -> dict[Role, Examples]:
        """Prepare the pairs: two passes over the training data to learn both vocabularies, one
        over each split to store ids.
        """
        steps, sources = PrepareCache.of(self.data, cache, strict=strict), PairSource.by_role(self.data)
        splits = steps.splits(sources)
        vocabulary = self._learn(steps, splits["train"], steps.count(sources["train"]).pairs, targets)
        return {
            role: self.examples(self._store(steps, role, split, vocabulary), split) for role, split in splits.items()
        }

    def target_texts(self) -> list[str]:
        read = islice(PairSource.by_role(self.data)["train"].read(), LOOKED_AT)
        return [one.target for one in read if isinstance(one, Pair)]

    def _learn(self, steps: PrepareCache, train: Split[Pair], pairs: int, targets: Targets) -> Vocabulary:
        """Learn both vocabularies from training pairs only; if there are very many, from an even sample of them."""
        how = self.data.tokenizer
        key, every = [train.depends_on(), how.learn_from], -(-pairs // how.learn_from)

        def texts(side: str, every: int) -> Iterator[str]:
            return (getattr(pair, side) for pair in islice(train.good(), 0, None, every))

        def sources() -> Iterator[str]:
            found = chain.from_iterable(map(self.texts_of, texts("source", every)))
            return chain(found, texts("target", every)) if self._joint else found

        of_one = pairs // every
        self.learn_once(steps, key, sources, of_one * (2 if self._joint else 1))
        step = 1 if targets.learns_from_all else every
        return steps.targets(targets, key, lambda: texts("target", step), pairs // step)

    def _store(self, steps: PrepareCache, role: Role, split: Split[Pair], target: Vocabulary) -> Store:
        data, source = self.data, self.writer()
        overlong = data.overlong if role == "train" else "cut"  # a score covers all data

        def write(folder: Path, name: str, items: Iterable[Pair | SkippedLine]) -> None:
            write_pairs(folder, items, source, target, name=name, max_length=data.max_length, overlong=overlong)

        key = [source.to_json(), target.to_json(), data.max_length, overlong]
        limit = f"data.max_length={data.max_length}; raise it, or set data.overlong=cut"
        return steps.store(Store, role, split, key, write, limit=limit)

    def examples(self, store: Store, split: Split[Pair]) -> PairExamples:
        return PairExamples(store, split, self.frame, self.example)

    def writer(self) -> Vocabulary:
        """Tokenizer of a store's inputs, or a wrapper of it."""
        return self.tokenizer

    def check(self, splits: dict[Role, Any], vocabulary: Vocabulary) -> CheckReport:
        """Check the lengths and tokens of a split. Text targets are also checked for length ratio and copies; other
        targets are treated as labels.
        """
        stores: dict[Role, Store] = {role: one.store for role, one in splits.items()}
        data, sides, texts = self.data, self.data.columns.to_normal_form, isinstance(vocabulary, Tokenizer)
        noun = "pair" if texts else sides[0]
        found = DataCheck(stores, noun=noun, sides=sides, max_bad=data.max_bad, contradicts=not texts)
        limit = f"data.max_length={data.max_length} tokens"
        done = "skipped" if data.overlong == "skip" else "cut"
        found.overlong(limit, done, ("data.max_length", data.max_length))
        for side, one in enumerate((self.tokenizer, vocabulary)):
            if isinstance(one, Tokenizer):
                found.unknown(side, self.unknown_advice(one.size))
        for role, store in stores.items():
            source, target = store.row_lengths("source"), store.row_lengths("target")
            advice = "remove them, or use data.tokenizer.kind=byte"
            nothing = "that are empty after tokenization"
            found.at("warning", role, np.flatnonzero(source <= 1), nothing, advice)
            if texts:
                different = len(np.unique(store.hashes[:, 1]))
                if role == "train" and are_labels(len(store), different):
                    what = f"{len(store):,} pairs with {different} different targets: these look like labels"
                    advice = f"`regard train {data.train}` makes a classifier"
                    found.add("warning", role, what, advice, count=len(store))
                advice = "check whether these are translations of each other"
                found.unequal(role, source, target, "with one side more than 4 times longer than usual", advice)
                same = np.flatnonzero(store.hashes[:, 0] == store.hashes[:, 1])
                share = len(same) / len(store)
                advice = "remove them if they were left untranslated: the model would learn to copy"
                what = f"({share:.1%}) with a target equal to the source"
                found.at("warning" if share > 0.01 else "note", role, same, what, advice)
        return found.report({sides[0]: self.tokenizer.size, sides[1]: vocabulary.size})

    def test(self) -> tuple[list[Example], str]:
        """Return the test examples. Nothing is cut or skipped for its length: a score covers all data."""
        split: Split[Pair] = find_test(PairSource.by_role(self.data), self.data.test_share)
        items, source = list(with_progress(split.read(), f"reading {split}")), split.source
        pairs = [item for item in items if isinstance(item, Pair)]
        if not pairs:
            raise RegardError(f"data.test={split}: it contains no {self._noun}")
        lost = len(items) - len(pairs)
        examples = [self.example(pair) for pair in pairs]
        return examples, f"{lost} lines of {source.where} that cannot be read as a {self._noun}" if lost else ""

    def column(self, values: Mapping[str, Any], role: Role, steps: PrepareCache) -> InputColumn:
        self.learn(values.values())
        return super().column(values, role, steps)

    def texts_of(self, source: str) -> Sequence[str]:
        """Return the input of an example of the files."""
        return [source]

    def example(self, pair: Pair) -> Example:
        """Return a pair of the files as a user would give it."""
        return Example(pair.source, (pair.target,))

    def plain(self, one: Any) -> Sequence[str]:
        return (one,) if isinstance(one, str) else tuple(one)

    @property
    def shared_vocabulary(self) -> Tokenizer | None:
        return self._tokenizer if self._joint else None

    @property
    def _noun(self) -> str:
        one, other = self.data.columns.to_normal_form
        return "pair" if (one, other) == ("source", "target") else f"{one} with its {other}"

    @property
    def _joint(self) -> bool:
        how = self.data.tokenizer
        return isinstance(how, TokenizerSettings) and how.joint

    @property
    def frame(self) -> Frame:
        """Whether the encoder reads a first token whose vector represents the whole text, as
        encoders without a decoder do.
        """
        first = isinstance(self.settings, EncoderSettings | PretrainedSettings)
        return Frame.of(self.tokenizer.specials, first=first)


LONGEST = 512  # tokens that are read at once, even if all training texts are shorter


class TextItem(NamedTuple):
    text: str
    ids: list[int]


class TextInput(TextData):
    kind: ClassVar[str] = "text"

    # --------------------------------------------------------------------------------------------------- single inputs
    def read(self, one: Any) -> TextItem:
        if not isinstance(one, str):
            raise CallError(f"an input is a text, not {type(one).__name__}")
        ids = self.tokenizer.encode(one)
        return TextItem(one, ids[: self.data.max_length - 1] if self.cuts else ids)

    def is_overlong(self, one: Any) -> bool:
        return len(self.tokenizer.encode(one)) >= self.data.max_length

    @property
    def limit(self) -> str:
        most = self.at_once
        pieces = f"texts of more than {most:,} are read in pieces, others as a whole"
        done = "only their beginning is read" if self.cuts else "they are read in pieces" if self.alone else pieces
        return f"data.max_length={self.data.max_length} tokens: {done}"

    @property
    def at_once(self) -> int:
        """Number of tokens that the model reads at once; a text generator may read somewhat more than in training."""
        s, most = self.settings, self.data.max_length - 1
        most = most if self.alone else max(LONGEST, 2 * most)
        return min(most, s.max_positions - 1) if getattr(s, "positions", None) == "learned" else most

    def windows(self, one: Any) -> Iterator[Any]:
        """Split a text of any length into items: whole sentences, up to the length of training, or words."""
        item = self.read(one)
        if self.cuts or len(item.ids) <= self.at_once:
            yield item
            return
        most = min(self.data.max_length - 1, self.at_once)
        for text in in_pieces(one, lambda text: len(self.tokenizer.encode(text)), most):
            yield self.read(text)

    def length(self, item: TextItem) -> int:
        return len(item.ids)

    def collate(self, items: Sequence[TextItem]) -> Tensor:
        return self.frame.read([item.ids for item in items])

    # ------------------------------------------------------------------------------------------------------- the model
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

    # ---------------------------------------------------------------------------------------------------- explanations
    def axis(self, item: TextItem) -> Axis:
        return read_axis(self.tokenizer, item.text, item.ids, self.frame.first, self.frame.end)

    def parts(self, item: TextItem) -> list[int]:
        return list(range(self.frame.before, self.frame.before + len(item.ids)))

    def without(self, item: TextItem, parts: Collection[int]) -> Any:
        return item._replace(ids=[index for place, index in enumerate(item.ids) if place not in parts])

    # ----------------------------------------------------------------------------------------------------------- parts
    @property
    def alone(self) -> bool:
        """Whether the text encoder has no text decoder above it."""
        return not isinstance(self.settings, RecurrentSettings | TransformerSettings)

    @property
    def cuts(self) -> bool:
        """Whether only the start of a long text is read, as in training. A text decoder needs the whole text."""
        return self.alone and "overlong" in type(self.data).model_fields and self.data.overlong == "cut"


# Two texts read as one: files and batches. `two_texts.py` reads single inputs.


class JoinedTexts:
    """Vocabulary of two texts for a store: a separator between them. `most`: ids of both, without marks."""

    def __init__(self, tokenizer: Tokenizer, most: int | float) -> None:
        self.tokenizer, self.most, self.size = tokenizer, most, tokenizer.size
        self.specials: SpecialIds = tokenizer.specials

    def encode_batch(self, texts: list[str]) -> list[list[int]]:
        sides = [self.tokenizer.encode_batch([text.split(BETWEEN)[side] for text in texts]) for side in (0, 1)]
        both = (fitting(one, other, self.most) for one, other in zip(*sides, strict=True))
        return [[*one, int(self.specials.end or 0), *other] for one, other in both]

    def to_json(self) -> str:
        return f"two texts of {self.most}\n" + self.tokenizer.to_json()


class TwoTextsInput(TwoTextsReader, TextInput):  # pyright: ignore[reportIncompatibleVariableOverride, reportIncompatibleMethodOverride]
    @property
    def most(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.data.max_length - 2

    def windows(self, one: Any) -> Iterator[Any]:
        yield self.read(one)

    @property
    def marks(self) -> tuple[int | None, int]:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.frame.first, self.frame.end

    def is_overlong(self, one: Any) -> bool:
        return sum(len(self.tokenizer.encode(text)) for text in self.two(one)) > self.data.max_length - 2

    @property
    def limit(self) -> str:
        return f"data.max_length={self.data.max_length} tokens: the longer text is cut"

    def writer(self) -> Vocabulary:
        return JoinedTexts(self.tokenizer, self.most if self.cuts else float("inf"))

    def texts_of(self, source: str) -> Sequence[str]:
        return source.split(BETWEEN)

    def example(self, pair: Pair) -> Example:
        return Example(self.two(pair.source), (pair.target,))

    def collate(self, items: Sequence[TwoTextsItem]) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        return self.frame.read([self.joined(item) for item in items])
