"""Wrappers: environments inside of others, stepped, copied, pickled and played as any environment."""

from __future__ import annotations

import pickle

import pytest

import gymkhana_rl as gk
from model_server import replies_in

# Gymnasium's map SFFF, FHFH, FFFH, HFFG: two steps into a hole, then the shortest safe path.
FALL = ["down", "right"]
PATH = ["down", "down", "right", "right", "down", "right"]
STATES = ("task", "seed", "opening", "turns", "ending", "rewards", "environment_rewards", "extras", "views", "failures")


@pytest.fixture
def again(load, lake):
    """FrozenLake with a second attempt."""
    return load("retry").around(lake, options={"map": "4x4"})


def steps(env, moves):
    return [env.step(move) for move in moves]


def test_an_attempt_after_a_failed_one(again, lake):
    env = again.env(options={"attempts": 2})
    first = env.reset(seed=1, task=0)[0]
    assert lake.env(options={"map": "4x4"}).reset(seed=1, task=0)[0] in first
    fell = steps(env, FALL)[-1]
    assert "Attempt 1 of 2 is over." in fell[0] and fell[2:4] == (False, False)
    solved = steps(env, PATH)[-1]
    assert solved[2] and env.done
    assert sum(env.record()["environment_rewards"][0]["rewards"]) == 1.0


def test_the_environment_inside_has_its_own_options(load, lake, again):
    wrapper, inner, options = again.layers
    assert (wrapper.name, inner.digest, options) == ("gymkhana/retry", lake.digest, {"map": "4x4"})
    assert lake.layers is None and again.name == wrapper.name and again.splits() == lake.splits(map="4x4")
    described = again.describe()
    assert described["manifest"]["name"] == "retry" and described["description_error"] is None
    with pytest.raises(gk.OptionError, match="has no option `mpa`"):
        load("retry").around(lake, options={"mpa": "4x4"})


def test_copies_continue_alike(again, lake, load):
    env = again.env(options={"attempts": 2})
    env.reset(seed=2, task=0)
    steps(env, FALL)
    copies = [env.fork(), again.restore(env.snapshot()), pickle.loads(pickle.dumps(env))]
    expected = steps(env, PATH)
    assert all(steps(copy, PATH) == expected for copy in copies)
    # The same wrapper around the same environment with other options is another environment.
    other = load("retry").around(lake, options={"map": "8x8"})
    with pytest.raises(gk.OptionError, match="the environments inside, or their options, are others"):
        other.restore(env.snapshot())
    with pytest.raises(gk.OptionError, match="the environments inside"):
        again.restore(load("retry").around(lake).env().snapshot())


def test_many_at_once_and_several_layers(load, again):
    priced = load("turn-cost").around(again, options={"attempts": 2})
    vec = priced.vector_env(3, seed=5, options={"price": 0.25})
    vec.reset()
    rewards = [vec.step([move] * 3)[1] for move in FALL]
    assert all(reward == pytest.approx(-0.25) for row in rewards[:1] for reward in row)
    twice = pickle.loads(pickle.dumps(priced))
    assert twice.layers[1].layers[2] == {"map": "4x4"} and twice.layers[2] == {"attempts": 2}


def test_a_rollout_gives_the_record_of_the_same_steps(again, serve):
    moves = [*FALL, *PATH]
    model = serve(lambda prompt: moves[replies_in(prompt)]).url
    episode = gk.play(again, model=model, episodes=1, options={"retry": {"attempts": 2}}, max_turns=12)[0]
    assert episode.success and episode.turns == len(moves)
    env = again.env(options={"attempts": 2})
    env.reset(seed=episode.seed, task=episode.task, split=episode.split)
    steps(env, moves)
    own, other = env.record(), episode.record()
    assert {key: own[key] for key in STATES} == {key: other[key] for key in STATES}


@pytest.mark.parametrize(
    ("outer", "inner", "said"),
    [
        ("frozen-lake", "frozen-lake", "plugin `frozen-lake` is not a wrapper"),
        ("retry", "calculator", "plugin `calculator` is not an environment"),
        ("retry", "retry", "around itself|no environment is inside"),
    ],
)
def test_plugins_that_do_not_fit_are_named(load, outer, inner, said):
    with pytest.raises(gk.GymkhanaError, match=said):
        load(outer).around(load(inner)).env()


def test_a_class_has_no_sandbox_to_be_wrapped_in(load):
    from sdk_classes import Ending

    with pytest.raises(gk.OptionError, match="runs without a sandbox") as refused:
        load("retry").around(gk.local(Ending))
    assert "plugin build" in (refused.value.hint or "")
