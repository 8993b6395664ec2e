"""TRL: environments for `environment_factory` and reward functions for `reward_funcs`.

Works with `GRPOTrainer`, `RLOOTrainer` and `AsyncGRPOTrainer`. TRL itself is not imported.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gymkhana_rl._adapter import Episode, EpisodeConfig, Opponent, PluginLike, ToolLike, open_plugin, python_function
from gymkhana_rl._adapter import Reply
from gymkhana_rl import Call

__all__ = ["EnvironmentFactory", "RewardFunction", "environment_factory", "reward_function"]

_RESERVED = frozenset({"reset", "get_reward"})
# Arguments that TRL passes to reward functions beside the data set's columns.
_NOT_COLUMNS = frozenset({"completion_ids", "environments", "log_extra", "log_metric", "trainer_state"})
_OVER = "The episode is over."


class _Environment:
    """An episode with the methods that TRL asks for. A subclass adds one method for each function."""

    _config: EpisodeConfig

    def __init__(self) -> None:
        self._episode: Episode | None = None
        self._failed = False

    def reset(self, **row: Any) -> str:
        """Starts the episode of the row's `task`, `split` and `seed`.

        Returns:
            The first observation, which TRL appends to the prompt.
        """
        if self._episode is None:
            self._episode = self._config.episode()
        self._failed = False
        return self._episode.start_row(row)

    def get_reward(self) -> float | None:
        """Sum of the seat's rewards, or `None` (unscored) if the plugin failed or no episode was started."""
        return None if self._failed or self._episode is None else self._episode.total

    def _act(self, action: Any) -> str:
        episode = self._episode
        if episode is None:
            raise RuntimeError("no episode: call reset first")
        if episode.done:
            return _OVER
        try:
            turn = episode.act(action)
        except Exception:
            self._failed = True
            raise
        return f"{turn.text}\n{_OVER}".strip() if turn.done else turn.text

    def _record(self) -> dict[str, Any]:
        """The episode's record."""
        if self._episode is None:
            raise RuntimeError("no episode: call reset first")
        return self._episode.env.record()


class EnvironmentFactory:
    """Callable for TRL's `environment_factory`. Pickles by reference, also into spawned processes.

    Each call returns a new instance of one class, whose public methods are the functions of the seat.
    """

    def __init__(self, config: EpisodeConfig, message: str | None = "act") -> None:
        self.config = config
        self.message = message
        self._class: type[_Environment] | None = None

    def __call__(self) -> Any:
        if self._class is None:
            self._class = _environment_class(self.config, self.message)
        return self._class()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_class": None}


def environment_factory(
    plugin: PluginLike,
    *,
    tools: Sequence[ToolLike] = (),
    split: str | None = None,
    seed: int = 0,
    options: Mapping[str, Any] | None = None,
    seat: int | str = 0,
    opponent: Opponent = "oracle",
    message: str | None = "act",
) -> EnvironmentFactory:
    """Makes an environment plugin usable as TRL's `environment_factory`.

    TRL's models act only by calls. `message` names a function that sends a text to the environment; `None` leaves it
    out, for environments that are played by functions alone. The data set needs a column `task`:
    see `gymkhana_rl.datasets.tasks(plugin, observe=False)`.
    """
    config = EpisodeConfig(plugin, tuple(tools), split, seed, options, seat, opponent)
    return EnvironmentFactory(config, message)


def _environment_class(config: EpisodeConfig, message: str | None) -> type[_Environment]:
    env = config.env()
    functions = list(env.functions)
    env.close()
    body: dict[str, Any] = {"_config": config, "__doc__": open_plugin(config.plugin).name}
    if message is not None:
        functions = [*functions, _message_schema(message)]
    for schema in functions:
        name = schema["name"]
        if name in _RESERVED or name in body or name.startswith("_"):
            raise ValueError(
                f"function `{name}` cannot be a tool of TRL: the name is reserved or taken\n"
                "hint: choose another name with `message=`, or rename the plugin's function"
            )
        body[name] = python_function(schema, _sender(name, name == message))
    title = open_plugin(config.plugin).name.rsplit("/", 1)[-1].replace("-", "_")
    return type(title, (_Environment,), body)


def _sender(name: str, is_message: bool) -> Any:
    if is_message:
        return lambda self, arguments: self._act(Reply(str(arguments["message"])))
    return lambda self, arguments: self._act(Reply("", (Call(name, arguments),)))


def _message_schema(name: str) -> dict[str, Any]:
    message = {"type": "string", "description": "The message."}
    return {
        "name": name,
        "description": "Sends a message to the environment and returns what you observe.",
        "parameters": {"type": "object", "properties": {"message": message}, "required": ["message"]},
    }


class RewardFunction:
    """Reward plugin as a TRL reward function. Pickles by reference."""

    def __init__(self, plugin: PluginLike, seed: int = 0, options: Mapping[str, Any] | None = None) -> None:
        self.plugin, self.seed, self.options = plugin, seed, dict(options or {})
        self.__name__ = open_plugin(plugin).name.rsplit("/", 1)[-1]
        self._reward: Any = None

    def __call__(self, prompts: Sequence[Any], completions: Sequence[Any], **columns: Any) -> list[float | None]:
        """Scores completions; `None` where the plugin gave no score."""
        if self._reward is None:
            self._reward = open_plugin(self.plugin).reward(seed=self.seed, **self.options)
        columns = {name: column for name, column in columns.items() if name not in _NOT_COLUMNS}
        return list(self._reward(prompts, completions, **columns))

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_reward": None}


def reward_function(plugin: PluginLike, *, seed: int = 0, **options: Any) -> RewardFunction:
    """Makes a reward plugin usable in TRL's `reward_funcs`. The data set's columns are the fields that it needs."""
    return RewardFunction(plugin, seed, options)
