#!/usr/bin/env python3
"""Writes values of two rewards from their papers' formulas: make_reward_goldens.py FOLDER writes FOLDER/rewards.json.

OTC (Wang et al. 2025): the tool reward of both variants. ToolRL (Qian et al. 2025): the matching score S / S_max, with
calls paired like the paper's program (greedily) and optimally (all pairings tried). The algorithms differ from the Rust
code. Needs only Python."""
import itertools
import json
import math
import pathlib
import random
import sys
from collections import Counter
from fractions import Fraction


def otc_ppo(m, c):
    return math.cos(m * math.pi / (2 * m + c))


def otc_grpo(m, n, c):
    if n == 0:
        return 1.0 if m == 0 else otc_ppo(m, c)
    f = 2 * m * n / (m + n)
    return math.sin(f * math.pi / (2 * n))


def pair(expected, made):
    """Common part of two calls of one function: parameter names, and equal values."""
    if expected["name"] != made["name"]:
        return None
    left, right = expected["arguments"], made["arguments"]
    either = set(left) | set(right)
    names = Fraction(len(set(left) & set(right)), len(either)) if either else Fraction(1)
    return names + sum(1 for name in left if name in right and left[name] == right[name])


def name_share(expected, made):
    left, right = Counter(call["name"] for call in expected), Counter(call["name"] for call in made)
    return Fraction((left & right).total(), (left | right).total())


def greedy(expected, made):
    left, total = list(made), Fraction(0)
    for wanted in expected:
        scores = [pair(wanted, call) for call in left]
        known = [score for score in scores if score]
        if known:
            total += max(known)
            left.pop(scores.index(max(known)))
    return total


def best(expected, made):
    places = list(range(len(made))) + [None] * len(expected)
    tries = set(itertools.permutations(places, len(expected)))
    sums = (sum((pair(wanted, made[place]) or Fraction(0) for wanted, place in zip(expected, one) if place is not None),
                Fraction(0)) for one in tries)
    return max(sums)


def toolrl(expected, made):
    most = 1 + sum(1 + len(call["arguments"]) for call in expected)
    shares = [(name_share(expected, made) + score(expected, made)) / most for score in (best, greedy)]
    return {"expected": expected, "made": made, "best": float(shares[0]), "greedy": float(shares[1])}


def a_call(draw):
    names = draw.sample(["x", "y", "z"], draw.randint(0, 3))
    return {"name": draw.choice("fg"), "arguments": {name: draw.choice([2, 3, "one", True, None, [2]]) for name in names}}


def changed(draw, call):
    """A call of the same function with some changes."""
    arguments = {name: value for name, value in call["arguments"].items() if draw.random() < 0.8}
    for name in arguments:
        if draw.random() < 0.3:
            arguments[name] = "other"
    return {"name": call["name"], "arguments": arguments}


def main():
    draw = random.Random(8)
    # True equals 1 in Python but not in JSON, so no value here is 1.
    cases = []
    for _ in range(150):
        expected = [a_call(draw) for _ in range(draw.randint(1, 3))]
        kept = [changed(draw, call) for call in expected if draw.random() < 0.8]
        made = kept + [a_call(draw) for _ in range(draw.randint(0, 2))]
        draw.shuffle(made)
        cases.append(toolrl(expected, made))
    otc = [{"calls": m, "fewest": n, "smoothness": c, "ppo": otc_ppo(m, c), "grpo": otc_grpo(m, n, c)}
           for m in (0, 1, 2, 3, 5, 8, 40) for n in (0, 1, 2, 3, 7, 30) for c in (0.5, 1.0, 4.0)]
    pathlib.Path(sys.argv[1]).mkdir(parents=True, exist_ok=True)
    pathlib.Path(sys.argv[1], "rewards.json").write_text(json.dumps({"otc": otc, "toolrl": cases}) + "\n")


main()
