"""Pictures with the graphs `decoder` (generates codes), `picture_decoder` (paints them) and `picture_encoder`."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np

from regard.errors import CallError
from regard.light.continuation import LightReader, LightText, generate
from regard.light.inputs import LightPicture
from regard.light.inputs import LightText as inputs_LightText
from regard.light.outputs import LightOutput
from regard.light.record import Between, Side, record_of_sides
from regard.light.search import normalizer
from regard.light.session import Arrays, Description, OnnxSession, seen_in
from regard.light.writing import load_other_run
from regard.look.axis import whole
from regard.look.placing import pooled_placement
from regard.look.records import AttentionRecord
from regard.special_tokens import PAD, START
from regard.tasks.picture.codes import (
    NO_PICTURE,
    Codes,
    Drawn,
    as_text,
    axes_of,
    candidates,
    drawable,
    drawing,
    film,
    paint_codes,
    rank,
    words_and_regions,
)
from regard.tasks.result import Candidate, Prediction, group_by_length
from regard.tasks.vector.matching import Matching, load_captions, matchable


class LightDrawings(LightOutput):
    draws: ClassVar[bool] = True
    gives: ClassVar[str] = "a picture"

    def __init__(self, about: Description, input: Any) -> None:
        super().__init__(about, input)
        self.words, self.text_length = self.says["words"], self.says["text_length"]
        self.grid = (self.says["grid"][0], self.says["grid"][1])
        self._pictures, self.about = LightPicture(about), about
        self._model = LightReader(OnnxSession(about.folder / "decoder.onnx"), about.graphs["decoder"]["inputs"])
        self._painter, self._coder = (
            OnnxSession(about.folder / f"{name}.onnx") for name in ("picture_decoder", "picture_encoder")
        )

    @property
    def regions(self) -> int:
        return self.grid[0] * self.grid[1]

    def predict(self, inputs: Sequence[str], *, prefix: str = "", attention: bool = False) -> list[Prediction]:
        most, found = self.recipe.decoding.n_best, self._rank(inputs)
        return [
            drawing(text, in_order[:most], self._paint, self.input.tokenizer)
            for text, in_order in zip(inputs, found, strict=True)
        ]

    def _rank(self, texts: Sequence[str]) -> list[list[tuple[float, Drawn]]]:
        how = self.recipe.decoding
        prompts = [self._prompt(text) for text in texts]
        found = candidates(self._write, prompts, max(how.candidates, how.n_best), self.words)
        return [rank(self._ranks(text, drawn), drawn) for text, drawn in zip(texts, found, strict=True)]

    def _ranks(self, text: str, drawn: Sequence[Drawn]) -> list[float]:
        """Return log p of each drawing, or its score by the reranking export."""
        if (judge := self.recipe.decoding.rerank) is None:
            return [one.log_probability for one in drawn]
        pictures = paint_codes(self._paint, [one.codes for one in drawn])
        arrays = [one[:, :, 0] if one.shape[2] == 1 else one for one in pictures]
        judging = load_other_run(self.about, "rerank", judge, "towers")
        return judging.similarity(arrays, [text])[:, 0].tolist()

    def _read(self, text: str) -> Any:
        return drawable(self.input, text, self.recipe.data.max_length - 1)

    def _prompt(self, text: str) -> list[int]:
        """Return <s>, the text and its padding: all tokens read before the first region."""
        ids = self.input.padded([self._read(text).ids])[0].tolist()
        return [START, *ids, *[PAD] * (self.text_length - len(ids))]

    def _write(self, prompts: Sequence[list[int]]) -> Iterator[LightText]:
        how = self.recipe.decoding
        sampling = SimpleNamespace(
            temperature=how.temperature, top_k=how.top_k, top_p=how.top_p, repetition_penalty=1.0, seed=how.seed
        )
        return generate(
            self._model, prompts, sampling, context=self.text_length + 1 + self.regions, max_length=self.regions,
            end=None, forbidden=range(self.words), ended=lambda new: False,
        )  # fmt: skip

    def _paint(self, codes: np.ndarray, drawn: np.ndarray | None) -> np.ndarray:
        drawn = np.full(len(codes), self.regions) if drawn is None else drawn
        shades = self._painter({"codes": codes.astype(np.int64), "drawn": drawn.astype(np.int64)})["pixels"]
        return (shades * 255).round().astype(np.uint8).transpose(0, 2, 3, 1)

    # -------------------------------------------------------------------------------------------------- given pictures
    def given(self, words: Sequence[str]) -> list[Any]:
        return [Path(word) for word in words]

    def score_outputs(self, inputs: Sequence[str], outputs: Sequence[Any]) -> list[Candidate]:
        """Return log p(picture | sentence) of given pictures."""
        found = zip(inputs, map(self._codes, outputs), strict=True)
        return [Candidate(as_text(codes), float(sum(self._scores(text, codes)))) for text, codes in found]

    def _codes(self, picture: Any) -> Codes:
        if isinstance(picture, str):
            raise CallError(NO_PICTURE)
        return self._coder({"pixels": self._pictures.read(picture).pixels[None]})["codes"][0]

    def _scores(self, text: str, codes: Codes) -> tuple[float, ...]:
        """Return log p of each region, given the text and the previous regions."""
        tokens = self._tokens(text, codes)
        logits, _ = self._model.read([tokens[:-1]], self._model.start(1))
        return self._told(logits[0], tokens)

    def _tokens(self, text: str, codes: Codes) -> list[int]:
        return [*self._prompt(text), *(codes + self.words).tolist()]

    def _told(self, logits: np.ndarray, tokens: Sequence[int]) -> tuple[float, ...]:
        rows, said = logits[self.text_length :], tokens[self.text_length + 1 :]
        known = rows - normalizer(rows)[:, None]
        return tuple(known[np.arange(len(said)), said].tolist())

    # --------------------------------------------------------------------------------------------------------- looking
    def look(self, one: str, output: Any, prefix: str) -> list[AttentionRecord]:
        if output is None:
            best = self._rank([one])[0][: self.recipe.decoding.n_best]
        else:
            codes = self._codes(output)
            score = float(sum(self._scores(one, codes)))
            best = [(score, Drawn(codes, score))]
        return [self._record(one, score, drawn.codes) for score, drawn in best]

    def _record(self, text: str, score: float, codes: Codes) -> AttentionRecord:
        (picture,), tokens = self._paint(codes[None], None), self._tokens(text, codes)
        logits, seen = self._model.look(tokens[:-1])
        between = Between(axes_of(self.input, self._read(text), picture, self.grid))
        tables = {f"writer.{name}": weights[0] for name, weights in seen.items()}
        side = Side(tables, between, words_and_regions(self.text_length), turned=True)
        return record_of_sides(
            [side], self.roles, score=score, scores=self._told(logits, tokens), said=film(self._paint, codes, self.grid)
        )


class LightMatches(LightOutput):
    """Pictures and texts in one space, with the graphs `image` and `text`."""

    gives: ClassVar[str] = "a vector"

    def __init__(self, about: Description, input: Any) -> None:
        super().__init__(about, input)
        self.text, self.captions = (
            inputs_LightText(replace(about, reads=self.says["text"])),
            load_captions(about.folder),
        )
        self._image, self._text = (OnnxSession(about.folder / f"{side}.onnx") for side in ("image", "text"))

    @property
    def _matching(self) -> Matching:
        return Matching(self.recipe, self.captions, self.says["scale"], self._of_pictures, self._of_texts)

    def _of_pictures(self, pictures: Sequence[Any]) -> np.ndarray:
        return self._vectors(self._image, self.input, [self.input.read(one) for one in pictures])

    def _of_texts(self, texts: Sequence[str]) -> np.ndarray:
        return self._vectors(self._text, self.text, [self._read(text) for text in texts])

    def _vectors(self, tower: OnnxSession, input: Any, items: Sequence[Any]) -> np.ndarray:
        def work(numbers: list[int]) -> list[np.ndarray]:
            return list(tower(input.collate([items[number] for number in numbers]))["vector"])

        found = group_by_length([input.length(item) for item in items], self.recipe.decoding.batch_tokens, work)
        return np.array(found, np.float32)

    def _read(self, text: str) -> Any:
        return matchable(self.text, text, self.recipe.data.max_length - 1)

    def similarity(self, pictures: Sequence[Any], texts: Sequence[str]) -> np.ndarray:
        """Return the cosines of pictures and texts: pictures × texts."""
        return self._of_pictures(pictures) @ self._of_texts(texts).T

    def predict(self, inputs: Sequence[Any], *, prefix: str = "", attention: bool = False) -> list[Prediction]:
        return [*self._matching.predictions([self.input.name(one) for one in inputs], inputs)]

    def score_outputs(self, inputs: Sequence[Any], outputs: Sequence[str]) -> list[Candidate]:
        cosines = self._matching.cosines(inputs, outputs)
        return [Candidate(text, score=cosine) for text, cosine in zip(outputs, cosines, strict=True)]

    def look(self, one: Any, output: str | None, prefix: str) -> list[AttentionRecord]:
        """Explain the text's attention over the regions of the picture, with the weights of the text tower over its
        words.
        """
        texts = [candidate.text for candidate in self.predict([one])[0].n_best] if output is None else [output]
        picture, first, records = self.input.read(one), self.says["first"], []
        image = self._image(self.input.collate([picture]), watch=True)
        for said in texts:
            item = self._read(said)
            text = self._text(self.text.collate([item]), watch=True)
            axes = {"target": whole(said), "source": self.input.axis(picture), "read": self.text.axis(item)}
            words = Between(axes, columns="read", kind="decoder")
            sides = [
                Side(_of_one(image), Between(axes), pooled_placement(first["image"])),
                Side(_of_one(text), words, pooled_placement(first["text"])),
            ]
            cosine = float(image["vector"][0] @ text["vector"][0])
            records.append(record_of_sides(sides, self.roles, output=said, score=cosine, scores=(cosine,)))
        return records


def _of_one(found: Arrays) -> Arrays:
    return {name: weights[0] for name, weights in seen_in(found).items()}
