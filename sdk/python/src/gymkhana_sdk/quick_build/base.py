"""Bases of quick builds, and components made from them."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from ..manifest import BuildError, Project
from . import packages
from .modules import Modules
from .slot import FILLING, MARK, SLOT_BYTES, filled

MAX_BASES = 8
"""Bases that a folder keeps, of 20 to 40 MB each; the one unused for longest is removed."""

LACKS = "gymkhana: a base cannot import"
"""Begin of the message of a base that cannot import a package before the author's modules."""

MAX_SECONDS = 0.1
"""Most processor time that importing the author's modules takes, in seconds, if there are packages.

Each instance of a quick build imports them, several times slower. A module that calls packages a lot is bundled whole.
"""

_EMPTY = MARK.ljust(256, FILLING)
"""Begin of an empty slot. The mark alone is also a constant of the component's code."""


@dataclass(frozen=True)
class Base:
    """What a base depends on, beside the versions of the SDK and of the compiler."""

    kinds: tuple[str, ...]
    interfaces: tuple[str, ...]
    capabilities: tuple[str, ...]
    standard: tuple[str, ...]
    """Modules of the standard library to import."""
    packages: tuple[tuple[str, bool], ...] = ()
    """Modules of installed packages to import, and whether each has to be importable."""
    content: str = ""
    """Digest of the packages' files."""
    dependencies: tuple[str, ...] = ()
    """Requirements of the plugin."""
    placeholders: tuple[str, ...] = ()
    """Modules that the plugin declares as unused."""

    @classmethod
    def of(cls, modules: Modules, interfaces: list[str], project: Project) -> Base:
        """Base that the modules of a plugin need."""
        has_packages = modules.packages or project.dependencies
        return cls(
            kinds=tuple(modules.classes),
            interfaces=tuple(interfaces),
            capabilities=tuple(project.capabilities),
            standard=tuple(modules.standard),
            packages=tuple((name, is_text) for name, is_text in modules.packages),
            content=packages.digest(modules.roots) if has_packages else "",
            dependencies=tuple(project.dependencies),
            placeholders=tuple(project.placeholders),
        )

    def imports(self) -> list[str]:
        """Lines of source that import the modules."""
        lines = ["from contextlib import suppress"]
        # Some modules of the author's Python do not exist in the component's.
        lines += [f"with suppress(Exception):\n    import {name}" for name in self.standard]
        if self.packages:
            lines += [
                "from importlib import import_module",
                "lacks = []",
                f"for name, is_text in {list(self.packages)!r}:",
                "    try:",
                "        import_module(name)",
                "    except Exception as error:",
                # Native code is missing in every component; packages know that.
                "        lacks += [f'{name}: {error!r}'] if is_text else []",
                f"if lacks:\n    raise ImportError({LACKS!r} + ' ' + '; '.join(lacks))",
            ]
        return lines

    def entry(self) -> str:
        """Source of the module that componentize-py exports."""
        lines = self.imports()
        lines += [f"import gymkhana_sdk._component.{kind}" for kind in self.kinds]
        lines.append("from gymkhana_sdk._component import late")
        lines.append(f"globals().update(late.exports({self.interfaces!r}))")
        return prepared(lines)

    def digest(self) -> str:
        """SHA-256 in hexadecimal of everything that a base is made from."""
        hasher = hashlib.sha256(repr((self, metadata.version("componentize-py"))).encode())
        home = Path(__file__).parent.parent
        for file in sorted([*home.rglob("*.py"), *home.rglob("*.wit")]):
            hasher.update(f"\0{file.relative_to(home)}\0".encode() + file.read_bytes())
        return hasher.hexdigest()


def prepared(lines: list[str]) -> str:
    """Source of an entry module that runs these lines after the preparation of a component for packages."""
    before = ["from gymkhana_sdk._packages import prepare", "prepare.begin()", "try:"]
    after = ["except BaseException as error:", "    prepare.failed(error)", "prepare.finish()"]
    indented = [f"    {line}" for text in lines for line in text.split("\n")]
    return "\n".join([*before, *indented, *after, ""])


def component(folder: Path, base: Base, modules: Modules, bundle: Callable[[str], bytes]) -> bytes | None:
    """Component with the author's modules. `bundle` makes a component from the source of its entry.

    Returns None if the modules do not fit into the slot, or if a base cannot hold them. An error of `bundle` is raised
    again unless it says that a package cannot be imported before the author's modules.
    """
    if base.packages and modules.seconds > MAX_SECONDS:
        return None
    content = json.dumps({"classes": modules.classes, "modules": modules.sources}, separators=(",", ":")).encode()
    patch = filled(content)
    if patch is None:
        return None
    path = folder / f"{base.digest()}.wasm"
    made = _read(path)
    if made is None:
        try:
            made = bundle(base.entry())
        except BuildError as error:
            if LACKS not in str(error):
                raise
            # The author's modules may prepare the import. The empty file says that no base holds these packages.
            made = b""
        _keep(path, made)
    place = made.find(_EMPTY)
    slot = made[place : place + SLOT_BYTES]
    if place < 0 or slot != MARK.ljust(SLOT_BYTES, FILLING) or made.find(_EMPTY, place + SLOT_BYTES) >= 0:
        return None
    return made[: place + len(MARK)] + patch + made[place + len(MARK) + len(patch) :]


def _read(path: Path) -> bytes | None:
    """Base of an earlier build; notes that it was used."""
    try:
        os.utime(path)
        return path.read_bytes()
    except OSError:
        return None


def _keep(path: Path, made: bytes) -> None:
    """Writes a base for later builds; without space, they bundle again."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_bytes(made)
        temporary.replace(path)
        kept = sorted(path.parent.glob("*.wasm"), key=lambda file: file.stat().st_mtime, reverse=True)
        for old in kept[MAX_BASES:]:
            old.unlink(missing_ok=True)
    except OSError:
        temporary.unlink(missing_ok=True)
