"""Refused requests, and the end of the processes."""

import os
import shutil
import signal
import struct
import time

import models
import pytest
import torch
from client import Engine, Refused, frame

FORWARD = {"scorer": "policy", "temperature": 1.0, "entropies": True, "keep": False}


def changed(**tensors):
    """A batch with other tensors."""
    return models.batch() | {name: torch.tensor(numbers) for name, numbers in tensors.items()}


REFUSED = [
    ("dance", {}, {}, "unknown"),
    ("forward", {}, FORWARD, "missing"),
    ("forward", models.batch(), FORWARD | {"temperature": 0.0}, "temperature"),
    ("forward", models.batch(), FORWARD | {"temperature": True}, "temperature"),
    ("forward", models.batch(), FORWARD | {"scorer": "teacher"}, "scorer"),
    ("forward", changed(tokens=[1, 2]), FORWARD, "add up"),
    ("forward", changed(counts=[1, 1]), FORWARD, "differ"),
    ("forward", changed(counts=[1, 1, 1, 1, 90]), FORWARD, "add up"),
    ("forward", changed(lengths=[40, -7, 0, 0, 0]), FORWARD, "add up"),
    ("forward", models.batch() | {"tokens": torch.full((33,), 97)}, FORWARD, "vocabulary"),
    ("forward", models.batch() | {"tokens": torch.full((33,), -1)}, FORWARD, "vocabulary"),
    ("forward", changed(targets=[0], counts=[1, 0, 0, 0, 0]), FORWARD, "outside of its sequence"),
    ("forward", changed(targets=[7], counts=[1, 0, 0, 0, 0]), FORWARD, "outside of its sequence"),
    ("forward", changed(targets=[3, 2], counts=[2, 0, 0, 0, 0]), FORWARD, "ascend"),
    ("forward", models.batch((300,)), FORWARD, "context"),
    ("backward", {"by_log_probs": torch.ones(3, dtype=torch.float64)}, {}, "no forward pass was kept"),
    ("step", {}, {"learning_rate": 0.1}, "beta1"),
    ("reference", {}, {"share": 1.5}, "share"),
    ("publish", {}, {"version": "new"}, "version"),
    ("save", {}, {"weights": "/nowhere/w", "state": "/nowhere/s", "untied": False}, "not a folder"),
    ("open", {}, {"model": "/nowhere", "state": None, "reference": False, "dtype": "float32", "checkpointing": False,
                  "lora": None, "optimizer": "adamw", "seed": 1}, "config.json"),
]  # fmt: skip


def test_invalid_requests_are_answered(engine):
    engine.open(models.folder("qwen2", "float64"))
    expected = engine.forward(models.batch())["log_probs"]
    for kind, tensors, fields, words in REFUSED:
        with pytest.raises(Refused, match=words):
            engine.ask(kind, tensors, **fields)
    for tokens, rules in (([], {}), ([97], {}), ([1], {"max_tokens": 0}), ([1], {"top_p": 0.0}), ([1], {"seed": -1})):
        with pytest.raises(Refused):
            engine.reply(tokens, **rules)
    engine.forward(models.batch(), keep=True, entropies=False)
    by = models.weights(len(expected))
    with pytest.raises(Refused, match="entropies"):
        engine.ask("backward", by)
    with pytest.raises(Refused, match="targets"):
        engine.ask("backward", {"by_log_probs": by["by_log_probs"][1:]})
    engine.ask("backward", {"by_log_probs": by["by_log_probs"]})
    with pytest.raises(Refused, match="no forward pass was kept"):
        engine.ask("backward", by)
    for body in (b"", b"{}", b"\xff" * 40, struct.pack("<Q", 1 << 60), frame({"version": 1})[8:]):
        engine.connection.sendall(struct.pack("<Q", len(body)) + body)
        with pytest.raises(Refused, match="malformed"):
            engine.wait(0)
    engine.connection.sendall(frame({"version": 2, "id": 900, "request": {"kind": "begin_update"}}))
    with pytest.raises(Refused, match="version"):
        engine.wait(900)
    assert torch.equal(engine.forward(models.batch())["log_probs"], expected)


def busy(engine):
    """Opens a model, and leaves long replies in progress."""
    engine.open(models.folder("qwen2"), dtype="float32")
    for seed in range(200):
        engine.start_reply([1, 2, 3], seed=seed, max_tokens=250)
    time.sleep(1)


@pytest.mark.parametrize(("rank", "while_busy"), [(1, False), (0, True)])
def test_a_killed_rank_ends_all_and_leaves_words(rank, while_busy):
    with Engine(2) as engine:
        with pytest.raises(Refused, match="no model"):
            engine.ask("begin_update")
        if while_busy:
            busy(engine)
        os.kill(engine.processes()[rank], signal.SIGKILL)
        assert engine.ended(20) == 1
        (words,) = engine.words()
        assert words["rank"] == 1 - rank and words["kind"] in ("disconnected", "ended"), words
        log = engine.log.read_text()
        assert "SIGKILL" in log or "Signal 9" in log, log[-2000:]


@pytest.mark.parametrize("while_busy", [False, True])
def test_the_end_of_the_host_ends_all(while_busy):
    with Engine(2) as engine:
        if while_busy:
            busy(engine)
        engine.connection.close()
        assert engine.ended(10) == 0
        assert not engine.words()


def test_a_failure_is_written(tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    shutil.copy(f"{models.folder('qwen2')}/config.json", folder)
    with Engine(2) as engine:
        with pytest.raises(EOFError):
            engine.open(folder)
        assert engine.ended(20) == 1
        (words,) = engine.words()
        assert words["rank"] == 0 and words["kind"] == "failed" and "model.safetensors" in words["text"]


def test_weights_that_are_not_finite_are_reported():
    with Engine(1) as engine:
        path = models.folder("qwen2")
        engine.open(path, dtype="float32")
        batch = models.batch()
        engine.forward(batch, keep=True)
        engine.ask("backward", models.weights(len(batch["targets"])))
        engine.step(rate=1e38)
        engine.ask("publish", version=1)
        with pytest.raises(EOFError):
            engine.reply([1, 2])
        assert engine.ended(20) == 1
        assert [words["kind"] for words in engine.words()] == ["not_finite"]
