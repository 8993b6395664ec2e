"""Modules that a plugin consists of, found while its classes are imported.

`python -m gymkhana_sdk.abilities` watches the imports of its process.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from importlib import _bootstrap
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
    packages: list[tuple[str, bool]] = field(default_factory=list)
    """Imported modules of installed packages, and whether each is a file of Python text and not native code."""
    roots: list[tuple[str, str]] = field(default_factory=list)
    """Files and folders of those packages by the name of the outermost module."""
    other: list[str] = field(default_factory=list)
    """What a quick build does not support: files that an import of the author's modules opened."""
    seconds: float = 0.0
    """Processor time of the author's modules while they were imported, without that of what they import."""

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
    imports = _Imports()
    opened: list[tuple[str, str]] = []

    def note(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and isinstance(arguments[0], str) and not arguments[0].endswith((".py", ".pyc")):
            opened.append((imports.current(), os.path.abspath(arguments[0])))

    sys.addaudithook(note)

    def found() -> Modules:
        modules = Modules(classes)
        for name in sorted(sys.modules):
            # Those of the standard library may be among the author's imports though they were there before.
            if name not in before or _is_standard(name):
                _sort(name, sys.modules[name], folders, modules)
        packages = {name for name, _ in modules.packages}
        within = [*folders, *(Path(root) for _, root in modules.roots)]
        for module, path in opened:
            # A base imports packages too, so that they may open files.
            if module not in packages and any(Path(path).is_relative_to(folder) for folder in within):
                modules.other.append(path)
        modules.seconds = sum(imports.seconds.get(name, 0.0) for name in modules.sources)
        return modules

    return found


class _Imports:
    """Modules that are being imported, and the processor time of each without that of its own imports."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._stack: list[str] = []
        self._since = time.process_time()
        importing: Any = _bootstrap
        find = importing._find_and_load

        def timed(name: str, import_: Any) -> Any:
            self._count()
            self._stack.append(name)
            try:
                return find(name, import_)
            finally:
                self._count()
                self._stack.pop()

        # Both the statement `import` and `importlib.import_module` call it.
        importing._find_and_load = timed

    def current(self) -> str:
        """Name of the module that is being imported, or an empty text."""
        return self._stack[-1] if self._stack else ""

    def _count(self) -> None:
        now = time.process_time()
        self.seconds[self.current()] = self.seconds.get(self.current(), 0.0) + now - self._since
        self._since = now


def _sort(name: str, module: ModuleType, folders: list[Path], into: Modules) -> None:
    top = name.split(".")[0]
    if top == SDK or name == "__main__":
        return
    spec = getattr(module, "__spec__", None)
    origin = getattr(spec, "origin", None)
    for folder in folders:
        stem = folder.joinpath(*name.split("."))
        for file in (stem.with_name(f"{stem.name}.py"), stem / "__init__.py"):
            if origin is not None and Path(origin) == file:
                text = file.read_text(encoding="utf-8")
                into.sources[name] = (str(file.relative_to(folder)), file.stem == "__init__", text)
                return
    if _is_standard(name):
        into.standard.append(name)
        return
    is_text = origin is not None and origin.endswith(".py")
    into.packages.append((name, is_text))
    if name == top:
        inside = list(getattr(spec, "submodule_search_locations", None) or [])
        files = [origin] if not inside and origin is not None and Path(origin).is_file() else []
        into.roots += [(name, str(place)) for place in [*inside, *files]]


def _is_standard(name: str) -> bool:
    return name.split(".")[0] in sys.stdlib_module_names
