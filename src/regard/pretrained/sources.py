"""Find a pretrained model: a folder, a file, an installed package, or the cache of the Hugging Face Hub.

    runs/bert  model.gguf                a folder or a file of this machine
    package:NAME                         an installed Python package with a model among its files
    hub:OWNER/NAME, OWNER/NAME           by huggingface_hub, if installed: from its cache, or the network

Nothing is executed: a package is searched by its list of files, and never imported.
"""

import json
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from regard.errors import CallError, RegardError, pip_install
from regard.files.hub import snapshot

PACKAGE = "package:"
WANTED = ("*.json", "*.safetensors", "*.txt", "*.model", "*.spm")


def find(source: str, *, pickles: bool = False) -> Path:
    """Return a folder with a config.json, or a GGUF file. `pickles`: fetch pytorch_model.bin, too."""
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
        raise CallError(f"the package {name} must hold one model (a folder with config.json, or a GGUF file): {there}")
    if not models[0].exists():
        raise RegardError(f"the package {name} lists {models[0]}, which does not exist: install it again")
    return models[0]


def _is_model(name: str) -> bool:
    return name.startswith(("model", "pytorch_model")) and name.endswith((".safetensors", ".bin", ".index.json"))


# config.json of a Hugging Face folder, and the values that are supported.


class ConfigFile:
    """A config.json, or the equivalent settings of a GGUF file."""

    def __init__(self, tree: Mapping[str, Any], where: str) -> None:
        self.tree, self.where = tree, where

    @classmethod
    def load(cls, folder: Path) -> "ConfigFile":
        file = folder / "config.json"
        try:
            tree = json.loads(file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            there = ", ".join(sorted(entry.name for entry in folder.iterdir())) or "nothing"
            raise CallError(
                f"{folder} has no config.json, so it is not a Hugging Face model; it holds: {there}"
            ) from None
        except (OSError, ValueError) as error:
            raise RegardError(f"{file} cannot be read: {error}") from None
        if not isinstance(tree, dict):
            raise RegardError(f"{file} is not a mapping of settings")
        return cls(tree, str(file))

    def __getitem__(self, key: str) -> Any:
        if self.tree.get(key) is None:
            raise RegardError(f"{self.where}: the setting {key!r} is missing")
        return self.tree[key]

    def get(self, key: str, default: Any) -> Any:
        """Return a setting, or the default if it is missing or null."""
        found = self.tree.get(key)
        return default if found is None else found

    def frame(self) -> tuple[int | None, int | None]:
        """Return the begin and end tokens; of several end tokens, the first."""
        start, end = self.tree.get("bos_token_id"), self.tree.get("eos_token_id")
        return start, end[0] if isinstance(end, list) else end

    def require(self, key: str, value: Any) -> None:
        """Raise a `CallError` if a setting has a value that regard does not support."""
        if self.get(key, value) != value:
            raise CallError(f"{self.where}: {key}={self.tree[key]!r} is not supported; only {value!r} is")

    def choose(self, key: str, known: Mapping[str, str]) -> str:
        if self[key] not in known:
            raise CallError(f"{self.where}: {key}={self[key]!r} is not supported; supported: {', '.join(known)}")
        return known[self[key]]
