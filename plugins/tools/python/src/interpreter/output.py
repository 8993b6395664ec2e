"""What a program prints, up to a cap: the beginning and the end are kept, the middle is counted."""

from __future__ import annotations

import io


class Output(io.TextIOBase):
    """A stream that keeps at most `most` characters however much is written.

    One serves all cells of a session: to make and to finalize a stream takes longer than to print a line.
    """

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most_of_head = most // 2
        self._most_of_tail = most - most // 2
        self.begin()

    def begin(self) -> None:
        """Forgets what was written."""
        self._room = self._most_of_head
        self._head: list[str] = []
        self._tail: list[str] = []
        self._tail_length = 0
        self._left_out = 0

    def close(self) -> None:
        """Does nothing: the next cell prints here, too."""

    def writable(self) -> bool:
        return True

    def write(self, words: str) -> int:
        """Takes words in."""
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
            # Seldom, so that many small pieces cost no more than few large ones.
            if self._tail_length > 2 * self._most_of_tail or len(self._tail) > 4096:
                self._shorten()
        return length

    def end_line(self) -> None:
        """Ends a line that was begun."""
        kept = self._tail or self._head
        if kept and not kept[-1].endswith("\n"):
            self.write("\n")

    def _shorten(self) -> None:
        tail = "".join(self._tail)
        kept = tail[-self._most_of_tail :]
        self._left_out += len(tail) - len(kept)
        self._tail, self._tail_length = [kept], len(kept)

    def text(self) -> str:
        """What was kept, with the number of characters that were left out between its halves."""
        head = "".join(self._head)
        if not self._tail:
            return head
        self._shorten()
        tail = "".join(self._tail)
        if not self._left_out:
            return head + tail
        return f"{head}\n… {self._left_out} characters left out …\n{tail}"
