"""First observations of textarena's games."""

import contextlib
import io
import json

import textarena
from gymkhana_sdk import Call, Function, Mistake, Parameter, Tool
from textarena.envs.registration import ENV_REGISTRY


def members():
    """Names of all games. Those that end in `-raw` and `-train` differ in wrappers alone."""
    return sorted(name for name in ENV_REGISTRY if not name.endswith(("-raw", "-train")))


class Proof(Tool):
    """Keeps no state."""

    summary = "Games of textarena"

    @classmethod
    def functions(cls, options):
        return [Function("member", "Begin and second turn of a game", {"member": Parameter(str, "GAME SEED")})]

    def call(self, call: Call):
        try:
            name, seed = call.text("member").split(" ")
            seed = int(seed)
        except ValueError as error:
            raise Mistake(f"write for example `TicTacToe-v0 3`: {error}") from None
        if name not in ENV_REGISTRY:
            raise Mistake(f"no game `{name}`")
        reason = ""
        for players in (2, 1, 3, 4, 6):
            try:
                # Some games print.
                with contextlib.redirect_stdout(io.StringIO()):
                    return self.play(name, players, seed)
            except Exception as error:
                # Most games accept one number of players.
                reason = reason if reason and isinstance(error, AssertionError) else f"{type(error).__name__}: {error}"
        raise Mistake(reason.splitlines()[0])

    def play(self, name, players, seed):
        """What the first two seats to move see."""
        game = textarena.make(name)
        game.reset(num_players=players, seed=seed)
        first = game.get_observation()
        game.step("[0]")
        return json.dumps([first, game.get_observation()], default=repr)
