"""Run with `python -m unittest`."""

import unittest

from gymkhana_sdk import Answer, Call, Invalid
from gymkhana_sdk.testing import Session, open_session
from plugin import Notes


class NotesTest(unittest.TestCase):
    def test_written_notes_can_be_read(self):
        session = open_session(Notes)
        self.assertEqual(session.call(Call.of("write", name="a", text="7")), Answer("Noted."))
        self.assertEqual(session.call(Call.of("read", name="a")), Answer("7"))
        self.assertEqual(Session.restore(Notes, session.snapshot()).call(Call.of("read", name="a")), Answer("7"))

    def test_mistakes_are_answered_in_words_that_help(self):
        session = open_session(Notes, most=1)
        self.assertTrue(session.call(Call.of("read")).failed)
        self.assertEqual(session.call(Call.of("read", name="a")), Answer("there is no note `a`; there are: none", True))
        session.call(Call.of("write", name="a", text=""))
        self.assertIn("full", session.call(Call.of("write", name="b", text="")).content)

    def test_a_setup_brings_notes(self):
        self.assertEqual(open_session(Notes, b'{"a": "7"}').call(Call.of("read", name="a")), Answer("7"))
        with self.assertRaises(Invalid):
            open_session(Notes, b"[]")


if __name__ == "__main__":
    unittest.main()
