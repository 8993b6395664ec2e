"""Run with `python -m unittest`."""

import unittest

from gymkhana_sdk import Invalid, NotFound
from gymkhana_sdk.testing import Play
from plugin import Guess


class GuessTest(unittest.TestCase):
    def test_hints_lead_to_the_number(self):
        play = Play(Guess)
        secret = play.episode.environment.secret
        play.say(str(secret - 1))
        self.assertEqual(play.seen, "Too low. 6 left.")
        play.say(str(secret))
        self.assertEqual((play.seen, play.reward, play.over), ("Right!", 1.0, True))

    def test_the_expert_needs_seven_guesses_at_most(self):
        for index in range(50):
            self.assertEqual(Play(Guess, index=index).follow_oracle(turns=7), 1.0)

    def test_splits_share_no_secret(self):
        for index in range(50):
            self.assertNotEqual(Play(Guess, split="train", index=index).episode.environment.secret % 3, 0)
            self.assertEqual(Play(Guess, split="test", index=index).episode.environment.secret % 3, 0)

    def test_text_without_a_number_costs_no_guess(self):
        play = Play(Guess)
        play.say("seven")
        self.assertEqual(play.seen, "Answer with a whole number and nothing else.")
        self.assertEqual(play.episode.environment.left, 7)

    def test_unknown_tasks_and_options_are_refused(self):
        with self.assertRaises(NotFound):
            Play(Guess, split="validation")
        with self.assertRaisesRegex(Invalid, "the nearest known one is `highest`"):
            Play(Guess, higest=10)


if __name__ == "__main__":
    unittest.main()
