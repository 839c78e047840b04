"""The base class of all settings: frozen, typed, and strict about unknown keys."""

from collections.abc import Iterator
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, model_validator


class Settings(BaseModel):
    """One section of a recipe. Every field has a type, a default where one makes sense, and a description.

    `problems` reports what the type of one field cannot check (heads must divide width). `config.read` calls it on
    every section and reports all mistakes together.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, defer_build=True)

    @model_validator(mode="before")
    @classmethod
    def _choices_as_typed(cls, given: Any) -> Any:
        """Convert a command-line value to a choice of its field: 3 where the choices are 1 and 3. `none` stays `none`
        where it is a choice, and means None elsewhere."""
        if not isinstance(given, dict):
            return given
        typed = {}
        for name in given.keys() & cls.model_fields.keys():
            choices, value = _choices(cls.model_fields[name].annotation), given[name]
            if value is None and "none" in choices and None not in choices:
                typed[name] = "none"
            elif isinstance(value, str):
                number = value.isdecimal() and any(type(choice) is int for choice in choices)
                typed[name] = next((one for one in choices if str(one) == value), int(value) if number else value)
        return {**given, **typed}

    def problems(self) -> Iterator[tuple[str, str]]:
        """Yield (field, problem) for impossible combinations. The field is relative to this section."""
        yield from ()


def _choices(annotation: Any) -> list[Any]:
    """Return all values of the literals in an annotation; None where None is allowed."""
    if annotation is NoneType:
        return [None]
    kind, arguments = get_origin(annotation), get_args(annotation)
    if kind is Literal:
        return list(arguments)
    if kind is Annotated:
        return _choices(arguments[0])
    if kind in (Union, UnionType):
        return [choice for argument in arguments for choice in _choices(argument)]
    return []
