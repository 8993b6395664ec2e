"""Episodes played through the package alone, which adapters must repeat, and the plugins of the tests."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymkhana_rl

_REPOSITORY = Path(__file__).resolve().parents[4]
PLUGINS = Path(os.environ.get("GYMKHANA_PLUGINS", _REPOSITORY / "target" / "plugins"))


def path(name: str) -> str:
    """The component of a plugin."""
    return str(PLUGINS / f"{name}.wasm")


@dataclass(frozen=True)
class Case:
    """An episode of a single-seat plugin."""

    plugin: str
    tools: tuple[str, ...] = ()
    task: int = 3
    split: str = "train"
    seed: int = 11

    @property
    def row(self) -> dict[str, Any]:
        return {"task": self.task, "split": self.split, "seed": self.seed}

    def env(self) -> Any:
        tools = [gymkhana_rl.load(tool) for tool in self.tools]
        return gymkhana_rl.load(self.plugin).env(split=self.split, tools=tools)


CASES = {
    "messages": Case(path("frozen-lake")),
    "calls": Case(path("word-problems"), (path("calculator"),)),
}


@dataclass(frozen=True)
class Played:
    """What an episode showed: a text for each turn, the rewards, and the record."""

    actions: list[Any]
    texts: list[str]
    rewards: list[float]
    record: str


def advised(case: Case) -> list[Any]:
    """The oracle's actions. They come from an episode of their own, because records contain the oracle's calls."""
    env = case.env()
    env.reset(**case.row)
    actions = []
    while not env.done:
        actions.append(env.advise())
        env.step(actions[-1])
    env.close()
    return actions


def play(case: Case, actions: Sequence[Any] | None = None) -> Played:
    """Plays actions, by default the oracle's, through the package."""
    actions = advised(case) if actions is None else list(actions)
    env = case.env()
    observation, _ = env.reset(**case.row)
    texts, rewards = [observation], []
    for action in actions:
        observation, reward, _, _, _ = env.step(action)
        texts.append(observation)
        rewards.append(reward)
    return Played(actions, texts, rewards, record_of(env))


def record_of(env: Any) -> str:
    """The episode's record without the fields that the clock decides."""
    return comparable(env.record())


def comparable(record: dict[str, Any]) -> str:
    """A record without the fields that the clock decides."""
    record.pop("timing")
    for cost in record.get("costs", []):
        cost.pop("running_us")
    return json.dumps(record)


def as_text(action: Any) -> str:
    """An action as a model of Hermes or Qwen writes it."""
    if isinstance(action, str):
        return action
    calls = ({"name": call.name, "arguments": call.arguments} for call in action)
    return "\n".join(f"<tool_call>\n{json.dumps(call)}\n</tool_call>" for call in calls)


def as_message(action: Any, ids: Iterator[int]) -> dict[str, Any]:
    """An action as a message in OpenAI's form."""
    if isinstance(action, str):
        return {"role": "assistant", "content": action}
    calls = [
        {
            "id": f"model-{next(ids)}",
            "type": "function",
            "function": {"name": call.name, "arguments": json.dumps(call.arguments)},
        }
        for call in action
    ]
    return {"role": "assistant", "content": "", "tool_calls": calls}
