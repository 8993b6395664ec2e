"""Shared code of the adapters: one seat's view of an episode, calls in text, and functions made from schemas."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from gymkhana_rl import Call, load, local
from gymkhana_rl._native import read_reply
from gymkhana_rl.errors import GymkhanaError, OptionError

if TYPE_CHECKING:
    from gymkhana_rl import Env, Plugin, Tool

PluginLike: TypeAlias = "Plugin | type | str | os.PathLike[str]"
ToolLike: TypeAlias = "Plugin | Tool | type | str | os.PathLike[str]"
Message: TypeAlias = dict[str, Any]
Functions: TypeAlias = Sequence[Mapping[str, Any]]
Opponent: TypeAlias = 'Literal["oracle"] | Callable[[str, Env], Any]'

class MissingFrameworkError(GymkhanaError, ImportError):
    """An adapter's framework is not installed."""


@contextmanager
def framework(package: str) -> Iterator[None]:
    """Names the package to install if an import of an adapter's framework fails."""
    try:
        yield
    except ImportError as error:
        raise MissingFrameworkError(f"cannot import `{package}`: {error}", f"pip install {package}") from error


@functools.cache
def _loaded(source: str, process: int) -> Plugin:
    return load(source)


def open_plugin(source: PluginLike) -> Plugin:
    """The plugin itself, the plugin of this name or path, loaded once per process, or that of a class."""
    if isinstance(source, (str, os.PathLike)):
        return _loaded(os.fspath(source), os.getpid())
    return local(source) if isinstance(source, type) else source


def open_tools(tools: Sequence[ToolLike]) -> list[Plugin | Tool]:
    """The tools themselves, and the plugins of names, paths and classes."""
    return [open_plugin(tool) if isinstance(tool, (str, os.PathLike, type)) else tool for tool in tools]


@dataclass(frozen=True)
class Malformed:
    """A call that could not be parsed, with the reason that answers it."""

    reason: str
    id: str = ""
    name: str = ""
    text: str = field(default="", compare=False)


@dataclass(frozen=True)
class Reply:
    """A model's message: its text and its calls, in their order."""

    message: str
    calls: tuple[Call | Malformed, ...] = ()
    thoughts: str | None = None

    @classmethod
    def from_text(cls, text: str, functions: Functions) -> Reply:
        """Reads thoughts and `<tool_call>{"name": …, "arguments": {…}}</tool_call>`; plain text without functions."""
        if not functions:
            return cls(text)
        thoughts, message, written = read_reply(text)
        calls = [
            Malformed(reason, text=name) if reason else Call(name, arguments) for name, arguments, reason in written
        ]
        return cls(message, tuple(calls), thoughts)

    @classmethod
    def from_message(cls, message: Mapping[str, Any], functions: Functions = ()) -> Reply:
        """Reads a chat message in OpenAI's form; calls in its text count if it has no `tool_calls`."""
        content = text_of(message.get("content"))
        calls = message.get("tool_calls")
        if not calls:
            return cls.from_text(content, functions)
        return cls(content, tuple(_openai_call(call) for call in calls))

    @property
    def action(self) -> Any:
        """The action for `Env.step`."""
        if not self.calls:
            return self.message if self.thoughts is None else {"message": self.message, "thoughts": self.thoughts}
        written = [
            {"malformed": call.reason, "text": call.text}
            if isinstance(call, Malformed)
            else {"name": call.name, "arguments": call.arguments}
            for call in self.calls
        ]
        action: dict[str, Any] = {"message": self.message, "calls": written}
        return action if self.thoughts is None else {**action, "thoughts": self.thoughts}

    @property
    def as_message(self) -> Message:
        """The reply as a chat message in OpenAI's form. Malformed calls are left out."""
        calls = [call for call in self.calls if isinstance(call, Call)]
        message = {"role": "assistant", "content": self.message}
        if self.thoughts is not None:
            message["reasoning_content"] = self.thoughts
        if not calls:
            return message
        written = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in calls
        ]
        return {**message, "tool_calls": written}


def _openai_call(call: Any) -> Call | Malformed:
    function = field_of(call, "function", call)
    arguments = field_of(function, "arguments", {})
    return _with_arguments(str(field_of(function, "name", "")), arguments, str(field_of(call, "id", "") or ""))


def _with_arguments(name: str, arguments: Any, call_id: str) -> Call | Malformed:
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments or "{}")
        except ValueError as error:
            return Malformed(f"the arguments are not valid JSON: {error}", call_id, name, arguments)
    if not isinstance(arguments, dict):
        return Malformed("the arguments are not an object", call_id, name, json.dumps(arguments))
    return Call(name, arguments, call_id)


def field_of(value: Any, name: str, default: Any) -> Any:
    """The field of a mapping or of an object."""
    return value.get(name, default) if isinstance(value, Mapping) else getattr(value, name, default)


def text_of(content: Any) -> str:
    """The text of a message's content, which is a string, a list of parts or `None`."""
    if content is None or isinstance(content, str):
        return content or ""
    return "".join(field_of(part, "text", "") or "" for part in content)


@dataclass(frozen=True)
class Turn:
    """The result of one turn of the adapter's seat, with the turns of all opponents after it.

    Attributes:
        observation: New observations of the seat, without the answers to its calls.
        answers: Answers to its calls: `{"id", "name", "content", "failed"}`, in the calls' order.
        reward: Sum of the seat's rewards.
        info: `info` of the last step.
    """

    observation: str
    answers: list[dict[str, Any]]
    reward: float
    terminated: bool
    truncated: bool
    info: dict[str, Any] = field(default_factory=dict)

    @property
    def done(self) -> bool:
        return self.terminated or self.truncated

    @property
    def text(self) -> str:
        """Answers and observation as one text."""
        return "\n".join(filter(None, [*(answer["content"] for answer in self.answers), self.observation]))

    @property
    def messages(self) -> list[Message]:
        """Answers as `tool` messages and the observation as a `user` message."""
        messages: list[Message] = [
            {"role": "tool", "tool_call_id": answer["id"], "name": answer["name"], "content": answer["content"]}
            for answer in self.answers
        ]
        if self.observation or not messages:
            messages.append({"role": "user", "content": self.observation})
        return messages


@dataclass(frozen=True)
class EpisodeConfig:
    """Which plugin an adapter plays, and how. Pickles by reference.

    Attributes:
        plugin: The environment's plugin, its registry name, or the path of its component.
        tools: Tool plugins whose functions the seat may call.
        split: Split of the tasks; the plugin's first split by default.
        seed: Seed of episodes whose row names no seed.
        options: Options of the environment.
        seat: Seat that the adapter plays, by number or name.
        opponent: Who plays the other seats: `"oracle"`, or a function of the seat's observation and the environment.
    """

    plugin: PluginLike
    tools: tuple[ToolLike, ...] = ()
    split: str | None = None
    seed: int = 0
    options: Mapping[str, Any] | None = None
    seat: int | str = 0
    opponent: Opponent = "oracle"

    def __post_init__(self) -> None:
        object.__setattr__(self, "tools", tuple(self.tools))

    def env(self) -> Env:
        """A new environment."""
        tools = open_tools(self.tools)
        return open_plugin(self.plugin).env(split=self.split, seed=self.seed, tools=tools, options=self.options)

    def episode(self) -> Episode:
        """A new episode, not yet started."""
        return Episode(self)


class Episode:
    """One seat's view of an environment; opponents take the turns of the other seats."""

    def __init__(self, config: EpisodeConfig) -> None:
        self.config = config
        self.env = config.env()
        self.seat = _seat(self.env.seats, config.seat)
        self.total = 0.0
        self.info: dict[str, Any] = {}

    @property
    def done(self) -> bool:
        return self.env.done

    @property
    def functions(self) -> list[dict[str, Any]]:
        """Functions of the seat, in OpenAI's form: `name`, `description`, `parameters`."""
        return self.env.functions

    def start(self, *, task: int | None = None, split: str | None = None, seed: int | None = None) -> str:
        """Starts the episode of a task, by default the next one, and returns the seat's first observation."""
        _, self.info = self.env.reset(seed=seed, task=task, split=split if split is not None else self.config.split)
        self.total = 0.0
        return self._play_others([self._observed(self.info)], 0.0, self.info).observation

    def start_row(self, row: Mapping[str, Any]) -> str:
        """Starts the episode that a row of a data set names by its columns `task`, `split` and `seed`."""
        task, seed = row.get("task"), row.get("seed", self.config.seed)
        if task is None:
            raise OptionError(
                "cannot start the episode: its row has no column `task`",
                "make the data set with gymkhana_rl.datasets.tasks(plugin)",
            )
        return self.start(task=int(task), split=row.get("split"), seed=int(seed))

    def act(self, action: Any) -> Turn:
        """Takes a turn with a native action or a `Reply`."""
        reply = action if isinstance(action, Reply) else None
        _, _, terminated, truncated, info = self.env.step(reply.action if reply else action)
        answers = list(info["calls"])
        seen = without_answers(self._observed(info), answers)
        if reply:
            answers = [_named_by(call, answer) for call, answer in zip(reply.calls, answers, strict=False)]
        earned = info["rewards"].get(self.seat, 0.0)
        turn = replace(self._play_others([seen], earned, info, terminated, truncated), answers=answers)
        self.total += turn.reward
        return turn

    def reply(self, text: str) -> Turn:
        """Takes a turn with a model's text, which may contain calls."""
        return self.act(Reply.from_text(text, self.functions))

    def close(self) -> None:
        self.env.close()

    def _observed(self, info: Mapping[str, Any]) -> str:
        return str(info["observations"].get(self.seat, ""))

    def _play_others(
        self, seen: list[str], reward: float, info: dict[str, Any], terminated: bool = False, truncated: bool = False
    ) -> Turn:
        while not self.env.done and self.env.seat != self.seat:
            observation = str(info["observations"].get(self.env.seat, ""))
            opponent = self.config.opponent
            action = self.env.advise() if opponent == "oracle" else opponent(observation, self.env)
            _, _, terminated, truncated, info = self.env.step(action)
            seen.append(self._observed(info))
            reward += info["rewards"].get(self.seat, 0.0)
        return Turn("\n".join(filter(None, seen)), [], reward, terminated, truncated, info)


def without_answers(text: str, answers: Sequence[Mapping[str, Any]]) -> str:
    """What a seat sees beside the answers to its calls; the package joins both, in their order."""
    kept = ""
    for content in (answer["content"] for answer in answers):
        if content and content in text:
            before, _, behind = text.partition(content)
            kept, text = kept + before, behind.removeprefix("\n")
    return (kept + text).removesuffix("\n") if answers else text


def _seat(seats: Sequence[str], seat: int | str) -> int:
    index = seats.index(seat) if seat in seats else seat
    if not isinstance(index, int) or not 0 <= index < len(seats):
        raise OptionError(f"unknown seat {seat!r}", f"the seats are {', '.join(seats)}")
    return index


def _named_by(call: Call | Malformed, answer: Mapping[str, Any]) -> dict[str, Any]:
    """The answer with the model's id of the call, if it gave one, and the name that a malformed call had."""
    return {**answer, "id": call.id or answer["id"], "name": answer["name"] or call.name}


def tools_prompt(functions: Functions) -> str:
    """System prompt that offers functions in the form that `Reply.from_text` reads; empty without functions."""
    if not functions:
        return ""
    lines = "\n".join(json.dumps(openai_tool(function)) for function in functions)
    return (
        "You may call functions. Their signatures are within <tools></tools>:\n"
        f"<tools>\n{lines}\n</tools>\n"
        "For each call return an object with the function's name and arguments within <tool_call></tool_call>:\n"
        '<tool_call>\n{"name": <name>, "arguments": <object>}\n</tool_call>'
    )


def openai_tool(function: Mapping[str, Any]) -> dict[str, Any]:
    """A function's schema as an entry of `tools` in OpenAI's API."""
    return {"type": "function", "function": dict(function)}


def opening(prompt: Sequence[Mapping[str, Any]], observation: str, system: str = "") -> list[Message]:
    """The first messages: the row's prompt, a system text, and the first observation as the last user message.

    An empty last user message, or one that is the observation already, is replaced.
    """
    messages = [dict(message) for message in prompt]
    if messages and messages[-1]["role"] == "user" and text_of(messages[-1]["content"]) in ("", observation):
        messages.pop()
    if system and messages and messages[0]["role"] == "system":
        messages[0]["content"] = f"{text_of(messages[0]['content'])}\n\n{system}"
    elif system:
        messages.insert(0, {"role": "system", "content": system})
    return [*messages, {"role": "user", "content": observation}]
