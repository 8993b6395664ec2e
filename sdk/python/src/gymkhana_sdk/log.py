"""Messages for the run's log, limited in size by the host and discarded in native tests."""

from __future__ import annotations

from .host import capability

_host = capability("log")


def _write(level: str, message: str) -> None:
    if _host is not None:
        _host.write(_host.Level[level], message)


def debug(message: str) -> None:
    """Logs a message for debugging."""
    _write("DEBUG", message)


def info(message: str) -> None:
    """Logs an informative message."""
    _write("INFO", message)


def warn(message: str) -> None:
    """Logs a warning."""
    _write("WARN", message)


def error(message: str) -> None:
    """Logs an error."""
    _write("ERROR", message)
