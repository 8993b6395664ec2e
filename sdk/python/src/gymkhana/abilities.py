"""What an author's classes offer, found by importing them as a plain Python does.

Run by the build in a process of its own, `python -m gymkhana.abilities KIND=MODULE:CLASS …`: one line of JSON.
"""

from __future__ import annotations

import importlib
import json
import sys

from .environment import Environment
from .reward import Reward
from .rules import offers
from .tool import Tool

KINDS: dict[str, type] = {"environment": Environment, "tool": Tool, "reward": Reward}

OPTIONAL = {
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
"""The optional interfaces by the method that an author overrides to offer them."""


def find(kind: str, place: str) -> type:
    """The class at `module:class`. Raises `ValueError` in words for the author."""
    module, name = place.split(":")
    try:
        found = getattr(importlib.import_module(module), name)
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
        raise ValueError(f"there is no module `{module}`, which [tool.gymkhana] names in `{kind} = \"{place}\"`") from None
    except AttributeError:
        raise ValueError(f"module `{module}` has no `{name}`, which [tool.gymkhana] names in `{kind}`") from None
    if not isinstance(found, type) or not issubclass(found, KINDS[kind]):
        raise ValueError(f"`{place}` is no subclass of gymkhana.{KINDS[kind].__name__}")
    if not found.summary:
        raise ValueError(f"`{place}` needs `summary`, one line for people")
    for method in ("snapshot", "restore"):
        other = {"snapshot": "restore", "restore": "snapshot"}[method]
        if hasattr(found, method) and offers(found, KINDS[kind], method) > offers(found, KINDS[kind], other):
            raise ValueError(f"`{place}` defines `{method}` and not `{other}`: define both or neither")
    return found


def describe(classes: dict[str, str]) -> dict[str, object]:
    """The interfaces that the classes export together, and the reward's range."""
    interfaces: list[str] = []
    reward_range = None
    for kind, place in classes.items():
        found = find(kind, place)
        optional = OPTIONAL[kind].items()
        interfaces += [kind, *(name for method, name in optional if offers(found, KINDS[kind], method))]
        if kind == "reward":
            reward_range = list(found.range)
    return {"interfaces": interfaces, "range": reward_range}


if __name__ == "__main__":
    try:
        print(json.dumps(describe(dict(word.split("=", 1) for word in sys.argv[1:]))))
    except ValueError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
