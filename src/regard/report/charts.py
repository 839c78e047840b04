"""Line charts as SVG text: no library, no script, colors from the page's style sheet."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from html.parser import HTMLParser
from itertools import pairwise

WIDTH, HEIGHT = 560, 270
LEFT, RIGHT, TOP, BOTTOM = 58, 24, 34, 40
Number = int | float
MOST_POINTS = 300  # more would not be visible, and would enlarge the page


@dataclass(frozen=True)
class ChartLine:
    """One line of a chart. `css` is its class in the style sheet (`train`, `validation`); `mark` is a highlighted x."""

    name: str
    xs: Sequence[Number]
    ys: Sequence[Number | None]
    css: str = "train"
    dots: bool = False
    mark: Number | None = None


def number(value: Number) -> str:
    """Format a number briefly: 0.0012, 3.42, 1,250, 48k, 1.2M."""
    size = abs(value)
    if size >= 1e6:
        return f"{value / 1e6:.3g}M"
    if size >= 1e4:
        return f"{value / 1e3:.3g}k"
    if size >= 100 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.3g}" if size >= 1e-3 else f"{value:.1e}".replace("e-0", "e-")


def ticks(low: Number, high: Number, count: int = 6) -> list[Number]:
    """Return about `count` round numbers from low to high: steps of 1, 2 or 5 times a power of ten."""
    if not high > low:
        return [low]
    rough = (high - low) / count
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * (1 - 1e-9))
    first = math.ceil(low / step - 1e-9)
    return [k * step for k in range(first, math.floor(high / step + 1e-9) + 1)]


def tick_labels(ticks: Sequence[Number]) -> list[str]:
    """Return short labels with enough digits to distinguish neighbors (6.735, 6.740; not 6.74 twice), in one format
    (0.0005 and 0.0010; not 5.0e-4)."""
    labels = [number(tick) for tick in ticks]
    if len(set(labels)) == len(labels) and len({"e" in label for label in labels if label != "0"}) < 2:
        return labels
    step = min(after - before for before, after in pairwise(ticks))
    return [f"{tick:,.{max(0, -math.floor(math.log10(step)))}f}" for tick in ticks]


def thin(xs: Sequence[Number], ys: Sequence[Number], most: int = MOST_POINTS) -> tuple[list[Number], list[Number]]:
    """Average groups of neighbors, so that at most `most` points remain."""
    run = math.ceil(len(xs) / most)
    if run <= 1:
        return list(xs), list(ys)
    parts = [(xs[i : i + run], ys[i : i + run]) for i in range(0, len(xs), run)]
    return [sum(x) / len(x) for x, _ in parts], [sum(y) / len(y) for _, y in parts]


def line_chart(
    title: str, lines: Sequence[ChartLine], *, x_label: str = "step", zero: bool = False, legend: bool = True
) -> str:
    """Return an SVG line chart. Points that are not numbers are skipped; with `zero`, the vertical axis starts at 0."""
    drawn = [(line, xs, ys) for line, (xs, ys) in ((line, _points(line)) for line in lines) if xs]
    if not drawn:
        return ""
    all_x = [x for _, xs, _ in drawn for x in xs]
    all_y = [y for _, _, ys in drawn for y in ys]
    x_low, x_high = min(0.0, *all_x), max(all_x)  # from the start of the run, so that charts are comparable
    y_low, y_high = (0.0 if zero else min(all_y)), max(all_y)
    margin = 0.06 * (y_high - y_low) or abs(y_high) * 0.1 or 1.0
    y_low, y_high = (y_low if zero else y_low - margin), y_high + margin

    def at_x(x: Number) -> float:
        return LEFT + (x - x_low) / ((x_high - x_low) or 1) * (WIDTH - LEFT - RIGHT)

    def at_y(y: Number) -> float:
        return HEIGHT - BOTTOM - (y - y_low) / (y_high - y_low) * (HEIGHT - TOP - BOTTOM)

    parts = [f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(title)}">']
    parts.append(f'<text class="title" x="{LEFT}" y="18">{escape(title)}</text>')
    shown = ticks(y_low, y_high)
    for tick, label in zip(shown, tick_labels(shown), strict=True):
        y = at_y(tick)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text class="tick end" x="{LEFT - 8}" y="{y + 4:.1f}">{label}</text>')
    shown = ticks(x_low, x_high)
    for tick, label in zip(shown, tick_labels(shown), strict=True):
        parts.append(f'<text class="tick middle" x="{at_x(tick):.1f}" y="{HEIGHT - BOTTOM + 18}">{label}</text>')
    parts.append(f'<text class="tick end" x="{WIDTH - RIGHT}" y="{HEIGHT - 6}">{escape(x_label)}</text>')
    parts += [_draw(line, xs, ys, at_x, at_y) for line, xs, ys in drawn]
    if legend and len(drawn) > 1:
        parts.append(_legend([line for line, _, _ in drawn]))
    return "".join([*parts, "</svg>"])


def _points(line: ChartLine) -> tuple[list[Number], list[Number]]:
    pairs = [(x, y) for x, y in zip(line.xs, line.ys, strict=True) if y is not None and math.isfinite(y)]
    return thin([x for x, _ in pairs], [y for _, y in pairs])


def _draw(
    line: ChartLine,
    xs: list[Number],
    ys: list[Number],
    at_x: Callable[[Number], float],
    at_y: Callable[[Number], float],
) -> str:
    places = [(at_x(x), at_y(y)) for x, y in zip(xs, ys, strict=True)]
    path = "M" + "L".join(f"{x:.1f},{y:.1f}" for x, y in places)
    parts = [f'<path class="line {line.css}" d="{path}"/>']
    dots = line.dots or len(places) == 1
    for x, y, (px, py) in zip(xs, ys, places, strict=True):
        said = f"<title>{escape(line.name)} at {number(x)}: {y:.5g}</title>"
        if x == line.mark:
            parts.append(f'<circle class="mark {line.css}" cx="{px:.1f}" cy="{py:.1f}" r="5.5">{said}</circle>')
        elif dots:
            parts.append(f'<circle class="dot {line.css}" cx="{px:.1f}" cy="{py:.1f}" r="2.6">{said}</circle>')
    return "".join(parts)


def _legend(lines: Sequence[ChartLine]) -> str:
    parts, x = [], WIDTH - RIGHT
    for line in reversed(lines):
        x -= 9 * len(line.name) + 6  # room for the larger letters of a narrow page
        parts.append(f'<text class="tick" x="{x}" y="18">{escape(line.name)}</text>')
        parts.append(f'<line class="line {line.css}" x1="{x - 22}" x2="{x - 6}" y1="14" y2="14"/>')
        x -= 34
    return "".join(parts)


DRAWN = {"svg", "g", "rect", "line", "path", "circle", "polyline", "polygon", "text", "tspan", "title"}
WRITTEN = {"p", "div", "span", "b", "small", "br", "mark", "figure", "figcaption", "h3", "ul", "ol", "li", "img"}
TABLES = {"table", "thead", "tbody", "tr", "th", "td"}
EMPTY = {"br", "img"}
ATTRIBUTES = {
    "class", "role", "alt", "title", "scope", "colspan", "rowspan", "dir", "xmlns", "viewbox", "width", "height",
    "x", "y", "x1", "x2", "y1", "y2", "cx", "cy", "r", "rx", "ry", "d", "points", "transform", "opacity",
    "fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "text-anchor", "font-family", "font-size",
}  # fmt: skip
UNSEEN = {"script", "style"}  # with content that is not text


def safe_markup(html: str) -> str:
    """Sanitize markup from untrusted files: only passive, visible elements are kept.

    Pictures of runs from other sources are inserted into our pages. So tags and attributes are limited to a list,
    images must be embedded, and styles, links and scripts are removed.
    """
    cleaner = _Cleaner()
    cleaner.feed(html)
    cleaner.close()
    return "".join(cleaner.kept) + "".join(f"</{tag}>" for tag in reversed(cleaner.open))


class _Cleaner(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.kept: list[str] = []
        self.open: list[str] = []
        self._unseen = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._unseen += tag in UNSEEN
        given = {name: value or "" for name, value in attrs}
        if tag not in DRAWN | WRITTEN | TABLES or (tag == "img" and not given.get("src", "").startswith("data:image/")):
            return
        known = ATTRIBUTES | ({"src"} if tag == "img" else set())
        shown = (f' {name}="{escape(value)}"' for name, value in given.items() if name in known and "url(" not in value)
        self.kept.append(f"<{tag}{''.join(shown)}>")
        if tag not in EMPTY:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        self._unseen -= tag in UNSEEN and self._unseen > 0
        if tag in self.open:  # and unclosed elements inside it
            while (last := self.open.pop()) != tag:
                self.kept.append(f"</{last}>")
            self.kept.append(f"</{tag}>")

    def handle_data(self, data: str) -> None:
        if not self._unseen:
            self.kept.append(escape(data, quote=False))
