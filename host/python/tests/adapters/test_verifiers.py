"""verifiers' own evaluation plays the taskset against a scripted OpenAI server, with the in-process harness."""

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("verifiers.v1", reason="verifiers 0.4 is not installed")

import gymkhana_rl
import verifiers_runs
from reference import CASES, Case, as_message, comparable, path, play
from scripted import Answer, chat_completion, serve


@pytest.fixture
def evaluate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list]:
    """Runs `vf-eval` in this process; returns the episodes."""
    monkeypatch.setenv("SCRIPTED_KEY", "none")
    monkeypatch.setenv("PRIME_DISABLE_VERSION_CHECK", "1")

    def run(answer: Answer, case: Case, **settings: Any) -> list:
        with serve(lambda request: chat_completion(answer(request))) as url:
            return verifiers_runs.episodes(url, case, tmp_path / "out", **settings)

    return run


def answers_of(request: dict[str, Any]) -> int:
    return sum(message["role"] == "assistant" for message in request["messages"])


def test_two_hundred_episodes_are_played_by_the_oracles_answers(evaluate: Callable[..., list]) -> None:
    case = CASES["messages"]
    plays = [play(Case(case.plugin, task=task, split=case.split, seed=case.seed)) for task in range(200)]
    scripts = {played.texts[0]: played for played in plays}

    def answer(request: dict[str, Any]) -> dict[str, Any]:
        played = scripts[request["messages"][0]["content"]]
        return {"role": "assistant", "content": played.actions[answers_of(request)]}

    episodes = evaluate(answer, case, tasks=200)
    assert len(episodes) == 200
    assert all(episode.ok for episode in episodes), [episode.errors for episode in episodes if not episode.ok][:1]
    traces = [trace for episode in episodes for trace in episode.traces]
    assert {trace.reward for trace in traces} == {1.0}
    records = {comparable(trace.info["gymkhana"]["record"]) for trace in traces}
    assert records == {played.record for played in plays}


def test_functions_are_offered_and_their_answers_return(evaluate: Callable[..., list]) -> None:
    case = CASES["calls"]
    played = play(Case(case.plugin, case.tools, task=0, seed=case.seed))
    requests, ids = [], itertools.count()

    def answer(request: dict[str, Any]) -> dict[str, Any]:
        requests.append(request)
        return as_message(played.actions[answers_of(request)], ids)

    (episode,) = evaluate(answer, case, tasks=1)
    (trace,) = episode.traces
    assert episode.ok, episode.errors
    offered = {tool["function"]["name"] for tool in requests[0]["tools"]}
    assert offered == {schema["name"] for tool in case.tools for schema in gymkhana_rl.load(tool).tool().schemas}
    answered = [message for message in requests[-1]["messages"] if message["role"] == "tool"]
    assert [message["tool_call_id"] for message in answered] == ["model-0"]
    assert answered[0]["content"] in played.texts[1]
    assert (trace.reward, trace.num_turns) == (sum(played.rewards), len(played.actions))
    assert comparable(trace.info["gymkhana"]["record"]) == played.record


def test_a_limit_of_turns_stops_the_rollout_without_an_error(evaluate: Callable[..., list]) -> None:
    def answer(request: dict[str, Any]) -> dict[str, Any]:
        return {"role": "assistant", "content": "?"}

    (episode,) = evaluate(answer, CASES["messages"], tasks=1, player={"max_turns": 2})
    (trace,) = episode.traces
    assert (episode.ok, trace.reward, trace.num_turns) == (True, 0.0, 2)
    assert trace.info["gymkhana"]["done"] is False


def test_a_taskset_needs_a_plugin_and_a_known_split(evaluate: Callable[..., list]) -> None:
    with pytest.raises(ValueError, match="unknown split `exam`"):
        evaluate(lambda _: {}, Case(path("frozen-lake"), split="exam"))
    with pytest.raises(ValueError, match="names no plugin"):
        evaluate(lambda _: {}, Case(""))
