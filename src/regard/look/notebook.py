"""The same view in a notebook: an anywidget, with a static picture where notebooks are shown without a kernel."""

import base64
from typing import Any

from regard.errors import CallError
from regard.look.figure import figure_bytes
from regard.look.html import document, harmless, script, style
from regard.look.views import Shown

try:
    import anywidget
    import traitlets
except ImportError as error:
    raise CallError("a widget needs packages: pip install 'regard[notebook]'") from error

RENDER = """
export default {
  render({ model, el }) {
    const place = document.createElement("div");
    el.append(place);
    return mount(place, JSON.parse(model.get("page"))).close;
  },
};
"""


class LookWidget(anywidget.AnyWidget):
    """Shows a record. Nothing goes back to Python: the choice of layer, head and view is the reader's."""

    _esm = script() + RENDER
    _css = style(whole_page=False)
    page = traitlets.Unicode().tag(sync=True)

    def __init__(self, shown: Shown) -> None:
        super().__init__(page=harmless(document(shown)))
        self._shown = shown

    def _repr_mimebundle_(self, **options: Any) -> Any:
        bundle = super()._repr_mimebundle_(**options)
        data, metadata = bundle if isinstance(bundle, tuple) else (bundle or {}, {})
        picture = base64.b64encode(figure_bytes(self._shown, "png")).decode()
        return {**data, "image/png": picture}, metadata
