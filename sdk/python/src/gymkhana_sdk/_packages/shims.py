"""Functions of the standard library that cannot work inside a component: they fail with the reason when called."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, NoReturn

ONE_THREAD = "a plugin runs in one thread; call the function directly"
ONE_PROCESS = "a plugin cannot start processes; do the work in Python"
NO_NETWORK = "a plugin has no sockets; declare the capability `http` and use `gymkhana_sdk.http`"


def refuse(name: str, reason: str, error: type[Exception]) -> Callable[..., NoReturn]:
    """Function that raises an error with its name and the reason."""

    def refused(*_: Any, **__: Any) -> NoReturn:
        raise error(f"{name}: {reason}")

    refused.__name__ = name.rpartition(".")[2]
    return refused


def _threading(module: Any) -> None:
    # Thread pools and timers call it too.
    module.Thread.start = refuse("threading.Thread.start", ONE_THREAD, RuntimeError)


def _thread(module: Any) -> None:
    for name in ("start_new_thread", "start_joinable_thread"):
        setattr(module, name, refuse(f"_thread.{name}", ONE_THREAD, RuntimeError))


def _socket(module: Any) -> None:
    module.socket.__init__ = refuse("socket.socket", NO_NETWORK, OSError)
    for name in (
        "create_connection create_server fromfd getaddrinfo gethostbyaddr gethostbyname gethostbyname_ex getnameinfo "
        "socketpair"
    ).split():
        setattr(module, name, refuse(f"socket.{name}", NO_NETWORK, OSError))


def _subprocess(module: Any) -> None:
    module.Popen.__init__ = refuse("subprocess.Popen", ONE_PROCESS, OSError)
    for name in ("run", "call", "check_call", "check_output", "getoutput", "getstatusoutput"):
        setattr(module, name, refuse(f"subprocess.{name}", ONE_PROCESS, OSError))


def _process(module: Any) -> None:
    module.BaseProcess.start = refuse("multiprocessing.Process.start", ONE_PROCESS, OSError)


def _context(module: Any) -> None:
    for name in (
        "Manager Pipe Lock RLock Condition Semaphore BoundedSemaphore Event Barrier Queue JoinableQueue SimpleQueue "
        "Pool RawValue RawArray Value Array"
    ).split():
        setattr(module.BaseContext, name, refuse(f"multiprocessing.{name}", ONE_PROCESS, OSError))


def _process_pool(module: Any) -> None:
    pool = "concurrent.futures.ProcessPoolExecutor"
    module.ProcessPoolExecutor.__init__ = refuse(pool, ONE_PROCESS, OSError)


PATCHES: dict[str, Callable[[Any], None]] = {
    "_thread": _thread,
    "threading": _threading,
    "socket": _socket,
    "subprocess": _subprocess,
    "multiprocessing.process": _process,
    "multiprocessing.context": _context,
    "concurrent.futures.process": _process_pool,
}
"""Changes of modules of the standard library, made when the module is imported."""


class Patcher:
    """Finder that applies `PATCHES` to modules that are imported later."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name not in PATCHES:
            return None
        for finder in sys.meta_path:
            spec = None if finder is self else finder.find_spec(name, path, target)
            if spec is not None:
                spec.loader = _Loader(spec.loader, PATCHES[name])  # type: ignore[assignment]
                return spec
        return None


class _Loader:
    """Loader of a module that is changed after its code has run."""

    def __init__(self, loader: Any, patch: Callable[[Any], None]) -> None:
        self._loader, self._patch = loader, patch

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        self._patch(module)


def install() -> None:
    """Changes imported modules now and others when they are imported."""
    for name, patch in PATCHES.items():
        if name in sys.modules:
            patch(sys.modules[name])
    sys.meta_path.insert(0, Patcher())
