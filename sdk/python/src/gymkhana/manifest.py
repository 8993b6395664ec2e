"""The manifest: who a plugin is and what it wants, read from the author's `pyproject.toml`."""

from __future__ import annotations

import difflib
import json
import math
import re
import struct
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import contract

SECTION = "gymkhana:manifest"
"""The name of the custom section."""

KINDS = ("environment", "tool", "reward")
CAPABILITIES = ("assets", "model", "tools", "http")
"""Imports that need a request."""
FREE = ("log", "random", "clock")
"""Imports that are always there."""

_SCHEMA = 1
_MAGIC = b"GYMK"
_KEYS = ("namespace", "capabilities", "optional", "deterministic", *KINDS)
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,62}[a-z0-9])?")
# As semver has it: no number begins with a zero, no part between dots is empty, and nothing but ASCII is in it.
_NUMBER = r"(0|[1-9][0-9]*)"
_PART = r"(?:0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*)"
_VERSION = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(?:-{_PART}(?:\.{_PART})*)?(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?"
)
_PLACE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


class BuildError(Exception):
    """Something that the author can put right; the message names it and says how."""


@dataclass
class Project:
    """What `pyproject.toml` says, checked."""

    name: str
    version: str
    description: str
    license: str
    namespace: str
    classes: dict[str, str] = field(default_factory=dict)
    """Where the class of each kind is, as `module:class`."""
    capabilities: list[str] = field(default_factory=list)
    optional: list[str] = field(default_factory=list)
    """Those of the capabilities without which it runs, too: where a run grants one not, asking for it is denied."""
    deterministic: bool = True

    @classmethod
    def read(cls, folder: Path) -> Project:
        """Reads and checks a project's file. Raises `BuildError`, which names the key and shows the fix."""
        path = folder / "pyproject.toml"
        try:
            document = tomllib.loads(path.read_text())
        except FileNotFoundError:
            raise BuildError(f"`{path}` is missing: a plugin in Python is described there") from None
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise BuildError(f"`{path}` cannot be read: {error}") from error
        return cls.of(document)

    @classmethod
    def of(cls, document: dict[str, Any]) -> Project:
        """Checks a project's document."""
        project = document.get("project", {})
        table = document.get("tool", {}).get("gymkhana")
        if not isinstance(table, dict):
            raise _missing("namespace", 'namespace = "your-name"')
        for key in table:
            if key not in _KEYS:
                raise BuildError(f"unknown key `{key}` in [tool.gymkhana]; {_advice(key, _KEYS)}")
        name = project.get("name", "")
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise BuildError(
                f"project name `{name}` cannot name a plugin: use lower-case letters, digits and single `-` inside"
            )
        texts = {key: _text(project, key) for key in ("version", "description", "license")}
        if not _is_version(texts["version"]):
            raise BuildError(f"`version` must be three numbers, such as `0.1.0`, not `{texts['version']}`")
        capabilities, optional = _capabilities(table, "capabilities"), _capabilities(table, "optional")
        for unasked in optional:
            if unasked not in capabilities:
                raise BuildError(f"`optional` has `{unasked}` and `capabilities` has not: ask for it there too")
        return cls(
            name=name,
            namespace=_namespace(table),
            classes=_classes(table),
            capabilities=capabilities,
            optional=optional,
            deterministic=_deterministic(table),
            **texts,
        )

    def manifest(self, reward_range: tuple[float, float] | None) -> dict[str, Any]:
        """The manifest as JSON holds it. A reward says its range."""
        fields = {
            "schema": _SCHEMA,
            "namespace": self.namespace,
            "name": self.name,
            "version": self.version,
            "kinds": [kind for kind in KINDS if kind in self.classes],
            "contract": {"version": contract.VERSION, "digest": contract.digest()},
            "license": self.license,
            "description": self.description,
            "capabilities": self.capabilities,
            "deterministic": self.deterministic,
        }
        if self.optional:
            fields["optional"] = self.optional
        if reward_range is not None:
            low, high = reward_range
            if not (math.isfinite(low) and math.isfinite(high) and low <= high):
                raise BuildError(f"`range` of the reward must be two finite numbers, the smaller first, not {low}, {high}")
            fields["reward-range"] = [float(low), float(high)]
        return fields


def stamp(component: bytes, manifest: dict[str, Any]) -> bytes:
    """A component with its manifest: one custom section at the end of the outermost level."""
    text = json.dumps(manifest, ensure_ascii=False, separators=(",", ":")).encode()
    content = _named(SECTION) + _MAGIC + struct.pack("<I", len(text)) + text
    return component + b"\0" + _leb128(len(content)) + content


def _is_version(text: str) -> bool:
    found = _VERSION.fullmatch(text)
    # The host counts in 64 bits.
    return found is not None and all(int(number) < 1 << 64 for number in found.groups())


def _named(name: str) -> bytes:
    return _leb128(len(name)) + name.encode()


def _leb128(number: int) -> bytes:
    encoded = bytearray()
    while True:
        number, low = number >> 7, number & 0x7F
        encoded.append(low | (0x80 if number else 0))
        if not number:
            return bytes(encoded)


def _missing(key: str, example: str) -> BuildError:
    return BuildError(f"`{key}` is missing: add to pyproject.toml\n\n[tool.gymkhana]\n{example}")


def _wrong(key: str, wanted: str, example: str) -> BuildError:
    return BuildError(f"`{key}` in [tool.gymkhana] must be {wanted}, such as `{example}`")


def _advice(word: str, known: tuple[str, ...]) -> str:
    listed = ", ".join(f"`{name}`" for name in known)
    nearest = difflib.get_close_matches(word, known, n=1)
    return f"did you mean `{nearest[0]}`? known: {listed}" if nearest else f"known: {listed}"


def _text(project: dict[str, Any], key: str) -> str:
    value = project.get(key)
    if key == "license" and isinstance(value, dict):
        value = value.get("text")
    if not isinstance(value, str) or not value:
        raise BuildError(f"[project] needs `{key}`, because the manifest shows it: add `{key} = \"…\"`")
    return value


def _namespace(table: dict[str, Any]) -> str:
    if "namespace" not in table:
        raise _missing("namespace", 'namespace = "your-name"')
    value = table["namespace"]
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise _wrong("namespace", "a name of lower-case letters, digits and `-`", 'namespace = "your-name"')
    return value


def _classes(table: dict[str, Any]) -> dict[str, str]:
    classes = {kind: table[kind] for kind in KINDS if kind in table}
    if not classes:
        raise _missing("environment`, `tool` or `reward", 'tool = "your_module:YourClass"')
    for kind, place in classes.items():
        if not isinstance(place, str) or not _PLACE.fullmatch(place):
            raise _wrong(kind, "a module and a class", f'{kind} = "your_module:YourClass"')
    return classes


def _capabilities(table: dict[str, Any], key: str) -> list[str]:
    names = table.get(key, [])
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise _wrong(key, "a list of names", f'{key} = ["http"]')
    for name in names:
        if name in FREE:
            raise BuildError(f"capability `{name}` needs no request: leave it out of `{key}`")
        if name not in CAPABILITIES:
            raise BuildError(f"unknown capability `{name}`; {_advice(name, CAPABILITIES)}")
        if names.count(name) > 1:
            raise BuildError(f"capability `{name}` stands twice in `{key}`: leave one out")
    return names


def _deterministic(table: dict[str, Any]) -> bool:
    value = table.get("deterministic", True)
    if not isinstance(value, bool):
        raise _wrong("deterministic", "true or false", "deterministic = false")
    return value
