"""Tinker cookbook: message environments, groups with group rewards, and data sets."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gymkhana_rl._adapter import (
    Episode,
    EpisodeConfig,
    Message,
    PluginLike,
    Reply,
    framework,
    open_plugin,
    opening,
    text_of,
)

with framework("tinker-cookbook"):
    import chz
    from tinker_cookbook.renderers import Renderer, get_renderer
    from tinker_cookbook.rl.message_env import EnvFromMessageEnv, MessageEnv, MessageStepResult
    from tinker_cookbook.rl.types import Env, EnvGroupBuilder, Metrics, RLDataset, RLDatasetBuilder, Trajectory
    from tinker_cookbook.tokenizer_utils import get_tokenizer

__all__ = ["PluginDataset", "PluginDatasetBuilder", "PluginGroupBuilder", "PluginMessageEnv"]


class PluginMessageEnv(MessageEnv):
    """Episode of an environment plugin at the level of messages. Plugin calls run in a worker thread."""

    def __init__(self, config: EpisodeConfig, row: Mapping[str, Any], renderer: Renderer | None = None) -> None:
        self.episode: Episode = config.episode()
        self.row = dict(row)
        self.renderer = renderer
        self.messages: list[Any] = []

    async def initial_observation(self) -> list[Any]:
        observation = await asyncio.to_thread(self.episode.start_row, self.row)
        self.messages = opening([], observation)
        functions: Any = self.episode.functions
        if functions and self.renderer is not None:
            prefix = self.renderer.create_conversation_prefix_with_tools(functions, "")
            self.messages = [*prefix, *self.messages]
        return list(self.messages)

    async def step(self, message: Any) -> MessageStepResult:
        turn = await asyncio.to_thread(self.episode.act, Reply.from_message(message, self.episode.functions))
        self.messages += [message, *turn.messages]
        return MessageStepResult(
            reward=turn.reward,
            episode_done=turn.done,
            next_messages=list(self.messages),
            metrics={"truncated": float(turn.truncated)},
        )

    async def observe_truncated_response(self, message: Any) -> list[Any]:
        self.messages.append(message)
        return list(self.messages)

    async def add_messages(self, messages: list[Any]) -> list[Any]:
        self.messages += messages
        return list(self.messages)

    def conversation(self) -> tuple[list[Message], list[Message]]:
        """Prompt and completion as plain messages: before the model's first answer, and from there to its last."""
        answers = [index for index, message in enumerate(self.messages) if message["role"] == "assistant"]
        first, last = (answers[0], answers[-1]) if answers else (len(self.messages), -1)
        plain = [{"role": message["role"], "content": text_of(message["content"])} for message in self.messages]
        return plain[:first], plain[first : last + 1]


@dataclass(frozen=True)
class PluginGroupBuilder(EnvGroupBuilder):
    """Group of episodes of one task. Pickles by reference.

    Attributes:
        config: The plugin and how it is played.
        row: The task: `task`, and optionally `split`, `seed` and columns for the reward.
        group_size: Number of episodes.
        model_name: Model whose tokenizer renders the messages.
        renderer_name: Name of the cookbook's renderer.
        reward: Reward plugin that scores the group's episodes together.
    """

    config: EpisodeConfig
    row: Mapping[str, Any]
    group_size: int
    model_name: str
    renderer_name: str
    reward: PluginLike | None = None

    async def make_envs(self) -> Sequence[Env]:
        renderer = self.renderer()
        environments = (PluginMessageEnv(self.config, self.row, renderer) for _ in range(self.group_size))
        return [EnvFromMessageEnv(renderer, environment) for environment in environments]

    async def compute_group_rewards(
        self, trajectory_group: list[Trajectory], env_group: Sequence[Env]
    ) -> list[tuple[float, Metrics]]:
        """Scores the group with the reward plugin; an unscored episode counts 0 and has the metric `unscored`."""
        if self.reward is None:
            return [(0.0, {}) for _ in trajectory_group]
        environments: Any = env_group
        talks = [environment.message_env.conversation() for environment in environments]
        columns = {key: value for key, value in self.row.items() if key not in ("prompt", "task", "split", "seed")}
        reward = open_plugin(self.reward).reward(seed=self.config.seed)
        scores = await asyncio.to_thread(reward.group, talks[0][0], [talk[1] for talk in talks], **columns)
        return [(score or 0.0, {"unscored": float(score is None)}) for score in scores]

    def logging_tags(self) -> list[str]:
        return [open_plugin(self.config.plugin).name]

    def renderer(self) -> Renderer:
        return get_renderer(self.renderer_name, get_tokenizer(self.model_name))


class PluginDataset(RLDataset):
    """Batches of groups, one group for each task."""

    def __init__(self, builders: Sequence[PluginGroupBuilder], batch_size: int) -> None:
        self.builders, self.batch_size = list(builders), batch_size

    def get_batch(self, index: int) -> Sequence[EnvGroupBuilder]:
        return self.builders[index * self.batch_size : (index + 1) * self.batch_size]

    def __len__(self) -> int:
        return -(-len(self.builders) // self.batch_size)


@chz.chz
class PluginDatasetBuilder(RLDatasetBuilder):
    """Training and test data of an environment plugin.

    Attributes:
        plugin: Registry name or path of the environment's component.
        tools: Names or paths of tool plugins.
        batch_size: Groups in a batch.
        group_size: Episodes in a group.
        tasks: Number of training tasks.
        test_tasks: Number of test tasks; 0 for no test data.
        reward: Name or path of the reward plugin that scores groups.
    """

    plugin: str
    model_name: str
    renderer_name: str
    batch_size: int
    group_size: int
    tasks: int
    split: str = "train"
    test_split: str = "test"
    test_tasks: int = 0
    tools: tuple[str, ...] = ()
    seed: int = 0
    options: dict[str, Any] | None = None
    reward: str | None = None

    async def __call__(self) -> tuple[RLDataset, RLDataset | None]:
        train = self._dataset(self.split, self.tasks, self.group_size)
        return train, self._dataset(self.test_split, self.test_tasks, 1) if self.test_tasks else None

    def _dataset(self, split: str, count: int, group_size: int) -> PluginDataset:
        from gymkhana_rl.datasets import rows

        config = EpisodeConfig(self.plugin, self.tools, split, self.seed, self.options)
        made = rows(
            self.plugin,
            split=split,
            count=count,
            seed=self.seed,
            tools=self.tools,
            options=self.options,
            observe=False,
            privileged=self.reward is not None,
        )
        shared = (group_size, self.model_name, self.renderer_name, self.reward)
        builders = [PluginGroupBuilder(config, row, *shared) for row in made]
        return PluginDataset(builders, self.batch_size)
