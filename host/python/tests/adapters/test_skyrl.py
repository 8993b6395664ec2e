"""SkyRL-Gym opens and drives the adapter as one of its environments."""

import pytest

skyrl_gym = pytest.importorskip("skyrl_gym", reason="skyrl-gym is not installed")

from gymkhana_rl.skyrl import register
from reference import CASES, Case, Played, as_text, play


def test_make_init_step_and_metrics(case: Case, played: Played, request: pytest.FixtureRequest) -> None:
    name = request.node.name
    register(name, case.plugin, tools=case.tools)
    env = skyrl_gym.make(name, env_config={}, extras={**case.row, "max_turns": 50})
    prompt, _ = env.init([{"role": "system", "content": "Be brief."}, {"role": "user", "content": ""}])
    assert prompt[0]["content"].startswith("Be brief.")
    assert ("<tools>" in prompt[0]["content"]) == bool(case.tools)
    assert prompt[-1] == {"role": "user", "content": played.texts[0]}
    for action, text, reward in zip(played.actions, played.texts[1:], played.rewards, strict=True):
        step = env.step(as_text(action))
        assert step["reward"] == reward
        assert step["done"] or "\n".join(message["content"] for message in step["observations"]) == text
    assert step["done"]
    metrics = env.get_metrics()
    assert metrics == {"reward": sum(played.rewards), "turns": len(played.actions)}
    assert type(env).aggregate_metrics([metrics, metrics])["reward"] == sum(played.rewards)
    env.close()


def test_turns_are_limited_and_malformed_calls_are_answered() -> None:
    case = CASES["calls"]
    register("limited", case.plugin, tools=case.tools)
    env = skyrl_gym.make("limited", env_config={"seed": 2}, extras={"task": 0, "max_turns": 2})
    env.init([])
    step = env.step('<tool_call>{"name": oops}</tool_call>')
    assert "not of the form" in step["observations"][0]["content"]
    assert not step["done"]
    assert env.step("<tool_call>{}</tool_call>")["done"]


def test_settings_of_the_configuration_win() -> None:
    case = CASES["messages"]
    register("configured", "no-such-plugin.wasm")
    env = skyrl_gym.make("configured", env_config={"plugin": case.plugin, "unknown": 1}, extras=case.row)
    assert env.init([])[0][-1]["content"] == play(case, []).texts[0]
