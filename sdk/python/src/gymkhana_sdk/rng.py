"""Seeded random numbers, the same on every platform and in every version."""

from __future__ import annotations

import random as _random
from collections.abc import MutableSequence, Sequence
from typing import Any, TypeVar

_MASK = (1 << 64) - 1
_Item = TypeVar("_Item")


def _finalise(bits: int) -> int:
    bits = ((bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    bits = ((bits ^ (bits >> 27)) * 0x94D049BB133111EB) & _MASK
    return bits ^ (bits >> 31)


def hash64(content: bytes) -> int:
    """64-bit hash (finalised FNV-1a), the same in every process and in the Rust and JavaScript SDKs.

    Use it for splits and seeds, not for security. Python's own `hash` of text differs between builds.
    """
    bits = 0xCBF29CE484222325
    for byte in content:
        bits = ((bits ^ byte) * 0x100000001B3) & _MASK
    return _finalise(bits)


class Rng(_random.Random):
    """SplitMix64 generator: small and portable; its state is one integer, which a snapshot can hold.

    It inherits every method of `random.Random`. The methods defined here draw the same numbers as the Rust and
    JavaScript SDKs.
    """

    state: int
    """64-bit state; `Rng(rng.state)` continues the stream of `rng`."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)

    def seed(self, a: int = 0, version: int = 2) -> None:  # type: ignore[override]
        """Restarts the stream from a 64-bit seed; `version` is ignored."""
        self.state = a & _MASK
        self.gauss_next = None

    def getstate(self) -> tuple[int, float | None]:  # type: ignore[override]
        """State for `setstate`."""
        return self.state, self.gauss_next

    def setstate(self, state: tuple[int, float | None]) -> None:  # type: ignore[override]
        """Restores what `getstate` returned."""
        self.state, self.gauss_next = state  # type: ignore[assignment]

    def bits(self) -> int:
        """Next 64 bits."""
        self.state = (self.state + 0x9E3779B97F4A7C15) & _MASK
        return _finalise(self.state)

    def getrandbits(self, k: int, /) -> int:
        """Integer of `k` random bits."""
        words = -(-k // 64)
        drawn = sum(self.bits() << (64 * place) for place in range(words))
        return drawn >> (64 * words - k)

    def random(self) -> float:
        """Uniform number in [0, 1), a multiple of 2^-53."""
        return (self.bits() >> 11) / (1 << 53)

    def below(self, bound: int) -> int:
        """Uniform integer in `0..bound`, excluding `bound`. Raises `ValueError` if `bound` is not positive."""
        if bound <= 0:
            raise ValueError(f"empty range: `bound` must be positive, not {bound}")
        # Lemire's method: a low half below the threshold would bias the result and is rejected.
        threshold = (1 << 64) % bound
        while True:
            product = self.bits() * bound
            if product & _MASK >= threshold:
                return product >> 64

    def between(self, low: int, high: int) -> int:
        """Uniform integer from `low` to `high`, both inclusive. Raises `ValueError` if `low > high`."""
        if low > high:
            raise ValueError(f"empty range: {low} to {high}")
        return low + self.below(high - low + 1)

    def unit(self) -> float:
        """Uniform number in [0, 1), a multiple of 2^-53."""
        return self.random()

    def pick(self, items: Sequence[_Item]) -> _Item:
        """Uniformly chosen element of `items`."""
        return items[self.below(len(items))]

    def shuffle(self, x: MutableSequence[Any]) -> None:
        """Shuffles a list in place."""
        for last in range(len(x) - 1, 0, -1):
            other = self.below(last + 1)
            x[last], x[other] = x[other], x[last]
