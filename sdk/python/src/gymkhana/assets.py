"""Files that the run mounts for this plugin, read-only and addressed by content. Needs the capability `assets`."""

from __future__ import annotations

from dataclasses import dataclass

from .host import capability, missing

_host = capability("assets")
_PIECE = 1 << 20


@dataclass(frozen=True)
class AssetInfo:
    """A file that is mounted."""

    name: str
    size: int
    """In bytes."""
    digest: str
    """sha256 of the content, 64 hexadecimal digits."""


def names() -> list[AssetInfo]:
    """What is mounted; nothing in native tests."""
    if _host is None:
        return []
    return [AssetInfo(asset.name, asset.size, asset.digest) for asset in _host.names()]


def read(name: str, offset: int = 0, length: int | None = None) -> bytes:
    """At most `length` bytes from `offset`, fewer at the end; everything from there when no length is given.

    Raises `NotFound` for an unknown name, `Denied` without a grant.
    """
    if _host is None:
        missing("assets")
    from ._component.convert import raised

    with raised():
        if length is not None:
            return _host.read(name, offset, length)
        pieces = []
        while piece := _host.read(name, offset, _PIECE):
            pieces.append(piece)
            offset += len(piece)
        return b"".join(pieces)
