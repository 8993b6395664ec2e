"""Read-only files in memory, as `open`, `os` and the import system see them inside a component."""

from __future__ import annotations

import builtins
import errno
import io
import os
import stat
import sys
from collections.abc import Callable, Iterator
from typing import Any

from .archive import Archive

_WRITING = frozenset("wxa+")


class Files:
    """Tree of the files of an archive, by absolute path."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive
        self._folders: dict[str, set[str]] = {}
        for path in archive.paths:
            while path not in ("", "/"):
                folder, _, name = path.rpartition("/")
                names = self._folders.setdefault(folder or "/", set())
                if name in names:
                    break
                names.add(name)
                path = folder

    def find(self, path: Any) -> str | None:
        """Normalised path of a file or folder here, or None."""
        try:
            text = os.fsdecode(path)
        except TypeError:
            # A file descriptor.
            return None
        text = os.path.normpath(text if text.startswith("/") else f"/{text}")
        return text if self.is_file(text) or text in self._folders else None

    def is_file(self, path: str) -> bool:
        """Whether a normalised path is a file."""
        return path in self._archive.paths

    def read(self, path: str) -> bytes:
        """Content of a file by its normalised path."""
        return self._archive.read(path)

    def names(self, path: str) -> list[str]:
        """Names in a folder, sorted."""
        if path not in self._folders:
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
        return sorted(self._folders[path])

    def status(self, path: str) -> os.stat_result:
        """What `os.stat` reports of a normalised path."""
        if self.is_file(path):
            mode, size = stat.S_IFREG | 0o444, self._archive.size(path)
        else:
            mode, size = stat.S_IFDIR | 0o555, 0
        return os.stat_result((mode, 0, 0, 1, 0, 0, size, 0, 0, 0))


class _Bytes(io.BytesIO):
    """Open file."""

    def __init__(self, content: bytes, name: str) -> None:
        super().__init__(content)
        self.name = name

    @property
    def mode(self) -> str:
        return "rb"

    def writable(self) -> bool:
        return False


class _Entry:
    """Entry of `os.scandir`."""

    def __init__(self, files: Files, folder: str, name: str, shown: str) -> None:
        self.name, self.path = name, shown
        self._files, self._place = files, f"{folder.rstrip('/')}/{name}"

    def __fspath__(self) -> str:
        return self.path

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        return self._files.is_file(self._place)

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        return not self.is_file()

    def is_symlink(self) -> bool:
        return False

    def is_junction(self) -> bool:
        return False

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        return self._files.status(self._place)

    def inode(self) -> int:
        return 0


class _Scan:
    """Result of `os.scandir`."""

    def __init__(self, entries: list[_Entry]) -> None:
        self._entries = iter(entries)

    def __iter__(self) -> Iterator[_Entry]:
        return self

    def __next__(self) -> _Entry:
        return next(self._entries)

    def __enter__(self) -> _Scan:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._entries = iter(())


def install(files: Files) -> None:
    """Makes the files visible to this process. Paths that are not among them are left to the system."""
    import _io
    import posix

    real_open, real_open_code = io.open, _io.open_code

    def open(file: Any, mode: str = "r", *arguments: Any, **options: Any) -> Any:
        path = files.find(file)
        if path is None or not files.is_file(path) or _WRITING.intersection(mode):
            return real_open(file, mode, *arguments, **options)
        return _opened(_Bytes(files.read(path), os.fsdecode(file)), mode, *arguments, **options)

    def open_code(path: str) -> Any:
        found = files.find(path)
        return real_open_code(path) if found is None or not files.is_file(found) else _Bytes(files.read(found), path)

    for module in (builtins, io, _io):
        module.open = open  # type: ignore[attr-defined]
    for module in (io, _io):
        module.open_code = open_code  # type: ignore[attr-defined]
    for name, replacement in _system(files).items():
        # A plugin may have replaced a function of `os`; the import system uses those of `posix`.
        for module in (posix, os):
            setattr(module, name, replacement(getattr(module, name)))
    # The import system remembers which folders it has seen.
    sys.path_importer_cache.clear()
    sys.dont_write_bytecode = True


def _opened(
    raw: _Bytes,
    mode: str,
    buffering: int = -1,
    encoding: str | None = None,
    errors: str | None = None,
    newline: str | None = None,
    closefd: bool = True,
    opener: Any = None,
) -> Any:
    return raw if "b" in mode else io.TextIOWrapper(raw, encoding or "utf-8", errors, newline)


def _system(files: Files) -> dict[str, Callable[[Any], Any]]:
    """Replacements for functions of `os` by name, each made from the original."""

    def status(real: Any) -> Any:
        def stat(path: Any, *arguments: Any, **options: Any) -> Any:
            found = files.find(path)
            return real(path, *arguments, **options) if found is None else files.status(found)

        return stat

    def listdir(real: Any) -> Any:
        def listdir(path: Any = ".") -> Any:
            found = files.find(path)
            return real(path) if found is None else files.names(found)

        return listdir

    def scandir(real: Any) -> Any:
        def scandir(path: Any = ".") -> Any:
            found = files.find(path)
            if found is None:
                return real(path)
            shown = os.fsdecode(path)
            return _Scan([_Entry(files, found, name, os.path.join(shown, name)) for name in files.names(found)])

        return scandir

    def access(real: Any) -> Any:
        def access(path: Any, mode: int, **options: Any) -> bool:
            found = files.find(path)
            return bool(real(path, mode, **options)) if found is None else not mode & os.W_OK

        return access

    return {"stat": status, "lstat": status, "listdir": listdir, "scandir": scandir, "access": access}
