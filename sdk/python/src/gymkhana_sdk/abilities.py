"""Optional interfaces that an author's classes implement, found by importing the classes.

The build runs `python -m gymkhana_sdk.abilities FOLDERS KIND=MODULE:CLASS …` in a separate process and reads one line
of JSON. FOLDERS are those of the author's modules, separated as in `PATH`; `placeholders=A,B` names placeholders.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import traceback

from ._packages.native import Placeholders
from .environment import Environment
from .quick_build.modules import watch
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


REQUIRED: dict[str, list[tuple[str, ...]]] = {
    "environment": [("splits",), ("reset",), ("step",)],
    "tool": [("functions",), ("call",)],
    "reward": [("score", "score_group")],
}
"""Methods that an author must override, by kind; one of several is enough."""


def find(kind: str, place: str) -> type[Environment] | type[Tool] | type[Reward]:
    """Class at `module:class`. Raises `ValueError` with a message for the author."""
    module, name = place.split(":")
    try:
        loaded = importlib.import_module(module)
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and error.name == module:
            raise ValueError(
                f'no module `{module}`, named by `{kind} = "{place}"` in [tool.gymkhana]: create it or correct the name'
            ) from None
        raise ValueError(f"cannot import `{module}`:\n{author_traceback(error)}") from None
    found = getattr(loaded, name, None)
    if found is None:
        raise ValueError(
            f"module `{module}` has no `{name}`, named by `{kind}` in [tool.gymkhana]: define it or correct the name"
        )
    if not isinstance(found, type) or not issubclass(found, KINDS[kind]):
        raise ValueError(f"`{place}` must be a subclass of gymkhana_sdk.{KINDS[kind].__name__}")
    if not found.summary:
        raise ValueError(f"`{place}` lacks `summary`: add a one-line description")
    for methods in REQUIRED[kind]:
        if not any(_overrides(found, KINDS[kind], method) for method in methods):
            raise ValueError(f"`{place}` does not define {' or '.join(f'`{method}`' for method in methods)}: define it")
    for method in ("snapshot", "restore"):
        other = {"snapshot": "restore", "restore": "snapshot"}[method]
        if hasattr(found, method) and offers(found, KINDS[kind], method) > offers(found, KINDS[kind], other):
            raise ValueError(f"`{place}` defines `{method}` but not `{other}`: define both or neither")
    return found


def _overrides(found: type, base: type, method: str) -> bool:
    """Whether a class overrides a method of its kind, also a class method, which is bound anew by each look-up."""
    own, default = getattr(found, method), getattr(base, method)
    return getattr(own, "__func__", own) is not getattr(default, "__func__", default)


def author_traceback(error: Exception) -> str:
    """Traceback of an exception without the frames of Python's import system and of the SDK."""
    shown = traceback.TracebackException.from_exception(error)
    frames = [frame for frame in shown.stack if not _is_machinery(frame.filename)]
    lines = [*traceback.StackSummary.from_list(frames).format(), *shown.format_exception_only()]
    return "".join(lines).rstrip()


def _is_machinery(file: str) -> bool:
    sdk, importing = os.path.dirname(__file__), os.path.dirname(importlib.__file__)
    return file.startswith(("<frozen ", sdk + os.sep, importing + os.sep))


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
        _, folders, *words = sys.argv
        classes = dict(word.split("=", 1) for word in words)
        placeholders = classes.pop("placeholders", "")
        if placeholders:
            sys.meta_path.insert(0, Placeholders(placeholders.split(",")))
        modules = watch(classes, folders.split(os.pathsep))
        print(json.dumps({**describe(classes), "modules": modules().as_json()}))
    except ValueError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
