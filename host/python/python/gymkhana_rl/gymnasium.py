"""Gymnasium: `Env` and `VectorEnv` with text spaces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gymkhana_rl._adapter import (
    Episode,
    EpisodeConfig,
    Opponent,
    PluginLike,
    ToolLike,
    framework,
    open_plugin,
    open_tools,
)

with framework("gymnasium"):
    import gymnasium
    import numpy
    from gymnasium.spaces import Text
    from gymnasium.vector import AutoresetMode
    from gymnasium.vector import VectorEnv as BaseVectorEnv
    from gymnasium.vector.utils import batch_space

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Env", "TextSpace", "VectorEnv", "register"]

MAX_LENGTH = 1 << 20


class TextSpace(Text):
    """All texts up to a length, in any script. Samples are drawn from `examples`, or are random letters."""

    def __init__(self, max_length: int = MAX_LENGTH, examples: Sequence[str] = (), seed: Any = None) -> None:
        super().__init__(max_length, min_length=0, seed=seed)
        self.examples = tuple(examples)

    def sample(self, mask: Any = None, probability: Any = None) -> str:
        if self.examples:
            return self.examples[int(self.np_random.integers(len(self.examples)))]
        letters = self.np_random.choice(list(self.character_list), size=int(self.np_random.integers(1, 17)))
        return "".join(map(str, letters))

    def contains(self, x: Any) -> bool:
        return isinstance(x, str) and len(x) <= self.max_length

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TextSpace) and (self.max_length, self.examples) == (other.max_length, other.examples)

    def __repr__(self) -> str:
        return f"TextSpace({self.max_length}, examples={self.examples!r})"


class Env(gymnasium.Env[str, Any]):
    """Environment plugin as a Gymnasium environment of one seat.

    Actions are texts; texts with `<tool_call>` call functions. `step` also takes native actions (`Call`, lists of
    calls, `{"message", "calls"}`). `reset(options={"task": 3, "split": "test"})` chooses the task.
    """

    metadata = {"render_modes": ["ansi"], "render_fps": 1}

    def __init__(
        self,
        plugin: PluginLike,
        *,
        tools: Sequence[ToolLike] = (),
        split: str | None = None,
        seed: int = 0,
        options: Mapping[str, Any] | None = None,
        seat: int | str = 0,
        opponent: Opponent = "oracle",
        examples: Sequence[str] = (),
        render_mode: str | None = None,
    ) -> None:
        self.episode: Episode = EpisodeConfig(plugin, tuple(tools), split, seed, options, seat, opponent).episode()
        self.observation_space = TextSpace()
        self.action_space = TextSpace(examples=examples)
        self.render_mode = render_mode

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Starts an episode of `options["task"]`, by default of the next task, which the seed determines."""
        super().reset(seed=seed)
        chosen = dict(options or {})
        observation = self.episode.start(task=chosen.get("task"), split=chosen.get("split"), seed=seed)
        return observation, self.episode.info

    def step(self, action: Any) -> tuple[str, float, bool, bool, dict[str, Any]]:
        turn = self.episode.reply(action) if isinstance(action, str) else self.episode.act(action)
        return turn.text, turn.reward, turn.terminated, turn.truncated, turn.info

    def render(self) -> Any:
        return self.episode.env.render() if self.render_mode == "ansi" else None

    def close(self) -> None:
        self.episode.close()


class VectorEnv(BaseVectorEnv[Any, Any, Any]):
    """Batch of episodes that one native call steps. Ended episodes start again at the next step."""

    metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP, "render_modes": []}

    def __init__(
        self,
        plugin: PluginLike,
        num_envs: int,
        *,
        tools: Sequence[ToolLike] = (),
        split: str | None = None,
        seed: int = 0,
        options: Mapping[str, Any] | None = None,
        examples: Sequence[str] = (),
    ) -> None:
        opened = open_tools(tools)
        self.native = open_plugin(plugin).vector_env(num_envs, split=split, seed=seed, tools=opened, options=options)
        self.num_envs = num_envs
        self.single_observation_space = TextSpace()
        self.single_action_space = TextSpace(examples=examples)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[tuple[str, ...], dict[str, Any]]:
        observations, info = self.native.reset(seed=seed)
        return tuple(observations), info

    def step(
        self, actions: Sequence[Any]
    ) -> tuple[tuple[str, ...], NDArray[numpy.float64], NDArray[numpy.bool_], NDArray[numpy.bool_], dict[str, Any]]:
        observations, rewards, terminated, truncated, info = self.native.step(list(actions))
        return tuple(observations), rewards, terminated, truncated, info

    def close_extras(self, **kwargs: Any) -> None:
        self.native.close()


def register(id: str, plugin: PluginLike, **arguments: Any) -> None:
    """Registers the plugin with Gymnasium, so that `gymnasium.make(id)` opens it."""
    gymnasium.register(id, entry_point="gymkhana_rl.gymnasium:Env", kwargs={"plugin": plugin, **arguments})
