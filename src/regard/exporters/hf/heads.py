"""Heads over a text encoder, and their cases of the check.

Classifier   linear in tanh(W x_0 + b), or in x_0: see `pretrained/encoders.py`
Tagger       linear in the vector of each token
PairReader   two pointers, linear in the vector of each token
Embedder     none: a folder of sentence-transformers defines the pooling
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.api import Run
from regard.encoders.image import by_class_token
from regard.exporters.base import RefusalError
from regard.exporters.proof import is_tie
from regard.generation.spans import best_spans
from regard.inputs.text.input import TwoTextsInput
from regard.layers.pooling import Pooling
from regard.models.classifier import Classifier, Tagger
from regard.models.embedder import Embedder
from regard.models.reader import PairReader, join
from regard.pretrained.encoders import HEAD, POINTERS, POOLER, SMALL
from regard.pretrained.weights import to_theirs


@dataclass(frozen=True)
class HeadCase:
    """One input for both models, the expected output, and a function that reads the output of the export."""

    texts: tuple[str, ...] | None  # texts of which the exported tokenizer must make the same tokens
    tokens: Tensor
    types: Tensor | None
    expected: Tensor
    what: str
    read: Callable[[Any], Tensor]
    said: str
    say: Callable[[Tensor], str]
    tied: Callable[[str], bool]
    places: Tensor | None = None  # positions of the document and of *no answer* among the tokens

    def pick(self, start: Tensor, end: Tensor) -> Tensor:
        """Return the two pointers of a row at `places`."""
        return torch.stack([start, end], dim=-1)[0][self.places]


class Head(ABC):
    auto: str
    architecture: str
    tag: str
    bare: bool = False  # whether there is no head
    only_bert: str = ""  # purpose of the head, if ESM has no such head

    def config(self, run: Run) -> dict[str, Any]:
        return {}

    def files(self, run: Run, longest: int) -> dict[str, Any]:
        return {}

    @abstractmethod
    def tensors(self, run: Run, prefix: str) -> Mapping[str, Tensor]: ...

    @abstractmethod
    def ask(self, run: Run, one: Any) -> HeadCase: ...


def head_of(run: Run) -> Head:
    model = run.model
    if isinstance(model, Classifier):
        if not by_class_token(model.encoder, model.pooling):
            raise RefusalError("its heads read the vector of the first token (model.pooling=cls or summary)")
        if isinstance(run.job.input, TwoTextsInput):
            raise RefusalError(
                "transformers marks the tokens of a second text, and this model has no segment embeddings"
            )
        return TextHead()
    if isinstance(model, Tagger):
        return TokenHead()
    if isinstance(model, PairReader):
        return SpanHead()
    if isinstance(model, Embedder):
        if model.pooling.kind == "summary":
            raise RefusalError("sentence-transformers does not have vectors.pooling=summary (only mean or cls)")
        return NoHead()
    raise RefusalError(f"transformers has no head like that of {type(model).__name__}")


def _labels(run: Run) -> dict[str, Any]:
    labels = run.job.output.labels  # pyright: ignore[reportAttributeAccessIssue]
    found = {"id2label": {str(number): name for number, name in enumerate(labels.names)}}
    return found | {"label2id": {name: number for number, name in enumerate(labels.names)}}


class TextHead(Head):
    auto, architecture, tag = "AutoModelForSequenceClassification", "ForSequenceClassification", "text-classification"

    def config(self, run: Run) -> dict[str, Any]:
        several = run.job.output.labels.several  # pyright: ignore[reportAttributeAccessIssue]
        kind = "multi_label_classification" if several else "single_label_classification"
        return {**_labels(run), "problem_type": kind, "classifier_dropout": run.recipe.model.head_dropout}  # pyright: ignore[reportAttributeAccessIssue]

    def tensors(self, run: Run, prefix: str) -> Mapping[str, Tensor]:
        state = dict(run.model.state_dict())
        model = run.model
        assert isinstance(model, Classifier)
        assert isinstance(model.pooling, Pooling)
        if model.pooling.kind == "cls":  # linear in the first vector
            width = model.output.in_features
            state |= {"encoder.pooler.weight": SMALL * torch.eye(width), "encoder.pooler.bias": torch.zeros(width)}
            state["output.weight"] = state["output.weight"] / SMALL
        pooler, head = to_theirs(POOLER, state), to_theirs(HEAD, state)
        if prefix == "bert":
            return {f"bert.{name}": tensor for name, tensor in pooler.items()} | head
        renamed = {name.replace("pooler.dense", "classifier.dense"): tensor for name, tensor in pooler.items()}
        return renamed | {name.replace("classifier", "classifier.out_proj"): tensor for name, tensor in head.items()}

    def ask(self, run: Run, one: Any) -> HeadCase:
        item = run.job.input.read(one)
        tokens = run.job.input.collate([item])
        output, model = run.job.output, run.model
        with torch.inference_mode():
            expected = model.logits(tokens)[0]  # pyright: ignore[reportCallIssue]

        def say(logits: Tensor) -> str:
            if output.labels.several:  # pyright: ignore[reportAttributeAccessIssue]
                given = [
                    n
                    for n, chance in enumerate(logits.sigmoid().tolist())
                    if chance >= output.recipe.decoding.threshold
                ]
                return " | ".join(output.labels.names[number] for number in given)  # pyright: ignore[reportAttributeAccessIssue]
            return output.labels.names[int(logits.argmax())]  # pyright: ignore[reportAttributeAccessIssue]

        cut = len(item.ids) < len(run.job.input.tokenizer.encode(one))  # pyright: ignore[reportAttributeAccessIssue]
        return HeadCase(
            None if cut else (one,), tokens, None, expected, "logits", lambda out: out.logits[0], say(expected), say,
            lambda said: is_tie(run, one, say(expected), said),
        )  # fmt: skip


class TokenHead(Head):
    auto, architecture, tag = "AutoModelForTokenClassification", "ForTokenClassification", "token-classification"

    def config(self, run: Run) -> dict[str, Any]:
        return {**_labels(run), "classifier_dropout": run.recipe.model.head_dropout}  # pyright: ignore[reportAttributeAccessIssue]

    def tensors(self, run: Run, prefix: str) -> Mapping[str, Tensor]:
        return to_theirs(HEAD, run.model.state_dict())

    def ask(self, run: Run, one: Any) -> HeadCase:
        item = run.job.input.read(one)
        source, names = run.job.input.collate([item]), run.job.output.labels.names  # pyright: ignore[reportAttributeAccessIssue]
        with torch.inference_mode():
            expected = run.model.logits(source)[0]  # pyright: ignore[reportCallIssue]

        def say(logits: Tensor) -> str:
            return " ".join(names[number] for number in logits.argmax(1).tolist())

        return HeadCase(
            (" ".join(item.words),), source.tokens, None, expected, "logits",
            lambda out: out.logits[0][source.places[0]], say(expected), say,
            lambda said: is_tie(run, one, say(expected), said),
        )  # fmt: skip


class SpanHead(Head):
    auto, architecture, tag = "AutoModelForQuestionAnswering", "ForQuestionAnswering", "question-answering"
    only_bert = "questions"

    def tensors(self, run: Run, prefix: str) -> Mapping[str, Tensor]:
        return to_theirs(POINTERS, run.model.state_dict())

    def ask(self, run: Run, one: Any) -> HeadCase:
        model, input = run.model, run.job.input
        assert isinstance(model, PairReader)
        item = input.read(one)
        pair = input.collate([item])
        joined = join(pair.question, pair.document, model.cls, model.sep, model.pad)
        places = F.pad(joined.places, (1, 0))[0]
        with torch.inference_mode():
            expected = torch.stack(model.point(pair.question, pair.document), dim=-1)[0]
        most = run.recipe.decoding.max_length  # pyright: ignore[reportAttributeAccessIssue]

        def say(pointers: Tensor) -> str:
            """Return the text of the best span of the window."""
            start, end = pointers.float().T.numpy()
            found = best_spans(start[None], end[None], most, 1)[0].spans
            return run.job.input.tokenizer.decode(item.document[found[0].first : found[0].last + 1]) if found else ""  # pyright: ignore[reportAttributeAccessIssue]

        whole = len(item.document) == len(input.document(one).ids) and len(item.question) == len(  # pyright: ignore[reportAttributeAccessIssue]
            input.tokenizer.encode(item.asked.question)  # pyright: ignore[reportAttributeAccessIssue]
        )
        return HeadCase(
            tuple(item.asked) if whole else None, joined.tokens, joined.types, expected, "pointers",
            lambda out: torch.stack([out.start_logits, out.end_logits], dim=-1)[0][places], say(expected), say,
            lambda said: False, places,
        )  # fmt: skip


class NoHead(Head):
    auto, architecture, tag, bare = "AutoModel", "Model", "sentence-similarity", True

    def tensors(self, run: Run, prefix: str) -> Mapping[str, Tensor]:
        state = run.model.state_dict()
        return to_theirs(POOLER, state) if "encoder.pooler.weight" in state else {}

    def files(self, run: Run, longest: int) -> dict[str, Any]:
        """Return the files that define the pooling for sentence-transformers."""
        model = run.model
        assert isinstance(model, Embedder)
        kinds = ["Transformer", "Pooling", *(["Normalize"] if model.normalize else [])]
        paths = ["", "1_Pooling", "2_Normalize"]
        modules = [
            {"idx": number, "name": str(number), "path": path, "type": f"sentence_transformers.models.{kind}"}
            for number, (kind, path) in enumerate(zip(kinds, paths, strict=False))
        ]
        pooling = {"word_embedding_dimension": model.encoder.memory_width}
        pooling |= {"pooling_mode_cls_token": model.pooling.kind == "cls"}
        pooling |= {"pooling_mode_mean_tokens": model.pooling.kind == "mean"}
        return {
            "modules.json": modules,
            "1_Pooling/config.json": pooling,
            "sentence_bert_config.json": {"max_seq_length": longest, "do_lower_case": False},
        }

    def ask(self, run: Run, one: Any) -> HeadCase:
        model = run.model
        assert isinstance(model, Embedder)
        item = run.job.input.read(one)
        tokens = run.job.input.collate([item])

        def pooled(out: Any) -> Tensor:
            vectors = out.last_hidden_state[0]
            vector = vectors[0] if model.pooling.kind == "cls" else vectors.mean(0)
            return F.normalize(vector, dim=0) if model.normalize else vector

        with torch.inference_mode():
            expected = model.vectors(tokens)[0]
        return HeadCase((one,), tokens, None, expected, "vector", pooled, "", lambda vector: "", lambda said: False)
