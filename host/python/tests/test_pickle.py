"""Pickling: objects go to other processes by what makes them, episodes by their snapshots."""

from __future__ import annotations

import copy
import pickle

import pytest

import gymkhana_rl as gk
from gymkhana_rl._pickle import plugin as unpickled


def there_and_back(value):
    return pickle.loads(pickle.dumps(value))


def test_plugins(load):
    plugin = there_and_back(load("frozen-lake", fuel=10**9, timeout_s=2.0, memory_mib=32))
    assert plugin.digest == load("frozen-lake").digest
    assert plugin.__reduce__()[1][2] == {"grants": None, "fuel": 10**9, "timeout_s": 2.0, "memory_mib": 32}


def test_plugins_with_grants(load, tmp_path):
    (tmp_path / "notes.txt").write_text("kept words")
    grants = {
        "assets": {"notes": str(tmp_path / "notes.txt")},
        "model": {"script": ["granted"]},
        "http": [{"allow": "https://example.org"}],
    }
    plugin = load("guest-asking-tool", grants=grants)
    copied = there_and_back(plugin)
    assert copied.__reduce__()[1][2]["grants"] == grants
    answers = [one.tool().call("assets", {}) for one in (plugin, copied)]
    assert answers[0] == answers[1] and "notes" in answers[0].content
    (tmp_path / "notes.txt").unlink()
    with pytest.raises(gk.LoadError, match="notes"):
        there_and_back(plugin)


def test_another_component_is_refused(load):
    source, _, keywords = load("frozen-lake").__reduce__()[1]
    with pytest.raises(gk.LoadError, match="its digest is"):
        unpickled(source, "0" * 64, keywords)


def test_running_episodes(lake):
    env = lake.env(seed=4)
    env.reset()
    env.step(env.advise())
    for copied in (there_and_back(env), copy.deepcopy(env)):
        action = copied.advise()
        fork = env.fork()
        assert copied.step(action) == fork.step(action)
        assert copied.record()["turns"] == fork.record()["turns"]


def test_environments_with_tools(load):
    env = load("word-problems").env(seed=1, tools=[load("calculator").tool(), load("sql")])
    copied = there_and_back(env)
    assert copied.reset() == env.reset()
    assert [function["name"] for function in copied.functions] == [function["name"] for function in env.functions]
    assert there_and_back(env).step(gk.Call("calculate", {"expression": "6*7"}))[0] == "42"


def test_an_episode_without_snapshots_is_an_error(load):
    env = load("guest-two-seats").env()
    env.reset()
    with pytest.raises(gk.OptionError, match="offers no snapshots"):
        pickle.dumps(env)


def test_tools_and_rewards(load):
    tool = there_and_back(load("calculator").tool(seed=3))
    assert tool.seed == 3 and tool.call("calculate", {"expression": "1+1"}).content == "2"
    with pytest.raises(TypeError, match="before the first call"):
        pickle.dumps(tool)
    reward = there_and_back(load("answer-match").reward(seed=2, **{"per-call-cost": 0.5}))
    assert reward.seed == 2 and reward.options == {"per-call-cost": 0.5}
    assert reward(completions=["42"], answer=["42"]) == [1.0]


@pytest.mark.parametrize(
    "error",
    [
        gk.LoadError("it cannot be loaded", "check the path"),
        gk.OptionError("no option"),
        gk.PluginError("it failed", None, "lake", "trap"),
        gk.EpisodeEndedError("over", "reset"),
    ],
)
def test_errors(error):
    copied = there_and_back(error)
    assert type(copied) is type(error) and str(copied) == str(error) and vars(copied) == vars(error)


def test_data():
    for value in (gk.Call("f", {"x": 1}), gk.ToolAnswer("a", True), gk.Score(1.0, {"c": 0.5})):
        assert there_and_back(value) == value
