"""Metrics in Weights & Biases and MLflow, read back by their own code."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gymkhana_rl import runs, track

LINES = [
    {"schema": 1, "stage": 0, "step": 0, "time": 5.0, "values": {"loss": 2.5, "success": None}},
    {"schema": 1, "stage": 1, "step": 0, "time": 6.5, "values": {"loss": 1.25, "reward/math-verify": 0.5}},
]
CONFIG = 'seed = 7\n[policy]\nsystem = "Be brief."\n[[stages]]\nkind = "sft"\n[[stages]]\nkind = "rl"\n'


@pytest.fixture
def run(tmp_path):
    folder = tmp_path / "mine"
    (folder / "episodes").mkdir(parents=True)
    (folder / "run.toml").write_text(CONFIG)
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in LINES))
    (folder / "summary.json").write_text('{"schema": 1, "greedy": {"success": 0.75}}')
    return runs.open(folder)


def entries(file: bytes) -> Iterator[bytes]:
    """The entries of a file of Weights & Biases: a log of LevelDB in blocks of 32 KiB, behind 7 bytes of its own.

    A fragment has a checksum of 4 bytes, a length of 2 and a kind: 1 for a whole entry, 2 to 4 for its first, middle and
    last parts.
    """
    assert file.startswith(b":W&B")
    entry, place = b"", 7
    while place + 7 <= len(file):
        left = 32768 - place % 32768
        if left < 7:
            place += left
            continue
        length, kind = int.from_bytes(file[place + 4 : place + 6], "little"), file[place + 6]
        entry += file[place + 7 : place + 7 + length]
        place += 7 + length
        if kind in (1, 4):
            yield entry
            entry = b""


def until_end(file: Path) -> list[bytes]:
    """The entries of a file, as soon as its size rests: the client's own process writes it."""
    size = -1
    for _ in range(100):
        time.sleep(0.2)
        if size == file.stat().st_size > 7:
            break
        size = file.stat().st_size
    return list(entries(file.read_bytes()))


def test_wandb_has_configuration_steps_and_results(run, tmp_path):
    pytest.importorskip("wandb")
    from wandb.proto import wandb_internal_pb2

    written = track.wandb(run, project="agents", folder=tmp_path)
    assert written.parent == tmp_path / "wandb" and written.name.startswith("offline-run-")
    (file,) = written.glob("*.wandb")
    history, config, summary, project = [], {}, {}, set()
    for data in until_end(file):
        record = wandb_internal_pb2.Record()
        record.ParseFromString(data)
        kind = record.WhichOneof("record_type")
        if kind == "history":
            items = {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in record.history.item}
            history.append((record.history.step.num, items))
        elif kind == "run":
            project.add((record.run.project, record.run.display_name))
            config.update({item.key: json.loads(item.value_json) for item in record.run.config.update})
        elif kind == "summary":
            summary.update({item.key: json.loads(item.value_json) for item in record.summary.update if item.key})
    assert project == {("agents", "mine")}
    assert config["seed"] == 7 and config["policy"] == {"system": "Be brief."}
    own = [(number, {key: value for key, value in items.items() if key[0] != "_"}) for number, items in history]
    assert own == [
        (0, {"loss": 2.5, "stage": 0, "stage_step": 0}),
        (1, {"loss": 1.25, "reward/math-verify": 0.5, "stage": 1, "stage_step": 0}),
    ]
    assert summary["greedy.success"] == 0.75


def test_mlflow_has_parameters_metrics_and_results(run, tmp_path, monkeypatch):
    pytest.importorskip("mlflow")
    from mlflow.tracking import MlflowClient

    # A database needs packages that the client alone does not.
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    uri = (tmp_path / "tracking").as_uri()
    run_id = track.mlflow(run, project="agents", uri=uri)
    client = MlflowClient(tracking_uri=uri)
    found = client.get_run(run_id)
    assert found.info.status == "FINISHED" and found.info.run_name == "mine"
    assert client.get_experiment(found.info.experiment_id).name == "agents"
    parameters = {"seed": "7", "policy.system": "Be brief.", "stages.0.kind": "sft", "stages.1.kind": "rl"}
    assert found.data.params == parameters
    points = [(point.step, point.value, point.timestamp) for point in client.get_metric_history(run_id, "loss")]
    assert points == [(0, 2.5, 5000), (1, 1.25, 6500)]
    assert [point.value for point in client.get_metric_history(run_id, "reward/math-verify")] == [0.5]
    assert found.data.tags["summary.greedy.success"] == "0.75"
    # A second run joins the same experiment.
    assert client.get_run(track.mlflow(run, project="agents", uri=uri)).info.experiment_id == found.info.experiment_id


def test_a_server_that_cannot_be_reached_is_an_error_with_a_hint(run, monkeypatch, capsys):
    pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    # No server listens on the discard port.
    arguments = ["track", str(run.path), "--to", "mlflow", "--project", "agents", "--uri", "http://127.0.0.1:9"]
    monkeypatch.setattr("sys.argv", arguments)
    assert track.main() == 2
    error = capsys.readouterr().err
    assert "error: mlflow failed: " in error and "\nhint: check its settings and --uri" in error
