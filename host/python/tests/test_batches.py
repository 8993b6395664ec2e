"""Batches: `step_many` and `VectorEnv`."""

from __future__ import annotations

import numpy as np
import pytest

import gymkhana_rl as gk


def test_a_batch_equals_single_steps(lake):
    single, batch = ([lake.env(seed=seed) for seed in range(40)] for _ in range(2))
    for env in (*single, *batch):
        env.reset()
    for _ in range(3):
        actions = [env.advise() for env in single]
        own = [env.step(action) for env, action in zip(single, actions)]
        assert gk.step_many(batch, actions) == own
    assert [env.record()["turns"] for env in batch] == [env.record()["turns"] for env in single]


def test_a_batch_refuses_before_it_steps(lake):
    ended, running = lake.env(seed=1), lake.env(seed=1)
    ended.reset(), running.reset()
    while not ended.done:
        ended.step(ended.advise())
    with pytest.raises(gk.EpisodeEndedError):
        gk.step_many([running, ended], ["left", "left"])
    assert len(running.record()["turns"]) == 1
    with pytest.raises(gk.OptionError, match="2 environments cannot take 1 actions"):
        gk.step_many([running, ended], ["left"])
    with pytest.raises(gk.OptionError, match="given twice"):
        gk.step_many([running, running], ["left", "left"])


def test_a_hostile_environment_does_not_lose_the_batch(load, lake):
    bad = load("guest-hostile-environment", timeout_s=0.2).env(options={"behaviour": "loop-step"})
    good = [lake.env(seed=seed) for seed in range(20)]
    for env in (bad, *good):
        env.reset()
    results = gk.step_many([bad, *good], ["yes", *(env.advise() for env in good)])
    _, reward, terminated, truncated, info = results[0]
    assert (reward, terminated, truncated) == (0.0, False, True) and info["failures"][0]["kind"] == "budget"
    assert all(not env.done for env in good) and bad.done


def test_a_vector_steps_and_resets(lake):
    vector, single = lake.vector_env(16, seed=3), [lake.env(seed=3 + number) for number in range(16)]
    texts, infos = vector.reset()
    assert len(vector) == vector.num_envs == 16
    assert texts == [env.reset()[0] for env in single]
    assert [task["index"] for task in infos["task"]] == [env.record()["task"]["index"] for env in single]
    over = [False] * 16
    for _ in range(30):
        actions = ["" if env.done else env.advise() for env in single]
        texts, rewards, terminated, truncated, infos = vector.step(actions)
        assert (rewards.dtype, terminated.dtype, truncated.dtype) == (np.float64, np.bool_, np.bool_)
        for number, env in enumerate(single):
            if over[number]:
                # The step after the end begins the next episode.
                assert texts[number] == env.reset()[0] and rewards[number] == 0.0
                assert not terminated[number] and not truncated[number]
            else:
                observation, reward, ended, cut, info = env.step(actions[number])
                assert (texts[number], rewards[number]) == (observation, reward)
                assert (bool(terminated[number]), bool(truncated[number])) == (ended, cut)
                assert (infos["extras"][number] or {}) == info["extras"]
            over[number] = env.done
    rewards[0] = 5.0  # the arrays are the caller's


def test_a_vector_takes_seeds(lake):
    vector = lake.vector_env(3)
    texts = vector.reset(seed=9)[0]
    assert texts == vector.reset(seed=[9, 10, 11])[0] == [lake.env(seed=9 + number).reset()[0] for number in range(3)]
    with pytest.raises(gk.OptionError, match="2 numbers for 3"):
        vector.reset(seed=[1, 2])
    with pytest.raises(gk.EpisodeEndedError):
        lake.vector_env(3).step([""] * 3)
    with pytest.raises(gk.OptionError):
        lake.vector_env(0)


def test_shared_instances_change_no_result(lake):
    own, shared = lake.vector_env(16, seed=3), lake.vector_env(16, seed=3, shared_episodes=8)
    assert own.reset() == shared.reset()
    for number in range(120):
        actions = [("left", "down", "right", "up")[(number + place) % 4] for place in range(16)]
        expected, found = own.step(actions), shared.step(actions)
        assert (expected[0], expected[4]) == (found[0], found[4])
        assert all((one == other).all() for one, other in zip(expected[1:4], found[1:4]))
    with pytest.raises(gk.OptionError, match="`shared_episodes` is 0"):
        lake.vector_env(16, shared_episodes=0)


def test_a_trap_ends_the_environments_of_its_instance(load):
    # Each environment traps at its first step: in instances of their own all report it, and in a shared one the others
    # learn that their instance ended.
    vector = load("guest-hostile-environment").vector_env(4, shared_episodes=4, options={"behaviour": "trap-step"})
    vector.reset()
    _, _, terminated, truncated, infos = vector.step(["yes"] * 4)
    assert truncated.all() and not terminated.any()
    assert all(failures for failures in infos["failures"])


def test_a_vector_reports_failures(load):
    vector = load("guest-hostile-environment").vector_env(12, options={"behaviour": "trap-step"})
    vector.reset()
    _, rewards, terminated, truncated, infos = vector.step(["yes"] * 12)
    assert truncated.all() and not terminated.any() and not rewards.any()
    assert {failures[0]["kind"] for failures in infos["failures"]} == {"trap"}
    vector.step(["yes"] * 12)
    vector.close()
    with pytest.raises(gk.StaleHandleError):
        vector.step(["yes"] * 12)


def test_numbers_without_numpy(program):
    out = program("""
        sys.modules["numpy"] = None
        vector = load("frozen-lake").vector_env(2)
        vector.reset()
        print(*vector.step(["left", "left"])[1:4])
    """)
    assert out == "[0.0, 0.0] [False, False] [False, False]\n"
