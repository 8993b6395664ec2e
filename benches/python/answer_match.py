"""The plugin `answer-match` in Python: the rules of plugins/lib/answer in its mode `auto`, for a message of one seat."""

import re
from fractions import Fraction

MARK = "answer:"
DIGIT_LIMIT = 1_000
# A sign, digits with or without thousands commas, decimals and a denominator. A sign cannot follow a digit, a letter or a
# parenthesis, and a leading point no digit or letter.
NUMBER = re.compile(
    r"(?:(?<!\))(?<![^\W_])[-−+])?"
    r"(?:(?<![^\W_])\.[0-9]+|[0-9]{1,3}(?:,[0-9]{3}(?![0-9]))+(?:\.[0-9]+)?|[0-9]+(?:\.[0-9]+)?)"
    r"(?:/[0-9]+)?"
)
# Messages and answers of the Rust tests, and whether they match.
CASES = [
    ("There are 3,049 pens.", "3049", 1.0),
    ("It is −7.", "-7", 1.0),
    ("about .5 of it", "1/2", 1.0),
    ("7/3", "14/6", 1.0),
    ("$1,234,567.50", "1234567.5", 1.0),
    ("Ann has 37*84 pens.\nAnswer: 3108", "3108", 1.0),
    ("answer: 5\nno, wait. ANSWER: 6 pens", "6", 1.0),
    ("40-42", "42", 0.0),
    ("1e42", "42", 0.0),
    ("42\nanswer:", "42", 0.0),
    ("1,234,42", "42", 0.0),
    ("42/0", "42", 0.0),
    ("  Paris.\n", "paris", 1.0),
    ("Paris or Rome", "Paris", 0.0),
]


def score(message: str, expected: str) -> float:
    """1 if the message gives the expected answer, else 0."""
    part, number = _relevant(message), _only_number(expected.strip())
    if number is None or number[1] != expected.strip():
        return float(_folded(part) == _folded(expected))
    found = _only_number(part)
    return float(found is not None and found[0] == number[0])


def _relevant(message: str) -> str:
    """The rest of the line after the last mark, or the whole message."""
    mark = message.lower().rfind(MARK)
    if mark < 0:
        return message.strip()
    return message[mark + len(MARK) :].partition("\n")[0].strip()


def _folded(text: str) -> str:
    return text.strip().removesuffix(".").rstrip().lower()


def _only_number(text: str) -> tuple[Fraction, str] | None:
    """The value and the text of the only number."""
    found = NUMBER.findall(text)
    if len(found) != 1:
        return None
    plain = found[0].replace("−", "-").replace(",", "")
    if len(plain) > DIGIT_LIMIT:
        return None
    numerator, _, denominator = plain.partition("/")
    if denominator and int(denominator) == 0:
        return None
    return Fraction(numerator) / Fraction(denominator or "1"), found[0]
