"""Exports of a tool plugin."""

from __future__ import annotations

from typing import Any

from wit_world.exports import tool as wit

from ..rules import Session, offers
from ..tool import Tool
from .convert import exported, from_call, pairs, to_functions, to_named, to_options, to_parts
from .handles import Handles


def exports(kind: type[Tool]) -> dict[str, type]:
    """Export classes by the names that componentize-py expects."""
    sessions: Handles[Session[Tool]] = Handles()

    class Exported:
        def describe(self) -> Any:
            return wit.Info(kind.summary, to_options(kind.options))

        @exported
        def functions(self, options: Any) -> Any:
            return to_functions(Session.functions(kind, pairs(options)))

        @exported
        def open(self, setup: bytes | None, options: Any, seed: int) -> int:
            return sessions.open(Session.open(kind, setup, pairs(options), seed))

        @exported
        def call(self, session: int, call: Any) -> Any:
            answer = sessions[session].call(from_call(call))
            return wit.Answer(to_parts(answer.content), answer.failed)

        def close(self, session: int) -> None:
            closed = sessions.close(session)
            if closed is not None:
                closed.tool.close()

    class Snapshot:
        @exported
        def snapshot(self, session: int) -> bytes:
            return sessions[session].snapshot()

        @exported
        def restore(self, snapshot: bytes) -> int:
            return sessions.open(Session.restore(kind, snapshot))

    class FinalView:
        @exported
        def final_view(self, session: int) -> Any:
            return to_named(sessions[session].tool.final_view())

    optional = {"snapshot": ("ToolSnapshot", Snapshot), "final_view": ("ToolFinalView", FinalView)}
    offered = (found for method, found in optional.items() if offers(kind, Tool, method))
    return {"Tool": Exported, **dict(offered)}
