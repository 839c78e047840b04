"""`regard data [NAME]`: fetch a public dataset that recipes name; without a name, list them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from regard import config
from regard.datasets.fetch import data_folder, fetch
from regard.datasets.table import DATA_SETS


def described() -> list[dict[str, Any]]:
    """Return every data set, with the recipes that use it."""
    return [
        {
            "name": name, "about": one.about, "home": one.home, "licence": one.licence, "size": one.size,
            "files": list(one.files), "recipes": recipes_of(name),
        }
        for name, one in DATA_SETS.items()
    ]  # fmt: skip


def recipes_of(name: str) -> list[str]:
    """Return the recipes whose training data is in the folder of this data set."""
    trees = {recipe: config.load_recipe(file) for recipe, file in config.packaged().items()}
    return [recipe for recipe, tree in trees.items() if f"/{name}/" in str(tree.get("data", {}).get("train"))]


def lines() -> Iterator[str]:
    for one in described():
        yield f"{one['name']:<16}  {one['about']}; {one['size']}; {one['licence']}; {one['home']}"
    yield "regard data NAME fetches one; check its licence first"


def get(name: str, output: Path | None, mirror: str | None) -> tuple[Path, list[str]]:
    """Fetch a data set; return its folder and the next commands."""
    place = fetch(name, output, mirror=mirror)
    elsewhere = "" if output in (None, data_folder()) else f"REGARD_DATA={output} "
    return place, [f"{elsewhere}regard train {recipe}" for recipe in recipes_of(name)[:3]] or [f"regard train {place}"]
