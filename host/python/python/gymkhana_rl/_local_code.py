"""Classes of gymkhana-sdk behind the functions of the contract, in plain values, as the native module calls them.

The rules are those that the SDK applies in a component. Contents are lists of texts and of (kind, MIME type, bytes).
Values are bool, int, float, str and bytes, and (text,) for JSON.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import sysconfig
import threading
import traceback
import weakref
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import gymkhana_sdk as sdk
from gymkhana_sdk import rules
from gymkhana_sdk.content import parts_of

Named = list[tuple[str, Any]]

_MEDIA = {"image": sdk.Image, "audio": sdk.Audio, "video": sdk.Video, "other": sdk.OtherMedia}
_MEDIA_NAMES = {**{kind: name for name, kind in _MEDIA.items()}, sdk.Media: "other"}
_VALUES = (bool, int, float, str, bytes)
_ERRORS = {sdk.Invalid: "invalid", sdk.NotFound: "not-found", sdk.BadSnapshot: "bad-snapshot", sdk.Denied: "denied"}

_OWN = (os.path.dirname(__file__) + os.sep, os.path.dirname(sdk.__file__ or "") + os.sep, "<frozen ")
_STANDARD = sysconfig.get_path("stdlib") + os.sep
_PACKAGES = (sysconfig.get_path("purelib") + os.sep, sysconfig.get_path("platlib") + os.sep)


# All code of the process, which ends before the interpreter does.
_ALL: weakref.WeakSet[Code] = weakref.WeakSet()


class Code:
    """Live episodes or sessions of one class, by handle. No handle is used twice."""

    def __init__(self, kind: Any) -> None:
        self.kind = kind
        self.live: dict[int, Any] = {}
        self._handles = itertools.count()
        self._threads: set[int] = set()
        self._ended = False
        _ALL.add(self)

    def again(self) -> Code:
        """The same class without episodes or sessions, for a rollout that may end it."""
        return type(self)(self.kind)

    def call(self, function: str, *arguments: Any) -> Any:
        """Calls a function of the contract."""
        thread = threading.get_ident()
        self._threads.add(thread)
        try:
            # After the addition: `end` either finds this thread or was first.
            if self._ended:
                raise SystemExit
            return getattr(self, function)(*arguments)
        finally:
            self._threads.discard(thread)

    def end(self) -> None:
        """Raises SystemExit in later calls, and in those in progress, which end at their next instruction in Python."""
        self._ended = True
        for thread in list(self._threads):
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(SystemExit))

    def failure(self, error: BaseException) -> tuple[str | None, str]:
        """Variant of the contract's error with its message; no variant for an exception, which ends the episode."""
        if isinstance(error, sdk.Error):
            return next((name for kind, name in _ERRORS.items() if isinstance(error, kind)), "other"), str(error)
        return None, f"uncaught exception: {_place(error)}{type(error).__name__}: {error}"

    def keep(self, thing: Any) -> int:
        handle = next(self._handles)
        self.live[handle] = thing
        return handle

    def snapshot(self, handle: int) -> bytes:
        return bytes(self.live[handle].snapshot())

    def forget(self, handle: int) -> None:
        self.live.pop(handle, None)


class EnvironmentCode(Code):
    def describe(self) -> tuple[Any, ...]:
        kind = self.kind
        return kind.summary, list(kind.seats), _options(kind.options), _ends(kind.reward_range)

    def splits(self, options: Named) -> list[tuple[str, int | None]]:
        return [(split.name, split.tasks) for split in rules.Episode.splits(self.kind, _pairs(options))]

    def reset(self, split: str, index: int, options: Named, seed: int) -> tuple[Any, ...]:
        episode, result = rules.Episode.reset(self.kind, sdk.Task(split, index), _pairs(options), seed)
        functions = [(seat, _functions(each)) for seat, each in rules.functions_by_seat(result).items()]
        setups = [(tool, bytes(given)) for tool, given in result.tool_setups.items()]
        return self.keep(episode), _observations(result.observations), functions, setups, result.next_seat

    def step(self, episode: int, seat: int, content: Iterable[Any], call: Sequence[str] | None) -> tuple[Any, ...]:
        action = sdk.Action(_from_parts(content), None if call is None else _call(call), seat)
        result = self.live[episode].step(action)
        rewards = [(seat, float(reward)) for seat, reward in rules.rewards_by_seat(result.reward).items()]
        seen, extras = _observations(result.observations), _named(result.extras)
        return seen, rewards, result.terminated, result.truncated, extras, result.next_seat

    def state_key(self, episode: int) -> bytes:
        return bytes(self.live[episode].environment.state_key())

    def privileged(self, episode: int) -> Named:
        return _named(self.live[episode].environment.privileged())

    def advise(self, episode: int, tools: list[str], results: list[str]) -> str | list[tuple[str, str, str]]:
        advice = self.live[episode].environment.advise(tools, results)
        return advice if isinstance(advice, str) else [(call.id, call.name, call.arguments) for call in advice]

    def guidance(self, episode: int) -> list[Any]:
        return _parts(self.live[episode].environment.guidance())

    def render(self, episode: int) -> tuple[bool, str]:
        picture = self.live[episode].environment.render()
        return isinstance(picture, sdk.Svg), picture

    def restore(self, snapshot: bytes) -> int:
        return self.keep(rules.Episode.restore(self.kind, snapshot))

    def close(self, episode: int) -> None:
        self.forget(episode)


class ToolCode(Code):
    def describe(self) -> tuple[Any, ...]:
        return self.kind.summary, _options(self.kind.options)

    def functions(self, options: Named) -> list[Any]:
        return _functions(rules.Session.functions(self.kind, _pairs(options)))

    def open(self, setup: bytes | None, options: Named, seed: int) -> int:
        return self.keep(rules.Session.open(self.kind, setup, _pairs(options), seed))

    def call_function(self, session: int, call: Sequence[str]) -> tuple[list[Any], bool]:
        answer = self.live[session].call(_call(call))
        return _parts(answer.content), answer.failed

    def final_view(self, session: int) -> Named:
        return _named(self.live[session].tool.final_view())

    def restore(self, snapshot: bytes) -> int:
        return self.keep(rules.Session.restore(self.kind, snapshot))

    def close(self, session: int) -> None:
        closed = self.live.pop(session, None)
        if closed is not None:
            closed.tool.close()


class RewardCode(Code):
    def describe(self) -> tuple[Any, ...]:
        kind = self.kind
        return kind.summary, list(kind.components.items()), _ends(kind.range), _options(kind.options)

    def score(self, group: Iterable[Any], options: Named, training_step: int) -> list[list[tuple[Any, ...]]]:
        trajectories = [_trajectory(*one) for one in group]
        scores = rules.score(self.kind, trajectories, _pairs(options), training_step)
        return [[_score(seat, score) for seat, score in seats.items()] for seats in scores]


def end_all() -> None:
    """Ends the code of every class."""
    for code in list(_ALL):
        code.end()


CODE: dict[str, type[Code]] = {"environment": EnvironmentCode, "tool": ToolCode, "reward": RewardCode}


def _place(error: BaseException) -> str:
    """The author's line that raised an exception, such as `plugin.py:45 in step: `."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith(_OWN)]
    own = [frame for frame in frames if _is_authors(frame.filename)] or frames
    return f"{own[-1].filename}:{own[-1].lineno} in {own[-1].name}: " if own else ""


def _is_authors(file: str) -> bool:
    return not file.startswith(_STANDARD) or file.startswith(_PACKAGES)


def _parts(content: Any) -> list[Any]:
    return [
        part.text if isinstance(part, sdk.Text) else (_MEDIA_NAMES[type(part)], part.mime, part.data)
        for part in parts_of(content)
    ]


def _from_parts(parts: Iterable[Any]) -> list[Any]:
    return [sdk.Text(part) if isinstance(part, str) else _MEDIA[part[0]](part[1], part[2]) for part in parts]


def _value(value: Any) -> Any:
    if isinstance(value, sdk.Json):
        return (value.text,)
    for kind in type(value).__mro__:
        if kind in _VALUES:
            return kind(value)
    raise TypeError(f"{value!r} is not a valid value: use bool, int, float, str, bytes or gymkhana_sdk.Json")


def _from_value(value: Any) -> Any:
    return sdk.Json(value[0]) if isinstance(value, tuple) else value


def _named(values: Mapping[str, Any]) -> Named:
    return [(name, _value(value)) for name, value in values.items()]


def _pairs(values: Named) -> Named:
    return [(name, _from_value(value)) for name, value in values]


def _from_named(values: Named) -> dict[str, Any]:
    # The first value of a repeated name wins.
    return dict(reversed(_pairs(values)))


def _observations(observations: Any) -> list[tuple[int, list[Any]]]:
    return [(seat, _parts(content)) for seat, content in rules.by_seat(observations).items()]


def _functions(functions: Iterable[Any]) -> list[tuple[str, str, str, float]]:
    return [(each.name, each.description, each.schema(), float(each.cost)) for each in functions]


def _options(options: Any) -> list[tuple[str, str, Any]]:
    return [(option.name, option.told(), _value(option.default)) for option in options.declared()]


def _ends(ends: Sequence[float]) -> tuple[float, float]:
    return float(ends[0]), float(ends[1])


def _call(call: Sequence[str]) -> Any:
    own, name, arguments = call
    return sdk.Call(name, arguments, own)


def _turn(kind: str, seat: int, content: Iterable[Any], call: Any, cost: float, own: str, failed: bool) -> Any:
    called = None if call is None else _call(call)
    return sdk.Turn(sdk.TurnKind(kind), seat, _from_parts(content), called, cost, own, failed)


def _trajectory(
    task: tuple[str, int], turns: Any, ending: str, rewards: Any, extras: Named, privileged: Named, views: Named
) -> Any:
    return sdk.Trajectory(
        task=sdk.Task(*task),
        turns=[_turn(*turn) for turn in turns],
        ending=sdk.Ending(ending),
        environment_rewards=dict(rewards),
        extras=_from_named(extras),
        privileged=_from_named(privileged),
        views=_from_named(views),
    )


def _score(seat: int, score: Any) -> tuple[Any, ...]:
    components = [(name, float(value)) for name, value in score.components.items()]
    evidence = [(each.turn, each.start, each.end, each.note) for each in score.evidence]
    return seat, float(score.total), components, [float(turn) for turn in score.turns], evidence
