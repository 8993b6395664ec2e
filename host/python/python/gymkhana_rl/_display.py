"""Runs and episodes as HTML for notebooks. All text of plugins and models is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

# Widest text of a cell, in characters; longer ones are cut.
LONGEST = 20_000

STYLE = "text-align:left;vertical-align:top;white-space:pre-wrap;overflow-wrap:anywhere"


def table(rows: Iterable[Sequence[str]], caption: str) -> str:
    """A table whose first column is a heading of its row."""
    lines = [
        f'<tr><th scope="row" style="{STYLE}">{_cell(head)}</th>'
        + "".join(f'<td style="{STYLE}">{_cell(text)}</td>' for text in texts)
        + "</tr>"
        for head, *texts in rows
    ]
    return f'<table><caption style="text-align:left">{_cell(caption)}</caption>{"".join(lines)}</table>'


def conversation(caption: str, messages: Iterable[Mapping[str, Any]]) -> str:
    """Messages in OpenAI's form as a table of roles and texts."""
    return table(((message["role"], _said(message)) for message in messages), caption)


def episode(played: Any) -> str:
    """An episode of `play`: its figures and the conversation of each seat."""
    outcome = "solved" if played.success else "not solved"
    caption = f"{played.id}: {played.ending}, reward {played.reward:.3g}, {outcome}"
    seats = sorted({segment.seat for segment in played.segments} or {0})
    return "".join(
        conversation(caption if len(seats) == 1 else f"{caption}, seat {seat}", played.messages(seat)) for seat in seats
    )


def _said(message: Mapping[str, Any]) -> str:
    calls = [f"{call['function']['name']}({call['function']['arguments']})" for call in message.get("tool_calls") or ()]
    return "\n".join([*filter(None, [message.get("content")]), *calls])


def _cell(text: str) -> str:
    cut = text if len(text) <= LONGEST else f"{text[:LONGEST]}… ({len(text)} characters)"
    return escape(cut)
