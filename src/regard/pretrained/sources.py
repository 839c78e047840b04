"""Where a pretrained model lies: a folder, a file, an installed package, or the cache of the hub.

    runs/bert  model.gguf                a folder or a file of this machine
    package:NAME                         an installed Python package that carries a model among its files
    hub:OWNER/NAME, OWNER/NAME           through huggingface_hub, if that is installed: from its cache, or the network

Nothing that lies there is executed: a package is looked through by the list of its files, and never imported.
"""

from importlib import metadata
from pathlib import Path

from regard.errors import CallError, RegardError, pip_install
from regard.files.hub import snapshot

PACKAGE = "package:"
WANTED = ("*.json", "*.safetensors", "*.txt", "*.model", "*.spm")


def find(source: str, *, pickles: bool = False) -> Path:
    """A folder with a config.json, or a GGUF file. `pickles`: fetch pytorch_model.bin, too."""
    if source.startswith(PACKAGE):
        return _in_package(source.removeprefix(PACKAGE))
    path = Path(source).expanduser()
    if path.exists():
        return path
    name = source.removeprefix("hub:")
    if source.startswith("hub:") or (name.count("/") == 1 and not name.startswith((".", "/", "runs/"))):
        return snapshot(name, [*WANTED, "*.bin"] if pickles else WANTED)
    raise CallError(f"{source} is not there; give a folder, a GGUF file, package:NAME or hub:OWNER/NAME")


def _in_package(name: str) -> Path:
    try:
        files = metadata.files(name) or []
    except metadata.PackageNotFoundError:
        raise CallError(f"the package {name} is not installed: {pip_install('--no-deps', name)}") from None
    found = [file for file in files if file.suffix == ".gguf" or _is_model(file.name)]
    places = {Path(str(file.locate())) for file in found}
    models = sorted({place if place.suffix == ".gguf" else place.parent for place in places})
    if len(models) != 1:
        there = ", ".join(map(str, models)) or "none"
        raise CallError(f"the package {name} should hold one model, a folder with config.json or a GGUF file: {there}")
    if not models[0].exists():
        raise RegardError(f"the package {name} lists {models[0]}, which is not there: install it again")
    return models[0]


def _is_model(name: str) -> bool:
    return name.startswith(("model", "pytorch_model")) and name.endswith((".safetensors", ".bin", ".index.json"))
