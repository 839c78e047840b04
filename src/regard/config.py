"""YAML recipes and `key=value` overrides → frozen typed settings. All mistakes are reported at once.

    recipe = read("translate-transformer", ["model.width=256", "data.train=pairs.tsv"])

Only the recipe is read, plus a few examples of its data for sizes set to auto. A typo is found before the data is read.
"""

import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import reduce
from importlib import resources
from itertools import chain
from pathlib import Path
from typing import Any

import yaml

from regard.catalog import load_object
from regard.errors import CallError, meant, nearest, no_run
from regard.jobs import JOBS, MAKE_JOB, recipe_class
from regard.settings import language_model, model
from regard.settings.base import Settings
from regard.settings.mistakes import validate, without
from regard.settings.recipe import AUTO, Recipe
from regard.synonyms import synonyms

SIZES = model.SIZES | language_model.SIZES
Tree = dict[str, Any]
Path_ = tuple[str, ...]


# ---------------------------------------------------------------------------------------------------------- recipes
def packaged_recipes() -> dict[str, Path]:
    """Return the recipes that come with regard: name → file."""
    folder = resources.files("regard.recipes")
    files = [Path(str(entry)) for entry in folder.iterdir() if entry.name.endswith(".yaml")]
    return {file.stem: file for file in sorted(files)}


def find(recipe: str | Path) -> Path:
    """Return the file of a recipe, given by name or path."""
    known = packaged_recipes()
    file = Path(recipe)
    if str(recipe) in known or file.is_file():
        return known.get(str(recipe), file)
    if file.exists():
        raise CallError(
            f"{recipe} is a folder, but a recipe is a YAML file; `regard recipes` lists the packaged recipes"
        )
    if "=" not in str(recipe) and (file.suffix not in {".yaml", ".yml", ""} or len(file.parts) > 1):
        raise CallError(f"no such file or folder: {recipe}")
    raise CallError(f"no such recipe, file or folder: {recipe}{_near_recipes(str(recipe), known)}")


def _near_recipes(name: str, known: Mapping[str, Path]) -> str:
    """Suggest a setting, a job or a recipe with a similar name; else the command that lists all recipes."""
    if "=" in name:
        return "; it is a setting: give a recipe or your data first"
    if (job := next((job for job in (name, *synonyms(name)) if job in JOBS), None)) is not None:
        of_job = [recipe for recipe, file in known.items() if load_yaml(file).get("job") == job][:3]
        return f"; the job {job} is trained by regard train DATA, or by a recipe such as {', '.join(of_job)}"
    close = meant(name, list(known))
    return f"; did you mean {close!r}?" if close else "; `regard recipes` lists the recipes"


LARGEST, MOST_VALUES = 1_000_000, 100_000  # bytes of a file; values in it, with aliases expanded


def _parse(text: str) -> Any:
    """Parse YAML with limits: nested aliases or brackets could expand to more than fits into memory."""
    loader = _Loader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        if _values(node, {}) > MOST_VALUES:
            raise yaml.MarkedYAMLError(problem=f"aliases repeat more than {MOST_VALUES:,} values")
        return loader.construct_document(node)
    except ValueError as error:  # 2024-13-01 looks like a date
        raise yaml.MarkedYAMLError(problem=str(error)) from None
    except RecursionError:
        raise yaml.MarkedYAMLError(problem="lists or mappings are nested too deeply") from None
    finally:
        loader.dispose()


def _values(node: yaml.Node, known: dict[yaml.Node, int]) -> int:
    """Count the values in a node, with aliases expanded."""
    if isinstance(node, yaml.ScalarNode):
        return 1
    if node not in known:
        known[node] = MOST_VALUES + 1  # during counting: a node that contains itself has no end
        inner = chain.from_iterable(node.value) if isinstance(node, yaml.MappingNode) else node.value
        known[node] = 1 + sum(_values(one, known) for one in inner)
    return known[node]


class _Loader(yaml.SafeLoader):
    """Safe YAML loader that rejects duplicate keys (plain YAML silently keeps the last one)."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key_node, _ in node.value:
            key = str(self.construct_object(key_node, deep=True))
            if key in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key!r} is given twice", key_node.start_mark
                )
            seen.add(key)
        return super().construct_mapping(node, deep)


def load_yaml(file: Path) -> Tree:
    """Read a mapping without expanding variables: the config.yaml of a run may come from a stranger."""
    try:
        if file.stat().st_size > LARGEST:
            raise CallError(f"{file} is larger than {LARGEST:,} bytes, the limit for a recipe")
        tree = _parse(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise CallError(f"{file} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise CallError(f"{file} is not UTF-8 text: byte {error.start}") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark else ""
        raise CallError(f"{file}{line}: {getattr(error, 'problem', None) or error}") from None
    if not isinstance(tree, dict):
        raise CallError(
            f"{file}: a recipe is a mapping of sections (job, data, model, training), not {type(tree).__name__}"
        )
    return tree


def load_recipe(file: Path, below: tuple[Path, ...] = ()) -> Tree:
    """Read a user's recipe: expand environment variables and merge it over the recipe that it extends."""
    place = file.resolve()
    if place in below:
        raise CallError(f"{below[0]}: extends is circular: {' → '.join(map(str, (*below, place)))}")
    tree = _expand(load_yaml(file), file)
    if "extends" not in tree:
        return tree
    base = tree.pop("extends")
    if not isinstance(base, str):
        raise CallError(f"{file}: extends={base!r} is neither a recipe's name nor a file")
    return merge(on_own_data(load_recipe(find(base), (*below, place)), tree, base), tree)


_VARIABLE = re.compile(r"\$\{(\w+)(?::-([^}]*))?\}")


def _expand(value: Any, file: Path) -> Any:
    """Replace `${NAME}` and `${NAME:-default}` in texts of a recipe by environment variables."""

    def variable(match: re.Match[str]) -> str:
        found = os.environ.get(match[1], match[2])
        if found is None:
            raise CallError(f"{file} needs the environment variable {match[1]}, which is not set")
        return found

    if isinstance(value, dict):
        return {key: _expand(inner, file) for key, inner in value.items()}
    if isinstance(value, list):
        return [_expand(inner, file) for inner in value]
    return _VARIABLE.sub(variable, value) if isinstance(value, str) else value


def merge(base: Tree, over: Mapping[str, Any]) -> Tree:
    """Merge `over` into `base`, section by section.

    A section of another kind replaces the old one completely, and a named size replaces the old sizes.
    """
    out = dict(base)
    for key, value in over.items():
        old = out.get(key)
        if isinstance(old, dict) and isinstance(value, Mapping):
            same_kind = old.get("kind") in (None, value.get("kind", old.get("kind")))
            size = value.get("size")
            resized = SIZES[size] if size in SIZES and size != old.get("size") else {}
            kept = {name: inner for name, inner in old.items() if name not in resized}
            value = merge(kept, value) if same_kind else dict(value)
        out[key] = value
    return out


#: Fields of `data` that depend on `train`: the other parts, folders of files, names of columns and labels.
OF_A_CORPUS = (
    *("valid", "test", "alignments", "zero_shot", "split", "header", "files", "name_text", "valid_names", "test_names"),
    *(
        "source",
        "target",
        "text",
        "label",
        "names",
        "image",
        "caption",
        "path",
        "spoken",
        "question",
        "document",
        "answer",
    ),
)


def on_own_data(base: Tree, over: Mapping[str, Any], name: str) -> Tree:
    """Drop the corpus settings of `base` if `over` changes `data.train`; log every dropped key.

    A model of your own pairs is not validated or scored on the recipe's pairs, has no description such as "English to
    Spanish", and promises no score.
    """
    data, given = base.get("data"), over.get("data")
    if not (isinstance(data, Mapping) and isinstance(given, Mapping)):
        return base
    if given.get("train") in (None, data.get("train")):
        return base
    gone = {key: data[key] for key in OF_A_CORPUS if data.get(key) is not None and key not in given}
    for key, value in gone.items():
        print(
            f"regard: data.{key}={value} of {name} is ignored, because data.train has changed; give data.{key}=...",
            file=sys.stderr,
        )
    kept = {key: value for key, value in base.items() if key not in ("expected", "needs")}
    about = f"{name} on {given['train']}"
    return {**kept, "about": about, "data": {key: value for key, value in data.items() if key not in gone}}


def parse_override(text: str) -> tuple[Path_, Any]:
    """Parse `model.width=256` → (("model", "width"), "256"). The field sets the type; lists and null are YAML."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise CallError(f"{text!r} is not of the form key=value, such as model.width=256")
    parsed: Any = value
    if value.strip().lower() in {"null", "none", ""}:
        parsed = None
    elif value.lstrip()[:1] in {"[", "{"}:
        try:
            parsed = _parse(value)
        except yaml.YAMLError:
            raise CallError(f"{text!r}: the value opens a list or mapping that YAML cannot read") from None
    return tuple(key.strip().split(".")), parsed


def override(tree: Tree, overrides: Iterable[str] | Mapping[str, Any]) -> Tree:
    """Apply `key=value` texts, or a mapping from dotted keys to values."""
    return merge(tree, _as_tree(overrides))


def _as_tree(overrides: Iterable[str] | Mapping[str, Any]) -> Tree:
    pairs = overrides.items() if isinstance(overrides, Mapping) else (parse_override(text) for text in overrides)
    changes: Tree = {}
    for key, value in pairs:
        *sections, name = key.split(".") if isinstance(key, str) else key
        place = changes
        for section in sections:
            if not isinstance(place.setdefault(section, {}), dict):
                place[section] = {}
            place = place[section]
        place[name] = (
            {**place[name], **value} if isinstance(place.get(name), dict) and isinstance(value, Mapping) else value
        )
    return changes


def read_tree(recipe: str | Path, overrides: Iterable[str] | Mapping[str, Any] = ()) -> Tree:
    """Return a recipe with its overrides as plain values, not validated yet."""
    tree, changes = load_recipe(find(recipe)), _as_tree(overrides)
    return _with_model_of_start(merge(on_own_data(tree, changes, Path(recipe).stem), changes))


def read(recipe: str | Path, overrides: Iterable[str] | Mapping[str, Any] = ()) -> Recipe:
    """Read a recipe with its overrides. All mistakes are reported in one `CallError`."""
    return build(read_tree(recipe, overrides), origin=str(recipe))


def _with_model_of_start(tree: Tree) -> Tree:
    """Take the model of the run in `start`, if the recipe has no model section or model=null."""
    start = tree.get("start")
    run = start.get("run") if isinstance(start, dict) else start
    if not isinstance(run, str) or tree.get("model") is not None:
        return tree
    if not (Path(run) / "config.yaml").is_file():
        raise CallError(f"start={run}: {no_run(run)}")
    kept = load_yaml(Path(run) / "config.yaml")
    return {**tree, "model": kept["model"]} if kept.get("job") == tree.get("job") and "model" in kept else tree


def build(tree: Tree, origin: str = "the recipe") -> Recipe:
    """Build settings from a tree of plain values; `auto` is decided from a few examples of the data."""
    job = tree.get("job")
    if not isinstance(job, str) or job not in JOBS:
        hint = nearest(str(job), JOBS) if job is not None else f"; choose from {', '.join(JOBS)}"
        raise CallError(f"{origin}: job={job!r} is not a job that regard knows{hint}")
    kind = recipe_class(job)
    settings, mistakes = validate(kind, tree)
    sought = [path for path in _autos(tree) if any(one.startswith(".".join(path)) for one in mistakes)]
    if not sought:
        return _without_mistakes(settings, mistakes, origin)
    plain = reduce(without, sought, tree)
    decided = _by_data(_without_mistakes(*validate(kind, plain), origin), map(".".join, sought))
    return _without_mistakes(*validate(kind, override(plain, decided)), origin)


def _without_mistakes(settings: Recipe | None, mistakes: list[str], origin: str) -> Recipe:
    if mistakes:
        head = "1 mistake" if len(mistakes) == 1 else f"{len(mistakes)} mistakes"
        raise CallError("\n  ".join([f"{head} in {origin}:", *mistakes]))
    assert settings is not None
    return settings


def _by_data(recipe: Recipe, names: Iterable[str]) -> Tree:
    """Decide these settings from a few examples; log each, except for data that comes with regard."""
    found = {decision.key: decision for decision in load_object(MAKE_JOB)(recipe).auto_settings()}
    decided: Tree = {}
    for name in names:
        if name not in found:
            raise CallError(f"{name}=auto: cannot be decided from this data; give a value")
        decided[name] = found[name].value
        if not str(as_tree(recipe)["data"]["train"]).startswith("corpus:"):
            print(f"regard: {name}={found[name].value} ({found[name].why})", file=sys.stderr)
    return decided


def _autos(tree: Any, path: Path_ = ()) -> Iterator[Path_]:
    if isinstance(tree, Mapping):
        for key, value in tree.items():
            yield from _autos(value, (*path, str(key)))
    elif tree == AUTO:
        yield path


# ---------------------------------------------------------------------------------------------------------- showing
def as_tree(settings: Settings) -> Tree:
    """Return plain values for YAML or JSON."""
    return settings.model_dump(mode="json")


def apply_overrides(recipe: Recipe, overrides: Any, sections: Mapping[str, Any], place: str) -> Recipe:
    """Return a recipe with command-line overrides and with the sections that are not empty."""
    tree = override(override(as_tree(recipe), overrides), {name: one for name, one in sections.items() if one})
    return build(tree, place)


def show(settings: Settings, indent: int = 0) -> str:
    """Return the resolved recipe as YAML, with the help of each field. The result can be read as a recipe."""
    lines: list[str] = []
    pad = "  " * indent
    for name, field in type(settings).model_fields.items():
        value = getattr(settings, name)
        if isinstance(value, Settings):
            if field.description:
                lines.append(f"{pad}# {field.description}")
            lines += [f"{pad}{name}:", show(value, indent + 1).rstrip("\n")]
            continue
        text = yaml.safe_dump(settings.model_dump(mode="json")[name], default_flow_style=True, width=10**6)
        text = text.removesuffix("\n").removesuffix("\n...")
        told = field.default not in (None, "") and not field.is_required() and field.default != value
        default = f" (default {field.default})" if told else ""
        lines.append(f"{pad}{name}: {text}".ljust(44) + f" # {field.description or ''}{default}".rstrip())
    return "\n".join(lines) + "\n"


def schema() -> Tree:
    """Return the JSON schema of recipes, for editors that complete and check YAML."""
    jobs = [recipe_class(job).model_json_schema(ref_template="#/$defs/{model}") for job in JOBS]
    definitions: Tree = {}
    for job in jobs:
        definitions |= job.pop("$defs", {})
        job["properties"]["extends"] = {"type": "string", "description": "A packaged recipe or file to start from"}
        job["required"] = ["job"]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "regard recipe",
        "anyOf": jobs,
        "$defs": definitions,
    }
