"""What unpickling calls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ._native import Env, Plugin, Reward, Tool, load
from .errors import LoadError


def plugin(source: str | bytes, digest: str, keywords: Mapping[str, Any]) -> Plugin:
    """Loads a plugin again: by name and version, or from its bytes. It must be the same component."""
    loaded = load(source, **keywords)
    if loaded.digest != digest:
        raise LoadError(
            f"plugin `{loaded.name}` cannot be unpickled: its digest is {loaded.digest}, and it was {digest}",
            "use the same registry in all processes",
        )
    return loaded


def wrapper(outer: Plugin, inner: Plugin, options: Mapping[str, Any]) -> Plugin:
    """Puts a wrapper around an environment again."""
    return outer.around(inner, options=options)


def env(plugin: Plugin, state: bytes, tools: tuple[Plugin | Tool, ...]) -> Env:
    """Opens an environment from its snapshot."""
    return plugin.restore(state, tools=tools)


def tool(plugin: Plugin, seed: int, options: Mapping[str, Any]) -> Tool:
    """Opens a tool that was not called yet."""
    return plugin.tool(seed=seed, options=options)


def reward(plugin: Plugin, seed: int, options: Mapping[str, Any]) -> Reward:
    """Opens a reward."""
    return plugin.reward(seed=seed, **options)
