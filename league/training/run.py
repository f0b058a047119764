"""A run as its training sees it: where it stands, its parts, who watches, and what keeps its files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np
import torch

from league.config.models import Config, PoolConfig
from league.maths.elo import ELO_K, ELO_START, elo_ratings, elo_update
from league.play.evaluation import MakeStack, play
from league.play.pairings import Contestant, Pairing
from league.play.recording import Recording
from league.play.rollout import make_graphs
from league.play.summaries import Count, Summary
from league.pool.pool import Pool
from league.runtime.ranks import Ranks
from league.runtime.signals import interrupt, on_signal
from league.store.folder import Folder
from league.store.reading import Reader
from league.store.rows import RewardTerm
from league.store.store import Store
from league.training.guards import Guards
from league.types import GameSpec, MatchBatch, MatchResult, Origin, Policy, PolicyStack

if TYPE_CHECKING:
    from league.boards.leaderboards import Rated


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
    reset_at: int = 0
    """Steps made before the last reset to the first weights; 0: there was none."""
    evaluation_steps: int = 0
    """Steps of its evaluations (`league.training.evaluating`)."""
    longest_match: int = 0
    """Most steps that a match of them took; 0: not known, since none has ended within what was left."""
    ladder_games: int = 0
    """Played by snapshots on the ladder (`league.training.ladder`)."""
    ladder_steps: int = 0
    """Steps of these games."""

    @property
    def steps_learned(self) -> int:
        """Steps since the first weights or the last reset to them: schedules, lessons and alarms count these."""
        return self.steps - self.reset_at

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The inverse of `asdict`.

        Raises:
            TypeError: it has other fields.
        """
        vars(self).update(vars(Counters(**state)))


class Met:
    """The run's own games, as far as its ratings need them: read from the store once, then as they are played."""

    def __init__(self) -> None:
        self.games: dict[tuple[int, int, int], MatchResult] = {}
        """(Update, row, ordinal) -> an evaluation game."""
        self.elo: dict[str, float] = {}
        """The moving Elo of training games: of the learner, by the run's name, and of each opponent."""
        self.trained = 0
        """Training games in it."""

    def read(self, store: Reader, run: str) -> None:
        """Takes in the games that the store has of a run that goes on."""
        self.add(store.matches(run, "evaluation"))
        games = store.training_games(run)[run]
        self.elo = elo_ratings((run, opponent, score) for opponent, score, _ in games)
        self.trained = len(games)

    def add(self, results: Iterable[MatchResult]) -> None:
        """Evaluation games; one replaces one of its key."""
        kept = (replace(x, metrics={}, rewards={}, replay="") for x in results)
        self.games |= {(x.update, x.row, x.ordinal): x for x in kept}

    def train(self, run: str, results: Iterable[MatchResult]) -> None:
        """Training games of an update."""
        for x in sorted(results, key=lambda x: (x.update, x.row, x.ordinal)):
            opponent = next((agent for agent in x.agents if agent != run), run)
            a, b = self.elo.get(run, ELO_START), self.elo.get(opponent, ELO_START)
            self.elo[run], self.elo[opponent] = elo_update(a, b, x.score_of(run), ELO_K)
            self.trained += 1


@dataclass(frozen=True)
class Report:
    """One update, as callbacks receive it."""

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
    run: str = ""
    """Whose update it is."""


@dataclass(frozen=True)
class Start:
    """Where a run begins or resumes, as callbacks receive it."""

    run: str
    steps: int
    """That it has made: those of its saved state. What was told of later ones is void, since they are made again."""
    update: int
    total_steps: int
    config: Mapping[str, Any]
    """Its settings, section by section, as JSON has them."""
    folder: Path
    """Where its files lie."""
    identity: str
    """What tells the run from those of other stores, too."""
    league: str = ""
    """Whose learner it is."""


class Callback:
    """Is told how a training goes. Write the methods that you need, and leave the others out.

    A method that returns False ends the run after its present update, saved, so that `resume` carries it on. What a
    method raises ends nothing: it is told once, and training goes on.
    """

    def began(self, start: Start) -> bool | None:
        """Before a run plays, new or resumed; in a league before each of a learner's turns."""

    def report(self, report: Report) -> bool | None:
        """After every update."""

    def evaluated(self, steps: int, opponent: str, summary: Summary) -> bool | None:
        """After an evaluation of the snapshot at `steps`: its games against one opponent."""

    def rated(self, steps: int, ratings: Sequence[Rated]) -> bool | None:
        """Then, or a few updates later: the ratings of that snapshot and of its opponents."""

    def saved(self, steps: int) -> bool | None:
        """Once a state is saved from which the run can go on."""

    def ended(self, steps: int, status: str) -> bool | None:
        """At the end, when all files are written: `finished`, `stopped` or `failed`."""

    def say(self, message: str) -> None:
        """Something that a user should read."""

    def of(self, name: str) -> Callback | None:
        """Who is told of one learner of a league; None: `say` gets a line a turn."""
        return self


class ArtifactStore(Protocol):
    """Keeps a run's snapshots, states and evidence."""

    @property
    def rows(self) -> Folder:
        """What the run writes."""

    @property
    def guests(self) -> Sequence[str]:
        """The agent ids of those in the mix that are no nets of the run's and no native bots."""

    @property
    def bots(self) -> Sequence[str]:
        """Bots in Python, in the mix or not, which evaluations meet: `bot:NAME`."""

    def load_policy(self, agent_id: str) -> Policy:
        """The frozen policy of an agent id, on the run's device."""

    def package(self, agent_id: str) -> bytes:
        """A snapshot or an agent from elsewhere as bytes, for `unpack` on another rank."""

    def unpack(self, data: bytes) -> None:
        """Keeps in memory what `package` gave, until `load_policy` takes it."""

    def add_snapshot(self, policy: Policy, counters: Counters, return_size: float) -> str:
        """Freezes the policy as it is now and returns its agent id; it may be written meanwhile (`settle`).

        return_size: what its values are in, of the learner.
        """

    def settle(self, *, wait: bool = True) -> None:
        """Before rows that name a snapshot go to the store: its own row is there first, and before it its files.

        wait: until that is so of all; else only of those that are written by now.

        Raises:
            SnapshotError: one cannot be written; nothing of it is lost, and it is tried again at the next call.
        """

    def save_state(self, state: dict[str, Any], *, is_mark: bool = False) -> None:
        """Stores what a restart needs, after the snapshots that it names; `is_mark`: to go back to it later, too."""

    def close(self) -> None:
        """Lets go of what is in memory; no other call may follow but of a training that goes on from a state."""

    def write_evidence(self, evidence: Mapping[str, Any]) -> str:
        """Writes a file of what a guard found, and returns words of what shows it."""


PoolMaker = Callable[[PoolConfig, Callable[[str], Policy], np.random.Generator, Sequence[str]], Pool]
"""Makes a pool of its settings, `ArtifactStore.load_policy`, what draws, and the guests."""
Ending = Literal["finished", "stopped", "turn over", "reset"]
"""The stage's steps are done; a signal came; the pool's turn is over; the learner goes back to its first weights."""


@dataclass(frozen=True)
class Lesson:
    """What training rows play from a step of the run on (`env.curriculum`)."""

    number: int
    """Counted from 1; 0 is the run's own game, before the first lesson."""
    begins: int
    """At the first update boundary at or past `steps` steps (`Counters.steps_learned`)."""
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
    artifacts: ArtifactStore
    store: Store
    callback: Callback
    make_pool: PoolMaker = Pool
    stack_for: MakeStack = field(default=lambda like: None)
    """The same for the nets like this one that meet in an evaluation, with room for one, which grows."""
    products: str = "float32"
    """What matrix products are on the device, as `league.runtime.device.products_of` has it."""
    rate: Callable[[Met, int, Mapping[str, str]], None] = field(default=lambda met, update, agents: None)
    """Writes down, with the updates made, the ratings of agents that met in an evaluation: their ids and names."""
    env: str = ""
    """What `--env` takes for the game; empty: its name."""
    game: Mapping[str, Any] = field(default_factory=dict)
    """The game as replays tell it (`league.play.recording.Recording`); empty: none are kept."""
    actions: Sequence[str] = ()
    """What the keys, choices and numbers of an action are called (`league.arena.frames.rows_of`)."""
    begin: Callable[[], None] = field(default=lambda: None)
    """Called once everything is there that the run plays with, before it plays."""
    is_over: Callable[[], bool] = field(default=lambda: False)
    """Whether a callback has ended it."""
    lessons: Sequence[Lesson] = ()
    """What training rows play instead of the run's own game, which evaluations always play; the earliest first."""
    ranks: Ranks | None = None
    """The processes that train it, of which rank 0 leads; None: this one alone."""
    counters: Counters = field(default_factory=Counters)
    guards: Guards = field(default_factory=Guards)
    met: Met = field(default_factory=Met)

    def play(
        self, pairings: Sequence[Pairing], *, limit: int | None = None, count: Count | None = None
    ) -> list[MatchResult]:
        """The games of an evaluation, by the run's own nets in one call and through graphs where training plays so.

        limit, count: as for `league.play.evaluation.play`.

        Raises:
            Interrupted: a signal broke the games off.
        """
        learner = self.config.learner
        with on_signal(interrupt):
            return play(
                self.make_batch,
                pairings,
                Origin(self.name, self.game_id),
                update=self.counters.update,
                precision=learner.precision,
                make_stack=self.stack_for,
                make_graphs=partial(make_graphs, learner, say=lambda line: None),  # the collector has said it
                recording=self.recording,
                limit=limit,
                count=count,
            )

    @property
    def rows(self) -> Folder:
        """What the run writes."""
        return self.artifacts.rows

    def contestant(self, agent_id: str) -> Contestant:
        """An agent of the artifact store; those of the learner's architecture are one family.

        Raises:
            SnapshotError: it is missing or damaged.
        """
        is_guest = agent_id in self.artifacts.guests or agent_id in self.artifacts.bots
        return Contestant(agent_id, self.artifacts.load_policy(agent_id), None if is_guest else "own")

    def add_evaluation(self, results: Sequence[MatchResult]) -> None:
        """Gives the store games of an evaluation, once the snapshots that played them are there.

        Raises:
            SnapshotError: a snapshot cannot be written.
        """
        self.artifacts.settle()
        self.rows.add_matches(results)
        self.met.add(results)

    @property
    def recording(self) -> Recording:
        """Which of its evaluation matches are kept whole."""
        return Recording(self.config.run.replays if self.game else 0, self.game)

    def lesson_at(self, steps: int) -> Lesson:
        """What a rollout plays that begins after `steps` (`Counters.steps_learned`)."""
        own = Lesson(0, 0, self.game_id, self.make_batch)
        return max((own, *(x for x in self.lessons if x.begins <= steps)), key=lambda lesson: lesson.number)
