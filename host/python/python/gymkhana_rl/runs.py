"""Recorded runs as data frames of polars or pandas, which are imported only when they are used.

    run = gymkhana_rl.runs.open("out/mine")
    run.episodes().filter(~polars.col("success")).select("id", "reward", "transcript").collect()
    run.metrics().select("stage", "step", "loss")

The columns are those of docs/reference/records.md. Episodes of a run in progress appear when their part is written.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from typing import Any, Literal

from .errors import GymkhanaError, OptionError

Backend = Literal["polars", "pandas"]

__all__ = ["Backend", "Run", "RunError", "open"]


class RunError(GymkhanaError):
    """A folder does not hold a run, or a file of a run cannot be used."""


def open(path: str | PathLike[str]) -> Run:
    """Opens the folder of a run. Raises RunError if it does not hold a run."""
    folder = Path(path)
    if not (folder / "run.toml").is_file() or not (folder / "episodes").is_dir():
        raise RunError(f"`{folder}` does not hold a run", "give the --out of a run")
    return Run(folder)


class Run:
    """A recorded run. Its files are read when they are asked for."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __repr__(self) -> str:
        return f"<gymkhana_rl.runs.Run {str(self.path)!r}>"

    @property
    def config(self) -> dict[str, Any]:
        """The resolved run file. Needs Python 3.11, or the package tomli."""
        toml = _module("tomllib", "tomli", "install tomli, or use Python 3.11 or newer")
        found: dict[str, Any] = toml.loads(self._text("run.toml"))
        return found

    @property
    def summary(self) -> dict[str, Any] | None:
        """The results of the run; None before its end."""
        if not (self.path / "summary.json").exists():
            return None
        found: dict[str, Any] = json.loads(self._text("summary.json"))
        return found

    def episodes(self, backend: Backend = "polars") -> Any:
        """All stored episodes, one in a row: a lazy frame of polars, or a data frame of pandas.

        A fork's columns lack the tokens and turns that it shares with the row of its `parent`.
        """
        parts = sorted((self.path / "episodes").glob("part-*.parquet"))
        if not parts:
            raise RunError(f"`{self.path}` has no stored episodes yet", "wait for the end of a stage or of the run")
        frames = _frames(backend)
        if backend == "polars":
            return frames.scan_parquet(parts)
        return frames.concat([frames.read_parquet(part) for part in parts], ignore_index=True)

    def metrics(self, backend: Backend = "polars") -> Any:
        """The metrics of all training steps, one step in a row: `stage`, `step`, `time`, and a column per value."""
        frames = _frames(backend)
        rows = [
            {name: line[name] for name in ("stage", "step", "time")} | line["values"] for line in self.metrics_lines()
        ]
        if backend == "polars":
            return frames.DataFrame(rows, infer_schema_length=None)
        return frames.DataFrame(rows)

    def metrics_lines(self) -> Iterator[dict[str, Any]]:
        """The complete lines of `metrics.jsonl`, one training step each.

        The last line of a run in progress may lack its end and is then left out.
        """
        for line in self._text("metrics.jsonl").splitlines(keepends=True):
            if line.endswith("\n"):
                yield json.loads(line)

    def _text(self, name: str) -> str:
        try:
            return (self.path / name).read_text(encoding="utf-8")
        except OSError as error:
            message = f"`{self.path / name}` cannot be read: {error.strerror}"
            raise RunError(message, "check the run's folder") from error


def _frames(backend: Backend) -> Any:
    if backend not in ("polars", "pandas"):
        raise OptionError(f"the backend `{backend}` is unknown", 'give "polars" or "pandas"')
    return _module(backend, backend, f"pip install {backend}")


def _module(name: str, other: str, hint: str) -> Any:
    for candidate in (name, other):
        try:
            return importlib.import_module(candidate)
        except ImportError:
            continue
    raise RunError(f"the Python package `{other}` is missing", hint)
