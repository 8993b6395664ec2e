"""Plugins tested natively: an episode, a session and a scoring with the same checks that a host makes.

    from gymkhana.testing import Play

    play = Play(FrozenLake, seed=7)
    assert "lake" in play.seen
    play.say("right")
    assert play.reward == 0 and not play.over
"""

from __future__ import annotations

import copy

from .content import Call, Task, Text, Value, text_of
from .environment import Action, Environment, Started, Stepped
from .rules import Episode, Session, by_seat, offers, rewards_by_seat, score

__all__ = ["Episode", "Play", "Session", "open_session", "score"]


class Play:
    """An episode that a test plays, move by move; every seat is the test's.

    After every move a copy made by `snapshot` and `restore`, where the environment offers them, must know the same
    state.
    """

    def __init__(
        self, kind: type[Environment], split: str = "train", index: int = 0, seed: int = 0, **options: Value
    ) -> None:
        self.kind = kind
        self.episode, self.started = Episode.start(kind, Task(split, index), options.items(), seed)
        self.stepped: Stepped | None = None
        """What the last move led to."""
        self.reward = 0.0
        """What seat 0 earned so far."""

    @property
    def over(self) -> bool:
        """Whether the episode ended."""
        return self.episode.over

    @property
    def seen(self) -> str:
        """The words that the seat to move saw last."""
        latest: Started | Stepped = self.stepped or self.started
        seats = by_seat(latest.observations)
        return text_of(seats.get(self.episode.seat, next(iter(seats.values()), "")))

    def say(self, words: str) -> Stepped:
        """The seat to move says something."""
        return self.act(Action(content=(Text(words),), seat=self.episode.seat))

    def call(self, name: str, /, **arguments: object) -> Stepped:
        """The seat to move calls a function of the environment."""
        return self.act(Action(call=Call.of(name, **arguments), seat=self.episode.seat))

    def act(self, action: Action) -> Stepped:
        """Any action."""
        self.stepped = self.episode.step(action)
        self.reward += rewards_by_seat(self.stepped.reward).get(0, 0.0)
        if offers(self.kind, Environment, "snapshot"):
            self._check_snapshot()
        return self.stepped

    def follow_oracle(self, turns: int = 100) -> float:
        """Lets the expert play to the end, by messages and the environment's own calls; gives seat 0's reward."""
        for _ in range(turns):
            advice = self.episode.environment.advise([], [])
            if isinstance(advice, str):
                self.say(advice)
            for call in [] if isinstance(advice, str) else advice:
                self.act(Action(call=call, seat=self.episode.seat))
            if self.over:
                return self.reward
        raise AssertionError(f"the expert did not end the episode within {turns} turns")

    def _check_snapshot(self) -> None:
        snapshot = self.episode.snapshot()
        twin = Episode.restore(self.kind, snapshot)
        assert twin.snapshot() == snapshot, "a restored episode gives another snapshot"
        if offers(self.kind, Environment, "state_key"):
            assert twin.environment.state_key() == self.episode.environment.state_key(), "and another state key"

    def fork(self) -> Play:
        """A copy that goes on by itself."""
        twin = copy.copy(self)
        twin.episode = Episode.restore(self.kind, self.episode.snapshot())
        return twin


def open_session(kind, setup: bytes | None = None, seed: int = 0, **options: Value) -> Session:
    """Opens a tool's session."""
    return Session.open(kind, setup, options.items(), seed)
