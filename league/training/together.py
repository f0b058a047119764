"""A run that several ranks train: what passes between them in a rollout, an update and a save.

Rank 0 leads: it runs the loop, draws from the pool, evaluates and saves. The others `follow` its orders. Each rank
writes segments of its own matches; rank 0 puts them into the run's folder, which no other needs to see. Weights,
moments and generators of the learner are the same on all of them; each has its part of the rows.
"""

from __future__ import annotations

import hashlib
import json
import signal
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from league.errors import LeagueError, StoreError
from league.play import randomness
from league.play.moving import regrouped, seed_after
from league.play.opponents import NO_SLOT
from league.play.rollout import Collector
from league.pool.pool import Pool
from league.runtime.ranks import Ranks
from league.runtime.rows import RowGenerator, RowShare
from league.runtime.signals import received
from league.runtime.trees import from_bytes, to_bytes
from league.store.folder import Folder
from league.store.segments import Segment
from league.training.learner import Learner
from league.training.run import Run
from league.types import MatchResult, Rollout

if TYPE_CHECKING:
    from league.training.training import Training

END, PLAY, WRITE, SAVE = "end", "play", "write", "save"
"""What rank 0 orders."""
_FIELDS = tuple(field.name for field in fields(MatchResult))


class Together:
    """What rank 0 and the others exchange; each method is called by all of them.

    Args:
        ranks: this process among them.
        run: its parts.
        pool: on rank 0 the run's, elsewhere one that follows it (`Pool.follow`).
    """

    def __init__(self, ranks: Ranks, run: Run, pool: Pool) -> None:
        self.ranks, self._run, self._pool = ranks, run, pool
        self._there: set[str] = set()
        """Snapshots that the other ranks have in memory."""
        self._unwritten: list[MatchResult] = []
        """On rank 0, matches of the others that are in no segment yet."""
        if self.leads:
            self._rows = run.rows
        else:
            self._temporary = TemporaryDirectory(prefix="league-rank-")
            self._rows = Folder(Path(self._temporary.name), run.callback.say)

    def begin(self) -> None:
        """The pools have the nets of the saved state."""
        self._there = set(self._pool.live)

    @property
    def leads(self) -> bool:
        """Whether this is rank 0."""
        return self.ranks.rank == 0

    def order(self, what: str) -> None:
        """On rank 0, says what all do next; the others have heard it."""
        if self.leads:
            self.ranks.broadcast({"do": what})

    def refresh_targets(self, in_use: set[str]) -> None:
        """Draws targets as `Pool.refresh_targets` does, by what the rows of all ranks play; all have the nets then.

        A signal that another rank has received ends the run as one of rank 0's does.
        """
        told, pool = self.ranks.gather({"in_use": sorted(in_use), "received": received()}), self._pool
        if self.leads:
            for number in next((each["received"] for each in told if each["received"] and not received()), ()):
                signal.raise_signal(number)
            pool.refresh_targets({agent for each in told for agent in each["in_use"]})
            for target in dict.fromkeys(pool.targets):
                pool.policy(target)
            new = [agent for agent in pool.live if agent not in self._there]
            self.ranks.broadcast({"targets": pool.targets, "odds": pool.odds, "live": pool.live, "new": new})
            for agent in new:
                self.ranks.broadcast_bytes(self._run.artifacts.package(agent))
            self._there = set(pool.live)
            return
        now = self.ranks.broadcast()
        for _ in now["new"]:
            self._run.artifacts.unpack(self.ranks.broadcast_bytes())
        pool.follow(now["targets"], now["odds"], now["live"])

    def gather_matches(self, rollout: Rollout) -> Rollout:
        """The rollout with the actions of all ranks and, on rank 0, their matches, by row and ordinal."""
        found = self.ranks.gather_bytes(json.dumps([_as_list(match) for match in rollout.finished]).encode())
        matches = [_match_of(each) for data in found for each in json.loads(data)]
        actions = self.ranks.whole(rollout.action, rollout.segments)
        return replace(rollout, action=actions, finished=sorted(matches, key=lambda match: (match.row, match.ordinal)))

    def add_matches(self, matches: Sequence[MatchResult]) -> None:
        """The matches of a rollout count, now that its update is made: this rank's own are written next."""
        self._rows.add_matches(x for x in matches if self._rank_of(x) == self.ranks.rank)
        self._unwritten += (x for x in matches if self._rank_of(x) != self.ranks.rank)

    def _rank_of(self, match: MatchResult) -> int:
        return match.row // (self._run.config.env.rows // self.ranks.size)

    def gather_segments(self) -> None:
        """The other ranks write their matches since the last time as segments, and rank 0 places them in its folder."""
        self.order(WRITE)
        own = [] if self.leads else [[segment.model_dump(), data] for segment, data in self._rows.taken()]
        for rank, data in enumerate(self.ranks.gather_bytes(to_bytes(own))):
            try:
                for segment, content in from_bytes(data):
                    self._rows.place(Segment(**segment), content)
            except StoreError:  # as rows of this rank's own they wait for the disk
                self._rows.add_matches(x for x in self._unwritten if self._rank_of(x) == rank)
        self._unwritten.clear()

    def write_alone(self) -> None:
        """Rank 0 takes the matches of which another rank wrote no segment yet: it cannot any more."""
        self._rows.add_matches(self._unwritten)
        self._unwritten.clear()

    def gather_state(self, learner: Learner, collector: Collector) -> dict[str, Any]:
        """On rank 0 the matches and generators of all ranks, as parts of the run's state; elsewhere nothing.

        Raises:
            LeagueError: the learners differ, on rank 0.
        """
        own = {"collector": collector.state_dict(), "generators": randomness.get_state(self._run.device)}
        parts = [from_bytes(data) for data in self.ranks.gather_bytes(to_bytes(own | {"digest": digest(learner)}))]
        for rank, part in enumerate(parts):
            if part["digest"] != parts[0]["digest"]:
                raise LeagueError(
                    f"run={self._run.name}: at step {self._run.counters.steps:,} the weights of rank {rank} are not"
                    f" those of rank 0; nothing was saved; resume from the last saved state, on machines that compute"
                    f" alike"
                )
        if not parts:
            return {}
        return {
            "collector": {"ranks": [part["collector"] for part in parts]},
            "generators_of_others": [part["generators"] for part in parts[1:]],
        }


def follow(training: Training) -> dict[str, Any]:
    """Does what rank 0 orders, to the end; returns what it says then."""
    together = training.together
    assert together is not None
    with training.going():
        while (told := together.ranks.broadcast())["do"] != END:
            if told["do"] == WRITE:
                together.gather_segments()
            elif told["do"] == SAVE:
                together.gather_state(training.learner, training.collector)
            else:
                training.learn(training.collect())
    return dict(told)


def digest(learner: Learner) -> str:
    """sha256, in hex, of the learner's weights and moments."""
    found = hashlib.sha256()
    state = learner.state_dict()
    moments = [x for _, values in sorted(state["optimizer"].items()) for _, x in sorted(values.items())]
    for x in (*(x for _, x in sorted(state["policy"].items())), *moments):
        found.update(x.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return found.hexdigest()


def share_of(run: Run) -> RowShare | None:
    """The rows that this rank plays; None: all."""
    if run.ranks is None:
        return None
    rows = run.config.env.rows // run.ranks.size
    return RowShare(run.ranks.rank * rows, rows, run.config.env.rows, run.seed)


def seed_of(run: Run, update: int, seed: int) -> int:
    """A seed of the run for what a rank draws by itself: on rank 0 `seed`, elsewhere one of its own."""
    return seed if run.ranks is None or not run.ranks.rank else seed_after(run.seed, update, run.ranks.rank)


def make_generator(run: Run) -> torch.Generator:
    """What draws the actions: by row on a CPU; on CUDA, whose graphs draw by themselves, by rank."""
    share = share_of(run)
    is_by_row = share is not None and run.device.type == "cpu"
    generator = RowGenerator(share) if share is not None and is_by_row else torch.Generator(run.device)
    return generator.manual_seed(seed_of(run, 0, run.seed))


def generators_of(ranks: Ranks | None, state: dict[str, Any]) -> dict[str, Any] | None:
    """The global generators of this rank, taken out of a saved state; None where it has none of as many ranks."""
    first: dict[str, Any] | None = state.pop("generators", None)
    others: list[dict[str, Any]] = state.pop("generators_of_others", [])
    if ranks is None or not ranks.rank:
        return first
    return others[ranks.rank - 1] if len(others) + 1 == ranks.size else None


def matches_of(run: Run, saved: dict[str, Any], collector: Collector) -> dict[str, Any]:
    """The matches of this rank in a saved state, as `Collector.load_state_dict` takes them.

    Those of another number of ranks are put together and divided again, row by row; where the game cannot regroup its
    matches, what is returned has another number of rows, and so is not taken.
    """
    parts, ranks = saved.get("ranks"), run.ranks
    size = 1 if ranks is None else ranks.size
    if ranks is not None and parts is not None and len(parts) == size:
        return dict(parts[ranks.rank])
    whole = saved if parts is None else _joined(parts)
    if ranks is None or size == 1:
        return whole
    guests = {agent: collector.pool.policy(agent) for agent in collector.pool.guests}
    rows = [collector.num_rows] * size
    lanes = regrouped(whole["lanes"], rows, collector.lanes[0].batch, run.policy, guests)
    if lanes is None:
        return whole
    generator = whole["generator"] if not ranks.rank else torch.empty(0, dtype=torch.uint8)  # which none takes
    return _joined([{**whole, "lanes": [lanes[ranks.rank]], "generator": generator}])


def num_matches(saved: dict[str, Any]) -> int:
    """Matches in play in a saved state, of all ranks."""
    return sum(len(lane["opponents"]) for part in saved.get("ranks", [saved]) for lane in part["lanes"])


def _joined(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """The matches of several collectors as those of one, without nets that nobody plays."""
    nets: list[str] = []
    lanes = []
    for part in parts:
        for lane in part["lanes"]:
            played = [slot for slot in dict.fromkeys(np.asarray(lane["slots"]).tolist()) if slot > NO_SLOT]
            nets += [net for net in dict.fromkeys(part["nets"][slot] for slot in played) if net not in nets]
            slots = [nets.index(part["nets"][slot]) if slot > NO_SLOT else slot for slot in lane["slots"].tolist()]
            lanes.append({**lane, "slots": np.array(slots, np.int64)})
    return {"generator": parts[0]["generator"], "nets": nets, "lanes": lanes}


def _as_list(match: MatchResult) -> list[Any]:
    return [getattr(match, name) for name in _FIELDS]


def _match_of(told: list[Any]) -> MatchResult:
    """The inverse of `_as_list`, over JSON."""
    values = dict(zip(_FIELDS, told, strict=True))
    for name in ("metrics", "rewards"):
        values[name] = {key: (first, second) for key, (first, second) in values[name].items()}
    values["agents"] = tuple(values["agents"])
    return MatchResult(**values)
