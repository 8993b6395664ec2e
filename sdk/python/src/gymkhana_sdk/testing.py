"""Native tests of plugins, with the checks that a component makes.

from gymkhana_sdk.testing import Play

play = Play(FrozenLake, seed=7)
assert "lake" in play.seen
play.say("right")
assert play.reward == 0 and not play.over
"""

from __future__ import annotations

import copy
from collections.abc import Mapping

from .content import Call, Task, Text, Value, text_of
from .environment import Action, Environment, ResetResult, StepResult
from .rules import Episode, Session, T, by_seat, offers, rewards_by_seat, score

__all__ = ["Episode", "Play", "Session", "open_session", "score"]


class Play:
    """Episode that a test plays move by move, for all seats.

    If the environment implements snapshots, every move also checks that a restored copy has the same state.
    """

    def __init__(
        self, kind: type[Environment], split: str = "train", index: int = 0, seed: int = 0, **options: Value
    ) -> None:
        self.kind = kind
        self.episode, self.reset_result = Episode.reset(kind, Task(split, index), _named(options), seed)
        self.step_result: StepResult | None = None
        """Result of the last move."""
        self.reward = 0.0
        """Sum of seat 0's rewards."""

    @property
    def over(self) -> bool:
        """Whether the episode ended."""
        return self.episode.over

    @property
    def seen(self) -> str:
        """Text of the latest observation of the seat to move."""
        latest: ResetResult | StepResult = self.step_result or self.reset_result
        seats = by_seat(latest.observations)
        return text_of(seats.get(self.episode.seat, next(iter(seats.values()), "")))

    def say(self, words: str) -> StepResult:
        """Sends a message from the seat to move."""
        return self.act(Action(content=(Text(words),), seat=self.episode.seat))

    def call(self, name: str, /, **arguments: object) -> StepResult:
        """Calls a function of the environment from the seat to move."""
        return self.act(Action(call=Call.of(name, **arguments), seat=self.episode.seat))

    def act(self, action: Action) -> StepResult:
        """Applies an action."""
        self.step_result = self.episode.step(action)
        self.reward += rewards_by_seat(self.step_result.reward).get(0, 0.0)
        if offers(self.kind, Environment, "snapshot"):
            self._check_snapshot()
        return self.step_result

    def follow_oracle(self, turns: int = 100) -> float:
        """Follows the oracle to the end and returns seat 0's reward. It may call only the environment's functions."""
        for _ in range(turns):
            advice = self.episode.environment.advise([], [])
            if isinstance(advice, str):
                self.say(advice)
            for call in [] if isinstance(advice, str) else advice:
                self.act(Action(call=call, seat=self.episode.seat))
            if self.over:
                return self.reward
        raise AssertionError(f"the oracle did not end the episode within {turns} turns")

    def _check_snapshot(self) -> None:
        snapshot = self.episode.snapshot()
        twin = Episode.restore(self.kind, snapshot)
        assert twin.snapshot() == snapshot, "the snapshot of a restored episode differs"
        if offers(self.kind, Environment, "state_key"):
            key = self.episode.environment.state_key()
            assert twin.environment.state_key() == key, "the state key of a restored episode differs"

    def fork(self) -> Play:
        """Independent copy of the episode."""
        twin = copy.copy(self)
        twin.episode = Episode.restore(self.kind, self.episode.snapshot())
        return twin


def open_session(kind: type[T], setup: bytes | None = None, seed: int = 0, **options: Value) -> Session[T]:
    """Opens a session of a tool."""
    return Session.open(kind, setup, _named(options), seed)


def _named(options: Mapping[str, Value]) -> list[tuple[str, Value]]:
    """Options by their names in a run file."""
    return [(name.replace("_", "-"), value) for name, value in options.items()]
