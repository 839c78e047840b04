"""A record as a picture for the report of a run: a heat map of words, a filmstrip over a picture, lines under sound."""

from base64 import b64encode
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from regard.errors import CallError
from regard.look.records import AttentionRecord, Matrix
from regard.look.svg import heat_map
from regard.look.views import top_weight

WIDEST = 160  # columns of a heat map
SHADES = 10  # of painted words, as `report.css` has them: a page that is served allows no other style


class Picture(NamedTuple):
    """Something for the report of a run, or the page of its scores. `html` is put in as it is."""

    title: str
    html: str
    note: str = ""


def picture_of(record: AttentionRecord, right: str = "") -> Picture:
    """Where a model looked. `right`: what it should have said, if that is known."""
    matrix = record.matrix()
    title = f"{record.input} → {record.output}" if record.output else record.input
    note = f"{matrix.title}; method: {record.method}."
    note += f" Right would be: {right}" if right and record.output else ""
    if matrix.columns.image is not None:
        from regard.look.render import save  # loads what draws, which a report needs and a prediction does not

        with TemporaryDirectory(prefix="regard-look-") as folder:
            file = save(record, Path(folder) / "strip.png", view="overlay")
            data = b64encode(file.read_bytes()).decode()
        return Picture(
            title, f'<img class="look" alt="attention over the picture" src="data:image/png;base64,{data}">', note
        )
    if len(matrix.rows) == 1 and matrix.columns.times is None:
        return Picture(title, _painted(matrix), note)
    if len(matrix.columns) > WIDEST or len(matrix.rows) > WIDEST:
        raise CallError("too wide for a report")
    return Picture(title, heat_map(matrix.weights, matrix.rows.labels, matrix.columns.labels, record.output), note)


def _painted(matrix: Matrix) -> str:
    """The words themselves, where one thing is said of all of them."""
    weights = matrix.weights[0]
    top = top_weight(weights)
    words = " ".join(
        f'<mark class="w{round(SHADES * min(1.0, float(weight) / top))}">{escape(token)}</mark>'
        for token, weight in zip(matrix.columns.labels, weights, strict=True)
    )
    return f'<p class="text">{words}</p>'
