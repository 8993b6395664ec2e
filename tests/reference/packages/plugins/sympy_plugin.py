"""Integrals, checked by differentiation."""

import sympy
from gymkhana_sdk import Environment, Mistake, NotFound, ResetResult, Split, StepResult

X = sympy.Symbol("x")
INTEGRAND = X * sympy.cos(X)


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
        try:
            derivative = sympy.diff(sympy.sympify(action.text, locals={"x": X}), X)
        except Exception as error:
            raise Mistake(f"not an expression: {error}") from None
        if sympy.simplify(derivative - INTEGRAND) == 0:
            return StepResult("right", extras={"success": True})
        return StepResult(f"wrong: its derivative is {sympy.expand(derivative)}")
