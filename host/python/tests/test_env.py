"""Environments: episodes, forks, snapshots, records and errors."""

from __future__ import annotations

import json

import pytest

import gymkhana_rl as gk


def play(env: gk.Env) -> list[tuple[str, float, bool, bool]]:
    """Follows the expert to the end."""
    steps = []
    while not env.done:
        observation, reward, terminated, truncated, _ = env.step(env.advise())
        steps.append((observation, reward, terminated, truncated))
    return steps


def test_an_episode_is_played_to_its_end(lake):
    env = lake.env(seed=1)
    assert env.done and env.seat == 0 and env.seats == ("agent",)
    observation, info = env.reset()
    assert observation.count("A") == 1 and info["seed"] == 1 and info["observations"] == {0: observation}
    steps = play(env)
    assert steps[-1][1:] == (1.0, True, False) and env.done
    assert all(reward == 0.0 for _, reward, _, _ in steps[:-1])
    record = env.record()
    assert record["ending"] == "terminated" and record["seed"] == 1 and record["rewards"] == [1.0]
    assert json.loads(env.record_bytes()) == record
    # Views of the end are read once, so the record of a finished episode does not change.
    assert env.record() == record


def test_a_seed_and_a_task_determine_the_episode(lake):
    env = lake.env(split="test")
    first = env.reset(seed=7, task=3)[0]
    own = play(env)
    assert lake.env(split="test", task=3, seed=7).reset()[0] == first
    assert env.reset(seed=7, task=3)[0] == first and play(env) == own
    assert env.reset(seed=7)[1]["task"]["split"] == "test"


def test_resets_without_a_seed_continue_one_sequence(lake):
    def tasks(env):
        return [env.reset()[1]["task"]["index"] for _ in range(5)]

    assert tasks(lake.env(seed=5)) == tasks(lake.env(seed=5))
    assert len(set(tasks(lake.env(seed=5)))) == 5
    assert tasks(lake.env(seed=5)) != tasks(lake.env(seed=6))


def test_forks_and_snapshots_continue_alike(lake):
    env = lake.env(seed=2)
    env.reset()
    env.step(env.advise())
    copies = [env.fork(), lake.restore(env.snapshot())]
    expected = play(env)
    for copy in copies:
        assert play(copy) == expected
        assert copy.record()["turns"] == env.record()["turns"]


def test_a_snapshot_before_the_first_episode_keeps_the_sequence(lake):
    env = lake.env(seed=11)
    copy = lake.restore(env.snapshot())
    assert copy.done and copy.reset() == env.reset()


def test_a_snapshot_of_another_plugin_is_refused(lake, load):
    state = load("tic-tac-toe").env().snapshot()
    with pytest.raises(gk.OptionError, match="it is of plugin"):
        lake.restore(state)
    for wrong in (b"", b"{}", b"[1]"):
        with pytest.raises(gk.OptionError, match="cannot be opened"):
            lake.restore(wrong)


def test_state_keys_are_equal_for_equal_states(lake):
    one, other = lake.env(seed=3), lake.env(seed=3)
    one.reset(), other.reset()
    assert one.state_key() == other.state_key()
    one.step(one.advise())
    assert one.state_key() != other.state_key()


def test_seats_alternate(load):
    env = load("tic-tac-toe").env(seed=1)
    env.reset()
    assert len(env.seats) == 2
    moved = env.seat
    _, _, _, _, info = env.step(env.advise())
    assert env.seat != moved and info["seat"] == env.seat and set(info["rewards"]) == {0, 1}


def test_calls_of_tools_are_answered(load):
    problems, calculator = load("word-problems"), load("calculator")
    env = problems.env(seed=1, tools=[calculator])
    env.reset()
    assert "calculate" in [function["name"] for function in env.functions]
    observation, reward, terminated, _, info = env.step(gk.Call("calculate", {"expression": "6*7"}))
    assert (observation, reward, terminated) == ("42", 0.0, False)
    assert info["calls"] == [{"id": "call-0", "name": "calculate", "content": "42", "failed": False}]
    _, _, _, _, info = env.step({"message": "again", "calls": [{"name": "calculate", "arguments": {"expression": "1/0"}}]})
    assert info["calls"][0]["id"] == "call-1" and info["calls"][0]["failed"]
    _, _, _, _, info = env.step([gk.Call("nothing", {})])
    assert info["calls"][0]["failed"] and "unknown function" in info["calls"][0]["content"]
    play(env)
    copy = problems.restore(env.snapshot(), tools=[calculator])
    assert copy.record()["turns"] == env.record()["turns"]
    with pytest.raises(gk.OptionError, match="0 are given"):
        problems.restore(env.snapshot())


def test_the_end_is_an_error(lake):
    env = lake.env()
    for use in (lambda: env.step("left"), env.advise, env.record, env.state_key):
        with pytest.raises(gk.EpisodeEndedError, match="has not begun"):
            use()
    env.reset()
    play(env)
    with pytest.raises(gk.EpisodeEndedError, match="has ended") as raised:
        env.step("left")
    assert raised.value.hint == "call reset() for the next one"


def test_closed_environments_stay_closed(lake):
    with lake.env() as env:
        env.reset()
    env.close()
    with pytest.raises(gk.StaleHandleError, match="it is closed"):
        env.step("left")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"split": "trian"}, "no split `trian`"),
        ({"split": "test", "task": 256}, "no task 256: its tasks are 0 to 255"),
        ({"options": {"siz": 4}}, "no option `siz`"),
        ({"options": [1]}, "`options` is not a mapping"),
        ({"options": {"size": object()}}, "JSON has no `object`"),
        ({"tools": ["calculator"]}, "`tools` holds a `str`"),
    ],
)
def test_mistakes_name_what_is_wrong(lake, arguments, message):
    with pytest.raises(gk.OptionError, match=message) as raised:
        lake.env(**arguments)
    assert isinstance(raised.value, ValueError)


def test_hints_name_what_is_near(lake):
    with pytest.raises(gk.OptionError) as raised:
        lake.env(options={"siz": 4})
    assert raised.value.hint.endswith("did you mean `size`?")


@pytest.mark.parametrize("action", [3, None, object(), {"calls": [3]}, [gk.Call("f", {"x": float("nan")})], [{}]])
def test_what_is_no_action_is_refused(lake, action):
    env = lake.env()
    env.reset()
    with pytest.raises(gk.OptionError):
        env.step(action)
    assert not env.done


def test_deep_arguments_are_refused(lake):
    nested: list = []
    for _ in range(100_000):
        nested = [nested]
    env = lake.env()
    env.reset()
    with pytest.raises(gk.OptionError, match="nested deeper than 100"):
        env.step(gk.Call("f", {"x": nested}))


def test_options_change_with_a_reset(lake):
    env = lake.env(options={"size": 4})
    assert len(env.reset()[0].split("\n")) == 4
    assert len(env.reset(options={"size": 6})[0].split("\n")) == 6
    assert env.options["size"] == 6


def test_a_plugin_describes_itself(lake):
    described = lake.describe()
    assert described["manifest"]["name"] == "frozen-lake" and lake.name == "gymkhana/frozen-lake"
    assert described["digest"] == lake.digest and described["runs_here"]
    assert described["description"]["environment"]["rewards"] == [0.0, 1.0]
    assert lake.kinds == ("environment",) and lake.splits() == {"train": None, "test": 256}


def test_other_kinds_are_refused(lake, load):
    with pytest.raises(gk.OptionError, match="cannot be used as tool: it is environment"):
        lake.tool()
    with pytest.raises(gk.OptionError, match="cannot be used as reward"):
        lake.reward()
    with pytest.raises(gk.OptionError, match="cannot be used as environment: it is tool"):
        load("calculator").env()


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("nothing.wasm", "the file does not exist"),
        (b"abc", "not WebAssembly"),
        ("nobody/nothing@^1", "no regist"),
    ],
)
def test_what_cannot_be_loaded_says_why(source, message, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(gk.LoadError, match=message) as raised:
        gk.load(source)
    assert raised.value.hint


@pytest.mark.parametrize("limits", [{"fuel": 0}, {"timeout_s": 0.0}, {"timeout_s": float("nan")}, {"memory_mib": 5000}])
def test_limits_have_ranges(load, limits):
    with pytest.raises(gk.OptionError):
        load("frozen-lake", **limits)


def test_grants_are_checked(load):
    with pytest.raises(gk.LoadError, match="unknown field `files`"):
        load("calculator", grants={"files": True})
    with pytest.raises(gk.LoadError, match="does not request it"):
        load("calculator", grants={"http": [{"allow": "https://example.org"}]})
    with pytest.raises(gk.LoadError, match="asks for the capability `assets`"):
        load("guest-asking-tool")


def test_a_granted_model_answers(load):
    rubric = load("rubric", grants={"model": {"script": ["nothing to read"]}})
    assert rubric.kinds == ("reward",)


def test_a_malformed_call_is_answered_and_recorded(lake):
    env = lake.env(seed=3)
    env.reset()
    action = {"message": "So:", "calls": [{"malformed": "the call is not JSON", "text": "{oops"}]}
    _, reward, terminated, truncated, info = env.step(action)
    assert (reward, terminated, truncated) == (0.0, False, False)
    assert info["calls"] == [{"id": "call-0", "name": "", "content": "the call is not JSON", "failed": True}]
    written, answer = env.record()["turns"][-2:]
    assert written == {"turn": "malformed-call", "seat": 0, "id": "call-0", "text": "{oops"}
    assert (answer["turn"], answer["id"], answer["failed"]) == ("answer", "call-0", True)
    with pytest.raises(gk.OptionError):
        env.step({"calls": [{"malformed": 3}]})
