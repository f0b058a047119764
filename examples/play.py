"""Plays an exported agent against a scripted bot: `python examples/play.py FOLDER [BOT]`."""

import sys

from league.envs import registry
from league.snapshots import Agent

agent = Agent.load(sys.argv[1])
game = registry.make("brawl", rows=1, threads=1, options=agent.manifest.game.options)
game.controllers[0, 1] = game.spec.bots.index(sys.argv[2] if len(sys.argv) > 2 else "based")
game.reset(7)
while not game.terminated[0]:
    game.actions[0, 0] = agent.act(game.obs[0, 0], game.mask[0, 0])
    game.step()

result = game.result[0]
print({0: "the agent won", 1: "the bot won", -1: "draw"}[int(result["winner"])], "after", result["ticks"], "ticks")
for name, (own, other) in zip(game.spec.metrics, result["metrics"].T, strict=True):
    print(f"{name:>16} {own:8.1f} {other:8.1f}")
