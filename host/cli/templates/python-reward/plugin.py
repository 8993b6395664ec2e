"""A right answer is worth a point, and a short one a little more than a long one."""

from gymkhana_sdk import Evidence, Invalid, Option, Reward, Score


class Brief(Reward):
    """Compares the last message of a seat with the environment's privileged `answer`."""

    summary = "Short right answers"
    range = (0.0, 1.0)
    components = {"right": "1 when the answer stands in the last message, else 0", "length": "characters of it"}
    options = (Option("free", "How many characters cost nothing", 40, within=(0, 10_000)),)

    def score(self, trajectory, seat, options):
        answer = trajectory.privileged.get("answer")
        if not isinstance(answer, str) or not answer:
            raise Invalid("this reward needs an environment with a privileged text `answer`")
        last = trajectory.last_message(seat)
        if last is None:
            return Score(0.0, {"right": 0.0, "length": 0.0})
        before, found, _ = last.text.partition(answer)
        too_long = max(0, len(last.text) - options["free"])
        total = 1.0 / (1.0 + too_long / 100) if found else 0.0
        # Places are counted in bytes of UTF-8.
        start = len(before.encode())
        evidence = [Evidence(last.turn, start, start + len(found.encode()), "the answer")] if found else []
        return Score(total, {"right": float(bool(found)), "length": float(len(last.text))}, evidence=evidence)
