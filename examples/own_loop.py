"""A loop of your own: `python examples/own_loop.py [GAME [STAGE]]`.

The learning rate falls from step to step, and the run ends early once the agent beats every bot beyond doubt.
"""

import sys

import league

GAME, STAGE = (*sys.argv[1:], *("matrix", "test50k")[len(sys.argv) - 1 :])
LEAST = 0.1
"""Share of the learning rate that is left at the stage's end."""

with league.Trainer(STAGE, env=GAME, overrides=["run.evaluate_games=200"]) as trainer:
    rate, total = trainer.config.learner.learning_rate, trainer.config.run.total_steps
    while trainer.goes_on:
        trainer.change(f"learner.learning_rate={rate * max(LEAST, 1 - trainer.steps / total):.3g}")
        metrics = trainer.learn(trainer.collect())
        if trainer.counters.update % 5:
            continue
        met = {name: summary for name, summary in trainer.evaluate().items() if name.startswith("bot:")}
        worst = min(met, key=lambda name: met[name].lower)
        print(f"{trainer.steps:,} steps, entropy {metrics['entropy']:.2f}: {met[worst].line(worst)}")
        if met[worst].lower > 0.5:
            break

print(trainer.close())
