"""Environments in which agents act.

class Consent(Environment):
    '''Ends after one message; "yes" earns 1.'''

    summary = "A yes-or-no question"
    reward_range = (0.0, 1.0)

    @classmethod
    def splits(cls, options):
        return [Split("train", 1)]

    def reset(self, task, options, seed):
        return ResetResult("Yes or no?")

    def step(self, action):
        yes = action.text == "yes"
        return StepResult("Thank you.", reward=float(yes), terminated=True, extras={"success": yes})
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Union

from .content import Call, Content, Function, Part, Task, Value, text_of
from .options import Options

Observations = Union[Content, Mapping[int, Content], None]
"""Observations: content for seat 0, or content by seat."""


@dataclass(frozen=True)
class Split:
    """Split with its number of tasks; None if tasks are generated without limit."""

    name: str
    tasks: int | None


@dataclass
class ResetResult:
    """Start of an episode: result of `Environment.reset`."""

    observations: Observations
    """First observations; at least one for the seat to move."""
    functions: Sequence[Function] | Mapping[int, Sequence[Function]] = ()
    """Environment functions that seat 0 may call, or functions by seat."""
    tool_setups: Mapping[str, bytes] = field(default_factory=dict)
    """Set-up data for tools, by plugin name without namespace. Policies never see it."""
    next_seat: int = 0
    """Seat to move."""


@dataclass
class StepResult:
    """Result of an action: result of `Environment.step`."""

    observations: Observations = None
    reward: float | Mapping[int, float] | None = None
    """Reward of seat 0 for this step, or rewards by seat."""
    terminated: bool = False
    """Whether the episode reached an end: won, lost or otherwise decided."""
    truncated: bool = False
    """Whether the episode was truncated, for example by a turn limit."""
    extras: Mapping[str, Value] = field(default_factory=dict)
    """Facts for records and rewards, such as `success`. Policies never see them."""
    next_seat: int = 0
    """Seat to move; ignored after the end of the episode."""


@dataclass(frozen=True)
class Action:
    """Action of the seat to move: a message, or a call of a function offered to that seat."""

    content: Sequence[Part] = ()
    """Message content; empty for a call."""
    call: Call | None = None
    """Function call, or None for a message."""
    seat: int = 0

    @property
    def text(self) -> str:
        """Text of the message; empty for a call."""
        return text_of(self.content)


class Svg(str):
    """Picture as an SVG document."""


class Environment:
    """Environment. Each instance is one episode.

    Equal tasks, options, seeds and actions must give equal output bytes: draw random numbers from `gymkhana_sdk.Rng`
    with the episode's seed, and keep all state in the instance. Methods from `snapshot` on are optional; the plugin
    exports the ones that the class overrides.
    """

    summary: ClassVar[str] = ""
    """One-line description."""
    seats: ClassVar[Sequence[str]] = ("agent",)
    """Seat names, indexed by seat number."""
    reward_range: ClassVar[tuple[float, float]] = (0.0, 0.0)
    """Inclusive bounds of the sum of one seat's rewards over an episode."""
    options: ClassVar[type[Options]] = Options
    """Class of the options that a run file may set; its instance is `options` of the methods."""

    @classmethod
    def splits(cls, options: Any) -> list[Split]:
        """Splits under these options. Splits must not share tasks."""
        raise NotImplementedError("define `splits` in the environment")

    def reset(self, task: Task, options: Any, seed: int) -> ResetResult:
        """Starts the episode.

        Raises `NotFound` for an unknown task; see `NotFound.split`.
        """
        raise NotImplementedError("define `reset` in the environment")

    def step(self, action: Action) -> StepResult:
        """Applies an action. The SDK has checked that the episode is running and that the seat is to move.

        An action that breaks the rules is answered by an observation or by raising `Mistake`.
        """
        raise NotImplementedError("define `step` in the environment")

    def snapshot(self) -> bytes:
        """Complete state of the episode (optional)."""
        raise NotImplementedError

    def restore(self, snapshot: bytes) -> None:
        """Restores a snapshot into this new instance (required with `snapshot`).

        Any exception means that the bytes are not a valid snapshot.
        """
        raise NotImplementedError

    def state_key(self) -> bytes:
        """Canonical form of the state (optional): equal states give equal bytes, independent of the path to them."""
        raise NotImplementedError

    def privileged(self) -> Mapping[str, Value]:
        """Facts for rewards and teachers, such as `answer`, hidden from policies (optional)."""
        raise NotImplementedError

    def advise(self, tools: list[str], results: list[str]) -> str | list[Call]:
        """Next turn of the oracle for the seat to move: a message or calls (optional).

        `tools` lists the function names of the run's tools. `results` lists the answers to the calls of the oracle's
        previous turn, as text, in call order.
        """
        raise NotImplementedError

    def guidance(self) -> Content:
        """Hint after a failed attempt that does not reveal the answer (optional)."""
        raise NotImplementedError

    def render(self) -> str:
        """Human-readable picture of the state: text or `Svg` (optional)."""
        raise NotImplementedError
