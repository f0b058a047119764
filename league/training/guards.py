"""Alarms over a run's updates: what the figures of a sick run look like, said once until they are well again.

Pure judgement: nothing here draws a number, changes a weight or stops anything. `docs/training.md` has the ranges of
healthy runs beside these limits.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from league.config.models import Config
from league.maths.means import Mean
from league.maths.record import wilson
from league.types import BOT_PREFIX, MatchResult

PATIENCE = 5
"""Updates in a row that a figure must be bad before it is said, and good before it may be said again."""
FEW = 3
"""The same for KL and the value loss, which do their harm faster."""
WINDOW = 20
"""Updates looked back on."""
COLLAPSED, RECOVERED = 0.05, 0.1
"""Shares of the highest entropy that the run's play had."""
NO_KL, NO_CLIPPING = 1e-4, 1e-3
"""Of an update that changes nothing: nats, and the share of clipped samples."""
VIOLENT = 10.0
"""Times run.alarm_kl; one such update is enough to be said."""
CLIPPED, UNCLIPPED = 100.0, 10.0
"""The gradient's norm as a multiple of learner.max_gradient_norm."""
EXPLOSION = 100.0
"""Times the value loss's median in the window."""
UNEXPLAINED, EXPLAINED = -0.5, -0.25
"""Explained variance; 0 is no better than a constant, and a healthy run starts near it."""
SURE = 3.3
"""Standard errors by which a score lies below a half; by chance once in two thousand evaluations."""


class Alarm(NamedTuple):
    """Something that a user should know now."""

    kind: str
    message: str
    is_over: bool = False
    """Whether the figure is normal again."""


class _Sign(NamedTuple):
    """One figure's verdict on one update; between sick and well it is neither."""

    kind: str
    is_sick: bool
    is_well: bool
    patience: int
    message: str


class Guards:
    """The alarms of one run. All it remembers is in `state_dict`, so that a resumed run says nothing twice."""

    def __init__(self) -> None:
        self._streaks: dict[str, int] = {}
        self._said: list[str] = []
        self._rewards: list[float] = []
        self._value_losses: list[float] = []
        self._entropy = 0.0
        self._idle = 0
        self._matches = 0
        self._fired: list[str] = []

    def judge(self, config: Config, metrics: Mapping[str, float], finished: Iterable[MatchResult]) -> list[Alarm]:
        """What is new after one update.

        Args:
            config: the run's.
            metrics: of the update, as `league.training.learner.Learner.update` gives them.
            finished: the matches that ended in its rollout.
        """
        self._entropy = max(self._entropy, metrics["entropy_in_play"])
        self._rewards = [*self._rewards[1 - WINDOW :], metrics["reward_per_step"]]
        signs = [
            self._collapse(config, metrics),
            self._kl(config, metrics),
            self._value_loss(config, metrics),
            self._explained(config, metrics),
            self._gradient(config, metrics),
            self._flat_return(),
            *self._matches_and_terms(config, list(finished)),
        ]
        return self._changes(signs)

    def judge_evaluation(
        self,
        config: Config,
        steps: int,
        opponent: str,
        score: float,
        games: int,
        floor: str | None,
        payoff: Mean | None = None,
    ) -> list[Alarm]:
        """What is new after an evaluation of `games` games against one opponent.

        steps: that the agent has learned for.
        floor: the bot that a learner must beat (`GameSpec.floor`); None: nobody is judged. payoff: the mean payoff of a
        game with a utility, which then decides.
        """
        _, upper = wilson(score, games, SURE)
        told = f"scores {score:.0%}"
        if payoff is not None:
            score, upper = (0.5 + x / (2.0 * payoff.bound) for x in (payoff.mean, payoff.upper))
            told = f"is paid {payoff.mean:+z.3f} a match"
        message = (
            f"after {steps:,} steps of learning the agent {told} against {opponent} in {games} games, so it is worse"
            f" than one that has learned nothing; look at `league rewards RUN`: what pays may not be what wins; begin"
            f" again with other [rewards]"
        )
        is_floor = floor is not None and opponent == BOT_PREFIX + floor
        is_sick = is_floor and steps >= config.run.alarm_random_steps and upper < 0.5
        is_well = is_floor and score >= 0.5
        sign = _Sign("worse_than_random", is_sick, is_well, 1, message)
        return self._changes([sign])

    def forget_figures(self) -> None:
        """Rewards, values, entropy and matches are of another game from now on; what was said is remembered."""
        self._streaks, self._rewards, self._value_losses = {}, [], []
        self._entropy, self._idle = 0.0, 0

    def state_dict(self) -> dict[str, Any]:
        """Plain values only."""
        return {name.removeprefix("_"): value for name, value in vars(self).items()}

    def load_state_dict(self, state: Mapping[str, Any] | None) -> None:
        """The inverse of `state_dict`; None, from a run that had no guards yet, changes nothing."""
        for name, value in (state or {}).items():
            setattr(self, f"_{name}", value)

    def _changes(self, signs: list[_Sign]) -> list[Alarm]:
        """What is raised, and what is over."""
        changed = [(sign, sign.kind in self._said) for sign in signs if self._has_changed(sign)]
        return [Alarm(sign.kind, sign.message if is_said else sign.kind, not is_said) for sign, is_said in changed]

    def _has_changed(self, sign: _Sign) -> bool:
        """Counts updates in a row: sick ones while the alarm has not been said, well ones when it has."""
        is_said = sign.kind in self._said
        goes_on = sign.is_well if is_said else sign.is_sick
        streak = self._streaks[sign.kind] = self._streaks.get(sign.kind, 0) + 1 if goes_on else 0
        if streak < sign.patience:
            return False
        self._streaks[sign.kind] = 0
        if is_said:
            self._said.remove(sign.kind)
        else:
            self._said.append(sign.kind)
        return True

    def _collapse(self, config: Config, metrics: Mapping[str, float]) -> _Sign:
        entropy, kl, clipped = metrics["entropy"], metrics["approx_kl"], metrics["clip_share"]
        share = entropy / self._entropy if self._entropy > 0 else 1.0
        return _Sign(
            "entropy_collapse",
            share < COLLAPSED and kl < NO_KL and clipped <= NO_CLIPPING and not self._is_rising(),
            share > RECOVERED,
            PATIENCE,
            f"entropy collapsed: {entropy:.2g} nats are {share:.1%} of the highest ({self._entropy:.3g}), KL {kl:.1g},"
            f" clip share {clipped:.1%}, and the return does not rise, so nothing more is tried or learned; begin a new"
            f" run with more than learner.entropy_coefficient={config.learner.entropy_coefficient:g} or less than"
            f" learner.learning_rate={config.learner.learning_rate:g}; do not go on from this one",
        )

    def _is_rising(self) -> bool:
        """Whether the later half of the window brought more reward than the earlier, by two standard errors."""
        half = len(self._rewards) // 2
        earlier, later = self._rewards[:half], self._rewards[half:]
        if half < 2:
            return True
        error = math.sqrt(statistics.variance(earlier) / len(earlier) + statistics.variance(later) / len(later))
        return statistics.fmean(later) - statistics.fmean(earlier) > 2 * error

    def _kl(self, config: Config, metrics: Mapping[str, float]) -> _Sign:
        kl, high = metrics["approx_kl"], config.run.alarm_kl
        return _Sign(
            "kl_blow_up",
            not kl <= high,
            kl < high / 2,
            FEW if kl <= VIOLENT * high else 1,
            f"KL blew up: {kl:.2g} nats an update (healthy: below 0.02), clip share {metrics['clip_share']:.0%}: the"
            f" policy leaves what was sampled; lower learner.learning_rate={config.learner.learning_rate:g} or"
            f" learner.epochs={config.learner.epochs}, or set learner.target_kl=0.02",
        )

    def _value_loss(self, config: Config, metrics: Mapping[str, float]) -> _Sign:
        loss, earlier = metrics["value_loss"], self._value_losses
        usual = statistics.median(earlier) if len(earlier) >= PATIENCE else math.inf
        is_sick = not loss <= EXPLOSION * usual
        if not is_sick:
            self._value_losses = [*earlier[1 - WINDOW :], loss]
        return _Sign(
            "value_explosion",
            is_sick,
            loss < EXPLOSION / 10 * usual,
            FEW,
            f"the value loss exploded: {loss:.2g}, where {usual:.2g} was usual, gradient norm"
            f" {metrics['gradient_norm']:.2g}; lower learner.learning_rate={config.learner.learning_rate:g}, or look"
            f" for a reward that suddenly grew (`league rewards RUN`)",
        )

    def _explained(self, config: Config, metrics: Mapping[str, float]) -> _Sign:
        explained = metrics["explained_variance"]
        return _Sign(
            "values_mislead",
            not explained >= UNEXPLAINED,
            explained > EXPLAINED,
            PATIENCE,
            f"values mislead: explained variance {explained:.2g} for {PATIENCE} updates, where a constant has 0 (value"
            f" loss {metrics['value_loss']:.2g}); lower learner.learning_rate={config.learner.learning_rate:g}, or"
            f" raise learner.value_coefficient={config.learner.value_coefficient:g}",
        )

    def _gradient(self, config: Config, metrics: Mapping[str, float]) -> _Sign:
        norm, most = metrics["gradient_norm"], config.learner.max_gradient_norm
        return _Sign(
            "gradient_clipped",
            not norm <= CLIPPED * most,
            norm < UNCLIPPED * most,
            PATIENCE,
            f"gradients are clipped to next to nothing: their norm is {norm:.2g}, learner.max_gradient_norm={most:g}"
            f" (value loss {metrics['value_loss']:.2g}), so the policy hardly learns; lower"
            f" learner.learning_rate={config.learner.learning_rate:g} or"
            f" learner.value_coefficient={config.learner.value_coefficient:g}",
        )

    def _flat_return(self) -> _Sign:
        least, most = min(self._rewards), max(self._rewards)
        is_flat = len(self._rewards) == WINDOW and most - least <= 1e-6 * max(abs(least), abs(most))
        return _Sign(
            "flat_return",
            is_flat,
            not is_flat,
            1,
            f"the return is flat: every one of {WINDOW} updates brought {most:.3g} a step, so nothing tells good from"
            f" bad play; give a weight in [rewards] to a term that fires (`league rewards RUN`)",
        )

    def _matches_and_terms(self, config: Config, finished: list[MatchResult]) -> list[_Sign]:
        self._idle = 0 if finished else self._idle + config.learner.rollout_steps * config.learner.segments
        self._matches += len(finished)
        for match in finished:
            fired = (term for term, values in match.rewards.items() if any(values) and term not in self._fired)
            self._fired.extend(fired)
        options = ", ".join(f"env.{name}" for name in config.env.options) or "it has none"
        no_matches = _Sign(
            "no_matches",
            self._idle >= config.run.alarm_idle_steps,
            self._idle == 0,
            1,
            f"no match finished in the last {self._idle:,} steps of each row ({self._idle * config.env.rows:,} in all);"
            f" shorten matches by the game's options ({options}), or see whether the game can end",
        )
        known = finished[0].rewards if finished and self._matches >= config.run.alarm_silent_matches else ()
        weighted = [term for term in known if config.rewards.get(term, 0.0)]
        silent = [
            _Sign(
                f"silent_reward:{term}",
                term not in self._fired,
                term in self._fired,
                1,
                f"rewards.{term} (weight {config.rewards[term]:g}) was 0 in all of the first {self._matches:,} training"
                f" matches; see whether the game can bring it about, or set rewards.{term}=0",
            )
            for term in weighted
        ]
        return [no_matches, *silent]
