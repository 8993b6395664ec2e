"""The tool: one function that runs code."""

from __future__ import annotations

from gymkhana import Answer, Function, Invalid, Option, Parameter, Tool

from . import library
from .session import Namespace

_MOST_VIEWED = 1000
"""Characters of a value that rewards see."""


class Python(Tool):
    """One session: a namespace, and what rewards may see of it."""

    summary = "A Python interpreter with the standard library and SymPy"
    options = (
        Option("output", "The most characters of one call's output; more is left out in the middle", 10_000,
               within=(100, 1_000_000)),
        Option("cost", "What one call costs", 0.0, within=(0, float("inf"))),
    )

    @classmethod
    def functions(cls, options):
        description = (
            "Runs Python code and gives what it prints and its last expression. Variables stay for the next call. "
            "The standard library and SymPy are there; files, network and other programs are not."
        )
        return [Function("python", description, {"code": Parameter(str, "the code to run")}, options["cost"])]

    def open(self, setup, options, seed):
        """Opens a session. A setup is code that runs first, and whose names are there for the agent."""
        self.calls = self.errors = 0
        self.last_value = self.last_error = ""
        self.namespace = Namespace(seed, options["output"])
        if setup is not None:
            self._prepare(setup)

    def _prepare(self, setup: bytes) -> None:
        try:
            code = setup.decode()
        except UnicodeDecodeError as error:
            raise Invalid(f"the setup must be Python code in UTF-8: {error}") from error
        result = self.namespace.run(code)
        if result.error is not None:
            raise Invalid(f"the setup, Python code that runs first, fails: {result.shown}")

    def call(self, call):
        result = self.namespace.run(call.text("code"))
        self.calls += 1
        if result.error is not None:
            self.errors += 1
            self.last_error = result.error[:_MOST_VIEWED]
            return Answer(result.shown, failed=True)
        self.last_value = (result.value or "")[:_MOST_VIEWED]
        return result.shown or "(no output)"

    def final_view(self):
        """What rewards see. The agent's code runs beside this object: it is no safe place for a verdict."""
        return {
            "calls": self.calls,
            "errors": self.errors,
            "last-value": self.last_value,
            "last-error": self.last_error,
        }


library.bake()
