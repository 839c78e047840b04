"""Base of picture and recording inputs: files, a store of each split, and inputs of the user."""

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

from regard.corpora import PREFIX
from regard.data.check import DataCheck, unknown_advice
from regard.data.check_report import CheckReport
from regard.data.counts import Counts
from regard.data.examples import Example, Examples
from regard.data.pairs import Bad
from regard.data.prepare import Steps
from regard.data.splits import Split, find_test
from regard.data.tables import Role
from regard.data.vocabulary import Targets, Vocabulary
from regard.errors import RegardError
from regard.inputs.base import Input
from regard.inputs.media_files import Bytes, files_named
from regard.inputs.media_source import Entry, MediaSource, files_root
from regard.inputs.media_store import MediaExamples, MediaStore

LISTED, OPENED = 2000, 50  # files whose names and texts are read, and files that are opened, to decide on sizes


@lru_cache(maxsize=8)
def _of_corpus(source: type[MediaSource], where: str) -> list[Entry]:
    """First items of a corpus: a corpus is generated while it is read, and its items are similar."""
    return list(islice(source(where).corpus(), OPENED))


class MediaInput(Input):
    takes_files: ClassVar[bool] = True
    source: ClassVar[type[MediaSource]]
    opened: ClassVar[type[MediaStore]]

    # ------------------------------------------------------------------------------------------------------- the files
    @abstractmethod
    def write(self, folder: Path, name: str, items: Iterable[Entry | Bad]) -> None:
        """Write the store of the entries."""

    @property
    @abstractmethod
    def form(self) -> list[Any]:
        """Return what a store depends on in addition to the files."""

    @abstractmethod
    def examples(
        self, stores: dict[Role, Any], vocabulary: Vocabulary | None, cache: Path | None
    ) -> Mapping[Role, MediaExamples]:
        """Return the stores of all splits; `cache` is None if they are only counted or scored."""

    def stored(self, steps: Steps, role: Role, split: Split[Entry], *, refuse: bool = True) -> Any:
        return steps.store(self.opened, role, split, self.form, self.write, refuse=refuse)

    def prepare(self, cache: Path, targets: Targets, *, strict: bool = True) -> dict[Role, Examples]:
        steps = Steps.of(self.data, cache, strict=strict)
        splits = steps.splits(self.source.by_role(self.data))
        stores: dict[Role, Any] = {role: self.stored(steps, role, split) for role, split in splits.items()}
        vocabulary = targets.learn(self.texts(stores["train"]))
        found = self.examples(stores, vocabulary, steps.cache if strict else None)
        if strict and not len(found["train"]):
            all_of_them = f"all {len(stores['train']):,} {self.source.what}s"
            raise RegardError(f"data.train={splits['train']}: {all_of_them} are longer than {self.limits}: raise this")
        return {**found}

    def some(self, most: int = OPENED) -> list[Entry]:
        """Return a few training items, from the first part of the data."""
        source = self.source.by_role(self.data)["train"]
        if source.where.startswith(PREFIX):
            return _of_corpus(self.source, source.where)
        entries = [one for one in islice(source.read(), LISTED) if isinstance(one, Entry)]
        return entries[:: max(1, len(entries) // most)]

    def target_texts(self) -> list[str]:
        return [text for entry in self.some(LISTED) for text in entry.texts]

    def texts(self, train: MediaStore) -> Iterable[str]:
        """Return the texts that a vocabulary is learned from."""
        return (text for entry in train.entries for text in entry.texts)

    def test(self) -> tuple[list[Example], str]:
        """Map the values lazily: the mapping outlives the folder of the file."""
        split: Split[Entry] = find_test(self.source.by_role(self.data), self.data.test_share)
        with TemporaryDirectory(prefix="regard-test-", ignore_cleanup_errors=True) as folder:
            store = self.stored(Steps.of(self.data, Path(folder), strict=False), "test", split)
        examples, bad = self.examples({"test": store}, None, None)["test"], store.counts.read.bad
        note = f"{bad} {self.source.what}s of {split} cannot be used: regard check lists them" if bad else ""
        return examples.every(), note

    def check(self, splits: dict[Role, Any], vocabulary: Vocabulary) -> CheckReport:
        columns = self.data.columns
        check = DataCheck(
            {role: one.listing() for role, one in splits.items()},
            noun=self.source.what, sides=columns.sides, max_bad=self.data.max_bad, contradicts=columns.folders,
        )  # fmt: skip
        counts: list[Counts] = [split.counts for split in check.splits.values()]
        notes = {note for count in counts for note in count.odd} - {"overlong"}
        check.odd({note: ("note", note, "no action is needed") for note in sorted(notes)})
        check.overlong(self.limits, "left out of training")
        if "tokenizer" in type(self.data).model_fields:  # not for labels
            check.unknown(1, unknown_advice(self.data.tokenizer, vocabulary.size))
        return check.report({columns.sides[1]: vocabulary.size}, self.look_over(check, splits))

    def look_over(self, check: DataCheck, splits: dict[Role, Any]) -> dict[str, str]:
        """Add checks for this kind of data; returns further figures."""
        return {}

    @property
    def limits(self) -> str:
        """Length above which training skips an item."""
        return f"data.max_length={self.max_length} tokens"

    @property
    def max_length(self) -> int | None:
        """Maximum number of tokens of a target, including the end token."""
        return self.data.max_length if "max_length" in type(self.data).model_fields else None

    def in_list(self, file: Path, cells: Sequence[str]) -> list[str]:
        root = files_root(self.data.files, file)
        return [str(root / cell) for cell in cells]

    # --------------------------------------------------------------------------------------------------- single inputs
    def parse(self, words: Sequence[str]) -> list[str]:
        """Return inputs for files, all files of a folder or .tar, one of a .tar (all.tar/a.jpg), or rows of a corpus
        (corpus:NAME#7).
        """
        return files_named(words, self.source.is_one, self.source.what)

    def find(self, word: str) -> Bytes | Any:
        """Find what a word names: a file or a corpus item."""
        return self.source.find(word)
