"""Exports of a reward plugin."""

from __future__ import annotations

from typing import Any

from wit_world.exports import reward as wit

from .. import rules
from ..reward import Ending, Reward, Score, Trajectory, Turn, TurnKind
from .convert import exported, from_call, from_named, from_parts, from_task, pairs, to_options, to_range

_MESSAGES = {
    wit.Turn_Message: TurnKind.MESSAGE,
    wit.Turn_Observation: TurnKind.OBSERVATION,
    wit.Turn_Other: TurnKind.OTHER,
}


def exports(kind: type[Reward]) -> dict[str, type]:
    """Export classes by the names that componentize-py expects."""

    class Exported:
        def describe(self) -> Any:
            components = [wit.ComponentInfo(*component) for component in kind.components.items()]
            return wit.Info(kind.summary, components, to_range(kind.range), to_options(kind.options))

        @exported
        def score(self, group: Any, options: Any, training_step: int) -> Any:
            trajectories = [from_trajectory(trajectory) for trajectory in group]
            scores = rules.score(kind, trajectories, pairs(options), training_step)
            return [[to_score(seat, score) for seat, score in seats.items()] for seats in scores]

    return {"Reward": Exported}


def from_turn(turn: Any) -> Turn:
    """Converts a turn from the host."""
    made = turn.value
    if isinstance(turn, wit.Turn_Call):
        return Turn(TurnKind.CALL, made.seat, call=from_call(made.call), cost=made.cost)
    if isinstance(turn, wit.Turn_Answer):
        return Turn(TurnKind.ANSWER, made.seat, from_parts(made.content), id=made.id, failed=made.failed)
    return Turn(_MESSAGES[type(turn)], made.seat, from_parts(made.content))


def from_trajectory(trajectory: Any) -> Trajectory:
    """Converts a trajectory from the host."""
    return Trajectory(
        task=from_task(trajectory.task),
        turns=[from_turn(turn) for turn in trajectory.turns],
        ending=Ending[trajectory.ending.name],
        environment_rewards={each.seat: each.rewards for each in trajectory.environment_rewards},
        extras=from_named(trajectory.extras),
        privileged=from_named(trajectory.privileged),
        views=from_named(trajectory.views),
    )


def to_score(seat: int, score: Score) -> Any:
    """Converts a seat's score for the host."""
    return wit.SeatScore(
        seat,
        float(score.total),
        [wit.Component(name, float(value)) for name, value in score.components.items()],
        [float(turn) for turn in score.turns],
        [wit.Evidence(each.turn, each.start, each.end, each.note) for each in score.evidence],
    )
