"""Declaration, validation and look-up of options."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

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
    """Option that a run file may set. The default determines its type.

    Raises `ValueError` for a default of another type than those of options, or outside the limits.

    >>> difficulty = Option("difficulty", "Difficulty of the stories", 2, within=(1, 4))
    >>> mode = Option("mode", "Comparison mode", "auto", one_of=("auto", "number", "text"))
    """

    name: str
    description: str
    """Effect of the option, with its unit."""
    default: Value
    within: tuple[float, float] | None = None
    """Inclusive bounds of a number. An infinite bound is open."""
    one_of: Sequence[str] = ()
    """Allowed texts; empty allows every text."""

    def __post_init__(self) -> None:
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


class Options(Mapping[str, Any]):
    """Validated value of every declared option, for an episode, a session or a scoring."""

    def __init__(self, declared: Iterable[Option], given: Iterable[tuple[str, Value]] = ()) -> None:
        """Overlays `given` on the defaults.

        Raises `Invalid` for an option that is unknown (the message suggests the nearest name), repeated, of a wrong
        type or out of range.
        """
        known = {option.name: option for option in declared}
        chosen: dict[str, Value] = {}
        for name, value in given:
            if name not in known:
                raise Invalid(_unknown(name, list(known)))
            if name in chosen:
                raise Invalid(f"option `{name}` is given twice: remove one")
            chosen[name] = known[name].check(value)
        self._values = {name: chosen.get(name, option.default) for name, option in known.items()}

    def __getitem__(self, name: str) -> Any:
        """Value of a declared option."""
        if name not in self._values:
            raise KeyError(f"option `{name}` is not declared: add it to `options`")
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


def _unknown(name: str, known: list[str]) -> str:
    if not known:
        return f"unknown option `{name}`; this plugin has no options"
    nearest = difflib.get_close_matches(name, known, n=1, cutoff=0.0)[0]
    return f"unknown option `{name}`; the nearest known one is `{nearest}`"
