"""What holds for every plugin: options are checked, seats take turns, the end is the end, scores stay in range.

The component calls these, and so do native tests (`gymkhana.testing`): both meet the same checks.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Generic, TypeVar

from .content import Call, Content, Function, Task, Value
from .environment import Action, Environment, Observations, Split, Started, Stepped
from .errors import BadSnapshot, Error, Invalid, Mistake, NotFound
from .options import Options
from .reward import Reward, Score, Trajectory
from .tool import Answer, Tool

Given = Iterable[tuple[str, Value]]
E = TypeVar("E", bound=Environment)
T = TypeVar("T", bound=Tool)

_LENGTH = struct.Struct("<I")


def offers(thing: type, kind: type, method: str) -> bool:
    """Whether a class overrides an optional method of its kind."""
    return getattr(thing, method) is not getattr(kind, method)


def by_seat(observations: Observations) -> dict[int, Content]:
    """What each seat sees."""
    if observations is None:
        return {}
    return dict(observations) if isinstance(observations, Mapping) else {0: observations}


def rewards_by_seat(reward: float | Mapping[int, float] | None) -> dict[int, float]:
    """What each seat earned."""
    if reward is None:
        return {}
    return dict(reward) if isinstance(reward, Mapping) else {0: float(reward)}


def functions_by_seat(started: Started) -> dict[int, Sequence[Function]]:
    """What each seat may call."""
    functions = started.functions
    if isinstance(functions, Mapping):
        return dict(functions)
    return {0: functions} if functions else {}


class Episode(Generic[E]):
    """An episode as the host meets it."""

    def __init__(self, environment: E, seat: int, offered: list[tuple[int, str]], over: bool = False) -> None:
        self.environment = environment
        """The author's instance."""
        self.seat = seat
        """Whose turn it is."""
        self.over = over
        self._offered = offered

    @staticmethod
    def splits(kind: type[Environment], given: Given = ()) -> list[Split]:
        """The splits under these options. Raises `Invalid` for options that the environment does not know."""
        return kind.splits(Options(kind.options, given))

    @classmethod
    def start(cls, kind: type[E], task: Task, given: Given = (), seed: int = 0) -> tuple[Episode[E], Started]:
        """Starts an episode. Raises `Invalid` for options that the environment does not know."""
        environment = kind()
        started = environment.start(task, Options(kind.options, given), seed)
        functions = functions_by_seat(started)
        offered = [(seat, function.name) for seat, offer in functions.items() for function in offer]
        return cls(environment, started.seat, offered), started

    def step(self, action: Action) -> Stepped:
        """Acts.

        Raises `Invalid` once the episode is over or when it is another seat's turn, `NotFound` for a call of a
        function that was not offered.
        """
        if self.over:
            raise Invalid("the episode is over: start another")
        if action.seat != self.seat:
            raise Invalid(f"it is the turn of seat {self.seat}, not of seat {action.seat}")
        if action.call is not None and (action.seat, action.call.name) not in self._offered:
            raise NotFound(f"function `{action.call.name}` was not offered to seat {action.seat}")
        try:
            stepped = self.environment.step(action)
        except Mistake as mistake:
            return Stepped({self.seat: str(mistake)}, seat=self.seat)
        self.over = stepped.terminated or stepped.truncated
        self.seat = stepped.seat
        return stepped

    def snapshot(self) -> bytes:
        """The whole state."""
        head = json.dumps([self.over, self.seat, self._offered]).encode()
        return _LENGTH.pack(len(head)) + head + self.environment.snapshot()

    @classmethod
    def restore(cls, kind: type[E], snapshot: bytes) -> Episode[E]:
        """An episode in the state that `snapshot` saw. Raises `BadSnapshot` for other bytes."""
        try:
            (length,) = _LENGTH.unpack_from(snapshot)
            head = snapshot[_LENGTH.size : _LENGTH.size + length]
            over, seat, offered = json.loads(head)
            if len(head) != length or type(over) is not bool or type(seat) is not int:
                raise ValueError("its head is damaged")
            offered = [(int(who), str(name)) for who, name in offered]
        except (ValueError, TypeError, struct.error, RecursionError) as error:
            raise BadSnapshot(f"the bytes are no snapshot of this plugin: {error}") from error
        return cls(restored(kind, snapshot[_LENGTH.size + length :]), seat, offered, over)


class Session(Generic[T]):
    """A tool's session as the host meets it."""

    def __init__(self, tool: T) -> None:
        self.tool = tool
        """The author's instance."""
        self._names: set[str] | None = None

    @staticmethod
    def functions(kind: type[Tool], given: Given = ()) -> list[Function]:
        """The functions under these options. Raises `Invalid` for options that the tool does not know."""
        return kind.functions(Options(kind.options, given))

    @classmethod
    def open(cls, kind: type[T], setup: bytes | None = None, given: Given = (), seed: int = 0) -> Session[T]:
        """Opens a session. Raises `Invalid` for options that the tool does not know."""
        options = Options(kind.options, given)
        session = cls(kind())
        session._names = {function.name for function in kind.functions(options)}
        session.tool.open(setup, options, seed)
        return session

    def call(self, call: Call) -> Answer:
        """Calls a function. One that the tool does not have is a failed answer."""
        if self._names is not None and call.name not in self._names:
            return Answer(f"there is no function `{call.name}`; there are: {', '.join(sorted(self._names))}", True)
        try:
            answer = self.tool.call(call)
        except Mistake as mistake:
            return Answer(str(mistake), failed=True)
        return answer if isinstance(answer, Answer) else Answer(answer)

    def snapshot(self) -> bytes:
        """The whole state."""
        names = json.dumps(sorted(self._names or ())).encode()
        return _LENGTH.pack(len(names)) + names + self.tool.snapshot()

    @classmethod
    def restore(cls, kind: type[T], snapshot: bytes) -> Session[T]:
        """A session in the state that `snapshot` saw. Raises `BadSnapshot` for other bytes."""
        try:
            (length,) = _LENGTH.unpack_from(snapshot)
            names = {str(name) for name in json.loads(snapshot[_LENGTH.size : _LENGTH.size + length])}
        except (ValueError, TypeError, struct.error, RecursionError) as error:
            raise BadSnapshot(f"the bytes are no snapshot of this plugin: {error}") from error
        session = cls(restored(kind, snapshot[_LENGTH.size + length :]))
        session._names = names
        return session


def restored(kind: type, snapshot: bytes):
    """A new instance in the state of a snapshot; whatever `restore` raises says that the bytes are none."""
    instance = kind()
    try:
        instance.restore(snapshot)
    except Error:
        raise
    except Exception as error:
        raise BadSnapshot(f"the bytes are no snapshot of this plugin: {error!r}") from error
    return instance


def score(
    kind: type[Reward], group: Sequence[Trajectory], given: Given = (), training_step: int = 0
) -> list[dict[int, Score]]:
    """Scores a group: one dict a trajectory, with a score for each seat that acted.

    Raises `Invalid` for options that the reward does not know, and `ValueError`, a bug of the author's, for scores
    that the host would refuse.
    """
    reward = kind()
    scores = reward.score_group(group, Options(kind.options, given), training_step)
    if len(scores) != len(group):
        raise ValueError(f"{len(scores)} trajectories were scored, not {len(group)}")
    checked = []
    for trajectory, seats in zip(group, scores):
        if sorted(seats) != trajectory.seats:
            raise ValueError(f"seats {sorted(seats)} were scored, not {trajectory.seats}, those that acted")
        checked.append({seat: _checked(kind, one) for seat, one in sorted(seats.items())})
    return checked


def _checked(kind: type[Reward], given: float | Score) -> Score:
    score = given if isinstance(given, Score) else Score(float(given))
    if list(score.components) != list(kind.components):
        raise ValueError(f"the components are {list(score.components)}, not {list(kind.components)} as declared")
    low, high = kind.range
    for number in (score.total, *score.turns):
        if not low <= number <= high:
            raise ValueError(f"a reward of {number} is outside {low} to {high}, the range of {kind.__name__}")
    for name, number in score.components.items():
        if not math.isfinite(number):
            raise ValueError(f"component `{name}` is {number}; components are finite")
    return score


