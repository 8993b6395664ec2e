"""Batches for the presets: "solo" with one seat, "duo" with two.

A trajectory is a list of turns with anchor and number of tokens: "a2 b3" is a turn of two tokens that begins
with observation a, then one of three that begins with b."""
import numpy

SOLO = [[["a2 b3"], ["a1 b3 a3"], ["a1 c1 b2 c2"], ["a3 d1"]],
        [["a1 b2"], ["a3 c2 a3 b2"], ["a1 b2 d1"]],
        [["e1 f2"], ["e2 f1"]]]
SOLO_REWARDS = [[[1.0], [0.0], [0.5], [-0.3]], [[0.2], [1.0], [0.0]], [[0.5], [0.5]]]
SOLO_EQUAL_GROUP = 2
SOLO_UNFINISHED = (1, 2)
SOLO_VOID = (0, 1, 0, 1)

DUO = [[["a2 b1", "a1 b2 c1"], ["a1 b3", "a2 b2"], ["a3 b1 c2", "a1 c2"]],
       [["a2 c1 a1", "b2 a1"], ["a2 b2", "b1 b2"], ["a1 c3", "b3 a2 a1"]]]
DUO_REWARDS = [[[0.25, -0.4], [1.0, -1.0], [-0.5, 0.5]], [[0.75, 0.0], [-1.0, 1.0], [0.4, 0.1]]]

# Trajectories (group, episode, seat) with small changes, so that ratios of sequences are near bounds of 3e-4.
QUIET = {"solo": {(0, 0, 0), (0, 3, 0), (1, 0, 0), (2, 0, 0)}, "duo": {(0, 1, 0), (1, 1, 1), (1, 2, 0)}}
# Tokens (group, episode, seat, turn, token) with large changes: from behaviour to proximal, and to current.
LOUD = {"solo": {(0, 2, 0, 1, 0): (-0.9, 0.3), (1, 1, 0, 0, 1): (0.8, 1.0), (0, 1, 0, 2, 0): (0.9, 0.6)},
        "duo": {(0, 1, 1, 0, 0): (0.5, 0.8), (0, 0, 0, 0, 1): (0.2, 1.5)}}

HISTORY = [2.0, 1.1, 0.7, 1.1]
# The first is the first reward of its seat, so that one trajectory of the batch has advantage 0.
AVERAGES = [0.25, -0.1]


def make_token(random, version, quiet, loud):
    """A token whose log-probabilities differ a little: hardly if `quiet`, or by `loud`."""
    scale = 2e-3 if quiet else 1.0
    behaviour = -random.uniform(1.5, 4.5)
    older = numpy.clip(random.normal(0, 0.15), -0.4, 0.4) * scale
    newer = random.normal(0, 0.25) * scale
    older, newer = loud or (older, newer)
    value = random.normal(0.3, 0.4)
    numbers = {"behaviour": behaviour, "proximal": behaviour + older, "current": behaviour + older + newer,
               "reference": behaviour + random.normal(0, 0.3), "entropy": random.uniform(0.1, 2.0), "value": value,
               "value_now": value + random.normal(0, 0.25)}
    return {name: round(float(number), 6) for name, number in numbers.items()} | {"version": version}


def make_fixture(name, seed, episodes_of_groups, rewards):
    """All numbers of a batch from its shape. A key is a tuple: (group, episode, seat, turn, token)."""
    random = numpy.random.default_rng(seed)

    def turn(place, text):
        rewarded = not (name == "solo" and place[0] == SOLO_EQUAL_GROUP)
        tokens = [make_token(random, 3 + place[3] // 2, place[:3] in QUIET[name], LOUD[name].get((*place, token)))
                  for token in range(int(text[1:]))]
        return {"reward": round(float(random.normal(0.1, 0.4) * rewarded), 3) + 0.0,
                "gain": round(float(random.normal(0, 0.2) * rewarded), 3) + 0.0,
                "anchor": text[0], "void": name == "solo" and place == SOLO_VOID, "tokens": tokens}

    def trajectory(place, text):
        turns = [turn((*place, index), part) for index, part in enumerate(text.split())]
        group, episode, seat = place
        return {"reward": rewards[group][episode][seat], "turns": turns}

    def episode(place, seats):
        return {"finished": not (name == "solo" and place == SOLO_UNFINISHED),
                "seats": [trajectory((*place, seat), text) for seat, text in enumerate(seats)]}

    groups = [[episode((group, index), seats) for index, seats in enumerate(episodes)]
              for group, episodes in enumerate(episodes_of_groups)]
    return {"groups": groups, "history": HISTORY, "averages": AVERAGES}


def make_fixtures():
    """Both batches."""
    return {"solo": make_fixture("solo", 122, SOLO, SOLO_REWARDS), "duo": make_fixture("duo", 29, DUO, DUO_REWARDS)}
