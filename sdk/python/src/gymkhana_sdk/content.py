"""Types shared by environments, tools and rewards.

Content is a `str` or a list of parts. A value is a `bool`, `int`, `float`, `str`, `bytes` or `Json`; named values are a
`dict`. Content from the host is always a list of parts; an author may return either form.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Union

from .errors import Mistake


@dataclass(slots=True)
class Text:
    """Text part."""

    text: str


@dataclass(frozen=True)
class Media:
    """Bytes with a MIME type, such as `image/png`."""

    mime: str
    data: bytes


class Image(Media):
    """Image part."""


class Audio(Media):
    """Audio part."""


class Video(Media):
    """Video part."""


class OtherMedia(Media):
    """Media of any other MIME type."""


Part = Union[Text, Image, Audio, Video, OtherMedia]
Content = Union[str, Part, Sequence[Union[str, Part]]]
"""Content of a message, an observation or an answer: text, or parts in reading order."""


@dataclass(frozen=True)
class Json:
    """Value of any other type, as JSON text."""

    text: str


Value = Union[bool, int, float, str, bytes, Json]
"""Typed value of an option or an extra. Integers are signed 64-bit."""


def parts_of(content: Content) -> list[Part]:
    """Content as a list of parts."""
    if isinstance(content, str):
        return [Text(content)]
    if isinstance(content, (Text, Media)):
        return [content]
    return [Text(part) if isinstance(part, str) else part for part in content]


def text_of(content: Content) -> str:
    """Concatenated text parts of a content; other parts are skipped."""
    return "".join(part.text for part in parts_of(content) if isinstance(part, Text))


def shown(value: Value) -> str:
    """Human-readable form of a value; bytes are shown by their count."""
    match value:
        case bool():
            return "true" if value else "false"
        case float():
            if math.isnan(value):
                return "NaN"
            return str(int(value)) if value.is_integer() and abs(value) < 1e16 else str(value)
        case bytes():
            return f"{len(value)} bytes"
        case Json():
            return value.text
    return str(value)


@dataclass(frozen=True)
class Task:
    """Task of an episode: the split's name and the index in that split, from 0."""

    split: str
    index: int


@dataclass(frozen=True)
class Parameter:
    """Argument of a function."""

    type: type
    """`str`, `int`, `float` or `bool`."""
    description: str
    optional: bool = False


_DEEPEST = 500
_STRINGS = re.compile(r'"(?:[^"\\]|\\.)*"?', re.DOTALL)


def _is_deep(text: str) -> bool:
    """Whether JSON text nests deeper than the stack of a component is guaranteed to support."""
    if text.count("[") + text.count("{") <= _DEEPEST:
        return False
    depth = 0
    for letter in _STRINGS.sub("", text):
        depth += (letter in "[{") - (letter in "]}")
        if depth > _DEEPEST:
            return True
    return False


_SCHEMA_TYPES = {str: "string", int: "integer", float: "number", bool: "boolean"}


@dataclass(frozen=True)
class Function:
    """Function that a policy may call.

    `parameters` maps argument names to `Parameter`s, or is a complete JSON Schema of the arguments object. `cost` is
    the cost of one call, in the author's unit.
    """

    name: str
    description: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    cost: float = 0.0

    def schema(self) -> str:
        """JSON Schema of the arguments object, as JSON text."""
        given = self.parameters
        if not all(isinstance(parameter, Parameter) for parameter in given.values()):
            return json.dumps(given, ensure_ascii=False, separators=(",", ":"))
        schema = {
            "type": "object",
            "properties": {
                name: {"type": _SCHEMA_TYPES[parameter.type], "description": parameter.description}
                for name, parameter in given.items()
            },
            "required": [name for name, parameter in given.items() if not parameter.optional],
        }
        return json.dumps(schema, ensure_ascii=False, separators=(",", ":"))


@dataclass(slots=True)
class Call:
    """Function call, as the policy wrote it.

    The argument accessors raise `Mistake` with a sentence that tells the agent what to write instead.
    """

    name: str
    arguments: str = "{}"
    """JSON object, as text."""
    id: str = ""
    """Identifier, unique within the episode, assigned by the host; empty in calls that an oracle advises."""

    @classmethod
    def of(cls, name: str, /, **arguments: Any) -> Call:
        """Call with these arguments, for use in `Environment.advise`."""
        return cls(name, json.dumps(arguments, ensure_ascii=False))

    def text(self, name: str) -> str:
        """String argument `name`."""
        return str(self._argument(name, "a string", lambda value: isinstance(value, str)))

    def integer(self, name: str) -> int:
        """Integer argument `name`."""
        return int(self._argument(name, "a whole number", lambda value: type(value) is int))

    def number(self, name: str) -> float:
        """Number argument `name`."""
        return float(self._argument(name, "a number", lambda value: type(value) in (int, float)))

    def flag(self, name: str) -> bool:
        """Boolean argument `name`."""
        return bool(self._argument(name, "true or false", lambda value: isinstance(value, bool)))

    def has(self, name: str) -> bool:
        """Whether the call contains the argument `name`."""
        return name in self._object(name)

    def _object(self, name: str) -> dict[str, Any]:
        if _is_deep(self.arguments):
            raise Mistake(f'the arguments are nested too deeply; write {{"{name}": …}}')
        try:
            arguments = json.loads(self.arguments)
        except (ValueError, RecursionError) as error:
            raise Mistake(f'the arguments are not JSON ({error}); write {{"{name}": …}}') from None
        if not isinstance(arguments, dict):
            raise Mistake(f'the arguments must be an object; write {{"{name}": …}}')
        return arguments

    def _argument(self, name: str, wanted: str, fits: Callable[[Any], bool]) -> Any:
        arguments = self._object(name)
        if name not in arguments:
            raise Mistake(f"argument `{name}` is missing; given: {', '.join(arguments) or 'none'}")
        value = arguments[name]
        if not fits(value):
            raise Mistake(f"argument `{name}` must be {wanted}, not {json.dumps(value, ensure_ascii=False)}")
        return value
