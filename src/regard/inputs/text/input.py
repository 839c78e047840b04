"""Text input: token ids, an encoder, and words as its axis."""

from collections.abc import Collection, Iterator, Sequence
from typing import Any, ClassVar, NamedTuple

from torch import Tensor, nn

from regard.data.windows import in_pieces
from regard.errors import CallError
from regard.inputs.text.body_settings import PretrainedReaderSettings, RecurrentTextSettings
from regard.inputs.text.data import TextData
from regard.inputs.text_axis import read_axis
from regard.layers.word_dropout import WordDropout
from regard.look.axis import Axis
from regard.parts import build_pooling
from regard.settings.model import RecurrentSettings, TransformerSettings

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
