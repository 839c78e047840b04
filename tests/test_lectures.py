"""`docs/lectures.md` and `docs/cost.md` promise files and commands. They have to be there."""

import re
from pathlib import Path

import pytest

import regard
from regard.cli import cli
from regard.config import packaged, read
from regard.cost.published import PUBLISHED
from regard.errors import CallError

SOURCE = Path(regard.__file__).parent
ROOT = SOURCE.parents[1]
PAGES = {name: (ROOT / "docs" / name).read_text(encoding="utf-8") for name in ("lectures.md", "cost.md")}
TEXT = "\n".join(PAGES.values())


@pytest.mark.parametrize("path", sorted(set(re.findall(r"`([a-z_0-9]+/[a-z_0-9/]*(?:\.py)?)`", TEXT))))
def test_every_file_and_folder_that_is_named_exists(path):
    assert (SOURCE / path).exists() or (ROOT / path).exists()


IDEAS = re.findall(
    r"`((?:attention|layers|encoders|decoders|models|decoding|cost|metrics)/[a-z_0-9]+\.py)`", PAGES["lectures.md"]
)


@pytest.mark.parametrize("path", sorted(set(IDEAS)))
def test_a_file_that_a_lecture_names_is_read_in_a_minute(path):
    lines = (SOURCE / path).read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 120, f"{path} has {len(lines)} lines: leave the idea, and put what helps it into a file beside"


def commands() -> list[str]:
    """Every `regard ...`."""
    found = re.findall(r"`regard ([a-z][^`]*)`", TEXT) + re.findall(r"^    regard ([a-z][^#\n]*)", TEXT, re.M)
    return sorted({command.strip() for command in found})


@pytest.mark.parametrize("command", commands())
def test_every_command_that_is_named_exists(command):
    verb, *rest = command.split()
    assert verb in cli.commands
    if verb in ("train", "compare", "cost") and rest and not rest[0].startswith("-"):
        assert rest[0] in packaged() or (verb == "cost" and rest[0] in PUBLISHED)


SETTINGS = sorted(set(re.findall(r"\b((?:model|decoding)\.[a-z_]+=[a-z_]+)\b", PAGES["lectures.md"])))


@pytest.mark.parametrize("setting", SETTINGS)
def test_every_setting_that_is_named_can_be_set(setting):
    def accepts(recipe: str, *overrides: str) -> bool:
        try:
            read(recipe, overrides)
        except CallError:
            return False
        return True

    one_way = "model.bidirectional=false"  # what the page asks for where a score needs equal widths
    assert any(accepts(recipe, setting) or accepts(recipe, setting, one_way) for recipe in packaged())
