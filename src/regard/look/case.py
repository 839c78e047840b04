"""`Case`: one input and one output of a model, and how to ask about them. All that looking needs to know of a job.

A job makes a case (its axes, and `ask`), and `look/attribution.py` makes a record of it by any of the methods. So a
method is written once, for whatever comes in and whatever comes out.
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

Parts = frozenset[int]  # of an input: numbers of what is left out of it
WHOLE: Parts = frozenset()


@dataclass(frozen=True)
class Case:
    """
    model     what is traced
    ask       for each of N sets of parts, what the model thinks of every step of the output (log p, a cosine or a
              number) when it is given the input without them: N T, with gradients where torch has them on
    axes      of the tables, by name; `rows` and `columns` name those of methods that ask about the whole model
    parts     where what can be left out of the input stands on the axis `columns`
    vectors   the module whose outputs are the vectors of the input, for its gradients; None: there are none
    gather    input × gradient, as `vectors` gave them (N …, a list of its calls) → N P, the sum of each part
    place     which of the tables are shown, and between which axes
    by_step   the rows of cross-attention are the steps of the output; False: they are something else, as an encoder's
    turned    tables between rows and columns are shown the other way round: a row is a part of the input, with the
              steps that looked at it, so that a word can be laid over a picture that was drawn
    number    steps are numbers, not log-probabilities: any change of them counts, also for the better
    offset    the row of a decoder's table that belongs to the first step
    first     the first step that is the model's own answer; before it are those of what it was given to go on from
    places    the row of an encoder's table that belongs to each step, where an output says one thing of each vector
    each, row   rows of a batch for each input that is asked about, and which of them is looked at
    kind      of tables between `rows` and `columns`
    ask_at    N sets and a step for each → N, where there is a cheaper way to it than to `ask` about all steps
    stream    the layers of a Transformer that writes, and how it comes from them to words
    instead   the word over which `ask` gives the lead of the answer; None: it gives what the model thinks of it alone
    beside    the same answer seen from other sides (a text beside a picture), each with columns of its own
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
