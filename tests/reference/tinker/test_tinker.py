"""Runs whose policy SkyRL's Tinker server samples and trains."""

import json
import os
import signal
import subprocess

import numpy as np
import pyarrow.parquet
import pytest
from conftest import REPO, host

RUN = """seed = 1
success = "environment.success"

[policy]
checkpoint = "{model}"
max_concurrent_sequences = 16
max_behaviour_divergence = 0.01

[trainer]
kind = "tinker"
url = "{url}"
rank = 16
reduction = "sequence-mean"

[environment]
options = {{ size = 4, slippery = false }}
wrap = [{wrap}]

[limits]
turns = 8
reply_tokens = 8

[evaluation]
tasks = 4

[[stages]]
kind = "sft"
steps = {sft}
batch = 8
optimizer = {{ learning_rate = 1e-2 }}

[[stages]]
kind = "rl"
steps = 3
groups = 4
group_size = 4
optimizer = {{ learning_rate = 1e-3 }}
"""

PLUGINS = ",".join(str(REPO / f"target/plugins/{name}.wasm") for name in ("frozen-lake", "turn-cost"))
ARGUMENTS = ("run", "--plugins", PLUGINS, "run.toml", "--out", "out")

# A price of each token, so that rewards differ although the model solves nothing.
PRICED = '{ plugin = "turn-cost", per = "token", price = 0.01 }'


PENALTY = "stages.rl.settings.kl={{ beta = {beta}, estimator = 'k3', place = 'loss' }}"


def write_run(folder, model, server, sft):
    (folder / "run.toml").write_text(RUN.format(model=model, url=server.url, sft=sft, wrap=PRICED))


def metrics(folder):
    lines = [json.loads(line) for line in (folder / "out/metrics.jsonl").read_text().splitlines()]
    return [line["values"] for line in lines if line["stage"] == 0], [line["values"] for line in lines if line["stage"] == 1]


def episodes(folder):
    parts = sorted((folder / "out/episodes").glob("*.parquet"))
    return [row for part in parts for row in pyarrow.parquet.read_table(part).to_pylist()]


def log_probs_by_transformers(model, tokens):
    import torch
    from transformers import AutoModelForCausalLM

    network = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
    with torch.no_grad():
        logits = network(torch.tensor([tokens])).logits[0]
    return torch.log_softmax(logits, -1)[:-1].gather(1, torch.tensor(tokens[1:])[:, None])[:, 0].numpy()


def test_a_run_is_sampled_and_trained_by_the_server(tmp_path, model, start):
    write_run(tmp_path, model, start(), 40)
    finished = host(tmp_path, *ARGUMENTS)
    assert finished.returncode == 0, finished.stderr
    supervised, learnt = metrics(tmp_path)
    # Random weights start near ln(264) = 5.6 nats. The adapter changes neither the embedding nor the output layer.
    assert supervised[0]["loss"] > 5 and supervised[-1]["loss"] < supervised[0]["loss"] - 0.8, supervised
    assert sum(step["updates"] for step in learnt) >= 1, learnt
    divergences = [step["on_policy_divergence"] for step in learnt if "on_policy_divergence" in step]
    assert divergences and max(divergences) < 1e-3, divergences
    # Version 0 is the base model: transformers computes the log-probabilities of what the server sampled from it.
    first = next(row for row in episodes(tmp_path) if row["phase"] == "before-sampled")
    end = first["segment_ends"][0] if first["segment_ends"] else len(first["tokens"])
    sampled = np.array(first["sampled"][1:end])
    expected = log_probs_by_transformers(model, first["tokens"][:end])[sampled]
    found = np.array(first["log_probs"][1:end])[sampled]
    assert np.abs(found - expected).max() < 1e-3, (found, expected)
    versions = {
        row["step"]: {version for version, own in zip(row["versions"], row["sampled"]) if own}
        for row in episodes(tmp_path)
        if row["stage"] == 1 and row["phase"] == "train"
    }
    assert versions[0] == {40} and versions[2] == {40 + int(sum(step["updates"] for step in learnt[:2]))}, versions
    replayed = host(tmp_path, "replay", "out")
    assert replayed.returncode == 0 and "every byte equal" in replayed.stdout, replayed


def test_a_loss_of_two_passes_moves_the_policy_as_one_of_one_pass(tmp_path, model, start):
    """GSPO with a penalty takes two passes. A penalty of nothing makes another of the server's own loss, with equal weights."""
    learnt, server = {}, start()
    for name, settings in {
        "one": ["stages.rl.algorithm='cispo'"],
        "two": ["stages.rl.algorithm='cispo'", PENALTY.format(beta=1e-9)],
        "gspo": ["stages.rl.algorithm='gspo'", PENALTY.format(beta=0.05)],
    }.items():
        folder = tmp_path / name
        folder.mkdir()
        write_run(folder, model, server, 5)
        sets = [part for setting in settings for part in ("--set", setting)]
        finished = host(folder, *ARGUMENTS, *sets)
        assert finished.returncode == 0, finished.stderr
        learnt[name] = metrics(folder)[1]
    first = {name: steps[0] for name, steps in learnt.items()}
    assert first["one"]["updates"] == first["two"]["updates"] == 1, first
    assert abs(first["one"]["loss"] - first["two"]["loss"]) < 1e-3 * abs(first["one"]["loss"]), first
    # By the reference policy's own log-probabilities, the policy has not moved before the first step.
    assert abs(first["two"]["reference_divergence"]) < 1e-4 and abs(first["gspo"]["reference_divergence"]) < 1e-4, first
    # It has moved after it, and what the first pass finds is what the same weights sampled.
    for name in ("two", "gspo"):
        assert learnt[name][1]["reference_divergence"] > 1e-8, learnt[name]
        assert all(step["on_policy_divergence"] < 1e-9 for step in learnt[name]), learnt[name]
    # The same seeds, and weights that moved alike: the next step samples the same tokens.
    assert [step["tokens"] for step in learnt["one"][:2]] == [step["tokens"] for step in learnt["two"][:2]], learnt
    assert abs(learnt["one"][1]["loss"] - learnt["two"][1]["loss"]) < 1e-3 * abs(learnt["one"][1]["loss"]), learnt


def test_a_run_stops_and_goes_on_from_the_weights_on_the_server(tmp_path, model, start):
    server = start()
    write_run(tmp_path, model, server, 30)
    running = subprocess.Popen(
        [os.environ["GYMKHANA_HOST"], *ARGUMENTS], cwd=tmp_path, stderr=subprocess.PIPE, text=True
    )
    for line in running.stderr:
        if line.startswith("rl: training 1/"):
            running.send_signal(signal.SIGINT)
    running.wait()
    stopped = len(metrics(tmp_path)[1])
    assert 1 <= stopped < 3
    resumed = host(tmp_path, *ARGUMENTS, "--resume")
    assert resumed.returncode == 0, resumed.stderr
    supervised, learnt = metrics(tmp_path)
    assert len(supervised) == 30 and len(learnt) == 3
    after = [row for row in episodes(tmp_path) if row["stage"] == 1 and row["phase"] == "after"]
    solved = sum(row["success"] for row in after)
    before = [row for row in episodes(tmp_path) if row["stage"] == 0 and row["phase"] == "before"]
    # Random weights solve nothing; the weights of the stage do not get lost.
    assert not any(row["success"] for row in before) and all(row["sampled_tokens"] < 60 for row in after), (solved, after)


def test_a_killed_server_ends_the_run_with_its_address(tmp_path, model, start):
    server = start()
    write_run(tmp_path, model, server, 200)
    running = subprocess.Popen(
        [os.environ["GYMKHANA_HOST"], *ARGUMENTS], cwd=tmp_path, stderr=subprocess.PIPE, text=True
    )
    said = []
    for line in running.stderr:
        said.append(line)
        if line.startswith("sft: demonstrations ") and server.process.poll() is None:
            server.kill()
    assert running.wait() == 2, said
    text = "".join(said)
    assert f"error: the Tinker server at {server.url}/ cannot" in text and "--resume if the run has begun" in text, text


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (["trainer.model='other'"], "has no model `other`"),
        (["trainer.url='http://127.0.0.1:9'", "trainer.retries=0"], "the Tinker server at http://127.0.0.1:9/ cannot list"),
    ],
)
def test_a_server_that_cannot_be_used_is_named_before_anything_is_written(tmp_path, model, start, settings, said):
    write_run(tmp_path, model, start(), 1)
    sets = [part for setting in settings for part in ("--set", setting)]
    refused = host(tmp_path, *ARGUMENTS, *sets)
    assert refused.returncode == 2 and said in refused.stderr and "hint:" in refused.stderr, refused.stderr
    assert not (tmp_path / "out").exists()
