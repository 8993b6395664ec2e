"""The contract that this SDK was made with: its files, its version and the digest of its text."""

from __future__ import annotations

import hashlib
from pathlib import Path

FOLDER = Path(__file__).parent / "wit"
"""Where the contract's files are."""

VERSION = "0.1.0"
"""The version of the WIT package `gymkhana:plugin`."""


def digest() -> str:
    """sha256 over each file's name, a zero byte, its text with plain line ends, and a zero byte; in hexadecimal."""
    hasher = hashlib.sha256()
    for file in sorted(FOLDER.glob("*.wit")):
        hasher.update(file.name.encode() + b"\0" + file.read_bytes().replace(b"\r\n", b"\n") + b"\0")
    return hasher.hexdigest()


def world(name: str, imports: list[str], exports: list[str]) -> str:
    """The text of a world of just these interfaces."""
    lines = [f"    import {each};" for each in imports] + [f"    export {each};" for each in exports]
    return "\n".join([f"package gymkhana:plugin@{VERSION};", "", f"world {name} {{", *lines, "}", ""])
