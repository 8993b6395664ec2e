"""Recorded runs: the frames hold what the files hold."""

from __future__ import annotations

import pytest

import gymkhana_rl as gk
from gymkhana_rl import runs

METRICS = """\
{"schema": 1, "stage": 0, "step": 0, "time": 5.0, "values": {"loss": 2.5}}
{"schema": 1, "stage": 1, "step": 0, "time": 6.5, "values": {"loss": null, "reward": 0.25}}
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "episodes").mkdir()
    (tmp_path / "run.toml").write_text('seed = 7\n[policy]\nsystem = "Be brief."\n# sha256 of this file\n')
    (tmp_path / "metrics.jsonl").write_text(METRICS)
    return tmp_path


def test_files_are_read_when_they_are_asked_for(folder):
    run = runs.open(folder)
    assert run.config == {"seed": 7, "policy": {"system": "Be brief."}}
    assert run.summary is None
    (folder / "summary.json").write_text('{"schema": 1, "success": 0.5}')
    assert run.summary == {"schema": 1, "success": 0.5}


@pytest.mark.parametrize("backend", ["polars", "pandas"])
def test_episodes_of_all_parts_and_metrics_of_all_steps(folder, backend):
    frames = pytest.importorskip(backend)
    if backend == "pandas":
        pytest.importorskip("pyarrow")
    for part, ids in [(1, ["0.demo.0.0.0.0", "0.demo.0.1.0.0"]), (2, ["1.train.0.0.0.0"])]:
        frame = frames.DataFrame({"id": ids, "reward": [0.5] * len(ids), "tokens": [[1, 2]] * len(ids)})
        file = folder / "episodes" / f"part-{part:06}.parquet"
        frame.write_parquet(file) if backend == "polars" else frame.to_parquet(file)
    run = runs.open(folder)
    episodes = run.episodes(backend)
    if backend == "polars":
        assert isinstance(episodes, frames.LazyFrame)
        episodes = episodes.collect()
    assert list(episodes["id"]) == ["0.demo.0.0.0.0", "0.demo.0.1.0.0", "1.train.0.0.0.0"]
    metrics = run.metrics(backend)
    assert list(metrics["step"]) == [0, 0] and list(metrics["time"]) == [5.0, 6.5]
    assert metrics["loss"][0] == 2.5 and metrics["reward"][1] == 0.25
    assert list(metrics["loss"].isna() if backend == "pandas" else metrics["loss"].is_null()) == [False, True]


def test_mistakes_say_what_to_do(folder, tmp_path):
    with pytest.raises(runs.RunError) as no_run:
        runs.open(tmp_path / "nothing")
    assert "does not hold a run" in str(no_run.value) and no_run.value.hint == "give the --out of a run"
    run = runs.open(folder)
    with pytest.raises(runs.RunError, match="no stored episodes"):
        run.episodes()
    with pytest.raises(gk.OptionError, match="`arrow` is unknown"):
        run.metrics("arrow")
    (folder / "metrics.jsonl").unlink()
    pytest.importorskip("polars")
    with pytest.raises(runs.RunError, match=r"metrics\.jsonl` cannot be read"):
        run.metrics()
