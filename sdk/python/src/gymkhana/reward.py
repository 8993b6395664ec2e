"""Scores for finished trajectories.

    class Brief(Reward):
        '''One point for a short last message.'''

        summary = "Brevity"
        components = {"short": "1 for at most 20 characters, else 0"}

        def score(self, trajectory, seat, options):
            last = trajectory.last_message(seat)
            short = float(last is not None and len(last.text) <= 20)
            return Score(short, {"short": short})
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from .content import Call, Part, Task, Value, text_of
from .options import Option, Options


class TurnKind(enum.Enum):
    """Who made a turn, and how."""

    MESSAGE = "message"
    """What a seat said: its text without the calls in it."""
    CALL = "call"
    """A call that a seat made."""
    ANSWER = "answer"
    """What a tool or the environment answered to a call."""
    OBSERVATION = "observation"
    """What the environment showed to a seat."""
    OTHER = "other"


@dataclass(frozen=True)
class Turn:
    """One turn of a finished trajectory."""

    kind: TurnKind
    seat: int
    content: Sequence[Part] = ()
    """What was said or shown; empty for a call."""
    call: Call | None = None
    """The call, of a turn of kind CALL."""
    cost: float = 0.0
    """What the call cost, as the tool declares it."""
    id: str = ""
    """The id of the call that is answered, of a turn of kind ANSWER."""
    failed: bool = False
    """The answered call did not work."""

    @property
    def text(self) -> str:
        """The text of the content."""
        return text_of(self.content)

    @property
    def actor(self) -> int | None:
        """The seat that made this turn; None for what tools and the environment did."""
        return self.seat if self.kind in (TurnKind.MESSAGE, TurnKind.CALL) else None


class Ending(enum.Enum):
    """Why the episode ended."""

    TERMINATED = "terminated"
    """The environment said that it is over."""
    TRUNCATED = "truncated"
    """The environment cut it off."""
    TURN_LIMIT = "turn-limit"
    TOKEN_LIMIT = "token-limit"
    CALL_LIMIT = "call-limit"
    TIME_LIMIT = "time-limit"
    FAILED = "failed"
    """The environment or the sandbox failed."""
    OTHER = "other"


@dataclass(frozen=True)
class LastMessage:
    """The last thing that a seat did, when it was a message."""

    turn: int
    """The index of its turn."""
    text: str


@dataclass(frozen=True)
class Trajectory:
    """One attempt at a task, finished."""

    task: Task = Task("train", 0)
    turns: Sequence[Turn] = ()
    ending: Ending = Ending.TERMINATED
    environment_rewards: Mapping[int, Sequence[float]] = field(default_factory=dict)
    """Each seat's rewards from the environment, one number for each of its steps."""
    extras: Mapping[str, Value] = field(default_factory=dict)
    """The extras of the environment's last step."""
    privileged: Mapping[str, Value] = field(default_factory=dict)
    """The environment's privileged view at the end."""
    views: Mapping[str, Value] = field(default_factory=dict)
    """Each tool's final view, as `tool.field`."""

    @property
    def seats(self) -> list[int]:
        """The seats that made a turn, in ascending order."""
        return sorted({turn.actor for turn in self.turns if turn.actor is not None})

    def last_message(self, seat: int) -> LastMessage | None:
        """The last thing that a seat did, if it was a message."""
        for index in range(len(self.turns) - 1, -1, -1):
            turn = self.turns[index]
            if turn.actor == seat:
                return LastMessage(index, turn.text) if turn.kind is TurnKind.MESSAGE else None
        return None

    def calls(self, seat: int) -> list[Turn]:
        """The calls that a seat made, in order."""
        return [turn for turn in self.turns if turn.kind is TurnKind.CALL and turn.seat == seat]


@dataclass(frozen=True)
class Evidence:
    """Where a reason for a score stands: a byte range in the text of a turn."""

    turn: int
    start: int
    end: int
    note: str


@dataclass
class Score:
    """What one seat is worth."""

    total: float
    components: Mapping[str, float] = field(default_factory=dict)
    """A value for each declared component."""
    turns: Sequence[float] = ()
    """One reward for each message of the seat, or nothing when only the total counts."""
    evidence: Sequence[Evidence] = ()


class Reward:
    """A reward. Define `score` for one seat by itself, or `score_group` when attempts are compared."""

    summary: ClassVar[str] = ""
    """One line for people."""
    range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    """Totals and turn rewards stay between these, both included; the host refuses others."""
    components: ClassVar[Mapping[str, str]] = {}
    """The components that every score has, each with what it measures and its unit."""
    options: ClassVar[Sequence[Option]] = ()
    """The options that a run file may set."""

    def score(self, trajectory: Trajectory, seat: int, options: Options) -> float | Score:
        """Scores one seat that acted. Of a reward with components it returns a `Score`.

        Raises `Invalid` when the trajectory lacks what the reward needs, such as a privileged answer.
        """
        raise NotImplementedError("a reward defines `score` or `score_group`")

    def score_group(
        self, group: Sequence[Trajectory], options: Options, training_step: int
    ) -> list[dict[int, float | Score]]:
        """Scores a group: attempts at one task. One dict a trajectory, with a score for each seat that acted."""
        return [{seat: self.score(trajectory, seat, options) for seat in trajectory.seats} for trajectory in group]
