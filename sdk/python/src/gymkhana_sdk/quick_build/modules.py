"""Modules that a plugin consists of, found while its classes are imported.

`python -m gymkhana_sdk.abilities` watches the imports of its process.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

SDK = __name__.split(".")[0]


@dataclass
class Modules:
    """Modules of a plugin."""

    classes: dict[str, str]
    """`module:class` by kind."""
    sources: dict[str, tuple[str, bool, str]] = field(default_factory=dict)
    """The author's modules by name: path in its folder, whether it is a package, and text."""
    standard: list[str] = field(default_factory=list)
    """Imported modules of the standard library."""
    other: list[str] = field(default_factory=list)
    """What a quick build does not support: imported modules of other packages, and files that an import opened."""

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> Modules:
        """The modules that another process found."""
        return cls(**fields)

    def as_json(self) -> dict[str, Any]:
        """Fields for another process."""
        return asdict(self)


def watch(classes: dict[str, str], places: Iterable[str]) -> Callable[[], Modules]:
    """Watches imports from now on; the result returns what was imported. `places` are the author's folders."""
    folders = [Path(place).resolve() for place in places]
    before = set(sys.modules)
    opened: list[str] = []

    def note(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and isinstance(arguments[0], str) and not arguments[0].endswith((".py", ".pyc")):
            opened.append(os.path.abspath(arguments[0]))

    sys.addaudithook(note)

    def found() -> Modules:
        inside = [path for path in list(opened) if any(Path(path).is_relative_to(folder) for folder in folders)]
        modules = Modules(classes, other=inside)
        for name in sorted(sys.modules):
            # Those of the standard library may be among the author's imports though they were there before.
            if name not in before or _is_standard(name):
                _sort(name, sys.modules[name], folders, modules)
        return modules

    return found


def _sort(name: str, module: ModuleType, folders: list[Path], into: Modules) -> None:
    if name.split(".")[0] == SDK or name == "__main__":
        return
    origin = getattr(getattr(module, "__spec__", None), "origin", None)
    for folder in folders:
        stem = folder.joinpath(*name.split("."))
        for file in (stem.with_name(f"{stem.name}.py"), stem / "__init__.py"):
            if origin is not None and Path(origin) == file:
                text = file.read_text(encoding="utf-8")
                into.sources[name] = (str(file.relative_to(folder)), file.stem == "__init__", text)
                return
    (into.standard if _is_standard(name) else into.other).append(name)


def _is_standard(name: str) -> bool:
    return name.split(".")[0] in sys.stdlib_module_names
