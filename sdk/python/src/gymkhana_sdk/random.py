"""Random bits from the host's stream for this episode, plugin and call; a replay draws the same bits.

In native tests the stream has a fixed seed. For numbers that depend only on the episode's seed, use `gymkhana_sdk.Rng`.
"""

from __future__ import annotations

from .host import capability
from .rng import Rng

_host = capability("random")
_stream = Rng(0)


def next() -> int:
    """Next 64 bits."""
    return _host.next() if _host is not None else _stream.bits()


def fill(length: int) -> bytes:
    """`length` random bytes."""
    return _host.fill(length) if _host is not None else bytes(_stream.bits() & 255 for _ in range(length))
