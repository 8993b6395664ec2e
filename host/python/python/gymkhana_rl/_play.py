"""Whole rollouts against an inference server. The episodes run in the native module."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, overload

from . import _native
from ._async import in_thread
from .errors import OptionError, PlayError

if TYPE_CHECKING:
    from ._native import Episode, Plugin, Reward, Tool

PlayPlugin: TypeAlias = "Plugin | Tool | Reward | type | str | os.PathLike[str]"

# Sections of a run file that arguments of other functions set.
_ELSEWHERE = {
    "models": "give models to gymkhana_rl.load, in `grants`",
    "sandbox": "give limits to gymkhana_rl.load",
    "stages": "give the arguments of play",
}

# Keys of a plugin's section that `settings` may hold.
_OF_PLUGINS = ("options", "weight", "schedule", "gate", "seat")

# Keys of a run file that errors name, and the arguments that set them. Longer keys come first.
_ARGUMENTS = (
    ("policy.max_concurrent_sequences", "concurrency"),
    ("policy.server.protocol", "protocol"),
    ("policy.server.key_env", "key_env"),
    ("policy.server.name", "served_model"),
    ("policy.server.url", "model"),
    ("policy.tool_format", "tool_format"),
    ("policy.checkpoint", "checkpoint"),
    ("policy.server", "model"),
    ("policy.system", "system"),
    ("limits.reply_tokens", "max_tokens"),
    ("limits.turns", "max_turns"),
    ("--plugins", "plugins"),
)


def _numbers(values: list[Any], dtype: str) -> Any:
    # NumPy is imported when it is first used.
    from ._arrays import numbers

    return numbers(values, dtype)


class Rollouts(Sequence["Episode"]):
    """Finished episodes in the order of their groups, and columns with one entry for each."""

    def __init__(self, episodes: Iterable[Episode]) -> None:
        self._episodes = tuple(episodes)

    def __len__(self) -> int:
        return len(self._episodes)

    @overload
    def __getitem__(self, index: int) -> Episode: ...
    @overload
    def __getitem__(self, index: slice) -> Rollouts: ...
    def __getitem__(self, index: int | slice) -> Episode | Rollouts:
        if isinstance(index, slice):
            return Rollouts(self._episodes[index])
        return self._episodes[index]

    def __iter__(self) -> Iterator[Episode]:
        return iter(self._episodes)

    def __repr__(self) -> str:
        return f"<Rollouts: {len(self)} episodes, success {_mean(self.success):.3g}, reward {_mean(self.reward):.3g}>"

    @property
    def reward(self) -> Any:
        """Reward of each episode's first seat: float64[N]."""
        return _numbers([episode.reward for episode in self], "float64")

    @property
    def success(self) -> Any:
        """Whether the success rule holds: bool[N]."""
        return _numbers([episode.success for episode in self], "bool")

    @property
    def group(self) -> Any:
        """Number of the group, whose episodes play one task: int64[N]."""
        return _numbers([episode.group for episode in self], "int64")

    @property
    def task(self) -> Any:
        """Place of the task in its split: int64[N]."""
        return _numbers([episode.task for episode in self], "int64")

    def columns(self) -> dict[str, list[Any]]:
        """Plain columns for a data frame: `polars.DataFrame(runs.columns())`."""
        names = ("id", "split", "task", "seed", "group", "member", "ending", "success", "reward", "turns", "failures")
        columns: dict[str, list[Any]] = {name: [getattr(episode, name) for episode in self] for name in names}
        columns["tokens"] = [sum(len(segment) for segment in episode.segments) for episode in self]
        components = [episode.components() for episode in self]
        for name in dict.fromkeys(name for parts in components for name in parts):
            columns[name] = [parts.get(name) for parts in components]
        return columns


def play(
    plugins: PlayPlugin | Sequence[PlayPlugin],
    model: str,
    *,
    episodes: int,
    group_size: int = 1,
    split: str = "train",
    tasks: Sequence[int] | None = None,
    seed: int = 0,
    options: Mapping[str, Mapping[str, Any]] | None = None,
    success: str = "environment.success",
    system: str | None = None,
    max_turns: int = 8,
    max_tokens: int = 256,
    temperature: float = 1.0,
    tool_format: str = "auto",
    checkpoint: str | os.PathLike[str] | Mapping[str, Any] | None = None,
    served_model: str | None = None,
    protocol: str = "vllm",
    key_env: str | None = None,
    concurrency: int = 64,
    settings: Mapping[str, Any] | None = None,
    out: str | os.PathLike[str] | None = None,
    interrupted: Callable[[], bool] | None = None,
) -> Rollouts:
    """Plays episodes whose policy an inference server samples, and returns them with their tokens.

    Everything runs in native threads without the interpreter's lock. Ctrl-C ends it within a second. The rules of an
    episode are those of `host run`; `settings` takes further keys of a run file.

    Args:
        plugins: An environment, or a list of an environment, tools and rewards: plugins, tools and rewards with
            options, classes of gymkhana-sdk, names in a registry, or paths. The environment may be inside of wrappers.
        model: URL of a server, with or without `/v1`.
        episodes: Number of episodes, a multiple of `group_size`.
        group_size: Episodes of one task, which rewards see together.
        split: Split of the tasks.
        tasks: Places in the split, one for each group. Drawn from the seed as in a run by default.
        seed: Seed of tasks, episodes and sampling.
        options: Options of plugins, by the plugin's name without its namespace.
        success: Success criterion: `environment.FACT`, `REWARD.COMPONENT` or `REWARD.total`.
        system: System prompt.
        max_turns: Turns per seat.
        max_tokens: Tokens per reply.
        temperature: Sampling temperature, 0.01 to 100.
        tool_format: Format of tool calls, as `policy.tool_format` of a run file.
        checkpoint: Folder of the served model, or `{"hub": "OWNER/NAME"}`, for its tokenizer and chat template. By
            default the folder or the name that the server reports.
        served_model: Name of the model on the server. By default its only model.
        protocol: "vllm", "sglang", or "openai" for servers without tokens and log-probabilities.
        key_env: Environment variable with the server's key.
        concurrency: Episodes in flight.
        settings: Further keys of a run file, such as `{"limits": {"calls": 8}}`. They win over the arguments.
        out: Folder to write as that of a run, for `gymkhana_rl.runs`, `gymkhana show` and `gymkhana replay`.
        interrupted: Asked ten times in a second; True ends the rollout with an error.

    Raises OptionError for an argument that cannot be used, PlayError if the server or the plugins cannot be used, and
    LoadError if a plugin cannot be loaded.
    """
    call = _Call(plugins, options)
    file = {
        "seed": _integer("seed", seed, 0),
        "success": success,
        "policy": {
            "checkpoint": _checkpoint(checkpoint),
            "max_concurrent_sequences": _integer("concurrency", concurrency),
            "tool_format": tool_format,
            **({} if system is None else {"system": system}),
            "server": {
                "url": _base(model),
                "protocol": protocol,
                "name": served_model or "",
                **({} if key_env is None else {"key_env": key_env}),
            },
        },
        "environment": {"train": split},
        "limits": {"turns": _integer("max_turns", max_turns), "reply_tokens": _integer("max_tokens", max_tokens)},
    }
    groups = {
        "groups": _groups(episodes, group_size, tasks),
        "size": group_size,
        "temperature": float(temperature),
        "tasks": None if tasks is None else list(tasks),
    }
    call.lay_options_into(file)
    file = _laid_over(file, _checked(settings))
    path = None if out is None else os.fspath(out)
    return call(file, groups, path, interrupted)


async def play_async(*args: Any, **kwargs: Any) -> Rollouts:
    """As `play`, awaited. A task that is cancelled ends the rollout."""
    stop = threading.Event()
    try:
        return await in_thread(play, args, {**kwargs, "interrupted": stop.is_set})
    except asyncio.CancelledError:
        stop.set()
        raise


class _Call:
    """The plugins of a rollout with their options."""

    def __init__(
        self, given: PlayPlugin | Sequence[PlayPlugin], options: Mapping[str, Mapping[str, Any]] | None
    ) -> None:
        self.plugins: list[Plugin] = []
        self.options: dict[str, dict[str, Any]] = {}
        self.wrappers: list[str] = []
        for one in given if isinstance(given, Sequence) and not isinstance(given, str) else [given]:
            self._add(one)
        names = [_short(plugin) for plugin in self.plugins]
        for name, own in (options or {}).items():
            if name not in names:
                raise OptionError(
                    f"`options` names `{name}`, which is none of the plugins", f"use {_listed(dict.fromkeys(names))}"
                )
            self.options[name] = {**self.options.get(name, {}), **own}

    def _add(self, one: Any) -> None:
        from ._adapter import open_plugin

        if isinstance(one, (_native.Tool, _native.Reward)):
            plugin: Any = one.plugin
            self.options[_short(plugin)] = dict(one.options)
        else:
            plugin = open_plugin(one)
        if not isinstance(plugin, _native.Plugin):
            raise OptionError(
                f"`plugins` holds a `{type(one).__name__}`", "give plugins, tools, rewards, classes, names or paths"
            )
        # A wrapper is around the environment that follows it.
        while plugin.layers is not None:
            wrapper, plugin, own = plugin.layers
            self.plugins.append(wrapper)
            self.wrappers.append(_short(wrapper))
            self.options[_short(plugin)] = own
        self.plugins.append(plugin)

    def lay_options_into(self, file: dict[str, Any]) -> None:
        """Adds the options to the sections of the plugins' kinds."""
        if self.wrappers:
            entries = [{"plugin": name, **self.options.get(name, {})} for name in self.wrappers]
            file["environment"]["wrap"] = entries
        for plugin in self.plugins:
            name, own = _short(plugin), self.options.get(_short(plugin))
            if not own or name in self.wrappers:
                continue
            if "environment" in plugin.kinds:
                file["environment"]["options"] = own
            if "tool" in plugin.kinds or "reward" in plugin.kinds:
                file.setdefault("plugins", {})[name] = {"options": own}

    def __call__(
        self, file: dict[str, Any], groups: dict[str, Any], out: str | None, stop: Callable[[], bool] | None
    ) -> Rollouts:
        try:
            return Rollouts(_native.play(self.plugins, file, out=out, interrupted=stop, **groups))
        except (OptionError, PlayError) as error:
            raise type(error)(_in_arguments(str(error)), error.hint and _in_arguments(error.hint)) from None


def _short(plugin: Plugin) -> str:
    return plugin.name.rpartition("/")[2]


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _mean(values: Any) -> float:
    return float(sum(values)) / len(values) if len(values) else 0.0


def _base(model: str) -> str:
    """The server's URL in the form of a run file, which ends before the version."""
    return model.rstrip("/").removesuffix("/v1")


def _checkpoint(given: str | os.PathLike[str] | Mapping[str, Any] | None) -> str | dict[str, Any]:
    if isinstance(given, Mapping):
        return dict(given)
    return "" if given is None else os.fspath(given)


def _integer(name: str, value: int, least: int = 1) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise OptionError(f"`{name}` is {value!r}", f"give a number from {least} on")
    return value


def _groups(episodes: int, group_size: int, tasks: Sequence[int] | None) -> int:
    _integer("episodes", episodes)
    _integer("group_size", group_size)
    if episodes % group_size:
        nearest = (episodes // group_size + 1) * group_size
        raise OptionError(
            f"{episodes} episodes are not a whole number of groups of {group_size}", f"give {nearest} episodes"
        )
    groups = episodes // group_size
    if tasks is not None and len(tasks) != groups:
        raise OptionError(
            f"`tasks` has {len(tasks)} tasks for {groups} groups",
            "give one task for each group of `group_size` episodes",
        )
    return groups


def _checked(settings: Mapping[str, Any] | None) -> Mapping[str, Any]:
    for section in settings or {}:
        if section in _ELSEWHERE:
            raise OptionError(f"`settings` cannot hold `{section}`", _ELSEWHERE[section])
    for name, section in ((settings or {}).get("plugins") or {}).items():
        for key in section if isinstance(section, Mapping) else ["use"]:
            if key not in _OF_PLUGINS:
                where = "give grants and limits to gymkhana_rl.load"
                raise OptionError(f"`settings` cannot hold `plugins.{name}.{key}`", where)
    return settings or {}


def _laid_over(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Both mappings; in nested ones key by key, and else `above` wins."""
    whole = dict(below)
    for key, value in above.items():
        own = whole.get(key)
        whole[key] = _laid_over(own, value) if isinstance(own, Mapping) and isinstance(value, Mapping) else value
    return whole


def _in_arguments(text: str) -> str:
    """An error's text with the names of arguments instead of a run file's keys."""
    for key, argument in _ARGUMENTS:
        text = text.replace(key, argument)
    return text
