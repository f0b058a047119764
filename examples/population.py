"""Population-based training (Jaderberg et al. 2017, arXiv:1711.09846): `python examples/population.py [GAME [STAGE]]`.

Runs of one store learn in turns, each for all of the stage's steps. After each round every member plays the one
beside it. Who loses clearly takes the winner's weights and goes on with a learning rate and an entropy coefficient of
0.8 or 1.25 times the winner's.
"""

import copy
import sys
from contextlib import ExitStack
from typing import Any

import numpy as np

import league

FACTORS = 0.8, 1.25
"""What a copied figure is multiplied by, one of them."""
CLEARLY = 0.7
"""A score from which on the loser copies the winner (Jaderberg et al. 2019, arXiv:1807.01281)."""


def train_population(
    stage: str, explored: dict[str, float], *, members: int = 4, every: int, games: int = 40, seed: int = 0, **call: Any
) -> list[str]:
    """Trains `members` runs, compared every `every` steps.

    Args:
        stage: how long each of them is.
        explored: setting -> the figure from which its search begins.
        games: of every pair and round.
        call: as of `league.train`.

    Returns:
        The runs' names, the one that scored most in the last round first.
    """
    rng = np.random.default_rng(seed)
    with ExitStack() as stack:
        trainers = [stack.enter_context(league.Trainer(stage, seed=seed + i, **call)) for i in range(members)]
        figures, scores = [dict(explored) for _ in trainers], np.zeros(members)
        while any(trainer.goes_on for trainer in trainers):
            until = (trainers[0].steps // every + 1) * every
            for trainer in trainers:
                while trainer.goes_on and trainer.steps < until:
                    trainer.learn(trainer.collect())
                trainer.snapshot()
                trainer.save()  # which others can then load
            names = [f"{trainer.run}@{trainer.steps}" for trainer in trainers]
            weights = [copy.deepcopy(trainer.policy.state_dict()) for trainer in trainers]
            before, scores = list(figures), np.zeros(members)
            for one in range(members):
                other = (one + 1) % members
                played = league.evaluate(names[one], names[other], games, seed=until, store=call["store"])
                score = played.summary.score
                scores[[one, other]] += score, 1 - score
                winner, loser = (one, other) if score >= 0.5 else (other, one)
                if max(score, 1 - score) < CLEARLY or not trainers[loser].goes_on:
                    continue
                trainers[loser].policy.load_state_dict(weights[winner])
                figures[loser] = {name: float(x * rng.choice(FACTORS)) for name, x in before[winner].items()}
                trainers[loser].change(*(f"{name}={x:.3g}" for name, x in figures[loser].items()))
                told = ", ".join(f"{name}={x:.3g}" for name, x in figures[loser].items())
                print(f"{until:,} steps: {names[loser]} goes on as {names[winner]}, with {told}")
        return [trainers[i].run for i in np.argsort(-scores)]


if __name__ == "__main__":
    game, length = (*sys.argv[1:], *("matrix", "smoke")[len(sys.argv) - 1 :])
    searched = {"learner.learning_rate": 1e-3, "learner.entropy_coefficient": 0.01}
    print(*train_population(length, searched, every=2_048, env=game, store="runs"))
