"""Completions by a model that the run binds to this plugin, for judges and simulated users. Requires `model`."""

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
    """Reply of the model."""

    text: str
    cut: bool
    """Whether the reply was cut at `max_tokens`."""
    prompt_tokens: int
    completion_tokens: int


def complete(
    messages: Sequence[tuple[Role, Content]], max_tokens: int, temperature: float = 0.0, stop: Sequence[str] = ()
) -> Reply:
    """Requests the model's reply to messages, each a pair of role and content.

    Raises `Denied` if the run does not grant `model`, and `Error` if the model fails or the budget is exhausted.
    """
    if _host is None:
        missing("model")
    from ._component.convert import raised, to_parts

    spoken = [_host.Message(_host.Role[role.upper()], to_parts(content)) for role, content in messages]
    with raised():
        reply = _host.complete(_host.Request(spoken, max_tokens, temperature, list(stop)))
    return Reply(reply.text, reply.cut, reply.usage.prompt_tokens, reply.usage.completion_tokens)
