"""The Tinker cookbook's rollout code drives the adapter, with a scripted policy in the place of a sampler."""

import asyncio
import pickle

import pytest

pytest.importorskip("tinker_cookbook", reason="tinker-cookbook is not installed")

from tinker_cookbook import renderers
from tinker_cookbook.completers import TokensWithLogprobs
from tinker_cookbook.rl.rollouts import do_group_rollout

import gymkhana_rl.tinker as adapter
import tiny
from gymkhana_rl._adapter import EpisodeConfig
from reference import CASES, Case, Played, as_text, path, play


@pytest.fixture(autouse=True)
def _offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """The real tokenizers come from the hub."""
    monkeypatch.setattr(adapter, "get_tokenizer", lambda name: tiny.tokenizer())


class Policy:
    """Answers with the action that belongs to the number of earlier answers in the prompt."""

    def __init__(self, texts: list[str]) -> None:
        self.texts, self.tokenizer = texts, tiny.tokenizer()

    async def __call__(self, model_input, stop):
        prompt = self.tokenizer.decode(model_input.to_ints())
        text = self.texts[prompt.count("<|im_start|>assistant\n") - 1]
        ids = self.tokenizer(f"{text}<|im_end|>", add_special_tokens=False)["input_ids"]
        return TokensWithLogprobs(tokens=ids, maybe_logprobs=[0.0] * len(ids))


def builder(case: Case, reward: str | None = None, **columns: str) -> adapter.PluginGroupBuilder:
    config = EpisodeConfig(case.plugin, case.tools)
    return adapter.PluginGroupBuilder(config, {**case.row, **columns}, 3, "tiny", "qwen3_instruct", reward)


def test_a_group_is_played_after_pickling(case: Case, played: Played) -> None:
    made = pickle.loads(pickle.dumps(builder(case)))
    policy = Policy([as_text(action) for action in played.actions])
    group = asyncio.run(do_group_rollout(made, policy))
    assert group.get_total_rewards() == [sum(played.rewards)] * 3
    for trajectory in group.trajectories_G:
        assert [transition.reward for transition in trajectory.transitions] == played.rewards
        shown = policy.tokenizer.decode(trajectory.final_ob.to_ints())
        for text in filter(None, played.texts):
            assert text in shown


def test_a_reward_plugin_scores_the_group() -> None:
    case = CASES["calls"]
    played = play(case)
    made = builder(case, reward=path("answer-match"), answer=played.actions[-1])
    group = asyncio.run(do_group_rollout(made, Policy([as_text(action) for action in played.actions])))
    assert group.final_rewards_G == [1.0, 1.0, 1.0]
    assert [metrics["unscored"] for metrics in group.metrics_G] == [0.0] * 3


def test_the_builder_makes_training_and_test_batches() -> None:
    made = adapter.PluginDatasetBuilder(
        plugin=path("frozen-lake"),
        model_name="tiny",
        renderer_name="qwen3_instruct",
        batch_size=2,
        group_size=4,
        tasks=5,
        test_tasks=3,
    )
    train, test = asyncio.run(made())
    assert [len(train.get_batch(index)) for index in range(len(train))] == [2, 2, 1]
    assert [one.row["task"] for one in train.get_batch(1)] == [2, 3]
    assert (len(test), test.get_batch(0)[0].row["split"], test.get_batch(0)[0].group_size) == (2, "test", 1)


def test_truncated_answers_and_injected_messages_join_the_conversation() -> None:
    case = CASES["messages"]
    env = adapter.PluginMessageEnv(EpisodeConfig(case.plugin), case.row)

    async def talk() -> list:
        await env.initial_observation()
        await env.observe_truncated_response({"role": "assistant", "content": "I thi"})
        return await env.add_messages([{"role": "user", "content": "Go on."}])

    assert [message["role"] for message in asyncio.run(talk())] == ["user", "assistant", "user"]
    assert renderers.get_text_content(env.messages[1]) == "I thi"
