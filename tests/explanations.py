"""What every explanation has to hold, whatever model it is asked of: parts that add up, states that bring all back."""

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import nn

from recipe_runs import Trained, rebuilt, trained
from regard.attention.masks import ManyHeads
from regard.attention.score import Role
from regard.decoders.transformer import TransformerDecoder
from regard.inputs.base import Input
from regard.look.case import WHOLE, ExplainTarget
from regard.look.explain import BY
from regard.look.records import KINDS, ORDER
from regard.look.value_table import ValueTable
from regard.tasks.base import LookOptions

WAYS = ("lens", "logits", "scores", *(f"inputs --by {by}" for by in BY["inputs"]),
        *(f"patching --by {by}" for by in BY["patching"]))  # fmt: skip
SIZES = {"kind": "transformer", "width": 32, "heads": 4, "feed_forward": 48, "dropout": 0.1}
VIT = {"kind": "vit", "patch": 16, "width": 32, "heads": 2, "layers": 2, "feed_forward": 48}
PATCHES = {"kind": "patch", "width": 16, "heads": 2, "layers": 2, "patch": 4, "stride": 2}
#: Models that no recipe of an embedded corpus has: built, with the vocabulary of one that has, and not trained.
OTHERS = {
    "caption by a Transformer": ("shapes-caption", SIZES | {"encoder_layers": 2, "decoder_layers": 2, "encoder": VIT}),
    "ask by a Transformer": ("shapes-ask", SIZES | {"joint_layers": 2, "decoder_layers": 2, "encoder": VIT}),
    "transcribe by a Transformer": ("tones", SIZES | {"encoder_layers": 2, "decoder_layers": 2}),
    "forecast by patches": (
        "stocks-forecast",
        {"kind": "patch", "width": 16, "heads": 2, "layers": 2, "patch": 4, "stride": 2},
    ),
    "match by Transformers": (
        "shapes-match",
        {"width": 16, "image": {"encoder": VIT, "layers": 0}, "text": {"kind": "transformer", "width": 16, "heads": 2}},
    ),
}
EVERYTHING = pytest.approx(1.0, abs=0.02)
TWO_TEXTS = "Luis sells a chair."  # what one text is held against, where a model makes vectors


class Asked(NamedTuple):
    made: Trained
    one: Any
    other: Any  # of the same size
    options: dict[str, Any]

    def explain(self, way: str, **more: Any) -> ValueTable:
        how, _, by = way.partition(" --by ")
        options = {"by": by or None, **self.options, **more}
        if how == "scores":
            options |= {"row": 1, "layer": 0, "head": 0}
        return self.made.run.explain(self.one, how, against_input=self.other if how == "patching" else None, **options)

    @property
    def case(self) -> ExplainTarget:
        output, model = self.made.run.job.output, self.made.run.model
        options = LookOptions(self.options.get("output"), method="input-gradient")
        return output.case(model, self.one, output.tell(model, self.one, options)[0])


@cache
def asked(name: str) -> Asked:
    made = rebuilt(*OTHERS[name]) if name in OTHERS else trained(name)
    one, other = _pair(made.input, made.run.job.input)
    return Asked(made, one, other, {"output": TWO_TEXTS} if made.run.recipe.job == "encode" else {})


def _pair(one: Any, input: Input) -> tuple[Any, Any]:
    """A small input, and another one of the same size: the first one turned round, or its words in another order."""
    if isinstance(one, str):
        words, length = one.split(), input.length(input.read(one))
        orders = [words[::-1], *(words[place:] + words[:place] for place in range(1, len(words)))]
        return one, next(text for text in map(" ".join, orders) if input.length(input.read(text)) == length)
    if hasattr(one, "document"):
        one = one._replace(document=one.document[:40])
        return one, one._replace(question=" ".join(reversed(one.question.split())))
    if hasattr(one, "pixels"):
        return one, one._replace(pixels=one.pixels[::-1].copy(), features=None)
    if hasattr(one, "numbers"):
        return one, one._replace(numbers=one.numbers[::-1].copy())
    if hasattr(one, "load"):
        samples = one.load()[:3200]
        return one._replace(load=lambda: samples), one._replace(load=lambda: samples[::-1].copy())
    if all(isinstance(word, str) for word in one):
        return one, one[::-1]
    picture, question = one
    return one, (picture, " ".join(reversed(question.split())))


# --------------------------------------------------------------------------------------------- what a model has to have
def _reader(made: Trained) -> nn.Module:
    return made.run.job.output.reader(made.run.model)


def _heads(made: Trained) -> list[Role]:
    """Of the attention that has several, or one of many."""
    found = [one.role for one in _reader(made).modules() if isinstance(one, ManyHeads) and hasattr(one, "role")]
    return [role for role in found if role.kind in ORDER]


def _writes_by_layers(made: Trained) -> bool:
    return any(isinstance(one, TransformerDecoder) for one in made.run.model.modules())


def _recurrent(model: nn.Module) -> bool:
    return any(isinstance(one, nn.RNNBase) for one in model.modules())


NEEDS: dict[str, Callable[[Trained], bool]] = {
    "yes": lambda made: True,
    "no": lambda made: False,
    "Transformer": _writes_by_layers,
    "heads": lambda made: bool(_heads(made)),
    "layers": lambda made: made.run.recipe.model.kind == "transformer",
    "recurrence": lambda made: _recurrent(_reader(made)),
    "no recurrence": lambda made: not _recurrent(made.run.model),
    "two layers": lambda made: any(role.layer == 1 and role.kind != "cross" and role.followed for role in _heads(made)),
}


# ----------------------------------------------------------------------------------------------------- what has to hold
def _lens(it: Asked, table: ValueTable) -> None:
    """The last row is what the model says."""
    np.testing.assert_allclose(np.log(table.values[-1]), _thought(it), atol=1e-3)


def _logits(it: Asked, table: ValueTable) -> None:
    """The parts add up to the logit that the model itself has."""
    own = []
    with it.made.run.model.output.register_forward_hook(lambda module, args, output: own.append(output)):
        case = it.case
        own.clear()
        _thought(it, case)
    logits = own[-1].detach().reshape(len(table.columns), -1)
    answers = torch.tensor(case.stream.answers)
    np.testing.assert_allclose(table.values[-1], logits.gather(1, answers[:, None])[:, 0], rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(table.values[:-1].sum(0), table.values[-1], rtol=1e-4, atol=1e-4)


def _scores(it: Asked, table: ValueTable) -> None:
    """A softmax over the sum is the row of weights that is shown."""
    weights = it.made.run.look(it.one).matrix("decoder", layer=0, head=0).weights[1, :2]
    after = np.exp(table.values[-1] - table.values[-1].max())
    np.testing.assert_allclose(after / after.sum(), weights, atol=1e-4)


def _integrated(it: Asked, table: ValueTable) -> None:
    """A row adds up to what the model thinks, less what it thinks of an input of zeros, but for what is said to be
    lost."""
    case = it.case
    whole = _thought(it, case)
    with case.vectors.register_forward_hook(lambda module, args, output: torch.zeros_like(output)):
        nothing = _thought(it, case)
    lost = np.abs(table.values.sum(1) - (whole - nothing)).sum() / np.abs(whole - nothing).sum()
    said = next(word for word in table.about.split() if word.endswith("%"))
    assert 100 * lost == pytest.approx(float(said.strip("%")), abs=0.2)


def _inputs(it: Asked, table: ValueTable) -> None:
    """Something is felt of some part, and the table has a column for each."""
    assert table.values.shape == (len(it.case.axes["target"]), len(it.case.parts) + 1)
    assert np.abs(table.values[:, :-1]).max() > 1e-6


def _patched_heads(it: Asked, table: ValueTable) -> None:
    """A head that is silent by both inputs brings nothing back; all that look at the source bring back everything."""
    (kind,) = (kind for kind in KINDS if table.title.endswith(f"attention {KINDS[kind]}"))
    if kind == "cross":
        assert table.values[-1, -1] == EVERYTHING
    silent = it.explain("patching --by heads", without=[f"{kind}.0.1"])
    row = next(row for row, name in enumerate(table.rows) if name.endswith(("layer 0", "layers.0")))
    assert silent.values[row, 1] == 0
    assert np.abs(table.values[row, 1]) > 0


def _patched_positions(it: Asked, table: ValueTable) -> None:
    """All that a layer leaves brings everything back, and so does the memory."""
    assert list(table.values[:, -1]) == [EVERYTHING] * len(table.rows)


def _patched_states(it: Asked, table: ValueTable) -> None:
    """All states of a reading bring everything back; of a writing, those after a step have no say in it."""
    if "(encoder)" in table.title:
        assert table.values[-1, -1] == EVERYTHING
        return
    first = it.explain("patching --by states", row=0).values[0]
    assert abs(first[0]) > 0
    assert not first[1:-1].any()


def _patched_paths(it: Asked, table: ValueTable) -> None:
    """Nothing goes back; and a head that is silent neither tells nor hears."""
    assert not np.tril(table.values).any()
    assert np.abs(table.values).max() > 0
    silent = it.explain("patching --by paths", without=[table.rows[1]])
    assert not silent.values[1].any()


CHECKS: dict[str, Callable[[Asked, ValueTable], None]] = dict(
    zip(
        WAYS,
        [_lens, _logits, _scores, _integrated, _inputs, _inputs, _patched_heads, _patched_positions, _patched_states,
         _patched_paths],
        strict=True,
    )
)  # fmt: skip


def _thought(it: Asked, case: ExplainTarget | None = None) -> np.ndarray:
    with torch.no_grad():
        return (case or it.case).ask([WHOLE])[0].double().numpy()
