"""Hugging Face Datasets: the tasks of an environment plugin as a data set."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gymkhana_rl._adapter import EpisodeConfig, PluginLike, ToolLike, framework, open_plugin
from gymkhana_rl.errors import OptionError

if TYPE_CHECKING:
    from datasets import Dataset

__all__ = ["rows", "tasks"]


def rows(
    plugin: PluginLike,
    *,
    split: str | None = None,
    count: int | None = None,
    first: int = 0,
    seed: int = 0,
    tools: Sequence[ToolLike] = (),
    options: Mapping[str, Any] | None = None,
    seat: int | str = 0,
    observe: bool = True,
    privileged: bool = False,
) -> Iterator[dict[str, Any]]:
    """Yields one row for each task: `prompt`, `task`, `split` and `seed`.

    Args:
        plugin: The environment's plugin, its registry name, or the path of its component.
        split: Split of the tasks; the plugin's first split by default.
        count: Number of rows; by default all tasks after `first`. Required for endless splits.
        first: Index of the first task.
        seed: Seed of the episodes.
        tools: Tool plugins whose functions the seat may call.
        options: Options of the environment.
        seat: Seat whose first observation is the prompt.
        observe: Whether the prompt contains the first observation. Trainers whose environment returns the first
            observation itself, such as TRL's, need `False`.
        privileged: Whether to add the task's privileged fields as columns, for reward functions. Policies must not
            see them.

    Raises:
        OptionError: If the split is unknown, or endless and `count` is not given.
    """
    config = EpisodeConfig(plugin, tuple(tools), split, seed, options, seat)
    sizes = open_plugin(plugin).splits(**dict(options or {}))
    name = split if split is not None else next(iter(sizes))
    if name not in sizes:
        raise OptionError(f"unknown split `{name}`", f"the splits are {', '.join(sizes)}")
    size = sizes[name]
    if count is None and size is None:
        raise OptionError(f"split `{name}` is endless: the number of rows is unknown", "pass `count`")
    last = size if count is None else first + count if size is None else min(first + count, size)
    episode = config.episode() if observe or privileged else None
    for task in range(first, last or 0):
        row: dict[str, Any] = {}
        content = ""
        if episode is not None:
            observation = episode.start(task=task, split=name, seed=seed)
            content = observation if observe else ""
            row = dict(episode.env.privileged()) if privileged else {}
        yield {**row, "prompt": [{"role": "user", "content": content}], "task": task, "split": name, "seed": seed}
    if episode is not None:
        episode.close()


def tasks(plugin: PluginLike, **arguments: Any) -> Dataset:
    """The rows of `rows` as a `datasets.Dataset`.

    Raises:
        MissingFrameworkError: If `datasets` is not installed.
    """
    with framework("datasets"):
        from datasets import Dataset
    return Dataset.from_list(list(rows(plugin, **arguments)))
