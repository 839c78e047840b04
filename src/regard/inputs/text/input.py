"""Text input: token ids, an encoder, and words as its axis."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any, ClassVar, Literal

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
from regard.inputs.text.pairs import Frame, LongTextExamples, PairExamples, write_pairs
from regard.inputs.text.settings import PretrainedReaderSettings, RecurrentTextSettings
from regard.inputs.text.two_texts import LongTextReader, TextItem, TwoTextsItem, TwoTextsReader, read_text
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
        overlong = self.treatment(role)

        def write(folder: Path, name: str, items: Iterable[Pair | SkippedLine]) -> None:
            write_pairs(folder, items, source, target, name=name, max_length=data.max_length, overlong=overlong)

        key = [source.to_json(), target.to_json(), data.max_length, overlong]
        limit = f"data.max_length={data.max_length}; raise it, or set data.overlong=cut"
        return steps.store(Store, role, split, key, write, limit=limit)

    def examples(self, store: Store, split: Split[Pair]) -> PairExamples:
        return PairExamples(store, split, self.frame, self.example)

    def treatment(self, role: Role) -> Literal["skip", "cut", "windows"]:
        """Return what is done with longer pairs of a split; a score covers all data."""
        return self.data.overlong if role == "train" else "cut"

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
        done = {"skip": "skipped", "cut": "cut", "windows": "read in windows, another one in each epoch"}
        found.overlong(limit, done[self.treatment("train")], ("data.max_length", data.max_length))
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


class TextInput(TextData):
    kind: ClassVar[str] = "text"

    # --------------------------------------------------------------------------------------------------- single inputs
    def read(self, one: object) -> TextItem:
        item = read_text(self.tokenizer, one)
        return item._replace(ids=item.ids[: self.data.max_length - 1]) if self.cuts else item

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

    def windows(self, one: Any) -> Iterator[TextItem]:
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


# Texts with labels: long ones in windows, and two texts read as one. `two_texts.py` reads single inputs.


class LabeledTextInput(LongTextReader, TextInput):  # pyright: ignore[reportIncompatibleVariableOverride, reportIncompatibleMethodOverride]
    """Text of any length. A long one is read in windows; a prediction is the mean over them."""

    ends: ClassVar[int] = 1  # end tokens, which `data.max_length` includes

    @property
    def most(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.data.max_length - self.ends

    @property
    def cuts(self) -> bool:
        return False

    @property
    def limit(self) -> str:
        return f"data.max_length={self.data.max_length} tokens: they are read in overlapping windows"

    def treatment(self, role: Role) -> Literal["skip", "cut", "windows"]:
        return "skip" if super().treatment(role) == "skip" else "windows"

    def prepare(self, cache: Path, targets: Targets, *, strict: bool = True) -> dict[Role, Examples]:
        most, seed = self.data.max_length, self.recipe.training.seed
        return {
            role: LongTextExamples(
                pairs,  # pyright: ignore[reportArgumentType]
                most,
                self.of_ids,
                self.windows_of,
                seed if role == "train" else None,
            )
            for role, pairs in super().prepare(cache, targets, strict=strict).items()
        }

    def of_ids(self, ended: Any) -> TextItem:
        """Return the item of stored ids, which stay on disk."""
        return TextItem("", ended[:-1])

    def windows_of(self, item: Any) -> list[list[int]]:
        return [self.ids_of(window) for window in self.windows(item)]

    def collate(self, items: Sequence[Any]) -> Tensor:
        return self.frame.read([self.ids_of(item) for item in items])


class JoinedTexts:
    """Vocabulary of two texts for a store: a separator between them."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer, self.size = tokenizer, tokenizer.size
        self.specials: SpecialIds = tokenizer.specials

    def encode_batch(self, texts: list[str]) -> list[list[int]]:
        sides = [self.tokenizer.encode_batch([text.split(BETWEEN)[side] for text in texts]) for side in (0, 1)]
        return [[*one, int(self.specials.end or 0), *other] for one, other in zip(*sides, strict=True)]

    def to_json(self) -> str:
        return "two texts\n" + self.tokenizer.to_json()


class TwoTextsInput(TwoTextsReader, LabeledTextInput):  # pyright: ignore[reportIncompatibleVariableOverride, reportIncompatibleMethodOverride]
    ends: ClassVar[int] = 2

    @property
    def marks(self) -> tuple[int | None, int]:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.frame.first, self.frame.end

    def is_overlong(self, one: Any) -> bool:
        return sum(len(self.tokenizer.encode(text)) for text in self.two(one)) > self.most

    @property
    def limit(self) -> str:
        return f"data.max_length={self.data.max_length} tokens: the longer text is read in overlapping windows"

    def writer(self) -> Vocabulary:
        return JoinedTexts(self.tokenizer)

    def of_ids(self, ended: Any) -> TwoTextsItem:  # pyright: ignore[reportIncompatibleMethodOverride]
        place = int(np.argmax(ended == self.frame.end))
        return TwoTextsItem(("", ""), ended[:place], ended[place + 1 : -1])

    def texts_of(self, source: str) -> Sequence[str]:
        return source.split(BETWEEN)

    def example(self, pair: Pair) -> Example:
        return Example(self.two(pair.source), (pair.target,))
