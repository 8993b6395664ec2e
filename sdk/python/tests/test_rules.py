"""Rules that the SDK applies to every plugin: valid options, seats in turn, finished episodes."""

import unittest

from gymkhana_sdk import (
    Action,
    Answer,
    BadSnapshot,
    Call,
    Ending,
    Environment,
    Function,
    Invalid,
    Mistake,
    NotFound,
    Options,
    ResetResult,
    Reward,
    Score,
    Split,
    StepResult,
    Text,
    Tool,
    Trajectory,
    Turn,
    TurnKind,
    option,
)
from gymkhana_sdk.testing import Episode, Play, Session, open_session, score


class CountingOptions(Options):
    """Options of `Counting`."""

    by: int = option("Step", 1, within=(1, 9))


class Counting(Environment):
    """Two seats count up in turn; calling `stop` ends the game."""

    summary = "Count in turn"
    seats = ("first", "second")
    options = CountingOptions

    @classmethod
    def splits(cls, options):
        return [Split("train", 3)]

    def reset(self, task, options, seed):
        self.count, self.by = 0, options.by
        return ResetResult({1: "0"}, functions={1: [Function("stop", "Ends the game.")]}, next_seat=1)

    def step(self, action):
        if action.call:
            return StepResult(reward={1: 0.5}, terminated=True)
        if action.text == "cheat":
            raise Mistake("count")
        self.count += self.by
        return StepResult({1 - action.seat: str(self.count)}, next_seat=1 - action.seat)

    def snapshot(self):
        return bytes([self.count, self.by])

    def restore(self, snapshot):
        self.count, self.by = snapshot


def call(seat, name):
    return Action(call=Call(name), seat=seat)


class EpisodeTest(unittest.TestCase):
    def test_options_are_checked_before_the_author_sees_them(self):
        with self.assertRaisesRegex(Invalid, "`by`"):
            Play(Counting, bi=2)
        with self.assertRaisesRegex(Invalid, "1 to 9"):
            Play(Counting, by=10)
        with self.assertRaises(Invalid):
            Episode.splits(Counting, [("by", 0)])
        play = Play(Counting, by=3)
        play.say("go")
        self.assertEqual(play.seen, "3")

    def test_seats_take_turns(self):
        play = Play(Counting)
        with self.assertRaisesRegex(Invalid, "it is the turn of seat 1, not of seat 0"):
            play.act(Action([Text("go")], seat=0))
        self.assertEqual(play.say("go").next_seat, 0)

    def test_a_mistake_is_an_observation_and_the_same_seat_goes_on(self):
        play = Play(Counting)
        self.assertEqual(play.say("cheat"), StepResult({1: "count"}, next_seat=1))
        self.assertEqual(play.episode.environment.count, 0)

    def test_only_offered_functions_are_called(self):
        play = Play(Counting)
        with self.assertRaisesRegex(NotFound, "`stpo`"):
            play.act(call(1, "stpo"))
        play.say("go")
        with self.assertRaises(NotFound):
            play.act(call(0, "stop"))

    def test_the_end_is_the_end_also_after_a_restore(self):
        play = Play(Counting)
        before = play.episode.snapshot()
        self.assertTrue(play.call("stop").terminated)
        ended = Episode.restore(Counting, play.episode.snapshot())
        for episode in (play.episode, ended):
            with self.assertRaisesRegex(Invalid, "over"):
                episode.step(Action([Text("go")], seat=0))
        self.assertTrue(Episode.restore(Counting, before).step(call(1, "stop")).terminated)

    def test_invalid_bytes_are_not_a_snapshot(self):
        snapshot = Play(Counting).episode.snapshot()
        for length in range(len(snapshot)):
            with self.assertRaises(BadSnapshot, msg=f"cut at {length}"):
                Episode.restore(Counting, snapshot[:length])
        with self.assertRaises(BadSnapshot):
            Episode.restore(Counting, snapshot + b"\0")


class RecorderOptions(Options):
    """Options of the tool."""

    loud: bool = option("In capitals", False)


class Recorder(Tool):
    """Records the arguments of `open`."""

    summary = "Remembers"
    options = RecorderOptions

    @classmethod
    def functions(cls, options):
        return [Function("recall", "Says it.", cost=2.0)]

    def open(self, setup, options, seed):
        self.words = f"{setup} {options.loud} {seed}"

    def call(self, call):
        if call.has("fail"):
            raise Mistake("as you wish")
        return self.words


class SessionTest(unittest.TestCase):
    def test_a_session_gets_setup_options_and_seed(self):
        session = open_session(Recorder, b"\7", seed=9, loud=True)
        self.assertEqual(session.call(Call("recall")), Answer("b'\\x07' True 9"))
        self.assertTrue(session.call(Call("recal")).failed)
        self.assertEqual(session.call(Call.of("recall", fail=1)), Answer("as you wish", failed=True))
        with self.assertRaises(Invalid):
            open_session(Recorder, lout=True)
        self.assertEqual(Session.functions(Recorder)[0].cost, 2.0)

    def test_an_answer_is_text_or_parts(self):
        session = open_session(Recorder)
        for wrong, name in ((42, "int"), (None, "None"), (b"x", "bytes"), ({"a": 1}, "dict")):
            session.tool.words = wrong
            with self.assertRaises(TypeError) as raised:
                session.call(Call("recall"))
            self.assertEqual(str(raised.exception), f"`Recorder.call` must return text, not {name}")
        session.tool.words = [Text("a"), "b"]
        self.assertFalse(session.call(Call("recall")).failed)


class Busy(Reward):
    """Scores 1 per call."""

    summary = "A point for each call"
    range = (0.0, 2.0)
    components = {"calls": "how many"}

    def score(self, trajectory, seat, options):
        calls = float(len(trajectory.calls(seat)))
        return Score(calls, {"calls": calls})


def message(seat):
    return Turn(TurnKind.MESSAGE, seat, [Text("yes")])


def called(seat):
    return Turn(TurnKind.CALL, seat, call=Call("f"))


class RewardTest(unittest.TestCase):
    def test_each_seat_that_acted_is_scored_in_order(self):
        shown = Turn(TurnKind.OBSERVATION, 5, [Text("look")])
        played = Trajectory(turns=[message(2), shown, called(0), called(2), called(2)])
        scores = score(Busy, [played, Trajectory(ending=Ending.FAILED)])
        self.assertEqual([(seat, one.total) for seat, one in scores[0].items()], [(0, 1.0), (2, 2.0)])
        self.assertEqual(scores[1], {})
        self.assertIsNone(played.last_message(2), "the last thing that seat 2 did was a call")

    def test_scores_that_the_host_would_reject_are_errors(self):
        with self.assertRaisesRegex(ValueError, "outside 0.0 to 2.0"):
            score(Busy, [Trajectory(turns=[called(0)] * 3)])

        class Bare(Busy):
            def score(self, trajectory, seat, options):
                return 1.0

        with self.assertRaisesRegex(ValueError, "components"):
            score(Bare, [Trajectory(turns=[called(0)])])

        class Undefined(Busy):
            def score(self, trajectory, seat, options):
                return Score(float("nan"), {"calls": 0.0})

        with self.assertRaisesRegex(ValueError, "outside"):
            score(Undefined, [Trajectory(turns=[called(0)])])


if __name__ == "__main__":
    unittest.main()
