"""Batches for the presets: "solo" with one seat, "duo" with two, and others for single flags.

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

# Few cases of each kind: a group of one episode, a group of equal rewards with episodes of unequal length, and a group
# whose second episode was cut short.
MIXED = [[["a2 b3"]], [["a1"], ["a1 b4"], ["a3 b2 c3"]], [["a1 b2"], ["a3 b2"], ["a2"]]]
MIXED_REWARDS = [[[0.7]], [[0.5], [0.5], [0.5]], [[1.0], [0.0], [0.3]]]
MIXED_UNFINISHED = (2, 1)

# A tree: the second episode shares the first turn of the first one, the third episode its first two turns.
TREE = [[["a2 b3 c1"], ["a2 b2"], ["a2 b3 d2"], ["a1 b2"]], [["a1 b1"], ["a2"]]]
TREE_REWARDS = [[[1.0], [-0.5], [0.25], [0.0]], [[0.5], [1.0]]]
TREE_SHARES = {(0, 1): {"episode": 0, "turns": 1}, (0, 2): {"episode": 0, "turns": 2}}

# Turns of each context of two episodes of "solo".
CONTEXTS = {(0, 2): [2, 2], (1, 1): [1, 3]}

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
        tokens = [make_token(random, 3 + place[3] // 2, place[:3] in QUIET.get(name, ()),
                             LOUD.get(name, {}).get((*place, token)))
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


def with_equal_rewards(fixture):
    """The fixture with the same reward for every episode, and none for turns."""
    for trajectory in trajectories(fixture):
        trajectory["reward"] = 0.5
        for turn in trajectory["turns"]:
            turn |= {"reward": 0.0, "gain": 0.0}
    return fixture


def with_unfinished(fixture, place):
    """The fixture with one episode cut short, which a critic values with 0.6 after its last token."""
    episode = fixture["groups"][place[0]][place[1]]
    episode["finished"] = False
    episode["seats"][0]["end_value"] = 0.6
    return fixture


def with_contexts(fixture):
    """The fixture with two episodes whose context was replaced."""
    for (group, episode), turns in CONTEXTS.items():
        fixture["groups"][group][episode]["seats"][0]["contexts"] = turns
    return fixture


def with_zero_gains(fixture):
    """The fixture without a reward in two turns before the last."""
    for group, episode, turn in ((0, 2, 1), (1, 1, 0)):
        fixture["groups"][group][episode]["seats"][0]["turns"][turn] |= {"reward": 0.0, "gain": 0.0}
    return fixture


def with_cut_replies(fixture):
    """The fixture with three replies that a limit of tokens cut, two of them in one episode."""
    for group, episode, turn in ((0, 1, 1), (1, 1, 0), (1, 1, 3)):
        fixture["groups"][group][episode]["seats"][0]["turns"][turn]["cut"] = True
    return fixture


def with_shares(fixture):
    """The fixture with the turns of a tree that an earlier episode owns."""
    for (group, episode), shares in TREE_SHARES.items():
        seats = fixture["groups"][group]
        own, owner = seats[episode]["seats"][0], seats[shares["episode"]]["seats"][0]
        own["shares"] = shares
        own["turns"][:shares["turns"]] = [turn | {"tokens": []} for turn in owner["turns"][:shares["turns"]]]
    return fixture


def trajectories(fixture):
    """All trajectories of a fixture."""
    return [seat for group in fixture["groups"] for episode in group for seat in episode["seats"]]


def make_fixtures():
    """All batches."""
    def solo():
        return make_fixture("solo", 122, SOLO, SOLO_REWARDS)

    return {"solo": solo(), "duo": make_fixture("duo", 29, DUO, DUO_REWARDS),
            "mixed": with_unfinished(make_fixture("mixed", 7, MIXED, MIXED_REWARDS), MIXED_UNFINISHED),
            "tree": with_shares(make_fixture("tree", 11, TREE, TREE_REWARDS)),
            "contexts": with_contexts(solo()), "zeros": with_zero_gains(solo()), "equal": with_equal_rewards(solo()),
            "cut": with_cut_replies(solo())}
