"""What goes wrong: the contract's errors, which the host sees, and an agent's mistakes, which the agent sees."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .content import Task


class Error(Exception):
    """Why a plugin could not do what the host asked. Never what an agent did wrong: that is a `Mistake`.

    Any other exception ends the plugin's instance: it is a bug, and its traceback stands in the log.
    """


class Invalid(Error):
    """An option or a task that this plugin does not know or that is out of range."""


class NotFound(Error):
    """There is no such split, task, handle or function."""

    @classmethod
    def split(cls, task: Task, known: list[str]) -> NotFound:
        """No such task, because the split is unknown; `known` are those that there are."""
        return cls(f"there is no split `{task.split}`; there are: {', '.join(known)}")


class BadSnapshot(Error):
    """Bytes given to `restore` are not a snapshot of this plugin."""


class Denied(Error):
    """A capability that the plugin needs was refused."""


class Mistake(Exception):
    """What an agent did wrong, in words that help it.

    Raised from `Tool.call` it becomes a failed answer; raised from `Environment.step`, before anything changed, it
    becomes an observation of the seat that acted, which may try again.
    """
