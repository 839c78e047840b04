"""`docs/lectures.md` and `docs/cost.md` promise files, recipes and settings. They have to be there."""

import ast
import re
from pathlib import Path

import pytest

import regard
from regard.config import packaged_recipes, read
from regard.errors import CallError

SOURCE = Path(regard.__file__).parent
ROOT = SOURCE.parents[1]
PAGES = {name: (ROOT / "docs" / name).read_text(encoding="utf-8") for name in ("lectures.md", "cost.md")}
TEXT = "\n".join(PAGES.values())


@pytest.mark.parametrize("path", sorted(set(re.findall(r"`([a-z_0-9]+/[a-z_0-9/]*(?:\.py)?)`", TEXT))))
def test_every_file_and_folder_that_is_named_exists(path):
    assert (SOURCE / path).exists() or (ROOT / path).exists()


PACKAGES = "attention|layers|encoders|decoders|models|generation|cost|metrics"
IDEAS = re.findall(rf"`((?:{PACKAGES})/[a-z_0-9/]+\.py)`", PAGES["lectures.md"])


@pytest.mark.parametrize("path", sorted(set(IDEAS)))
def test_an_idea_that_a_lecture_names_is_read_in_a_minute(path):
    tree = ast.parse((SOURCE / path).read_text(encoding="utf-8"))
    ideas = [node for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef)]
    long = {node.name: (node.end_lineno or 0) - node.lineno + 1 for node in ideas}
    assert not {name: lines for name, lines in long.items() if lines > 120}, (
        f"{path}: move what helps an idea out of it"
    )


RECIPES = re.findall(r"\brecipes? ([a-z]+-[a-z-]+)(?: and ([a-z]+-[a-z-]+))?", TEXT)


@pytest.mark.parametrize("recipe", sorted({name for names in RECIPES for name in names if name}))
def test_every_recipe_that_is_named_exists(recipe):
    assert recipe in packaged_recipes()


SETTINGS = sorted(set(re.findall(r"\b((?:model|decoding)\.[a-z_]+=[a-z_]+)\b", PAGES["lectures.md"])))


@pytest.mark.parametrize("setting", SETTINGS)
def test_every_setting_that_is_named_can_be_set(setting):
    def accepts(recipe: str) -> bool:
        try:
            read(recipe, [setting])
        except CallError:
            return False
        return True

    assert any(accepts(recipe) for recipe in packaged_recipes())
