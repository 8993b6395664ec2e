"""Errors of the contract, reported to the host, and mistakes of an agent, reported to the agent."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .content import Task


class Error(Exception):
    """Reason why a plugin could not serve a request of the host. For errors of an agent use `Mistake`.

    Any other exception is a bug: it ends the plugin's instance, and the log shows its traceback.
    """


class Invalid(Error):
    """Unknown or out-of-range option or task."""


class NotFound(Error):
    """Unknown split, task, handle or function."""

    @classmethod
    def split(cls, task: Task, known: list[str]) -> NotFound:
        """Error for an unknown split; `known` lists the existing ones."""
        return cls(f"unknown split `{task.split}`; known: {', '.join(known)}")


class BadSnapshot(Error):
    """Bytes passed to `restore` are not a snapshot of this plugin."""


class Denied(Error):
    """Capability not declared or not granted."""


class Mistake(Exception):
    """Error of an agent, with a message that helps the agent.

    Raised from `Tool.call`, it becomes a failed answer. Raised from `Environment.step` before any state changed, it
    becomes an observation of the acting seat, which may try again.
    """
