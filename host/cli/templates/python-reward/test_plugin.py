"""Run with `python -m unittest`."""

import unittest

from gymkhana_sdk import Invalid, Text, Trajectory, Turn, TurnKind
from gymkhana_sdk.testing import score
from plugin import Brief


def said(words, **privileged):
    return Trajectory(turns=[Turn(TurnKind.MESSAGE, 0, [Text(words)])], privileged=privileged)


class BriefTest(unittest.TestCase):
    def test_right_and_short_beats_right_and_long(self):
        group = [said("7", answer="7"), said("7" + "!" * 139, answer="7"), said("8", answer="7")]
        self.assertEqual([scores[0].total for scores in score(Brief, group)], [1.0, 0.5, 0.0])

    def test_a_silent_seat_is_not_scored(self):
        self.assertEqual(score(Brief, [Trajectory(privileged={"answer": "7"})]), [{}])

    def test_an_answer_is_needed(self):
        with self.assertRaises(Invalid):
            score(Brief, [said("7")])


if __name__ == "__main__":
    unittest.main()
