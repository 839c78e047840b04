"""Adapters that give exported graphs the interface of the run's model, computed by ONNX Runtime.

Search, scores and the check call the graphs as they call the model, so one code serves the run and its export.
"""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from regard.attention.memory import Memory
from regard.attention.score import Role
from regard.exporters.onnx.graph import ATTENTION, ENDING, GraphSession, calls_of, name_tensors
from regard.exporters.onnx.seq2seq import LAYERS_FIRST, empty_past
from regard.exporters.proof import LogitsModel
from regard.models.drawer import TextToImage
from regard.models.language_model import LanguageModel
from regard.models.seq2seq import Seq2Seq, SpeechToText
from regard.special_tokens import START

Tensors = Mapping[str, Tensor]


def stand_in(model: nn.Module, folder: Path) -> nn.Module:
    if isinstance(model, Seq2Seq):
        hears = isinstance(model, SpeechToText) and model.ctc is not None
        return GraphSpeechToText(model, folder) if hears else GraphSeq2Seq(model, folder)
    if isinstance(model, LanguageModel):
        return GraphLanguageModel(model, folder)
    copy = deepcopy(model)
    if isinstance(copy, TextToImage):
        copy.writer = GraphLanguageModel(copy.writer, folder)
    for call in calls_of(model):
        session, kind = GraphSession(folder / f"{call.graph}{ENDING}"), _kind_of(copy, call)

        def ask(*given: Any, call: Any = call, session: GraphSession = session, kind: Any = kind) -> Any:
            found = session(call.tensors(given))
            return kind(*(found[name] for name in call.outputs))

        setattr(copy.get_submodule(call.part), call.method, ask)
    return copy


def _kind_of(model: nn.Module, call: Any) -> Any:
    """Return the result class of a method: one tensor, or several by name."""
    if len(call.outputs) == 1:
        return lambda one: one
    return getattr(type(model.get_submodule(call.part)), call.method).__annotations__["return"]


@dataclass(frozen=True)
class GraphState:
    """Tensors that a step passes to the next."""

    tensors: Tensors
    rows: int
    weights: Tensor | None = None  # (N, K): attention weights of the last step
    watched: str = ""  # the output of the graph with these weights
    joins: ClassVar[bool] = False  # rows share their lengths

    @property
    def device(self) -> torch.device:
        return torch.device("cpu")

    @property
    def length(self) -> int:
        """Return the number of tokens read, if keys and values show it."""
        return next(tensor.shape[2] for name, tensor in self.tensors.items() if name.startswith("past_"))

    def select(self, rows: Tensor) -> "GraphState":
        taken = {name: tensor.index_select(int(name in LAYERS_FIRST), rows) for name, tensor in self.tensors.items()}
        return GraphState(taken, len(rows), None if self.weights is None else self.weights[rows], self.watched)

    def join(self, other: Any) -> "GraphState":
        raise TypeError("rows of this state share their lengths: no row can join them")

    def after(self, found: Tensors) -> "GraphState":
        new = {name.removeprefix("next_"): value for name, value in found.items() if name.startswith("next_")}
        weights = found[self.watched].mean(1)[:, 0] if self.watched else None  # (N, H, 1, K) → (N, K)
        return GraphState({**self.tensors, **new}, self.rows, weights, self.watched)


@dataclass(frozen=True)
class OnnxStart(Memory):
    """Memory that holds the state returned by the graph `encoder`, and its CTC scores, if any."""

    state: GraphState | None = None
    ctc: Tensor | None = None


class GraphSeq2Seq(Seq2Seq):
    """Seq2Seq over graphs, whose features are logits."""

    def __init__(self, like: Seq2Seq, folder: Path) -> None:
        nn.Module.__init__(self)
        self.pad, self.anchor = like.pad, nn.Parameter(torch.zeros(0))  # its device: the CPU
        self._encoder, self._decoder = (GraphSession(folder / f"{name}{ENDING}") for name in ("encoder", "decoder"))
        roles = {name: getattr(module, "role", None) for name, module in like.named_modules()}
        cross = {name: role.layer for name, role in roles.items() if isinstance(role, Role) and role.kind == "cross"}
        self._last = max(cross, key=lambda name: cross[name], default="")  # the attention that coverage uses
        scorer = folder / f"scorer{ENDING}"
        self._scorer = GraphSession(scorer) if scorer.is_file() else None

    def encode(self, source: Any) -> Memory:
        tensors = name_tensors(source)
        rows = len(next(iter(tensors.values())))
        told = self._encoder(tensors)
        state = GraphState({name: told[name] for name in self._decoder.inputs if name in told}, rows)
        ctc = told.get("ctc")
        vectors = torch.zeros(rows, 1 if ctc is None else ctc.shape[1], 1)
        return OnnxStart(vectors, None, torch.zeros(rows, 1), None, state, ctc)

    def start(self, memory: Memory, copies: int = 1, *, watch: bool = False) -> GraphState:
        assert isinstance(memory, OnnxStart)
        assert memory.state is not None
        rows = torch.arange(memory.state.rows).repeat_interleave(copies)
        return replace(memory.state.select(rows), watched=ATTENTION.format(self._last) if watch else "")

    def step(self, tokens: Tensor, state: GraphState) -> tuple[Tensor, GraphState]:
        found = self._decoder({"tokens": tokens, **state.tensors})
        return found["logits"], state.after(found)

    def features(self, memory: Memory, target: Tensor) -> Tensor:
        """Return the logits of all steps, computed one by one with the target as input."""
        state, found = self.start(memory), []
        for tokens in torch.cat([torch.full_like(target[:, :1], START), target[:, :-1]], dim=1).T:
            logits, state = self.step(tokens, state)
            found.append(logits)
        return torch.stack(found, dim=1)

    def logits(self, features: Tensor) -> Tensor:
        return features

    def note_scores(self, source: Any, target: Tensor) -> Tensor | None:
        """Return the logits of all steps at once, if there is a graph `scorer`."""
        return None if self._scorer is None else self._scorer({**name_tensors(source), "target": target})["logits"]


class GraphSpeechToText(GraphSeq2Seq, SpeechToText):
    """Speech model over graphs, with CTC scores."""

    def __init__(self, like: Seq2Seq, folder: Path) -> None:
        GraphSeq2Seq.__init__(self, like, folder)
        self.ctc = nn.Identity()  # the graph computes it

    def ctc_scores(self, memory: Memory) -> Tensor:
        assert isinstance(memory, OnnxStart)
        assert memory.ctc is not None
        return memory.ctc


class GraphLanguageModel(LogitsModel):
    def __init__(self, like: LanguageModel, folder: Path) -> None:
        super().__init__(like, self._whole)
        self._session, self._past = GraphSession(folder / f"decoder{ENDING}"), empty_past(like, 1)

    def start(self, rows: int = 1, *, places: int | None = None) -> GraphState:  # pyright: ignore[reportIncompatibleMethodOverride]
        return GraphState(self._past, 1).select(torch.zeros(rows, dtype=torch.long))

    def read(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        found = self._session({"tokens": tokens, **state.tensors})
        return found["logits"][:, -1], state.after(found)

    def step(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        return self.read(tokens.unsqueeze(1), state)

    def _whole(self, tokens: Tensor) -> Tensor:
        return self._session({"tokens": tokens, **self.start(len(tokens)).tensors})["logits"]
