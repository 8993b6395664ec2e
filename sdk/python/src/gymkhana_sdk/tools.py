"""Tool calls by rewards, in separate sessions of the reward. Requires the capability `tools`."""

from __future__ import annotations

import json

from .content import Call, Function
from .host import capability, missing
from .tool import Answer

_host = capability("tools")


def functions() -> list[Function]:
    """Available functions; empty in native tests."""
    if _host is None:
        return []
    return [Function(each.name, each.description, json.loads(each.parameters), each.cost) for each in _host.functions()]


def call(call: Call) -> Answer:
    """Calls a function.

    Raises `NotFound` for an unknown function and `Denied` if the run does not grant `tools`.
    """
    if _host is None:
        missing("tools")
    from ._component.convert import from_parts, raised, to_call

    with raised():
        answer = _host.call(to_call(call))
    return Answer(from_parts(answer.content), answer.failed)
