#!/usr/bin/env python3
"""Makes numbers for whole training steps: from records of episodes to the parameters after AdamW.

make_step_goldens.py FOLDER writes FOLDER/steps.json. The model is tests/golden/qwen2-tied, by transformers in double
precision; advantages and losses are those of the presets' functions. `updates` has three numbers for each parameter: the
norm of its change, and the products of the change with cos(0), cos(1), cos(2) … and with sin(0), sin(0.7), sin(1.4) …"""
import json
import pathlib
import sys

import numpy
import torch
import transformers

from algorithm_batch import Batch
from algorithm_constants import CONSTANTS
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
CASES = [("grpo", PLAIN, {}), ("gigpo", PLAIN, {}), ("mini-o3", PLAIN, {}), ("arpo", TREE, {}),
         ("ppo", PLAIN, {"critic": CRITIC, "minibatches": 1})]
STEPS, EPOCHS = 2, 2


class Policy(torch.nn.Module):
    """The golden model in double precision, with a head for values if it is a critic."""

    def __init__(self, with_head=False):
        super().__init__()
        self.model = transformers.AutoModelForCausalLM.from_pretrained(GOLDEN / MODEL, dtype=torch.float64)
        self.head = torch.nn.Parameter(torch.zeros(1, self.model.config.hidden_size)) if with_head else None

    def log_probs(self, tokens, targets):
        """Log-probabilities of the tokens at the targets."""
        logits = self.model(torch.tensor([tokens])).logits[0]
        return logits.log_softmax(-1)[[at - 1 for at in targets], [tokens[at] for at in targets]]

    def values(self, tokens, targets):
        """Values before the targets; a target may be the position after the last token."""
        hidden = self.model.model(torch.tensor([tokens])).last_hidden_state[0]
        return (hidden @ self.head[0])[[at - 1 for at in targets]]

    def optimizer(self, learning_rate):
        """AdamW whose decay leaves out norms, biases and embeddings."""
        named = list(self.named_parameters())
        decays = [each for name, each in named if each.dim() > 1 and not name.endswith("embed_tokens.weight")]
        others = [each for name, each in named if each.dim() == 1 or name.endswith("embed_tokens.weight")]
        groups = [{"params": decays, "weight_decay": OPTIMIZER["weight_decay"]}, {"params": others, "weight_decay": 0.0}]
        return torch.optim.AdamW(groups, lr=learning_rate, betas=(OPTIMIZER["beta1"], OPTIMIZER["beta2"]),
                                 eps=OPTIMIZER["epsilon"])


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


def train(preset, shape, overrides, seed):
    """Records, and the changes of all parameters."""
    policy, reference = Policy(), Policy()
    critic = Policy(with_head=True) if "critic" in CONSTANTS[preset] else None
    records, settings = make_records(seed, policy, shape), CONSTANTS[preset] | overrides
    optimizer = policy.optimizer(OPTIMIZER["learning_rate"])
    critics = critic.optimizer(CRITIC["learning_rate"]) if critic else None
    function = arpo_once if shape is TREE else PRESETS[preset]
    for _ in range(STEPS):
        fixture, sequences = fixture_of(records, reference, critic)
        for _ in range(EPOCHS):
            batch = Batch(fixture)
            if critic:
                batch.value_now = torch.cat([critic.values(*each) for each in sequences])
            batch.current = torch.cat([policy.log_probs(*each) for each in sequences])
            update = function(batch, settings)
            if critic:
                step(critic, critics, update.value_loss)
            step(policy, optimizer, update.loss)
    begun = dict(reference.model.named_parameters())
    updates = {name: numbers_of((each - begun[name]).detach()) for name, each in policy.model.named_parameters()}
    return {"preset": preset, "overrides": overrides, "groups": records, "updates": updates}


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
    cases = [train(*case, seed) for seed, case in enumerate(CASES)]
    numbers = {"model": MODEL, "optimizer": OPTIMIZER, "steps": STEPS, "epochs": EPOCHS, "cases": cases}
    (folder / "steps.json").write_text(json.dumps(numbers) + "\n")
