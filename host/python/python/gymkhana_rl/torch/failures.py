"""Last words of a rank: the file from which the host learns why the processes ended."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

_PEERS = ("Connection closed by peer", "Connection reset by peer", "Broken pipe", "NCCL", "Socket closed")
_MEMORY = ("out of memory", "can't allocate memory", "not enough memory", "Cannot allocate memory")
_SETTLED = 1.5
"""Seconds in which a rank whose connection broke waits for the words of the rank that failed first."""


class NotFinite(Exception):
    """A model that computes numbers that are not finite."""


class Failures:
    """Writer of `rank-<n>.json` in a folder."""

    def __init__(self, folder: str, rank: int) -> None:
        self._folder, self._rank = Path(folder), rank
        self._folder.mkdir(parents=True, exist_ok=True)
        self.expects_end: Callable[[], bool] = lambda: False  # whether the host is gone, so that errors are no failures

    def report_signals(self) -> None:
        """Writes a file before SIGTERM, with which `torchrun` ends the other ranks, ends this one.

        The signal is blocked in all threads and awaited in one, because no Python handler runs during a collective.
        """
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})

        def wait() -> None:
            signal.sigwait({signal.SIGTERM})
            self._write("ended", "torchrun ended this rank: another rank failed, or torchrun itself was ended")
            os._exit(1)

        threading.Thread(target=wait, daemon=True).start()

    def fail(self, error: BaseException) -> NoReturn:
        """Writes why the rank failed, and ends it with exit code 1."""
        if self.expects_end():
            os._exit(0)
        traceback.print_exception(error)
        sys.stderr.flush()
        kind = kind_of(error)
        if kind == "disconnected":
            time.sleep(_SETTLED)
        self._write(kind, f"{type(error).__name__}: {error}")
        os._exit(1)

    def _write(self, kind: str, text: str) -> None:
        """Writes a file, unless the failure follows from that of a rank that wrote one."""
        if kind in ("ended", "disconnected") and any(self._folder.glob("rank-*.json")):
            return
        path = self._folder / f"rank-{self._rank}.json"
        beside = path.with_suffix(".part")
        beside.write_text(json.dumps({"kind": kind, "text": text[:4000], "rank": self._rank}))
        beside.rename(path)


def kind_of(error: BaseException) -> str:
    """Kind of a failure: `out_of_memory`, `not_finite`, `disconnected` (another rank ended first) or `failed`."""
    text = str(error)
    if isinstance(error, NotFinite):
        return "not_finite"
    if isinstance(error, MemoryError) or any(words in text for words in _MEMORY):
        return "out_of_memory"
    if isinstance(error, RuntimeError) and any(words in text for words in _PEERS):
        return "disconnected"
    return "failed"
