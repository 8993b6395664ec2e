"""Rewards: texts, messages, columns, groups and failures."""

from __future__ import annotations

import pytest

import gymkhana_rl as gk


@pytest.fixture(scope="module")
def match(load):
    return load("answer-match").reward()


def test_texts_are_scored(match):
    assert match(prompts=["6*7?"] * 3, completions=["42", "it is 42.", "41"], answer=["42", "42", "42"]) == [1.0, 1.0, 0.0]
    assert match.__name__ == "answer-match" and match.components == ("correct", "calls", "cost")


def test_messages_are_scored(load):
    reward = load("answer-match").reward(**{"per-call-cost": 0.25})
    call = {"role": "assistant", "tool_calls": [{"id": "a", "function": {"name": "calculate", "arguments": {"x": 1}}}]}
    answer = {"role": "tool", "tool_call_id": "a", "content": "42"}
    final = {"role": "assistant", "content": [{"type": "text", "text": "It is 42"}]}
    prompt = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "6*7?"}]
    [score] = reward.score([[call, answer, final]], [prompt], columns={"answer": ["42"]})
    assert score == gk.Score(0.75, {"correct": 1.0, "calls": 1.0, "cost": 0.25}, None)


def test_what_has_no_score_is_none(match):
    assert match(completions=["42", "42"], answer=["42", None]) == [1.0, None]
    _, score = match.score(["42", "42"], columns={"answer": ["42", None]})
    assert score.total is None and score.components == {} and score.failure.startswith("refused: ")


def test_other_arguments_of_trainers_are_ignored(match):
    assert match(
        prompts=["p"], completions=["42"], answer=["42"], completion_ids=[[1, 2]], trainer_state=object(), log_extra=print
    ) == [1.0]


def test_values_keep_their_types(match):
    assert match(completions=["42", "yes"], answer=[42, "yes"], note=[{"a": [1]}, 3.5]) == [1.0, 1.0]


def test_groups_are_scored_together(load, match):
    assert match.group("6*7?", ["42", "41"], answer="42") == [1.0, 0.0]
    # Each scoring has an instance of its own, so the guest's memory of earlier ones is empty.
    remembers = load("guest-hostile-reward").reward(behaviour="remembers")
    assert remembers(completions=["a", "b"]) == [1.0, 1.0]
    assert remembers.group("p", ["a", "b"]) == [1.0, 1.0]


@pytest.mark.parametrize(
    "behaviour",
    ["nan", "infinite", "out-of-range", "nan-turn", "too-few", "too-many", "wrong-components", "error", "trap", "picky"],
)
def test_garbage_is_no_score(load, behaviour):
    reward = load("guest-hostile-reward").reward(behaviour=behaviour)
    assert reward(completions=["a"]) == [None]
    assert reward.group("p", ["a", "b"]) == [None, None]


def test_an_endless_reward_is_stopped(load):
    reward = load("guest-hostile-reward", timeout_s=0.2).reward(behaviour="loop")
    [score] = reward.score(["a"])
    assert score.failure.startswith("budget: ")
    exact = load("guest-hostile-reward", fuel=1_000_000).reward(behaviour="loop")
    assert exact.score(["a"])[0].failure.startswith("fuel: ")


def test_mistakes_are_errors(load, match):
    with pytest.raises(gk.OptionError, match="no option `mod`"):
        load("answer-match").reward(mod="exact")
    with pytest.raises(gk.OptionError, match="2 completions have 1 prompts"):
        match(prompts=["p"], completions=["a", "b"])
    with pytest.raises(gk.OptionError, match="needs `completions`"):
        match(prompts=["p"])
    with pytest.raises(gk.OptionError, match="no role"):
        match(completions=[[{"content": "x"}]])


def test_batches_equal_single_scores(load):
    reward = load("math-verify").reward()
    completions = [f"\\boxed{{{number}}}" for number in range(100)]
    batch = reward(completions=completions, answer=["7"] * 100)
    assert batch == [reward(completions=[text], answer=["7"])[0] for text in completions]
    assert sum(batch) == 1.0
