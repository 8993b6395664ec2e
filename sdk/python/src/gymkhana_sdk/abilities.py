"""Optional interfaces that an author's classes implement, found by importing the classes.

The build runs `python -m gymkhana_sdk.abilities KIND=MODULE:CLASS …` in a separate process and reads one line of JSON.
"""

from __future__ import annotations

import importlib
import json
import sys

from .environment import Environment
from .reward import Reward
from .rules import offers
from .tool import Tool

KINDS: dict[str, type[Environment] | type[Tool] | type[Reward]] = {
    "environment": Environment,
    "tool": Tool,
    "reward": Reward,
}

OPTIONAL: dict[str, dict[str, str]] = {
    "environment": {
        "snapshot": "environment-snapshot",
        "state_key": "environment-state-key",
        "privileged": "environment-privileged",
        "advise": "environment-oracle",
        "guidance": "environment-guidance",
        "render": "environment-render",
    },
    "tool": {"snapshot": "tool-snapshot", "final_view": "tool-final-view"},
    "reward": {},
}
"""Optional interface of each method that an author may override, by kind."""


def find(kind: str, place: str) -> type[Environment] | type[Tool] | type[Reward]:
    """Class at `module:class`. Raises `ValueError` with a message for the author."""
    module, name = place.split(":")
    try:
        found = getattr(importlib.import_module(module), name)
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
        raise ValueError(
            f'no module `{module}`, named by `{kind} = "{place}"` in [tool.gymkhana]: create it or correct the name'
        ) from None
    except AttributeError:
        raise ValueError(
            f"module `{module}` has no `{name}`, named by `{kind}` in [tool.gymkhana]: define it or correct the name"
        ) from None
    if not isinstance(found, type) or not issubclass(found, KINDS[kind]):
        raise ValueError(f"`{place}` must be a subclass of gymkhana_sdk.{KINDS[kind].__name__}")
    if not found.summary:
        raise ValueError(f"`{place}` lacks `summary`: add a one-line description")
    for method in ("snapshot", "restore"):
        other = {"snapshot": "restore", "restore": "snapshot"}[method]
        if hasattr(found, method) and offers(found, KINDS[kind], method) > offers(found, KINDS[kind], other):
            raise ValueError(f"`{place}` defines `{method}` but not `{other}`: define both or neither")
    return found


def describe(classes: dict[str, str]) -> dict[str, object]:
    """Interfaces that the classes export together, and the reward's range (None without a reward)."""
    interfaces: list[str] = []
    reward_range = None
    for kind, place in classes.items():
        found = find(kind, place)
        optional = OPTIONAL[kind].items()
        interfaces += [kind, *(name for method, name in optional if offers(found, KINDS[kind], method))]
        if issubclass(found, Reward):
            reward_range = list(found.range)
    return {"interfaces": interfaces, "range": reward_range}


if __name__ == "__main__":
    try:
        print(json.dumps(describe(dict(word.split("=", 1) for word in sys.argv[1:]))))
    except ValueError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
