"""An input of one's own: a row of lamps, "10110", each on or off. One file, and it knows no output."""

from pathlib import Path

import torch
from torch import nn

from regard.attention.memory import Memory
from regard.data.examples import Example
from regard.errors import CallError
from regard.inputs.base import Input
from regard.look.axis import axis

NO_LAMP, OFF, ON = 0, 1, 2


class LampsEncoder(nn.Module):
    """A vector for each lamp; no lamp is padding."""

    def __init__(self, width):
        super().__init__()
        self.embedding = nn.Embedding(3, width, padding_idx=NO_LAMP)
        self.memory_width = self.summary_width = width

    def forward(self, lamps):
        vectors, mask = self.embedding(lamps), lamps != NO_LAMP
        return Memory(vectors, mask, vectors.sum(1) / mask.sum(1, keepdim=True).clamp(min=1))


class LampsInput(Input):
    kind = "text"

    def prepare(self, cache, targets, *, strict=True):
        roles = [role for role in ("train", "valid", "test") if role != "test" or not strict]
        examples = {role: self._examples(role) for role in roles}
        vocabulary = targets.learn(text for example in examples["train"] for text in example.texts)
        return {role: self.listed(getattr(self.recipe.data, role), examples[role], vocabulary) for role in roles}

    def test(self):
        return self._examples("test"), ""

    def _examples(self, role):
        lines = Path(getattr(self.recipe.data, role)).read_text(encoding="utf-8").splitlines()
        return [Example(lamps, (text,)) for lamps, text in (line.split("\t") for line in lines)]

    def read(self, one):
        if not one or set(one) - {"0", "1"}:
            raise CallError(f"the input {one!r} is no row of lamps: write 1 for each that is on and 0 for the others")
        return [ON if lamp == "1" else OFF for lamp in one]

    def length(self, item):
        return len(item)

    def collate(self, items):
        return nn.utils.rnn.pad_sequence([torch.tensor(item) for item in items], batch_first=True)

    def encoder(self, decoder=None):
        return LampsEncoder(self.recipe.model.width)

    def axis(self, item):
        return axis([f"lamp {place + 1}" for place in range(len(item))])

    def without(self, item, parts):
        return [NO_LAMP if place in parts else lamp for place, lamp in enumerate(item)]

    def vectors(self, encoder):
        return encoder.embedding
