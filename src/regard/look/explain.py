"""Explain an output: compute a `ValueTable` from a `ExplainTarget`.

lens       prediction of each layer                                          methods/lens.py
logits     contribution of each layer and head to the logit of the answer    methods/logits.py
patching   effect of each head, position or state of a second input          methods/patching.py, paths.py, states.py
inputs     contribution of each part of the input                            methods/integrated.py, attnlrp.py, …
scores     parts of the attention scores of a head                           methods/scores.py
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from torch import nn

from regard.attention.masks import ManyHeads
from regard.attention.score import Recurrence, Role
from regard.errors import CallError, nearest
from regard.look.case import Contributions, ExplainTarget, evaluating
from regard.look.methods import ABOUT_OUTPUT, METHODS, By
from regard.look.methods.attnlrp import attnlrp
from regard.look.methods.inputs import input_times_gradient, integrated_gradients
from regard.look.methods.lens import direct_logits, logit_lens
from regard.look.methods.origins import Side, score_parts
from regard.look.methods.patching import ALL, has_heads, modules_run, patched_heads, patched_positions
from regard.look.methods.paths import patched_paths, patched_states, state_layers
from regard.look.records import KINDS, ORDER, Kind
from regard.look.stream import Part, Reading, ResidualStream, StreamLayer, read_stream
from regard.look.value_table import ValueTable

EXPLANATIONS = ("lens", "logits", "patching", "inputs", "scores")
CONTRASTED = ("logits", "patching", "inputs")
NO_STREAM = (
    "explain={how!r} needs a Transformer that generates text; explain='patching' and explain='inputs' work with other "
    "models, too"
)
ALL_ZERO = "All numbers are zero: none of this makes a difference here."
INPUTS: dict[str, tuple[Callable[[ExplainTarget], Contributions], str, str]] = {
    "integrated-gradients": (
        integrated_gradients, "A row sums to {what}, minus that for an input of zeros.",
        "Integrated gradients (Sundararajan et al. 2017).",
    ),
    "attnlrp": (attnlrp, "A row sums to its logit, or to its lead.", "AttnLRP (Achtibat et al. 2024)."),
    "input-gradient": (
        input_times_gradient, "A row has no defined sum.", "Input × gradient (Shrikumar et al. 2016).",
    ),
}  # fmt: skip
BY = {"patching": ("heads", "positions", "states", "paths"), "scores": ("keys", "queries"), "inputs": tuple(INPUTS)}


@dataclass(frozen=True)
class ExplainOptions:
    """Options of an explanation.

    row       one output step, from 0; −1 is the last. None: all steps
    kind      patching: the attention, or the module with the positions; None: over the input, if available
    by        patching: heads, positions, recurrent states, or paths from head to head (None: heads if available, else
              states, else positions); scores: keys or queries; inputs: the method
    layer, head   scores: layer and head of self-attention
    """

    row: int | None = None
    kind: Kind | None = None
    by: By | None = None
    layer: int | None = None
    head: int | None = None


def explain(how: str, case: ExplainTarget, other: ExplainTarget | None, options: ExplainOptions) -> ValueTable:
    """Return an explanation as a table. `other`: the same answer for a second input (patching only)."""
    if how not in EXPLANATIONS:
        raise CallError(f"explain={how!r} is not known{nearest(how, EXPLANATIONS)}")
    if (other is not None) != (how == "patching"):
        raise CallError(
            "explain='patching' needs a second input (against_input=..., --against-input; exchange='red=blue', "
            f"--exchange), and other explanations take none: this is explain={how!r}"
        )
    if options.by is not None and options.by not in BY.get(how, ()):
        raise CallError(f"by={options.by!r}: explain={how!r} supports {' or '.join(BY.get(how, ('none',)))}")
    steps = len(case.axes[case.rows])
    if options.row is not None and not -steps <= options.row < steps:
        raise CallError(f"row={options.row} is not one of 0 to {steps - 1}, the steps of the output")
    if case.instead is not None and how not in CONTRASTED:
        raise CallError(f"explain={how!r} has no contrast word: instead= needs {', '.join(CONTRASTED)}")
    if case.instead is not None and how != "inputs" and options.row is None and steps > 1:
        raise CallError("instead= needs one step of the output: give row= (--row), from 0")
    with evaluating(case.model):
        table = _table(how, case, other, options)
    return table if table.values.any() else replace(table, about=f"{table.about} {ALL_ZERO}")


def _table(how: str, case: ExplainTarget, other: ExplainTarget | None, options: ExplainOptions) -> ValueTable:
    if other is not None:
        return _patching(case, other, options)
    if how == "inputs":
        return _inputs(case, options)
    if case.stream is None:
        raise CallError(NO_STREAM.format(how=how))
    reading = read_stream(case, case.stream)
    if how == "scores":
        return _scores(case, case.stream, reading, options)
    return _lens(case, case.stream, reading) if how == "lens" else _logits(case, case.stream, reading, options)


def _lens(case: ExplainTarget, stream: ResidualStream, reading: Reading) -> ValueTable:
    found = logit_lens(reading.states, stream.norm, stream.output, _answers(stream))
    words = [
        [f"{word} {p:.2f}" for word, p in zip(stream.words(ids), some, strict=True)]
        for ids, some in zip(found.best.tolist(), found.probability.tolist(), strict=True)
    ]
    rows = ["embedding", *(f"layer {number}" for number in range(len(words) - 1))]
    return ValueTable(
        found.answer.cpu().numpy(), rows, case.axes[case.rows].labels, "Prediction of each layer", words=words,
        about="The most probable word by the state after each layer, with its probability; the color is the "
        "probability of the output word. Logit lens (nostalgebraist 2020).",
    )  # fmt: skip


def _logits(case: ExplainTarget, stream: ResidualStream, reading: Reading, options: ExplainOptions) -> ValueTable:
    answers = _answers(stream)
    instead = None if stream.instead is None else torch.full_like(answers, stream.instead)
    parts = direct_logits(reading, stream.norm, stream.output, answers, instead)
    labels = case.axes[case.rows].labels
    if options.row is not None:
        return _logits_of_step(parts, options.row, _word(case, options.row))
    groups: dict[str, np.ndarray] = {}
    for part in parts:
        name = part.name if part.head < 0 else f"{part.kind}.{part.layer}"
        groups[name] = groups.get(name, 0.0) + part.added.cpu().double().numpy()
    total = np.sum(list(groups.values()), axis=0)
    return ValueTable(
        np.stack([*groups.values(), total]), [*groups, "logit"], labels, "Contributions to the logit of a word",
        about="The rows sum exactly to the last one, the logit; norms are constants. Direct logit "
        "attribution (Elhage et al. 2021).",
    )  # fmt: skip


def _word(case: ExplainTarget, row: int) -> str:
    """Return an output word, with the contrast word if there is one."""
    word = repr(case.axes[case.rows].labels[row])
    return word if case.instead is None else f"{word}, ahead of {case.instead!r}"


def _logits_of_step(parts: list[Part], row: int, word: str) -> ValueTable:
    """Return the contributions to the logit of one step: layers × heads."""
    layers = 1 + max(part.layer for part in parts)
    names = list(dict.fromkeys(_column(part) for part in parts if part.layer >= 0))
    values = np.zeros((layers, len(names)))
    beside = {}
    for part in parts:
        value = float(part.added[row])
        if part.layer < 0:
            beside[part.kind] = value
        else:
            values[part.layer, names.index(_column(part))] = value
    total = values.sum() + sum(beside.values())
    return ValueTable(
        values, [f"layer {number}" for number in range(layers)], names,
        f"Contribution of each head and feed-forward to the logit of {word}",
        about=f"With {' and '.join(f'{value:+.2f} of {kind}' for kind, value in beside.items())}, all numbers sum "
        f"exactly to {total:.2f}; norms are constants. Direct logit attribution (Elhage et al. 2021).",
    )  # fmt: skip


def _inputs(case: ExplainTarget, options: ExplainOptions) -> ValueTable:
    method, sums, paper = INPUTS[options.by or "integrated-gradients"]
    found = method(case)
    columns = [case.axes[case.columns].labels[place] for place in case.parts]
    values, labels = np.column_stack([found.parts, found.rest]), case.axes[case.rows].labels
    if options.row is not None:
        values, labels = values[[options.row]], [labels[options.row]]
    what = "its number" if case.number else "its score"
    title = "Contribution of each part of the input to each part of the output"
    title += "" if case.instead is None else f", ahead of {case.instead!r}"
    return ValueTable(
        values, labels, [*columns, "the rest"], title,
        about=f"{sums.format(what=what)} {found.about} {paper}",
    )  # fmt: skip


def _scores(case: ExplainTarget, stream: ResidualStream, reading: Reading, options: ExplainOptions) -> ValueTable:
    if options.row is None or options.layer is None or options.head is None:
        raise CallError("explain='scores' needs one query of one head: give row=, layer= and head= as numbers")
    layer, most = options.layer, len(stream.layers)
    if not -most <= layer < most:
        raise CallError(f"layer={layer} is not one of 0 to {most - 1}")
    block: StreamLayer = stream.layers[layer]  # pyright: ignore[reportAssignmentType]
    heads = getattr(block.attention, "heads", 1)
    if not -heads <= options.head < heads:
        raise CallError(f"head={options.head} is not one of 0 to {heads - 1}")
    side: Side = "queries" if options.by == "queries" else "keys"
    read = case.axes["read"].labels
    row = options.row % len(read)
    names, values = score_parts(reading, block, layer % most, options.head % heads, row, side)
    table = values.cpu().double().numpy()
    of = "the query" if side == "queries" else "each key"
    return ValueTable(
        np.vstack([table, table.sum(axis=0)]), [*names, "score"], read[: row + 1],
        f"Parts of the scores of {read[row]!r}: layer {layer % most}, head {options.head % heads}",
        about=f"A row is the contribution of a part of {of}, the last their sum; its softmax is the row of weights. "
        "Norms are constants (Elhage et al. 2021).",
    )  # fmt: skip


def _column(part: Part) -> str:
    return part.kind if part.head < 0 else f"{part.kind} {part.head}"


def _patching(case: ExplainTarget, other: ExplainTarget, options: ExplainOptions) -> ValueTable:
    if options.kind is not None and options.kind not in KINDS:
        raise CallError(f"kind={options.kind!r} must be one of {', '.join(KINDS)}")
    of = "of the answer" if options.row is None else f"of {_word(case, options.row)}"
    score = "numbers" if case.number else "score"
    back = f"Recovered share of the {score} {of} when "
    if options.by == "paths":
        _, heads, values = patched_paths(case, other, options.kind, options.row)
        return ValueTable(
            values, heads, heads, "Direct effect of each head (row) on each later one (column)",
            about=f"{back}only the later head reads the output of the earlier one for the first input, and all else is "
            "that of the second: 1 is all, 0 nothing. Path patching (Wang et al. 2022).",
        )  # fmt: skip
    about = (
        f"{back}only this state is copied from the first input to the second: 1 is all, 0 nothing. {ALL}: "
        "copied together. Activation patching (Vig et al. 2020)."
    )
    by = options.by or _what_there_is(other, options.kind)
    if by == "heads":
        found = patched_heads(case, other, options.kind, options.row)
        title = f"Effect of each head: attention {KINDS[found.kind]}"
    else:
        way, what = (patched_states, "recurrent state") if by == "states" else (patched_positions, "vector")
        found = way(case, other, options.kind, options.row, partial(_positions, case, other))
        title = f"Effect of the {what} at each position ({found.kind})"
    return ValueTable(found.values, found.layers, found.columns, title, about)


def _what_there_is(case: ExplainTarget, kind: Kind | None) -> By:
    if has_heads(case, kind):
        return "heads"
    ran, _ = modules_run(case)
    recurrent = any(state_layers(ran, one) for one in ORDER if kind in (None, one))
    return "states" if recurrent else "positions"


def _positions(case: ExplainTarget, other: ExplainTarget, kind: Kind, length: int) -> list[str]:
    """Label the positions with the tokens of both inputs; states without a name get numbers."""
    names = ["source"] if kind == "encoder" else ["read", case.rows]
    name = next(
        (one for one in names if all(one in side.axes and len(side.axes[one]) == length for side in (case, other))), ""
    )
    if not name:
        return [str(place) for place in range(length)]
    both = zip(case.axes[name].labels, other.axes[name].labels, strict=True)
    return [one if one == two else f"{one} | {two}" for one, two in both]


def _answers(stream: ResidualStream) -> torch.Tensor:
    return torch.tensor(stream.answers, device=stream.output.weight.device)


# Methods and explanations that a model supports, found from its modules without running it.

ATTENTION = ("raw", "rollout", "norm", "gradient")  # these show attention weights, the others explain the whole model


def supported_methods(model: nn.Module) -> list[str]:
    """Return the methods that a model supports.

    Rollout multiplies attention over layers, so it needs self-attention layers and no convolutions. AttnLRP has no rule
    for recurrent cells."""
    found = (getattr(module, "role", None) for module in model.modules())
    roles = [role for role in found if isinstance(role, Role) and role.kind != "gate"]
    kinds = {role.kind for role in roles}
    layered = "decoder" in kinds or ("encoder" in kinds and "cross" not in kinds)
    followed = layered and all(role.followed for role in roles)
    recurrent = any(isinstance(module, nn.RNNBase | nn.RNNCellBase) for module in model.modules())
    fails = {"rollout": not followed, "attnlrp": recurrent} | ({} if roles else dict.fromkeys(ATTENTION, True))
    return [name for name in METHODS if not fails.get(name, False)]


def supported_explanations(model: nn.Module, reader: nn.Module, *, writes_text: bool) -> list[str]:
    """Return the supported explanations (`look/explain.py`), each with its `by` options.

    `lens`, `logits` and `scores` need a Transformer decoder; `inputs` uses the methods above. Patching copies states
    from one input to another in `reader`, the part of the model that runs again for each input."""
    methods = supported_methods(model)
    roles = {name: role for name, one in reader.named_modules() if isinstance(role := getattr(one, "role", None), Role)}
    layered = writes_text and any(role.kind == "decoder" for role in roles.values())
    heads = [name for name, role in roles.items() if role.kind in ORDER and _many_heads(reader, name)]
    blocks = [name.rpartition(".")[0] for name in heads if roles[name].kind != "cross" and roles[name].followed]
    stacks = [block.rpartition(".")[0] for block in blocks if getattr(reader.get_submodule(block), "norm_first", False)]
    carried = {
        "heads": bool(heads),
        "positions": any(role.kind == "decoder" for role in roles.values())
        or any(hasattr(one, "memory_width") for one in reader.modules()),
        "states": any(isinstance(getattr(one, "recurrence", None), Recurrence) for one in reader.modules()),
        "paths": len(stacks) > len(set(stacks)),
    }
    return [
        *(("lens", "logits") if layered else ()),
        *(f"scores {by}" for by in BY["scores"] if layered),
        *(f"inputs {name}" for name in INPUTS if name in methods),
        *(f"patching {by}" for by in BY["patching"] if carried[by]),
    ]


def _many_heads(model: nn.Module, name: str) -> bool:
    return isinstance(model.get_submodule(name), ManyHeads)


def require_contrast(method: str) -> None:
    """Raise CallError unless the method supports a contrast word."""
    if method not in ABOUT_OUTPUT:
        raise CallError(
            f"method={method!r} does not depend on the output: instead= (--instead) needs one of "
            f"{', '.join(ABOUT_OUTPUT)}"
        )
