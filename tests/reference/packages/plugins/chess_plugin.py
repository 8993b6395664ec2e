"""A game of chess against oneself, in standard notation."""

import chess
from gymkhana_sdk import BadSnapshot, Environment, NotFound, ResetResult, Split, StepResult


class Proof(Environment):
    """Ends with the game."""

    summary = "Play both sides of a game of chess"

    @classmethod
    def splits(cls, options):
        return [Split("train", 1)]

    def reset(self, task, options, seed):
        if (task.split, task.index) != ("train", 0):
            raise NotFound(f"unknown task {task.index} of split `{task.split}`: there is only task 0 of `train`")
        self.board = chess.Board()
        return ResetResult("white to move")

    def step(self, action):
        try:
            self.board.push_san(action.text)
            wrong = ""
        except ValueError:
            wrong = f"; not a legal move: {action.text}"
        if self.board.is_game_over():
            return StepResult(self.board.result(), terminated=True, extras={"success": True})
        return StepResult(f"{'white' if self.board.turn else 'black'} to move{wrong}")

    def snapshot(self):
        return " ".join(move.uci() for move in self.board.move_stack).encode()

    def restore(self, snapshot):
        self.board = chess.Board()
        try:
            for move in snapshot.decode().split():
                self.board.push_uci(move)
        except ValueError as error:
            raise BadSnapshot(f"not moves of a game: {error}") from None
