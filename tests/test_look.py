import re
import xml.etree.ElementTree as ElementTree
from io import StringIO

import numpy as np
import pytest
from rich.console import Console

from regard.look import heat_map, matrix

WEIGHTS = np.array([[0.9, 0.1, 0.0], [0.0, 0.25, 0.75]])
ROWS, COLUMNS = ["la", "casa"], ["the", "red", "house"]


def drawn(weights=WEIGHTS, rows=ROWS, columns=COLUMNS, **console):
    out = StringIO()
    terminal = Console(file=out, **console)
    terminal.print(matrix(weights, rows, columns, terminal))
    return out.getvalue()


def test_ascii_shades_grow_with_the_weight():
    lines = drawn(no_color=True, width=80).splitlines()
    cells = lines[-2:]
    assert cells[0].startswith("  la ")
    assert cells[0][5:] == "@@ .. " + "   "
    assert cells[1][5:] == "   " + ":: " + "## "


def test_columns_are_written_downwards_above_their_cells():
    lines = drawn(no_color=True, width=80).splitlines()
    letters = [line[6::3] for line in lines[:5]]
    assert [letters[i][2] for i in range(5)] == list("house")
    assert [letters[i][0] for i in range(2, 5)] == list("the")


def test_colours_where_the_terminal_has_them():
    text = drawn(force_terminal=True, color_system="truecolor", width=80)
    assert "\x1b[48;2;" in text


def test_too_wide_becomes_a_list_of_the_words_most_attended_to():
    text = drawn(no_color=True, width=13)
    assert "la ← the" in text
    assert "casa ← house" in text


def test_wide_characters_keep_the_columns_straight():
    lines = drawn(rows=["家", "casa"], no_color=True, width=80).splitlines()
    assert lines[-2].startswith("  家 @@")


def test_svg_has_every_weight_and_escapes_hostile_words():
    words = ["</title><script>alert(1)</script>", "red", "house"]
    root = ElementTree.fromstring(heat_map(WEIGHTS, ROWS, words, title="<b>"))
    rects = root.findall("{*}rect")
    told = [re.search(r": ([\d.]+)$", rect[0].text or "") for rect in rects]
    assert [float(match[1]) for match in told if match] == [0.9, 0.1, 0.0, 0.0, 0.25, 0.75]
    assert not root.findall(".//{*}script")


def test_shapes_that_do_not_fit_are_an_error():
    with pytest.raises(ValueError, match="do not fit 2 rows and 2 columns"):
        heat_map(WEIGHTS, ROWS, COLUMNS[:2], title="")
