"""Messages for all mistakes in a recipe at once: one sentence each, with the field, the value and what would work."""

from collections.abc import Iterator, Mapping, Sequence
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import ValidationError

from regard.errors import meant, nearest
from regard.settings.base import Settings
from regard.settings.recipe import Recipe
from regard.synonyms import synonyms

Tree = dict[str, Any]
Path_ = tuple[str, ...]


def validate(kind: type[Recipe], tree: Tree) -> tuple[Recipe | None, list[str]]:
    """Validate; remove invalid parts and validate again, to find impossible combinations as well."""
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
                tree = without(tree, path)
            if len(mistakes) == before:  # removing more finds no new mistake
                return None, mistakes
        else:
            return settings, mistakes + list(_impossible(settings))
    return None, mistakes


def _path_in(kind: type[Settings], tree: Any, loc: tuple[Any, ...]) -> Path_:
    """Return pydantic's location without the names of union members."""
    path: list[str] = []
    sections = [kind]
    for part in loc:
        if len(sections) > 1:  # a section of several kinds is followed by its kind; a key may have the same name
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
            return f"{name}: unknown key{_suggestion(kind, tree, path)}"
        case "missing":
            return f"{name}: is required"
        case "literal_error":
            choices = _choices(detail["ctx"]["expected"])
            return f"{name}={value!r}: not known{nearest(str(value), choices)}"
        case "union_tag_invalid":
            choices = _choices(detail["ctx"]["expected_tags"])
            return f"{name}.kind={detail['ctx']['tag']!r}: not known{nearest(detail['ctx']['tag'], choices)}"
        case "union_tag_not_found":
            return f"{name}.kind: is required"
        case _:
            message = detail["msg"].removeprefix("Value error, ").removeprefix("Input ")
            return f"{name}={value!r}: {message}"


def _suggestion(kind: type[Settings], tree: Tree, path: Path_) -> str:
    """Suggest a setting: a synonym, a similar name in the same section, or the same name in another section."""
    here, known = path[:-1], _fields(kind, tree, path[:-1])
    for name in synonyms(path[-1]):
        *sections, last = name.partition("=")[0].split(".")
        if _has_section(kind, sections) and last in _fields(kind, tree, tuple(sections)):
            return f"; did you mean {(last if [*here, last] == name.split('.') else name)!r}?"
    if meant(path[-1], known) is None:
        for section in filter(lambda name: _has_section(kind, [name]), kind.model_fields):
            fields = _fields(kind, tree, (section,))
            found = path[-1] if path[-1] in fields else None if here else meant(path[-1], fields)
            if found is not None:
                return f"; did you mean '{section}.{found}'?"
    return nearest(path[-1], known)


def _has_section(kind: type[Settings], names: Sequence[str]) -> bool:
    return not names or (names[0] in kind.model_fields and bool(_sections(kind.model_fields[names[0]].annotation)))


def _choices(listed: str) -> list[str]:
    return [word.strip().strip("'") for word in listed.replace(" or ", ", ").split(",") if word.strip()]


def _fields(kind: type[Settings], tree: Any, path: Path_) -> list[str]:
    """Return the allowed names in the section at `path`."""
    for part in path:
        tree = tree.get(part, {}) if isinstance(tree, Mapping) else {}
        members = [kind] if part not in kind.model_fields else _sections(kind.model_fields[part].annotation)
        tagged = [m for m in members if "kind" in m.model_fields and m.model_fields["kind"].default == tree.get("kind")]
        kind = (tagged or members or [Settings])[0]
    return list(kind.model_fields)


def _sections(annotation: Any) -> list[type[Settings]]:
    """Return the settings classes inside an annotation such as `Annotated[A | B, ...] | None`."""
    if isinstance(annotation, type) and issubclass(annotation, Settings):
        return [annotation]
    if get_origin(annotation) is Annotated:
        return _sections(get_args(annotation)[0])
    if get_origin(annotation) in {Union, UnionType}:
        return [member for argument in get_args(annotation) for member in _sections(argument)]
    return []


def without(tree: Tree, path: Path_) -> Tree:
    """Return the tree without the value at the path."""
    if not path or path[0] not in tree:
        return tree
    rest = {key: value for key, value in tree.items() if key != path[0]}
    inner = tree[path[0]]
    if len(path) > 1 and isinstance(inner, Mapping):
        return {**tree, path[0]: without(dict(inner), path[1:])}
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
