"""Random numbers that follow from a seed, on every platform and in every version."""

from __future__ import annotations

import random as _random
from collections.abc import Sequence
from typing import TypeVar

_MASK = (1 << 64) - 1
_Item = TypeVar("_Item")


def _finalise(bits: int) -> int:
    bits = ((bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    bits = ((bits ^ (bits >> 27)) * 0x94D049BB133111EB) & _MASK
    return bits ^ (bits >> 31)


def hash64(content: bytes) -> int:
    """A 64-bit hash, the same in every process and in the Rust and JavaScript SDKs: FNV-1a, finalised.

    For splits and seeds, not for security. Python's own `hash` of text differs from build to build.
    """
    bits = 0xCBF29CE484222325
    for byte in content:
        bits = ((bits ^ byte) * 0x100000001B3) & _MASK
    return _finalise(bits)


class Rng(_random.Random):
    """SplitMix64: small, portable, and its whole state is one number, which a snapshot can hold.

    All of `random.Random` is there as well. What this class defines itself draws the same numbers as the Rust and
    JavaScript SDKs.
    """

    state: int
    """`Rng(rng.state)` goes on where `rng` is."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)

    def seed(self, a: int = 0, version: int = 2) -> None:  # noqa: ARG002 - the signature of random.Random
        """Starts the stream of a 64-bit seed."""
        self.state = a & _MASK
        self.gauss_next = None

    def getstate(self) -> tuple[int, float | None]:
        return self.state, self.gauss_next

    def setstate(self, state: tuple[int, float | None]) -> None:
        self.state, self.gauss_next = state

    def bits(self) -> int:
        """The next 64 bits."""
        self.state = (self.state + 0x9E3779B97F4A7C15) & _MASK
        return _finalise(self.state)

    def getrandbits(self, k: int, /) -> int:
        words = -(-k // 64)
        drawn = sum(self.bits() << (64 * place) for place in range(words))
        return drawn >> (64 * words - k)

    def random(self) -> float:
        """A number in 0.0..1.0, a multiple of 2^-53."""
        return (self.bits() >> 11) / (1 << 53)

    def below(self, bound: int) -> int:
        """A number below `bound`, each with the same probability."""
        if bound <= 0:
            raise ValueError("no number is below 0")
        # Lemire's rejection: the low half of the product says whether this draw would favour some numbers.
        threshold = (1 << 64) % bound
        while True:
            product = self.bits() * bound
            if product & _MASK >= threshold:
                return product >> 64

    def between(self, low: int, high: int) -> int:
        """A number from `low` to `high`, both included."""
        if low > high:
            raise ValueError(f"no number is between {low} and {high}")
        return low + self.below(high - low + 1)

    def unit(self) -> float:
        """A number in 0.0..1.0, a multiple of 2^-53."""
        return self.random()

    def pick(self, items: Sequence[_Item]) -> _Item:
        """One of `items`."""
        return items[self.below(len(items))]

    def shuffle(self, x: list) -> None:
        """Puts a list into a random order."""
        for last in range(len(x) - 1, 0, -1):
            other = self.below(last + 1)
            x[last], x[other] = x[other], x[last]
