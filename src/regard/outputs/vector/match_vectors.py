"""Pictures, texts and labels as vectors of length 1, a batch at a time."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.data.tokens import Tokenizer
from regard.errors import CallError
from regard.inputs.image.pictures import read_inputs, regions_of
from regard.inputs.image.prepare import form_of
from regard.inputs.text.body_settings import RecurrentTextSettings
from regard.inputs.text.frame import Frame
from regard.look.of_model import evaluating
from regard.models.two_towers import TwoTowers
from regard.outputs.text.search import in_groups
from regard.outputs.vector.match_settings import LABEL, MatchRecipe


@dataclass(frozen=True)
class Vectors:
    """What the two towers of a recipe read, and what they make of it."""

    recipe: MatchRecipe
    tokenizer: Tokenizer

    def pictures(self, model: TwoTowers, pictures: Sequence[Any]) -> Float[Tensor, "N D"]:
        """Of pictures as a user gives them."""
        return self.images(model, read_inputs(pictures, form_of(self.recipe.data)))

    @torch.inference_mode()
    def images(self, model: TwoTowers, seen: Tensor) -> Float[Tensor, "N D"]:
        """`seen`: pixels, or the features of them."""
        device, at_once = next(model.parameters()).device, self.recipe.decoding.batch_tokens // self.regions
        with evaluating(model):
            found = [model.image(group.to(device)).cpu() for group in seen.split(max(1, at_once)) if len(group)]
        return torch.cat(found) if found else torch.empty(0, model.image.width)

    @torch.inference_mode()
    def texts(self, model: TwoTowers, texts: Sequence[str]) -> Float[Tensor, "N D"]:
        ids, frame = [self.ids(text) for text in texts], self.frame
        device = next(model.parameters()).device

        def read(numbers: list[int]) -> list[Tensor]:
            return list(model.text(frame.read([ids[number] for number in numbers]).to(device)).cpu())

        with evaluating(model):
            lengths = [len(one) for one in ids]
            found = dict(in_groups(range(len(ids)), lengths, self.recipe.decoding.batch_tokens, read))
        return torch.stack([found[number] for number in range(len(ids))]) if ids else torch.empty(0, model.text.width)

    def labels(self, model: TwoTowers, labels: Sequence[str]) -> Float[Tensor, "N D"]:
        """The mean over all templates, scaled to length 1 (CLIP, section 3.1.4)."""
        filled = [template.replace(LABEL, label) for template in self.recipe.decoding.templates for label in labels]
        by_template = self.texts(model, filled).view(-1, len(labels), model.text.width)
        return nn.functional.normalize(by_template.mean(0), dim=-1)

    def ids(self, text: str) -> list[int]:
        """Cut at the longest that training read."""
        ids = self.tokenizer.encode(text)
        if not ids:
            raise CallError(f"the text {text!r} has no token: there is nothing to match")
        return ids[: self.recipe.data.max_length - 1]

    @property
    def frame(self) -> Frame:
        """Transformers read a first token, whose vector may stand for the whole text."""
        recurrent = isinstance(self.recipe.model.text, RecurrentTextSettings)
        return Frame.of(self.tokenizer.specials, first=not recurrent)

    @property
    def regions(self) -> int:
        """Vectors that a picture becomes before it is one."""
        return regions_of(self.recipe.model.image.encoder, self.recipe.data)
