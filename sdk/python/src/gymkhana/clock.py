"""Time that passes only when the host says so: the same on every replay. In native tests it stands at 0."""

from __future__ import annotations

from .host import capability

_host = capability("clock")


def now() -> int:
    """Nanoseconds since the episode began."""
    return _host.now() if _host is not None else 0
