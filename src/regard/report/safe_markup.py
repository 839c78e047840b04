"""Sanitize markup from untrusted files: only passive, visible elements are kept.

Pictures of runs from other sources are inserted into our pages. So tags and attributes are limited to a list, images
must be embedded, and styles, links and scripts are removed.
"""

from html import escape
from html.parser import HTMLParser

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
