"""Threads for the `async` twins."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

_Result = TypeVar("_Result")

_executor: ThreadPoolExecutor | None = None


def _threads() -> ThreadPoolExecutor:
    global _executor
    if _executor is None:
        _executor = ThreadPoolExecutor(max_workers=min(32, 4 * (os.cpu_count() or 1)), thread_name_prefix="gymkhana")
    return _executor


def _forget() -> None:
    """The threads do not exist in a forked child."""
    global _executor
    _executor = None


os.register_at_fork(after_in_child=_forget)


async def in_thread(
    method: Callable[..., _Result], args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
) -> _Result:
    """The result of a call that runs on another thread."""
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(_threads(), partial(method, *args, **(kwargs or {})))
