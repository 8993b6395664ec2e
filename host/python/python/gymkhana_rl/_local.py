"""Python classes of gymkhana-sdk in place of plugins, for prototypes: in this process, without a sandbox.

    import gymkhana_rl as gk

    env = gk.local(Guess).env(split="train", seed=1)
"""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING, Any

from . import _native
from .errors import LoadError

if TYPE_CHECKING:
    from ._native import Plugin


def local(kind: type) -> Plugin:
    """The class of an environment, a tool or a reward, as a plugin without a sandbox. Needs the package gymkhana-sdk.

    Raises LoadError for another class, and for one that lacks a required method.
    """
    try:
        from gymkhana_sdk import abilities
    except ImportError as error:
        raise LoadError(f"cannot import `gymkhana_sdk`: {error}", "pip install gymkhana-sdk") from error
    from ._local_code import CODE

    shown = getattr(kind, "__name__", repr(kind))
    found = [name for name, base in abilities.KINDS.items() if isinstance(kind, type) and issubclass(kind, base)]
    if len(found) != 1:
        raise LoadError(
            f"`{shown}` cannot be used: it is not a class of one kind of plugin",
            "give a subclass of Environment, Tool or Reward of gymkhana_sdk",
        )
    base = abilities.KINDS[found[0]]
    for methods in abilities.REQUIRED[found[0]]:
        if not any(_overrides(kind, base, method) for method in methods):
            lacking = " or ".join(f"`{method}`" for method in methods)
            raise LoadError(f"`{shown}` cannot be used: it does not define {lacking}", "define it")
    offered = [method for method in abilities.OPTIONAL[found[0]] if _overrides(kind, base, method)]
    return _native.local(kind, CODE[found[0]](kind), _name(shown), found[0], offered, _source(kind))


def _overrides(kind: type, base: type, method: str) -> bool:
    """Whether a class overrides a method of its kind, also a class method, which each look-up binds again."""
    own, default = getattr(kind, method), getattr(base, method)
    return getattr(own, "__func__", own) is not getattr(default, "__func__", default)


def _name(name: str) -> str:
    """The plugin's name without its namespace: `frozen-lake` for the class `FrozenLake`."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", name).lower()
    return re.sub(r"[^a-z0-9]+", "-", words)[:64].strip("-") or "unnamed"


def _source(kind: Any) -> str:
    """The class's text, or its place where there is no text."""
    try:
        return inspect.getsource(kind)
    except (OSError, TypeError):
        return f"{kind.__module__}.{kind.__qualname__}"
