"""Prompts are gone on from: a language model is asked for one token after the other, and texts grow."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from regard.decoding.continuing import Sampling, continued
from regard.inputs.prompt.input import PromptInput
from regard.models.language_model import LanguageModel
from regard.outputs.batched import device_of
from regard.outputs.text.text_streamer import TextStreamer


@dataclass(frozen=True)
class Writer:
    """`context`: tokens that the model looks back at; `stop`: texts that end what is written."""

    model: LanguageModel
    input: PromptInput
    context: int
    stop: Sequence[str]

    def begun(self, prompt: str, prefix: str = "") -> TextStreamer:
        return TextStreamer(self.input.tokenizer, prompt, prefix, self.stop)

    def written(self, prompts: Sequence[str], how: Sampling, most: int, prefix: str = "") -> list[TextStreamer]:
        """All texts, when they are done."""
        texts = [self.begun(prompt, prefix) for prompt in prompts]
        for _ in self.writing(texts, how, most):
            pass
        return texts

    def writing(self, texts: Sequence[TextStreamer], how: Sampling, most: int) -> Iterator[None]:
        """Whenever one of the texts has its next token, of `most` at most."""
        special = self.input.tokenizer.specials
        never = {special.pad, special.unk, special.start} - {special.end, None}
        prompts = [self.input.read(text.begin).ids for text in texts]
        for new in continued(
            self.model, prompts, how, context=self.context, max_length=most, end=special.end,
            forbidden=sorted(index for index in never if index is not None), device=device_of(self.model),
            ended=lambda new: texts[new.row].stopped,
        ):  # fmt: skip
            texts[new.row].add(new.token, new.log_probability)
            yield
