"""Lines for the run's log, capped by the host. In native tests they go nowhere."""

from __future__ import annotations

from .host import capability

_host = capability("log")


def _write(level: str, message: str) -> None:
    if _host is not None:
        _host.write(_host.Level[level], message)


def debug(message: str) -> None:
    """For the author's eyes."""
    _write("DEBUG", message)


def info(message: str) -> None:
    """Worth knowing."""
    _write("INFO", message)


def warn(message: str) -> None:
    """Worth a look."""
    _write("WARN", message)


def error(message: str) -> None:
    """Something went wrong."""
    _write("ERROR", message)
