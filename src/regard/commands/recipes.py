"""`regard recipes`: list the packaged recipes, and the recipe to start with for each kind of data."""

from collections.abc import Iterator
from typing import Any

from regard import config
from regard.jobs import BEGIN


def described() -> list[dict[str, Any]]:
    """Return every packaged recipe: name, description, needs, and the data that it is recommended for."""
    begin = {recipe: data for data, recipe in BEGIN.items()}
    trees = {name: config.load_recipe(file) for name, file in config.packaged().items()}
    return [
        {
            "name": name, "job": tree["job"], "about": tree.get("about", ""), "needs": tree.get("needs", []),
            "begin_with_it_for": begin.get(name),
        }
        for name, tree in trees.items()
    ]  # fmt: skip


def lines() -> Iterator[str]:
    """Yield the list for the terminal."""
    width = max(map(len, BEGIN))
    yield "Give your data: regard train DATA makes a recipe for it. Or, if you have ..., start with:"
    for data, name in BEGIN.items():
        yield f"  {data:<{width}}  regard train {name} data.train=YOURS"
    yield ""
    recipes = described()
    width = max(len(recipe["name"]) for recipe in recipes)
    for recipe in recipes:
        needs = f"  (needs {', '.join(recipe['needs'])})" if recipe["needs"] else ""
        yield f"{recipe['name']:<{width}}  {recipe['about']}{needs}"
