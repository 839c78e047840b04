"""`docs/lectures.md` and `docs/cost.md` promise files, recipes and settings. They have to be there."""

import re
from pathlib import Path

import pytest

import regard
from regard.config import packaged, read
from regard.errors import CallError

SOURCE = Path(regard.__file__).parent
ROOT = SOURCE.parents[1]
PAGES = {name: (ROOT / "docs" / name).read_text(encoding="utf-8") for name in ("lectures.md", "cost.md")}
TEXT = "\n".join(PAGES.values())


@pytest.mark.parametrize("path", sorted(set(re.findall(r"`([a-z_0-9]+/[a-z_0-9/]*(?:\.py)?)`", TEXT))))
def test_every_file_and_folder_that_is_named_exists(path):
    assert (SOURCE / path).exists() or (ROOT / path).exists()


ROOMS = "attention|layers|encoders|decoders|models|decoding|cost|metrics|inputs|outputs|look"
IDEAS = re.findall(rf"`((?:{ROOMS})/[a-z_0-9/]+\.py)`", PAGES["lectures.md"])


@pytest.mark.parametrize("path", sorted(set(IDEAS)))
def test_a_file_that_a_lecture_names_is_read_in_a_minute(path):
    lines = (SOURCE / path).read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 120, f"{path} has {len(lines)} lines: leave the idea, and put what helps it into a file beside"


RECIPES = re.findall(r"\brecipes? ([a-z]+-[a-z-]+)(?: and ([a-z]+-[a-z-]+))?", TEXT)


@pytest.mark.parametrize("recipe", sorted({name for names in RECIPES for name in names if name}))
def test_every_recipe_that_is_named_exists(recipe):
    assert recipe in packaged()


SETTINGS = sorted(set(re.findall(r"\b((?:model|decoding)\.[a-z_]+=[a-z_]+)\b", PAGES["lectures.md"])))


@pytest.mark.parametrize("setting", SETTINGS)
def test_every_setting_that_is_named_can_be_set(setting):
    def accepts(recipe: str) -> bool:
        try:
            read(recipe, [setting])
        except CallError:
            return False
        return True

    assert any(accepts(recipe) for recipe in packaged())
