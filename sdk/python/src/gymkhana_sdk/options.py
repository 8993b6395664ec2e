"""Options of a plugin: declaration by a class, and validation."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from .content import Json, Value, shown
from .errors import Invalid

_KINDS: dict[type, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text",
    bytes: "bytes",
    Json: "JSON",
}


@dataclass(frozen=True)
class Option:
    """Declared option; `option` makes one."""

    description: str
    """Effect of the option, with its unit."""
    default: Value
    within: tuple[float, float] | None
    one_of: Sequence[str]
    name: str

    def check_default(self) -> None:
        """Raises `ValueError` for a default of another type than those of options, or outside the limits."""
        if type(self.default) not in _KINDS:
            kind = type(self.default).__name__
            raise ValueError(f"the default of option `{self.name}` must be {', '.join(_KINDS.values())}, not {kind}")
        try:
            self.check(self.default)
        except Invalid as error:
            raise ValueError(f"the default of {error}") from None

    def told(self) -> str:
        """Description with the range or the choices, as reported to the host."""
        limits = self._limits()
        return f"{self.description} ({limits})" if limits else self.description

    def check(self, value: Value) -> Value:
        """Validates `value` and converts it to this option's type.

        Raises `Invalid` for a wrong type or an out-of-range value.
        """
        # A run file may write 1 instead of 1.0.
        if type(self.default) is float and type(value) is int:
            value = float(value)
        if type(value) is not type(self.default):
            raise self._refusal(_KINDS[type(self.default)], value)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            low, high = self.within or (-math.inf, math.inf)
            if not low <= value <= high or (self.within is None and math.isinf(value)):
                raise self._refusal(self._limits() or "finite", value)
        if isinstance(value, str) and self.one_of and value not in self.one_of:
            raise self._refusal(self._limits(), value)
        return value

    def _limits(self) -> str:
        if self.one_of:
            return f"one of {', '.join(self.one_of)}"
        match [(math.isfinite(end), end) for end in self.within or ()]:
            case [(True, low), (True, high)]:
                return f"{shown(low)} to {shown(high)}"
            case [(True, low), _]:
                return f"at least {shown(low)}"
            case [_, (True, high)]:
                return f"at most {shown(high)}"
        return ""

    def _refusal(self, wanted: str, value: Value) -> Invalid:
        return Invalid(f"option `{self.name}` must be {wanted}, not {shown(value)}")


def option(
    description: str,
    default: Value,
    *,
    within: tuple[float, float] | None = None,
    one_of: Sequence[str] = (),
    name: str = "",
) -> Any:
    """Declares an option of `Options`. The default determines its type.

    `within` holds inclusive bounds of a number, of which an infinite one is open, and `one_of` the allowed texts. The
    name in the run file is that of the attribute, with `-` in place of `_`, unless `name` sets another.
    """
    return Option(description, default, within, one_of, name)


class Options:
    """Options that a run file may set. A class declares each by an attribute, and its instances hold the values.

    Declaring a default of another type than those of options, or outside the limits, raises `ValueError`.

    >>> class Mine(Options):
    ...     difficulty: int = option("Difficulty of the stories", 2, within=(1, 4))
    ...     mode: str = option("Comparison mode", "auto", one_of=("auto", "number", "text"))
    >>> Mine([("difficulty", 3)]).difficulty
    3
    """

    _declared: ClassVar[dict[str, Option]] = {}

    def __init_subclass__(cls) -> None:
        own = {name: each for name, each in vars(cls).items() if isinstance(each, Option)}
        named = {name: replace(each, name=each.name or name.replace("_", "-")) for name, each in own.items()}
        for each in named.values():
            each.check_default()
        cls._declared = {**cls._declared, **named}

    def __init__(self, given: Iterable[tuple[str, Value]] = ()) -> None:
        """Overlays `given`, pairs of name and value, on the defaults.

        Raises `Invalid` for an option that is unknown (the message suggests the nearest name), repeated, of a wrong
        type or out of range.
        """
        known = {each.name: attribute for attribute, each in self._declared.items()}
        values: dict[str, Value] = {}
        for name, value in given:
            if name not in known:
                raise Invalid(_unknown(name, list(known)))
            if known[name] in values:
                raise Invalid(f"option `{name}` is given twice: remove one")
            values[known[name]] = self._declared[known[name]].check(value)
        for attribute, each in self._declared.items():
            setattr(self, attribute, values.get(attribute, each.default))

    @classmethod
    def declared(cls) -> list[Option]:
        """Declared options, in order."""
        return list(cls._declared.values())


def _unknown(name: str, known: list[str]) -> str:
    if not known:
        return f"unknown option `{name}`; this plugin has no options"
    nearest = difflib.get_close_matches(name, known, n=1, cutoff=0.0)[0]
    return f"unknown option `{name}`; the nearest known one is `{nearest}`"
