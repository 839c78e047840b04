"""Generation of continuations by a language model, token by token."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from regard.decoding.continuing import Sampling, continued
from regard.inputs.prompt.input import PromptInput
from regard.models.language_model import LanguageModel
from regard.outputs.batched import device_of
from regard.outputs.text.text_streamer import TextStreamer


@dataclass(frozen=True)
class Writer:
    """A text generator. `context`: maximum tokens that the model reads; `stop`: texts that end the output."""

    model: LanguageModel
    input: PromptInput
    context: int
    stop: Sequence[str]

    def begun(self, prompt: str, prefix: str = "") -> TextStreamer:
        return TextStreamer(self.input.tokenizer, prompt, prefix, self.stop)

    def written(self, prompts: Sequence[str], how: Sampling, most: int, prefix: str = "") -> list[TextStreamer]:
        """Return all texts when they are complete."""
        texts = [self.begun(prompt, prefix) for prompt in prompts]
        for _ in self.writing(texts, how, most):
            pass
        return texts

    def writing(self, texts: Sequence[TextStreamer], how: Sampling, most: int) -> Iterator[None]:
        """Yield whenever one of the texts has its next token, of at most `most` tokens."""
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
