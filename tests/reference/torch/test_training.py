"""Log-probabilities, gradients and steps against plain transformers and PyTorch."""

import itertools

import models
import pytest
import safetensors.torch
import torch
from client import Refused

WITHIN = {"float32": 1e-5, "float64": 1e-10}
# Gemma's norms compute in float32 in any number format, with scales that round differently in other orders.
WITHIN_OF_GEMMA = {"float32": 1e-5, "float64": 1e-7}
LINEAR = {"rate": 1e6, "epsilon": 1e6, "weight_decay": 0.0}
"""A step from which the gradient can be computed: AdamW's first step is `rate * g / (|g| + epsilon)`."""
CASES = [*itertools.product(models.CONFIGS, WITHIN, [False]), *itertools.product(models.CONFIGS, ["float64"], [True])]
_NAMES = itertools.count()


def saved(engine):
    """Weights that the engine saves, by their names."""
    folder, _ = engine.save(f"saved{next(_NAMES)}")
    return safetensors.torch.load_file(folder / "model.safetensors")


def close(found, expected, within):
    """Whether vectors are equal relative to the norm of the expected one."""
    return (found.double() - expected.double()).norm() <= within * expected.double().norm()


def gradient(engine, path, dtype):
    """Gradient in a model's parameters, from the change of a linear step."""
    before = dict(models.plain(path, getattr(torch, dtype)).named_parameters())
    engine.step(**LINEAR)
    after = saved_model(engine)
    found = {}
    for name, old in before.items():
        moved = old.detach().double() - after[name].double()
        found[name] = moved / (1 - moved.abs() / LINEAR["epsilon"])
    return found


def saved_model(engine):
    """Parameters of the saved weights, as transformers loads them (experts in one tensor)."""
    folder, _ = engine.save(f"model{next(_NAMES)}")
    dtype = next(iter(safetensors.torch.load_file(folder / "model.safetensors").values())).dtype
    return {name: parameter.detach() for name, parameter in models.plain(folder, dtype).named_parameters()}


@pytest.mark.parametrize(("name", "dtype", "checkpointing"), CASES)
def test_log_probs_and_gradients_equal_a_plain_loop(engine, name, dtype, checkpointing):
    path = models.folder(name, dtype)
    within = (WITHIN_OF_GEMMA if name == "gemma3" else WITHIN)[dtype]
    engine.open(path, dtype=dtype, checkpointing=checkpointing)
    plain = models.plain(path, getattr(torch, dtype))
    assert engine.forward(models.batch((5, 4)))["log_probs"].dtype == getattr(torch, dtype)
    # Two passes add up; the second has fewer sequences than there are ranks.
    for batch, temperature in ((models.batch(), 1.0), (models.batch((11,), seed=8), 0.6)):
        found = engine.forward(batch, temperature=temperature, keep=True)
        log_probs, entropies = models.score(plain, batch, temperature)
        assert close(found["log_probs"], log_probs, within)
        assert close(found["entropies"], entropies, within)
        by = models.weights(len(log_probs))
        engine.ask("backward", by)
        models.add_gradient(plain, batch, by, temperature)
    expected = {key: held.grad.double() for key, held in plain.named_parameters()}
    norm = sum((held**2).sum() for held in expected.values()) ** 0.5
    gradients = gradient(engine, path, dtype)
    apart = sum(((gradients[key] - expected[key]) ** 2).sum() for key in expected) ** 0.5
    assert apart <= within * norm


@pytest.mark.parametrize("name", ["qwen2", "qwen3_moe"])
def test_steps_equal_adamw(engine, name):
    path = models.folder(name, "float64")
    engine.open(path)
    plain = models.plain(path)
    optimizer = models.adamw(plain)
    for step, most in enumerate((None, 1.0, 1e4)):
        batch = models.batch(seed=20 + step)
        by = models.weights(len(batch["targets"]), seed=step)
        engine.forward(batch, keep=True)
        engine.ask("backward", by)
        models.add_gradient(plain, batch, by)
        norm = torch.nn.utils.clip_grad_norm_(plain.parameters(), most or float("inf"))
        answer = engine.step(most=most)
        assert answer["taken"] and answer["norm"] == pytest.approx(float(norm), rel=1e-10)
        optimizer.step()
        optimizer.zero_grad()
    found = saved_model(engine)
    for key, expected in plain.named_parameters():
        assert close(found[key], expected.detach(), 1e-9), key


def test_gradients_can_be_forgotten_and_left_out(engine):
    path = models.folder("llama", "float64")
    engine.open(path)
    batch = models.batch()
    by = models.weights(len(batch["targets"]))
    for request in ("begin_update", "begin_stage"):
        engine.forward(batch, keep=True)
        engine.ask("backward", by)
        engine.ask(request)
        assert engine.step()["norm"] == 0
    engine.open(path)
    found = engine.forward(batch, entropies=False, keep=True)
    assert set(found) == {"log_probs"}
    engine.ask("backward", {"by_log_probs": by["by_log_probs"]})
    plain = models.plain(path)
    models.add_gradient(plain, batch, by | {"by_entropies": torch.zeros_like(by["by_entropies"])})
    expected = sum((held.grad**2).sum() for held in plain.parameters()) ** 0.5
    assert engine.step()["norm"] == pytest.approx(float(expected), rel=1e-10)


def test_a_new_stage_forgets_the_moments(one):
    path = models.folder("llama", "float64")
    batch = models.batch()
    by = models.weights(len(batch["targets"]))
    changes = []
    one.open(path)
    for _ in range(2):
        before = saved(one)
        one.forward(batch, keep=True)
        one.ask("backward", by)
        one.step(rate=1e-3, weight_decay=0.0, epsilon=1e-20)
        after = saved(one)
        # The first step of AdamW with a tiny epsilon moves each weight by the rate.
        changes.append(max((after[key] - before[key]).abs().max().item() for key in after))
        one.ask("begin_stage")
    assert changes == pytest.approx([1e-3, 1e-3], rel=1e-9)


def test_a_gradient_that_is_not_finite_takes_no_step(engine):
    path = models.folder("qwen2", "float64")
    engine.open(path)
    batch = models.batch()
    before = engine.forward(batch)["log_probs"]
    by = models.weights(len(batch["targets"]))
    by["by_log_probs"][3] = float("nan")
    engine.forward(batch, keep=True)
    engine.ask("backward", by)
    assert engine.step() == {"kind": "stepped", "taken": False, "norm": None}
    assert engine.step()["norm"] == 0, "the gradient is forgotten"
    engine.open(path)
    assert torch.equal(engine.forward(batch)["log_probs"], before)


def test_a_long_vocabulary_is_scored_in_pieces(one):
    import transformers

    config = transformers.LlamaConfig(**(models.SIZES | {"vocab_size": 150_000, "num_hidden_layers": 1}))
    path = one.folder / "wide"
    torch.manual_seed(4)
    transformers.LlamaForCausalLM(config).save_pretrained(path)
    one.open(path, dtype="float32", checkpointing=True)
    # 1,000 targets are more than two pieces of 2^26 logits.
    batch = models.batch((251,) * 4)
    batch["targets"], batch["counts"] = torch.arange(1, 251).repeat(4), torch.tensor([250] * 4)
    found = one.forward(batch, keep=True)
    plain = models.plain(path, torch.float32)
    with torch.no_grad():
        log_probs, entropies = models.score(plain, batch)
    assert close(found["log_probs"], log_probs, 1e-5) and close(found["entropies"], entropies, 1e-5)
    by = models.weights(1000)
    one.ask("backward", by)
    models.add_gradient(plain, batch, by)
    expected = sum((held.grad.double() ** 2).sum() for held in plain.parameters()) ** 0.5
    assert one.step()["norm"] == pytest.approx(float(expected), rel=1e-5)
    with pytest.raises(Refused, match="vocabulary"):
        one.forward(models.batch() | {"tokens": torch.full((33,), 150_000)})


def test_bfloat16_keeps_weights_in_float32(engine):
    path = models.folder("qwen3")
    engine.open(path, dtype="bfloat16")
    batch = models.batch()
    found = engine.forward(batch, keep=True)
    log_probs, _ = models.score(models.plain(path), batch)
    assert found["log_probs"].dtype == torch.float32
    assert (found["log_probs"] - log_probs).abs().max() < 0.3
    engine.ask("backward", models.weights(len(log_probs)))
    before = models.plain(path, torch.float32).state_dict()
    engine.step(rate=1e-6, weight_decay=0.0)
    after = saved_model(engine)
    moved = torch.cat([(after[key] - before[key]).flatten() for key in after])
    assert after["lm_head.weight"].dtype == torch.float32
    # Steps far below the resolution of bfloat16 are kept.
    assert 0.5e-6 < moved.abs().mean() < 1.5e-6


def test_the_saved_number_format_is_that_of_the_model(one):
    path = models.folder("qwen3_moe", "bfloat16")
    one.open(path, dtype="bfloat16")
    source = safetensors.torch.load_file(f"{path}/model.safetensors")
    found = saved(one)
    assert {key: (held.dtype, held.shape) for key, held in found.items()} == {
        key: (held.dtype, held.shape) for key, held in source.items()
    }
    assert all(torch.equal(found[key], held) for key, held in source.items())


def test_eight_bit_moments_follow_adamw(one):
    path = models.folder("qwen2")
    one.open(path, dtype="float32", optimizer="adamw8bit")
    plain = models.plain(path, torch.float32)
    optimizer = models.adamw(plain)
    for step in range(2):
        batch = models.batch(seed=step)
        by = models.weights(len(batch["targets"]))
        one.forward(batch, keep=True)
        one.ask("backward", by)
        models.add_gradient(plain, batch, by)
        assert one.step()["taken"]
        optimizer.step()
        optimizer.zero_grad()
    found, before = saved_model(one), models.plain(path, torch.float32).state_dict()
    moved = torch.cat([(found[key] - before[key]).flatten() for key in found])
    expected = torch.cat([(held.detach() - before[key]).flatten() for key, held in plain.named_parameters()])
    assert torch.nn.functional.cosine_similarity(moved, expected, dim=0) > 0.98
