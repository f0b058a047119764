"""A run as its training sees it: where it stands, its parts, who watches, and what keeps its files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import numpy as np
import torch

from league.config.models import Config, PoolConfig
from league.play.evaluation import Summary
from league.pool.pool import Pool
from league.store.rows import RewardTerm
from league.store.store import Store
from league.training.guards import Guards
from league.types import GameSpec, MatchBatch, Policy, PolicyStack


@dataclass
class Counters:
    """Where a run stands. With the parts' own states it is all that a restart needs."""

    update: int = 0
    steps: int = 0
    next_snapshot: int = 0
    next_evaluation: int = 0
    newest: str = ""
    """Agent id of the newest snapshot."""
    newest_steps: int = -1
    evaluated: str = ""
    """Agent id of the snapshot that was evaluated last."""
    ladder_games: int = 0
    """Played by snapshots on the ladder (`league.training.ladder`)."""
    ladder_steps: int = 0
    """Steps of these games."""

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The inverse of `asdict`.

        Raises:
            TypeError: it has other fields.
        """
        vars(self).update(vars(Counters(**state)))


@dataclass(frozen=True)
class Report:
    """One update, for whoever watches."""

    steps: int
    total_steps: int
    update: int
    steps_per_second: float
    seconds_left: float
    metrics: dict[str, float]
    win_rates: dict[str, float]
    """Group of the mix -> score of the learner over its last matches against it (`league.training.recent.WINDOW`)."""
    rewards: tuple[RewardTerm, ...] = ()
    """Of its last matches, the one that weighs most first."""


class Watcher(Protocol):
    """Is told how training goes; a terminal, a log, or nobody."""

    def report(self, report: Report) -> None:
        """After every update."""

    def evaluated(self, steps: int, opponent: str, summary: Summary) -> None:
        """After the matches of an evaluation against one opponent."""

    def say(self, message: str) -> None:
        """Something that a user should read."""


class Shelf(Protocol):
    """Keeps a run's snapshots, states and evidence."""

    @property
    def guests(self) -> Sequence[str]:
        """The agent ids of those in the mix that are no nets of the run's and no native bots."""

    @property
    def bots(self) -> Sequence[str]:
        """Bots in Python, in the mix or not, which evaluations meet: `bot:NAME`."""

    def load_policy(self, agent_id: str) -> Policy:
        """The frozen policy of an agent id, on the run's device."""

    def add_snapshot(self, policy: Policy, counters: Counters) -> str:
        """Stores the policy as it is now and returns its agent id."""

    def save_state(self, state: dict[str, Any]) -> None:
        """Stores what a restart needs."""

    def write_evidence(self, evidence: Mapping[str, Any]) -> str:
        """Writes a file of what a guard found, and returns words of what shows it."""


PoolMaker = Callable[[PoolConfig, Callable[[str], Policy], np.random.Generator, Sequence[str]], Pool]
"""Makes a pool of its settings, `Shelf.load_policy`, what draws, and the guests."""
Ending = Literal["finished", "stopped", "turn over", "reset"]
"""The stage's steps are done; a signal came; the pool's turn is over; the learner goes back to its first weights."""


@dataclass(frozen=True)
class Lesson:
    """What training rows play from a step of the run on (`env.curriculum`)."""

    number: int
    """Counted from 1; 0 is the run's own game, before the first lesson."""
    begins: int
    """At the first update boundary at or past so many steps."""
    game_id: str
    """Of the game under the lesson's options, which match rows have."""
    make_batch: Callable[[int], MatchBatch]
    """A batch of it with so many rows."""
    words: str = ""
    """What its options are."""


@dataclass(frozen=True)
class Run:
    """The parts of one run."""

    name: str
    config: Config
    game_id: str
    seed: int
    device: torch.device
    policy: Policy
    spec: GameSpec
    make_batch: Callable[[int], MatchBatch]
    """A batch of the game with so many rows."""
    make_stack: Callable[[], PolicyStack | None]
    """Plays frozen policies in one call; None where each is faster by itself."""
    shelf: Shelf
    store: Store
    watcher: Watcher
    make_pool: PoolMaker = Pool
    products: str = "float32"
    """What matrix products are on the device, as `league.device.products_of` has it."""
    rate: Callable[[int, set[str]], None] = field(default=lambda update, agents: None)
    """Writes down, with the updates made, the ratings of agents that met in an evaluation."""
    env: str = ""
    """What `--env` takes for the game; empty: its name."""
    begin: Callable[[], None] = field(default=lambda: None)
    """Called once everything is there that the run plays with, before it plays."""
    lessons: Sequence[Lesson] = ()
    """What training rows play instead of the run's own game, which evaluations always play; the earliest first."""
    counters: Counters = field(default_factory=Counters)
    guards: Guards = field(default_factory=Guards)

    def lesson_at(self, steps: int) -> Lesson:
        """What a rollout that begins after so many steps plays."""
        own = Lesson(0, 0, self.game_id, self.make_batch)
        return max((own, *(x for x in self.lessons if x.begins <= steps)), key=lambda lesson: lesson.number)
