"""Gymnasium's checkers accept the adapter."""

import numpy
import pytest

gymnasium = pytest.importorskip("gymnasium", reason="gymnasium is not installed")

from gymnasium.utils.env_checker import check_env

from gymkhana_rl.gymnasium import Env, VectorEnv, register
from reference import CASES, Case, as_text, path, play

WORDS = ("left", "down", "right", "up")


@pytest.mark.filterwarnings("ignore:.*alternative render modes")
def test_check_env_accepts_each_kind_of_plugin(case: Case) -> None:
    check_env(Env(case.plugin, tools=case.tools, split=case.split, examples=WORDS))


def test_check_env_accepts_a_seat_against_the_oracle() -> None:
    check_env(Env(path("kuhn-poker"), examples=("check", "bet", "fold", "call")), skip_render_check=True)


def test_a_registered_plugin_is_made_and_rendered() -> None:
    register("GymkhanaLake-v0", path("frozen-lake"), examples=WORDS)
    env = gymnasium.make("GymkhanaLake-v0", render_mode="ansi")
    observation, info = env.reset(seed=1, options={"task": 5})
    assert info["task"]["index"] == 5
    assert "A" in observation
    assert isinstance(env.render(), str)


def test_equal_seeds_draw_equal_tasks_and_unequal_seeds_do_not() -> None:
    env = Env(path("frozen-lake"))
    drawn = [env.reset(seed=seed)[1]["task"]["index"] for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert env.reset()[1]["task"]["index"] != env.reset()[1]["task"]["index"]


def test_vector_env_has_gymnasiums_shapes_and_starts_ended_episodes_again() -> None:
    vector = VectorEnv(path("frozen-lake"), 3, seed=4, examples=WORDS)
    observations, _ = vector.reset(seed=4)
    assert vector.observation_space.contains(observations)
    started = False
    for _ in range(300):
        observations, rewards, terminated, truncated, _ = vector.step(vector.action_space.sample())
        assert vector.observation_space.contains(observations)
        assert rewards.shape == terminated.shape == truncated.shape == (3,)
        assert rewards.dtype == numpy.float64
        started = started or bool((terminated | truncated).any())
    assert started
    vector.close()


def test_native_actions_and_texts_are_equal() -> None:
    case = CASES["calls"]
    played = play(case)
    for write in (as_text, lambda action: action):
        env = Env(case.plugin, tools=case.tools, split=case.split)
        texts = [env.reset(seed=case.seed, options={"task": case.task})[0]]
        texts += [env.step(write(action))[0] for action in played.actions]
        assert texts == played.texts
