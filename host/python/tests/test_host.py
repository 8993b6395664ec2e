"""The program `host` and the package give the same records of the same episodes. A run of the program writes them."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

import gymkhana_rl as gk
from conftest import PLUGINS

HOST = os.environ.get("GYMKHANA_HOST", "")
pytestmark = pytest.mark.skipif(not HOST, reason="GYMKHANA_HOST names no program")

RUN = """
seed = 4
success = "environment.success"
evaluation = { tasks = 0 }
policy = { tiny = { layers = 1, width = 16, heads = 2, kv_heads = 1, mlp = 32, context = 2048 } }
stages = [{ kind = "sft", steps = 2, batch = 3 }]
"""
SAME = ("schema", "task", "seed", "opening", "turns", "ending", "environment_rewards", "extras", "privileged", "views",
        "failures", "exchanges")


def demonstrations(folder: Path, plugins: list[str], *settings: str) -> list[dict]:
    """Records of the oracle's episodes in a run of the program."""
    (folder / "run.toml").write_text(RUN)
    paths = ",".join(str(PLUGINS / f"{name}.wasm") for name in plugins)
    sets = [word for setting in settings for word in ("--set", setting)]
    command = [HOST, "run", "run.toml", "--plugins", paths, "--out", "out", *sets]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    rows = gk.runs.open(folder / "out").episodes("polars").collect()
    return [{**json.loads(row["record"]), "turns": json.loads(row["transcript"])} for row in rows.iter_rows(named=True)]


def actions(turns: list[dict]) -> list:
    """The oracle's turns as actions: a message, or the calls that follow each other."""
    found: list = []
    calls: list[gk.Call] | None = None
    for turn in turns:
        if turn["turn"] == "message":
            found.append("".join(part["text"] for part in turn["content"]))
        if turn["turn"] != "call":
            calls = None
        elif calls is None:
            found.append(calls := [as_call(turn["call"])])
        else:
            calls.append(as_call(turn["call"]))
    return found


def as_call(call: dict) -> gk.Call:
    return gk.Call(call["name"], json.loads(call["arguments"]), call["id"])


@pytest.mark.parametrize(
    ("plugins", "settings"),
    [
        (["frozen-lake"], []),
        (["word-problems", "calculator", "answer-match"], ["success='answer-match.correct'"]),
        (["kuhn-poker"], []),
    ],
    ids=["messages", "calls", "two seats"],
)
def test_the_same_actions_give_the_same_records(load, tmp_path, plugins, settings):
    records = demonstrations(tmp_path, plugins, *settings)
    assert len(records) == 6
    environment, tools = load(plugins[0]), [load(name) for name in plugins[1:2]]
    rewards = [load(name).reward() for name in plugins[2:]]
    for record in records:
        env = environment.env(split=record["task"]["split"], tools=tools)
        env.reset(seed=record["seed"], task=record["task"]["index"])
        for action in actions(record["turns"]):
            env.step(action)
        own = env.record()
        for key in SAME:
            assert own[key] == record[key], f"{key} of {record['id']}"
        if not rewards:
            assert own["rewards"] == record["rewards"]
        for reward in rewards:
            messages = gk.Episode.from_bytes(env.record_bytes()).messages()
            columns = {name: [value] for name, value in env.privileged().items()}
            (total,) = reward(completions=[messages], **columns)
            assert record["rewards"] == [own["rewards"][0] + total] and total != 0
    assert any(reward for record in records for reward in record["rewards"])
