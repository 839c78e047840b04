"""config.json of a Hugging Face folder: what is asked of it, and which values of it we can follow."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from regard.errors import CallError, RegardError


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
                f"{folder} has no config.json, so it is not a Hugging Face model; there is: {there}"
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
        """A setting; the default where there is none, or null."""
        found = self.tree.get(key)
        return default if found is None else found

    def frame(self) -> tuple[int | None, int | None]:
        """The tokens that begin and end a text. Of several that end one, the first."""
        start, end = self.tree.get("bos_token_id"), self.tree.get("eos_token_id")
        return start, end[0] if isinstance(end, list) else end

    def require(self, key: str, value: Any) -> None:
        """Refuse a setting that would make another model than ours can be."""
        if self.get(key, value) != value:
            raise CallError(f"{self.where}: {key}={self.tree[key]!r} is not understood; only {value!r} is")

    def choose(self, key: str, known: Mapping[str, str]) -> str:
        if self[key] not in known:
            raise CallError(f"{self.where}: {key}={self[key]!r} is not understood; what is: {', '.join(known)}")
        return known[self[key]]
