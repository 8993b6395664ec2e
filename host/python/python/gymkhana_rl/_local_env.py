"""An environment class with its episode, stepped by the rules of `Env`: messages, calls, tools, answers and failures."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from typing import Any

from . import _native
from ._async import in_thread
from ._local import LocalPlugin, LocalTool, calling, json_of, local, schema_of, sdk
from ._native import Plugin, Tool
from ._types import Call
from .errors import EpisodeEndedError, OptionError, PluginError, StaleHandleError

_FORMS = 'an action is a str, a Call, a sequence of Calls, or {"message": str, "calls": [...]}'


class LocalEnv:
    """One environment of a class, with the interface of `Env`."""

    def __init__(
        self,
        plugin: LocalPlugin,
        *,
        split: str | None,
        task: int | None,
        seed: int,
        tools: Sequence[Any] | None,
        options: Mapping[str, Any] | None,
    ) -> None:
        self.plugin = plugin
        self.tools = tuple(local(tool) if isinstance(tool, type) else tool for tool in tools or ())
        self.options = dict(options or {})
        self.seats = tuple(plugin.cls.seats)
        self._split, self._task = split, task
        self._root, self._begun = seed, 0
        self._closed = False
        self._live: _Episode | None = None
        self._find(split, task)

    def reset(
        self,
        *,
        seed: int | None = None,
        task: int | None = None,
        split: str | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> tuple[str, dict[str, Any]]:
        """Begins the next episode, that of the plugin which is built from the class: seeds and tasks are the same."""
        self._open()
        if options is not None:
            self.options = dict(options)
        if seed is not None:
            self._root, self._begun = seed, 0
        root, number = self._root, self._begun
        own = root if number == 0 else _native.child_seed(_native.child_seed(root, "episode"), str(number))
        self._begun += 1
        name, tasks = self._find(split or self._split, None)
        index = task if task is not None else self._task
        index = _native.drawn_task(own, tasks) if index is None else self._find(name, index) and index
        self._live = None
        self._live = _Episode(self, name, index, own)
        observation, info = self._live.seen(0)
        return observation, {**info, "rewards": {}, "seed": own}

    def step(self, action: Any) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Takes a turn. Raises PluginError if the class fails, which ends the episode."""
        return self._running().take(*_reply(action))

    async def areset(self, **kwargs: Any) -> tuple[str, dict[str, Any]]:
        """As `reset`, awaited."""
        return await in_thread(self.reset, (), kwargs)

    async def astep(self, action: Any) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """As `step`, awaited."""
        return await in_thread(self.step, (action,))

    @property
    def functions(self) -> list[dict[str, Any]]:
        """Functions of the seat to move; before the first reset those of the first task."""
        self._open()
        live = self._live or _Episode(self, self._find(self._split, None)[0], 0, 0)
        return copy.deepcopy(live.functions.get(live.seat, []))

    @property
    def seat(self) -> int:
        """Seat to move; 0 before the first episode."""
        self._open()
        return self._live.seat if self._live else 0

    @property
    def done(self) -> bool:
        """Whether no episode is running."""
        return self._live is None or self._live.ending is not None

    def advise(self) -> str | list[Call]:
        """What the class's expert would do."""
        live = self._running()
        self._offered("advise", "oracle")
        with calling(self.plugin, "advise"):
            advice = live.sdk.environment.advise(live.tool_names, live.results.get(live.seat, []))
        if isinstance(advice, str):
            return advice
        return [Call(call.name, json.loads(call.arguments), call.id) for call in advice]

    def privileged(self) -> dict[str, Any]:
        """The fields that rewards and teachers see, and policies do not."""
        self._offered("privileged", "privileged view")
        return dict(self._read("privileged"))

    def render(self) -> str:
        """A picture of the state."""
        self._offered("render", "rendering")
        return str(self._read("render"))

    def state_key(self) -> bytes:
        """The canonical form of the state."""
        self._offered("state_key", "state key")
        return bytes(self._read("state_key"))

    def record(self) -> dict[str, Any]:
        """The episode in the form of a record, with the class among `unsandboxed`. It has no costs and no times."""
        return self._begun_episode().record()

    def record_bytes(self) -> bytes:
        """The record as JSON."""
        return json.dumps(self.record(), ensure_ascii=False, separators=(",", ":")).encode()

    def close(self) -> None:
        """Ends the episode. A closed environment can only be closed."""
        live, self._live, self._closed = self._live, None, True
        for tool in live.tools if live else ():
            tool.close()

    def __enter__(self) -> LocalEnv:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<LocalEnv {self.plugin.name}, not sandboxed>"

    def _find(self, split: str | None, task: int | None) -> tuple[str, int | None]:
        """The split, by default the first one, and its number of tasks."""
        splits = self.plugin.splits(**self.options)
        name = next(iter(splits), "") if split is None else split
        if name not in splits:
            known = ", ".join(f"`{known}`" for known in splits)
            raise OptionError(f"environment `{self.plugin.name}` has no split `{name}`", f"use {known}")
        tasks = splits[name]
        if task is not None and (task < 0 or (tasks is not None and task >= tasks)):
            raise OptionError(f"split `{name}` has no task {task}", f"it has {tasks} tasks")
        return name, tasks

    def _open(self) -> None:
        if self._closed:
            raise StaleHandleError("this environment cannot be used: it is closed")

    def _begun_episode(self) -> _Episode:
        self._open()
        if self._live is None:
            raise EpisodeEndedError("the episode cannot go on: it has not begun", "call reset()")
        return self._live

    def _running(self) -> _Episode:
        live = self._begun_episode()
        if live.ending is not None:
            raise EpisodeEndedError("the episode cannot go on: it has ended", "call reset() for the next one")
        return live

    def _offered(self, method: str, words: str) -> None:
        if not self.plugin.offers(method):
            raise PluginError(f"{self.plugin.name} offers no {words}", None, self.plugin.name, "refused")

    def _read(self, method: str) -> Any:
        live = self._begun_episode()
        with calling(self.plugin, method):
            return getattr(live.sdk.environment, method)()


class _Episode:
    """A live episode: the class's instance, the sessions of its tools, and the transcript."""

    def __init__(self, env: LocalEnv, split: str, index: int, seed: int) -> None:
        package = sdk()
        self.env, self.split, self.index, self.seed = env, split, index, seed
        self.ending: str | None = None
        self.turns: list[dict[str, Any]] = []
        self.failures: list[PluginError] = []
        self.extras: dict[str, Any] = {}
        self.results: dict[int, list[str]] = {}
        self.calls = 0
        self.rewards: dict[int, list[float]] = {seat: [] for seat in range(len(env.seats))}
        with calling(env.plugin, "reset"):
            task, options = package.Task(split, index), env.options.items()
            own = _native.child_seed(seed, "environment")
            self.sdk, started = package.rules.Episode.start(env.plugin.cls, task, options, own)
            offered = package.rules.functions_by_seat(started)
            observations = package.rules.by_seat(started.observations)
        self.own = {seat: [schema_of(function) for function in functions] for seat, functions in offered.items()}
        self.tools = [self._session(tool, started.setup) for tool in env.tools]
        shared = [schema for tool in self.tools for schema in tool.schemas]
        self.tool_names = [schema["name"] for schema in shared]
        self.functions = {seat: [*self.own.get(seat, []), *shared] for seat in self.rewards}
        for seat, content in observations.items():
            self._observe(seat, content)
        self.opening = list(self.turns)

    @property
    def seat(self) -> int:
        return int(self.sdk.seat)

    def _session(self, tool: Any, setup: Mapping[str, bytes]) -> Any:
        plugin = getattr(tool, "plugin", tool)
        own = setup.get(plugin.name.rpartition("/")[2])
        options = tool.options if isinstance(tool, (Tool, LocalTool)) else {}
        if isinstance(plugin, LocalPlugin):
            return LocalTool(plugin, self.seed, options, own)
        if not isinstance(plugin, Plugin):
            raise OptionError(f"`tools` holds a `{type(tool).__name__}`", "give classes, plugins or tools")
        if own is not None:
            raise OptionError(f"the class sets up the plugin `{plugin.name}`, which only a plugin can do", "use a class")
        return plugin.tool(seed=self.seed, options=options)

    def take(self, message: str, calls: list[Call]) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """A turn of the seat to move: its message, or its calls in their order."""
        package, mover, first = sdk(), self.seat, len(self.turns)
        earned = {seat: len(rewards) for seat, rewards in self.rewards.items()}
        self.results[mover] = []
        if message or not calls:
            self.turns.append({"turn": "message", "seat": mover, "content": [{"text": message}]})
        if not calls:
            self._step(package.Action((package.Text(message),), seat=mover), None)
        numbered = [package.Call(call.name, json_of(call.arguments), f"call-{self.calls + at}") for at, call in enumerate(calls)]
        self.calls += len(calls)
        for call in numbered:
            written = {"id": call.id, "name": call.name, "arguments": call.arguments}
            self.turns.append({"turn": "call", "seat": mover, "call": written, "cost": 0.0})
        for call in numbered:
            self._answer(mover, call)
        if self.ending == "environment-failed":
            raise self.failures[-1]
        rewards = {seat: sum(own[earned[seat] :]) for seat, own in self.rewards.items()}
        shown, info = self.seen(first, mover if self.ending else self.seat)
        over = self.ending == "terminated"
        return shown, rewards[mover], over, self.ending is not None and not over, {**info, "rewards": rewards}

    def _answer(self, mover: int, call: Any) -> None:
        tool = next((tool for tool in self.tools if call.name in [each["name"] for each in tool.schemas]), None)
        known = [schema["name"] for schema in self.functions[mover]]
        if tool is not None:
            answer = tool.call(call.name, json.loads(call.arguments))
            self._told(mover, call.id, answer.content, answer.failed)
        elif call.name not in known:
            listed = f"known: {', '.join(known)}" if known else "this seat has 0 functions"
            self._told(mover, call.id, f"unknown function `{call.name}`; {listed}", True)
        elif self.ending is not None:
            self._told(mover, call.id, "the episode is over", True)
        elif self.seat != mover:
            self._told(mover, call.id, "it is not your turn", True)
        else:
            self._step(sdk().Action(call=call, seat=mover), call.id)

    def _step(self, action: Any, call: str | None) -> None:
        """An action of the seat to move. The mover's first observation answers its call."""
        rules, mover = sdk().rules, self.seat
        try:
            with calling(self.env.plugin, "step"):
                stepped = self.sdk.step(action)
                observations = rules.by_seat(stepped.observations)
                rewards = rules.rewards_by_seat(stepped.reward)
                extras = dict(stepped.extras)
        except PluginError as error:
            self.failures.append(error)
            self.ending = "environment-failed"
            return
        for seat, own in self.rewards.items():
            own.append(float(rewards.get(seat, 0.0)))
        for seat, content in observations.items():
            if call is not None and seat == mover:
                self._told(seat, call, sdk().text_of(content), False)
                call = None
            else:
                self._observe(seat, content)
        if call is not None:
            self.turns.append({"turn": "answer", "seat": mover, "id": call, "content": [], "failed": False})
        self.extras = extras
        self.ending = "terminated" if stepped.terminated else "truncated" if stepped.truncated else None
        self._check_total()

    def _check_total(self) -> None:
        """Fails an episode whose rewards leave the bounds that the class declares."""
        low, high = self.env.plugin.cls.rewards
        for seat, own in self.rewards.items():
            if self.ending is not None and not low <= sum(own) <= high:
                why = f"seat {seat} earned {sum(own)} in total, outside the range {low} to {high}"
                name = self.env.plugin.name
                self.failures.append(PluginError(f"{name} failed during step: {why}", None, name, "malformed"))
                self.ending = "environment-failed"

    def _observe(self, seat: int, content: Any) -> None:
        self.turns.append({"turn": "observation", "seat": seat, "content": [{"text": sdk().text_of(content)}]})

    def _told(self, seat: int, call: str, text: str, failed: bool) -> None:
        self.results.setdefault(seat, []).append(text)
        self.turns.append({"turn": "answer", "seat": seat, "id": call, "content": [{"text": text}], "failed": failed})

    def seen(self, first: int, seat: int | None = None) -> tuple[str, dict[str, Any]]:
        """What a seat sees of the turns from `first` on, and the info of all seats."""
        names = {turn["call"]["id"]: turn["call"]["name"] for turn in self.turns if turn["turn"] == "call"}
        texts: dict[int, list[str]] = {}
        calls = []
        for turn in self.turns[first:]:
            if turn["turn"] in ("observation", "answer"):
                text = "".join(part["text"] for part in turn["content"])
                if turn["content"]:
                    texts.setdefault(turn["seat"], []).append(text)
                if turn["turn"] == "answer":
                    answer = {"id": turn["id"], "name": names[turn["id"]], "content": text, "failed": turn["failed"]}
                    calls.append(answer)
        observations = {own: "\n".join(parts) for own, parts in texts.items()}
        info = {
            "seat": self.seat,
            "observations": observations,
            "extras": dict(self.extras),
            "task": {"split": self.split, "index": self.index},
            "calls": calls,
            "failures": [],
        }
        return observations.get(self.seat if seat is None else seat, ""), info

    def record(self) -> dict[str, Any]:
        """The episode, with what the class and its tools say at the end."""
        plugin, over = self.env.plugin, self.ending is not None
        views: dict[str, Any] = {}
        for tool in self.tools:
            views |= tool.final_view() if over and isinstance(tool, LocalTool) else {}
        known = over and self.ending != "environment-failed" and plugin.offers("privileged")
        unsandboxed = [plugin, *(tool.plugin for tool in self.tools if isinstance(tool, LocalTool))]
        return {
            "unsandboxed": [each.name for each in unsandboxed],
            "task": {"split": self.split, "index": self.index},
            "seed": self.seed,
            "opening": {"observations": [[turn["seat"], turn["content"]] for turn in self.opening]},
            "turns": copy.deepcopy(self.turns),
            "ending": self.ending or "dropped",
            "environment_rewards": [{"seat": seat, "rewards": list(own)} for seat, own in self.rewards.items()],
            "rewards": [sum(own) for own in self.rewards.values()],
            "extras": _named(self.extras),
            "privileged": _named(self.env.privileged() if known else {}),
            "views": _named(views),
            "failures": [{"plugin": error.plugin, "kind": error.kind, "message": str(error)} for error in self.failures],
        }


def _named(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Values in the form of records."""
    words = {bool: "flag", int: "integer", float: "number", str: "text"}
    return [{"name": name, "value": {words.get(type(value), "other"): value}} for name, value in values.items()]


def _reply(action: Any) -> tuple[str, list[Call]]:
    """The message and the calls of an action."""
    if isinstance(action, str):
        return action, []
    if isinstance(action, Call):
        return "", [action]
    if isinstance(action, Mapping):
        return action.get("message") or "", [_call(call) for call in action.get("calls") or ()]
    if isinstance(action, Sequence):
        return "", [_call(call) for call in action]
    raise OptionError(f"the action cannot be taken: it is a `{type(action).__name__}`", _FORMS)


def _call(value: Any) -> Call:
    if isinstance(value, Call):
        return value
    if isinstance(value, Mapping) and isinstance(value.get("name"), str):
        return Call(value["name"], dict(value.get("arguments") or {}))
    raise OptionError(f"the action cannot be taken: `{type(value).__name__}` is no call", _FORMS)
