"""Adapters, the reference policy, and saved states."""

import time

import models
import peft
import pytest
import safetensors.torch
import torch
from client import Refused
from test_training import close, saved_model

LORA = {"rank": 3, "alpha": 5.0, "seed": 9}


def adapted(path, dtype=torch.float64):
    """PEFT's own model with the same adapters."""
    torch.manual_seed(LORA["seed"])
    config = peft.LoraConfig(r=LORA["rank"], lora_alpha=LORA["alpha"], target_modules="all-linear")
    model = peft.get_peft_model(models.plain(path, dtype), config)
    return model.to(dtype)


def train(engine, steps, plain=None, optimizer=None):
    """The same steps in the engine, and in a plain model if there is one."""
    for step in steps:
        batch = models.batch(seed=step)
        by = models.weights(len(batch["targets"]), seed=step)
        engine.forward(batch, keep=True)
        engine.ask("backward", by)
        norm = engine.step()["norm"]
        if plain is not None:
            models.add_gradient(plain, batch, by)
            expected = sum((held.grad**2).sum() for held in plain.parameters() if held.grad is not None) ** 0.5
            assert norm == pytest.approx(float(expected), rel=1e-9)
            optimizer.step()
            optimizer.zero_grad()


def same(found, expected, within=1e-9):
    """Asserts that two sets of weights are equal."""
    assert set(found) == set(expected)
    for name, held in expected.items():
        assert close(found[name], held, within), name


@pytest.mark.parametrize("name", ["qwen2", "gemma3"])
@pytest.mark.parametrize("checkpointing", [False, True])
def test_adapters_equal_peft(engine, name, checkpointing):
    path = models.folder(name, "float64")
    plain = adapted(path)
    opened = engine.open(path, lora=LORA, checkpointing=checkpointing)
    assert opened["trained"] == sum(held.numel() for held in plain.parameters() if held.requires_grad)
    assert opened["parameters"] == sum(held.numel() for held in models.plain(path).parameters())
    engine.ask("reference", share=1.0)
    train(engine, range(3), plain, models.adamw(plain))
    batch = models.batch(seed=40)
    before = engine.forward(batch)["log_probs"]
    weights, _ = engine.save(f"merged-{name}-{checkpointing}")
    expected = models.score(plain, batch)[0]
    assert close(before, expected, 1e-8 if name == "gemma3" else 1e-10)
    # Saving leaves the live model as it is, and the folder opens in transformers with equal logits.
    assert torch.equal(engine.forward(batch)["log_probs"], before)
    assert close(models.score(models.plain(weights), batch)[0], expected, 1e-8 if name == "gemma3" else 1e-10)
    base = models.score(models.plain(path), batch)[0]
    assert close(engine.forward(batch, scorer="reference")["log_probs"], base, 1e-8 if name == "gemma3" else 1e-10)


def test_adapters_of_a_base_in_bfloat16_are_in_float32(engine):
    path = models.folder("llama", "bfloat16")
    engine.open(path, dtype="bfloat16", lora=LORA)
    batch = models.batch()
    found = engine.forward(batch, keep=True)["log_probs"]
    assert (found - models.score(models.plain(path), batch)[0]).abs().max() < 0.3
    engine.ask("backward", models.weights(len(found)))
    assert engine.step(rate=0.1)["taken"]
    weights, _ = engine.save("adapters-bfloat16")
    found = safetensors.torch.load_file(weights / "model.safetensors")
    source = safetensors.torch.load_file(f"{path}/model.safetensors")
    assert {held.dtype for held in found.values()} == {torch.bfloat16}
    equal = {name for name, held in source.items() if torch.equal(found[name], held)}
    assert "lm_head.weight" in equal and "model.norm.weight" in equal
    assert not any("q_proj" in name or "down_proj" in name for name in equal)


@pytest.mark.parametrize("lora", [None, LORA])
def test_the_reference_policy_is_copied_moved_and_dropped(engine, lora):
    path = models.folder("qwen3", "float64")
    engine.open(path, lora=lora)
    with pytest.raises(Refused, match="no reference policy"):
        engine.forward(models.batch(), scorer="reference")
    with pytest.raises(Refused, match="no reference policy"):
        engine.ask("reference", share=0.5)
    plain = adapted(path) if lora else models.plain(path)
    optimizer = models.adamw(plain)
    reference = adapted(path) if lora else models.plain(path)
    engine.ask("reference", share=1.0)
    batch = models.batch(seed=50)
    with pytest.raises(Refused, match="gradients"):
        engine.forward(batch, scorer="reference", keep=True)
    for share in (0.25, 0.5, 1.0):
        train(engine, [int(share * 8)], plain, optimizer)
        engine.ask("reference", share=share)
        with torch.no_grad():
            for mine, its in zip(reference.parameters(), plain.parameters()):
                mine.lerp_(its, share)
        found = engine.forward(batch, scorer="reference", temperature=0.8)
        assert close(found["log_probs"], models.score(reference, batch, 0.8)[0], 1e-9)
        assert close(engine.forward(batch)["log_probs"], models.score(plain, batch)[0], 1e-9)
    engine.ask("reference", share=None)
    with pytest.raises(Refused, match="no reference policy"):
        engine.forward(batch, scorer="reference")


@pytest.mark.parametrize("lora", [None, LORA])
@pytest.mark.parametrize("ranks", ["one to two", "two to one"])
def test_training_resumes_with_another_number_of_ranks(one, two, ranks, lora):
    first, second = (one, two) if ranks == "one to two" else (two, one)
    path = models.folder("qwen3_moe" if lora is None else "qwen2", "float64")
    batch = models.batch(seed=60)
    first.open(path, lora=lora)
    train(first, [0])
    first.ask("reference", share=1.0)
    train(first, [1])
    first.ask("publish", version=7)
    weights, state = first.save(f"resumed {ranks} {bool(lora)}")
    second.open(path, lora=lora, state=str(state), reference=True)
    assert second.reply([4, 5])[0]["version"] == 7
    for engine in (first, second):
        train(engine, [2, 3])
    same(saved_model(second), saved_model(first))
    for scorer in ("policy", "reference"):
        found = [engine.forward(batch, scorer=scorer)["log_probs"] for engine in (first, second)]
        assert close(*found, 1e-10)
    second.open(path, lora=lora, state=str(state), reference=False)
    assert close(second.forward(batch)["log_probs"], models.score(models.plain(weights), batch)[0], 1e-10)
    with pytest.raises(Refused, match="no reference policy"):
        second.forward(batch, scorer="reference")


def test_eight_bit_moments_resume(one, two):
    path = models.folder("qwen2")
    one.open(path, dtype="float32", optimizer="adamw8bit")
    train(one, [0, 1])
    _, state = one.save("eight bits")
    two.open(path, dtype="float32", optimizer="adamw8bit", state=str(state))
    for engine in (one, two):
        train(engine, [2])
    same(saved_model(two), saved_model(one), 1e-4)


def test_saving_before_the_first_step_keeps_the_gradient(engine):
    path = models.folder("llama", "float64")
    batch = models.batch()
    norms = []
    for saves in (False, True):
        engine.open(path)
        for _ in range(2):
            engine.forward(batch, keep=True)
            if saves:
                engine.save(f"between {len(norms)} {time.monotonic()}")
            engine.ask("backward", models.weights(len(batch["targets"])))
        norms.append(engine.step()["norm"])
    assert norms[0] == norms[1] > 0


def test_a_state_without_steps_resumes(one, two):
    path = models.folder("llama", "float64")
    one.open(path)
    _, state = one.save("untouched")
    two.open(path, state=str(state), reference=True)
    for engine in (one, two):
        train(engine, [0])
    same(saved_model(two), saved_model(one))
