"""Rows for a store, and another process that uses it."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import league
from league.sessions.folders import begin_folder, begin_runs
from league.store.folder import Folder
from league.store.rows import AgentRow, GameRow, GateRow, LearnerRow, RatingRow, RunRow, SnapshotRow
from league.store.store import Store
from league.types import DRAW, MatchResult

ROOT = Path(league.__file__).resolve().parents[1]


class Filled(Store):
    """A store that is given rows of any owner, as no caller of the library gives them: each goes where it belongs."""

    _folders: dict[str, Folder]

    def begin_run(self, run: RunRow, learner: LearnerRow | None = None) -> None:
        """Writes a run."""
        (self.path / run.run).mkdir(exist_ok=True)
        begin_folder(self.folder(run.run), run, self.identity_of(run, learner))

    def begin_league(self, runs: Sequence[RunRow], learners: Sequence[LearnerRow]) -> None:
        """Writes a league and its runs."""
        assert begin_runs(self, runs, learners)

    def folder(self, name: str) -> Folder:
        """What an owner writes; it is the evaluations' where there is no run of that name."""
        self._folders = vars(self).setdefault("_folders", {})
        if name not in self._folders:
            self._folders[name] = Folder(self.path / name, self.say)
        return self._folders[name]

    def owner(self, name: str) -> Folder:
        """The folder of a run, a gate or an import of that name, else the evaluations'."""
        if (self.path / name / "run.json").is_file():
            return self.folder(name)
        shared = self.folder("evaluations-0")
        if not (shared.path / "run.json").is_file():
            shared.begin(self.identity("evaluations", shared.name))
        return shared

    def add_matches(self, matches: Iterable[MatchResult]) -> None:
        """Buffers matches."""
        for match in matches:
            self.owner(match.run).add_matches([match])

    def add_agent(self, agent: AgentRow) -> None:
        """Notes an agent."""
        self.owner("").add_agent(agent)

    def add_game(self, game: GameRow) -> None:
        """Notes a game."""
        self.owner("").add_game(game)

    def add_snapshot(self, snapshot: SnapshotRow) -> None:
        """Notes a snapshot."""
        self.folder(snapshot.run).add_snapshot(snapshot)

    def add_event(self, run: str, *event: Any) -> None:
        """Buffers an event."""
        self.folder(run).add_event(*event)

    def add_metrics(self, run: str, *metrics: Any) -> None:
        """Buffers metrics."""
        self.folder(run).add_metrics(*metrics)

    def add_ratings(self, ratings: Sequence[RatingRow]) -> None:
        """Buffers ratings."""
        for rating in ratings:
            self.owner(rating.run).add_ratings([rating])

    def update_run(self, run: str, **noted: Any) -> None:
        """Notes how far a run is."""
        self.folder(run).note(**noted)
        self.folder(run).flush(force=True)

    def gate_begins(self, gate: GateRow, alpha_of: Callable[[int], float] = lambda attempt: 0.05) -> GateRow:
        """Writes a gate that nobody plays."""
        with ExitStack() as locks:
            return self.begin_gate(gate, alpha_of, locks)[0]

    def flush(self, force: bool = True) -> None:
        """Writes all that waits."""
        for folder in vars(self).get("_folders", {}).values():
            folder.flush(force=force)


def empty_store(path: Path) -> Filled:
    """A store without rows."""
    return Filled.create(path)


def keeping_store(path: Path) -> Filled:
    """A store without games in which evaluations are kept, since an owner is in it."""
    store = empty_store(path)
    store.owner("")
    return store


def files_of(store: Path) -> dict[str, bytes]:
    """All files of a store, by name."""
    return {str(path): path.read_bytes() for path in sorted(store.rglob("*")) if path.is_file()}


def make_match(**changes: Any) -> MatchResult:
    """A training match, with changes."""
    values: dict[str, Any] = {
        "run": "a",
        "kind": "training",
        "update": 1,
        "row": 0,
        "ordinal": 0,
        "game_id": "g",
        "agents": ("a", "bot:based"),
        "seed": 5,
        "winner": 0,
        "end_reason": "time",
        "steps": 10,
        "ticks": 30,
        "sampling": "sample",
    }
    return MatchResult(**values | changes)


def make_run(run: str = "a", **changes: Any) -> RunRow:
    """A run, with changes."""
    values: dict[str, Any] = {
        "run": run,
        "game": "brawl",
        "game_id": "g",
        "fingerprint": "f",
        "seed": 2**64 - 1,
        "stage": "smoke",
        "config": '{"a": {"b": 1}}',
    }
    return RunRow(**values | changes)


def make_snapshot(run: str = "a", step: int = 100, **changes: Any) -> SnapshotRow:
    """A snapshot, with changes."""
    values: dict[str, Any] = {
        "run": run,
        "step": step,
        "update": step // 100,
        "agent_id": f"hash{step}",
        "path": f"{run}/snapshots/{step:010d}",
        "fingerprint": "f",
    }
    return SnapshotRow(**values | changes)


def make_agent(agent_id: str = "bot:based", **changes: Any) -> AgentRow:
    """An agent, with changes."""
    return AgentRow(**{"agent_id": agent_id, "kind": "bot", "name": agent_id, "game_id": "g"} | changes)


def store_of_match(path: Path, name: str) -> Path:
    """A store with one evaluation match of two agents, of which `name`, `import:` and a name, is the first."""
    store = empty_store(path)
    store.begin_run(make_run())
    for agent in (name, "bot:based"):
        store.add_agent(make_agent(agent, name=agent.removeprefix("import:")))
    store.add_matches([make_match(kind="evaluation", agents=(name, "bot:based"))])
    store.flush(force=True)
    return store.path


def begin_brawl(store: Filled, run: str, game_id: str = "g", snapshots: int = 3, **changes: Any) -> None:
    """A run of brawl whose snapshots at steps 0, 100, ... have the ids RUN0, RUN1, ..."""
    store.begin_run(RunRow(run, "brawl", game_id, "f", 1, "smoke", "{}", **changes))
    for i in range(snapshots):
        store.add_snapshot(SnapshotRow(f"{run}{i}", run, 100 * i, i, f"{run}/snapshots/{100 * i}", "f"))
    store.add_game(GameRow(game_id, "brawl", "bot:based"))
    store.add_agent(make_agent(game_id=game_id))
    store.flush(force=True)


def play(
    store: Filled, a: str, b: str, wins: int, draws: int, losses: int, run: str = "r", game_id: str = "g", **more: Any
) -> None:
    """Evaluation games between two agents in alternating seats, with a's wins, draws and losses."""
    played = vars(store).setdefault("_played", Counter())
    matches = []
    for i, outcome in enumerate([0] * wins + [DRAW] * draws + [1] * losses):
        seats = (a, b) if i % 2 == 0 else (b, a)
        winner = outcome if outcome == DRAW or i % 2 == 0 else 1 - outcome
        values = {"run": run, "row": played[run] + i, "agents": seats, "seed": i, "winner": winner, "game_id": game_id}
        matches.append(make_match(kind="evaluation", update=0, steps=1, ticks=1, **values))
    played[run] += len(matches)
    store.add_matches(matches)
    if more.get("flush", True):
        store.flush(force=True)


def make_gate(gate: str = "g1", **changes: Any) -> GateRow:
    """A gate at the title of run a, with changes."""
    values: dict[str, Any] = {
        "gate": gate,
        "game_id": "g",
        "run": "a",
        "challenger": "hash200",
        "opponent": "hash100",
        "attempt": 1,
        "elo0": 0.0,
        "elo1": 35.0,
        "elo_model": "logistic",
        "alpha": 0.05,
        "beta": 0.05,
        "seed": 2**63,
        "sampling": "sample",
    }
    return GateRow(**values | changes)


@contextlib.contextmanager
def python(code: str, *args: object) -> Iterator[subprocess.Popen[str]]:
    """Another Python process that runs `code` and can be talked to by its stdin and stdout."""
    process = subprocess.Popen(
        [sys.executable, "-c", code, *map(str, args)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)])},
    )
    with process:
        try:
            yield process
        finally:
            process.kill()
