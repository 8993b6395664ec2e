"""Virtual time of the episode, controlled by the host and equal on every replay. Always 0 in native tests."""

from __future__ import annotations

from .host import capability

_host = capability("clock")


def now() -> int:
    """Nanoseconds since the start of the episode."""
    return _host.now() if _host is not None else 0
