"""Captured output of a program, limited in length: keeps the start and the end, counts the middle."""

from __future__ import annotations

import io


class Output(io.TextIOBase):
    """Text stream that keeps at most `most` characters.

    All cells of a session share one stream: creating and finalizing a stream takes longer than printing a line.
    """

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most_of_head = most // 2
        self._most_of_tail = most - most // 2
        self.begin()

    def begin(self) -> None:
        """Discards the captured output."""
        self._room = self._most_of_head
        self._head: list[str] = []
        self._tail: list[str] = []
        self._tail_length = 0
        self._left_out = 0

    def close(self) -> None:
        """Does nothing, because the next cell also prints here."""

    def writable(self) -> bool:
        """Always True."""
        return True

    def write(self, words: str) -> int:
        """Captures text and returns its length."""
        if not isinstance(words, str):
            raise TypeError(f"write() argument must be str, not {type(words).__name__}")
        length = len(words)
        if length <= self._room:
            self._head.append(words)
            self._room -= length
            return length
        if self._room:
            first = words[: self._room]
            self._head.append(first)
            self._room -= len(first)
            words = words[len(first) :]
        if words:
            if len(words) > self._most_of_tail:
                self._left_out += len(words) - self._most_of_tail
                words = words[len(words) - self._most_of_tail :]
            self._tail.append(words)
            self._tail_length += len(words)
            # Joining rarely keeps many small writes as cheap as a few large ones.
            if self._tail_length > 2 * self._most_of_tail or len(self._tail) > 4096:
                self._shorten()
        return length

    def end_line(self) -> None:
        """Writes a newline unless the output ends with one or is empty."""
        kept = self._tail or self._head
        if kept and not kept[-1].endswith("\n"):
            self.write("\n")

    def _shorten(self) -> None:
        tail = "".join(self._tail)
        kept = tail[-self._most_of_tail :]
        self._left_out += len(tail) - len(kept)
        self._tail, self._tail_length = [kept], len(kept)

    def text(self) -> str:
        """Captured text; a line between its halves states the number of omitted characters."""
        head = "".join(self._head)
        if not self._tail:
            return head
        self._shorten()
        tail = "".join(self._tail)
        if not self._left_out:
            return head + tail
        return f"{head}\n… {self._left_out} characters left out …\n{tail}"
