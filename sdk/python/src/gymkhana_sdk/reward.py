"""Scores for finished trajectories.

class Brief(Reward):
    '''Scores 1 for a short final message.'''

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
from typing import Any, ClassVar

from .content import Call, Part, Task, Value, text_of
from .options import Options


class TurnKind(enum.Enum):
    """Kind of a turn."""

    MESSAGE = "message"
    """Message of a seat, without the calls in it."""
    CALL = "call"
    """Call by a seat."""
    ANSWER = "answer"
    """Answer of a tool or the environment to a call."""
    OBSERVATION = "observation"
    """Observation of a seat."""
    OTHER = "other"
    """Thoughts of a seat before its message or calls, for a reward whose manifest has `thoughts = true`."""


@dataclass(frozen=True)
class Turn:
    """Turn of a finished trajectory."""

    kind: TurnKind
    seat: int
    content: Sequence[Part] = ()
    """Content of the turn; empty for a call."""
    call: Call | None = None
    """Call of a turn of kind CALL."""
    cost: float = 0.0
    """Cost of the call, as declared by the tool."""
    id: str = ""
    """Identifier of the answered call, for a turn of kind ANSWER."""
    failed: bool = False
    """Whether the answered call failed."""

    @property
    def text(self) -> str:
        """Text of the content."""
        return text_of(self.content)

    @property
    def actor(self) -> int | None:
        """Seat that made this turn; None for answers and observations."""
        return self.seat if self.kind in (TurnKind.MESSAGE, TurnKind.CALL) else None


class Ending(enum.Enum):
    """Reason for the end of an episode."""

    TERMINATED = "terminated"
    """The environment ended the episode."""
    TRUNCATED = "truncated"
    """The environment cut the episode off."""
    TURN_LIMIT = "turn-limit"
    TOKEN_LIMIT = "token-limit"
    CALL_LIMIT = "call-limit"
    TIME_LIMIT = "time-limit"
    FAILED = "failed"
    """The environment or the sandbox failed."""
    OTHER = "other"
    """Thoughts of a seat before its message or calls, for a reward whose manifest has `thoughts = true`."""


@dataclass(frozen=True)
class LastMessage:
    """Last action of a seat, if that is a message."""

    turn: int
    """Index of the turn."""
    text: str


@dataclass(frozen=True)
class Trajectory:
    """Finished attempt at a task."""

    task: Task = field(default_factory=lambda: Task("train", 0))
    turns: Sequence[Turn] = ()
    ending: Ending = Ending.TERMINATED
    environment_rewards: Mapping[int, Sequence[float]] = field(default_factory=dict)
    """Environment rewards by seat, one per step of the seat."""
    extras: Mapping[str, Value] = field(default_factory=dict)
    """Extras of the environment's last step."""
    privileged: Mapping[str, Value] = field(default_factory=dict)
    """Privileged view of the environment at the end."""
    views: Mapping[str, Value] = field(default_factory=dict)
    """Final views of the tools, named `tool.field`."""

    @property
    def seats(self) -> list[int]:
        """Seats that made a turn, in ascending order."""
        return sorted({turn.actor for turn in self.turns if turn.actor is not None})

    def last_message(self, seat: int) -> LastMessage | None:
        """Last action of a seat, or None if that is not a message."""
        for index in range(len(self.turns) - 1, -1, -1):
            turn = self.turns[index]
            if turn.actor == seat:
                return LastMessage(index, turn.text) if turn.kind is TurnKind.MESSAGE else None
        return None

    def calls(self, seat: int) -> list[Turn]:
        """Calls of a seat, in order."""
        return [turn for turn in self.turns if turn.kind is TurnKind.CALL and turn.seat == seat]


@dataclass(frozen=True)
class Evidence:
    """Reason for a score: a turn's index, a byte range in its UTF-8 text and a note."""

    turn: int
    start: int
    end: int
    note: str

    @classmethod
    def at(cls, turn: int, text: str, start: int, end: int, note: str) -> Evidence:
        """Evidence at `text[start:end]`, where `text` is that of the turn. The host counts in bytes of UTF-8.

        >>> Evidence.at(0, "é42", 1, 3, "the answer")
        Evidence(turn=0, start=2, end=4, note='the answer')
        """
        first = len(text[:start].encode())
        return cls(turn, first, first + len(text[start:end].encode()), note)


@dataclass
class Score:
    """Score of one seat."""

    total: float
    components: Mapping[str, float] = field(default_factory=dict)
    """Value of each declared component."""
    turns: Sequence[float] = ()
    """Reward of each message of the seat; empty if only the total counts."""
    evidence: Sequence[Evidence] = ()


class Reward:
    """Reward. Override `score` to score seats independently, or `score_group` to compare attempts."""

    summary: ClassVar[str] = ""
    """One-line description."""
    range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    """Inclusive bounds of totals and turn rewards; the host rejects other numbers."""
    components: ClassVar[Mapping[str, str]] = {}
    """Components of every score, with what each measures and its unit."""
    options: ClassVar[type[Options]] = Options
    """Class of the options that a run file may set; its instance is `options` of the methods."""

    def score(self, trajectory: Trajectory, seat: int, options: Any) -> float | Score:
        """Scores one seat that acted. A reward with components returns a `Score`.

        Raises `Invalid` if the trajectory lacks required data, such as a privileged answer.
        """
        raise NotImplementedError("define `score` or `score_group` in the reward")

    def score_group(
        self, group: Sequence[Trajectory], options: Any, training_step: int
    ) -> list[dict[int, float | Score]]:
        """Scores a group of attempts at one task: one dict per trajectory, with a score for each seat that acted."""
        return [{seat: self.score(trajectory, seat, options) for seat in trajectory.seats} for trajectory in group]
