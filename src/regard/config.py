"""YAML recipes and `key=value` overrides → frozen typed settings, with every mistake reported at once.

    recipe = read("translate-transformer", ["model.width=256", "data.train=pairs.tsv"])

Nothing is read but the recipe itself: a typo is found before any data is touched.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from importlib import resources
from itertools import chain
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import yaml
from pydantic import ValidationError

from regard.errors import CallError, nearest
from regard.jobs import JOBS
from regard.outputs.text import generate_settings as language_model
from regard.settings import model
from regard.settings.base import Settings
from regard.settings.recipe import Recipe

SIZES = model.SIZES | language_model.SIZES
Tree = dict[str, Any]
Path_ = tuple[str, ...]


# ---------------------------------------------------------------------------------------------------------- recipes
def packaged() -> dict[str, Path]:
    """The recipes that come with regard: name → file."""
    folder = resources.files("regard.recipes")
    files = [Path(str(entry)) for entry in folder.iterdir() if entry.name.endswith(".yaml")]
    return {file.stem: file for file in sorted(files)}


def find(recipe: str | Path) -> Path:
    """The file behind a recipe's name or path."""
    known = packaged()
    if str(recipe) in known:
        return known[str(recipe)]
    file = Path(recipe)
    if file.is_file():
        return file
    hint = "" if file.suffix in {".yaml", ".yml"} else nearest(str(recipe), known)
    raise CallError(f"recipe {str(recipe)!r} is neither a packaged recipe nor a YAML file{hint}")


LARGEST, MOST_VALUES = 1_000_000, 100_000  # bytes of a file; values in it, with all that aliases repeat


def _parse(text: str) -> Any:
    """YAML, within bounds: a few lines of aliases to aliases, or of brackets, may stand for more than fits anywhere."""
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
    """How many values a node stands for."""
    if isinstance(node, yaml.ScalarNode):
        return 1
    if node not in known:
        known[node] = MOST_VALUES + 1  # while it is counted: an alias to what it is in has no end
        inner = chain.from_iterable(node.value) if isinstance(node, yaml.MappingNode) else node.value
        known[node] = 1 + sum(_values(one, known) for one in inner)
    return known[node]


class _Loader(yaml.SafeLoader):
    """Safe YAML that refuses a key given twice (plain YAML keeps the last one in silence)."""

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
    """A mapping as it is written: the config.yaml of a run may be a stranger's, and nothing in it is looked up here."""
    try:
        if file.stat().st_size > LARGEST:
            raise CallError(f"{file} is larger than {LARGEST:,} bytes: it is no recipe")
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
    """A recipe of the user's own: with variables of the environment, on top of the recipe that it extends."""
    place = file.resolve()
    if place in below:
        raise CallError(f"{below[0]}: extends goes in a circle: {' → '.join(map(str, (*below, place)))}")
    tree = _expand(load_yaml(file), file)
    if "extends" not in tree:
        return tree
    base = tree.pop("extends")
    if not isinstance(base, str):
        raise CallError(f"{file}: extends={base!r} is no name of a recipe, and no file")
    return merge(load_recipe(find(base), (*below, place)), tree)


_VARIABLE = re.compile(r"\$\{(\w+)(?::-([^}]*))?\}")


def _expand(value: Any, file: Path) -> Any:
    """`${NAME}` and `${NAME:-otherwise}` in texts of a recipe stand for variables of the environment."""

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
    """`over` on top of `base`, section by section.

    A section of another kind takes the place of the old one whole, and a named size that of the old sizes.
    """
    out = dict(base)
    for key, value in over.items():
        old = out.get(key)
        if isinstance(old, dict) and isinstance(value, Mapping):
            same_kind = old.get("kind") in (None, value.get("kind", old.get("kind")))
            kept = {k: v for k, v in old.items() if not (value.get("size") in SIZES and k in SIZES[value["size"]])}
            value = merge(kept, value) if same_kind else dict(value)
        out[key] = value
    return out


def parse_override(text: str) -> tuple[Path_, Any]:
    """`model.width=256` → (("model", "width"), "256"). Types are settled by the field; lists and null are YAML."""
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
    return merge(tree, changes)


def read(recipe: str | Path, overrides: Iterable[str] | Mapping[str, Any] = ()) -> Recipe:
    """Read a recipe with its overrides. All mistakes come in one `CallError`."""
    return build(_with_model_of_start(override(load_recipe(find(recipe)), overrides)), origin=str(recipe))


def _with_model_of_start(tree: Tree) -> Tree:
    """A recipe that starts from a run and says nothing of a model of its own (or model=null) has the run's."""
    start = tree.get("start")
    run = start.get("run") if isinstance(start, dict) else start
    if not isinstance(run, str) or tree.get("model") is not None:
        return tree
    if not (Path(run) / "config.yaml").is_file():
        raise CallError(
            f"start={run}: {'has no config.yaml: it is not a run' if Path(run).exists() else 'is not there'}"
        )
    kept = load_yaml(Path(run) / "config.yaml")
    return {**tree, "model": kept["model"]} if kept.get("job") == tree.get("job") and "model" in kept else tree


def build(tree: Tree, origin: str = "the recipe") -> Recipe:
    """A tree of plain values → settings."""
    job = tree.get("job")
    if not isinstance(job, str) or job not in JOBS:
        hint = nearest(str(job), JOBS) if job is not None else f"; choose from {', '.join(JOBS)}"
        raise CallError(f"{origin}: job={job!r} is not a job that regard knows{hint}")
    kind = JOBS[job].recipe
    settings, mistakes = _validate(kind, tree)
    if mistakes:
        head = "1 mistake" if len(mistakes) == 1 else f"{len(mistakes)} mistakes"
        raise CallError("\n  ".join([f"{head} in {origin}:", *mistakes]))
    assert settings is not None
    return settings


# --------------------------------------------------------------------------------------------------------- mistakes
def _validate(kind: type[Recipe], tree: Tree) -> tuple[Recipe | None, list[str]]:
    """Validate; take out what is wrong and validate again, so that impossible combinations are found as well."""
    mistakes: list[str] = []
    for _ in range(100):
        try:
            settings = kind.model_validate(tree)
        except ValidationError as error:
            before = len(mistakes)
            for detail in error.errors():
                path = _path_in(kind, tree, detail["loc"])
                sentence = _sentence(kind, tree, path, detail)
                if sentence not in mistakes:
                    mistakes.append(sentence)
                tree = _without(tree, path)
            if len(mistakes) == before:  # nothing new can be learnt by taking more out
                return None, mistakes
        else:
            return settings, mistakes + list(_impossible(settings))
    return None, mistakes


def _path_in(kind: type[Settings], tree: Any, loc: tuple[Any, ...]) -> Path_:
    """pydantic's location, without the names of union members that it weaves in."""
    path: list[str] = []
    sections = [kind]
    for part in loc:
        if len(sections) > 1:  # after a section of several kinds comes the kind; a key may be called the same
            sections = [one for one in sections if one.model_fields["kind"].default == part]
            continue
        if path and not isinstance(tree, Mapping):
            continue  # inside a scalar: a union member's name
        field = sections[0].model_fields.get(part) if sections else None
        sections = [] if field is None else _sections(field.annotation)
        tree = tree.get(part) if isinstance(tree, Mapping) else None
        path.append(str(part))
    return tuple(path)


def _sentence(kind: type[Settings], tree: Tree, path: Path_, detail: Any) -> str:
    name, value = ".".join(path), detail["input"]
    match detail["type"]:
        case "extra_forbidden":
            return f"{name}: unknown key{nearest(path[-1], _fields(kind, tree, path[:-1]))}"
        case "missing":
            return f"{name}: has to be given"
        case "literal_error":
            choices = _choices(detail["ctx"]["expected"])
            return f"{name}={value!r}: not known{nearest(str(value), choices)}"
        case "union_tag_invalid":
            choices = _choices(detail["ctx"]["expected_tags"])
            return f"{name}.kind={detail['ctx']['tag']!r}: not known{nearest(detail['ctx']['tag'], choices)}"
        case "union_tag_not_found":
            return f"{name}.kind: has to be given"
        case _:
            message = detail["msg"].removeprefix("Value error, ").removeprefix("Input ")
            return f"{name}={value!r}: {message}"


def _choices(listed: str) -> list[str]:
    return [word.strip().strip("'") for word in listed.replace(" or ", ", ").split(",") if word.strip()]


def _fields(kind: type[Settings], tree: Any, path: Path_) -> list[str]:
    """The names that are allowed in the section at `path`."""
    for part in path:
        tree = tree.get(part, {}) if isinstance(tree, Mapping) else {}
        members = [kind] if part not in kind.model_fields else _sections(kind.model_fields[part].annotation)
        tagged = [m for m in members if "kind" in m.model_fields and m.model_fields["kind"].default == tree.get("kind")]
        kind = (tagged or members or [Settings])[0]
    return list(kind.model_fields)


def _sections(annotation: Any) -> list[type[Settings]]:
    """The settings classes inside an annotation such as `Annotated[A | B, ...] | None`."""
    if isinstance(annotation, type) and issubclass(annotation, Settings):
        return [annotation]
    if get_origin(annotation) is Annotated:
        return _sections(get_args(annotation)[0])
    if get_origin(annotation) in {Union, UnionType}:
        return [member for argument in get_args(annotation) for member in _sections(argument)]
    return []


def _without(tree: Tree, path: Path_) -> Tree:
    if not path or path[0] not in tree:
        return tree
    rest = {key: value for key, value in tree.items() if key != path[0]}
    inner = tree[path[0]]
    if len(path) > 1 and isinstance(inner, Mapping):
        return {**tree, path[0]: _without(dict(inner), path[1:])}
    return rest


def _impossible(settings: Settings, path: Path_ = ()) -> Iterator[str]:
    for name, said in settings.problems():
        value = settings
        for part in name.split("."):
            value = getattr(value, part)
        yield f"{'.'.join((*path, name))}={value!r} {said}"
    for name in type(settings).model_fields:
        section = getattr(settings, name)
        if isinstance(section, Settings):
            yield from _impossible(section, (*path, name))


# ---------------------------------------------------------------------------------------------------------- showing
def as_tree(settings: Settings) -> Tree:
    """Plain values, ready for YAML or JSON."""
    return settings.model_dump(mode="json")


def show(settings: Settings, indent: int = 0) -> str:
    """The full resolved recipe as YAML, each field with its help. It can be read again as a recipe."""
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
    """A JSON schema of recipes, for editors that complete and check YAML."""
    jobs = [kind.model_json_schema(ref_template="#/$defs/{model}") for kind in (row.recipe for row in JOBS.values())]
    definitions: Tree = {}
    for job in jobs:
        definitions |= job.pop("$defs", {})
        job["properties"]["extends"] = {"type": "string", "description": "A packaged recipe or file to start from"}
        job["required"] = ["job"]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A recipe of regard",
        "anyOf": jobs,
        "$defs": definitions,
    }
