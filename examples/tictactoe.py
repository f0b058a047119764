"""Tic-tac-toe, which nobody loses who plays well: `python -m benchmarks.learning tictactoe` tries all replies."""

from league.envs import Match

DEFAULTS = {
    "agent": {"opponent_encoder": False, "lstm_size": 128},
    "learner": {
        "gamma": 1.0,
        "gae_lambda": 0.8,
        "learning_rate": {1_000_000: 1.5e-3, 2_000_000: 2e-4},  # by the steps made
        "entropy_coefficient": {1_000_000: 0.2, 2_000_000: 0.02},
    },
    "pool": {"mix": {"self_play": 0.4, "bot:hasty": 0.6}},
}
LINES = [(0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6)]


def hasty(observation, legal, rng):
    """Makes three in a line where it can, else anything: whoever lets it through has lost."""
    own = observation[:9]
    winning = [i for i in legal if any(i in line and sum(own[j] for j in line) == 2 for line in LINES)]
    return rng.choice(winning or legal)


class TicTacToe(Match):
    name, action, obs_size, opponent_slice = "tictactoe", 9, 18, (9, 18)
    bots, end_reasons = {"hasty": hasty}, ("three", "full")

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
