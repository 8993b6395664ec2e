"""Functions that a policy may call, with state of their own for each episode.

    class Greeter(Tool):
        '''Greets whom the agent names.'''

        summary = "Greets"

        @classmethod
        def functions(cls, options):
            return [Function("greet", "Greets somebody.", {"name": Parameter(str, "who")})]

        def call(self, call):
            return f"Hello, {call.text('name')}!"
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from .content import Call, Content, Function, Value
from .options import Option, Options


@dataclass
class Answer:
    """What a call gave. A failed answer says why, in words that help the agent."""

    content: Content
    failed: bool = False


class Tool:
    """A tool. An instance is one session: what the tool remembers during one episode.

    What a class overrides of the optional methods, from `snapshot` on, it offers to the host.
    """

    summary: ClassVar[str] = ""
    """One line for people."""
    options: ClassVar[Sequence[Option]] = ()
    """The options that a run file may set."""

    @classmethod
    def functions(cls, options: Options) -> list[Function]:
        """The functions under these options."""
        raise NotImplementedError("a tool defines `functions`")

    def open(self, setup: bytes | None, options: Options, seed: int) -> None:
        """Opens this session. `setup` is what the environment prepared for this tool, if anything.

        Raises `Invalid` for a setup that the tool cannot use.
        """

    def call(self, call: Call) -> Content | Answer:
        """Calls a function, one of those that `functions` names.

        What the agent did wrong is raised as `Mistake` or returned as a failed `Answer`.
        """
        raise NotImplementedError("a tool defines `call`")

    def close(self) -> None:
        """The session ends."""

    def snapshot(self) -> bytes:
        """Optional: the whole state."""
        raise NotImplementedError

    def restore(self, snapshot: bytes) -> None:
        """With `snapshot`: puts this new instance into the state that `snapshot` saw.

        Whatever it raises says that the bytes are no snapshot.
        """
        raise NotImplementedError

    def final_view(self) -> Mapping[str, Value]:
        """Optional: what rewards may see once the episode is over; the host puts the tool's name before the names."""
        raise NotImplementedError
