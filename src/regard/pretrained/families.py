"""Every family of models that can be read, and what reads it."""

from collections.abc import Callable
from pathlib import Path

from regard.errors import CallError, nearest
from regard.pretrained import bert
from regard.pretrained.config_file import ConfigFile
from regard.pretrained.imported import Imported
from regard.pretrained.weights import Weights, read_weights

FAMILIES: dict[str, Callable[[ConfigFile, Weights, Path], Imported]] = {
    "bert": bert.read,
}


def read(path: Path, *, convert_pickle: bool = False) -> Imported:
    """A model from its folder."""
    if not path.is_dir():
        raise CallError(f"{path} is neither a folder nor a GGUF file")
    config = ConfigFile.load(path)
    kind = config.get("model_type", None)
    if kind not in FAMILIES:
        raise CallError(f"{config.where}: model_type={kind!r} is not understood{nearest(str(kind), FAMILIES)}")
    return FAMILIES[kind](config, read_weights(path, convert_pickle=convert_pickle), path)
