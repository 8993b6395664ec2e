"""Arithmetic by a grammar that uses a file of the package."""

from gymkhana_sdk import Call, Function, Mistake, Parameter, Tool
from lark import Lark, LarkError, Transformer, v_args

GRAMMAR = """
?start: sum
?sum: product | sum "+" product -> add | sum "-" product -> sub
?product: atom | product "*" atom -> mul | product "/" atom -> truediv
?atom: NUMBER -> number | "(" sum ")"
%import common.NUMBER
%import common.WS_INLINE
%ignore WS_INLINE
"""


@v_args(inline=True)
class Evaluate(Transformer):
    """Value of a tree."""

    from operator import add, mul, sub, truediv

    number = float


class Proof(Tool):
    """Keeps no state."""

    summary = "Arithmetic"

    @classmethod
    def functions(cls, options):
        return [Function("evaluate", "Evaluates an expression", {"expression": Parameter(str, "such as 2+3*4")})]

    def call(self, call: Call):
        # Made here, so that the grammar's file is read while the plugin runs.
        parser = Lark(GRAMMAR, parser="lalr", transformer=Evaluate())
        try:
            return str(parser.parse(call.text("expression")))
        except (LarkError, ZeroDivisionError) as error:
            raise Mistake(f"not an expression: {error}") from None
