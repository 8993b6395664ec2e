"""Plugin contract of this SDK: its WIT files, version and digest."""

from __future__ import annotations

import hashlib
from pathlib import Path

FOLDER = Path(__file__).parent / "wit"
"""Folder of the contract's WIT files."""

VERSION = "0.2.0"
"""Version of the WIT package `gymkhana:plugin`."""


def digest() -> str:
    """SHA-256 in hexadecimal over, per file: name, zero byte, lines with LF line ends, zero byte.

    Empty lines and comments do not count.
    """
    hasher = hashlib.sha256()
    for file in sorted(FOLDER.glob("*.wit")):
        lines = file.read_bytes().splitlines()
        counted = (line + b"\n" for line in lines if line.strip() and not line.strip().startswith(b"//"))
        hasher.update(file.name.encode() + b"\0" + b"".join(counted) + b"\0")
    return hasher.hexdigest()


def world(name: str, imports: list[str], exports: list[str]) -> str:
    """WIT text of a world with exactly these imports and exports."""
    lines = [f"    import {each};" for each in imports] + [f"    export {each};" for each in exports]
    return "\n".join([f"package gymkhana:plugin@{VERSION};", "", f"world {name} {{", *lines, "}", ""])
