"""Helpful errors for features that a component lacks: files, processes, sockets and interactive input.

The sandbox excludes these features by itself. The guards only fail earlier and with a clearer message.
"""

from __future__ import annotations

import builtins
import io
import os
import socket
from collections.abc import Callable
from typing import Any, NoReturn

FILES = "there are no files here: keep what you need in variables"
PROCESSES = "there are no other programs here: write it in Python"
NETWORK = "there is no network here"
NOBODY = "there is nobody to ask here: put the value into the code"


def _refuse(error: type[Exception], words: str) -> Callable[..., NoReturn]:
    def refused(*_: Any, **__: Any) -> NoReturn:
        raise error(words)

    return refused


_files = _refuse(PermissionError, FILES)
_processes = _refuse(PermissionError, PROCESSES)

_REFUSED: tuple[tuple[Any, str, Callable[..., NoReturn]], ...] = (
    (builtins, "open", _files),
    (io, "open", _files),
    (os, "open", _files),
    (os, "listdir", _files),
    (os, "mkdir", _files),
    (os, "remove", _files),
    (os, "scandir", _files),
    (os, "system", _processes),
    (os, "popen", _processes),
    (os, "fork", _processes),
    (os, "execv", _processes),
    (os, "execvp", _processes),
    (os, "kill", _processes),
    (builtins, "input", _refuse(EOFError, NOBODY)),
    (socket, "socket", _refuse(PermissionError, NETWORK)),
    (socket, "create_connection", _refuse(PermissionError, NETWORK)),
    (socket, "getaddrinfo", _refuse(PermissionError, NETWORK)),
)

_ABSENT = object()


class Guards:
    """Context manager that replaces unavailable functions by ones that raise an error."""

    def __enter__(self) -> None:
        self._before = [getattr(place, name, _ABSENT) for place, name, _ in _REFUSED]
        for place, name, refusal in _REFUSED:
            setattr(place, name, refusal)

    def __exit__(self, *_: object) -> None:
        for (place, name, _refusal), before in zip(_REFUSED, self._before, strict=True):
            if before is _ABSENT:
                delattr(place, name)
            else:
                setattr(place, name, before)
