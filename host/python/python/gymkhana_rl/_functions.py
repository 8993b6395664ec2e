"""Python functions of a tool's functions, from their JSON Schemas.

Trainers look for real functions with annotations and Google docstrings. They are made of a closure and a signature; no
text of a plugin becomes source.
"""

from __future__ import annotations

import inspect
import keyword
import re
from collections.abc import Callable, Mapping
from types import CodeType, FunctionType, GenericAlias
from typing import TYPE_CHECKING, Any, Literal, Optional, Union

if TYPE_CHECKING:
    from ._native import Tool

_TYPES: dict[str, Any] = {
    "string": str,
    "integer": int,
    "number": float,
    "boolean": bool,
    "array": list,
    "object": dict,
    "null": type(None),
}


def functions_of(tool: Tool) -> dict[str, Callable[..., str]]:
    """The functions of a tool, by name. A call that fails returns the reason."""
    return {
        schema["name"]: function_of(schema, lambda name, arguments: tool.call(name, arguments).content)
        for schema in tool.schemas
    }


def function_of(
    schema: Mapping[str, Any], call: Callable[[str, dict[str, Any]], Any], returns: Any = str
) -> Callable[..., Any]:
    """A function with the name, parameters and documentation of a schema. `call` gets the name and the arguments."""
    name = str(schema["name"])
    parameters = schema.get("parameters") or {}
    properties: Mapping[str, Any] = parameters.get("properties") or {}
    required = set(parameters.get("required") or ())
    # The schema's name of each parameter, by the name that Python can write.
    names = _python_names(properties)
    optional = {python for python, given in names.items() if given not in required}

    def function(*args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(*args, **kwargs)
        arguments = {
            names[python]: value
            for python, value in bound.arguments.items()
            if not (value is None and python in optional)
        }
        return call(name, arguments)

    annotations = {
        python: _annotation(properties[given], python in optional) for python, given in names.items()
    }
    # A parameter without a default cannot follow one with a default.
    ordered = sorted(names, key=lambda python: python in optional)
    signature = inspect.Signature(
        [
            inspect.Parameter(
                python,
                inspect.Parameter.POSITIONAL_OR_KEYWORD,
                default=None if python in optional else inspect.Parameter.empty,
                annotation=annotations[python],
            )
            for python in ordered
        ],
        return_annotation=returns,
    )
    made = FunctionType(
        _renamed(function.__code__, name), function.__globals__, name, function.__defaults__, function.__closure__
    )
    made.__qualname__ = name
    made.__module__ = __name__
    made.__doc__ = _docstring(str(schema.get("description") or name), [(p, properties[names[p]]) for p in ordered])
    made.__annotations__ = {**{python: annotations[python] for python in ordered}, "return": returns}
    setattr(made, "__signature__", signature)  # noqa: B010 - the type of functions lacks it
    return made


def _renamed(code: CodeType, name: str) -> CodeType:
    if hasattr(code, "co_qualname"):
        return code.replace(co_name=name, co_qualname=name)
    return code.replace(co_name=name)


def _python_names(properties: Mapping[str, Any]) -> dict[str, str]:
    names: dict[str, str] = {}
    for given in properties:
        python = re.sub(r"\W", "_", given, flags=re.ASCII) or "_"
        if python[0].isdigit() or keyword.iskeyword(python):
            python = f"_{python}" if python[0].isdigit() else f"{python}_"
        while python in names:
            python += "_"
        names[python] = given
    return names


def _annotation(schema: Any, optional: bool) -> Any:
    kind = _type(schema)
    return Optional[kind] if optional and kind is not Any else kind


def _type(schema: Any) -> Any:
    if not isinstance(schema, Mapping):
        return Any
    choices = schema.get("enum")
    if isinstance(choices, list) and choices and all(isinstance(choice, (str, int, bool)) for choice in choices):
        return Literal[tuple(choices)]
    kinds = schema.get("type")
    if isinstance(kinds, list):
        known = [_TYPES[kind] for kind in kinds if kind in _TYPES]
        return Union[tuple(known)] if known else Any
    if kinds == "array":
        item = _type(schema.get("items"))
        return list if item is Any else GenericAlias(list, (item,))
    return _TYPES.get(kinds, Any) if isinstance(kinds, str) else Any


def _docstring(description: str, parameters: list[tuple[str, Any]]) -> str:
    """A Google docstring. Line ends within a description would end its entry."""
    lines = [" ".join(description.split())]
    if parameters:
        lines += ["", "Args:"]
        for python, schema in parameters:
            given = schema.get("description") if isinstance(schema, Mapping) else None
            lines.append(f"    {python}: {' '.join(str(given or python).split())}")
    lines += ["", "Returns:", "    The answer."]
    return "\n".join(lines)
