"""Every scripted bot of a game against every other: `python benchmarks/round_robin.py [GAMES [GAME]]`.

Prints Markdown: the score of the row's bot against the column's in percent, and Bradley-Terry ratings with 95 %
intervals, `bot:based` held at 1000 where there is one.
"""

import sys

import numpy as np

from league import config
from league.envs import registry
from league.maths.pairs import PairCounts
from league.maths.ratings import bradley_terry
from league.play.evaluation import play
from league.play.pairings import Contestant, Pairing
from league.play.summaries import summarise
from league.types import BOT_PREFIX, Origin

games = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
game = sys.argv[2] if len(sys.argv) > 2 else "brawl"
options = registry.check_options(game, config.load(env=game).env.options)
bots = [Contestant(BOT_PREFIX + name) for name in registry.spec(game, options).bots]

scores = {}
counts = []
for i, a in enumerate(bots[:-1]):
    others = bots[i + 1 :]
    results = play(
        lambda rows: registry.make(game, rows=rows, threads=0, options=options),
        [Pairing(a, b, games, seed=len(bots) * i + k) for k, b in enumerate(others)],
        Origin("round_robin", ""),
        update=0,
    )
    for b in others:
        met = summarise([result for result in results if b.agent_id in result.agents], a.agent_id)
        scores[a.agent_id, b.agent_id] = met.score
        scores[b.agent_id, a.agent_id] = 1 - met.score
        counts.append((a.agent_id, b.agent_id, met.wins, met.draws, met.losses))

first, second, wins, draws, losses = zip(*counts, strict=True)
pairs = PairCounts(first, second, np.array(wins), np.array(draws), np.array(losses))
ratings = bradley_terry(pairs, "bot:based")
order = sorted(ratings.agents, key=lambda agent: -ratings.rating[ratings.index(agent)])
names = [agent.removeprefix(BOT_PREFIX) for agent in order]
print(f"| {games} games a pair | {' | '.join(names)} | rating |")
print("|---" * (len(order) + 2) + "|")
for agent, name in zip(order, names, strict=True):
    row = [f"{100 * scores[agent, other]:.0f}" if agent != other else "" for other in order]
    i = ratings.index(agent)
    print(f"| {name} | {' | '.join(row)} | {ratings.rating[i]:.0f} [{ratings.lower[i]:.0f}, {ratings.upper[i]:.0f}] |")
