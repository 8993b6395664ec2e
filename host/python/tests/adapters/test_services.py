"""Metrics in Weights & Biases and MLflow, read back by their own code."""

from __future__ import annotations

import json

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


def test_wandb_has_configuration_steps_and_results(run, tmp_path):
    pytest.importorskip("wandb")
    from wandb.proto import wandb_internal_pb2
    from wandb.sdk.internal.datastore import DataStore

    written = track.wandb(run, project="agents", folder=tmp_path)
    assert written.parent == tmp_path / "wandb" and written.name.startswith("offline-run-")
    (file,) = written.glob("*.wandb")
    store = DataStore()
    store.open_for_scan(str(file))
    history, config, summary, project = [], {}, {}, set()
    while (data := store.scan_data()) is not None:
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


def test_mlflow_has_parameters_metrics_and_results(run, tmp_path):
    pytest.importorskip("mlflow")
    from mlflow.tracking import MlflowClient

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
