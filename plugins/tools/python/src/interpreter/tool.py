"""Tool with one function, which runs Python code."""

from __future__ import annotations

from gymkhana_sdk import Answer, Call, Content, Function, Invalid, Options, Parameter, Tool, Value, option

from . import library
from .session import Namespace

_MOST_VIEWED = 1000
"""Maximum length of a value in the final view, in characters."""


class PythonOptions(Options):
    """Options that a run file may set."""

    output: int = option(
        "Maximum output of one call in characters; the middle of longer output is omitted",
        10_000,
        within=(100, 1_000_000),
    )
    cost: float = option("Cost of one call", 0.0, within=(0, float("inf")))


class Python(Tool):
    """Session: a namespace and its final view for rewards."""

    summary = "A Python interpreter with the standard library and SymPy"
    options = PythonOptions

    @classmethod
    def functions(cls, options: PythonOptions) -> list[Function]:
        """One function, `python`."""
        description = (
            "Runs Python code and gives what it prints and its last expression. Variables stay for the next call. "
            "The standard library and SymPy are there; files, network and other programs are not."
        )
        return [Function("python", description, {"code": Parameter(str, "the code to run")}, options.cost)]

    def open(self, setup: bytes | None, options: PythonOptions, seed: int) -> None:
        """Opens a session. The set-up data is Python code that runs first; the agent can use its variables."""
        self.calls = self.errors = 0
        self.last_value = self.last_error = ""
        self.namespace = Namespace(seed, options.output)
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

    def call(self, call: Call) -> Content | Answer:
        """Runs the code and returns its output; an exception gives a failed answer."""
        result = self.namespace.run(call.text("code"))
        self.calls += 1
        if result.error is not None:
            self.errors += 1
            self.last_error = result.error[:_MOST_VIEWED]
            return Answer(result.shown, failed=True)
        self.last_value = (result.value or "")[:_MOST_VIEWED]
        return result.shown or "(no output)"

    def final_view(self) -> dict[str, Value]:
        """Facts for rewards. The agent's code can change them, so they must not serve as a verdict."""
        return {
            "calls": self.calls,
            "errors": self.errors,
            "last-value": self.last_value,
            "last-error": self.last_error,
        }


library.bake()
