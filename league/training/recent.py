"""Scores of a run's last training matches, for its metrics and callbacks."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from league.pool.pool import Pool
from league.store.rows import RewardTerm
from league.types import ActionSpec, MatchResult, Rollout

MOST_ACTIONS = 64
"""Of more keys and choices than these no shares are metrics."""
WINDOW = 100
"""Matches that a displayed win-rate or mean reward looks back on."""


Sums = dict[str, tuple[float, float]]
"""Of one match: unweighted reward term -> its sum for the learner and for the opponent."""


class Recent:
    """The learner's last matches: scores by group of the mix, and what each reward term brought."""

    def __init__(self, pool: Pool, learner: str) -> None:
        self._pool, self._learner = pool, learner
        self._scores: dict[str, deque[float]] = {}
        self._sums: deque[Sums] = deque(maxlen=WINDOW)

    def add(self, finished: list[MatchResult]) -> None:
        """Counts finished training matches: win 1, draw 1/2, loss 0."""
        for result in finished:
            seat = result.agents.index(self._learner)
            group = self._pool.group_of(result.agents[1 - seat])
            self._scores.setdefault(group, deque(maxlen=WINDOW)).append(result.score_of(self._learner))
        self._sums.extend(sums_of(finished, self._learner))

    def rates(self) -> dict[str, float]:
        """Group -> mean score of its last `WINDOW` matches."""
        return {group: sum(scores) / len(scores) for group, scores in sorted(self._scores.items())}

    def rewards(self, weights: dict[str, float]) -> tuple[RewardTerm, ...]:
        """What each reward term brought in the last `WINDOW` matches, by these weights."""
        return reward_terms(self._sums, weights)

    def state_dict(self) -> dict[str, Any]:
        """Plain values only."""
        return {"scores": {group: list(scores) for group, scores in self._scores.items()}, "sums": list(self._sums)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The inverse of `state_dict`."""
        self._scores = {group: deque(scores, maxlen=WINDOW) for group, scores in state["scores"].items()}
        self._sums = deque(({term: (own, other) for term, (own, other) in x.items()} for x in state["sums"]), WINDOW)


def sums_of(matches: Sequence[MatchResult], learner: str) -> list[Sums]:
    """What each reward term came to in each of `matches`, the learner's first."""
    seats = [match.agents.index(learner) for match in matches]
    return [
        {term: (sums[seat], sums[1 - seat]) for term, sums in match.rewards.items()}
        for match, seat in zip(matches, seats, strict=True)
    ]


def reward_terms(matches: Sequence[Sums], weights: dict[str, float]) -> tuple[RewardTerm, ...]:
    """What each reward term brought in `matches`, as `Store.reward_terms` says it of those in the store."""
    if not matches:
        return ()
    terms = []
    for name in matches[0]:
        own, other = np.array([match[name] for match in matches]).T.copy()
        terms.append(
            RewardTerm(
                term=name,
                weight=weights.get(name, 0.0),
                matches=len(matches),
                fired=int(((own != 0) | (other != 0)).sum()),
                own=float(own.mean()),
                other=float(other.mean()),
            )
        )
    return tuple(sorted(terms, key=lambda term: (-abs(term.weighted), term.term)))


def match_metrics(rollout: Rollout, learner: str, weights: dict[str, float]) -> dict[str, float]:
    """Means a finished match of the learner's seat: `match/METRIC`, and `reward/TERM` with its weight applied."""
    finished = rollout.finished
    metrics = {"matches": float(len(finished))}
    if not finished:
        return metrics
    seats = [result.agents.index(learner) for result in finished]
    for name in finished[0].metrics:
        metrics[f"match/{name}"] = float(np.mean([r.metrics[name][s] for r, s in zip(finished, seats, strict=True)]))
    metrics |= {f"reward/{term.term}": term.weighted for term in reward_terms(sums_of(finished, learner), weights)}
    metrics["match/steps"] = float(np.mean([r.steps for r in finished]))
    scores = [r.score_of(r.agents[0]) for r in finished]
    metrics["match/draws"] = float(np.mean([score == 0.5 for score in scores]))
    metrics["match/first_seat"] = float(np.mean(scores))
    return metrics


def action_metrics(action: torch.Tensor, spec: ActionSpec, names: Sequence[str]) -> dict[str, float]:
    """What was played, `action/NAME`: of a key the share of the steps in which it was pressed, of a choice of a part
    that in which it was taken, of a real number its mean. Of legal tuples the first part alone.

    Args:
        action: (T, B, A), with a box in it float, else whole numbers.
        spec: what it is.
        names: of the keys, choices and numbers, in their order; nothing is counted of more than `MOST_ACTIONS`.
    """
    if not 0 < len(names) <= MOST_ACTIONS:
        return {}
    leaves = (ActionSpec("multi_discrete", spec.choices[:1]),) if spec.kind == "legal_tuples" else spec.leaves
    flat, index, means = action.flatten(0, 1), 0, []
    for leaf in leaves:
        part = flat[:, index : index + leaf.num_parts]
        index += leaf.num_parts
        if leaf.kind in ("box", "multi_binary"):
            means.append(part.float().mean(0))
        else:
            for column, choices in zip(part.T, leaf.choices, strict=True):
                taken = column[:, None] == torch.arange(choices, device=column.device)
                means.append(taken.float().mean(0))
    return dict(zip((f"action/{name}" for name in names), torch.cat(means).tolist(), strict=True))
