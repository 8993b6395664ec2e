"""What is open in this instance: episodes and sessions by their handles."""

from __future__ import annotations

from typing import Generic, TypeVar

from ..errors import NotFound

Thing = TypeVar("Thing")


class Handles(Generic[Thing]):
    """Things of one kind. Handles are never used twice, so that a closed one cannot name something else."""

    def __init__(self) -> None:
        self._things: dict[int, Thing] = {}
        self._next = 0

    def open(self, thing: Thing) -> int:
        """Keeps a thing and gives its handle."""
        handle = self._next
        self._next += 1
        self._things[handle] = thing
        return handle

    def __getitem__(self, handle: int) -> Thing:
        """The thing behind a handle. Raises `NotFound` for one that is not open."""
        try:
            return self._things[handle]
        except KeyError:
            raise NotFound(f"handle {handle} is not open") from None

    def close(self, handle: int) -> Thing | None:
        """Forgets the thing behind a handle and gives it; an unknown handle is let be."""
        return self._things.pop(handle, None)
