"""What `look` shows of a reader: a window of the document, the answer in brackets, tables between both texts. Needs
no torch.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from regard.errors import CallError
from regard.inputs.question.windows import QuestionReader, WindowItem
from regard.look.axis import Axis, whole
from regard.look.placing import Sides, Table
from regard.look.records import Attention


class Shown(NamedTuple):
    """A window, and the positions of the answer's tokens in it, from 1; 0: no answer."""

    item: WindowItem
    first: int
    last: int


def shown_window(input: QuestionReader, one: Any, chars: tuple[int, int] | None) -> Shown:
    """Return the window in which the answer has the most context on its shorter side; the first window if there is no
    answer.
    """
    items = list(input.in_windows(one))
    if not input.length(items[0]):
        raise CallError("the question or the document has no token: look needs both")
    tokens = None if chars is None else input.document(one).tokens_of(*chars)
    if tokens is None:
        return Shown(items[0], 0, 0)
    first, last = tokens
    item = max(items, key=lambda item: min(first - item.start, item.start + len(item.document) - 1 - last))
    return Shown(item, first - item.start + 1, last - item.start + 1)


def axes_of(input: QuestionReader, shown: Shown, answer: str) -> dict[str, Axis]:
    """Return the axes of the answer, of both texts together, and of each."""
    question, document = input.sides(shown.item)
    both = _bracketed(input.axis(shown.item), document.start, shown.first, shown.last)
    places = range(len(both))
    return {
        "target": whole(answer or "(no answer)"), "source": both,
        "question": both.taken(places[question]), "document": both.taken(places[document]),
    }  # fmt: skip


def between(question: slice, document: slice) -> Callable[[Sides, Sequence[Table]], list[Attention]]:
    """Return a function for `Case.place`: from self-attention over both texts, also the rows of the question and
    columns of the document.
    """

    def place(case: Sides, tables: Sequence[Table]) -> list[Attention]:
        found = []
        for name, role, weights in tables:
            shown = weights[:, question, document]
            if role.kind == "encoder":
                found.append(Attention(name, "encoder", role.layer, weights, "source", "source"))
            else:
                shown = weights.swapaxes(1, 2) if role.layer == 0 else weights
            found.append(Attention(name, "cross", role.layer, shown, "question", "document"))
        return found

    return place


def _bracketed(axis: Axis, document: int, first: int, last: int) -> Axis:
    """Put the answer's tokens (from 1; 0: none) in brackets."""
    tokens = list(axis.tokens)
    if first:
        for place, (before, after) in ((first, ("⟦", "")), (last, ("", "⟧"))):
            token = tokens[document + place - 1]
            tokens[document + place - 1] = replace(token, text=before + token.text + after)
    return replace(axis, tokens=tuple(tokens))
