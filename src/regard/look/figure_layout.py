"""Shared layout of figures: colors, titles, card, and fonts for all characters."""

import re
import textwrap
import warnings
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure as Canvas
from matplotlib.figure import SubFigure
from matplotlib.font_manager import fontManager

from regard.look.card import Figure, column, columns
from regard.look.views import Shown

CELL, WIDEST, LOWEST = 0.34, 18.0, 2.6  # inches
LONGEST = 22  # characters of a label; longer ones are cut
INK, FAINT = "#1c1f2b", "#6b7080"
BLUES = LinearSegmentedColormap.from_list("regard", ["#f6f7fb", "#c5d0f7", "#7c97f0", "#3b53cf", "#171c6b"])
APART = LinearSegmentedColormap.from_list("regard-apart", ["#a3460b", "#f0b27a", "#f7f7f8", "#8fa6f2", "#26329e"])
HEADS = ["#3b53cf", "#d1495b", "#2a9d5c", "#e08e1b", "#7b4bb7", "#1795a8", "#a3460b", "#5c6470"]

#: Fonts for characters that DejaVu lacks; the first font with a character is used.
FALLBACKS = (
    "DejaVu Sans", "Noto Sans", "Noto Sans CJK JP", "Noto Sans CJK SC", "Noto Sans JP", "Noto Sans SC",
    "Source Han Sans", "IPAexGothic", "WenQuanYi Micro Hei", "WenQuanYi Zen Hei", "Hiragino Sans", "PingFang SC",
    "Yu Gothic",
    "Microsoft YaHei", "Malgun Gothic", "Noto Sans Arabic", "Noto Naskh Arabic", "Noto Sans Hebrew",
    "Noto Sans Devanagari", "Noto Sans Thai", "Noto Emoji", "Segoe UI Symbol", "Symbola", "Unifont",
)  # fmt: skip


def inches(cells: int) -> float:
    return min(WIDEST, max(1.2, cells * (CELL if cells <= 40 else CELL / 2 if cells <= 90 else 0.02)))


def short(labels: Sequence[str], longest: int = LONGEST) -> list[str]:
    return [label if len(label) <= longest else label[: longest - 1] + "…" for label in labels]


def length(token: str) -> float:
    """Estimate the width of a word in inches; East Asian characters count twice."""
    return 0.16 + 0.088 * sum(1.9 if ord(character) > 0x2E7F else 1.0 for character in token)


def with_card(shown: Shown, width: float, height: float) -> tuple[Canvas, Axes]:
    """Make a figure with the picture at the left and the card at the right."""
    side, height = 4.0, max(height, LOWEST)
    canvas = Canvas(figsize=(width + side, height + 1.0), layout="constrained")
    titles(canvas, shown, shown.caption)
    axes, beside = canvas.subplots(1, 2, width_ratios=[width, side])
    _card(beside, shown.figures, shown.matrix.title, height)
    return canvas, axes


def above_card(shown: Shown, width: float, height: float) -> tuple[Canvas, SubFigure]:
    """Make a figure with several pictures and the card below them."""
    card = 0.8 + 0.27 * (len(shown.figures) + 1)
    canvas = Canvas(figsize=(width, height + card + 0.9), layout="constrained")
    titles(canvas, shown, shown.caption)
    pictures, beneath = canvas.subfigures(2, 1, squeeze=False, height_ratios=[height, card])[:, 0]
    axes = beneath.subplots(1, 2, width_ratios=[4.0, max(width - 4.0, 0.1)])
    _card(axes[0], shown.figures, shown.matrix.title, card)
    axes[1].set_axis_off()
    return canvas, pictures


def titles(canvas: Canvas, shown: Shown, caption: str) -> None:
    wide = int(canvas.get_figwidth() * 13)
    # Left-to-right marks: the arrow points from input to output for right-to-left texts, too.
    title = shown.title.replace(" → ", "\u200e → \u200e")
    lines = [*("\u200e" + line for line in _wrapped(title, wide)), *_wrapped(caption, wide)]
    canvas.suptitle("\n".join(lines), fontsize=10, color=INK, x=0.01, ha="left", linespacing=1.4)


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, max(30, width)) or [""]


def _card(axes: Axes, card: Sequence[Figure], title: str, height: float) -> None:
    axes.set_axis_off()
    axes.set_xlim(0, 1)
    axes.set_ylim(height, 0)
    axes.text(0.0, 0.15, "Reliability", fontsize=10, weight="bold", color=INK, va="center")
    places = dict(zip(columns(card), (0.66, 0.83, 1.0), strict=False))
    for name, x in places.items():
        axes.text(x, 0.45, name, fontsize=8, color=FAINT, ha="right", va="center")
    wish = {"low": " ↓", "high": " ↑", "": ""}
    for line, figure in enumerate(card):
        y = 0.72 + 0.27 * line
        other = "*" if figure.about not in ("", title) else ""
        axes.text(0.0, y, figure.name + wish[figure.better] + other, fontsize=8.5, color=INK, va="center")
        for name, x in places.items():
            value = column(figure, name)
            if value is not None:
                axes.text(x, y, f"{value:.2f}", fontsize=8.5, color=INK, ha="right", va="center")
    others = dict.fromkeys(figure.about for figure in card if figure.about not in ("", title))
    if others:
        note = "\n".join(textwrap.wrap(f"* measured on: {'; '.join(others)}", 60))
        axes.text(0.0, 0.7 + 0.27 * len(card), note, fontsize=7.5, color=FAINT, va="top")


def families() -> list[str]:
    installed = {font.name for font in fontManager.ttflist}
    return [name for name in FALLBACKS if name in installed] or ["DejaVu Sans"]


def tell_missing(caught: Sequence[warnings.WarningMessage]) -> None:
    missing = {}
    for warning in caught:
        found = re.match(r"Glyph (\d+) ", str(warning.message))
        if found:
            missing[chr(int(found[1]))] = None
        else:
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
    if missing:
        warnings.warn(
            f"no installed font has {' '.join(missing)}; boxes stand for them. Install a font that does "
            "(Noto Sans covers most), or write .html, which uses the browser's",
            stacklevel=4,
        )
