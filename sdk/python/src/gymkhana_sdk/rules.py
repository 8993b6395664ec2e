"""Rules for every plugin: valid options, seats in turn, finished episodes and scores in range.

The component and native tests (`gymkhana_sdk.testing`) share these checks.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Generic, TypeVar

from .content import Call, Content, Function, Media, Task, Text, Value
from .environment import Action, Environment, Observations, ResetResult, Split, StepResult
from .errors import BadSnapshot, Error, Invalid, Mistake, NotFound
from .reward import Reward, Score, Trajectory
from .tool import Answer, Tool

Given = Iterable[tuple[str, Value]]
E = TypeVar("E", bound=Environment)
T = TypeVar("T", bound=Tool)
P = TypeVar("P", bound=Environment | Tool)

_LENGTH = struct.Struct("<I")


def offers(thing: type, kind: type, method: str) -> bool:
    """Whether a class overrides an optional method of its kind."""
    return getattr(thing, method) is not getattr(kind, method)


def by_seat(observations: Observations) -> dict[int, Content]:
    """Observations by seat."""
    if observations is None:
        return {}
    return dict(observations) if isinstance(observations, Mapping) else {0: observations}


def rewards_by_seat(reward: float | Mapping[int, float] | None) -> dict[int, float]:
    """Rewards by seat."""
    if reward is None:
        return {}
    return dict(reward) if isinstance(reward, Mapping) else {0: float(reward)}


def functions_by_seat(result: ResetResult) -> dict[int, Sequence[Function]]:
    """Environment functions by seat."""
    functions = result.functions
    if isinstance(functions, Mapping):
        return dict(functions)
    return {0: functions} if functions else {}


class Episode(Generic[E]):
    """Episode with the checks that the host relies on."""

    def __init__(self, environment: E, seat: int, offered: list[tuple[int, str]], over: bool = False) -> None:
        self.environment = environment
        """Instance of the author's class."""
        self.seat = seat
        """Seat to move."""
        self.over = over
        self._offered = offered

    @staticmethod
    def splits(kind: type[Environment], given: Given = ()) -> list[Split]:
        """Splits under these options. Raises `Invalid` for invalid options."""
        return kind.splits(kind.options(given))

    @classmethod
    def reset(cls, kind: type[E], task: Task, given: Given = (), seed: int = 0) -> tuple[Episode[E], ResetResult]:
        """Starts an episode. Raises `Invalid` for invalid options."""
        environment = kind()
        result = environment.reset(task, kind.options(given), seed)
        functions = functions_by_seat(result)
        offered = [(seat, function.name) for seat, offer in functions.items() for function in offer]
        return cls(environment, result.next_seat, offered), result

    def step(self, action: Action) -> StepResult:
        """Applies an action.

        Raises `Invalid` after the end of the episode or if another seat is to move, and `NotFound` for a call of a
        function that was not offered to the seat.
        """
        if self.over:
            raise Invalid("the episode is over: start another")
        if action.seat != self.seat:
            raise Invalid(f"it is the turn of seat {self.seat}, not of seat {action.seat}")
        if action.call is not None and (action.seat, action.call.name) not in self._offered:
            raise NotFound(f"function `{action.call.name}` was not offered to seat {action.seat}")
        try:
            result = self.environment.step(action)
        except Mistake as mistake:
            return StepResult({self.seat: str(mistake)}, next_seat=self.seat)
        self.over = result.terminated or result.truncated
        self.seat = result.next_seat
        return result

    def snapshot(self) -> bytes:
        """Complete state."""
        head = json.dumps([self.over, self.seat, self._offered]).encode()
        return _LENGTH.pack(len(head)) + head + self.environment.snapshot()

    @classmethod
    def restore(cls, kind: type[E], snapshot: bytes) -> Episode[E]:
        """Episode with the state of a snapshot. Raises `BadSnapshot` for invalid bytes."""
        try:
            (length,) = _LENGTH.unpack_from(snapshot)
            head = snapshot[_LENGTH.size : _LENGTH.size + length]
            over, seat, offered = json.loads(head)
            if len(head) != length or type(over) is not bool or type(seat) is not int:
                raise ValueError("its header is malformed")
            offered = [(int(who), str(name)) for who, name in offered]
        except (ValueError, TypeError, struct.error, RecursionError) as error:
            raise BadSnapshot(f"the bytes are not a snapshot of this plugin: {error}") from error
        return cls(restored(kind, snapshot[_LENGTH.size + length :]), seat, offered, over)


class Session(Generic[T]):
    """Tool session with the checks that the host relies on."""

    def __init__(self, tool: T) -> None:
        self.tool = tool
        """Instance of the author's class."""
        self._names: set[str] | None = None

    @staticmethod
    def functions(kind: type[Tool], given: Given = ()) -> list[Function]:
        """Functions under these options. Raises `Invalid` for invalid options."""
        return kind.functions(kind.options(given))

    @classmethod
    def open(cls, kind: type[T], setup: bytes | None = None, given: Given = (), seed: int = 0) -> Session[T]:
        """Opens a session. Raises `Invalid` for invalid options."""
        options = kind.options(given)
        session = cls(kind())
        session._names = {function.name for function in kind.functions(options)}
        session.tool.open(setup, options, seed)
        return session

    def call(self, call: Call) -> Answer:
        """Calls a function. An unknown function gives a failed answer."""
        if self._names is not None and call.name not in self._names:
            return Answer(f"unknown function `{call.name}`; known: {', '.join(sorted(self._names))}", True)
        try:
            answer = self.tool.call(call)
        except Mistake as mistake:
            return Answer(str(mistake), failed=True)
        answer = answer if isinstance(answer, Answer) else Answer(answer)
        _check_content(f"{type(self.tool).__name__}.call", answer.content)
        return answer

    def snapshot(self) -> bytes:
        """Complete state."""
        names = json.dumps(sorted(self._names or ())).encode()
        return _LENGTH.pack(len(names)) + names + self.tool.snapshot()

    @classmethod
    def restore(cls, kind: type[T], snapshot: bytes) -> Session[T]:
        """Session with the state of a snapshot. Raises `BadSnapshot` for invalid bytes."""
        try:
            (length,) = _LENGTH.unpack_from(snapshot)
            names = {str(name) for name in json.loads(snapshot[_LENGTH.size : _LENGTH.size + length])}
        except (ValueError, TypeError, struct.error, RecursionError) as error:
            raise BadSnapshot(f"the bytes are not a snapshot of this plugin: {error}") from error
        session = cls(restored(kind, snapshot[_LENGTH.size + length :]))
        session._names = names
        return session


def _check_content(name: str, content: object) -> None:
    """Raises `TypeError` if a function returned neither text nor parts."""
    if isinstance(content, (str, Text, Media, Iterable)) and not isinstance(content, (bytes, Mapping)):
        return
    kind = "None" if content is None else type(content).__name__
    raise TypeError(f"`{name}` must return text, not {kind}")


def restored(kind: type[P], snapshot: bytes) -> P:
    """New instance with the state of a snapshot. Any exception of `restore` becomes `BadSnapshot`."""
    instance = kind()
    try:
        instance.restore(snapshot)
    except Error:
        raise
    except Exception as error:
        raise BadSnapshot(f"the bytes are not a snapshot of this plugin: {error!r}") from error
    return instance


def score(
    kind: type[Reward], group: Sequence[Trajectory], given: Given = (), training_step: int = 0
) -> list[dict[int, Score]]:
    """Scores a group: one dict per trajectory, with a score for each seat that acted.

    Raises `Invalid` for invalid options, and `ValueError` (a bug of the plugin) for scores that the host would reject.
    """
    reward = kind()
    scores = reward.score_group(group, kind.options(given), training_step)
    if len(scores) != len(group):
        raise ValueError(f"the reward scored {len(scores)} trajectories, not {len(group)}")
    checked = []
    for trajectory, seats in zip(group, scores, strict=True):
        if sorted(seats) != trajectory.seats:
            raise ValueError(f"the reward scored seats {sorted(seats)}, but seats {trajectory.seats} acted")
        checked.append({seat: _checked(kind, one) for seat, one in sorted(seats.items())})
    return checked


def _checked(kind: type[Reward], given: float | Score) -> Score:
    score = given if isinstance(given, Score) else Score(float(given))
    if list(score.components) != list(kind.components):
        raise ValueError(f"the components are {list(score.components)}, but {list(kind.components)} are declared")
    low, high = kind.range
    for number in (score.total, *score.turns):
        if not low <= number <= high:
            raise ValueError(f"a reward of {number} is outside {low} to {high}, the range of {kind.__name__}")
    for name, number in score.components.items():
        if not math.isfinite(number):
            raise ValueError(f"component `{name}` is {number}: components must be finite")
    return score
