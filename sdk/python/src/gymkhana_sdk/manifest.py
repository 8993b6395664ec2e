"""Manifest of a plugin (identity and capabilities), read from the author's `pyproject.toml`."""

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
"""Name of the custom section."""

KINDS = ("environment", "tool", "reward")
CAPABILITIES = ("assets", "model", "tools", "http")
"""Imports that a plugin must declare."""
FREE = ("log", "random", "clock")
"""Imports that are always available."""

_SCHEMA = 1
_MAGIC = b"GYMK"
_KEYS = ("namespace", "capabilities", "optional", "placeholders", "deterministic", "thoughts", *KINDS)
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,62}[a-z0-9])?")
# Semantic versioning: numbers without leading zeros, non-empty parts between dots, ASCII only.
_NUMBER = r"(0|[1-9][0-9]*)"
_PART = r"(?:0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*)"
_VERSION = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(?:-{_PART}(?:\.{_PART})*)?(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?"
)
_MODULE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
_PLACE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


class BuildError(Exception):
    """Mistake of the author; the message names it and suggests a fix."""


@dataclass
class Project:
    """Validated content of `pyproject.toml`."""

    name: str
    version: str
    description: str
    license: str
    namespace: str
    classes: dict[str, str] = field(default_factory=dict)
    """`module:class` of each kind."""
    capabilities: list[str] = field(default_factory=list)
    optional: list[str] = field(default_factory=list)
    """Capabilities without which the plugin also runs: if a run does not grant one, its use raises `Denied`."""
    deterministic: bool = True
    thoughts: bool = False
    """Whether the reward reads the thoughts of seats, as turns of the kind `OTHER`."""
    placeholders: list[str] = field(default_factory=list)
    """Modules that can be imported in the component and not used, such as `numpy`."""
    dependencies: list[str] = field(default_factory=list)
    """Requirements, whose installed packages are in the component: those of `[project]` and of `requirements.txt`."""

    @classmethod
    def read(cls, folder: Path) -> Project:
        """Reads and validates a project's file. Raises `BuildError`, which names the key and suggests a fix."""
        path = folder / "pyproject.toml"
        try:
            document = tomllib.loads(path.read_text())
        except FileNotFoundError:
            raise BuildError(f"`{path}` is missing: it must describe the plugin") from None
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise BuildError(f"cannot read `{path}`: {error}") from error
        project = cls.of(document)
        listed = folder / "requirements.txt"
        if listed.is_file():
            lines = listed.read_text(encoding="utf-8", errors="replace").splitlines()
            project.dependencies = [*project.dependencies, *lines]
        return project

    @classmethod
    def of(cls, document: dict[str, Any]) -> Project:
        """Validates a parsed `pyproject.toml`."""
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
                f"project name `{name}` is not a valid plugin name: use lower-case letters, digits and inner single `-`"
            )
        texts = {key: _text(project, key) for key in ("version", "description", "license")}
        if not _is_version(texts["version"]):
            raise BuildError(f"`version` must be three numbers, such as `0.1.0`, not `{texts['version']}`")
        capabilities, optional = _capabilities(table, "capabilities"), _capabilities(table, "optional")
        for unasked in optional:
            if unasked not in capabilities:
                raise BuildError(f"`{unasked}` is in `optional`, not in `capabilities`: add it to `capabilities` too")
        return cls(
            name=name,
            namespace=_namespace(table),
            classes=_classes(table),
            capabilities=capabilities,
            optional=optional,
            deterministic=_deterministic(table),
            thoughts=_thoughts(table),
            placeholders=_placeholders(table),
            dependencies=_dependencies(project),
            **texts,
        )

    def manifest(self, reward_range: tuple[float, float] | None) -> dict[str, Any]:
        """Manifest as a JSON object. `reward_range` is None for a plugin without a reward."""
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
        if self.thoughts:
            fields["thoughts"] = True
        if reward_range is not None:
            low, high = reward_range
            if not (math.isfinite(low) and math.isfinite(high) and low <= high):
                raise BuildError(f"`range` of the reward must be two finite numbers, low first, not {low}, {high}")
            fields["reward-range"] = [float(low), float(high)]
        return fields


def stamp(component: bytes, manifest: dict[str, Any]) -> bytes:
    """Component with its manifest, appended as one custom section at the outermost level."""
    text = json.dumps(manifest, ensure_ascii=False, separators=(",", ":")).encode()
    content = _named(SECTION) + _MAGIC + struct.pack("<I", len(text)) + text
    return component + b"\0" + _leb128(len(content)) + content


def _is_version(text: str) -> bool:
    found = _VERSION.fullmatch(text)
    # The host stores 64-bit numbers.
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
        raise BuildError(f'`{key}` in [project] is missing, which the manifest requires: add `{key} = "…"`')
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
            raise BuildError(f"capability `{name}` is always available: remove it from `{key}`")
        if name not in CAPABILITIES:
            raise BuildError(f"unknown capability `{name}`; {_advice(name, CAPABILITIES)}")
        if names.count(name) > 1:
            raise BuildError(f"capability `{name}` is listed twice in `{key}`: remove one")
    return names


def _placeholders(table: dict[str, Any]) -> list[str]:
    names = table.get("placeholders", [])
    if not isinstance(names, list) or not all(isinstance(name, str) and _MODULE.fullmatch(name) for name in names):
        raise _wrong("placeholders", "a list of modules", 'placeholders = ["numpy"]')
    return names


def _dependencies(project: dict[str, Any]) -> list[str]:
    listed = project.get("dependencies", [])
    if not isinstance(listed, list) or not all(isinstance(each, str) for each in listed):
        raise BuildError('`dependencies` in [project] must be a list of requirements, such as `["sympy==1.14.0"]`')
    return listed


def _thoughts(table: dict[str, Any]) -> bool:
    value = table.get("thoughts", False)
    if not isinstance(value, bool):
        raise _wrong("thoughts", "true or false", "thoughts = true")
    if value and "reward" not in table:
        raise BuildError("`thoughts` in [tool.gymkhana] is for rewards, and this plugin has no reward: remove it")
    return value


def _deterministic(table: dict[str, Any]) -> bool:
    value = table.get("deterministic", True)
    if not isinstance(value, bool):
        raise _wrong("deterministic", "true or false", "deterministic = false")
    return value
