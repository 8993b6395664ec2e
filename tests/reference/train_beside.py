#!/usr/bin/env python3
"""Trains a generated Qwen3 model of 30 million parameters by SFT and RL, beside the same training in transformers and PEFT.

train_beside.py --repo ROOT. Once with all weights and once with adapters. The loss and the gradient norm of each step, and
the change of the weights up to each step, must agree within the bounds below. Stops with an error at the first
difference."""
import argparse
import json
import pathlib
import shutil
import subprocess
import tempfile

import torch
from peft import PeftModel
from safetensors.torch import load_file
from transformers import Qwen3Config, Qwen3ForCausalLM

LOSS, GRADIENT, CHANGE = 1e-4, 1e-3, 2e-2
RATE, STEPS = 1e-4, 4
GROUPS, MEMBERS, GIVEN, SAMPLED = 4, 4, 24, 24
LOW, HIGH = 0.2, 0.28
ADAPTERS = {"rank": 4, "alpha": 8.0, "modules": ["q_proj", "v_proj", "gate_proj", "down_proj"]}
OPTIMIZER = {"learning_rate": RATE, "beta2": 0.95, "gradient_clip": 1.0}


def write_model(folder, tokenizer):
    config = Qwen3Config(
        vocab_size=36_000, hidden_size=384, intermediate_size=1344, num_hidden_layers=8, num_attention_heads=6,
        num_key_value_heads=2, head_dim=64, max_position_embeddings=512, tie_word_embeddings=True, eos_token_id=1,
        bos_token_id=None, pad_token_id=0)
    torch.manual_seed(3)
    model = Qwen3ForCausalLM(config)
    count = sum(parameter.numel() for parameter in model.parameters())
    print(f"model: {count / 1e6:.1f} million parameters")
    assert 28e6 < count < 32e6
    model.save_pretrained(folder)
    shutil.copy(tokenizer, folder)


def log_probs(model, tokens):
    """Log-probabilities of each token after the first, [B, T - 1]."""
    logits = model(input_ids=tokens).logits[:, :-1].float()
    return torch.log_softmax(logits, -1).gather(-1, tokens[:, 1:, None])[..., 0]


def segment(tokens, behaviour=None):
    """A prompt and a reply, with the behaviour policy's log-probabilities."""
    zeros = [0.0] * GIVEN
    return {"seat": 0, "tokens": tokens.tolist(), "sampled": [False] * GIVEN + [True] * SAMPLED,
            "log_probs": zeros + ([0.0] * SAMPLED if behaviour is None else behaviour.tolist()),
            "entropies": [0.0] * (GIVEN + SAMPLED), "versions": [0] * (GIVEN + SAMPLED),
            "turns": [0] * (GIVEN + SAMPLED)}


def record(group, member, segment, reward):
    episode = {"stage": 0, "phase": "train", "step": 0, "group": group, "member": member, "attempt": 0}
    timing = dict.fromkeys(["total_ms", "policy_ms", "environment_ms", "tool_ms", "reward_ms"], 0.0)
    lists = ["forks", "turns", "policy_turns", "environment_rewards", "extras", "privileged", "views", "scores",
             "turn_rewards", "turn_gains", "failures", "exchanges", "costs", "logs"]
    return {"schema": SCHEMA, "id": episode, "task": {"split": "train", "index": group}, "seed": 0, "turn_limit": 1,
            "training_step": 0, "opening": {"functions": [], "setup": [], "observations": []},
            "segments": [segment], "ending": "terminated", "rewards": [reward], "success": reward > 0.5, "selected": True,
            "timing": timing} | {name: [] for name in lists}


def batches(model):
    """Alternating steps of SFT and RL. Behaviour log-probabilities differ from the model's, so that ratios are clipped."""
    torch.manual_seed(4)
    steps = []
    for number in range(STEPS):
        tokens = torch.randint(2, 36_000, (GROUPS * MEMBERS, GIVEN + SAMPLED))
        if number % 2 == 0:
            settings = {"optimizer": OPTIMIZER, "other_tokens": 0.0}
            steps.append({"sft": {"settings": settings, "demonstrations": [segment(row) for row in tokens]}})
            continue
        with torch.no_grad():
            behaviour = log_probs(model, tokens)[:, GIVEN - 1:] + 0.3 * torch.randn(GROUPS * MEMBERS, SAMPLED)
        rewards = torch.rand(GROUPS, MEMBERS, dtype=torch.float64)
        groups = [[record(group, member, segment(tokens[group * MEMBERS + member], behaviour[group * MEMBERS + member]),
                          rewards[group, member].item()) for member in range(MEMBERS)] for group in range(GROUPS)]
        surrogate = {"kind": "clip", "low": LOW, "high": HIGH}
        algorithm = {"baseline": "group-mean", "scale": "group-std", "ratio": "token", "surrogate": surrogate,
                     "aggregation": "sequence"}
        steps.append({"rl": {"settings": {"optimizer": OPTIMIZER, "algorithm": algorithm}, "groups": groups}})
    return steps


def loss_of(model, step):
    if "sft" in step:
        tokens = torch.tensor([row["tokens"] for row in step["sft"]["demonstrations"]])
        return -log_probs(model, tokens)[:, GIVEN - 1:].mean()
    groups = step["rl"]["groups"]
    rows = [member["segments"][0] for group in groups for member in group]
    tokens = torch.tensor([row["tokens"] for row in rows])
    behaviour = torch.tensor([row["log_probs"][GIVEN:] for row in rows])
    rewards = torch.tensor([[member["rewards"][0] for member in group] for group in groups], dtype=torch.float64)
    advantages = (rewards - rewards.mean(1, keepdim=True)) / (rewards.std(1, keepdim=True) + 1e-6)
    advantage_B1 = advantages.flatten().float()[:, None]
    ratio = torch.exp(log_probs(model, tokens)[:, GIVEN - 1:] - behaviour)
    surrogate = torch.min(ratio * advantage_B1, ratio.clamp(1 - LOW, 1 + HIGH) * advantage_B1)
    return -surrogate.mean(1).mean()


def train(model, steps):
    """Trains; yields the loss and the gradient norm of each step after it."""
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(parameters, lr=RATE, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.0)
    for step in steps:
        loss = loss_of(model, step)
        optimizer.zero_grad()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(parameters, OPTIMIZER["gradient_clip"])
        optimizer.step()
        yield loss.item(), norm.item()


def weights_of(model):
    """The model's weights by their names in a checkpoint, with the adapters' products added."""
    if not isinstance(model, PeftModel):
        return model.state_dict()
    prefix, state = "base_model.model.", {}
    for name, tensor in model.state_dict().items():
        if ".base_layer." in name:
            layer, _ = name.split(".base_layer.")
            tensor = tensor + model.get_submodule(layer).get_delta_weight("default")
        state[name.removeprefix(prefix).replace(".base_layer", "")] = tensor
    return state


def compare_weights(before, own, theirs):
    """Norm of the change of the weights, and the difference of both programs as a share of it."""
    difference, change = 0.0, 0.0
    for key, old in before.items():
        difference += ((own[key].double() - theirs[key].double()) ** 2).sum().item()
        change += ((theirs[key].double() - old.double()) ** 2).sum().item()
    return change ** 0.5, (difference / change) ** 0.5


def compare(name, scratch, program, folder, lora):
    start = Qwen3ForCausalLM.from_pretrained(folder, dtype=torch.float32)
    start.eval()
    steps = batches(start)
    (scratch / "batches.json").write_text(json.dumps({"lora": lora, "threads": 2, "steps": steps}))
    out = scratch / name
    done = subprocess.run([program, folder, scratch / "batches.json", out], check=True, capture_output=True, text=True)
    ours = [json.loads(line) for line in done.stdout.splitlines()]
    if lora:
        model = PeftModel.from_pretrained(start, out / "before" / "adapter", is_trainable=True)
    else:
        model = start
    model.eval()
    before = load_file(out / "before" / "model.safetensors")
    for number, (own, (loss, norm)) in enumerate(zip(ours, train(model, steps), strict=True)):
        kind = "sft" if number % 2 == 0 else "rl"
        print(f"{name}, step {number} ({kind}): loss {own['loss']:.6f} and {loss:.6f}, gradient {own['gradient_norm']:.6f} "
              f"and {norm:.6f}")
        assert abs(own["loss"] - loss) <= LOSS * max(1.0, abs(loss)), "loss"
        assert abs(own["gradient_norm"] - norm) <= GRADIENT * norm, "gradient norm"
        with torch.no_grad():
            after = load_file(out / f"step-{number}" / "model.safetensors")
            change, share = compare_weights(before, after, weights_of(model))
        print(f"  the weights changed by {change:.5f} in the norm; the difference is {share:.3%} of that")
        assert change > 0 and share <= CHANGE, "weights"


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--repo", type=pathlib.Path, default=pathlib.Path(__file__).parent.parent.parent)
    repo = arguments.parse_args().repo.resolve()
    torch.set_num_threads(2)
    SCHEMA = int((repo / "host/record/src/episode.rs").read_text().split("EPISODE_SCHEMA: u32 = ")[1].split(";")[0])
    build = ["cargo", "build", "--quiet", "--release", "--workspace", "--example", "train_batches"]
    subprocess.run(build, check=True, cwd=repo)
    program = repo / "target" / "release" / "examples" / "train_batches"
    with tempfile.TemporaryDirectory() as name:
        scratch = pathlib.Path(name)
        write_model(scratch / "model", repo / "tests/golden/qwen3-tied/tokenizer.json")
        compare("all weights", scratch, program, scratch / "model", None)
        compare("adapters", scratch, program, scratch / "model", ADAPTERS)
