"""A reward scores a trainer's completions as a rollout and a run of the program score the episodes of the completions."""

from __future__ import annotations

import json
from typing import Any

import pytest

import gymkhana_rl as gk
from model_server import replies_in
from test_host import HOST, demonstrations

REWARDS = ("answer-match", "math-verify")
OPTIONS = {"answer-match": {"per-call-cost": 0.25}, "math-verify": {}}
CALL = '<tool_call>\n{"name": "calculate", "arguments": {"expression": "6*7"}}\n</tool_call>'
# Final messages for the answer `{0}`, in forms of which some are wrong, and whether a call comes first.
FORMS = [
    ("{0}", False),
    ("{0}", True),
    ("The answer is {0}.", False),
    ("So $\\boxed{{\\frac{{{1}}}{{2}}}}$", True),
    ("{0:,}.0", False),
    ("{0} or {1}", False),
    ("It is 2{0}.", True),
    ("I do not know.", False),
]


def recorded(record: dict[str, Any], reward: str) -> str:
    """The score of a record's only seat, as JSON."""
    (score,) = next(plugin["scores"] for plugin in record["scores"] if plugin["plugin"] == reward)
    components = {component["name"]: component["value"] for component in score["components"]}
    return json.dumps({"total": score["total"], "components": components})


def answer_in(record: dict[str, Any]) -> Any:
    (value,) = (field["value"] for field in record["privileged"] if field["name"] == "answer")
    return next(iter(value.values()))


def scored(reward: gk.Reward, records: list[dict[str, Any]]) -> list[str]:
    """The scores of the messages of records, as JSON: the first is the prompt, and the others are the completion."""
    messages = [gk.Episode.from_bytes(json.dumps(record).encode()).messages() for record in records]
    prompts, completions = [one[:1] for one in messages], [one[1:] for one in messages]
    scores = reward.score(completions, prompts, columns={"answer": [answer_in(record) for record in records]})
    assert [score.failure for score in scores] == [None] * len(records)
    return [json.dumps({"total": score.total, "components": score.components}) for score in scores]


def reward_of(load: Any, name: str) -> gk.Reward:
    return load(name).reward(**OPTIONS[name])


def test_a_rollouts_scores_are_those_of_its_completions(load, serve):
    env = load("word-problems").env()
    stories = {env.reset(task=task)[0]: (task, env.privileged()["answer"]) for task in range(len(FORMS))}

    def reply(prompt: str) -> str:
        (task, answer) = next(known for story, known in stories.items() if story in prompt)
        form, calls = FORMS[task]
        return CALL if calls and replies_in(prompt) == 0 else form.format(int(answer), 2 * int(answer))

    rewards = [reward_of(load, name) for name in REWARDS]
    runs = gk.play(
        [load("word-problems"), load("calculator"), *rewards],
        model=serve(reply).url,
        episodes=len(FORMS),
        tasks=range(len(FORMS)),
        tool_format="hermes",
        success="answer-match.correct",
    )
    records = [episode.record() for episode in runs]
    assert [record["failures"] for record in records] == [[]] * len(FORMS)
    for name, reward in zip(REWARDS, rewards):
        expected = [recorded(record, name) for record in records]
        assert scored(reward, records) == expected
        assert len({json.loads(score)["total"] for score in expected}) > 1
    # Texts, where the episode is its last message.
    texts = [record for record, (_, calls) in zip(records, FORMS) if not calls]
    completions = [gk.Episode.from_bytes(json.dumps(record).encode()).messages()[-1]["content"] for record in texts]
    for name, reward in zip(REWARDS, rewards):
        scores = reward.score(completions, columns={"answer": [answer_in(record) for record in texts]})
        shown = [json.dumps({"total": score.total, "components": score.components}) for score in scores]
        assert shown == [recorded(record, name) for record in texts]


@pytest.mark.skipif(not HOST, reason="GYMKHANA_HOST names no program")
def test_the_programs_scores_are_those_of_its_completions(load, tmp_path):
    settings = [
        "success='answer-match.correct'",
        "plugins.answer-match.options.per-call-cost=0.25",
        "environment.options.oracle-calls=50",
        "stages.0.batch=8",
    ]
    records = demonstrations(tmp_path, ["word-problems", "calculator", *REWARDS], *settings)
    for name in REWARDS:
        expected = [recorded(record, name) for record in records]
        assert scored(reward_of(load, name), records) == expected
    totals = {json.loads(recorded(record, "answer-match"))["total"] for record in records}
    assert totals == {0.75, 1.0}, "with and without a call"
