"""Worlds that agents act in.

    class Consent(Environment):
        '''Ends at once when the agent says yes.'''

        summary = "Say yes"
        rewards = (0.0, 1.0)

        @classmethod
        def splits(cls, options):
            return [Split("train", 1)]

        def start(self, task, options, seed):
            return Started("Yes or no?")

        def step(self, action):
            yes = action.text == "yes"
            return Stepped("Thank you.", reward=float(yes), terminated=True, extras={"success": yes})
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Union

from .content import Call, Content, Function, Part, Task, Value, text_of
from .options import Option, Options

Observations = Union[Content, Mapping[int, Content], None]
"""What the seats see: content for seat 0, or content by seat."""


@dataclass(frozen=True)
class Split:
    """A split of so many tasks; of tasks without end when the number is None."""

    name: str
    tasks: int | None


@dataclass
class Started:
    """How an episode begins."""

    observations: Observations
    """The first observations; at least one for the seat to move."""
    functions: Sequence[Function] | Mapping[int, Sequence[Function]] = ()
    """Functions of the environment itself that seat 0 may call, or those of each seat."""
    setup: Mapping[str, bytes] = field(default_factory=dict)
    """What tools need for this episode, by the plugin's name without its namespace. Policies never see it."""
    seat: int = 0
    """Whose turn it is."""


@dataclass
class Stepped:
    """What an action led to."""

    observations: Observations = None
    reward: float | Mapping[int, float] | None = None
    """What seat 0 earned in this step, or what each seat did."""
    terminated: bool = False
    """The episode is over: won, lost or otherwise decided."""
    truncated: bool = False
    """The episode was cut off, for example by a turn limit."""
    extras: Mapping[str, Value] = field(default_factory=dict)
    """Facts for records and rewards, such as `success`; policies never see them."""
    seat: int = 0
    """Whose turn it is; any value once the episode is over."""


@dataclass(frozen=True)
class Action:
    """What the seat to move does: a message, or a call of a function that was offered to it."""

    content: Sequence[Part] = ()
    """The message; empty for a call."""
    call: Call | None = None
    """The call, when the action is one."""
    seat: int = 0

    @property
    def text(self) -> str:
        """The message's text; empty for a call."""
        return text_of(self.content)


class Svg(str):
    """A picture as an SVG document."""


class Environment:
    """A world. An instance is one episode.

    The same task, options, seed and actions must give the same bytes, always: draw from `gymkhana.Rng` with the
    episode's seed, and keep no state outside the instance. The host sees what is written here; what a class
    overrides of the optional methods, from `snapshot` on, it offers.
    """

    summary: ClassVar[str] = ""
    """One line for people."""
    seats: ClassVar[Sequence[str]] = ("agent",)
    """The seats, in order. A seat's number is its place here."""
    rewards: ClassVar[tuple[float, float]] = (0.0, 0.0)
    """The sum of one seat's rewards over an episode stays between these, both included."""
    options: ClassVar[Sequence[Option]] = ()
    """The options that a run file may set."""

    @classmethod
    def splits(cls, options: Options) -> list[Split]:
        """The splits under these options. Splits never share a task."""
        raise NotImplementedError("an environment defines `splits`")

    def start(self, task: Task, options: Options, seed: int) -> Started:
        """Starts this episode.

        Raises `NotFound` for a task that there is not; see `NotFound.split`.
        """
        raise NotImplementedError("an environment defines `start`")

    def step(self, action: Action) -> Stepped:
        """Acts. It was checked that the episode goes on and that it is this seat's turn.

        An action that the rules forbid is answered in an observation, or by raising `Mistake`.
        """
        raise NotImplementedError("an environment defines `step`")

    def snapshot(self) -> bytes:
        """Optional: the whole state."""
        raise NotImplementedError

    def restore(self, snapshot: bytes) -> None:
        """With `snapshot`: puts this new instance into the state that `snapshot` saw.

        Whatever it raises says that the bytes are no snapshot.
        """
        raise NotImplementedError

    def state_key(self) -> bytes:
        """Optional: a canonical form. Equal states give equal bytes, whatever path led there."""
        raise NotImplementedError

    def privileged(self) -> Mapping[str, Value]:
        """Optional: what rewards and teachers may see and a policy never does, such as `answer`."""
        raise NotImplementedError

    def advise(self, tools: list[str], results: list[str]) -> str | list[Call]:
        """Optional, the oracle: the expert's next turn for the seat to move, a message or calls.

        `tools` names the functions that the run's tools offer; `results` holds the answers to the calls of the
        expert's previous turn, as text, in their order.
        """
        raise NotImplementedError

    def guidance(self) -> Content:
        """Optional: a hint that does not give the answer away, after an attempt that failed."""
        raise NotImplementedError

    def render(self) -> str:
        """Optional: a picture for people: text, or `Svg`."""
        raise NotImplementedError
