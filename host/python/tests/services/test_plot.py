"""Curves of a run, as matplotlib holds them."""

from __future__ import annotations

import json

import pytest

import gymkhana_rl as gk
from gymkhana_rl import runs


@pytest.fixture
def trained(tmp_path):
    lines = [(0, 0, {"loss": 4.0}), (0, 1, {"loss": 2.0}), (1, 0, {"loss": None, "reward": 1.0}), (1, 1, {"loss": 1.0})]
    (tmp_path / "episodes").mkdir()
    (tmp_path / "run.toml").write_text("")
    text = [json.dumps({"stage": stage, "step": step, "time": 1.0, "values": values}) for stage, step, values in lines]
    (tmp_path / "metrics.jsonl").write_text("\n".join(text) + "\n")
    return runs.open(tmp_path)


def test_metrics_are_drawn_over_all_steps(trained):
    pytest.importorskip("matplotlib")
    loss, reward = trained.plot("loss", "reward").axes
    assert (loss.get_ylabel(), reward.get_ylabel()) == ("loss", "reward")
    curve, beginning = loss.lines
    # A step without a value has no point. The second stage begins after step 1.
    assert (list(curve.get_xdata()), list(curve.get_ydata())) == ([0, 1, 3], [4.0, 2.0, 1.0])
    assert list(beginning.get_xdata()) == [1.5, 1.5]
    (smooth,) = trained.plot("loss", smooth=2).axes
    assert list(smooth.lines[0].get_ydata()) == [4.0, 3.0, 1.5]
    with pytest.raises(gk.OptionError, match="no metric `los`") as unknown:
        trained.plot("los")
    assert unknown.value.hint == "it has loss, reward"
    with pytest.raises(gk.OptionError):
        trained.plot()
    with pytest.raises(gk.OptionError):
        trained.plot("loss", smooth=0)
