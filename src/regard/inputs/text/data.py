"""Texts from files: pairs on disk as token ids, and the data check."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np

from regard.data.check import DataCheck, are_labels
from regard.data.check_report import CheckReport
from regard.data.examples import Example, Examples
from regard.data.files import PairSource
from regard.data.pairs import Bad, Pair
from regard.data.prepare import Steps, watched
from regard.data.settings import TokenizerSettings
from regard.data.splits import Split, find_test
from regard.data.store import Store
from regard.data.tables import Role
from regard.data.tokenizer import Tokenizer
from regard.data.vocabulary import Targets, Vocabulary
from regard.errors import RegardError
from regard.inputs.column import Column
from regard.inputs.text.pairs import Frame, PairExamples, write_pairs
from regard.inputs.tokenized import TokenizedInput
from regard.settings.encoder import EncoderSettings, PretrainedSettings

LOOKED_AT = 2000  # pairs whose lengths determine the length limits


class TextData(TokenizedInput):
    def prepare(self, cache: Path, targets: Targets, *, strict: bool = True) -> dict[Role, Examples]:
        """Prepare the pairs: two passes over the training data to learn both vocabularies, one
        over each split to store ids.
        """
        steps, sources = Steps.of(self.data, cache, strict=strict), PairSource.by_role(self.data)
        splits = steps.splits(sources)
        vocabulary = self._learn(steps, splits["train"], steps.count(sources["train"]).pairs, targets)
        return {
            role: self.examples(self._store(steps, role, split, vocabulary), split) for role, split in splits.items()
        }

    def target_texts(self) -> list[str]:
        read = islice(PairSource.by_role(self.data)["train"].read(), LOOKED_AT)
        return [one.target for one in read if isinstance(one, Pair)]

    def _learn(self, steps: Steps, train: Split[Pair], pairs: int, targets: Targets) -> Vocabulary:
        """Learn both vocabularies from training pairs only; if there are very many, from an even sample of them."""
        how = self.data.tokenizer
        key, every = [train.depends_on(), how.learn_from], -(-pairs // how.learn_from)

        def texts(side: str, every: int) -> Iterator[str]:
            return (getattr(pair, side) for pair in islice(train.good(), 0, None, every))

        def sources() -> Iterator[str]:
            found = chain.from_iterable(map(self.texts_of, texts("source", every)))
            return chain(found, texts("target", every)) if self._joint else found

        self.learn_once(steps, key, sources)
        return steps.targets(targets, key, lambda: texts("target", 1 if targets.learns_from_all else every))

    def _store(self, steps: Steps, role: Role, split: Split[Pair], target: Vocabulary) -> Store:
        data, source = self.data, self.writer()
        overlong = data.overlong if role == "train" else "cut"  # a score covers all data

        def write(folder: Path, name: str, items: Iterable[Pair | Bad]) -> None:
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
        data, sides, texts = self.data, self.data.columns.pair, isinstance(vocabulary, Tokenizer)
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
        items, source = list(watched(split.read(), f"reading {split}")), split.source
        pairs = [item for item in items if isinstance(item, Pair)]
        if not pairs:
            raise RegardError(f"data.test={split}: it contains no {self._noun}")
        lost = len(items) - len(pairs)
        examples = [self.example(pair) for pair in pairs]
        return examples, f"{lost} lines of {source.where} that cannot be read as a {self._noun}" if lost else ""

    def column(self, values: Mapping[str, Any], role: Role, steps: Steps) -> Column:
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
        one, other = self.data.columns.pair
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
