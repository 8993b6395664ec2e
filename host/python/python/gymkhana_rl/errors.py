"""Exceptions. `str(error)` says what failed and why; `error.hint` says what to do, or is None."""

from __future__ import annotations

from typing import Any


class GymkhanaError(Exception):
    """Base of all errors of this package."""

    hint: str | None

    def __init__(self, message: str = "", hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint
        if hint is not None and hasattr(self, "add_note"):
            self.add_note(f"hint: {hint}")

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (str(self), self.hint))


class LoadError(GymkhanaError):
    """A component, a name or a grant cannot be loaded, or is refused."""


class OptionError(GymkhanaError, ValueError):
    """An option, a split, a task, an action or an argument is not one that the plugin or the function has."""


class PluginError(GymkhanaError):
    """A plugin failed: it trapped, ran out of time, fuel or memory, answered against the contract, or refused."""

    plugin: str
    kind: str

    def __init__(self, message: str = "", hint: str | None = None, plugin: str = "", kind: str = "fault") -> None:
        super().__init__(message, hint)
        self.plugin = plugin
        self.kind = kind

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (str(self), self.hint, self.plugin, self.kind))


class PlayError(GymkhanaError):
    """A rollout cannot be played: the server, its model, the plugins or the folder cannot be used."""


class StaleHandleError(GymkhanaError):
    """An object is used in a forked child of the process that made it, or after it was closed."""


class EpisodeEndedError(GymkhanaError):
    """A step or an advice is wanted of an episode that has ended, or has not begun."""
