"""`Case`: one input and one output of a model, with the functions to score them.

A job makes a case (axes and `ask`), and `look/attribution.py` makes a record of it by any method. So each method is
implemented once for all kinds of input and output.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from torch import Tensor, nn

from regard.look.axis import Axis
from regard.look.placing import Table
from regard.look.records import Attention, Kind
from regard.look.stream import Stream

Parts = frozenset[int]  # numbers of the masked parts of an input
WHOLE: Parts = frozenset()


@dataclass(frozen=True)
class Case:
    """A model with one input and one output to explain.

    model     the traced model
    ask       for each of N sets of masked parts, the score of every output step (log p, a cosine or a number): N T,
              with gradients if torch has them enabled
    axes      axes of the tables, by name; `rows` and `columns` name those of methods on the whole model
    parts     positions of the maskable parts of the input on the axis `columns`
    vectors   the module whose outputs are the vectors of the input, for its gradients; None: no such module
    gather    input × gradient at the outputs of `vectors` (N …, one per call) → N P, summed by part
    place     selects the tables and their axes
    by_step   rows of cross-attention are output steps; False: other rows, such as those of an encoder
    turned    show tables between rows and columns transposed: a row is an input part with the steps that looked at it,
              so that a word can be laid over a generated picture
    number    steps are numbers, not log-probabilities: changes in both directions count
    offset    the row of a decoder's table for the first step
    first     the first step after the given prefix
    places    the row of an encoder's table for each step, if the output predicts one value per vector
    each, row   rows of a batch per input, and which of them is recorded
    kind      kind of the tables between `rows` and `columns`
    ask_at    N sets and one step per set → N, if this is cheaper than `ask` with all steps
    stream    the layers of a Transformer decoder, and its map from states to tokens
    instead   the contrast word: `ask` gives the lead of the answer over it; None: the score of the answer alone
    beside    the same answer for other inputs (a text with a picture), each with separate columns
    """

    model: nn.Module
    ask: Callable[[Sequence[Parts]], Float[Tensor, "N T"]]
    axes: Mapping[str, Axis]
    parts: Sequence[int] = ()
    vectors: nn.Module | None = None
    gather: Callable[[Sequence[np.ndarray]], Float[np.ndarray, "N P"]] | None = None
    place: "Callable[[Case, Sequence[Table]], list[Attention]] | None" = None
    rows: str = "target"
    columns: str = "source"
    by_step: bool = True
    turned: bool = False
    number: bool = False
    offset: int = 0
    first: int = 0
    places: Sequence[int] = ()
    each: int = 1
    row: int = 0
    kind: Kind = "cross"
    ask_at: Callable[[Sequence[Parts], Sequence[int]], Float[Tensor, " N"]] | None = None
    stream: Stream | None = None
    instead: str | None = None
    beside: "Sequence[Case]" = ()
