"""Options, functions, arguments, contents and random numbers, compared with the Rust SDK."""

import json
import math
import unittest

from gymkhana_sdk import (
    Call,
    Evidence,
    Function,
    Image,
    Invalid,
    Json,
    Mistake,
    Options,
    Parameter,
    Rng,
    Text,
    hash64,
    option,
    text_of,
)
from gymkhana_sdk.content import parts_of, shown


class Declared(Options):
    """Options of several types."""

    difficulty: int = option("How hard", 2, within=(1, 4))
    call_cost: float = option("In points", 0.0, within=(0, math.inf))
    mode: str = option("What is compared", "auto", one_of=("auto", "text"))
    slippery: bool = option("Ice", False, name="ice")


class OptionsTest(unittest.TestCase):
    def test_defaults_hold_until_set(self):
        options = Declared([("difficulty", 4), ("call-cost", 1), ("ice", True)])
        self.assertEqual(vars(options), {"difficulty": 4, "call_cost": 1.0, "mode": "auto", "slippery": True})
        self.assertEqual(vars(Declared())["difficulty"], 2)

    def test_a_class_inherits_options(self):
        class More(Declared):
            size: int = option("Side", 4)

        self.assertEqual([each.name for each in More.declared()], ["difficulty", "call-cost", "mode", "ice", "size"])
        with self.assertRaisesRegex(Invalid, "this plugin has no options"):
            Options([("size", 1)])

    def test_mistakes_name_the_option_and_the_fix(self):
        # Same texts as in the test of the Rust SDK.
        for name, value, words in [
            ("dificulty", 1, "unknown option `dificulty`; the nearest known one is `difficulty`"),
            ("difficulty", 5, "option `difficulty` must be 1 to 4, not 5"),
            ("difficulty", "hard", "option `difficulty` must be a whole number, not hard"),
            ("difficulty", 2.0, "option `difficulty` must be a whole number, not 2"),
            ("difficulty", True, "option `difficulty` must be a whole number, not true"),
            ("call-cost", -1.0, "option `call-cost` must be at least 0, not -1"),
            ("call-cost", math.nan, "option `call-cost` must be at least 0, not NaN"),
            ("mode", "numbr", "option `mode` must be one of auto, text, not numbr"),
        ]:
            with self.assertRaises(Invalid) as raised:
                Declared([(name, value)])
            self.assertEqual(str(raised.exception), words)
        with self.assertRaisesRegex(Invalid, "twice"):
            Declared([("ice", True), ("ice", True)])

    def test_a_default_obeys_the_limits(self):
        for default, limits, words in [
            (5, {"within": (1, 4)}, "the default of option `x` must be 1 to 4, not 5"),
            (math.nan, {"within": (0, math.inf)}, "the default of option `x` must be at least 0, not NaN"),
            ("txt", {"one_of": ("auto", "text")}, "the default of option `x` must be one of auto, text, not txt"),
            (
                None,
                {},
                "the default of option `x` must be true or false, a whole number, a number, text, bytes, JSON, ",
            ),
        ]:
            with self.assertRaises(ValueError) as raised:
                type("Wrong", (Options,), {"x": option("An option", default, **limits)})
            self.assertTrue(str(raised.exception).startswith(words), raised.exception)

    def test_the_host_reads_the_range_in_the_description(self):
        told = [each.told() for each in Declared.declared()]
        self.assertEqual(
            told, ["How hard (1 to 4)", "In points (at least 0)", "What is compared (one of auto, text)", "Ice"]
        )


class EvidenceTest(unittest.TestCase):
    def test_evidence_counts_in_bytes_of_utf8(self):
        # é has two bytes and 😀 four; in Python each is one character.
        self.assertEqual(Evidence.at(1, "é42😀", 1, 3, "n"), Evidence(1, 2, 4, "n"))
        self.assertEqual(Evidence.at(1, "é42😀", 3, 4, "n"), Evidence(1, 4, 8, "n"))


class FunctionTest(unittest.TestCase):
    def test_parameters_are_json_schema(self):
        function = Function("f", "d", {"a": Parameter(str, "first"), "b": Parameter(int, "second", optional=True)})
        self.assertEqual(
            function.schema(),
            '{"type":"object","properties":{"a":{"type":"string","description":"first"},'
            '"b":{"type":"integer","description":"second"}},"required":["a"]}',
        )
        schema = {"type": "object", "properties": {}}
        self.assertEqual(json.loads(Function("f", "d", schema).schema()), schema)

    def test_arguments_are_read_or_explained(self):
        call = Call("f", '{"a": "x", "b": 2}')
        self.assertEqual((call.text("a"), call.integer("b"), call.number("b")), ("x", 2, 2.0))
        for look, words in [
            (lambda: call.text("b"), "argument `b` must be a string, not 2"),
            (lambda: call.text("c"), "argument `c` is missing; given: a, b"),
            (lambda: Call("f", "{").text("a"), "not JSON"),
            (lambda: Call("f", "[]").text("a"), "an object"),
            (lambda: Call("f", "[" * 100_000).text("a"), "nested too deeply"),
            (lambda: Call("f", "[{" * 100_000).text("a"), "nested too deeply"),
        ]:
            with self.assertRaises(Mistake) as raised:
                look()
            self.assertIn(words, str(raised.exception))

    def test_unnested_brackets_add_no_depth(self):
        flat = json.dumps({"a": "[" * 1000 + '"' + "{" * 1000, "b": [[]] * 1000})
        self.assertEqual(len(Call("f", flat).text("a")), 2001)


class ContentTest(unittest.TestCase):
    def test_words_and_parts_are_content(self):
        image = Image("image/png", b"\x89")
        self.assertEqual(parts_of("a"), [Text("a")])
        self.assertEqual(parts_of(["a", image]), [Text("a"), image])
        self.assertEqual(text_of(["a", image, Text("b")]), "ab")

    def test_values_are_shown_as_people_write_them(self):
        self.assertEqual(
            [shown(value) for value in (True, 2, 2.5, 3.0, "x", b"12", Json("[]"))],
            ["true", "2", "2.5", "3", "x", "2 bytes", "[]"],
        )


class RngTest(unittest.TestCase):
    def test_stream_is_that_of_splitmix64(self):
        # Output of Vigna's splitmix64.c for seed 1234567.
        rng = Rng(1234567)
        self.assertEqual(
            [rng.bits() for _ in range(5)],
            [
                6457827717110365317,
                3203168211198807973,
                9817491932198370423,
                4593380528125082431,
                16408922859458223821,
            ],
        )

    def test_hash_is_that_of_the_other_sdks(self):
        # FNV-1a of "foobar" is 0x85944171f73967e8; the Rust SDK finalises it to this value.
        state = (0x85944171F73967E8 - 0x9E3779B97F4A7C15) % 2**64
        self.assertEqual(hash64(b"foobar"), Rng(state).bits())

    def test_state_goes_on_where_it_was(self):
        rng = Rng(5)
        rng.random()
        self.assertEqual(Rng(rng.state).bits(), rng.bits())

    def test_numbers_stay_in_their_bounds_and_reach_the_ends(self):
        rng = Rng(2)
        drawn = [rng.between(-1, 2) for _ in range(200)]
        self.assertEqual((min(drawn), max(drawn)), (-1, 2))
        self.assertTrue(all(0 <= rng.unit() < 1 for _ in range(1000)))
        items = list(range(100))
        rng.shuffle(items)
        self.assertEqual(sorted(items), list(range(100)))
        self.assertNotEqual(items, list(range(100)))
        self.assertIn(rng.choice("abc"), "abc")


if __name__ == "__main__":
    unittest.main()
