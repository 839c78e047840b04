import json
import re
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from io import StringIO

import numpy as np
import pytest
from rich.console import Console

from regard import look
from regard.attention.positions import sinusoids
from regard.errors import CallError
from regard.look import heat_map, matrix
from regard.look.positions import similarity_by_distance
from regard.look.records import beam_tree
from regard.look.terminal import small_map

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


def test_colors_where_the_terminal_has_them():
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
    strongest = ElementTree.fromstring(heat_map(WEIGHTS, ROWS, words, "", 0.75)).findall("{*}rect")
    for painted, top in ((rects, 1.0), (strongest, 0.75)):
        shades = [0.06 + 0.94 * min(1.0, weight / top) for weight in WEIGHTS.ravel()]
        assert [float(rect.get("fill-opacity")) for rect in painted] == pytest.approx(shades, abs=6e-4)


def test_shapes_that_do_not_fit_are_an_error():
    with pytest.raises(ValueError, match="do not fit 2 rows and 2 columns"):
        heat_map(WEIGHTS, ROWS, COLUMNS[:2], title="")


# ------------------------------------------------------------------------------------------------- views of a record
HOSTILE = "</script><img src=x onerror=alert(1)>"
TOKENS = [HOSTILE, "שלום", "日本語", "مرحبا", "😀 & $x^2$"]


def seen(rows=ROWS, columns=COLUMNS, heads=2, layers=2, **more):
    chance = np.random.default_rng(3)
    tables = chance.random((layers, heads, len(rows), len(columns)))
    return look.record(list(tables / tables.sum(-1, keepdims=True)), rows, columns, input="in", output="out", **more)


def with_beams():
    def one(words, scores, score):
        record = seen(rows=words, scores=scores)
        return replace(record, score=score, output=" ".join(words))

    best = one(["la", "casa", "roja"], [-0.1, -0.2, -0.3], -0.2)
    return replace(best, beams=(one(["la", "casa", "azul"], [-0.1, -0.2, -1.3], -0.5), one(["una"], [-4.0], -4.0)))


def shown_in_terminal(record, width=100, **how):
    out = StringIO()
    console = Console(file=out, width=width, **how.pop("console", {"no_color": True}))
    look.show(record, console=console, **how)
    return out.getvalue()


@pytest.mark.parametrize("view", ["matrix", "lines", "grid", "text"])
@pytest.mark.parametrize("colors", [{"no_color": True}, {"force_terminal": True, "color_system": "truecolor"}])
def test_every_view_says_its_method_and_shows_hostile_tokens_as_text(view, colors):
    text = shown_in_terminal(seen(columns=TOKENS, method="rollout"), width=400, view=view, console=colors)
    assert "Method: rollout, attention followed back" in text
    if view in ("text", "lines"):
        assert HOSTILE in text


def test_the_grid_has_a_map_and_an_entropy_for_every_head():
    record = seen()
    text = shown_in_terminal(record, view="grid")
    for layer in (0, 1):
        assert f"layer {layer}" in text
        for head in (0, 1):
            table = record.matrix(layer=layer, head=head).weights
            assert f"head {head}  {-(table * np.log2(table)).sum(-1).mean():.2f} bits" in text


def test_maps_are_half_blocks_two_rows_to_a_line():
    colors = {"force_terminal": True, "color_system": "truecolor"}
    console = Console(file=StringIO(), **colors)
    drawn_map = small_map(np.random.default_rng(0).random((5, 7)), console)
    lines = drawn_map.plain.splitlines()
    assert [len(line) for line in lines] == [7, 7, 7]
    assert set(drawn_map.plain) == {"▀", "\n"}


def test_large_maps_keep_their_largest_weight():
    table = np.zeros((100, 90))
    table[57, 83] = 1.0
    console = Console(file=StringIO(), no_color=True)
    text = small_map(table, console).plain
    assert text.count("@") == 1
    assert all(len(line) <= 32 for line in text.splitlines())


def test_hypotheses_share_their_beginning_and_show_their_scores():
    nodes = beam_tree(with_beams())
    assert [node.tokens for node in nodes] == [["la", "casa"], ["una"]]
    assert [child.tokens for child in nodes[0].children] == [["roja"], ["azul"]]
    assert nodes[0].log_probability == pytest.approx(-0.3)
    text = shown_in_terminal(with_beams(), view="beams")
    assert re.search(r"roja +log p -0\.30 +#1 score -0\.200", text)
    assert re.search(r"una +log p -4\.00 +#3 score -4\.000", text)


def test_two_records_and_their_difference():
    one, other = (
        look.record(WEIGHTS, ROWS, COLUMNS, model="one"),
        look.record(WEIGHTS[::-1], ROWS, COLUMNS, model="two"),
    )
    text = shown_in_terminal(one, against=other)
    assert "first: one" in text
    assert "second: two" in text
    last = text[text.index("difference") :].splitlines()
    assert any(line.startswith("  la %% ..-##-") for line in last), last  # 0.9, −0.15 and −0.75 of 1
    with pytest.raises(CallError, match="cannot be subtracted"):
        look.show(one, against=seen(rows=["la", "casa", "roja"]))


def test_log_scale_shows_small_weights():
    record = look.record([[1.0, 0.001, 0.0]], ["a"], COLUMNS)
    plain, log = ([line for line in shown_in_terminal(record, log=log).splitlines() if line.startswith("a ")]
                  for log in (False, True))  # fmt: skip
    assert [line.rstrip() for line in plain] == ["a @@"]
    assert [line.rstrip() for line in log] == ["a @@ ::"]  # three decades below, of four


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ({"view": "matirx"}, "did you mean 'matrix'"),
        ({"view": "beams"}, "only one hypothesis"),
        ({"kind": "decoder"}, "not in this record"),
        ({"layer": 5}, "layer=5 is not one of 0, 1"),
    ],
)
def test_what_cannot_be_drawn_is_said(how, told):
    with pytest.raises(CallError, match=told):
        shown_in_terminal(seen(), **how)


# ------------------------------------------------------------------------------------------------------------- files
@pytest.mark.parametrize("suffix", ["png", "svg", "pdf", "html", "npz"])
def test_a_record_becomes_a_file_of_the_kind_its_name_says(suffix, tmp_path):
    begins = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF", "html": b"<!doctype html>", "npz": b"PK"}
    file = look.save(seen(), tmp_path / f"x.{suffix}")
    assert file.read_bytes().startswith(begins[suffix])
    assert [path.name for path in tmp_path.iterdir()] == [file.name]


@pytest.mark.parametrize("view", ["matrix", "lines", "grid", "text", "beams"])
def test_every_view_is_drawn_as_svg_that_is_the_same_every_time(view, tmp_path):
    once, again = (look.save(with_beams(), tmp_path / f"{n}.svg", view=view).read_bytes() for n in (1, 2))
    assert once == again
    ElementTree.fromstring(once)


def test_a_wrong_suffix_or_folder_is_told_before_anything_is_drawn(tmp_path):
    with pytest.raises(CallError, match=r"must end with \.png, \.svg, \.pdf, \.html, \.npz; did you mean '\.png'"):
        look.save(seen(), tmp_path / "x.pgn")
    with pytest.raises(CallError, match="no such folder"):
        look.save(seen(), tmp_path / "no" / "x.png")


def test_characters_that_no_font_has_are_named_in_one_warning(tmp_path):
    with pytest.warns(UserWarning, match="no installed font has") as caught:
        look.save(seen(columns=["a\ue123", "\ue124", "c"]), tmp_path / "x.png")  # private use: no font has these
    (message,) = [str(warning.message) for warning in caught]
    assert "\ue123" in message
    assert "\ue124" in message


def test_dollars_and_markup_are_drawn_as_they_are(tmp_path):
    look.save(seen(columns=[HOSTILE, "$x^", "\\frac{"]), tmp_path / "x.svg", view="text")
    text = (tmp_path / "x.svg").read_text()
    assert "<img" not in text
    assert "<script" not in text


def test_the_page_escapes_its_data_and_allows_nothing_else(tmp_path):
    html = look.save(seen(columns=TOKENS, rows=[HOSTILE, "</title>"]), tmp_path / "x.html").read_text(encoding="utf-8")
    assert "<img" not in html
    assert html.count("</script>") == 2
    assert "https://" not in html.replace("http://www.w3.org/2000/svg", "")
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', html)
    assert policy is not None
    assert "default-src 'none'" in policy[1]
    assert "unsafe" not in policy[1]
    data = re.search(r'<script type="application/json" id="regard-data">(.*?)</script>', html, re.DOTALL)
    assert data is not None
    page = json.loads(data[1])
    assert [token["text"] for token in page["records"][0]["axes"]["source"]["tokens"]] == TOKENS
    assert not re.search(r"^(import|export) ", html, re.MULTILINE)


def test_similarity_of_sinusoids_depends_on_the_distance_alone():
    table = sinusoids(50, 128).numpy()
    alike = similarity_by_distance(table)
    rates = 10000 ** (-np.arange(0, 128, 2) / 128)
    np.testing.assert_allclose(alike, [np.cos(k * rates).mean() for k in range(50)], atol=1e-6)


def test_a_record_is_a_line_and_in_a_notebook_a_picture_and_the_page():
    record = seen()
    assert len(repr(record)) < 200
    assert "\n" not in repr(record)
    assert "method='raw'" in repr(record)
    for one in (record, look.widget(record, view="grid")):
        data = one._repr_mimebundle_(include=None, exclude=None)
        assert data["text/plain"] == repr(record)
        assert data["image/png"].startswith("iVBOR")
        assert "widget" not in " ".join(data)  # nothing that only a kernel, or another host, could draw
