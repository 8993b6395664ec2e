#!/usr/bin/env python3
"""Makes numbers for whole training steps: from records of episodes to the parameters after AdamW.

make_step_goldens.py FOLDER writes FOLDER/steps.json. The model is tests/golden/qwen2-tied, by transformers in double
precision; advantages and losses are those of the presets' functions. `updates` has three numbers for each parameter: the
norm of its change, and the products of the change with cos(0), cos(1), cos(2) … and with sin(0), sin(0.7), sin(1.4) …
`average` has the same numbers for the moving average of the weights. A setting "off" removes one of the preset."""
import dataclasses
import json
import pathlib
import sys

import numpy
import torch
import transformers

from algorithm_batch import Batch, k3, sequence_weights
from algorithm_constants import CONSTANTS, PREFERENCES
from algorithm_presets import PRESETS
from algorithm_steps import arpo_once

GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "golden"
MODEL = "qwen2-tied"
OPTIMIZER = {"learning_rate": 0.01, "beta1": 0.9, "beta2": 0.95, "epsilon": 1e-3, "weight_decay": 0.1,
             "gradient_clip": 1.0}
CRITIC = {"level": "token", "discount": 0.9, "lambda": 0.8, "learning_rate": 0.02, "warmup_steps": 0, "clip": 0.2,
          "bootstrap": True}
FINISHED = ("terminated", "environment-failed")

# An episode is its ending, its reward, and its turns: rewards, states, and numbers of given and sampled tokens.
PLAIN = [[("terminated", 1.0, "0a:2+3 0b:2+2"), ("terminated", 0.0, "0a:2+2 1c:1+3"), ("turn-limit", 0.5, "0a:2+4")],
         [("terminated", 0.2, "0a:3+2 0b:1+3"), ("truncated", 0.9, "0d:3+3"), ("terminated", 0.0, "0a:3+2 0b:1+1")]]
# The second episode begins with the first turn of the first one.
TREE = [[("terminated", 1.0, "0a:2+3 0b:2+2"), ("terminated", -0.5, "0a:2+3 0b:2+4"), ("terminated", 0.0, "0a:2+2")]]
STEPS, EPOCHS = 2, 2


@dataclasses.dataclass
class Case:
    """A training: `overrides` are flags of the algorithm, `optimizer` settings of the optimiser."""
    preset: str
    shape: list
    overrides: dict = dataclasses.field(default_factory=dict)
    optimizer: dict = dataclasses.field(default_factory=dict)
    demonstrations: dict | None = None
    teacher: str | None = None
    steps: int = STEPS


def linear(to, over):
    """A schedule along a line from the first step on."""
    return {"shape": "linear", "to": to, "begin": 0, "over": over}


def distil(direction, **more):
    """Flags of the divergence from a teacher's distributions."""
    return {"credit": {"kind": "episode"}, "ratio": "off",
            "surrogate": {"kind": "distillation", "direction": direction} | more}


K3 = {"beta": 0.04, "estimator": "k3", "place": "loss"}
GROUPS = [{"of": ["embeddings"], "rate": 0.5}, {"of": ["norms", "biases"], "rate": 2.0, "weight_decay": 0.3},
          {"of": ["matrices"], "weight_decay": 0.02}]
CASES = [Case("grpo", PLAIN), Case("gigpo", PLAIN), Case("mini-o3", PLAIN), Case("arpo", TREE),
         Case("ppo", PLAIN, {"critic": CRITIC, "minibatches": 1}),
         Case("grpo", PLAIN, {"kl": K3 | {"schedule": linear(0.4, 2)}}, steps=3),
         Case("grpo", PLAIN, {"kl": K3 | {"adaptive": {"target": 0.5, "horizon": 8.0}}}, steps=3),
         Case("ppo", PLAIN, {"critic": CRITIC | {"schedule": linear(0.005, 1)}, "minibatches": 1}, steps=3),
         Case("grpo", PLAIN, optimizer={"groups": GROUPS, "ema": 0.6}),
         Case("loop", PLAIN, demonstrations={"batch": 3, "weight": 0.5, "schedule": linear(0.1, 1)}),
         Case("distill", PLAIN, distil("reverse"), teacher="qwen2-untied"),
         Case("distill", PLAIN, distil("forward", top_k=20), teacher="qwen2-untied"),
         Case("dpo", PLAIN), Case("kto", PLAIN, steps=3)]
# Demonstrations, in the form of the episodes.
SHOWN = [("terminated", 1.0, "0a:2+3 0b:1+2"), ("terminated", 1.0, "0c:3+2"), ("terminated", 1.0, "0d:1+4")]


class Policy(torch.nn.Module):
    """The golden model in double precision, with a head for values if it is a critic."""

    def __init__(self, with_head=False, name=MODEL):
        super().__init__()
        self.model = transformers.AutoModelForCausalLM.from_pretrained(GOLDEN / name, dtype=torch.float64)
        self.head = torch.nn.Parameter(torch.zeros(1, self.model.config.hidden_size)) if with_head else None

    def distributions(self, tokens, targets):
        """Log-probabilities of all tokens at the targets."""
        return self.model(torch.tensor([tokens])).logits[0].log_softmax(-1)[[at - 1 for at in targets]]

    def log_probs(self, tokens, targets):
        """Log-probabilities of the tokens at the targets."""
        return self.distributions(tokens, targets)[range(len(targets)), [tokens[at] for at in targets]]

    def values(self, tokens, targets):
        """Values before the targets; a target may be the position after the last token."""
        hidden = self.model.model(torch.tensor([tokens])).last_hidden_state[0]
        return (hidden @ self.head[0])[[at - 1 for at in targets]]

    def optimizer(self, learning_rate, groups=()):
        """AdamW with a group for each parameter. Without other groups, the decay leaves out norms, biases and embeddings."""
        chosen = {kind: group for group in groups for kind in group["of"]}
        settings = []
        for name, parameter in self.named_parameters():
            kind = kind_of(name, parameter)
            group = chosen.get(kind, {})
            decay = group.get("weight_decay", OPTIMIZER["weight_decay"] if kind in ("matrices", "value-head") else 0.0)
            settings.append({"params": [parameter], "lr": learning_rate * group.get("rate", 1.0), "weight_decay": decay})
        return torch.optim.AdamW(settings, betas=(OPTIMIZER["beta1"], OPTIMIZER["beta2"]), eps=OPTIMIZER["epsilon"])


def kind_of(name, parameter):
    """Kind of a parameter."""
    if name.endswith("embed_tokens.weight"):
        return "embeddings"
    if name == "head":
        return "value-head"
    if parameter.dim() > 1:
        return "matrices"
    return "biases" if name.endswith(".bias") else "norms"


def step(module, optimizer, loss):
    """One optimiser step with clipped gradients."""
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(module.parameters(), OPTIMIZER["gradient_clip"])
    optimizer.step()


# Records.

def make_episode(random, policy, ending, reward, shape, owner):
    """A record: pieces of given and of sampled tokens, with the policy's log-probabilities and a little noise."""
    tokens, pieces, turns = [1], [{"given": [1], "turn": 0}], []
    for number, (state, counts) in enumerate(part.split(":") for part in shape.split()):
        given, sampled = (int(count) for count in counts.split("+"))
        if owner and number == 0:
            new, words = owner["pieces"][1]["given"], owner["pieces"][2]["sampled"]
        else:
            new, words = (random.integers(3, 200, count).tolist() for count in (given, sampled))
        tokens += new + words
        targets = list(range(len(tokens) - len(words), len(tokens)))
        noise = numpy.round(random.normal(0, 0.1, len(words)), 6)
        with torch.no_grad():
            log_probs = (policy.log_probs(tokens, targets) + torch.tensor(noise)).tolist()
        if owner and number == 0:
            log_probs = owner["pieces"][2]["log_probs"]
        pieces += [{"given": new, "turn": number},
                   {"sampled": words, "log_probs": [round(each, 6) for each in log_probs], "turn": number}]
        turns.append({"state": f"{state:0>16}", "reward": round(float(random.normal(0, 0.3)), 3)})
    record = {"ending": ending, "reward": reward, "pieces": pieces, "turns": turns}
    if owner:
        record["turns"][0]["reward"] = owner["turns"][0]["reward"]
        record["shares"] = {"episode": 0, "turns": 1}
    return record


def make_records(seed, policy, shape):
    """Groups of records."""
    random, groups = numpy.random.default_rng(seed), []
    for episodes in shape:
        group = []
        for number, (ending, reward, turns) in enumerate(episodes):
            owner = group[0] if shape is TREE and number == 1 else None
            group.append(make_episode(random, policy, ending, reward, turns, owner))
        groups.append(group)
    return groups


def sequence(record):
    """All tokens of a record, and the targets of each turn."""
    tokens, targets = [], [[] for _ in record["turns"]]
    for piece in record["pieces"]:
        words = piece.get("given", piece.get("sampled"))
        if "sampled" in piece:
            targets[piece["turn"]] += range(len(tokens), len(tokens) + len(words))
        tokens += words
    return tokens, targets


# Steps.

def fixture_of(records, reference, critic):
    """The records as a batch of the presets' functions, with the sequences of its tokens."""
    groups, sequences = [], []
    for group in records:
        groups.append([])
        for record in group:
            tokens, targets = sequence(record)
            shared = record.get("shares", {}).get("turns", 0)
            own = sum(targets[shared:], [])
            sequences.append((tokens, own))
            behaviour = sum((piece["log_probs"] for piece in record["pieces"] if piece.get("turn", 0) >= shared
                             and "log_probs" in piece), [])
            with torch.no_grad():
                known = reference.log_probs(tokens, own).tolist()
                values = critic.values(tokens, own + [own[-1] + 1]).tolist() if critic else [0.0] * (len(own) + 1)
            rows = [{"behaviour": old, "proximal": old, "current": old, "reference": of_reference, "entropy": 0.0,
                     "value": value, "value_now": value, "version": 0}
                    for old, of_reference, value in zip(behaviour, known, values)]
            is_finished, turns = record["ending"] in FINISHED, []
            for number, turn in enumerate(record["turns"]):
                count = 0 if number < shared else len(targets[number])
                turns.append({"reward": turn["reward"], "gain": 0.0, "anchor": turn["state"], "void": False,
                              "tokens": rows[:count]})
                rows = rows[count:]
            seat = {"reward": record["reward"], "turns": turns, "end_value": 0.0 if is_finished else values[-1]}
            seat |= {"shares": record["shares"]} if shared else {}
            groups[-1].append({"finished": is_finished, "seats": [seat]})
    return {"groups": groups, "history": [], "averages": []}, sequences


def at(start, schedule, number):
    """A scheduled number in a step: along a line, then constant."""
    return start if schedule is None else start + (schedule["to"] - start) * min(number / schedule["over"], 1.0)


def adapted(kl, beta, divergence, episodes):
    """The penalty's weight after a step (Ziegler et al. 2019)."""
    error = min(max(divergence / kl["adaptive"]["target"] - 1, -0.2), 0.2)
    return beta * (1 + error * episodes / kl["adaptive"]["horizon"])


def distillation(policy, teacher, batch, sequences, surrogate):
    """Mean over episodes of the mean divergence of the distributions at their tokens."""
    divergences = []
    for each in sequences:
        own, others = policy.distributions(*each), teacher.distributions(*each).detach()
        if "top_k" in surrogate:
            places = others.topk(surrogate["top_k"], dim=-1).indices
            own, others = (rows.gather(-1, places).log_softmax(-1) for rows in (own, others))
        if surrogate["direction"] == "forward":
            own, others = others, own
        divergences.append((own.exp() * (own - others)).sum(-1))
    return (sequence_weights(batch, batch.everything) * torch.cat(divergences)).sum()


def log_ratio(policy, reference, tokens, targets):
    """Sum over the targets of the log-ratios to the reference policy."""
    return (policy.log_probs(tokens, targets) - reference.log_probs(tokens, targets).detach()).sum()


def preference(policy, reference, records, beta):
    """DPO: the mean over all pairs of a group with different rewards."""
    losses = []
    for group in records:
        own = [(record["reward"], log_ratio(policy, reference, *flat(record))) for record in group]
        losses += [-torch.nn.functional.logsigmoid(beta * (better - worse))
                   for high, better in own for low, worse in own if high > low]
    return torch.stack(losses).mean()


def unpaired_preference(policy, reference, records, settings):
    """KTO: the reference point is the mean log-ratio of replies after the prompts of the group before theirs."""
    losses, groups = [], [[(record["reward"] > 0, *flat(record)) for record in group] for group in records]
    episodes = [episode for group in groups for episode in group]
    longest = max(len(tokens) for _, tokens, _ in episodes)
    unrelated = [(one, following[place % len(following)]) for group, following in zip(groups, groups[1:] + groups[:1])
                 for place, one in enumerate(group)]
    with torch.no_grad():
        points = []
        for (_, own, first), (_, other, targets) in unrelated:
            moved = [each - targets[0] + first[0] for each in targets]
            moved = [each for each in moved if each < longest]
            spliced = (own[:first[0]] + other[targets[0]:])[:longest]
            points.append(log_ratio(policy, reference, spliced, moved))
        point = torch.stack(points).mean().clamp(min=0)
    for is_desirable, tokens, targets in episodes:
        gain = settings["beta"] * (log_ratio(policy, reference, tokens, targets) - point)
        weight = settings["desirable" if is_desirable else "undesirable"]
        losses.append(weight * (1 - torch.sigmoid(gain if is_desirable else -gain)))
    return torch.stack(losses).mean()


def flat(record):
    """All tokens of a record, and all targets."""
    tokens, targets = sequence(record)
    return tokens, sum(targets, [])


def imitation(policy, records):
    """Mean negative log-probability of the tokens that the demonstrations sampled."""
    shown = [sequence(record) for record in records]
    return -torch.cat([policy.log_probs(tokens, sum(targets, [])) for tokens, targets in shown]).mean()


def train(case, seed):
    """Records, and the changes of all parameters."""
    policy, reference = Policy(), Policy()
    teacher = Policy(name=case.teacher) if case.teacher else None
    critic = Policy(with_head=True) if "critic" in CONSTANTS.get(case.preset, {}) else None
    records, settings = make_records(seed, policy, case.shape), CONSTANTS.get(case.preset, {}) | case.overrides
    optimizer = policy.optimizer(OPTIMIZER["learning_rate"], case.optimizer.get("groups", ()))
    critics = critic.optimizer(CRITIC["learning_rate"]) if critic else None
    average = {name: each.detach().clone() for name, each in policy.model.named_parameters()}
    shown = make_records(100 + seed, policy, [SHOWN])[0] if case.demonstrations else []
    function = arpo_once if case.shape is TREE else PRESETS.get(case.preset)
    kl, demonstrations = settings.get("kl", {}), case.demonstrations or {}
    beta = kl.get("beta")
    for number in range(case.steps):
        fixture, sequences = fixture_of(records, reference, critic)
        if "adaptive" not in kl:
            beta = at(kl.get("beta"), kl.get("schedule"), number)
        now = settings | ({"kl": kl | {"beta": beta}} if kl else {})
        if critic:
            rate = at(CRITIC["learning_rate"], settings["critic"].get("schedule"), number)
            for group in critics.param_groups:
                group["lr"] = rate
        measured = []
        for _ in range(EPOCHS):
            batch = Batch(fixture)
            if critic:
                batch.value_now = torch.cat([critic.values(*each) for each in sequences])
            batch.current = torch.cat([policy.log_probs(*each) for each in sequences])
            if case.preset == "dpo":
                loss = preference(policy, reference, records, PREFERENCES["dpo"]["surrogate"]["beta"])
            elif case.preset == "kto":
                constants = PREFERENCES["kto"]["surrogate"] | {"desirable": 1.0, "undesirable": 1.0}
                loss = unpaired_preference(policy, reference, records, constants)
            elif teacher:
                loss = distillation(policy, teacher, batch, sequences, settings["surrogate"])
            else:
                update = function(batch, now)
                loss = update.loss
            measured.append(k3(batch.current, batch.reference).mean().item())
            if critic:
                step(critic, critics, update.value_loss)
            if shown:
                weight = at(demonstrations["weight"], demonstrations["schedule"], number)
                loss = loss + weight * imitation(policy, shown)
            step(policy, optimizer, loss)
            for name, each in policy.model.named_parameters():
                average[name].lerp_(each.detach(), 1 - case.optimizer.get("ema", 0.0))
        if "adaptive" in kl:
            beta = adapted(kl, beta, sum(measured) / len(measured), sum(map(len, records)))
    begun = dict(reference.model.named_parameters())
    updates = {name: numbers_of((each - begun[name]).detach()) for name, each in policy.model.named_parameters()}
    found = {"preset": case.preset, "overrides": case.overrides, "groups": records, "updates": updates}
    if case.steps != STEPS:
        found["steps"] = case.steps
    if case.optimizer:
        found["optimizer"] = OPTIMIZER | case.optimizer
        found["average"] = {name: numbers_of((each - begun[name]).detach()) for name, each in average.items()}
    if shown:
        found["demonstrations"] = {"settings": case.demonstrations, "records": shown}
    if teacher:
        found["teacher"] = case.teacher
    return found


def numbers_of(change):
    """The norm of a change, and its products with two waves."""
    places = torch.arange(change.numel(), dtype=torch.float64)
    return [change.norm().item(), (change.flatten() * torch.cos(places)).sum().item(),
            (change.flatten() * torch.sin(0.7 * places)).sum().item()]


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    cases = [train(case, seed) for seed, case in enumerate(CASES)]
    numbers = {"model": MODEL, "optimizer": OPTIMIZER, "steps": STEPS, "epochs": EPOCHS, "cases": cases}
    (folder / "steps.json").write_text(json.dumps(numbers) + "\n")
