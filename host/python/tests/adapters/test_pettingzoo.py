"""PettingZoo's tests accept the adapters."""

import pytest

pytest.importorskip("pettingzoo", reason="pettingzoo is not installed")

from pettingzoo.test import api_test, parallel_api_test, seed_test

from gymkhana_rl.pettingzoo import env, parallel_env
from reference import Case, path

POKER = {"plugin": path("kuhn-poker"), "examples": ("check", "bet", "fold", "call", "?")}
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def test_api_test_accepts_a_game() -> None:
    api_test(env(**POKER), num_cycles=100)


def test_parallel_api_test_accepts_a_game() -> None:
    parallel_api_test(parallel_env(**POKER), num_cycles=100)


def test_a_single_seat_is_accepted_too(case: Case) -> None:
    api_test(env(case.plugin, tools=case.tools, split=case.split), num_cycles=50)
    parallel_api_test(parallel_env(case.plugin, tools=case.tools, split=case.split), num_cycles=50)


def test_equal_seeds_give_equal_games() -> None:
    seed_test(lambda: env(**POKER), num_cycles=30)


def test_each_agent_sees_its_own_observations() -> None:
    game = env(**POKER)
    game.reset(seed=2)
    first = game.agent_selection
    second = next(agent for agent in game.agents if agent != first)
    private = game.observe(first)
    assert private and private != game.observe(second)
