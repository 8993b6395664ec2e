"""Read-only files that the run mounts for this plugin. Requires the capability `assets`."""

from __future__ import annotations

from dataclasses import dataclass

from .host import capability, missing

_host = capability("assets")
_PIECE = 1 << 20


@dataclass(frozen=True)
class AssetInfo:
    """Mounted file."""

    name: str
    size: int
    """Size in bytes."""
    digest: str
    """SHA-256 of the content, 64 hexadecimal digits."""


def names() -> list[AssetInfo]:
    """Mounted files; empty in native tests."""
    if _host is None:
        return []
    return [AssetInfo(asset.name, asset.size, asset.digest) for asset in _host.names()]


def read(name: str, offset: int = 0, length: int | None = None) -> bytes:
    """Up to `length` bytes from `offset`, or the rest of the file if `length` is None.

    Raises `NotFound` for an unknown name and `Denied` if the run does not grant `assets`.
    """
    if _host is None:
        missing("assets")
    from ._component.convert import raised

    with raised():
        if length is not None:
            return bytes(_host.read(name, offset, length))
        pieces = []
        while piece := _host.read(name, offset, _PIECE):
            pieces.append(piece)
            offset += len(piece)
        return b"".join(pieces)
