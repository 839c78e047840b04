"""Every form that a run can leave in. A form is one file (or folder) beside this one, and one row here."""

from regard.catalog import load_object
from regard.errors import CallError, nearest
from regard.exporters.base import Format, RefusalError, Wish

#: By the name that `--to` gives: where the class is. It is loaded when it is asked for.
FORMATS: dict[str, str] = {
    "hf": "regard.exporters.hf.format:HuggingFace",
    "peft": "regard.exporters.peft:Peft",
    "ctranslate2": "regard.exporters.ctranslate2:CTranslate2",
    "onnx": "regard.exporters.onnx.format:Onnx",
    "gguf": "regard.exporters.gguf:Gguf",
    "html": "regard.exporters.html.format:Html",
}


def format_of(name: str) -> Format:
    if name not in FORMATS:
        raise CallError(f"there is no export to {name!r}{nearest(name, FORMATS)}")
    return load_object(FORMATS[name])()


def expressed_by(wish: Wish) -> list[str]:
    """Return the formats that can express this run."""

    def takes(name: str) -> bool:
        try:
            format_of(name).plan(wish)
        except RefusalError:
            return False
        return True

    return [name for name in FORMATS if takes(name)]
