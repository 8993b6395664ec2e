"""verifiers' train client with the adapter: tokens, masks and log-probabilities of traces, and a short training with them.

The train client sends token ids to the route `/inference/v1/generate` of a vLLM server. Here it is a scripted server, or
a tiny model.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("verifiers.v1", reason="verifiers 0.4 is not installed")
pytest.importorskip("torch", reason="torch is not installed")

import torch

import tiny
import verifiers_runs
from reference import Case, Played, as_text, comparable, path, play
from scripted import Answer, serve

WORDS = ("left", "down", "right", "up")
# Tokens that the renderer of Qwen3 expects.
MARKS = ("<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<think>", "</think>")


def generated(ids: list[int], log_probs: list[float]) -> dict[str, Any]:
    """An answer of vLLM's generate route."""
    content = [{"token": f"token_id:{token}", "logprob": value} for token, value in zip(ids, log_probs)]
    return {"request_id": "1", "choices": [{"token_ids": ids, "logprobs": {"content": content}, "finish_reason": "stop"}]}


@pytest.fixture
def tokenizer(tmp_path: Path) -> Any:
    """Bytes, the marks and the four words as tokens."""
    made = tiny.tokenizer(words=[*MARKS, *WORDS])
    made.save_pretrained(tmp_path / "model")
    return made


@pytest.fixture
def train(tmp_path: Path, tokenizer: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list]:
    """Plays with the train client; returns the traces."""
    monkeypatch.setenv("SCRIPTED_KEY", "none")
    monkeypatch.setenv("PRIME_DISABLE_VERSION_CHECK", "1")
    renderer = {"name": "qwen3", "enable_thinking": False}
    client = {"type": "train", "renderer": renderer, "renderer_model_name": str(tmp_path / "model")}
    runs = itertools.count()

    def run(url: str, case: Case, **settings: Any) -> list:
        out = tmp_path / f"out-{next(runs)}"
        episodes = verifiers_runs.episodes(url, case, out, client=client, concurrent=1, **settings)
        assert all(episode.ok for episode in episodes), [episode.errors for episode in episodes if not episode.ok][:1]
        return [trace for episode in episodes for trace in episode.traces]

    return run


def scripted(tokenizer: Any, played: Played, requests: list[tuple[list[int], list[int], list[float]]]) -> Answer:
    """Answers with the next action. Keeps the tokens of each prompt and reply, and the log-probabilities, which differ."""
    texts = iter(as_text(action) for action in played.actions)

    def answer(request: dict[str, Any]) -> dict[str, Any]:
        ids = tokenizer(f"{next(texts)}<|im_end|>", add_special_tokens=False)["input_ids"]
        log_probs = [-0.01 * (1 + len(requests)) - 0.001 * place for place in range(len(ids))]
        requests.append((request["token_ids"], ids, log_probs))
        return generated(ids, log_probs)

    return answer


@pytest.mark.parametrize("name", ["frozen-lake", "word-problems"])
def test_a_trace_has_the_tokens_that_the_server_saw(train: Callable[..., list], tokenizer: Any, name: str) -> None:
    tools = (path("calculator"),) if name == "word-problems" else ()
    case = Case(path(name), tools, task=0)
    played = play(case)
    requests: list[tuple[list[int], list[int], list[float]]] = []
    with serve(scripted(tokenizer, played, requests)) as url:
        (trace,) = train(url, case, tasks=1)
    assert trace.reward == sum(played.rewards)
    assert comparable(trace.info["gymkhana"]["record"]) == played.record
    (branch,) = trace.branches
    last_prompt, last_reply, _ = requests[-1]
    tokens = last_prompt + last_reply
    mask, log_probs = [False] * len(tokens), [0.0] * len(tokens)
    for (prompt, reply, values), observation in zip(requests, played.texts):
        # Nothing is tokenized again: a prompt continues the one before it and its reply.
        assert tokens[: len(prompt) + len(reply)] == prompt + reply
        assert observation in tokenizer.decode(prompt)
        span = slice(len(prompt), len(prompt) + len(reply))
        mask[span], log_probs[span] = [True] * len(reply), values
    assert len(requests) == len(played.actions)
    assert branch.token_ids == tokens
    assert branch.sampled_mask == mask
    assert branch.logprobs == pytest.approx(log_probs, abs=1e-6)


class Policy:
    """A model of two layers that samples one of four words, and learns from traces."""

    def __init__(self, tokenizer: Any) -> None:
        self.model = tiny.model(len(tokenizer))
        self.words = [tokenizer.convert_tokens_to_ids(word) for word in WORDS]
        self.end = tokenizer.eos_token_id
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-2)
        self.random = torch.Generator().manual_seed(1)

    def log_probs(self, ids: list[int]) -> torch.Tensor:
        """Log-probability of each word as the token after each of `ids`."""
        return self.model(torch.tensor([ids])).logits[0][:, self.words].log_softmax(-1)

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        with torch.no_grad():
            last = self.log_probs(request["token_ids"])[-1]
        word = int(torch.multinomial(last.exp(), 1, generator=self.random))
        # The word's end is certain.
        return generated([self.words[word], self.end], [float(last[word]), 0.0])

    def learn(self, traces: list[Any]) -> None:
        """One step of REINFORCE with the group's mean as baseline."""
        mean = sum(trace.reward for trace in traces) / len(traces)
        loss = torch.zeros(())
        for trace in traces:
            (branch,) = trace.branches
            now = self.log_probs(branch.token_ids)
            for place, (token, sampled) in enumerate(zip(branch.token_ids, branch.sampled_mask)):
                if sampled and token != self.end:
                    chosen = now[place - 1, self.words.index(token)]
                    assert float(chosen) == pytest.approx(branch.logprobs[place], abs=1e-4)
                    loss = loss - (trace.reward - mean) * chosen
        self.optimizer.zero_grad()
        (loss / len(traces)).backward()
        self.optimizer.step()


def test_a_tiny_model_learns_the_way_over_the_ice(train: Callable[..., list], tokenizer: Any) -> None:
    policy = Policy(tokenizer)
    case = Case(path("frozen-lake"))
    rewards = []
    with serve(policy.answer) as url:
        for _ in range(12):
            options = {"map": "random", "size": 2}
            traces = train(url, case, tasks=1, options=options, rollouts=16, player={"max_turns": 4})
            rewards.append(sum(trace.reward for trace in traces) / len(traces))
            policy.learn(traces)
    assert sum(rewards[:2]) / 2 < 0.75, rewards
    assert sum(rewards[-3:]) / 3 > 0.9, rewards
