"""Passes the metrics of a run on to Weights & Biases or MLflow, through their own clients.

    python -m gymkhana_rl.track out/mine --to wandb --project agents
    python -m gymkhana_rl.track out/mine --to mlflow --project agents --follow

The run file becomes the configuration, each line of `metrics.jsonl` one step, and `summary.json` the results. Steps are
counted over all stages, since both services want numbers that grow; `stage` and `stage_step` keep the run's own.
"""

from __future__ import annotations

import argparse
import math
import re
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from . import runs
from ._adapter import framework
from .errors import GymkhanaError

__all__ = ["Step", "mlflow", "steps", "wandb"]

# Seconds between two looks at a run in progress.
INTERVAL_S = 1.0
# What MLflow accepts at once, and as the length of a parameter.
MLFLOW_METRICS = 1000
MLFLOW_PARAMETERS = 100
MLFLOW_LENGTH = 500
MLFLOW_FORBIDDEN = re.compile(r"[^\w\-. :/]")


@dataclass(frozen=True)
class Step:
    """The metrics of one training step."""

    number: int
    """Place among all steps of the run, from 0."""
    stage: int
    step: int
    time: float
    """Time of writing, in seconds since 1970."""
    values: dict[str, float]
    """Finite numbers by name."""


def steps(run: runs.Run, *, follow: bool = False) -> Iterator[Step]:
    """Yields the steps of a run in their order; with `follow`, waits for those to come until the run ends.

    A resumed run writes again what followed its last checkpoint. Those steps are not yielded twice.

    Raises:
        RunError: If the metrics cannot be read.
    """
    seen: set[tuple[int, int]] = set()
    while True:
        # Looked at before the lines, so that none is missed.
        over = run.summary is not None
        for line in run.metrics_lines():
            key = (line["stage"], line["step"])
            if key not in seen:
                values = {name: float(value) for name, value in line["values"].items() if _is_finite(value)}
                yield Step(len(seen), *key, line["time"], values)
                seen.add(key)
        if over or not follow:
            return
        time.sleep(INTERVAL_S)


def wandb(
    run: runs.Run,
    *,
    project: str,
    name: str | None = None,
    folder: str | PathLike[str] | None = None,
    online: bool = False,
    follow: bool = False,
) -> Path:
    """Writes a run of Weights & Biases; returns its folder, which `wandb sync` uploads.

    Args:
        run: The recorded run.
        project: Project of Weights & Biases.
        name: Name of the run; by default that of the run's folder.
        folder: Folder in which the client writes `wandb/`; by default the run's.
        online: Whether the client uploads at once. It then needs a key and the network.
        follow: Whether to wait for the end of a run in progress.

    Raises:
        MissingFrameworkError: If `wandb` is not installed.
        RunError: If a file of the run cannot be used.
    """
    with framework("wandb"):
        import wandb as client
    opened = client.init(
        project=project,
        name=name or run.path.resolve().name,
        dir=str(folder or run.path),
        config=run.config,
        mode="online" if online else "offline",
    )
    for step in steps(run, follow=follow):
        opened.log({**step.values, "stage": step.stage, "stage_step": step.step}, step=step.number)
    opened.summary.update(dict(_flat(run.summary or {})))
    # The client's `dir` is the folder of the files; `wandb sync` takes the one above it.
    written = Path(opened.dir).parent
    opened.finish()
    return written


def mlflow(
    run: runs.Run,
    *,
    project: str,
    name: str | None = None,
    uri: str | None = None,
    follow: bool = False,
) -> str:
    """Writes a run of MLflow; returns its id.

    Args:
        run: The recorded run.
        project: Experiment of MLflow, made if it does not exist.
        name: Name of the run; by default that of the run's folder.
        uri: Tracking server, folder or database; by default that of MLflow's own settings.
        follow: Whether to wait for the end of a run in progress.

    Raises:
        MissingFrameworkError: If `mlflow` is not installed.
        RunError: If a file of the run cannot be used.
    """
    with framework("mlflow"):
        from mlflow.entities import Metric, Param
        from mlflow.tracking import MlflowClient
    client = MlflowClient(tracking_uri=uri)
    experiment = client.get_experiment_by_name(project)
    experiment_id = client.create_experiment(project) if experiment is None else experiment.experiment_id
    run_id: str = client.create_run(experiment_id, run_name=name or run.path.resolve().name).info.run_id
    parameters = [Param(_mlflow_name(key), str(value)[:MLFLOW_LENGTH]) for key, value in _flat(run.config)]
    for first in range(0, len(parameters), MLFLOW_PARAMETERS):
        client.log_batch(run_id, params=parameters[first : first + MLFLOW_PARAMETERS])
    for step in steps(run, follow=follow):
        values = {**step.values, "stage": float(step.stage), "stage_step": float(step.step)}
        moment = int(step.time * 1000)
        metrics = [Metric(_mlflow_name(key), value, moment, step.number) for key, value in values.items()]
        for first in range(0, len(metrics), MLFLOW_METRICS):
            client.log_batch(run_id, metrics=metrics[first : first + MLFLOW_METRICS])
    for key, value in _flat(run.summary or {}):
        client.set_tag(run_id, f"summary.{_mlflow_name(key)}", str(value))
    client.set_terminated(run_id, "FINISHED")
    return run_id


def _is_finite(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _mlflow_name(name: str) -> str:
    return MLFLOW_FORBIDDEN.sub("_", name)


def _flat(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Values within tables and lists, by the names that lead to them."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _flat(inner, f"{path}.{name}" if path else str(name))
    elif isinstance(value, list) and any(isinstance(inner, (Mapping, list)) for inner in value):
        for place, inner in enumerate(value):
            yield from _flat(inner, f"{path}.{place}")
    else:
        yield path, value


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m gymkhana_rl.track", description="Pass the metrics of a run on")
    parser.add_argument("run", help="folder of the run (--out of `host run`)")
    parser.add_argument("--to", required=True, choices=["wandb", "mlflow"], help="service that receives them")
    parser.add_argument("--project", required=True, help="project of W&B, experiment of MLflow")
    parser.add_argument("--name", help="name of the run there (default: its folder's)")
    parser.add_argument("--follow", action="store_true", help="wait for the end of a run in progress")
    parser.add_argument("--online", action="store_true", help="W&B: upload at once")
    parser.add_argument("--folder", help="W&B: where `wandb/` is written (default: the run's folder)")
    parser.add_argument("--uri", help="MLflow: server, folder or database")
    return parser


def main() -> int:
    """Runs the command; returns its exit status."""
    given = _arguments().parse_args()
    try:
        run = runs.open(given.run)
        if given.to == "wandb":
            written = wandb(
                run,
                project=given.project,
                name=given.name,
                folder=given.folder,
                online=given.online,
                follow=given.follow,
            )
            print(written if given.online else f"{written}\nhint: `wandb sync {written}` uploads it")
        else:
            print(mlflow(run, project=given.project, name=given.name, uri=given.uri, follow=given.follow))
    except GymkhanaError as error:
        print(f"error: {error}" + (f"\nhint: {error.hint}" if error.hint else ""), file=sys.stderr)
        return 2
    except Exception as error:
        # Errors of the service's client, such as a server that cannot be reached.
        if type(error).__module__.partition(".")[0] != given.to:
            raise
        print(f"error: {given.to} failed: {error}\nhint: check its settings and --uri", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
