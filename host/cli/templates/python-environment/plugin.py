"""Guessing game: the environment says whether a guess is too low or too high."""

import json

from gymkhana_sdk import Environment, Mistake, NotFound, Options, ResetResult, Rng, Split, StepResult, hash64, option

SPLITS = {"train": 1000, "test": 100}


def secret_of(task, highest):
    """Secret of a task. The task alone determines it, so attempts at one task are comparable.

    Every third number is a secret of `test` only, so splits share no task.
    """
    rng = Rng(hash64(f"{task.split}/{task.index}".encode()))
    while True:
        secret = rng.between(1, highest)
        if (secret % 3 == 0) == (task.split == "test"):
            return secret


class GuessOptions(Options):
    """Options that a run file may set."""

    highest: int = option("Largest possible secret", 100, within=(3, 1_000_000))
    guesses: int = option("Maximum number of guesses", 7, within=(1, 100))


class Guess(Environment):
    """Episode: the secret number and the range that the guesses leave."""

    summary = "Guess a number from hints"
    reward_range = (0.0, 1.0)
    options = GuessOptions

    @classmethod
    def splits(cls, options):
        return [Split(name, tasks) for name, tasks in SPLITS.items()]

    def reset(self, task, options, seed):
        if task.index >= SPLITS.get(task.split, 0):
            raise NotFound(f"unknown task {task.index} of split `{task.split}`; splits and their sizes: {SPLITS}")
        self.secret = secret_of(task, options.highest)
        self.low, self.high = 1, options.highest
        self.left = options.guesses
        return ResetResult(f"I think of a number from 1 to {self.high}. You have {self.left} guesses.")

    def step(self, action):
        try:
            guess = int(action.text)
        except ValueError:
            raise Mistake("Answer with a whole number and nothing else.") from None
        self.left -= 1
        if guess == self.secret:
            return StepResult("Right!", reward=1.0, terminated=True, extras={"success": True})
        if guess < self.secret:
            self.low = max(self.low, guess + 1)
        else:
            self.high = min(self.high, guess - 1)
        hint = "Too low." if guess < self.secret else "Too high."
        if self.left == 0:
            return StepResult(f"{hint} No guess is left.", reward=0.0, terminated=True, extras={"success": False})
        return StepResult(f"{hint} {self.left} left.", reward=0.0)

    # Optional methods: the plugin exports the ones that the class defines.

    def snapshot(self):
        return json.dumps([self.secret, self.low, self.high, self.left]).encode()

    def restore(self, snapshot):
        self.secret, self.low, self.high, self.left = map(int, json.loads(snapshot))

    def state_key(self):
        return self.snapshot()

    def privileged(self):
        return {"answer": str(self.secret)}

    def advise(self, tools, results):
        return str((self.low + self.high) // 2)

    def guidance(self):
        return f"The number is {'even' if self.secret % 2 == 0 else 'odd'}."

    def render(self):
        return f"{self.low} <= secret <= {self.high}, {self.left} guesses left"
