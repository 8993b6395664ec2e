"""Completions by a model that the run binds to this plugin: judges and simulated users. Needs `model`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from .content import Content
from .host import capability, missing

_host = capability("model")

Role = Literal["system", "user", "assistant"]


@dataclass(frozen=True)
class Reply:
    """What the model said."""

    text: str
    cut: bool
    """The reply was cut at `max_tokens`."""
    prompt_tokens: int
    completion_tokens: int


def complete(
    messages: Sequence[tuple[Role, Content]], max_tokens: int, temperature: float = 0.0, stop: Sequence[str] = ()
) -> Reply:
    """The model's reply to messages, each a role and its content.

    Raises `Denied` without a grant; `Error` when the model fails or the budget is spent.
    """
    if _host is None:
        missing("model")
    from ._component.convert import raised, to_parts

    spoken = [_host.Message(_host.Role[role.upper()], to_parts(content)) for role, content in messages]
    with raised():
        reply = _host.complete(_host.Request(spoken, max_tokens, temperature, list(stop)))
    return Reply(reply.text, reply.cut, reply.usage.prompt_tokens, reply.usage.completion_tokens)
