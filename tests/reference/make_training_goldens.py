#!/usr/bin/env python3
"""Writes numbers for advantages (NumPy), losses with gradients and AdamW (PyTorch, torchao): one JSON file each.

make_training_goldens.py FOLDER writes FOLDER/advantages.json, losses.json, adamw.json and adamw-8-bit.json."""
import json
import pathlib
import sys

import numpy
import torch


def advantages():
    """Groups of rewards with every baseline and scale, computed with NumPy."""
    random = numpy.random.default_rng(3)
    groups = [random.integers(0, 2, 8).astype(float), random.normal(size=5), numpy.ones(4), random.normal(size=2)]
    cases = []
    for rewards in groups:
        count = len(rewards)
        others = numpy.array([numpy.delete(rewards, index).mean() for index in range(count)])
        for baseline, centred in [("group-mean", rewards - rewards.mean()), ("leave-one-out", rewards - others)]:
            for scale, divisor in [("none", 1.0), ("group-std", rewards.std(ddof=1) + 1e-6)]:
                cases.append({"rewards": rewards.tolist(), "baseline": baseline, "scale": scale,
                              "advantages": (centred / divisor).tolist()})
    return cases


def losses():
    """A batch of tokens: each loss, and the gradient of their weighted sum with respect to the logits."""
    torch.manual_seed(5)
    count, vocabulary, low, high, beta, bonus = 12, 7, 0.2, 0.28, 0.04, 0.01
    logits = (torch.randn(count, vocabulary) * 2).requires_grad_()
    targets = torch.randint(0, vocabulary, (count,))
    all_log_probs = logits - torch.logsumexp(logits, -1, keepdim=True)
    log_probs = all_log_probs[torch.arange(count), targets]
    behaviour = (log_probs + torch.randn(count) * 0.4).detach()
    reference = (log_probs + torch.randn(count) * 0.3).detach()
    advantages = torch.randn(count)
    weights = torch.rand(count)
    entropies = torch.distributions.Categorical(logits=logits).entropy()
    ratios = torch.exp(log_probs - behaviour)
    surrogate = -torch.min(ratios * advantages, torch.clamp(ratios, 1 - low, 1 + high) * advantages)
    k3 = torch.exp(reference - log_probs) - (reference - log_probs) - 1
    clipped = ((ratios > 1 + high) & (advantages > 0)) | ((ratios < 1 - low) & (advantages < 0))
    total = ((surrogate + beta * k3 - bonus * entropies) * weights).sum()
    (gradient,) = torch.autograd.grad(total, logits, retain_graph=True)
    cross_entropy = torch.nn.functional.cross_entropy(logits, targets, reduction="none")
    (cross_entropy_gradient,) = torch.autograd.grad((cross_entropy * weights).sum(), logits)
    tensors = {"logits": logits, "targets": targets, "behaviour": behaviour, "reference": reference,
               "advantages": advantages, "weights": weights, "entropies": entropies, "surrogate": surrogate, "k3": k3,
               "clipped": clipped.float(), "gradient": gradient, "cross_entropy": cross_entropy,
               "cross_entropy_gradient": cross_entropy_gradient}
    numbers = {name: tensor.detach().flatten().tolist() for name, tensor in tensors.items()}
    return numbers | {"vocabulary": vocabulary, "clip_low": low, "clip_high": high, "kl_beta": beta,
                      "entropy_bonus": bonus, "total": total.item()}


def adamw():
    """Five steps of torch.optim.AdamW with clipping, a warm-up of two steps and a cosine over six."""
    torch.manual_seed(6)
    settings = {"learning_rate": 0.05, "warmup_steps": 2, "schedule": "cosine", "total_steps": 6, "beta1": 0.9,
                "beta2": 0.95, "epsilon": 1e-8, "weight_decay": 0.1, "gradient_clip": 1.0}
    parameters = {"first": torch.randn(3, 5), "second": torch.randn(4), "embed_tokens.weight": torch.randn(4, 3)}
    start = {name: tensor.flatten().tolist() for name, tensor in parameters.items()}
    variables = {name: torch.nn.Parameter(tensor.clone()) for name, tensor in parameters.items()}
    # Norms, biases and embeddings do not decay.
    groups = [{"params": [variables["first"]], "weight_decay": settings["weight_decay"]},
              {"params": [variables["second"], variables["embed_tokens.weight"]], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=settings["learning_rate"], betas=(0.9, 0.95), eps=1e-8)
    warm = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: (step + 1) / 2 if step < 2 else
                                             0.5 * (1 + float(numpy.cos(numpy.pi * (step - 2) / 4))))
    steps = []
    for step in range(5):
        gradients = {name: torch.randn_like(tensor) * (0.1 if step == 2 else 1.0) for name, tensor in variables.items()}
        for name, variable in variables.items():
            variable.grad = gradients[name].clone()
        norm = torch.nn.utils.clip_grad_norm_(variables.values(), settings["gradient_clip"])
        optimizer.step()
        warm.step()
        steps.append({"gradients": {name: tensor.flatten().tolist() for name, tensor in gradients.items()},
                      "norm": norm.item(),
                      "after": {name: variable.detach().flatten().tolist() for name, variable in variables.items()}})
    shapes = {name: list(tensor.shape) for name, tensor in parameters.items()}
    return {"settings": settings, "shapes": shapes, "start": start, "steps": steps}


def numbers(count, step, shift):
    """Numbers from -1 to 1 that another program computes alike, none of them near 0."""
    whole = [((index * 7919 + step * 104729 + shift) % 1999) - 999 for index in range(count)]
    return torch.tensor([(number if abs(number) > 99 else 100) / 1000 for number in whole], dtype=torch.float32)


def coded_adamw():
    """Six steps of torchao's AdamW with moments of 8 bits: every 64th parameter after each step."""
    from torchao.optim import AdamW8bit
    settings = {"learning_rate": 0.01, "beta1": 0.9, "beta2": 0.95, "epsilon": 1e-8, "weight_decay": 0.1,
                "gradient_clip": 1e9, "moments": "int8"}
    shape = [64, 128]
    variable = torch.nn.Parameter(numbers(64 * 128, 0, 17).view(shape))
    optimizer = AdamW8bit([variable], lr=0.01, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1, block_size=256)
    after = []
    for step in range(6):
        variable.grad = numbers(64 * 128, step + 1, 0).view(shape) * (0.01 if step == 3 else 1.0)
        optimizer.step()
        after.append(variable.detach().flatten()[::64].tolist())
    return {"settings": settings, "shape": shape, "after": after}


if __name__ == "__main__":
    torch.set_num_threads(1)
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, make in [("advantages", advantages), ("losses", losses), ("adamw", adamw), ("adamw-8-bit", coded_adamw)]:
        (folder / f"{name}.json").write_text(json.dumps(make()) + "\n")
