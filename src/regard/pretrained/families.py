"""All families of pretrained models, and the functions that read them."""

from collections.abc import Callable
from pathlib import Path

from regard.errors import CallError, nearest
from regard.files.hub import reading
from regard.pretrained import encoders, gguf, language, marian, vit
from regard.pretrained.sources import ConfigFile
from regard.pretrained.weights import Imported, Weights, read_weights

FAMILIES: dict[str, Callable[[ConfigFile, Weights, Path], Imported]] = {
    "arcee": language.read_llama,
    "bert": encoders.read_bert,
    "esm": encoders.read_esm,
    "gpt2": language.read_gpt2,
    "llama": language.read_llama,
    "marian": marian.read,
    "pegasus": marian.read,
    "vit": vit.read,
}


def read(path: Path, *, convert_pickle: bool = False) -> Imported:
    """Read a model from its folder or from a GGUF file."""
    with reading(path):
        return _read(path, convert_pickle)


def _read(path: Path, convert_pickle: bool) -> Imported:
    if path.suffix == ".gguf":
        return gguf.read(path)
    if not path.is_dir():
        raise CallError(f"{path} is not a folder and not a GGUF file")
    config = ConfigFile.load(path)
    kind = config.get("model_type", None)
    if kind not in FAMILIES:
        raise CallError(f"{config.where}: model_type={kind!r} is not supported{nearest(str(kind), FAMILIES)}")
    return FAMILIES[kind](config, read_weights(path, convert_pickle=convert_pickle), path)
