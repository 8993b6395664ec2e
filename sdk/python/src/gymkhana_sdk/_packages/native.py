"""Messages for imports that cannot work inside a component, and placeholders for modules that are not used."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import FrameType, ModuleType
from typing import Any, NoReturn

MARK = "gymkhana-import: "
"""Begin of the line by which a component tells the build why an import failed."""


LACKED = "a component's CPython lacks it"
UNIMPORTED = "it was not imported while the component was built: import it at the top of a module"


class MissingModuleError(ModuleNotFoundError):
    """A module that is not in the component. The message names the importing line."""

    def __init__(self, name: str, package: str | None, reason: str, steps: list[str]) -> None:
        reason = f"it is native code of the package `{package}`" if package else reason
        super().__init__(f"no module `{name}`: {reason}; imported by {', for '.join(steps) or 'the host'}")
        # Without the standard attribute `name`: `from package import module` would hide an error that has it.
        self.module, self.package, self.steps = name, package, steps


# Tracebacks show the name that Python uses.
MissingModuleError.__module__, MissingModuleError.__qualname__ = "builtins", "ModuleNotFoundError"
MissingModuleError.__name__ = "ModuleNotFoundError"


class PlaceholderError(ImportError):
    """A placeholder was used."""


class Finder:
    """Last finder of the import system: raises `MissingModuleError` for what a component cannot import."""

    def __init__(self, native: dict[str, str]) -> None:
        self._native = native
        self.reason = LACKED
        """Reason for missing modules of the standard library."""
        self.packages: set[str] = set()
        """Packages whose native code was imported in vain."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> None:
        package = self._native.get(name)
        if package is not None:
            self.packages.add(package)
        elif name not in sys.stdlib_module_names:
            return
        raise MissingModuleError(name, package, self.reason, importing_lines(sys._getframe(1)))


def importing_lines(frame: FrameType | None) -> list[str]:
    """File and line of every package that takes part in the current import, the innermost first."""
    steps: list[str] = []
    packages: set[str] = set()
    while frame is not None:
        file = frame.f_code.co_filename
        package = frame.f_globals.get("__name__", "").split(".")[0]
        if not file.startswith("<frozen") and package not in ("importlib", "gymkhana_sdk", "gymkhana_entry", *packages):
            packages.add(package)
            # A component has its folders at `/0`, `/1` and so on.
            shown = file.lstrip("/").partition("/")[2] if file.lstrip("/")[:1].isdigit() else file
            steps.append(f"`{shown}`, line {frame.f_lineno}")
        frame = frame.f_back
    return steps


def explain(error: BaseException) -> str | None:
    """Line for the build about the import that caused an error, or None if none did."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        if isinstance(error, MissingModuleError):
            fields = {"module": error.module, "package": error.package, "steps": error.steps}
            return MARK + json.dumps(fields)
        if isinstance(error, PlaceholderError):
            return MARK + json.dumps({"placeholder": str(error)})
        seen.add(id(error))
        error = error.__cause__ or error.__context__  # type: ignore[assignment]
    return None


class Absent:
    """Anything inside a placeholder. It may be named in signatures and as a base class; its use raises."""

    def __init__(self, name: str) -> None:
        self.__name__ = self.__qualname__ = name
        self.__module__ = name.partition(".")[0]

    def __getattr__(self, name: str) -> Absent:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return Absent(f"{self.__name__}.{name}")

    def __call__(self, *_: Any, **__: Any) -> NoReturn:
        steps = importing_lines(sys._getframe(1))
        used = f", used by {steps[0]}" if steps else ""
        raise PlaceholderError(f"`{self.__name__}` is not in this component: its module is a placeholder{used}")

    def __getitem__(self, _: Any) -> Absent:
        return self

    def __or__(self, other: Any) -> Any:
        return self

    __ror__ = __or__

    def __mro_entries__(self, _: Any) -> tuple[type, ...]:
        name = self.__name__

        def refuse(_: Any, *__: Any, **___: Any) -> None:
            Absent(name)()

        return (type(name.rpartition(".")[2], (), {"__init__": refuse}),)

    def __instancecheck__(self, _: Any) -> bool:
        return False

    def __subclasscheck__(self, _: Any) -> bool:
        return False

    def __repr__(self) -> str:
        return f"<placeholder {self.__name__}>"


class Placeholders:
    """First finder of the import system, for the modules that the author declares as unused, with their submodules."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = tuple(names)

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if not any(name == each or name.startswith(f"{each}.") for each in self._names):
            return None
        return ModuleSpec(name, self, is_package=True)  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        name = module.__name__

        def attribute(inner: str) -> Absent:
            if inner.startswith("__") and inner.endswith("__"):
                raise AttributeError(inner)
            return Absent(f"{name}.{inner}")

        module.__dict__.update(__getattr__=attribute, __version__="0")
