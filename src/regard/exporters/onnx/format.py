"""A run as ONNX graphs, with the files that say how inputs become tensors.

Seq2Seq                       encoder, decoder (one step), scorer
LanguageModel                 decoder (any number of steps)
Classifier, Tagger            model: what comes in → logits
PairReader                    model: tokens and their segments → two pointers
Embedder                      model: tokens → a vector
"""

import json
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor

from regard.attention.trace import Trace
from regard.exporters.agreement import difference, tied, tied_at
from regard.exporters.base import Compared, Format, Plan, RefusalError, Wish
from regard.exporters.greedy import WRITTEN, greedy_tokens
from regard.exporters.hf.heads import SpanHead
from regard.exporters.onnx import language, seq2seq
from regard.exporters.onnx.graph import ATTENTION, OPSET, Flat, Graph, Session, names_in, weights_in
from regard.exporters.onnx.recurrent import with_operators
from regard.exporters.onnx.run_file import write_run_file
from regard.exporters.onnx.tensors import named, rebuilt, sequences
from regard.exporters.searched import never, said, searched
from regard.models.classifier import Classifier
from regard.models.embedder import Embedder
from regard.models.language_model import LanguageModel
from regard.models.reader import PairReader
from regard.models.seq2seq import Seq2Seq
from regard.models.tagger import Tagger
from regard.special_tokens import END, START

GRAPHS = "graphs.json"


class Onnx(Format):
    name: ClassVar[str] = "onnx"
    dtypes: ClassVar[tuple[str, ...]] = ("float32", "int8")
    writes: ClassVar[tuple[str, ...]] = ("onnx", "onnxscript", "onnxruntime")
    traces: ClassVar[bool] = True
    gives_attention: ClassVar[bool] = True

    def plan(self, wish: Wish) -> Plan:
        model = wish.run.model
        if isinstance(model, Seq2Seq):
            return SearchPlan(wish)
        if isinstance(model, LanguageModel):
            return ContinuationPlan(wish)
        if isinstance(model, PairReader):
            return PointerPlan(wish)
        if isinstance(model, Classifier | Tagger | Embedder):
            return OneGraphPlan(wish)
        raise RefusalError(f"no graph is known of {type(model).__name__}")


class GraphPlan(Plan):
    library = "onnx"
    how = 'onnxruntime.InferenceSession("FOLDER/NAME.onnx")   # inputs, outputs and their shapes: graphs.json'

    def __init__(self, wish: Wish) -> None:
        self.wish, self.run = wish, wish.run
        self.input = wish.run.job.input

    @abstractmethod
    def graphs(self) -> list[Graph]:
        """The parts that the runtime loads one by one."""

    def example(self) -> Any:
        """Two of the inputs as an encoder reads them, the longest: no size of them is 1."""
        items = sorted((self.input.read(one) for one in self.wish.inputs), key=self.input.length)[-2:]
        return self.input.collate([items[0], items[-1]])

    def write(self, folder: Path) -> None:
        about: dict[str, Any] = {"opset": OPSET, "dtype": self.wish.dtype}
        made = self.graphs()
        for graph in made:
            graph.write(folder, self.wish.dtype)
        about["graphs"] = {graph.name: graph.about() for graph in made}
        (folder / GRAPHS).write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
        self.run.job.save(folder)  # tokenizers, labels, scales
        write_run_file(folder, self.run, self.wish.inputs)


class OneGraphPlan(GraphPlan):
    """What says one thing of its input: `logits`, or a `vector`."""

    def compute(self, model: Any, source: Any) -> Tensor:
        return model.vectors(source) if isinstance(model, Embedder) else model.logits(source)

    @property
    def what(self) -> str:
        return "vector" if isinstance(self.run.model, Embedder) else "logits"

    def graphs(self) -> list[Graph]:
        source, model = self.example(), with_operators(self.run.model)
        tensors = named(source)
        with Trace(model) as trace, torch.no_grad():
            self.compute(model, source)
        names = names_in(trace) if self.wish.attention else []

        def compute(given: dict[str, Tensor]) -> list[Tensor]:
            with Trace(model) as seen:
                found = self.compute(model, rebuilt(source, given))
            return [found, *weights_in(seen, names)]

        outputs = [self.what, *map(ATTENTION.format, names)]
        return [Graph("model", Flat(model, list(tensors), compute), tensors, sequences(tensors), outputs)]

    def compare(self, folder: Path, inputs: Sequence[Any]) -> Iterator[Compared]:
        session = Session(folder / "model.onnx")
        for one in inputs:
            source = self.input.collate([self.input.read(one)])
            with torch.inference_mode():
                expected = self.compute(self.run.model, source)[0]
            found = session(named(source))[self.what][0]
            ours, theirs = self.say(expected), self.say(found)
            yield Compared(
                self.input.name(one), *difference(expected, found, self.what), ours, theirs,
                tied(self.run, one, ours, theirs),
            )  # fmt: skip

    def say(self, found: Tensor) -> str:
        if isinstance(self.run.model, Embedder):
            return ""
        labels = self.run.job.output.labels  # pyright: ignore[reportAttributeAccessIssue]
        if isinstance(self.run.model, Tagger):
            return " ".join(labels.names[number] for number in found.argmax(-1).tolist())
        if labels.several:
            chosen = found.sigmoid() >= self.run.recipe.decoding.threshold  # pyright: ignore[reportAttributeAccessIssue]
            return " | ".join(labels.names[number] for number in chosen.nonzero().flatten())
        return labels.names[int(found.argmax())]


class PointerPlan(GraphPlan):
    """Two pointers over the tokens of a question and a document, joined as BERT reads them."""

    def graphs(self) -> list[Graph]:
        model = self.run.model
        assert isinstance(model, PairReader)
        asked = SpanHead().ask(self.run, self.wish.inputs[0])
        assert asked.types is not None
        tensors = {"tokens": asked.tokens.repeat(2, 1), "types": asked.types.repeat(2, 1)}

        def compute(given: dict[str, Tensor]) -> list[Tensor]:
            with Trace(model):
                memory = model.encoder(given["tokens"], given["types"] if model.types else None)
            return list(model.pointers(memory.vectors).unbind(-1))

        sizes = {name: {0: "batch", 1: "length"} for name in tensors}
        return [Graph("model", Flat(model, list(tensors), compute), tensors, sizes, ["start_logits", "end_logits"])]

    def compare(self, folder: Path, inputs: Sequence[Any]) -> Iterator[Compared]:
        session = Session(folder / "model.onnx")
        for one in inputs:
            asked = SpanHead().ask(self.run, one)
            assert asked.types is not None
            out = session({"tokens": asked.tokens, "types": asked.types})
            found = asked.pick(out["start_logits"], out["end_logits"])
            yield Compared(
                self.input.name(one), *difference(asked.expected, found, asked.what), asked.said, asked.say(found)
            )


class SearchPlan(GraphPlan):
    def graphs(self) -> list[Graph]:
        model = with_operators(self.run.model)
        assert isinstance(model, Seq2Seq)
        return seq2seq.graphs(model, self.example(), self.wish.attention)

    def compare(self, folder: Path, inputs: Sequence[Any]) -> Iterator[Compared]:
        model = self.run.model
        assert isinstance(model, Seq2Seq)
        steps = Steps(Session(folder / "encoder.onnx"), Session(folder / "decoder.onnx"))
        scorer = Session(folder / "scorer.onnx") if (folder / "scorer.onnx").is_file() else None
        hidden = never(self.run.recipe.decoding)  # pyright: ignore[reportAttributeAccessIssue]
        for one, own in zip(inputs, searched(self.run, inputs), strict=True):
            source = self.input.collate([self.input.read(one)])
            target = torch.tensor([[*own.tokens, END]])
            with torch.inference_mode():
                expected = model.output(model.features(model.encode(source), target))
            found = steps.logits(named(source), own.tokens)
            apart = difference(expected[0], found, "logits of a step")
            if scorer is not None:
                scored = scorer({**named(source), "target": target})["logits"]
                apart = max(apart, difference(expected, scored, "logits"))
            theirs = steps.greedy(named(source), own.longest, hidden)
            yield Compared(self.input.name(one), *apart, *said(self.run, one, (own.greedily, theirs)))


class Steps:
    """One output, step by step, by the two graphs."""

    def __init__(self, encoder: Session, decoder: Session) -> None:
        self.encoder, self.decoder = encoder, decoder

    def logits(self, source: dict[str, Tensor], tokens: Sequence[int]) -> Tensor:
        """Of each step, where the tokens are given."""
        state, found = self.encoder(source), []
        for token in [START, *tokens]:
            logits, state = self._step(token, state)
            found.append(logits)
        return torch.stack(found)

    def greedy(self, source: dict[str, Tensor], longest: int, hidden: Sequence[int]) -> list[int]:
        state, token, tokens = self.encoder(source), START, list[int]()
        while len(tokens) < longest:
            logits, state = self._step(token, state)
            logits[list(hidden)] = -torch.inf
            token = int(logits.argmax())
            if token == END:
                break
            tokens.append(token)
        return tokens

    def _step(self, token: int, state: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        out = self.decoder({"tokens": torch.tensor([token]), **state})
        new = {name.removeprefix("next_"): value for name, value in out.items() if name.startswith("next_")}
        return out["logits"][0], state | new


class ContinuationPlan(GraphPlan):
    def graphs(self) -> list[Graph]:
        assert isinstance(self.run.model, LanguageModel)
        return language.graphs(self.run.model, self.wish.attention)

    def compare(self, folder: Path, inputs: Sequence[Any]) -> Iterator[Compared]:
        model, session = self.run.model, Session(folder / "decoder.onnx")
        assert isinstance(model, LanguageModel)
        tokenizer, context = self.run.job.input.tokenizer, self.run.recipe.model.context  # pyright: ignore[reportAttributeAccessIssue]
        for text in inputs:
            read = self.input.read(text).ids[-context + WRITTEN :]
            own = greedy_tokens(self.run, read, WRITTEN)
            told = torch.tensor([[*read, *own]])
            with torch.inference_mode():
                expected = model.output(model.features(told))
            found = difference(expected, session({"tokens": told, **language.empty_past(model, 1)})["logits"], "logits")
            written = self._greedy(session, model, read)
            parted = own != written and tied_at(expected[0, len(read) - 1 :], own, written)
            yield Compared(text, *found, tokenizer.decode(own), tokenizer.decode(written), parted)

    def _greedy(self, session: Session, model: LanguageModel, read: Sequence[int]) -> list[int]:
        special = self.run.job.input.tokenizer.specials  # pyright: ignore[reportAttributeAccessIssue]
        hidden = sorted({special.pad, special.unk, special.start} - {special.end, None})
        past, new, tokens = language.empty_past(model, 1), list(read), list[int]()
        while len(tokens) < WRITTEN and (not tokens or tokens[-1] != special.end):
            out = session({"tokens": torch.tensor([new]), **past})
            logits = out["logits"][0, -1]
            logits[hidden] = -torch.inf
            new = [int(logits.argmax())]
            tokens += new
            past = {name.removeprefix("next_"): value for name, value in out.items() if name.startswith("next_")}
        return tokens
