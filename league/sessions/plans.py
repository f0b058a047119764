"""What a session trains, and the results of calls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from league.boards.standings import curves
from league.config.models import Config
from league.errors import DEFAULT_STORE
from league.pool.pool import Pool
from league.runtime.ranks import Ranks
from league.sessions.artifacts import FileArtifactStore
from league.sessions.callbacks import Callbacks
from league.store.rows import RunRow
from league.store.store import Store
from league.training.run import PoolMaker
from league.types.results import Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure


CUSTOM_LOOP = "custom_loop"
"""Kind of the events of a run that a `Trainer` holds open."""


@dataclass(frozen=True, repr=False, kw_only=True)
class TrainResult(Result):
    """Where a call left its run, league or exploiter."""

    run: str
    steps: int
    updates: int
    status: str
    """`finished`, or `stopped` by a signal."""
    newest: str
    """Agent id of the newest snapshot."""
    signal: int = 0
    """Number of the signal that stopped it."""
    store: Path = field(default=Path(DEFAULT_STORE), compare=False, repr=False)
    verdict: str = field(default="", repr=False)
    """Two lines at the end of a stage that another one carries on: what it foretells (`league.boards.verdict`)."""

    def plot(self) -> Figure:
        """The ratings of its snapshots over the steps, and the reward a step."""
        store = Store.open(self.store)
        return curves(store, [self.run], self.run, "reward_per_step")


@dataclass(frozen=True)
class Plan:
    """What one learner is."""

    row: RunRow
    """As it is from now on."""
    found: RunRow | None
    """As it was in the store when the plan was made; None of a new run."""
    config: Config
    device: torch.device
    artifacts: FileArtifactStore
    callback: Callbacks
    make_pool: PoolMaker = Pool
    """A pool that says when a turn is over lets the others have theirs; another one never does."""
    first_weights: int | None = None
    """What the network's first weights are drawn with, if not with the run's seed."""
    begins_as: str = ""
    """The agent id of a net whose weights it begins with instead."""
    events: tuple[tuple[str, str], ...] = ()
    """Kind and text of what is otherwise than its settings say or than before; those without text are left out."""
    has_alarms: bool = True
    """Whether the store is searched for alarms when it is finished."""
    league: str = ""
    """Whose learner it is."""
    behind: Callable[[int], list[str]] = lambda steps: []
    """Whom a learner in step waits for, which has made so many steps, before its turn begins."""
    ranks: Ranks | None = None
    """The processes that train it; None: this one alone."""


@dataclass(frozen=True)
class SessionEnd:
    """How a session ended: where each learner is, and the signal that came, if one did."""

    results: tuple[TrainResult, ...]
    signal: int = 0
