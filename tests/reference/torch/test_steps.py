"""Shortened steps, and weights for an inference server."""

import models
import pytest
import safetensors.torch
import torch
from client import Refused


def weights(engine, name):
    folder, _ = engine.save(name)
    return safetensors.torch.load_file(folder / "model.safetensors")


def gradient(engine):
    engine.forward(models.batch(), entropies=False, keep=True)
    count = len(models.batch()["targets"])
    engine.ask("backward", {"by_log_probs": torch.ones(count, dtype=torch.float64)})


def test_a_share_of_a_step_is_kept(engine):
    engine.open(models.folder("qwen3", "float64"))
    before = weights(engine, "before")
    gradient(engine)
    engine.step(keep=True)
    whole = weights(engine, "whole")
    engine.ask("shorten", share=0.25)
    part = weights(engine, "part")
    assert any(not torch.equal(before[name], held) for name, held in whole.items())
    for name, held in before.items():
        assert torch.allclose(part[name], held + 0.25 * (whole[name] - held), rtol=1e-12, atol=0), name
    # Once only, and not without the weights before the step.
    for keep in (None, False):
        if keep is not None:
            gradient(engine)
            engine.step(keep=keep)
        with pytest.raises(Refused, match="no step was kept"):
            engine.ask("shorten", share=0.5)


def test_an_output_layer_of_its_own_is_written_for_a_server(engine):
    engine.open(models.folder("qwen2", "float64"))
    folder = engine.folder / f"served-{engine.number}"
    folder.mkdir()
    engine.ask("save", weights=str(folder), state=None, untied=True)
    found = safetensors.torch.load_file(folder / "model.safetensors")
    assert torch.equal(found["lm_head.weight"], found["model.embed_tokens.weight"])
    assert not list(engine.folder.glob("served*/trainer")) and "lm_head.weight" not in weights(engine, f"tied-{engine.number}")
