"""Exports of a component of a quick build, which imports the author's modules at the first call."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from functools import cache
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from ..quick_build.slot import content, empty

_SLOT = empty()
"""A build writes over these bytes in the component's file."""


def exports(interfaces: Iterable[str]) -> dict[str, type]:
    """Export classes by the names that componentize-py expects."""
    return {name: _export(name) for name in map(_class_name, interfaces)}


def _class_name(interface: str) -> str:
    return "".join(word.capitalize() for word in interface.split("-"))


def _export(name: str) -> type:
    class Late:
        def __getattr__(self, function: str) -> Any:
            return getattr(_plugin()[name], function)

    return Late


@cache
def _plugin() -> dict[str, Any]:
    """Export objects of the author's classes by their names."""
    plugin = json.loads(content(_SLOT))
    sys.meta_path.insert(0, _Finder(plugin["modules"]))
    found: dict[str, Any] = {}
    for kind, place in plugin["classes"].items():
        module, name = place.split(":")
        classes = import_module(f"gymkhana_sdk._component.{kind}").exports(getattr(import_module(module), name))
        found.update({name: each() for name, each in classes.items()})
    return found


class _Finder:
    """Finds and loads the author's modules."""

    def __init__(self, modules: dict[str, tuple[str, bool, str]]) -> None:
        self._modules = modules

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name not in self._modules:
            return None
        _, is_package, _ = self._modules[name]
        return ModuleSpec(name, self, is_package=is_package)  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        path, _, text = self._modules[module.__name__]
        # The host shows the path inside the numbered folder, as in a component that is bundled whole.
        module.__file__ = f"/0/{path}"
        # This module's own future statements must not apply.
        exec(compile(text, module.__file__, "exec", dont_inherit=True), module.__dict__)
