"""Tools: functions that a policy may call, with separate state for each episode.

class Greeter(Tool):
    '''Greets a person by name.'''

    summary = "Greetings"

    @classmethod
    def functions(cls, options):
        return [Function("greet", "Greets a person.", {"name": Parameter(str, "name of the person")})]

    def call(self, call):
        return f"Hello, {call.text('name')}!"
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from .content import Call, Content, Function, Value
from .options import Options


@dataclass
class Answer:
    """Answer to a call. A failed answer tells the agent why."""

    content: Content
    failed: bool = False


class Tool:
    """Tool. Each instance is one session: the tool's state during one episode.

    Methods from `snapshot` on are optional; the plugin exports the ones that the class overrides.
    """

    summary: ClassVar[str] = ""
    """One-line description."""
    options: ClassVar[type[Options]] = Options
    """Class of the options that a run file may set; its instance is `options` of the methods."""

    @classmethod
    def functions(cls, options: Any) -> list[Function]:
        """Functions under these options."""
        raise NotImplementedError("define `functions` in the tool")

    def open(self, setup: bytes | None, options: Any, seed: int) -> None:
        """Opens the session. `setup` is the environment's set-up data for this tool, or None.

        Raises `Invalid` for unusable set-up data.
        """

    def call(self, call: Call) -> Content | Answer:
        """Calls one of the declared functions.

        For an error of the agent, raise `Mistake` or return a failed `Answer`.
        """
        raise NotImplementedError("define `call` in the tool")

    def close(self) -> None:
        """Closes the session."""

    def snapshot(self) -> bytes:
        """Complete state of the session (optional)."""
        raise NotImplementedError

    def restore(self, snapshot: bytes) -> None:
        """Restores a snapshot into this new instance (required with `snapshot`).

        Any exception means that the bytes are not a valid snapshot.
        """
        raise NotImplementedError

    def final_view(self) -> Mapping[str, Value]:
        """Facts for rewards at the end of the episode (optional). The host prefixes each name with the tool's name."""
        raise NotImplementedError
