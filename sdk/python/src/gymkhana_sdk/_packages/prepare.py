"""Preparation of a component while it is built: `begin` before the imports, `finish` after them."""

from __future__ import annotations

import functools
import gc
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

from . import files, native, shims
from .archive import NAME, Archive

# A plugin may replace `open` while it is imported.
_open = open

UNMOUNTED = "/packages"
"""Folder of packages that the compiler did not find."""
PREFIX = "site/"
"""Begin of the paths of packages in the archive that the build writes."""

# `os` itself is frozen, so that its file is not the real one.
_STANDARD = os.path.dirname(functools.__file__)
_LEFT_OUT = frozenset(
    """
    __pycache__ ctypes _pyrepl config-3.14-wasm32-wasi curses dbm ensurepip idlelib lib-dynload lib2to3 msilib
    pydoc_data site-packages test tests tkinter turtledemo venv
    """.split()
)
"""Folders of the standard library that a plugin cannot use: terminals, windows, installation, tests."""


class _Prepared:
    archive: Archive
    finder: native.Finder
    standard: list[str]


def begin() -> None:
    """Installs substitutes for what a component lacks. Call it before other imports."""
    place = next(folder for folder in sys.path if os.path.exists(os.path.join(folder, NAME)))
    with open(os.path.join(place, NAME), "rb") as file:
        archive = Archive.load(file)
    sys.path.insert(0, str(Path(__file__).parent / "stdlib"))
    shims.install()
    finder = native.Finder(archive.native)
    sys.meta_path.insert(0, native.Placeholders(archive.placeholders))
    sys.meta_path.append(finder)
    _Prepared.archive, _Prepared.finder = archive, finder
    # Now, because a plugin may replace functions of `os`.
    _Prepared.standard = list(_standard()) if archive.paths else []


def failed(error: BaseException) -> NoReturn:
    """Raises an import's error again, with a line for the build if a module cannot be in a component."""
    line = native.explain(error)
    if line is None:
        raise error
    raise ImportError(line) from None


def finish() -> None:
    """Makes the packages' files and the standard library available to the finished component."""
    archive = _Prepared.archive
    if archive.paths:
        _mount(archive, _Prepared.finder.packages)
        _add_standard(archive)
        files.install(files.Files(archive))
    else:
        _Prepared.finder.reason = native.UNIMPORTED
    gc.collect()
    # Collections in the component leave what the image holds alone, so that they do not copy its pages.
    gc.freeze()


def _mount(archive: Archive, unusable: set[str]) -> None:
    """Moves each package to the folder that it was imported from, and removes `unusable` ones."""
    folders: dict[str, str] = {}
    for path in list(archive.paths):
        package, inside = path.removeprefix(PREFIX).split("/", 1)
        if package not in folders:
            mounted = (each for each in sys.path if os.path.exists(os.path.join(each, inside)))
            folders[package] = next(mounted, UNMOUNTED)
        archive.rename(path, None if package in unusable else f"{folders[package]}/{inside}")
    if UNMOUNTED in folders.values():
        sys.path.append(UNMOUNTED)


def _standard() -> Iterator[str]:
    """Files of the standard library."""
    for folder, folders, names in os.walk(_STANDARD):
        folders[:] = [name for name in folders if name not in _LEFT_OUT]
        yield from (os.path.join(folder, name) for name in names if name.endswith(".py"))


def _add_standard(archive: Archive) -> None:
    """Adds the modules of the standard library that are not imported yet."""
    imported = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
    for path in _Prepared.standard:
        if path not in imported:
            with _open(path, "rb") as file:
                archive.add(path, file.read())
