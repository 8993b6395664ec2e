"""Reward for correct answers that prefers short ones."""

from gymkhana_sdk import Evidence, Invalid, Options, Reward, Score, option


class BriefOptions(Options):
    """Options that a run file may set."""

    free: int = option("Length without penalty, in characters", 40, within=(0, 10_000))


class Brief(Reward):
    """Compares the last message of a seat with the environment's privileged `answer`."""

    summary = "Short correct answers"
    range = (0.0, 1.0)
    components = {
        "right": "1 if the last message contains the answer, else 0",
        "length": "length of the last message in characters",
    }
    options = BriefOptions

    def score(self, trajectory, seat, options):
        answer = trajectory.privileged.get("answer")
        if not isinstance(answer, str) or not answer:
            raise Invalid("the environment has no privileged text `answer`: use an environment that has one")
        last = trajectory.last_message(seat)
        if last is None:
            return Score(0.0, {"right": 0.0, "length": 0.0})
        before, found, _ = last.text.partition(answer)
        too_long = max(0, len(last.text) - options.free)
        total = 1.0 / (1.0 + too_long / 100) if found else 0.0
        start, end = len(before), len(before) + len(found)
        evidence = [Evidence.at(last.turn, last.text, start, end, "the answer")] if found else []
        return Score(total, {"right": float(bool(found)), "length": float(len(last.text))}, evidence=evidence)
