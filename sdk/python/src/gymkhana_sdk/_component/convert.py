"""Conversion between the contract's records and the SDK's types."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

from componentize_py_types import Err
from wit_world.imports import types as wit

from .. import content as ours
from .. import errors
from ..options import Options

Function = TypeVar("Function", bound=Callable[..., Any])

_MEDIA = {
    ours.Image: wit.Part_Image,
    ours.Audio: wit.Part_Audio,
    ours.Video: wit.Part_Video,
    ours.OtherMedia: wit.Part_Other,
    ours.Media: wit.Part_Other,
}
_FROM_MEDIA: dict[Any, Any] = {case: kind for kind, case in _MEDIA.items() if kind is not ours.Media}
_VALUES: dict[type, Any] = {
    bool: wit.Value_Flag,
    int: wit.Value_Integer,
    float: wit.Value_Number,
    str: wit.Value_Text,
    bytes: wit.Value_Bytes,
}
_ERRORS: dict[type, Any] = {
    errors.Invalid: wit.Error_Invalid,
    errors.NotFound: wit.Error_NotFound,
    errors.BadSnapshot: wit.Error_BadSnapshot,
    errors.Denied: wit.Error_Denied,
}
_FROM_ERRORS = {case: kind for kind, case in _ERRORS.items()}


def exported(function: Function) -> Function:
    """Wraps an exported function: each `gymkhana_sdk.Error` becomes an error of the contract."""

    @functools.wraps(function)
    def call(*arguments: Any) -> Any:
        try:
            return function(*arguments)
        except errors.Error as error:
            cases = (case for kind, case in _ERRORS.items() if isinstance(error, kind))
            raise Err(next(cases, wit.Error_Other)(str(error))) from error

    return call  # type: ignore[return-value]


@contextmanager
def raised() -> Iterator[None]:
    """Re-raises an import's error as an error of `gymkhana_sdk`."""
    try:
        yield
    except Err as error:
        case = error.value
        raise _FROM_ERRORS.get(type(case), errors.Error)(case.value) from None


def to_parts(content: ours.Content) -> list[Any]:
    """Converts content for the host."""
    if isinstance(content, str):
        return [wit.Part_Text(content)]
    return [
        wit.Part_Text(part.text) if isinstance(part, ours.Text) else _MEDIA[type(part)](wit.Media(part.mime, part.data))
        for part in ours.parts_of(content)
    ]


def from_parts(parts: Iterable[Any]) -> list[ours.Part]:
    """Converts content from the host."""
    return [
        ours.Text(part.value)
        if isinstance(part, wit.Part_Text)
        else _FROM_MEDIA[type(part)](part.value.mime, part.value.bytes)
        for part in parts
    ]


def to_value(value: ours.Value) -> Any:
    """Converts a value for the host."""
    if isinstance(value, ours.Json):
        return wit.Value_Other(value.text)
    for kind in type(value).__mro__:
        if kind in _VALUES:
            if isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
                raise OverflowError(f"{value} does not fit a signed 64-bit integer: return it as text")
            return _VALUES[kind](value)
    raise TypeError(f"{value!r} is not a valid value: use bool, int, float, str, bytes or gymkhana_sdk.Json")


def from_value(value: Any) -> ours.Value:
    """Converts a value from the host."""
    return ours.Json(value.value) if isinstance(value, wit.Value_Other) else value.value


def to_named(values: Mapping[str, ours.Value]) -> list[Any]:
    """Converts named values for the host."""
    return [wit.NamedValue(name, to_value(value)) for name, value in values.items()]


def pairs(values: Iterable[Any]) -> list[tuple[str, ours.Value]]:
    """Converts named values from the host and keeps repeated names."""
    return [(value.name, from_value(value.value)) for value in values]


def from_named(values: Iterable[Any]) -> dict[str, ours.Value]:
    """Converts named values from the host; the first value of a repeated name wins."""
    return dict(reversed(pairs(values)))


def to_functions(functions: Iterable[ours.Function]) -> list[Any]:
    """Converts functions for the host."""
    return [wit.Function(each.name, each.description, each.schema(), float(each.cost)) for each in functions]


def to_call(call: ours.Call) -> Any:
    """Converts a call for the host."""
    return wit.Call(call.id, call.name, call.arguments)


def from_call(call: Any) -> ours.Call:
    """Converts a call from the host."""
    return ours.Call(call.name, call.arguments, call.id)


def to_options(options: type[Options]) -> list[Any]:
    """Converts declared options for the host."""
    return [wit.OptionInfo(option.name, option.told(), to_value(option.default)) for option in options.declared()]


def to_range(ends: tuple[float, float]) -> Any:
    """Converts a range for the host."""
    return wit.Range(float(ends[0]), float(ends[1]))


def from_task(task: Any) -> ours.Task:
    """Converts a task from the host."""
    return ours.Task(task.split, task.index)
