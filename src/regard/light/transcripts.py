"""What was said in a recording: long ones in windows, one after the other. Times of words need the run itself."""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from regard.errors import CallError
from regard.inputs.sound.item import SoundItem
from regard.light.rules import Hypothesis
from regard.light.writing import LightWriter
from regard.look.records import AttentionRecord
from regard.outputs.text.transcript import CLIPPED, SILENT, Transcript, joined


class LightTranscripts(LightWriter):
    gives_attention: ClassVar[bool] = False

    def predict(self, inputs: Sequence[Any], *, prefix: str = "", attention: bool = False) -> list[Any]:
        found = []
        for one in inputs:
            items = list(self.input.pieces(one, self.recipe.decoding.window))
            first = super().predict(items[:1], prefix=prefix)  # only the first window begins with the prefix
            found.append(joined([*first, *super().predict(items[1:])]))  # pyright: ignore[reportArgumentType]
        return found

    def stream(self, one: Any, tell: Callable[[str, str], None], *, prefix: str = "") -> Transcript:
        windows: list[Any] = []

        def told(piece: str, text: str) -> None:
            tell(piece, " ".join([*filter(None, (said.text.strip() for said in windows)), text]))

        for item in self.input.pieces(one, self.recipe.decoding.window):
            windows.append(super().stream(item, told, prefix="" if windows else prefix))
        return joined(windows)

    def _prediction(self, one: Any, item: SoundItem, hypotheses: Sequence[Hypothesis], attention: bool) -> Transcript:
        said = super()._prediction(one, item, hypotheses, attention)
        note = SILENT if item.silent else CLIPPED if item.clipped else ""
        return Transcript(said.input, said.n_best, None, item.seconds, note=note)

    def look(self, one: Any, output: str | None, prefix: str) -> list[AttentionRecord]:
        item, window = self.input.read(one), self.recipe.decoding.window
        if item.seconds > window:
            raise CallError(
                f"{item.name} has {item.seconds:.0f} seconds: up to decoding.window={window:g} can be looked at at "
                "once; cut out the part of interest"
            )
        if item.silent:
            raise CallError(f"{item.name} is {SILENT}: there is nothing to look at")
        return super().look(item, output, prefix)
