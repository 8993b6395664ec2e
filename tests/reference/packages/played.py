"""A component in `host plugin play`, one line at a time."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path


class Played:
    """A running `host plugin play`, whose answers have one line each."""

    def __init__(self, host: Path, component: Path, kind: str, functions: int) -> None:
        self._process = subprocess.Popen(
            [host, "plugin", "play", component],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            bufsize=1,
        )
        # A tool lists its functions, each with its schema; an environment its task and the first observation.
        for _ in range(2 * functions if kind == "tool" else 2):
            self._process.stdout.readline()

    def __enter__(self) -> Played:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def say(self, line: str) -> tuple[str, float]:
        """First line of the answer to a line, and the seconds until it came."""
        start = time.perf_counter()
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        seconds = time.perf_counter() - start
        if not answer:
            raise RuntimeError(f"no answer to `{line}`: {self._process.communicate()[1][-2000:]}")
        return answer.rstrip("\n"), seconds

    def say_then(self, line: str, next_line: str, mark: str) -> str:
        """First line of the answer to `line`. `next_line`, whose answer contains `mark`, ends a longer answer."""
        answer, _ = self.say(line)
        following, _ = self.say(next_line)
        while mark not in following:
            following = self._process.stdout.readline()
            if not following:
                raise RuntimeError(f"`{line}` ended the session: {self._process.communicate()[1][-2000:]}")
        return answer
