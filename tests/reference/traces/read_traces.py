"""Reads exported traces with the official readers, and prints what they hold, as one line of JSON for each format.

    read_traces.py atif FILE openenv-trace FILE verifiers FILE
"""

import json
import sys
from pathlib import Path


def atif(line: str) -> dict:
    from harbor.models.trajectories import Trajectory

    trajectory = Trajectory.model_validate_json(line)
    metrics = [step.metrics for step in trajectory.steps if step.metrics]
    for metric in metrics:
        assert len(metric.completion_token_ids) == metric.completion_tokens == len(metric.logprobs)
        assert len(metric.prompt_token_ids) == metric.prompt_tokens
    calls = sum(len(step.tool_calls or []) for step in trajectory.steps)
    tokens = [token for metric in metrics for token in metric.completion_token_ids]
    reward = trajectory.final_metrics.extra["reward"]
    return {"session_id": trajectory.session_id, "replies": len(metrics), "tokens": tokens, "calls": calls, "reward": reward}


def openenv_trace(line: str) -> dict:
    from openenv.core.harness.training import TrainingTrace

    trace = TrainingTrace.model_validate_json(line)
    for turn in trace.turns:
        assert sum(turn.loss_mask) == len(turn.completion_token_ids)
    tokens = [token for turn in trace.turns for token in turn.completion_token_ids]
    metadata = trace.turns[0].metadata
    return {"session_id": metadata["episode"], "replies": len(trace.turns), "tokens": tokens, "reward": metadata["reward"]}


def verifiers(line: str) -> dict:
    from verifiers.v1 import WireTrace

    trace = WireTrace.model_validate_json(line)
    tokens, sampled = [], 0
    for branch in trace.branches:
        assert len(branch.token_ids) == len(branch.sampled_mask) == len(branch.logprobs)
        sampled += sum(branch.sampled_mask)
        tokens += [token for token, mask in zip(branch.token_ids, branch.sampled_mask, strict=True) if mask]
    assert trace.is_completed and trace.usage.completion_tokens == sampled
    calls = sum(len(message.tool_calls or []) for branch in trace.branches for message in branch.messages
                if message.role == "assistant")
    return {"session_id": trace.info["episode"], "replies": trace.num_turns, "tokens": tokens, "calls": calls, "reward": trace.reward}


READERS = {"atif": atif, "openenv-trace": openenv_trace, "verifiers": verifiers}

arguments = sys.argv[1:]
for name, path in zip(arguments[::2], arguments[1::2], strict=True):
    lines = Path(path).read_text().splitlines()
    print(json.dumps({"format": name, "traces": [READERS[name](line) for line in lines]}))
