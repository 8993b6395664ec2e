"""Files of the installed packages that a plugin needs, as an archive for its component."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from importlib import metadata
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path, PurePosixPath

from .archive import Archive
from .prepare import PREFIX

MAX_BYTES = 64 << 20
"""Most bytes of a package's files; a larger package has only its imported modules in the component."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_LEFT_OUT = frozenset({"__pycache__", "tests", "test"})
_BINARY = (*EXTENSION_SUFFIXES, ".pyc", ".pyd", ".so", ".dll", ".dylib", ".a", ".lib", ".o")
_SOURCES = (".c", ".cc", ".cpp", ".cu", ".h", ".hpp", ".pxd", ".pyi", ".pyx")
_METADATA = ("METADATA", "entry_points.txt", "top_level.txt")


def collect(roots: Iterable[tuple[str, str]], dependencies: Iterable[str], placeholders: list[str]) -> Archive:
    """Archive with the packages of a plugin and everything that they require.

    `roots` are imported top-level modules with their places, `dependencies` the plugin's requirements.
    """
    archive = Archive(placeholders=placeholders)
    owners = metadata.packages_distributions()
    named = [_name(requirement) for requirement in dependencies]
    named += [owner for module, _ in roots for owner in owners.get(module, [])]
    hidden = {owner for name in placeholders for owner in owners.get(name, [])}
    for distribution in _closure(named, {_key(name) for name in hidden}):
        _add(archive, distribution)
    return archive


def _closure(names: Iterable[str], hidden: set[str]) -> Iterator[metadata.Distribution]:
    """Installed distributions with these names, and those that they require, without `hidden` ones."""
    waiting, seen = list(names), {_key("componentize-py"), _key("gymkhana-sdk"), *hidden}
    while waiting:
        name = waiting.pop()
        if not name or _key(name) in seen:
            continue
        seen.add(_key(name))
        try:
            distribution = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue
        yield distribution
        # Requirements of extras are only followed if the plugin names them.
        waiting += [_name(each) for each in distribution.requires or () if "extra ==" not in each]


def _add(archive: Archive, distribution: metadata.Distribution) -> None:
    name = distribution.metadata["Name"]
    contents: dict[str, Path] = {}
    for file in distribution.files or ():
        path = PurePosixPath(file)
        if ".." in path.parts or path.is_absolute():
            continue
        module = _native_module(path)
        if module is not None:
            archive.native[module] = name
        elif _is_kept(path):
            contents[str(path)] = Path(str(distribution.locate_file(file)))
    contents = {path: file for path, file in contents.items() if file.is_file()}
    size = sum(file.stat().st_size for file in contents.values())
    if size > MAX_BYTES:
        print(
            f"warning: package `{name}` has {size >> 20} MiB of files, more than {MAX_BYTES >> 20}: the component "
            "contains only the modules that are imported while it is built",
            file=sys.stderr,
        )
        return
    for inside, source in sorted(contents.items()):
        content = source.read_bytes()
        if inside.endswith(".dist-info/METADATA"):
            # Without the description.
            content = content.partition(b"\n\n")[0] + b"\n"
        archive.add(f"{PREFIX}{name}/{inside}", content)


def _native_module(path: PurePosixPath) -> str | None:
    """Name of the module of native code in a file, or None."""
    suffix = next((suffix for suffix in (*EXTENSION_SUFFIXES, ".pyd") if path.name.endswith(suffix)), None)
    if suffix is None:
        return None
    return ".".join([*path.parts[:-1], path.name.removesuffix(suffix)])


def _is_kept(path: PurePosixPath) -> bool:
    if path.parts[0].endswith((".dist-info", ".egg-info")):
        return path.name in _METADATA
    if _LEFT_OUT.intersection(path.parts[:-1]) or path.name.startswith("test_"):
        return False
    return not path.name.endswith((*_BINARY, *_SOURCES))


def _name(requirement: str) -> str:
    """Name of the distribution in a requirement."""
    found = _NAME.match(requirement.strip())
    return found.group() if found else ""


def _key(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
