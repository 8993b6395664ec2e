#!/usr/bin/env python3
"""Makes numbers for every preset: a batch's advantages, loss and gradients, by formulas and PyTorch's autograd.

make_algorithm_goldens.py FOLDER writes FOLDER/algorithms.json. In each case `overrides` are keys of the preset's file
that are replaced. `advantages` and the gradients are nested as the fixture is: group, episode, seat, turn, token. An
advantage is null where the token is masked. `episodes` are those of the optimiser step, if not all."""
import json
import pathlib
import sys

import numpy
import torch

from algorithm_batch import Batch
from algorithm_constants import CONSTANTS, PREFERENCES
from algorithm_fixtures import make_fixtures
from algorithm_overrides import extra_cases, minibatch_cases
from algorithm_presets import PRESETS
from algorithm_steps import make_paths, make_regression, make_replay, make_replies, make_tree_cases, rows

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "presets"
DUO_ONLY = ("dr-mas", "mars", "spiral-rae")
DUO_TOO = ("grpo", "gspo", "loop")

# The presets' constants are too large for such a small batch, or random.
REQUIRED = {"dapo": {"length_penalty": {"tokens": 7, "buffer": 4}},
            "spear": {"covariance_clip": {"low": 0.05, "high": 0.5, "share": 1.0}}}


def nested(batch, values):
    """Lists of groups, episodes, seats, turns and tokens from a vector over tokens."""
    groups = []
    for trajectory in batch.trajectories:
        if trajectory.group == len(groups):
            groups.append([])
        if trajectory.episode == len(groups[-1]):
            groups[-1].append([])
        groups[-1][-1].append([[values[place] for place in turn.tokens if not turn.is_shared]
                               for turn in trajectory.turns])
    return groups


def gradient_of(loss, variable):
    """Gradient as a list; zeros if the loss does not depend on the variable."""
    (gradient,) = torch.autograd.grad(loss, variable, retain_graph=True, allow_unused=True, materialize_grads=True)
    return gradient.tolist()


def make_case(fixtures, preset, fixture, overrides, function, episodes=None):
    """Result of one function on one batch."""
    settings, batch = CONSTANTS[preset] | overrides, Batch(fixtures[fixture])
    if episodes is not None:
        batch.minibatch = torch.zeros_like(batch.everything)
        for number in episodes:
            batch.minibatch[batch.episodes(batch.everything)[number]] = True
    update = function(batch, settings)
    advantages = [number if known else None for number, known in zip(update.advantages.tolist(), update.trained)]
    case = {"preset": preset, "fixture": fixture, "overrides": overrides, "advantages": nested(batch, advantages),
            "loss": update.loss.item(), "gradient": nested(batch, gradient_of(update.loss, batch.current))}
    if episodes is not None:
        case["episodes"] = episodes
    of_entropy = gradient_of(update.loss, batch.entropy_now)
    if any(of_entropy):
        case["entropy_gradient"] = nested(batch, of_entropy)
    if update.value_loss is not None:
        case["value_loss"] = update.value_loss.item()
        case["value_gradient"] = nested(batch, gradient_of(update.value_loss, batch.value_now))
    if update.averages_after is not None:
        case["averages_after"] = update.averages_after
    return case


def make_cases(fixtures):
    """Every preset on its fixture, then the extra cases."""
    # These have separate fixtures: pairs, labelled episodes, and a teacher.
    files = {file.stem for file in FOLDER.glob("*.toml")} - {"dpo", "kto", "distill"}
    assert set(PRESETS) == set(CONSTANTS) == files, "every preset has its function and its constants"
    cases = []
    for preset, function in sorted(PRESETS.items()):
        names = ["duo"] if preset in DUO_ONLY else ["solo", "duo"] if preset in DUO_TOO else ["solo"]
        cases += [make_case(fixtures, preset, name, REQUIRED.get(preset, {}), function) for name in names]
    return cases + [make_case(fixtures, *case) for case in extra_cases() + minibatch_cases()]


def make_pairs():
    """DPO: the chosen answer should gain on the rejected one, each relative to the reference."""
    beta, losses, pairs = PREFERENCES["dpo"]["surrogate"]["beta"], [], []
    for lengths in [(2, 3), (4, 1), (3, 3)]:
        pair = {"chosen": random_tokens(lengths[0], "reference"), "rejected": random_tokens(lengths[1], "reference")}
        gains = {side: (tokens["current"] - tokens["reference"]).sum() for side, tokens in pair.items()}
        losses.append(-torch.nn.functional.logsigmoid(beta * (gains["chosen"] - gains["rejected"])))
        pairs.append(pair)
    loss = torch.stack(losses).mean()
    return {"beta": beta, "loss": loss.item(),
            "pairs": [{side: rows(tokens) for side, tokens in pair.items()} for pair in pairs],
            "gradients": [{side: gradient_of(loss, tokens["current"]) for side, tokens in pair.items()}
                          for pair in pairs]}


def make_unpaired():
    """KTO: desirable answers should gain on a reference point and others lose, each relative to the reference."""
    cases = []
    for beta, desirable, undesirable, point in [(PREFERENCES["kto"]["surrogate"]["beta"], 1.0, 1.0, 0.0), (0.5, 1.0, 1.5, 0.35)]:
        losses, episodes, gained = [], [], {True: [], False: []}
        for length, reward in [(2, 1.0), (3, 0.0), (4, 0.5), (1, -1.0), (3, 1.0)]:
            tokens = random_tokens(length, "reference")
            gain = (tokens["current"] - tokens["reference"]).sum()
            is_good = reward > 0
            value = torch.sigmoid(beta * (gain - point) if is_good else beta * (point - gain))
            losses.append((desirable if is_good else undesirable) * (1 - value))
            gained[is_good].append(beta * gain.item())
            episodes.append((reward, tokens))
        loss = torch.stack(losses).mean()
        cases.append({"preset": not cases, "beta": beta, "desirable": desirable, "undesirable": undesirable,
                      "reference_point": point, "loss": loss.item(),
                      "better_reward": sum(gained[True]) / 3, "worse_reward": sum(gained[False]) / 2,
                      "episodes": [{"reward": reward, "tokens": rows(tokens),
                                    "gradient": gradient_of(loss, tokens["current"])} for reward, tokens in episodes]})
    return cases


def make_distillation():
    """On-policy distillation: a token's advantage is the teacher's log-probability minus the student's."""
    low, high, losses = 0.2, 0.2, []
    episodes = [random_tokens(length, "behaviour", "teacher") for length in (3, 5, 1)]
    advantages = [tokens["teacher"] - tokens["behaviour"] for tokens in episodes]
    for tokens, advantage in zip(episodes, advantages):
        ratios = torch.exp(tokens["current"] - tokens["behaviour"])
        losses.append(-torch.minimum(ratios * advantage, ratios.clamp(1 - low, 1 + high) * advantage).mean())
    loss = torch.stack(losses).mean()
    return {"low": low, "high": high, "episodes": [rows(tokens) for tokens in episodes],
            "advantages": [advantage.tolist() for advantage in advantages], "loss": loss.item(),
            "gradients": [gradient_of(loss, tokens["current"]) for tokens in episodes]}


def make_distributions():
    """Divergence of a policy's distributions from a teacher's, whole or over the teacher's most probable tokens."""
    random = numpy.random.default_rng(17)
    own, others = (numpy.round(2 * random.normal(size=(5, 9)), 4) for _ in range(2))
    weights, cases = torch.tensor([0.3, 0.1, 0.25, 0.05, 0.3]), []
    for direction in ("forward", "reverse"):
        for top_k in (None, 4):
            logits = torch.tensor(own, requires_grad=True)
            policy, teacher = torch.softmax(logits, -1), torch.softmax(torch.tensor(others), -1)
            if top_k:
                places = torch.argsort(teacher, dim=-1, descending=True)[:, :top_k]
                policy, teacher = (rows.gather(-1, places) for rows in (policy, teacher))
                policy, teacher = (rows / rows.sum(-1, keepdim=True) for rows in (policy, teacher))
            one, other = (teacher, policy) if direction == "forward" else (policy, teacher)
            divergences = (one * torch.log(one / other)).sum(-1)
            cases.append({"direction": direction, "top_k": top_k, "divergences": divergences.tolist(),
                          "gradient": gradient_of((weights * divergences).sum(), logits)})
    return {"policy": own.tolist(), "teacher": others.tolist(), "weights": weights.tolist(), "cases": cases}


def random_tokens(count, *others):
    """Log-probabilities of some tokens under the current weights and under similar ones."""
    current = torch.round(-2 - 2 * torch.rand(count), decimals=6)
    near = {name: torch.round(current + 0.3 * torch.randn(count), decimals=6) for name in others}
    return {"current": current.requires_grad_()} | near


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(13)
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    fixtures = make_fixtures()
    cases = make_cases(fixtures) + make_tree_cases(fixtures, make_case)
    numbers = {"fixtures": fixtures, "cases": cases, "pairs": make_pairs(), "regression": make_regression(random_tokens),
               "distillation": make_distillation(), "replay": make_replay(fixtures["solo"]),
               "replies": make_replies(fixtures["tree"]), "paths": make_paths(fixtures["tree"]), "distributions": make_distributions(),
               "unpaired": make_unpaired(), "constants": CONSTANTS | PREFERENCES}
    (folder / "algorithms.json").write_text(json.dumps(numbers) + "\n")
