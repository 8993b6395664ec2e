"""PettingZoo: one agent for each seat, as an AEC and as a parallel environment with text spaces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gymkhana_rl._adapter import EpisodeConfig, PluginLike, Reply, ToolLike, framework

with framework("pettingzoo"):
    import gymnasium
    import numpy
    from pettingzoo import AECEnv
    from pettingzoo import ParallelEnv as BaseParallelEnv

    from gymkhana_rl.gymnasium import TextSpace

__all__ = ["ParallelEnv", "TurnEnv", "env", "parallel_env"]


class TextObservation(str):
    """Text with the data type of its space, which PettingZoo's `api_test` compares."""

    dtype = numpy.dtype(str)


class _Table:
    """The episode with its seats as agents; both environments read their dictionaries from it."""

    def __init__(self, config: EpisodeConfig, examples: Sequence[str]) -> None:
        self.env = config.env()
        self.agents = list(self.env.seats)
        self.spaces = {agent: (TextSpace(), TextSpace(examples=examples)) for agent in self.agents}
        self.texts = dict.fromkeys(self.agents, "")

    @property
    def mover(self) -> str:
        return self.agents[self.env.seat]

    def reset(self, seed: int | None, options: Mapping[str, Any] | None) -> None:
        """Starts an episode of the task in `options`, by default of the next task."""
        chosen = options or {}
        _, info = self.env.reset(seed=seed, task=chosen.get("task"), split=chosen.get("split"))
        self.texts = dict.fromkeys(self.agents, "")
        self._observe(info)

    def step(self, action: Any) -> tuple[dict[str, float], bool, bool, dict[str, Any]]:
        """Steps the seat to move; returns the rewards by agent, `terminated`, `truncated` and `info`."""
        mover = self.mover
        self.texts[mover] = ""
        if isinstance(action, str):
            action = Reply.from_text(action, self.env.functions).action
        _, _, terminated, truncated, info = self.env.step(action)
        self._observe(info)
        rewards = {agent: float(info["rewards"].get(seat, 0.0)) for seat, agent in enumerate(self.agents)}
        return rewards, terminated, truncated, info

    def _observe(self, info: Mapping[str, Any]) -> None:
        for seat, text in info["observations"].items():
            agent = self.agents[seat]
            self.texts[agent] = "\n".join(filter(None, [self.texts[agent], text]))


class TurnEnv(AECEnv[str, TextObservation, Any]):
    """Environment plugin in PettingZoo's AEC interface. An agent observes all texts since its last turn."""

    def __init__(
        self,
        plugin: PluginLike,
        *,
        tools: Sequence[ToolLike] = (),
        split: str | None = None,
        seed: int = 0,
        options: Mapping[str, Any] | None = None,
        examples: Sequence[str] = (),
        render_mode: str | None = None,
    ) -> None:
        super().__init__()
        self.table = _Table(EpisodeConfig(plugin, tuple(tools), split, seed, options), examples)
        self.possible_agents = list(self.table.agents)
        self.metadata = {"name": self.table.env.plugin.name, "render_modes": ["ansi"], "is_parallelizable": False}
        self.render_mode = render_mode

    def observation_space(self, agent: str) -> gymnasium.Space[str]:
        return self.table.spaces[agent][0]

    def action_space(self, agent: str) -> gymnasium.Space[str]:
        return self.table.spaces[agent][1]

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """Starts an episode; `options` may name its `task` and `split`."""
        self.table.reset(seed, options)
        self.agents = list(self.possible_agents)
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self.infos: dict[str, dict[str, Any]] = {agent: {} for agent in self.agents}
        self.agent_selection = self.table.mover

    def observe(self, agent: str) -> TextObservation:
        return TextObservation(self.table.texts[agent])

    def step(self, action: Any) -> None:
        mover = self.agent_selection
        if self.terminations[mover] or self.truncations[mover]:
            self._was_dead_step(action)
            return
        self._cumulative_rewards[mover] = 0.0
        self.rewards, terminated, truncated, info = self.table.step(action)
        self.terminations = dict.fromkeys(self.agents, terminated)
        self.truncations = dict.fromkeys(self.agents, truncated)
        self.infos = {agent: info if agent == mover else {} for agent in self.agents}
        self.agent_selection = self._next(mover) if terminated or truncated else self.table.mover
        self._accumulate_rewards()

    def render(self) -> Any:
        return self.table.env.render() if self.render_mode == "ansi" else None

    def close(self) -> None:
        self.table.env.close()

    def _next(self, agent: str) -> str:
        return self.agents[(self.agents.index(agent) + 1) % len(self.agents)]


class ParallelEnv(BaseParallelEnv[str, TextObservation, Any]):
    """Environment plugin in PettingZoo's parallel interface. Only the action of the seat to move counts.

    `infos[agent]["active"]` tells whether the agent moves next; actions of the others are ignored.
    """

    def __init__(self, plugin: PluginLike, **arguments: Any) -> None:
        self.turns = TurnEnv(plugin, **arguments)
        self.possible_agents = self.turns.possible_agents
        self.metadata = {**self.turns.metadata, "is_parallelizable": True}
        self.render_mode = self.turns.render_mode
        self.agents: list[str] = []

    def observation_space(self, agent: str) -> gymnasium.Space[str]:
        return self.turns.observation_space(agent)

    def action_space(self, agent: str) -> gymnasium.Space[str]:
        return self.turns.action_space(agent)

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, TextObservation], dict[str, dict[str, Any]]]:
        self.turns.reset(seed, options)
        self.agents = list(self.possible_agents)
        return self._observations(), self._infos({})

    def step(
        self, actions: Mapping[str, Any]
    ) -> tuple[
        dict[str, TextObservation], dict[str, float], dict[str, bool], dict[str, bool], dict[str, dict[str, Any]]
    ]:
        if not self.agents:
            return {}, {}, {}, {}, {}
        mover = self.turns.table.mover
        rewards, terminated, truncated, info = self.turns.table.step(actions[mover])
        agents = self.agents
        observations, infos = self._observations(), self._infos({mover: info})
        if terminated or truncated:
            self.agents = []
        return observations, rewards, dict.fromkeys(agents, terminated), dict.fromkeys(agents, truncated), infos

    def render(self) -> Any:
        return self.turns.render()

    def close(self) -> None:
        self.turns.close()

    def _observations(self) -> dict[str, TextObservation]:
        return {agent: self.turns.observe(agent) for agent in self.agents}

    def _infos(self, known: Mapping[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
        mover = self.turns.table.mover
        return {agent: {**known.get(agent, {}), "active": agent == mover} for agent in self.agents}


def env(plugin: PluginLike, **arguments: Any) -> TurnEnv:
    """The AEC environment, under PettingZoo's usual name."""
    return TurnEnv(plugin, **arguments)


def parallel_env(plugin: PluginLike, **arguments: Any) -> ParallelEnv:
    """The parallel environment, under PettingZoo's usual name."""
    return ParallelEnv(plugin, **arguments)
