"""Rock, paper, scissors until one throw wins: a game of your own in ten lines."""

from league.envs import Match


class RockPaperScissors(Match):
    name, action, obs_size, opponent_slice, max_steps = "rps", 3, 6, (3, 6), 10

    def reset(self, rng):
        self.throws = (None, None)

    def observe(self, seat):
        return [self.throws[who] == throw for who in (seat, 1 - seat) for throw in range(3)]

    def step(self, actions):
        self.throws = actions
        if actions[0] != actions[1]:
            self.end((actions[0] - actions[1]) % 3 - 1)
