"""Recorded runs as data frames of polars or pandas, which are imported only when they are used.

    run = gymkhana_rl.runs.open("out/mine")
    run.episodes().filter(~polars.col("success")).select("id", "reward", "transcript").collect()
    run.metrics().select("stage", "step", "loss")
    run.plot("success", "reward")
    run.episode("1.train.12.3.5.0")

In a notebook, a run shows its results, and an episode its conversation.

The columns are those of docs/reference/records.md. Episodes of a run in progress appear when their part is written.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from typing import Any, Literal

from . import _display
from ._native import Episode
from .errors import GymkhanaError, OptionError

Backend = Literal["polars", "pandas"]

# Columns with an entry per token, which are fields of a segment.
TOKEN_COLUMNS = ("tokens", "sampled", "log_probs", "entropies", "versions", "turns")

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

    def plot(self, *names: str, smooth: int = 1) -> Any:
        """Draws metrics over all steps of the run, one below the other; returns matplotlib's Figure.

        Args:
            names: Names of metrics, such as "reward" or "success".
            smooth: Number of steps that a point is the mean of: its own and those before it.

        Raises:
            OptionError: If the run has no metric of a name, or `smooth` is below 1.
            RunError: If matplotlib is not installed, or the metrics cannot be read.
        """
        if not names or smooth < 1:
            raise OptionError("nothing to plot", "name a metric, and let `smooth` be 1 or more")
        lines = list(self.metrics_lines())
        known = sorted({name for line in lines for name in line["values"]})
        for name in names:
            if name not in known:
                raise OptionError(f"the run has no metric `{name}`", f"it has {', '.join(known) or 'none yet'}")
        figure = _module("matplotlib.figure", "matplotlib", "pip install matplotlib").Figure(
            figsize=(8, 2.4 * len(names)), layout="constrained"
        )
        starts = [place for place in range(1, len(lines)) if lines[place]["stage"] != lines[place - 1]["stage"]]
        for axes, name in zip(figure.subplots(len(names), sharex=True, squeeze=False)[:, 0], names, strict=True):
            points = [(place, line["values"].get(name)) for place, line in enumerate(lines)]
            points = [(place, value) for place, value in points if value is not None]
            means = [
                sum(value for _, value in points[max(0, end - smooth) : end]) / min(smooth, end)
                for end in range(1, len(points) + 1)
            ]
            axes.plot([place for place, _ in points], means)
            axes.set_ylabel(name)
            for start in starts:
                axes.axvline(start - 0.5, color="0.7", linewidth=0.8)
        axes.set_xlabel("training step, counted over all stages")
        return figure

    def episode(self, episode_id: str) -> Episode:
        """Reads one stored episode. Needs polars.

        Raises:
            RunError: If the run has not stored an episode of this id.
        """
        row = self._row(episode_id)
        record = json.loads(row["record"]) | {"turns": row["transcript"], "segments": _segments(row)}
        return Episode.from_bytes(json.dumps(record).encode(), self.config.get("policy", {}).get("system"))

    def _row(self, episode_id: str) -> dict[str, Any]:
        """The complete row of an episode, with the parsed transcript."""
        polars = _frames("polars")
        rows = self.episodes().filter(polars.col("id") == episode_id).collect().to_dicts()
        if not rows:
            raise RunError(f"`{self.path}` has no stored episode `{episode_id}`", "run.episodes() has their ids")
        row: dict[str, Any] = rows[-1]
        row["transcript"] = json.loads(row["transcript"])
        if row["parent"] is not None:
            # A fork's row lacks the beginning, which its parent's has.
            parent = self._row(row["parent"])
            for name in (*TOKEN_COLUMNS, "seats"):
                row[name] = parent[name][: row["shared_tokens"]] + row[name]
            row["transcript"] = parent["transcript"][: row["shared_turns"]] + row["transcript"]
        return row

    def _repr_html_(self) -> str:
        results = self.summary
        stages = results.get("stages", []) if results else []
        rows = [
            (str(stage.get("name", "")), ", ".join(f"{key} {value}" for key, value in stage.items() if key != "name"))
            for stage in stages
        ]
        state = "finished" if results else "in progress or stopped"
        return _display.table(rows, f"run {self.path}: {state}")

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


def _segments(row: dict[str, Any]) -> list[dict[str, Any]]:
    """The segments of a complete row."""
    ends = row["segment_ends"]
    places = [slice(begin, end) for begin, end in zip([0, *ends], ends, strict=False)]
    return [
        {"seat": row["seats"][place.start]} | {name: row[name][place] for name in TOKEN_COLUMNS} for place in places
    ]


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
