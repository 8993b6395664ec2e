"""Tracebacks for an agent: short, without the interpreter's frames, with a hint for common errors."""

from __future__ import annotations

import linecache
import traceback

_MOST_FRAMES = 12

_NETWORK_MODULES = {"requests", "httpx", "aiohttp", "ssl", "urllib3"}


def remember(name: str, code: str) -> None:
    """Registers the source of a cell for use in tracebacks."""
    linecache.cache[name] = (len(code), None, code.splitlines(keepends=True), name)


def describe(error: BaseException) -> str:
    """Last line of a traceback: exception type and message."""
    return "".join(traceback.format_exception_only(error)).strip().splitlines()[-1]


def explain(error: BaseException, own: str) -> str:
    """Traceback without the frames of the interpreter, whose code is in the folder `own`."""
    told = traceback.TracebackException(type(error), error, error.__traceback__, compact=True, max_group_depth=3)
    frames = [frame for frame in told.stack if not frame.filename.startswith(own)]
    told.stack = traceback.StackSummary.from_list(frames)
    if len(told.stack) > _MOST_FRAMES and not isinstance(error, RecursionError):
        half = _MOST_FRAMES // 2
        told.stack = traceback.StackSummary.from_list([*told.stack[:half], *told.stack[-half:]])
    lines = "".join(told.format(chain=False))
    return lines.rstrip("\n") + _hint(error)


def _hint(error: BaseException) -> str:
    # A component names a module that it cannot have as `module`.
    name = getattr(error, "module", None) or getattr(error, "name", None)
    if isinstance(error, ModuleNotFoundError) and name:
        if name.lstrip("_").split(".")[0] in _NETWORK_MODULES:
            return "\n(there is no network here)"
        return "\n(only Python's standard library and SymPy are here, and nothing can be installed)"
    if isinstance(error, SystemExit):
        return "\n(the interpreter goes on; what you defined is still there)"
    return ""
