"""SkyRL: environment plugins as `BaseTextEnv` of SkyRL-Gym."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gymkhana_rl._adapter import Episode, EpisodeConfig, Message, PluginLike, framework, opening, tools_prompt

with framework("skyrl-gym"):
    from skyrl_gym import register as register_entry_point
    from skyrl_gym.envs.base_text_env import BaseTextEnv, BaseTextEnvStepOutput

__all__ = ["PluginTextEnv", "register"]

_SETTINGS = ("plugin", "tools", "split", "seed", "options", "seat", "opponent")


class PluginTextEnv(BaseTextEnv):
    """Episode of an environment plugin.

    The settings `plugin`, `tools`, `split`, `seed`, `options`, `seat` and `opponent` come from `register`, or from the
    environment's section of SkyRL's configuration, which wins. The row's columns `task`, `split` and `seed` choose the
    episode, and `max_turns` limits its turns. Functions are called with `<tool_call>` in the model's text.
    """

    def __init__(
        self, env_config: Mapping[str, Any] | None = None, extras: Mapping[str, Any] | None = None, **settings: Any
    ) -> None:
        super().__init__()
        chosen = {**settings, **{key: value for key, value in (env_config or {}).items() if key in _SETTINGS}}
        self.extras = dict(extras or {})
        self.max_turns = int(self.extras.get("max_turns") or 0)
        self.episode: Episode = EpisodeConfig(**chosen).episode()

    def init(self, prompt: Sequence[Mapping[str, Any]]) -> tuple[list[Message], dict[str, Any]]:
        """Starts the row's episode; its first observation becomes the last message of the prompt."""
        observation = self.episode.start_row(self.extras)
        self.turns = 0
        return opening(prompt, observation, tools_prompt(self.episode.functions)), {"task": self.extras["task"]}

    def step(self, action: str) -> BaseTextEnvStepOutput:
        self.turns += 1
        turn = self.episode.reply(action)
        cut = bool(self.max_turns) and self.turns >= self.max_turns
        done = turn.done or cut
        return BaseTextEnvStepOutput(
            observations=[] if done else [{"role": "user", "content": turn.text}],
            reward=turn.reward,
            done=done,
            metadata={"info": turn.info},
        )

    def get_metrics(self) -> dict[str, Any]:
        return {"reward": self.episode.total, "turns": self.turns}

    def close(self) -> None:
        self.episode.close()


def register(id: str, plugin: PluginLike, **settings: Any) -> None:
    """Registers a plugin with SkyRL-Gym under `id`, the `env_class` of the data set's rows."""
    register_entry_point(id, entry_point="gymkhana_rl.skyrl:PluginTextEnv", kwargs={"plugin": plugin, **settings})
