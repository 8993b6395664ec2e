"""Digest of installed packages: equal packages may share a base."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path


def digest(roots: Iterable[tuple[str, str]]) -> str:
    """SHA-256 in hexadecimal over the files of packages, and over the names and versions of all installed ones.

    `roots` are the files and folders of the packages that the plugin imports, by name. The component may import others
    in their place, for which reason their versions count too.
    """
    hasher = hashlib.sha256()
    for name in sorted(_installed()):
        hasher.update(f"{name}\0".encode())
    for name, root in sorted(roots):
        for inside, file in _files(Path(root)):
            content = hashlib.sha256(file.read_bytes()).hexdigest()
            hasher.update(f"\0{name}\0{inside}\0{content}".encode())
    return hasher.hexdigest()


def _files(root: Path) -> Iterator[tuple[str, Path]]:
    """Files of a package with their paths in it; compiled ones depend on the others."""
    if root.is_file():
        yield root.name, root
        return
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        for name in sorted(files):
            file = Path(folder, name)
            yield str(file.relative_to(root)), file


def _installed() -> Iterator[str]:
    """Names of the folders with the metadata of installed packages, which contain the versions."""
    for place in sys.path:
        if os.path.isdir(place):
            yield from (name for name in os.listdir(place) if name.endswith((".dist-info", ".egg-info")))
