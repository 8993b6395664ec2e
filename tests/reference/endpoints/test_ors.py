"""The official client of ORS and TRL's OpenRewardSpec against the ORS endpoint."""

import json

import pytest
import requests
from openreward import OpenReward
from openreward.api.environments.types import GroupCandidate, Message, TextBlock

MOVES = ("down", "down", "right", "down", "right", "right")


@pytest.fixture
def lake(url):
    return OpenReward(base_url=url, api_key="none").environments.get("frozen-lake", base_url=url)


def test_the_official_client_lists_tasks(lake):
    (split, *_) = lake.list_splits()
    assert lake.num_tasks(split) > 0
    assert lake.get_task(split, 0).task_spec == {"split": split, "index": 0}


def test_the_official_client_plays_an_episode(lake):
    (split, *_) = lake.list_splits()
    with lake.session(split=split, index=0) as session:
        tools = [tool.name for tool in session.list_tools()]
        assert "calculate" in tools and "say" in tools
        assert session.get_prompt()[0].text
        outputs = [session.call_tool("say", {"text": move}) for move in MOVES]
    assert [output.finished for output in outputs] == [False] * 5 + [True]
    assert sum(output.reward for output in outputs) == 1.0


def test_a_wrong_tool_is_the_callers_mistake(lake):
    (split, *_) = lake.list_splits()
    with lake.session(split=split, index=0) as session:
        with pytest.raises(Exception, match="not found"):
            session.call_tool("fly", {})
        assert session.call_tool("calculate", {"expression": "6*7"}).blocks[0].text


def events(response):
    """Names and data of a stream."""
    blocks = response.text.replace("\r", "").strip().split("\n\n")
    lines = [dict(line.split(": ", 1) for line in block.split("\n") if ": " in line) for block in blocks]
    return [(event["event"], event.get("data", "")) for event in lines if "event" in event]


def test_a_lost_answer_comes_again_and_other_ids_do_not_help(url):
    opened = events(requests.post(f"{url}/create_session", json={}))
    headers = {"X-Session-ID": opened[0][1]}
    splits = requests.get(f"{url}/splits").json()
    body = {"split": splits[0]["name"], "index": 0}
    assert requests.post(f"{url}/create", json=body, headers=headers).status_code == 200
    call = {"name": "say", "input": {"text": "down"}}
    first = events(requests.post(f"{url}/call", json=call, headers=headers))
    again = events(requests.post(f"{url}/call", json={**call, "task_id": first[0][1]}, headers=headers))
    assert again == first and json.loads(first[-1][1])["ok"]
    other = {"X-Session-ID": "0" * 32}
    assert requests.post(f"{url}/call", json=call, headers=other).status_code == 404
    unknown = events(requests.post(f"{url}/call", json={**call, "task_id": "x"}, headers=headers))
    assert unknown == [("error", "unknown task_id")]


def test_groups_of_ended_sessions_are_scored(lake):
    (split, *_) = lake.list_splits()
    message = Message(role="assistant", blocks=[TextBlock(text="…")])
    with lake.session(split=split, index=0) as one, lake.session(split=split, index=0) as two:
        for move in MOVES:
            one.call_tool("say", {"text": move})
        for move in ("right", "down"):
            two.call_tool("say", {"text": move})
        names = [session.sid for session in (one, two)]
        candidates = [GroupCandidate(messages=[message], metadata={"session_id": name}) for name in names]
        scores = one.score_group(candidates)
    assert [score.reward for score in scores] == [1.0, 0.0]


def test_trl_builds_data_and_environments_from_the_endpoint(url, monkeypatch):
    from trl.experimental.openreward import OpenRewardSpec

    # Without these, the client takes `sessions.` and `api.` before the host of the address.
    monkeypatch.setenv("OPENREWARD_SESSION_URL", url)
    monkeypatch.setenv("OPENREWARD_API_URL", url)
    splits = requests.get(f"{url}/splits").json()
    spec = OpenRewardSpec(url, env_name="frozen-lake", num_tasks=1, split=splits[0]["name"])
    assert spec.train_dataset[0]["task_index"] == 0
    environment = spec.environment_factory()
    assert environment.reset(task_index=0)
    for move in MOVES:
        environment.say(text=move)
    assert (environment.finished, spec.reward_funcs([environment])) == (True, [1.0])
    environment._close()
