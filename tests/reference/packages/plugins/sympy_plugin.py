"""Integrals, checked by differentiation."""

import sympy
from gymkhana_sdk import Environment, Mistake, NotFound, ResetResult, Split, StepResult

X = sympy.Symbol("x")
INTEGRAND = X * sympy.cos(X)


def is_integral(text):
    """Whether a text is an integral, and its derivative."""
    derivative = sympy.diff(sympy.sympify(text, locals={"x": X}), X)
    return sympy.simplify(derivative - INTEGRAND) == 0, sympy.expand(derivative)


# SymPy imports modules when they are needed, and a component compiles them in each instance: what is used once here is
# in the component.
is_integral("x*sin(x)/2 + exp(x)")


class Proof(Environment):
    """Ends with the right integral."""

    summary = "Integrate"

    @classmethod
    def splits(cls, options):
        return [Split("train", 1)]

    def reset(self, task, options, seed):
        if (task.split, task.index) != ("train", 0):
            raise NotFound(f"unknown task {task.index} of split `{task.split}`: there is only task 0 of `train`")
        return ResetResult(f"Integrate {INTEGRAND} over x.")

    def step(self, action):
        if len(action.text) > 60:
            raise Mistake("at most 60 characters")
        try:
            right, derivative = is_integral(action.text)
        except Exception as error:
            raise Mistake(f"not an expression: {error}") from None
        if right:
            return StepResult("right", extras={"success": True})
        return StepResult(f"wrong: its derivative is {derivative}")
