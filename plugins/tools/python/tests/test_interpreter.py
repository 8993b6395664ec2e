"""Interpreter in a native Python: state, echo, limits, tracebacks and guards."""

import unittest

from gymkhana_sdk import Call, Invalid
from gymkhana_sdk.testing import open_session
from interpreter.output import Output
from interpreter.tool import Python


class InterpreterTest(unittest.TestCase):
    def setUp(self):
        self.session = open_session(Python, seed=7)

    def run_code(self, code):
        return self.session.call(Call.of("python", code=code))

    def shown(self, code):
        answer = self.run_code(code)
        self.assertFalse(answer.failed, answer.content)
        return answer.content

    def failure(self, code):
        answer = self.run_code(code)
        self.assertTrue(answer.failed, answer.content)
        return answer.content

    def test_names_stay_and_the_last_expression_is_shown(self):
        self.assertEqual(self.shown("x = 6\ndef f(y):\n    return x * y"), "(no output)")
        self.assertEqual(self.shown("print('six'); f(7)"), "six\n42")
        self.assertEqual(self.shown("_ + 1"), "43")
        self.assertEqual(self.shown("f(7);"), "(no output)")
        self.assertEqual(self.shown("print('a', end='')\n'b'"), "a\n'b'")
        self.assertEqual(self.shown("None"), "(no output)")

    def test_sessions_do_not_know_each_other(self):
        self.shown("x = 1")
        other = open_session(Python, seed=7)
        self.assertIn("NameError", other.call(Call.of("python", code="x")).content)
        self.assertEqual(self.shown("x"), "1")

    def test_randomness_follows_the_seed_also_where_sessions_take_turns(self):
        draw = "import random; random.random()"
        first = [self.shown(draw) for _ in range(3)]
        one, two = open_session(Python, seed=7), open_session(Python, seed=8)
        turns = [(one.call(Call.of("python", code=draw)), two.call(Call.of("python", code=draw))) for _ in range(3)]
        self.assertEqual([answer.content for answer, _ in turns], first)
        self.assertNotEqual([answer.content for _, answer in turns], first)

    def test_tracebacks_are_short_and_show_the_cells_lines(self):
        self.shown("def f(x):\n    return 1 / x")
        said = self.failure("print('before')\nf(0)")
        self.assertTrue(said.startswith("before\nTraceback"), said)
        self.assertIn('File "<cell 1>", line 2, in f\n    return 1 / x', said)
        self.assertTrue(said.endswith("ZeroDivisionError: division by zero"), said)
        self.assertNotIn("session.py", said)
        self.assertIn("SyntaxError", self.failure("1 +"))
        deep = self.failure("def g(): g()\ng()")
        self.assertIn("RecursionError", deep)
        self.assertLess(len(deep), 2000)

    def test_unavailable_features_have_clear_errors(self):
        for code, words in [
            ("open('/etc/passwd')", "no files here"),
            ("import os; os.system('id')", "no other programs"),
            ("import os; getattr(os, 'sys' + 'tem')('id')", "no other programs"),
            ("input('?')", "nobody to ask"),
            ("import socket; socket.socket()", "no network"),
            ("import torch", "nothing can be installed"),
            ("import sys; sys.exit(3)", "the interpreter goes on"),
            ("raise KeyboardInterrupt", "KeyboardInterrupt"),
        ]:
            self.assertIn(words, self.failure(code), code)
        self.assertEqual(self.shown("1 + 1"), "2")
        with open(__file__):
            pass  # Guards are removed outside of a cell.

    def test_output_is_capped_in_the_middle(self):
        session = open_session(Python, output=100)
        said = session.call(Call.of("python", code="for i in range(1000): print(i)")).content
        self.assertTrue(said.startswith("0\n1\n2\n"), said)
        self.assertTrue(said.endswith("998\n999"), said)
        # 10 + 180 + 2700 digits and 1000 line ends, minus the 100 characters kept.
        self.assertIn("… 3790 characters left out …", said)

    def test_output_keeps_both_ends_for_every_chunk_size(self):
        words = "".join(chr(97 + i % 26) for i in range(997))
        for piece in (1, 7, 49, 50, 51, 120, 997):
            output = Output(100)
            for start in range(0, len(words), piece):
                output.write(words[start : start + piece])
            expected = f"{words[:50]}\n… 897 characters left out …\n{words[-50:]}"
            self.assertEqual(output.text(), expected, piece)

    def test_one_cells_output_is_not_the_nexts(self):
        self.assertEqual(self.shown("import sys\nkept = sys.stdout\nprint('one')\nsys.stdout.close()"), "one")
        self.assertEqual(self.shown("kept.write('t'); print('wo', flush=True)"), "two")

    def test_a_setup_is_code_that_runs_first(self):
        session = open_session(Python, b"secret = 7")
        self.assertEqual(session.call(Call.of("python", code="secret")).content, "7")
        for setup in (b"1 / 0", b"\xff"):
            with self.assertRaises(Invalid):
                open_session(Python, setup)

    def test_the_final_view_reports_calls(self):
        self.shown("21 * 2")
        self.failure("1 / 0")
        view = {"calls": 2, "errors": 1, "last-value": "42", "last-error": "ZeroDivisionError: division by zero"}
        self.assertEqual(self.session.tool.final_view(), view)

    def test_sympy_and_the_library_are_there(self):
        self.assertEqual(
            self.shown("from sympy import *\nx = symbols('x')\nintegrate(x * exp(x), x)"), "(x - 1)*exp(x)"
        )
        self.assertEqual(self.shown("import sqlite3, statistics\nstatistics.median([1, 2, 4])"), "2")
        self.assertEqual(
            self.shown("from dataclasses import dataclass\n@dataclass\nclass P:\n    x: int\nP(1)"), "P(x=1)"
        )


if __name__ == "__main__":
    unittest.main()
