"""The vocabulary that environments, tools and rewards share, as Python says it.

Content is a `str` or a list of parts, a value is a `bool`, `int`, `float`, `str`, `bytes` or `Json`, and values with
names are a `dict`. What comes from the host is always a list of parts; what an author returns may be either.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Union

from .errors import Mistake


@dataclass(slots=True)
class Text:
    """Words."""

    text: str


@dataclass(frozen=True)
class Media:
    """Bytes with a mime type, such as `image/png`."""

    mime: str
    data: bytes


class Image(Media):
    """A picture."""


class Audio(Media):
    """Sound."""


class Video(Media):
    """Moving pictures."""


class OtherMedia(Media):
    """Any other kind of media, named by its mime type."""


Part = Union[Text, Image, Audio, Video, OtherMedia]
Content = Union[str, Part, Sequence[Union[str, Part]]]
"""What a message, an observation or an answer says: words, or parts in reading order."""


@dataclass(frozen=True)
class Json:
    """A value of no other type, as JSON text."""

    text: str


Value = Union[bool, int, float, str, bytes, Json]
"""A typed value of an option or of an extra. Whole numbers have 64 bits."""


def parts_of(content: Content) -> list[Part]:
    """Content as a list of parts."""
    if isinstance(content, str):
        return [Text(content)]
    if isinstance(content, (Text, Media)):
        return [content]
    return [Text(part) if isinstance(part, str) else part for part in content]


def text_of(content: Content) -> str:
    """The text parts of a content, one after the other; other media count for nothing."""
    return "".join(part.text for part in parts_of(content) if isinstance(part, Text))


def shown(value: Value) -> str:
    """The value as a person would write it; bytes only by their number."""
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
    """Which task an episode is about: the split's name, and the position in it, from 0."""

    split: str
    index: int


@dataclass(frozen=True)
class Parameter:
    """One argument of a function."""

    type: type
    """`str`, `int`, `float` or `bool`."""
    description: str
    optional: bool = False


_SCHEMA_TYPES = {str: "string", int: "integer", float: "number", bool: "boolean"}


@dataclass(frozen=True)
class Function:
    """A function that a policy may call.

    `parameters` maps each argument's name to a `Parameter`; a whole JSON Schema of the arguments object may stand
    there instead. `cost` is what one call costs, in the author's unit.
    """

    name: str
    description: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    cost: float = 0.0

    def schema(self) -> str:
        """The JSON Schema of the arguments object, as JSON text."""
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
    """A call of a function, as the policy wrote it.

    The look-ups raise `Mistake` with a sentence that tells the agent what to write instead.
    """

    name: str
    arguments: str = "{}"
    """JSON text of an object."""
    id: str = ""
    """Unique within the episode. The host chooses it; an expert leaves it empty."""

    @classmethod
    def of(cls, name: str, /, **arguments: Any) -> Call:
        """A call with these arguments, as an expert advises it."""
        return cls(name, json.dumps(arguments, ensure_ascii=False))

    def text(self, name: str) -> str:
        """The text argument `name`."""
        return self._argument(name, "a string", lambda value: isinstance(value, str))

    def integer(self, name: str) -> int:
        """The whole-number argument `name`."""
        return self._argument(name, "a whole number", lambda value: type(value) is int)

    def number(self, name: str) -> float:
        """The number argument `name`."""
        return float(self._argument(name, "a number", lambda value: type(value) in (int, float)))

    def flag(self, name: str) -> bool:
        """The true-or-false argument `name`."""
        return self._argument(name, "true or false", lambda value: isinstance(value, bool))

    def has(self, name: str) -> bool:
        """Whether the argument `name` is given."""
        return name in self._object(name)

    def _object(self, name: str) -> dict[str, Any]:
        try:
            arguments = json.loads(self.arguments)
        except (ValueError, RecursionError) as error:
            raise Mistake(f'the arguments are not JSON ({error}); write {{"{name}": …}}') from None
        if not isinstance(arguments, dict):
            raise Mistake(f'the arguments must be an object; write {{"{name}": …}}')
        return arguments

    def _argument(self, name: str, wanted: str, fits: Any) -> Any:
        arguments = self._object(name)
        if name not in arguments:
            raise Mistake(f"argument `{name}` is missing; given: {', '.join(arguments) or 'none'}")
        value = arguments[name]
        if not fits(value):
            raise Mistake(f"argument `{name}` must be {wanted}, not {json.dumps(value, ensure_ascii=False)}")
        return value
