"""Who meets whom: samplers over the members of a group, in one table; docs/league.md has them side by side.

Members stand in the order of their joining, the oldest first. A sampler is a function of what is `Known` of them and
returns one weight a member; one of your own goes into the table by `register`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from league.config import models
from league.config.models import PoolConfig
from league.errors import ConfigError, GuardError, code_told, nearest
from league.maths.metagame import nash
from league.runtime.process import StepKept

Floats = npt.NDArray[np.float64]

NOTHING = 1e-10
"""Weights that sum to less are taken as all alike (the guard of AlphaStar's pseudocode)."""


class Known(Protocol):
    """What a sampler may know of a group: this run's own training results up to the last update."""

    config: PoolConfig
    members: Sequence[str]
    """N names: agent ids of snapshots, or `bot:NAME`."""

    def win_rates(self) -> Floats:
        """(N,): the learner's expected score against each, from its own games and the ratings."""

    def gaps(self) -> Floats:
        """(N,): how many Elo points the learner is above each."""

    def payoff(self) -> Floats:
        """(N, N): margins between the members, antisymmetric."""

    def qualities(self) -> Floats:
        """(N,): OpenAI Five's q_i."""


Sampler = Callable[[Known], Floats]
"""What is known -> weights (N,), at least 0 and not all 0; they need not sum to 1."""


def newest(num_members: int, window: int) -> Floats:
    """The newest `window` alike, the others never. 1: `latest`; all: `uniform`, which is fictitious self-play."""
    weights = np.zeros(num_members)
    weights[-window:] = 1.0
    weights /= weights.sum()
    return weights


def pfsp(win_rates: Floats, kind: str) -> Floats:
    """Prioritised fictitious self-play (Vinyals et al. 2019, Nature 575, methods): P(i) ~ f(x_i).

    `pfsp_hard`: f = (1 - x)^2, the opponents that are not beaten yet. `pfsp_var`: f = x (1 - x), those of one's own
    strength. `pfsp_linear`: f = min(1/2, 1 - x), all that are not beaten, none above the others. Where every f is 0,
    as when everything is won, all are alike.

    win_rates: (N,), the learner's expected score against each.
    """
    lost = 1.0 - win_rates
    weights = {"pfsp_hard": lost**2, "pfsp_var": win_rates * lost, "pfsp_linear": np.minimum(0.5, lost)}[kind]
    total = weights.sum()
    return np.full(len(weights), 1.0 / len(weights)) if total < NOTHING else weights / total


def by_quality(qualities: Floats) -> Floats:
    """P(i) ~ exp(q_i) (OpenAI Five, Berner et al. 2019, arXiv:1912.06680, appendix on opponent sampling)."""
    weights = np.exp(qualities - qualities.max())
    return np.asarray(weights / weights.sum(), np.float64)


def quality_after_win(quality: float, probability: float, num_members: int, rate: float) -> float:
    """q_i - rate / (N p_i): what beating member i leaves of its quality (the same appendix; rate 0.01).

    Losses and draws change nothing. Dividing by the probability of meeting i makes every quality fall alike, however
    often it is drawn. One whose probability has vanished stays where it is.
    """
    return quality - rate / (num_members * probability) if probability > 0.0 else quality


def by_rating(gaps: Floats, width: float) -> Floats:
    """P(i) ~ exp(-gap_i^2 / (2 width^2)): opponents of nearly the learner's strength.

    The normal weight of TLeague's matchmaking (Sun et al. 2020, arXiv:2011.12895), over rating instead of win-rate.
    Where all are too far away to tell, the nearest counts.

    gaps: (N,), Elo points between the learner and each member. width: in Elo points.
    """
    exponents = -0.5 * (gaps / width) ** 2
    weights = np.exp(exponents - exponents.max())
    return np.asarray(weights / weights.sum(), np.float64)


SAMPLERS: dict[str, Sampler] = {
    "uniform": lambda known: newest(len(known.members), len(known.members)),
    "latest": lambda known: newest(len(known.members), 1),
    "recent": lambda known: newest(len(known.members), known.config.recent_window),
    "pfsp_hard": lambda known: pfsp(known.win_rates(), "pfsp_hard"),
    "pfsp_var": lambda known: pfsp(known.win_rates(), "pfsp_var"),
    "pfsp_linear": lambda known: pfsp(known.win_rates(), "pfsp_linear"),
    "quality": lambda known: by_quality(known.qualities()),
    "rating": lambda known: by_rating(known.gaps(), known.config.rating_width),
    "nash": lambda known: nash(known.payoff()).rows,
}
"""By their names in `pool.sampler` and `pool.group_sampler`."""
_registered: dict[str, Sampler] = {}
READ_NOTHING = ("uniform", "latest", "recent")
"""Those whose weights are taken as they are: all others are mixed with a share `pool.epsilon` of uniform."""


def register(name: str, sampler: Sampler, *, replaces: bool = False) -> None:
    """Adds a custom sampler; from then on `pool.sampler` and `pool.group_sampler` may name it.

    A run of it is resumed only where it is registered again, or named by `--sampler` (docs/bring.md).

    replaces: it may take the place of another one of one's own.

    Raises:
        ConfigError: another one has this name.
    """
    known = _registered.get(name)
    if known is not sampler and name in SAMPLERS and (known is None or not replaces):
        raise ConfigError(f"sampler {name!r} is already registered; register it under a new name")
    _registered[name] = sampler
    SAMPLERS[name] = lambda known: _drawn_by(name, sampler, known)
    if name not in models.SAMPLERS:
        models.SAMPLERS.append(name)


def registered(name: str) -> Sampler | None:
    """One's own sampler of this name; None where there is none."""
    return _registered.get(name)


class Beginning:
    """What is known of a group of `num_members` before any game: a `Known` to try a sampler on."""

    def __init__(self, config: PoolConfig, num_members: int) -> None:
        self.config = config
        self.members: Sequence[str] = [f"{i:064x}" for i in range(num_members)]

    def win_rates(self) -> Floats:
        """See `Known.win_rates`."""
        return np.full(len(self.members), 0.5)

    def gaps(self) -> Floats:
        """See `Known.gaps`."""
        return np.zeros(len(self.members))

    def payoff(self) -> Floats:
        """See `Known.payoff`."""
        return np.zeros((len(self.members),) * 2)

    def qualities(self) -> Floats:
        """See `Known.qualities`."""
        return np.zeros(len(self.members))


def probabilities(name: str, known: Known) -> Floats:
    """The probability (N,) with which the sampler of that name draws each member.

    Raises:
        ConfigError: there is no such sampler.
        GuardError: it fails, or what it returns are no weights.
    """
    if name not in SAMPLERS:
        raise ConfigError(f"pool.sampler={name!r} is no sampler{nearest(name, SAMPLERS)}")
    weights = SAMPLERS[name](known)
    return weights if name in READ_NOTHING else with_uniform(weights, known.config.epsilon)


def _drawn_by(name: str, sampler: Sampler, known: Known) -> Floats:
    """The probabilities of a custom sampler.

    Raises:
        GuardError: it fails, or what it returns are no weights.
    """
    with StepKept(), code_told(f"sampler {name}", "mend it, and name it again with --sampler"):
        given = sampler(known)
    return _checked(name, given, len(known.members))


def _checked(name: str, given: Floats, num_members: int) -> Floats:
    """The weights that a custom sampler returned, as probabilities."""
    try:
        weights = np.asarray(given)
        is_text = weights.dtype.kind in "US"
        weights = weights.astype(np.float64)
        is_good = (
            not is_text and weights.shape == (num_members,) and np.isfinite(weights).all() and (weights >= 0).all()
        )
    except (TypeError, ValueError, OverflowError):
        is_good = False
    if not is_good or not weights.any():
        raise GuardError(
            f"sampler {name}: returned {' '.join(repr(given).split())[:200]} for {num_members} members; it must return"
            f" one weight for each, finite, at least 0 and not all 0",
            "bad_sampler",
        )
    weights = weights / weights.max()  # first, since the sum of finite numbers may be infinite
    return np.asarray(weights / weights.sum(), np.float64)


def with_uniform(weights: Floats, epsilon: float) -> Floats:
    """`weights` with a share `epsilon` of uniform, so that nobody is forgotten for good."""
    return (1.0 - epsilon) * weights + epsilon / len(weights)


def draw_targets(members: Sequence[str], weights: Floats, num_targets: int, rng: np.random.Generator) -> list[str]:
    """`num_targets` members by systematic sampling, a member as often as its weight makes it, in their order.

    One draw u sets equally spaced points (u + k) / K on the members' weights laid end to end. A member of weight w is
    taken floor(K w) or ceil(K w) times, K w times on average: a row that draws evenly from the list meets it with
    probability w.
    """
    points = (rng.random() + np.arange(num_targets)) / num_targets
    edges = np.cumsum(weights)
    edges /= edges[-1]
    return [members[i] for i in np.searchsorted(edges, points, side="right")]
