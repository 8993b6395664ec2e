"""Random bits from the host's stream of this episode, this plugin and this call: a replay draws the same.

In native tests the stream has a fixed seed. For what must follow from the episode's seed alone use `gymkhana.Rng`.
"""

from __future__ import annotations

from .host import capability
from .rng import Rng

_host = capability("random")
_stream = Rng(0)


def next() -> int:
    """The next 64 bits."""
    return _host.next() if _host is not None else _stream.bits()


def fill(length: int) -> bytes:
    """`length` bytes."""
    return _host.fill(length) if _host is not None else bytes(_stream.bits() & 255 for _ in range(length))
