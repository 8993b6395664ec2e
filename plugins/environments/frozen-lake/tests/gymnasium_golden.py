"""Writes gymnasium_golden.json: transitions of FrozenLake-v1 and validity of maps, as computed by Gymnasium.

pip install gymnasium==1.4.0 && python gymnasium_golden.py
"""

import json
import pathlib

import gymnasium
import numpy
from gymnasium.envs.toy_text.frozen_lake import MAPS, is_valid


def transitions(name: str, slippery: bool) -> list:
    """Outcomes as [probability, next state, reward, terminated], for each state and action."""
    environment = gymnasium.make("FrozenLake-v1", map_name=name, is_slippery=slippery).unwrapped
    table = environment.P
    return [
        [[[float(p), int(s), float(r), bool(t)] for p, s, r, t in table[state][action]] for action in range(4)]
        for state in range(len(table))
    ]


def boards(seed: int, count: int) -> list:
    """Random boards of several sizes, valid or not."""
    random = numpy.random.default_rng(seed)
    found = []
    for _ in range(count):
        size = int(random.integers(2, 9))
        board = random.choice(["F", "H"], (size, size), p=[0.65, 0.35])
        board[0][0], board[-1][-1] = "S", "G"
        rows = ["".join(row) for row in board]
        found.append({"rows": rows, "valid": bool(is_valid(board.tolist(), size))})
    return found


golden = {
    "gymnasium": gymnasium.__version__,
    "maps": MAPS,
    "turns": {
        name: gymnasium.spec(entry).max_episode_steps
        for name, entry in [("4x4", "FrozenLake-v1"), ("8x8", "FrozenLake8x8-v1")]
    },
    "transitions": {
        f"{name} {'slippery' if slippery else 'firm'}": transitions(name, slippery)
        for name in MAPS
        for slippery in (False, True)
    },
    "boards": boards(0, 60),
}
path = pathlib.Path(__file__).with_name("gymnasium_golden.json")
path.write_text(json.dumps(golden, separators=(",", ":")) + "\n")
