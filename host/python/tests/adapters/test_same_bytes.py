"""The same plugin, seed and actions give the same observations, rewards and record through each adapter."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Callable
from typing import Any

import pytest

from gymkhana_rl._adapter import EpisodeConfig
from reference import Case, Played, as_message, as_text, record_of

Result = tuple[list[str], list[float], str]


def through_gymnasium(case: Case, played: Played) -> Result:
    pytest.importorskip("gymnasium", reason="gymnasium is not installed")
    from gymkhana_rl.gymnasium import Env

    env = Env(case.plugin, tools=case.tools)
    texts = [env.reset(seed=case.seed, options={"task": case.task, "split": case.split})[0]]
    steps = [env.step(as_text(action)) for action in played.actions]
    return texts + [step[0] for step in steps], [step[1] for step in steps], record_of(env.episode.env)


def through_pettingzoo(case: Case, played: Played) -> Result:
    pytest.importorskip("pettingzoo", reason="pettingzoo is not installed")
    from gymkhana_rl.pettingzoo import env

    game = env(case.plugin, tools=case.tools)
    game.reset(seed=case.seed, options={"task": case.task, "split": case.split})
    (agent,) = game.agents
    texts, rewards = [str(game.observe(agent))], []
    for action in played.actions:
        game.step(as_text(action))
        texts.append(str(game.observe(agent)))
        rewards.append(game.rewards[agent])
    return texts, rewards, record_of(game.table.env)


def through_trl(case: Case, played: Played) -> Result:
    from gymkhana_rl.trl import environment_factory

    environment = environment_factory(case.plugin, tools=case.tools)()
    texts, rewards = [environment.reset(**case.row, prompt=[])], [0.0]
    for action in played.actions:
        if isinstance(action, str):
            texts.append(environment.act(message=action))
        else:
            texts.append("\n".join(getattr(environment, call.name)(**call.arguments) for call in action))
        rewards.append(environment.get_reward())
    texts[-1] = texts[-1].removesuffix("The episode is over.").removesuffix("\n")
    earned = [after - before for before, after in itertools.pairwise(rewards)]
    return texts, earned, record_of(environment._episode.env)


def through_skyrl(case: Case, played: Played) -> Result:
    pytest.importorskip("skyrl_gym", reason="skyrl-gym is not installed")
    from gymkhana_rl.skyrl import PluginTextEnv

    env = PluginTextEnv({"plugin": case.plugin, "tools": case.tools}, case.row)
    texts, rewards = [env.init([])[0][-1]["content"]], []
    for action in played.actions:
        step = env.step(as_text(action))
        texts.append("\n".join(message["content"] for message in step["observations"]))
        rewards.append(step["reward"])
    return [*texts[:-1], played.texts[-1]], rewards, record_of(env.episode.env)


def through_openrlhf(case: Case, played: Played) -> Result:
    pytest.importorskip("openrlhf.utils.agent", reason="openrlhf is not installed")
    from gymkhana_rl.openrlhf import agent_instance

    agent = agent_instance(case.plugin, tools=case.tools, template="{observation}")()
    texts, rewards = [], []

    async def run() -> None:
        await agent.reset({"observation": "", "label": json.dumps(case.row)})
        for action in played.actions:
            step = await agent.step({"action_text": as_text(action)})
            texts.append(step["environment_feedback"])
            rewards.append(step["rewards"].item())

    asyncio.run(run())
    return [played.texts[0], *texts[:-1], played.texts[-1]], rewards, record_of(agent.episode.env)


def through_tinker(case: Case, played: Played) -> Result:
    pytest.importorskip("tinker_cookbook", reason="tinker-cookbook is not installed")
    from gymkhana_rl.tinker import PluginMessageEnv

    env = PluginMessageEnv(EpisodeConfig(case.plugin, case.tools), case.row)
    texts, rewards, ids = [], [], itertools.count()

    async def run() -> None:
        seen = await env.initial_observation()
        texts.append(seen[-1]["content"])
        for action in played.actions:
            before = len(env.messages) + 1
            step = await env.step(as_message(action, ids))
            texts.append("\n".join(message["content"] for message in step.next_messages[before:]))
            rewards.append(step.reward)

    asyncio.run(run())
    return texts, rewards, record_of(env.episode.env)


def through_the_shared_episode(case: Case, played: Played) -> Result:
    """The path of verl's agent loop and of verifiers' environment, whose own tests compare the records, too."""
    episode = EpisodeConfig(case.plugin, case.tools).episode()
    texts = [episode.start_row(case.row)]
    turns = [episode.reply(as_text(action)) for action in played.actions]
    return texts + [turn.text for turn in turns], [turn.reward for turn in turns], record_of(episode.env)


@pytest.mark.parametrize(
    "through",
    [
        through_gymnasium,
        through_pettingzoo,
        through_trl,
        through_skyrl,
        through_openrlhf,
        through_tinker,
        through_the_shared_episode,
    ],
    ids=lambda through: through.__name__.removeprefix("through_"),
)
def test_same_bytes(through: Callable[[Case, Played], Result], case: Case, played: Played) -> None:
    texts, rewards, record = through(case, played)
    assert texts == played.texts
    assert rewards == played.rewards
    assert record == played.record


def test_an_opponents_turns_are_part_of_the_same_record() -> None:
    """Two seats: the adapter's seat and an opponent, against the same turns through the package."""
    import gymkhana_rl
    from reference import path

    def word(observation: str, env: Any) -> str:
        return "check"

    config = EpisodeConfig(path("kuhn-poker"), opponent=word)
    episode = config.episode()
    texts, total = [episode.start(task=1, split="train", seed=5)], 0.0
    while not episode.done:
        turn = episode.act("bet")
        texts.append(turn.observation)
        total += turn.reward
    env = gymkhana_rl.load(path("kuhn-poker")).env(split="train")
    env.reset(task=1, split="train", seed=5)
    earned = 0.0
    while not env.done:
        _, _, _, _, info = env.step("bet" if env.seat == 0 else "check")
        earned += info["rewards"].get(0, 0.0)
    assert total == earned
    assert record_of(episode.env) == record_of(env)
