"""Pairings of a tournament, played on the nodes of a Ray cluster."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from league.arena.agents import Meeting, play_pairings
from league.arena.entrants import enter
from league.errors import CodeError, LeagueError, one_line
from league.play.summaries import num_rows
from league.runtime.cluster import LOCAL, Room, connected, files_of, nodes_of
from league.types import MatchResult

PARTS = 16
"""Tasks of a batch, however many nodes there are: nets of one task draw from one generator, so the games go by it."""
Pairings = Sequence[tuple[int, int, int, int]]
PlayPairings = Callable[..., list[MatchResult]]


class PlayerActor:
    """Plays pairings in a worker process of Ray, of the agents that `enter` finds there.

    Args:
        words: keywords of `league.arena.entrants.enter`.
        ids: the agents that the caller has found, in their order.
    """

    def __init__(self, words: dict[str, Any], ids: Sequence[str]) -> None:
        self._words, self._ids = words, list(ids)
        self._meeting: Meeting | None = None

    def play(self, pairings: Pairings, run: str, update: int, greedy: bool) -> str:
        """Plays (A, B, games, seed) each; as JSON the matches, or `error`: an exception would be pickled."""
        try:
            if self._meeting is None:
                self._meeting = enter(**self._words)[1]
            if (found := [named.agent_id for named in self._meeting.sides]) != self._ids:
                lost = next((x for x in self._ids if x not in found), "another one")
                raise LeagueError(f"agents of the tournament have changed in the store meanwhile ({lost[:12]})")
            matches = play_pairings(self._meeting, pairings, run=run, update=update, greedy=greedy)
        except LeagueError as error:
            return json.dumps({"error": str(error)})
        return json.dumps({"matches": [asdict(match) for match in matches]})


@contextmanager
def players(address: str, words: dict[str, Any], meeting: Meeting) -> Iterator[PlayPairings]:
    """What plays pairings as `play_pairings` does, on all cores of a cluster.

    Args:
        address: the cluster's, or `local`.
        words: as of `PlayerActor`, without `say`.
        meeting: the agents.

    Raises:
        UsageError: as `connected` and `nodes_of`.
    """
    addresses = [words["env"], words["policy"], *(words["own_bots"] or ())]
    words = {**words, "store": str(Path(words["store"]).absolute())}
    ids = [named.agent_id for named in meeting.sides]
    with connected(address, [Room(1.0, 0.0)]) as ray:
        from ray.util import ActorPool

        nodes = nodes_of(ray, Path(words["store"]), files_of(addresses))
        cores = os.cpu_count() or 1 if address == LOCAL else sum(int(node.room.cpus) for node in nodes)
        actor = ray.remote(PlayerActor).options(num_cpus=1, max_restarts=-1, max_task_retries=-1)
        pool = ActorPool([actor.remote(words, ids) for _ in range(max(1, cores))])

        def play(meeting: Meeting, pairings: Pairings, *, run: str, update: int, greedy: bool) -> list[MatchResult]:
            parts = [part for k in range(PARTS) if (part := pairings[k::PARTS])]
            try:
                texts = list(pool.map(lambda one, part: one.play.remote(part, run, update, greedy), parts))
            except ray.exceptions.RayError as error:
                raise CodeError(f"on {address}: a node failed ({one_line(str(error).splitlines()[-1])})") from None
            found, first = list[MatchResult](), 0
            for part, text in zip(parts, texts, strict=True):
                answer = json.loads(text)
                if "error" in answer:
                    raise LeagueError(answer["error"])
                found += [replace(match, row=match.row + first) for match in map(_match, answer["matches"])]
                first += sum(num_rows(games) for _, _, games, _ in part)
            return found

        yield play


def _match(values: dict[str, Any]) -> MatchResult:
    """A match as JSON has it: lists for tuples."""
    pairs = {name: {key: tuple(x) for key, x in values[name].items()} for name in ("metrics", "rewards")}
    return MatchResult(**{**values, **pairs, "agents": tuple(values["agents"])})
