"""Classes in place of plugins: on the same actions they give what the plugin gives that is built from the class."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest

import gymkhana_rl as gk
import sdk_classes as classes
from sdk_classes import NAMES, Brief, Guess, Notes


def call(name: str, /, **arguments: str) -> gk.Call:
    return gk.Call(name, arguments)


ACTIONS: list[Any] = [
    "fifty",
    "1",
    [call("write", name="a", text="b"), call("read", name="a"), call("read", name="z"), call("nothing")],
    {"message": "a note", "calls": [{"name": "read", "arguments": {"name": "a"}}]},
    "100",
]


def comparable(record: dict[str, Any]) -> dict[str, Any]:
    """A record without costs and times, with the names of the classes."""
    text = json.dumps({name: value for name, value in record.items() if name not in ("costs", "timing", "unsandboxed")})
    for name, short in NAMES.items():
        text = text.replace(name, short)
    return json.loads(text)


def both(load) -> tuple[gk.Env, gk.Env]:
    plugin = load("guest-python-environment").env(seed=4, tools=[load("guest-python-tool")], options={"guesses": 3})
    return gk.local(Guess).env(seed=4, tools=[Notes], options={"guesses": 3}), plugin


def test_a_class_gives_what_its_plugin_gives(load):
    stand_in, plugin = both(load)
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
    assert comparable(own) == comparable(other)
    assert own["views"] == [{"name": "notes.notes", "value": {"integer": 1}}]
    assert own["unsandboxed"] == ["local/guess", "local/notes"] and "unsandboxed" not in other
    assert json.loads(stand_in.record_bytes()) == own
    # The next episode of the sequence.
    assert stand_in.reset() == plugin.reset()


def test_a_class_with_snapshots_forks_and_pickles(load):
    stand_in, plugin = both(load)
    for env in (stand_in, plugin):
        env.reset()
        env.step([call("write", name="a", text="b")])
    copies = [stand_in.fork(), pickle.loads(pickle.dumps(stand_in)), plugin.fork()]
    stand_in.step("1")
    read = [copy.step([call("read", name="a")]) for copy in copies]
    assert read[0] == read[1] == read[2] and read[0][0] == "b"
    assert copies[0].state_key() == copies[2].state_key() != stand_in.state_key()


def test_batches_of_classes_are_those_of_their_plugin(load):
    one, other = gk.local(Guess).vector_env(3, seed=5), load("guest-python-environment").vector_env(3, seed=5)
    assert one.reset()[0] == other.reset()[0]
    for action in ("50", "25", "75"):
        texts, rewards, terminated, truncated, infos = one.step([action] * 3)
        assert (texts, infos) == (other.step([action] * 3)[0], infos)
        assert len(rewards) == len(terminated) == len(truncated) == 3


def test_tools_and_rewards_of_classes_answer_as_their_plugins_do(load):
    plugin, stand_in = load("guest-python-tool").tool(), gk.local(Notes).tool()
    assert stand_in.schemas == plugin.schemas
    for name, arguments in [("write", {"name": "a", "text": "b"}), ("read", {"name": "a"}), ("read", {"name": "z"})]:
        assert stand_in.call(name, arguments) == plugin.call(name, arguments)
    assert stand_in.functions["read"](name="a") == "b"
    plugin, stand_in = load("guest-python-reward").reward(free=3), gk.local(Brief).reward(free=3)
    assert stand_in.components == plugin.components
    completions = ["42", [{"role": "assistant", "content": "the answer is 42"}], "no"]
    columns = {"answer": ["42", "42", "42"]}
    assert stand_in.score(completions, columns=columns) == plugin.score(completions, columns=columns)
    assert stand_in(completions=completions, **columns) == plugin(completions=completions, **columns)
    assert stand_in.group("?", completions, answer="42") == plugin.group("?", completions, answer="42")
    assert stand_in(completions=["42"])[0] is None, "a reward that refuses gives no score"


def test_a_class_describes_itself_as_its_plugin(load):
    own, other = gk.local(Guess).describe(), load("guest-python-environment").describe()
    assert own["description"] == other["description"] and own["unsandboxed"] is True
    assert own["manifest"]["name"] == "guess" and own["manifest"]["kinds"] == ["environment"]


def test_adapters_take_classes(load):
    from gymkhana_rl.datasets import rows
    from gymkhana_rl.trl import environment_factory

    plugin = load("guest-python-environment")
    assert list(rows(Guess, count=3, privileged=True)) == list(rows(plugin, count=3, privileged=True))
    row = next(iter(rows(Guess, count=1)))
    observed = []
    for source in (Guess, plugin):
        environment = environment_factory(source)()
        observed.append((environment.reset(**row), environment.act(message="50"), environment.get_reward()))
    assert observed[0] == observed[1]


STEP_FAILURES = [
    (classes.BrokenStep, "trap", r"uncaught exception: .*sdk_classes\.py:\d+ in step: RuntimeError: it is broken"),
    (classes.NoResult, "trap", "uncaught exception: AttributeError: 'NoneType' object has no attribute 'terminated'"),
    (classes.WrongType, "trap", "uncaught exception: TypeError: .*'str'"),
    (classes.NotANumber, "malformed", "seat 0 earned NaN"),
    (classes.TooMuch, "malformed", "seat 0 earned 7"),
    (classes.WrongNext, "malformed", "seat 2 does not exist; the environment has 1"),
]


@pytest.mark.parametrize(("kind", "failure", "said"), STEP_FAILURES)
def test_a_failed_step_ends_the_episode_as_that_of_a_plugin(kind, failure, said):
    env = gk.local(kind).env(task=0)
    env.reset()
    with pytest.raises(gk.PluginError, match=said) as failed:
        env.step("x")
    assert (failed.value.kind, failed.value.plugin) == (failure, gk.local(kind).name.removeprefix("local/"))
    record = env.record()
    assert env.done and record["ending"] == "environment-failed" and len(record["failures"]) == 1
    with pytest.raises(gk.EpisodeEndedError):
        env.step("x")


def test_a_failed_start_is_that_of_a_plugin():
    with pytest.raises(gk.PluginError, match=r"sdk_classes\.py:\d+ in reset: RuntimeError: it is broken") as broken:
        gk.local(classes.BrokenStart).env().reset()
    assert broken.value.kind == "trap"
    with pytest.raises(gk.PluginError, match="seat 3 does not exist; the environment has 1") as wrong:
        gk.local(classes.WrongSeat).env().reset()
    assert wrong.value.kind == "malformed"


def test_a_tool_that_crashes_begins_again():
    tool = gk.local(classes.Crashing).tool()
    answers = [tool.call("count", {"crash": crash}) for crash in (False, False, True, False)]
    assert [answer.content for answer in answers][:2] == ["1", "2"]
    assert answers[2] == gk.ToolAnswer("the tool failed: it crashed; its state is lost", True)
    assert answers[3] == gk.ToolAnswer("1"), "a new session began"


def test_a_reward_that_fails_gives_no_score():
    reward = gk.local(classes.Yes).reward()
    assert reward(completions=["yes", "no", "nan", "two", "raise", "?"]) == [1.0, 0.0, None, None, None, None]
    (broken,) = reward.score(["raise"])
    assert broken.failure is not None and broken.failure.startswith("trap: uncaught exception: ")
    assert "RuntimeError: it is broken" in broken.failure


def test_mistakes_say_what_to_do():
    plugin = gk.local(Guess)
    assert (plugin.name, plugin.kinds, plugin.splits()) == ("local/guess", ("environment",), {"train": 1000, "test": 100})
    assert plugin.unsandboxed and repr(plugin) == "<Plugin local/guess 0.0.0 (environment), not sandboxed>"
    again = pickle.loads(pickle.dumps(gk.local(classes.BrokenStep)))
    assert again.digest == gk.local(classes.BrokenStep).digest != gk.local(classes.BrokenStart).digest
    with pytest.raises(gk.LoadError, match="`int` cannot be used") as wrong:
        gk.local(int)
    assert wrong.value.hint == "give a subclass of Environment, Tool or Reward of gymkhana_sdk"
    half = type("Half", (classes.Environment,), {"reset": classes.Ending.reset, "step": classes.Ending.step})
    with pytest.raises(gk.LoadError, match="`Half` cannot be used: it does not define `splits`") as lacking:
        gk.local(half)
    assert lacking.value.hint == "define it"
    with pytest.raises(gk.OptionError, match="plugin `guess` cannot be used as tool: it is environment"):
        plugin.tool()
    with pytest.raises(gk.OptionError, match="has no split `x`"):
        plugin.env(split="x")
    with pytest.raises(gk.OptionError, match="plugin `guess` has no option `guess`"):
        plugin.env(options={"guess": 3})
    with pytest.raises(gk.PluginError, match="option `guesses` must be 1 to 100") as refused:
        plugin.env(options={"guesses": 0})
    assert refused.value.kind == "refused"
    env = plugin.env()
    with pytest.raises(gk.EpisodeEndedError, match="has not begun"):
        env.step("1")
    env.close()
    with pytest.raises(gk.StaleHandleError, match="it is closed"):
        env.reset()
