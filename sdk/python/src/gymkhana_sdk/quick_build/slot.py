"""Slot in the memory of a component for the modules of its author.

A build finds the slot in the component's file by its mark and writes over the filling: four bytes of length, little
endian, and the content.
"""

from __future__ import annotations

import struct

SLOT_BYTES = 1 << 19
"""Size of the slot with its mark."""

MARK = b"gymkhana:modules"

FILLING = b"\xa5"
"""Byte of an empty slot. It is not zero: a component's file omits what is."""

_LENGTH = struct.Struct("<I")


def empty() -> bytes:
    """Slot without content."""
    return MARK.ljust(SLOT_BYTES, FILLING)


def filled(content: bytes) -> bytes | None:
    """Bytes after the mark of a slot with this content; None if the slot is too small."""
    fits = len(MARK) + _LENGTH.size + len(content) <= SLOT_BYTES
    return _LENGTH.pack(len(content)) + content if fits else None


def content(slot: bytes) -> bytes:
    """Content of a slot. Raises `ValueError` for an empty one."""
    (length,) = _LENGTH.unpack_from(slot, len(MARK))
    start = len(MARK) + _LENGTH.size
    if start + length > len(slot):
        raise ValueError("the component is the base of quick builds: it contains no plugin")
    return slot[start : start + length]
