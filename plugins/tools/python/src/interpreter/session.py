"""Namespace of one episode and the cells executed in it, as in a notebook."""

from __future__ import annotations

import ast
import os
import random
import sys
import types
from contextlib import nullcontext
from dataclasses import dataclass

from . import report
from .guards import Guards
from .output import Output

_OWN = os.path.dirname(__file__)

_LAST = "_the last expression"
"""Variable for the value of the last expression. It is not an identifier, so programs cannot use it."""


@dataclass(slots=True)
class Result:
    """Result of a cell."""

    shown: str
    """Printed output, followed by the last expression or the traceback."""
    error: str | None
    """Exception type and message, or None on success."""
    value: str | None
    """`repr` of the last expression, or None without one."""


class Namespace:
    """Variables of one episode. The module `random` is seeded with the episode's seed."""

    _active: Namespace | None = None

    def __init__(self, seed: int, most: int) -> None:
        self._module = types.ModuleType("__main__")
        self._output = Output(most)
        self._cells = 0
        # In a component the guards are installed permanently: see `library.bake`.
        self._guards = nullcontext() if sys.platform == "wasi" else Guards()
        self._random = random.Random(seed).getstate()

    def run(self, code: str) -> Result:
        """Runs a cell. Exceptions of the cell become part of the result."""
        self._enter()
        self._cells += 1
        name = f"<cell {self._cells}>"
        report.remember(name, code)
        output = self._output
        output.begin()
        streams = sys.stdout, sys.stderr
        sys.stdout = sys.stderr = output
        error = value = None
        try:
            with self._guards:
                value = self._evaluate(code, name)
                if value is not None:
                    output.end_line()
                    output.write(value)
        except BaseException as raised:
            error = report.describe(raised)
            output.end_line()
            output.write(report.explain(raised, _OWN))
            raised.__traceback__ = None
        finally:
            sys.stdout, sys.stderr = streams
        return Result(output.text().rstrip("\n"), error, value)

    def _evaluate(self, code: str, name: str) -> str | None:
        """Executes the cell and returns the `repr` of its last expression, or None without one."""
        names = self._module.__dict__
        value = eval(_compile(code, name), names)
        if value is None:
            value = names.pop(_LAST, None)
        if value is None:
            return None
        names["_"] = value
        return repr(value)

    def _enter(self) -> None:
        """Activates this namespace: installs it as `__main__` and restores its random state."""
        before = Namespace._active
        if before is self:
            return
        if before is not None:
            before._random = random.getstate()
        random.setstate(self._random)
        sys.modules["__main__"] = self._module
        Namespace._active = self


def _compile(code: str, name: str) -> types.CodeType:
    """Compiled cell: it evaluates its only expression, or stores a final expression without semicolon as `_LAST`.

    The `__future__` imports of this module do not apply to cells.
    """
    if "\n" not in code:
        try:
            # Most cells are one expression, which compiles in a third of the time in this mode.
            return compile(code, name, "eval", dont_inherit=True)
        except SyntaxError:
            pass  # A statement, or an error that is reported below.
    tree = ast.parse(code, name)
    if tree.body and isinstance(tree.body[-1], ast.Expr) and not code.rstrip().endswith(";"):
        last = tree.body[-1]
        kept = ast.copy_location(ast.Name(_LAST, ast.Store()), last)
        tree.body[-1] = ast.copy_location(ast.Assign([kept], last.value), last)
    return compile(tree, name, "exec", dont_inherit=True)
