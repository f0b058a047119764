"""Pairings of a tournament, played on the nodes of a Ray cluster."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import cached_property
from typing import Any

import numpy as np

from league.arena.agents import Meeting, Named, Where, play_pairings
from league.arena.entrants import enter
from league.errors import CodeError, LeagueError
from league.play.summaries import num_rows
from league.runtime.cluster import (
    LOCAL,
    RESTARTS,
    ClusterActor,
    Room,
    absolute,
    connected,
    files_of,
    last_line,
    need_store,
    never_ran,
    nodes_of,
    nonce_in,
)
from league.store.files import store_folder
from league.types import SEATS, MatchResult

PARTS = 16
"""Tasks of a batch, however many nodes there are: nets of one task draw from one generator, so the games go by it."""
Pairings = Sequence[tuple[int, int, int, int]]
PlayPairings = Callable[..., list[MatchResult]]


class PlayerActor(ClusterActor):
    """Plays pairings of a tournament.

    agents: each named by itself. where: the fields of a `Where`, but `say`.
    """

    def __init__(self, folder: str, files: dict[str, bytes], agents: list[str], where: dict[str, Any]) -> None:
        super().__init__(folder, files)
        self._agents, self._where = agents, Where(**where, say=None)

    @cached_property
    def _meeting(self) -> Meeting:
        return enter(self._agents, where=self._where)[1]

    def play(self, pairings: Pairings, run: str, update: int, greedy: bool) -> str:
        """Plays (A, B, games, seed) each; as JSON the matches, or `error`: an exception would be pickled."""
        try:
            matches = play_pairings(self._meeting, pairings, run=run, update=update, greedy=greedy)
        except LeagueError as error:
            return json.dumps({"error": str(error)})
        return json.dumps({"matches": [asdict(match) for match in matches]})


@contextmanager
def players(address: str, where: Where, meeting: Meeting) -> Iterator[PlayPairings]:
    """What plays pairings as `play_pairings` does, on all cores of a cluster.

    Args:
        address: the cluster's, or `local`.
        where: what the call says of them.
        meeting: the agents.

    Raises:
        UsageError: as `connected`, `absolute`, `nodes_of` and `need_store`.
    """
    code = {name: absolute(getattr(where, name)) for name in ("env", "bots", "policy")}
    store = store_folder(where.store).absolute()
    agents = [_name_of(named) for named in meeting.sides]
    told = {**code, "device": where.device, "store": str(store)}
    with connected(address, [Room(1.0, 0.0)]) as ray:
        from ray.util import ActorPool

        with nonce_in(store) as nonce:
            nodes = nodes_of(ray, nonce)
        need_store(nodes, store)
        files = files_of(code)
        cores = os.cpu_count() or 1 if address == LOCAL else sum(int(node.room.cpus) for node in nodes)
        actor = ray.remote(PlayerActor).options(num_cpus=1, max_restarts=-1, max_task_retries=-1)

        def made() -> Any:
            return ActorPool([actor.remote(os.getcwd(), files, agents, told) for _ in range(max(1, cores))])

        pool = made()

        def answers(parts: Sequence[Pairings], *given: object) -> list[str]:
            nonlocal pool
            tries = RESTARTS
            while True:
                try:
                    return list(pool.map(lambda one, part: one.play.remote(part, *given), parts))
                except ray.exceptions.RayError as error:
                    if not (tries and never_ran(error)):
                        raise CodeError(f"on {address}: a node failed ({last_line(error)})") from None
                tries, pool = tries - 1, made()

        def play(meeting: Meeting, pairings: Pairings, *, run: str, update: int, greedy: bool) -> list[MatchResult]:
            parts = [part for k in range(PARTS) if (part := pairings[k::PARTS])]
            found, first = list[MatchResult](), 0
            for part, text in zip(parts, answers(parts, run, update, greedy), strict=True):
                answer = json.loads(text)
                if "error" in answer:
                    raise LeagueError(answer["error"])
                found += [replace(match, row=match.row + first) for match in map(_match, answer["matches"])]
                first += sum(num_rows(games) for _, _, games, _ in part)
            return found

        yield play


def shares(games: int, seed: int) -> list[tuple[int, int, int, int]]:
    """Games of the first agent against the second as pairings, one a task, each with a seed of its own."""
    pairs = [games // SEATS // PARTS + (k < games // SEATS % PARTS) for k in range(PARTS)]
    seeds = np.random.SeedSequence(seed).generate_state(PARTS, np.uint64) >> 1
    return [(0, 1, SEATS * count, int(own)) for count, own in zip(pairs, seeds, strict=True) if count]


def _name_of(named: Named) -> str:
    """What an agent is called on every node: `bot:NAME`, a snapshot of the store RUN@STEP, else its folder."""
    return named.label if named.folder is None or named.is_own else str(named.folder.absolute())


def _match(values: dict[str, Any]) -> MatchResult:
    """A match as JSON has it: lists for tuples."""
    pairs = {name: {key: tuple(x) for key, x in values[name].items()} for name in ("metrics", "rewards")}
    return MatchResult(**{**values, **pairs, "agents": tuple(values["agents"])})
