"""Classes in place of plugins: on the same actions they give what the plugin gives that is built from the class."""

from __future__ import annotations

import importlib.util
import json
import pickle
import sys
from pathlib import Path
from typing import Any

import pytest

import gymkhana_rl as gk

ROOT = Path(__file__).resolve().parents[3]
TEMPLATES = ROOT / "host" / "cli" / "templates"
if not TEMPLATES.is_dir():
    pytest.skip("the classes are in the repository", allow_module_level=True)
sys.path.insert(0, str(ROOT / "sdk" / "python" / "src"))

from gymkhana_sdk import Answer, Environment, Function, Parameter, Reward, Score, Split, Started, Stepped, Tool  # noqa: E402


def template(kind: str, name: str) -> Any:
    """The class of a template, whose plugin is a guest of the tests."""
    module = f"template_{kind}"
    if module not in sys.modules:
        spec = importlib.util.spec_from_file_location(module, TEMPLATES / f"python-{kind}" / "plugin.py")
        assert spec is not None and spec.loader is not None
        sys.modules[module] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[module])
    return getattr(sys.modules[module], name)


@pytest.fixture
def guess() -> Any:
    return template("environment", "Guess")


@pytest.fixture
def notes() -> Any:
    return template("tool", "Notes")


def call(name: str, /, **arguments: str) -> gk.Call:
    return gk.Call(name, arguments)


ACTIONS: list[Any] = [
    "fifty",
    "1",
    [call("write", name="a", text="b"), call("read", name="a"), call("read", name="z"), call("nothing")],
    {"message": "a note", "calls": [{"name": "read", "arguments": {"name": "a"}}]},
    "100",
]


def test_a_class_gives_what_its_plugin_gives(load, guess, notes):
    plugin = load("guest-python-environment").env(seed=4, tools=[load("guest-python-tool")], options={"guesses": 3})
    stand_in = gk.local(guess).env(seed=4, tools=[gk.local(notes)], options={"guesses": 3})
    assert stand_in.functions == plugin.functions and stand_in.seats == plugin.seats
    # Without a task, the seed draws one.
    assert stand_in.reset() == plugin.reset()
    for action in ACTIONS:
        assert stand_in.step(action) == plugin.step(action)
        assert stand_in.advise() == plugin.advise() and stand_in.privileged() == plugin.privileged()
        assert stand_in.state_key() == plugin.state_key() and stand_in.render() == plugin.render()
    while not plugin.done:
        advice = plugin.advise()
        assert stand_in.step(advice) == plugin.step(advice)
    assert stand_in.done
    own, other = stand_in.record(), plugin.record()
    for key in ("task", "seed", "turns", "ending", "rewards", "environment_rewards", "extras", "privileged", "failures"):
        assert own[key] == other[key], key
    assert own["opening"]["observations"] == other["opening"]["observations"]
    assert [view["value"] for view in own["views"]] == [view["value"] for view in other["views"]] == [{"integer": 1}]
    assert own["unsandboxed"] == ["local/guess", "local/notes"] and "unsandboxed" not in other
    assert json.loads(stand_in.record_bytes()) == own
    # The next episode of the sequence.
    assert stand_in.reset() == plugin.reset()


def test_tools_and_rewards_of_classes_answer_as_their_plugins_do(load, notes):
    plugin, stand_in = load("guest-python-tool").tool(), gk.local(notes).tool()
    assert stand_in.schemas == plugin.schemas
    for name, arguments in [("write", {"name": "a", "text": "b"}), ("read", {"name": "a"}), ("read", {"name": "z"})]:
        assert stand_in.call(name, arguments) == plugin.call(name, arguments)
    assert stand_in.functions["read"](name="a") == "b"
    plugin, stand_in = load("guest-python-reward").reward(free=3), gk.local(template("reward", "Brief")).reward(free=3)
    assert stand_in.components == plugin.components
    completions = ["42", [{"role": "assistant", "content": "the answer is 42"}], "no"]
    columns = {"answer": ["42", "42", "42"]}
    assert stand_in.score(completions, columns=columns) == plugin.score(completions, columns=columns)
    assert stand_in(completions=completions, **columns) == plugin(completions=completions, **columns)
    assert stand_in.group("?", completions, answer="42") == plugin.group("?", completions, answer="42")
    assert stand_in(completions=["42"])[0] is None, "a reward that refuses gives no score"


def test_adapters_take_classes(load, guess):
    from gymkhana_rl.datasets import rows
    from gymkhana_rl.trl import environment_factory

    plugin = load("guest-python-environment")
    assert list(rows(guess, count=3, privileged=True)) == list(rows(plugin, count=3, privileged=True))
    row = next(iter(rows(guess, count=1)))
    observed = []
    for source in (guess, plugin):
        environment = environment_factory(source)()
        observed.append((environment.reset(**row), environment.act(message="50"), environment.get_reward()))
    assert observed[0] == observed[1]


class Broken(Environment):
    """Fails at every step, each time in another way."""

    summary = "Fails"
    rewards = (0.0, 1.0)

    @classmethod
    def splits(cls, options):
        return [Split("train", 2)]

    def start(self, task, options, seed):
        self.too_much = task.index == 1
        return Started("Go.")

    def step(self, action):
        if self.too_much:
            return Stepped("Much.", reward=7.0, terminated=True)
        raise RuntimeError("it is broken")


class Crashing(Tool):
    """Loses its state when it crashes."""

    @classmethod
    def functions(cls, options):
        return [Function("count", "Counts.", {"crash": Parameter(bool, "whether to crash")})]

    def open(self, setup, options, seed):
        self.count = 0

    def call(self, call):
        if call.flag("crash"):
            raise KeyError("gone")
        self.count += 1
        return Answer(str(self.count))


class Both(Reward):
    """Compares a group."""

    components = {}
    range = (0.0, 1.0)

    def score(self, trajectory, seat, options):
        return Score(float(trajectory.last_message(seat).text == "yes"))


def test_failures_of_classes_end_what_they_end_in_plugins():
    env = gk.local(Broken).env(task=0)
    env.reset()
    with pytest.raises(gk.PluginError, match=r"local/broken failed during step: RuntimeError: it is broken \(.*py:\d+\)") as failed:
        env.step("x")
    assert (failed.value.kind, failed.value.plugin) == ("trap", "local/broken")
    assert env.done and env.record()["ending"] == "environment-failed" and len(env.record()["failures"]) == 1
    with pytest.raises(gk.EpisodeEndedError):
        env.step("x")
    env.reset(task=1)
    with pytest.raises(gk.PluginError, match="earned 7.0 in total, outside the range 0.0 to 1.0"):
        env.step("x")
    tool = gk.local(Crashing).tool()
    answers = [tool.call("count", {"crash": crash}) for crash in (False, False, True, False)]
    assert [answer.content for answer in answers][:2] == ["1", "2"] and answers[2].failed
    assert answers[3] == gk.ToolAnswer("1"), "a new session began"
    assert gk.local(Both).reward()(completions=["yes", "no"]) == [1.0, 0.0]


def test_mistakes_say_what_to_do(guess, load):
    plugin = gk.local(guess)
    assert (plugin.name, plugin.kinds, plugin.splits()) == ("local/guess", ("environment",), {"train": 1000, "test": 100})
    assert pickle.loads(pickle.dumps(gk.local(Broken))).cls is Broken
    with pytest.raises(gk.LoadError, match="`int` cannot be used") as wrong:
        gk.local(int)
    assert wrong.value.hint == "give a subclass of Environment, Tool or Reward of gymkhana_sdk"
    with pytest.raises(gk.OptionError, match="is a class of kind environment, not tool"):
        plugin.tool()
    with pytest.raises(gk.OptionError, match="has no split `x`"):
        plugin.env(split="x")
    with pytest.raises(gk.PluginError, match="unknown option `guess`") as refused:
        plugin.env(options={"guess": 3})
    assert refused.value.kind == "refused"
    with pytest.raises(gk.OptionError, match="holds the class `Guess`") as played:
        gk.play(guess, model="http://127.0.0.1:9", episodes=1)
    assert played.value.hint is not None and "gymkhana plugin build" in played.value.hint
    env = plugin.env()
    with pytest.raises(gk.EpisodeEndedError, match="has not begun"):
        env.step("1")
    env.close()
    with pytest.raises(gk.StaleHandleError, match="it is closed"):
        env.reset()
