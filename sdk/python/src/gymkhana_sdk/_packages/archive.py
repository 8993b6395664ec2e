"""Archive of compressed files: a length, an index in JSON, and the files' compressed bytes.

The build writes one with the files of installed packages; a component reads from it and adds the standard library.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterable
from typing import BinaryIO

NAME = "gymkhana_packages.bin"
"""File name beside the entry module."""

_LENGTH = struct.Struct("<I")
_LEVEL = 6


class Archive:
    """Files by path, and what is known of the packages that they belong to."""

    def __init__(self, native: dict[str, str] | None = None, placeholders: list[str] | None = None) -> None:
        self.native = native or {}
        """Distribution of each module of native code by the module's name."""
        self.placeholders = placeholders or []
        """Modules that the author declares as unused."""
        # Each file has bytes of its own: a component keeps freed memory, as of a large text that is cut.
        self._files: dict[str, tuple[int, bytes]] = {}

    @property
    def paths(self) -> Iterable[str]:
        """Paths of all files."""
        return self._files.keys()

    def add(self, path: str, content: bytes) -> None:
        """Adds a file."""
        self._files[path] = (len(content), zlib.compress(content, _LEVEL))

    def size(self, path: str) -> int:
        """Uncompressed size of a file in bytes. Raises `KeyError`."""
        return self._files[path][0]

    def read(self, path: str) -> bytes:
        """Content of a file. Raises `KeyError`."""
        return zlib.decompress(self._files[path][1])

    def rename(self, path: str, new: str | None) -> None:
        """Gives a file another path, or removes it."""
        file = self._files.pop(path)
        if new is not None:
            self._files[new] = file

    def to_bytes(self) -> bytes:
        """The archive as a file."""
        files = [(path, size, len(packed)) for path, (size, packed) in self._files.items()]
        fields = {"native": self.native, "placeholders": self.placeholders, "files": files}
        index = json.dumps(fields, separators=(",", ":")).encode()
        return b"".join([_LENGTH.pack(len(index)), index, *(packed for _, packed in self._files.values())])

    @classmethod
    def load(cls, file: BinaryIO) -> Archive:
        """Archive in an open file."""
        (length,) = _LENGTH.unpack(file.read(_LENGTH.size))
        fields = json.loads(file.read(length))
        archive = cls(fields["native"], fields["placeholders"])
        for path, size, packed in fields["files"]:
            archive._files[path] = (size, file.read(packed))
        return archive
