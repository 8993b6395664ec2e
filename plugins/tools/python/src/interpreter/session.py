"""One namespace and the cells that ran in it, as in a notebook."""

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
"""No program's name: it is no identifier."""


@dataclass(slots=True)
class Result:
    """What a cell gave."""

    shown: str
    """What it printed, then its last expression or its traceback."""
    error: str | None
    """The kind of error and its message, if it failed."""
    value: str | None
    """The last expression, as Python writes it."""


class Namespace:
    """What the cells of one episode define. Everything random in it follows from the seed."""

    _active: Namespace | None = None

    def __init__(self, seed: int, most: int) -> None:
        self._module = types.ModuleType("__main__")
        self._output = Output(most)
        self._cells = 0
        # In a component they stand for good: see `library.bake`.
        self._guards = nullcontext() if sys.platform == "wasi" else Guards()
        self._random: object = random.Random(seed).getstate()

    def run(self, code: str) -> Result:
        """Runs a cell. Whatever the cell raises is part of the result."""
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
        """Executes the cell; gives its last expression as Python writes it, if it ends with one."""
        names = self._module.__dict__
        value = eval(_compile(code, name), names)
        if value is None:
            value = names.pop(_LAST, None)
        if value is None:
            return None
        names["_"] = value
        return repr(value)

    def _enter(self) -> None:
        """Makes this the namespace that `__main__` names and whose random stream goes on."""
        before = Namespace._active
        if before is self:
            return
        if before is not None:
            before._random = random.getstate()
        random.setstate(self._random)
        sys.modules["__main__"] = self._module
        Namespace._active = self



def _compile(code: str, name: str) -> types.CodeType:
    """A cell that gives its only expression, or keeps under `_LAST` one that it ends with and no semicolon hides.

    What this module imports from `__future__` does not hold for cells.
    """
    if "\n" not in code:
        try:
            # Most cells are one expression, and to compile it so takes a third of the time.
            return compile(code, name, "eval", dont_inherit=True)
        except SyntaxError:
            pass  # A statement, or an error that is told below.
    tree = ast.parse(code, name)
    if tree.body and isinstance(tree.body[-1], ast.Expr) and not code.rstrip().endswith(";"):
        last = tree.body[-1]
        kept = ast.Name(_LAST, ast.Store(), **_place_of(last))
        tree.body[-1] = ast.Assign([kept], last.value, **_place_of(last))
    return compile(tree, name, "exec", dont_inherit=True)


def _place_of(node: ast.expr | ast.stmt) -> dict[str, int | None]:
    places = ("lineno", "col_offset", "end_lineno", "end_col_offset")
    return {place: getattr(node, place) for place in places}
