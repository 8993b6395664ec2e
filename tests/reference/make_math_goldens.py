#!/usr/bin/env python3
"""Writes pairs of answers that SymPy finds equal or not: make_math_goldens.py FOLDER writes FOLDER/math-verify.json.

Expressions are random and written in LaTeX, unchanged and as SymPy rewrites them (expanded, factored, over one
denominator, with trigonometry rewritten). The unequal counterpart differs by a sign, a factor or a term, and SymPy finds
a point at which its value differs. Needs SymPy."""
import json
import pathlib
import random
import sys

import sympy
from sympy import Integer, Rational, cos, exp, log, pi, sin, sqrt, symbols

X, Y = symbols("x y", positive=True)
POINTS = [{X: Rational(7, 5), Y: Rational(11, 3)}, {X: Rational(13, 4), Y: Rational(2, 7)}]


def latex(expression):
    return sympy.latex(expression, ln_notation=True)


def number(draw):
    root = sqrt(draw.choice([2, 3, 6, 8, 12]))
    return draw.choice([Integer(draw.randint(1, 12)), Rational(draw.randint(1, 9), draw.randint(2, 7)), root, pi])


def polynomial(draw):
    terms = [draw.randint(-5, 5) * X ** draw.randint(0, 3) * Y ** draw.randint(0, 2) for _ in range(3)]
    return sum(terms) + draw.randint(1, 9)


def constants(draw):
    one, other = number(draw) + number(draw), number(draw) * number(draw) + 1
    whole = draw.choice([one * other, one / other, (one + other) ** 2, one / 3 - other])
    return whole, [sympy.expand(whole), sympy.radsimp(whole), sympy.together(whole)]


def rational(draw):
    one, other, third = polynomial(draw), polynomial(draw), polynomial(draw)
    squares = one * other - third ** 2
    whole = draw.choice([one * other, one / other + third, squares, (one + other) ** 3, one / (other * third)])
    return whole, [sympy.expand(whole), sympy.factor(whole), sympy.together(whole), sympy.apart(whole, X)]


def transcendental(draw):
    waves = [sin(2 * X), cos(2 * X), sin(X + Y), cos(X - Y), sin(X) ** 2]
    one = draw.choice(waves + [exp(X + Y), exp(2 * X), log(X * Y), log(X / Y)])
    whole = draw.randint(2, 5) * one + draw.choice([X, Y ** 2, Integer(1), sin(X) * cos(X)])
    expanded = sympy.expand_trig(sympy.expand_log(sympy.expand(whole)))
    return whole, [expanded, sympy.factor(whole), whole.rewrite(cos) if whole.has(sin) else whole]


def other(draw, whole):
    return draw.choice([whole + Rational(1, 7), whole * Rational(8, 7), -whole, whole + X / 9, whole ** 2 + 1])


def differs(one, two):
    return any(abs((one - two).subs(point).evalf(40)) > Rational(1, 10 ** 6) for point in POINTS)


def main():
    draw, cases = random.Random(12), []
    for make, count in ((constants, 60), (rational, 70), (transcendental, 50)):
        made = 0
        while made < count:
            whole, forms = make(draw)
            form = draw.choice([form for form in forms if form != whole] or [whole])
            twin = other(draw, form)
            if whole.has(sympy.zoo, sympy.nan) or not differs(whole, twin) or differs(whole, form):
                continue
            cases.append({"wanted": latex(whole), "equal": latex(form), "unequal": latex(twin)})
            made += 1
    pathlib.Path(sys.argv[1]).mkdir(parents=True, exist_ok=True)
    pathlib.Path(sys.argv[1], "math-verify.json").write_text(json.dumps(cases) + "\n")


main()
