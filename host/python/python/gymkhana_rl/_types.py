"""Plain data of the package's functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Union

Json = Union[None, bool, int, float, str, list["Json"], dict[str, "Json"]]
Options = Mapping[str, Any]


@dataclass(frozen=True)
class Call:
    """A call of a function. Episodes number their calls, so `id` is empty in what a policy writes."""

    name: str
    arguments: dict[str, Any] = field(default_factory=dict)
    id: str = ""


@dataclass(frozen=True)
class ToolAnswer:
    """Answer of a tool. If `failed` is set, the content gives the reason."""

    content: str
    failed: bool = False


@dataclass(frozen=True)
class Score:
    """Score of a completion: its total and components, or the failure instead."""

    total: float | None
    components: dict[str, float] = field(default_factory=dict)
    failure: str | None = None


Action = Union[str, Call, Sequence[Call], Mapping[str, Any]]
