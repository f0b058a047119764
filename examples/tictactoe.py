"""Tic-tac-toe, which nobody loses who plays well: `python -m benchmarks.learning tictactoe` tries all replies."""

from league.envs import Match

LINES = [(0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6)]


class TicTacToe(Match):
    name, action, obs_size, opponent_slice = "tictactoe", 9, 18, (9, 18)
    end_reasons = ("three", "full")

    def reset(self, rng):
        self.cells, self.to_move = [None] * 9, 0

    def observe(self, seat):
        return [cell == who for who in (seat, 1 - seat) for cell in self.cells]

    def legal(self, seat):
        return [i for i in range(9) if self.cells[i] is None]

    def play(self, action):
        self.cells[action] = self.to_move
        if any(all(self.cells[i] == self.to_move for i in line) for line in LINES):
            self.end(self.to_move, "three")
        elif None not in self.cells:
            self.end(None, "full")
        self.to_move = 1 - self.to_move
