"""Exports of an environment plugin."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from wit_world.exports import environment as wit

from ..content import Call
from ..environment import Action, Environment, Observations, StepResult, Svg
from ..rules import Episode, by_seat, functions_by_seat, offers, rewards_by_seat
from .convert import (
    exported,
    from_call,
    from_parts,
    from_task,
    pairs,
    to_call,
    to_functions,
    to_named,
    to_options,
    to_parts,
    to_range,
)
from .handles import Handles


def _records(interface: str) -> Any:
    """Generated records of an optional interface; they exist in components that export the interface.

    The import happens at build time: a component cannot import modules at run time.
    """
    try:
        return import_module(f"wit_world.exports.{interface}")
    except ImportError:
        return None


_oracle = _records("environment_oracle")
_render = _records("environment_render")


def exports(kind: type[Environment]) -> dict[str, type]:
    """Export classes by the names that componentize-py expects."""
    episodes: Handles[Episode[Environment]] = Handles()

    class Exported:
        def describe(self) -> Any:
            return wit.Info(kind.summary, list(kind.seats), to_options(kind.options), to_range(kind.reward_range))

        @exported
        def splits(self, options: Any) -> Any:
            return [wit.SplitInfo(split.name, split.tasks) for split in Episode.splits(kind, pairs(options))]

        @exported
        def reset(self, task: Any, options: Any, seed: int) -> Any:
            episode, result = Episode.reset(kind, from_task(task), pairs(options), seed)
            functions = [
                wit.SeatFunctions(seat, to_functions(each)) for seat, each in functions_by_seat(result).items()
            ]
            setups = [wit.ToolSetup(tool, bytes(given)) for tool, given in result.tool_setups.items()]
            shown = to_observations(result.observations)
            return wit.ResetResult(episodes.open(episode), shown, functions, setups, result.next_seat)

        @exported
        def step(self, episode: int, action: Any) -> Any:
            return to_step_result(episodes[episode].step(from_action(action)))

        def close(self, episode: int) -> None:
            episodes.close(episode)

    class Snapshot:
        @exported
        def snapshot(self, episode: int) -> bytes:
            return episodes[episode].snapshot()

        @exported
        def restore(self, snapshot: bytes) -> int:
            return episodes.open(Episode.restore(kind, snapshot))

    class StateKey:
        @exported
        def state_key(self, episode: int) -> bytes:
            return episodes[episode].environment.state_key()

    class Privileged:
        @exported
        def privileged(self, episode: int) -> Any:
            return to_named(episodes[episode].environment.privileged())

    class Oracle:
        @exported
        def advise(self, episode: int, tools: list[str], results: list[str]) -> Any:
            return to_advice(episodes[episode].environment.advise(tools, results))

    class Guidance:
        @exported
        def guidance(self, episode: int) -> Any:
            return to_parts(episodes[episode].environment.guidance())

    class Render:
        @exported
        def render(self, episode: int) -> Any:
            return to_picture(episodes[episode].environment.render())

    optional = {
        "snapshot": ("EnvironmentSnapshot", Snapshot),
        "state_key": ("EnvironmentStateKey", StateKey),
        "privileged": ("EnvironmentPrivileged", Privileged),
        "advise": ("EnvironmentOracle", Oracle),
        "guidance": ("EnvironmentGuidance", Guidance),
        "render": ("EnvironmentRender", Render),
    }
    offered = (found for method, found in optional.items() if offers(kind, Environment, method))
    return {"Environment": Exported, **dict(offered)}


def from_action(action: Any) -> Action:
    """Converts an action from the host."""
    body = action.body
    if isinstance(body, wit.ActionBody_Call):
        return Action(call=from_call(body.value), seat=action.seat)
    return Action(content=from_parts(body.value), seat=action.seat)


def to_observations(observations: Observations) -> list[Any]:
    """Converts observations for the host."""
    return [wit.Observation(seat, to_parts(content)) for seat, content in by_seat(observations).items()]


def to_step_result(result: StepResult) -> Any:
    """Converts a step's result for the host."""
    return wit.StepResult(
        to_observations(result.observations),
        [wit.SeatReward(seat, float(reward)) for seat, reward in rewards_by_seat(result.reward).items()],
        result.terminated,
        result.truncated,
        to_named(result.extras),
        result.next_seat,
    )


def to_advice(advice: str | list[Call]) -> Any:
    """Converts the oracle's turn for the host."""
    if isinstance(advice, str):
        return _oracle.Advice_Message(advice)
    return _oracle.Advice_Calls([to_call(call) for call in advice])


def to_picture(picture: str) -> Any:
    """Converts a picture for the host."""
    return _render.Picture_Svg(str(picture)) if isinstance(picture, Svg) else _render.Picture_Text(picture)
