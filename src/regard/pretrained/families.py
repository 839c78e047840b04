"""Every family of models that can be read, and what reads it."""

from collections.abc import Callable
from pathlib import Path

from regard.errors import CallError, nearest
from regard.files.foreign import reading
from regard.pretrained import bert, esm, gguf, gpt2, llama, marian, vit
from regard.pretrained.config_file import ConfigFile
from regard.pretrained.imported import Imported
from regard.pretrained.weights import Weights, read_weights

FAMILIES: dict[str, Callable[[ConfigFile, Weights, Path], Imported]] = {
    "arcee": llama.read,
    "bert": bert.read,
    "esm": esm.read,
    "gpt2": gpt2.read,
    "llama": llama.read,
    "marian": marian.read,
    "pegasus": marian.read,
    "vit": vit.read,
}


def read(path: Path, *, convert_pickle: bool = False) -> Imported:
    """A model from its folder, or from a GGUF file."""
    with reading(path):
        return _read(path, convert_pickle)


def _read(path: Path, convert_pickle: bool) -> Imported:
    if path.suffix == ".gguf":
        return gguf.read(path)
    if not path.is_dir():
        raise CallError(f"{path} is neither a folder nor a GGUF file")
    config = ConfigFile.load(path)
    kind = config.get("model_type", None)
    if kind not in FAMILIES:
        raise CallError(f"{config.where}: model_type={kind!r} is not understood{nearest(str(kind), FAMILIES)}")
    return FAMILIES[kind](config, read_weights(path, convert_pickle=convert_pickle), path)
