"""The tree of a search's hypotheses, drawn from left to right."""

from collections.abc import Iterator, Sequence

from matplotlib.axes import Axes

from regard.look.beam_tree import Node

INK, FAINT, BEST = "#1c1f2b", "#8a8fa0", "#3b53cf"


def draw_tree(axes: Axes, nodes: Sequence[Node], scores: Sequence[float | None], inches: float) -> None:
    """Draw one line per hypothesis, best at the top, with shared prefixes once.

    One unit of x is the width of a character, so that edges start where the text ends.
    """
    axes.set_axis_off()
    axes.set_ylim(len(scores) - 0.4, -0.6)
    reach = max(_reach(node) for node in nodes) + 22
    size = min(9.5, inches * 72 / (0.6 * reach))
    axes.set_xlim(0, inches * 72 / (0.62 * size))
    lines = iter(range(len(scores)))
    for node in nodes:
        _draw(axes, node, 0.5, lines, scores, size)


def _reach(node: Node) -> int:
    return _width(node) + max((_reach(child) for child in node.children), default=0)


def _width(node: Node) -> int:
    return 4 + sum(1 + len(token) for token in node.tokens)


def _draw(axes: Axes, node: Node, x: float, lines: Iterator[int], scores: Sequence[float | None], size: float) -> float:
    """Draw a node and return its height, the middle of its leaves."""
    end = x + _width(node)
    ink = BEST if 0 in node.hypotheses else INK
    if node.children:
        heights = [_draw(axes, child, end, lines, scores, size) for child in node.children]
        y = sum(heights) / len(heights)
        for child, height in zip(node.children, heights, strict=True):
            line = BEST if 0 in child.hypotheses else FAINT
            axes.plot([end - 3.6, end - 2, end - 0.6], [y, height, height], color=line, linewidth=1.3)
    else:
        y = float(next(lines))
        best = node.hypotheses[0]
        score = "" if scores[best] is None else f"   score {scores[best]:.3f}"
        axes.text(end - 3, y, f"#{best + 1}{score}", fontsize=size - 1, color=FAINT, va="center")
    axes.text(x, y, " ".join(node.tokens), fontsize=size, color=ink, va="center", family="monospace")
    axes.text(x, y + 0.34, f"log p {node.log_probability:.2f}", fontsize=size - 3, color=FAINT, va="center")
    return y
