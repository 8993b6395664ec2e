"""Open episodes and sessions of this instance, by handle."""

from __future__ import annotations

from typing import Generic, TypeVar

from ..errors import NotFound

Thing = TypeVar("Thing")


class Handles(Generic[Thing]):
    """Objects of one kind by handle. Handles are never reused, so a closed handle stays invalid."""

    def __init__(self) -> None:
        self._things: dict[int, Thing] = {}
        self._next = 0

    def open(self, thing: Thing) -> int:
        """Stores an object and returns its handle."""
        handle = self._next
        self._next += 1
        self._things[handle] = thing
        return handle

    def __getitem__(self, handle: int) -> Thing:
        """Object behind a handle. Raises `NotFound` for a closed or unknown handle."""
        try:
            return self._things[handle]
        except KeyError:
            raise NotFound(f"handle {handle} is not open") from None

    def close(self, handle: int) -> Thing | None:
        """Removes and returns the object behind a handle, or None for an unknown handle."""
        return self._things.pop(handle, None)
