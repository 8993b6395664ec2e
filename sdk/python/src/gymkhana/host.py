"""Whether there is a host, and what its capabilities answer where there is none."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import NoReturn

from .errors import Denied

try:
    import wit_world.imports  # noqa: F401 - made by componentize-py; absent in native tests

    HOSTED = True
except ImportError:
    HOSTED = False


def capability(name: str) -> ModuleType | None:
    """The host's functions of this capability; None in native tests, and for one that was not asked for."""
    try:
        return import_module(f"wit_world.imports.{name}") if HOSTED else None
    except ImportError:
        return None


def missing(name: str) -> NoReturn:
    """Raises what a capability answers where it is not."""
    if HOSTED:
        raise Denied(f'add "{name}" to `capabilities` under `[tool.gymkhana]` in pyproject.toml and build again')
    raise Denied(f"`{name}` needs a host, and native tests have none")
