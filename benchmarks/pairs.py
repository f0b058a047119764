"""How often an interval of 95 % holds the truth where the two games of a seed are correlated: simulated evaluations.

`python -m benchmarks.pairs [--trials N]`: scores of 50 pairs of games, by Wilson's interval of 100 games and by
`Record`; payoffs of Kuhn's size.
"""

from __future__ import annotations

import argparse

import numpy as np

from league.maths.means import mean_payoff
from league.maths.record import Record, wilson

PAIRS = 50
CORRELATIONS = (-1.0, -0.17, 0.0, 0.5, 1.0)
"""Of a pair's two games: kuhn and leduc, cards, brawl, in between, greedy duels of environments for one."""
PAYOFFS = (-2.0, -1.0, 1.0, 2.0)


def simulate(correlation: float, trials: int) -> tuple[float, float, float]:
    """The shares of the trials in which Wilson's interval of all games, the record's, and that of payoffs hold it."""
    rng, held = np.random.default_rng(0), np.zeros(3)
    clusters = [*range(PAIRS)] * 2
    for _ in range(trials):
        one, other = rng.integers(0, 2, (2, PAIRS))
        copies = rng.random(PAIRS) < abs(correlation)
        other = np.where(copies, one if correlation > 0 else 1 - one, other)
        outcomes = (2 * (1 - np.concatenate([one, other]))).tolist()
        sizes = rng.integers(1, 3, PAIRS)
        paid = [*((2 * one - 1) * sizes), *((2 * other - 1) * np.where(copies, sizes, rng.integers(1, 3, PAIRS)))]
        record, payoff = Record.of(clusters, outcomes), mean_payoff(clusters, [float(x) for x in paid], 2.0)
        low, high = wilson(record.score, 2 * PAIRS)
        held += low <= 0.5 <= high, record.lower <= 0.5 <= record.upper, payoff.lower <= 0.0 <= payoff.upper
    before, now, paid_held = (held / trials).tolist()
    return before, now, paid_held


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=4000)
    trials = parser.parse_args().trials
    print("| correlation of a pair | all games independent | by pairs | payoffs, by betting |\n|---|---|---|---|")
    for correlation in CORRELATIONS:
        print(f"| {correlation:+.2f} | " + " | ".join(f"{x:.3f}" for x in simulate(correlation, trials)) + " |")


if __name__ == "__main__":
    main()
