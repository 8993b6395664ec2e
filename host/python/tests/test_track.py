"""The steps of a run as services receive them: counted over the stages, each once, and finite."""

from __future__ import annotations

import json
import threading

import pytest

from gymkhana_rl import runs, track


def line(stage: int, step: int, **values: float | None) -> str:
    return json.dumps({"schema": 1, "stage": stage, "step": step, "time": 5.0 + step, "values": values}) + "\n"


@pytest.fixture
def run(tmp_path):
    (tmp_path / "episodes").mkdir()
    (tmp_path / "run.toml").write_text('seed = 7\nstages = [{ kind = "sft", steps = 2 }, { kind = "rl" }]\n')
    (tmp_path / "metrics.jsonl").write_text(line(0, 0, loss=2.5) + line(0, 1, loss=None) + line(1, 0, loss=1.0))
    return runs.open(tmp_path)


def test_steps_are_counted_over_the_stages(run):
    found = [(step.number, step.stage, step.step, step.time, step.values) for step in track.steps(run)]
    assert found == [(0, 0, 0, 5.0, {"loss": 2.5}), (1, 0, 1, 6.0, {}), (2, 1, 0, 5.0, {"loss": 1.0})]


def test_a_run_in_progress_is_followed_to_its_end_and_a_repeated_step_is_left_out(run, monkeypatch):
    monkeypatch.setattr(track, "INTERVAL_S", 0.01)
    seen = []
    reached = threading.Event()

    def follow() -> None:
        for step in track.steps(run, follow=True):
            seen.append((step.number, step.stage, step.step))
            if len(seen) == 3:
                reached.set()

    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    assert reached.wait(10)
    # A resumed run cuts off what followed its checkpoint and writes it again; the last line is incomplete at first.
    metrics = run.path / "metrics.jsonl"
    metrics.write_text(line(0, 0, loss=2.5) + line(0, 1, loss=9.0) + line(1, 0, loss=9.0) + line(1, 1)[:-8])
    threading.Event().wait(0.1)
    metrics.write_text(line(0, 0, loss=2.5) + line(0, 1, loss=9.0) + line(1, 0, loss=9.0) + line(1, 1, loss=0.5))
    (run.path / "summary.json").write_text("{}")
    thread.join(10)
    assert not thread.is_alive()
    assert seen == [(0, 0, 0), (1, 0, 1), (2, 1, 0), (3, 1, 1)]


def test_a_missing_client_and_a_missing_run_are_named(run, monkeypatch, capsys):
    monkeypatch.setitem(__import__("sys").modules, "wandb", None)
    for arguments, message in [
        ([str(run.path), "--to", "wandb", "--project", "p"], "cannot import `wandb`"),
        ([str(run.path / "nothing"), "--to", "mlflow", "--project", "p"], "does not hold a run"),
    ]:
        monkeypatch.setattr("sys.argv", ["track", *arguments])
        assert track.main() == 2
        error = capsys.readouterr().err
        assert message in error and "\nhint: " in error
