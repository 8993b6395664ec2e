#!/usr/bin/env python3
"""Makes values and exploitabilities of Kuhn poker strategies by brute force over all pure strategies, in fractions.

make_kuhn_goldens.py FOLDER writes FOLDER/kuhn-poker.json. The algorithm differs from the Rust code: a best response is the best
of the 64 ways to bet or pass in a player's six information sets, each played out against every deal. Needs nothing
but Python."""
import itertools
import json
import pathlib
import random
import sys
from fractions import Fraction

SETS = [["J", "Q", "K", "Jpb", "Qpb", "Kpb"], ["Jp", "Qp", "Kp", "Jb", "Qb", "Kb"]]
ENDS = {"pp": 1, "bb": 2, "pbb": 2}


def payoff(cards, history):
    """Gain of the first player, in antes."""
    if history == "bp":
        return 1
    if history == "pbp":
        return -1
    return ENDS[history] * (1 if "JQK".index(cards[0]) > "JQK".index(cards[1]) else -1)


def value(first, second):
    """Mean gain of the first player over all deals, given the betting probabilities of each information set."""
    def play(cards, history, chance):
        if history in ("pp", "bb", "pbb", "bp", "pbp"):
            return chance * payoff(cards, history)
        player = len(history) % 2
        bet = (first, second)[player][cards[player] + history]
        return play(cards, history + "p", chance * (1 - bet)) + play(cards, history + "b", chance * bet)
    return sum(play(cards, "", Fraction(1, 6)) for cards in itertools.permutations("JQK", 2))


def pure(player):
    for choice in itertools.product([Fraction(0), Fraction(1)], repeat=6):
        yield dict(zip(SETS[player], choice))


def measure(strategy):
    responses = [max(value(mine, strategy) for mine in pure(0)), max(-value(strategy, mine) for mine in pure(1))]
    own = value(strategy, strategy)
    return {
        "bets": {name: float(bet) for name, bet in strategy.items()},
        "value": float(own),
        "best_responses": [float(response) for response in responses],
        "exploitability": float(sum(responses) / 2),
    }


def equilibrium(alpha):
    third = Fraction(1, 3)
    first = {"J": alpha, "Q": Fraction(0), "K": 3 * alpha, "Jpb": Fraction(0), "Qpb": alpha + third, "Kpb": Fraction(1)}
    second = {"Jp": third, "Qp": Fraction(0), "Kp": Fraction(1), "Jb": Fraction(0), "Qb": third, "Kb": Fraction(1)}
    return first | second


def main():
    names = SETS[0] + SETS[1]
    draw = random.Random(5)
    cases = {"uniform": [measure(dict.fromkeys(names, Fraction(1, 2)))]}
    cases["always"] = [measure(dict.fromkeys(names, Fraction(bet))) for bet in (0, 1)]
    cases["equilibria"] = [measure(equilibrium(Fraction(twelfths, 12))) for twelfths in range(5)]
    cases["random"] = [measure({name: Fraction(draw.randint(0, 16), 16) for name in names}) for _ in range(12)]
    pathlib.Path(sys.argv[1], "kuhn-poker.json").write_text(json.dumps(cases) + "\n")


main()
