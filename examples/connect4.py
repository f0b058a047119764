"""Connect Four with a greedy bot. Cell (x, y) is bit 7 * x + y of a board; the seventh of a column is always empty."""

from league.envs import Match

CELLS = [7 * x + y for x in range(7) for y in range(6)]


def drop(taken, x):
    return taken + (1 << 7 * x) & 0b111111 << 7 * x


def has_four(board):
    return any(board & board >> step & board >> 2 * step & board >> 3 * step for step in (1, 6, 7, 8))


def greedy(observation, legal, rng):
    own, other = (sum(1 << CELLS[i] for i in half.nonzero()[0]) for half in observation.reshape(2, 42))
    for board in (own, other):
        for x in legal:
            if has_four(board | drop(own | other, x)):
                return x
    return rng.choice(legal)


class ConnectFour(Match):
    name, action, obs_size, opponent_slice = "connect4", 7, 84, (42, 84)
    bots, end_reasons = {"greedy": greedy}, ("four", "full")

    def reset(self, rng):
        self.boards, self.to_move = [0, 0], 0

    def observe(self, seat):
        return [self.boards[who] >> cell & 1 for who in (seat, 1 - seat) for cell in CELLS]

    def legal(self, seat):
        return [x for x in range(7) if not sum(self.boards) >> 7 * x + 5 & 1]

    def play(self, action):
        self.boards[self.to_move] |= drop(sum(self.boards), action)
        if has_four(self.boards[self.to_move]):
            self.end(self.to_move, "four")
        elif not self.legal(0):
            self.end(None, "full")
        self.to_move = 1 - self.to_move
