"""TRL: environments for `environment_factory` of `GRPOTrainer`, `RLOOTrainer` and `AsyncGRPOTrainer`.

TRL itself is not imported. Rewards need no adapter: `reward_funcs=[gymkhana_rl.load("gymkhana/math-verify").reward()]`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gymkhana_rl import Call
from gymkhana_rl._adapter import Episode, EpisodeConfig, Opponent, PluginLike, Reply, ToolLike, open_plugin
from gymkhana_rl._functions import function_of
from gymkhana_rl.errors import EpisodeEndedError, OptionError

__all__ = ["EnvironmentFactory", "environment_factory"]

_RESERVED = frozenset({"reset", "get_reward"})
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
            raise EpisodeEndedError("no episode has begun", "call reset first")
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
            raise EpisodeEndedError("no episode has begun", "call reset first")
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
        if name in _RESERVED or name in body or name.startswith("_") or not name.isidentifier():
            raise OptionError(
                f"function `{name}` cannot be a tool of TRL: the name is reserved, taken or no identifier",
                "choose another name with `message=`, or rename the plugin's function",
            )
        body[name] = _method(schema, _message if name == message else _call)
    title = open_plugin(config.plugin).name.rsplit("/", 1)[-1].replace("-", "_")
    return type(title, (_Environment,), body)


def _message(name: str, arguments: Mapping[str, Any]) -> Reply:
    return Reply(str(arguments["message"]))


def _call(name: str, arguments: Mapping[str, Any]) -> Reply:
    return Reply("", (Call(name, dict(arguments)),))


def _method(schema: Mapping[str, Any], reply: Callable[[str, dict[str, Any]], Reply]) -> Callable[..., str]:
    """A method with the documentation of a schema, which takes a turn. TRL looks for functions on the class."""
    function = function_of(schema, reply)

    def method(self: _Environment, *args: Any, **arguments: Any) -> str:
        return self._act(function(*args, **arguments))

    signature = inspect.signature(function)
    own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    method.__name__ = method.__qualname__ = function.__name__
    method.__doc__, method.__annotations__ = function.__doc__, function.__annotations__
    signature = signature.replace(parameters=[own, *signature.parameters.values()])
    method.__signature__ = signature  # type: ignore[attr-defined]
    return method


def _message_schema(name: str) -> dict[str, Any]:
    message = {"type": "string", "description": "The message."}
    return {
        "name": name,
        "description": "Sends a message to the environment and returns what you observe.",
        "parameters": {"type": "object", "properties": {"message": message}, "required": ["message"]},
    }
