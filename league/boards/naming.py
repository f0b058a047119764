"""What an agent is called, and which agent a name means."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable
from difflib import get_close_matches

from league.boards.rating import rate
from league.errors import StoreError, UsageError, nearest
from league.maths.ratings import Ratings
from league.store.reading import Reader
from league.store.rows import AgentRow, SnapshotRow
from league.types import BOT_PREFIX

SHORT_HASH = 12
LEAST_PREFIX = 8
"""Letters of an agent's id that may stand for it."""
LEAST_GAMES = 20
"""Rated games of a snapshot that make it RUN@best before all with fewer: a score is then known within 0.2."""


def best_snapshot(store: Reader, run: str) -> str:
    """The agent id of RUN@best: the run's champion, else `best_rated`.

    Raises:
        UsageError: no such run.
        StoreError: the run has no snapshot, or the store cannot be read.
    """
    with store.reading():
        store.find_run(run)
        return store.champion(run) or best_rated(store, run)


def best_rated(store: Reader, run: str, but: str | None = None) -> str:
    """The agent id of the run's snapshot that `best_of` finds in its ratings, else its latest; never `but`.

    Raises:
        UsageError: no such run.
        StoreError: the run has no other snapshot with its files, or the store cannot be read.
    """
    with store.reading():
        ratings = rate(store, store.find_run(run).game_id)
        snapshots = [row for row in store.snapshots(run) if row.agent_id != but and row.pruned_at is None]
    if not snapshots:
        raise StoreError(f"run `{run}` in {store.path} has no {'other ' if but else ''}snapshot yet; train it further")
    return best_of(ratings, snapshots) or snapshots[-1].agent_id


def best_of(ratings: Ratings, snapshots: Iterable[SnapshotRow]) -> str | None:
    """The agent id of the best rated of these snapshots by `strength`, of equals the latest; None: none is rated.

    A snapshot whose files were pruned cannot be played, so it is not the best.

    ratings: of sampled games, with the usual prior.
    """
    index = {agent: i for i, agent in enumerate(ratings.agents)}
    games = ratings.wins + ratings.draws + ratings.losses
    rated = [row for row in snapshots if row.agent_id in index and row.pruned_at is None]

    def key(row: SnapshotRow) -> tuple[bool, int, float, int]:
        i = index[row.agent_id]
        return (*strength(int(games[i]), int(ratings.group[i]), float(ratings.lower[i])), row.step)

    return max(rated, key=key).agent_id if rated else None


def strength(games: int, group: int, lower: float) -> tuple[bool, int, float]:
    """Sort key of the rule by which a snapshot is the best: the greatest is.

    Enough games first, then the group that the anchor is in, then the lower end of the rating's 95 % interval.
    """
    return games >= LEAST_GAMES, -group, lower


def find_named(store: Reader, name: str) -> SnapshotRow:
    """The snapshot called `RUN` (its newest), `RUN@STEP` or `RUN@best`.

    Raises:
        UsageError: there is none.
    """
    run, at, which = name.partition("@")
    with store.reading():
        runs = [row.run for row in store.runs()]
        if run not in runs:
            known = (agent for game_id in store.games() for agent in named_agents(store, game_id).values())
            if (name, "import") in known:
                raise UsageError(
                    f"agent {name!r} was imported: its games are here, and nothing that plays; name another"
                )
            raise UsageError(
                f"agent {name!r}: {store.no_run(run, runs)};"
                f" name RUN, RUN@STEP, RUN@best, bot:NAME or an exported folder"
            )
        snapshots = store.snapshots(run)
        if not snapshots:
            raise UsageError(f"agent {name!r}: run {run} has no snapshot yet; train it further")
        if which == "best":
            best = best_snapshot(store, run)
            return next(row for row in snapshots if row.agent_id == best and row.pruned_at is None)
    steps = {str(row.step): row for row in snapshots}
    if at and which not in steps:
        raise UsageError(
            f"agent {name!r}: run {run} has no snapshot at step {which or '(none given)'}"
            f"{nearest(which, [*steps, 'best'])}"
        )
    return steps[which] if at else max(snapshots, key=lambda row: row.step)


def find_rated(store: Reader, name: str) -> tuple[str, str]:
    """Id and name of the agent called `bot:NAME`, as in `find_named`, or as a board calls it, or whose id begins so.

    Raises:
        UsageError: there is none.
    """
    if name.startswith(BOT_PREFIX):
        return name, name
    with store.reading():
        agents = {agent: found for game_id in store.games() for agent, found in named_agents(store, game_id).items()}
        is_run = name.partition("@")[0] in {row.run for row in store.runs()}
        composed = unicodedata.normalize("NFC", name)
        meant = {
            agent: called
            for agent, (called, _) in agents.items()
            if composed == unicodedata.normalize("NFC", called)
            or (not is_run and len(name) >= LEAST_PREFIX and agent.startswith(name))
        }
        if len(meant) == 1:
            return meant.popitem()
        imports = [called for called, kind in agents.values() if kind == "import"]
        if not is_run and not meant and get_close_matches(name, imports, n=1):
            raise UsageError(
                f"agent {name!r}: no run `{name}` and no agent of that name in {store.path}{nearest(name, imports)}"
            )
        try:
            row = find_named(store, name)
        except UsageError:
            namesakes = sorted(called for called, _ in agents.values() if called.startswith(f"{composed} ("))
            if not namesakes and "/" in name:
                raise UsageError(
                    f"agent {name!r}: matches are stored under agents' names, not under folders; name RUN, RUN@STEP,"
                    f" RUN@best, bot:NAME or an id"
                ) from None
            if not namesakes:
                raise
            raise UsageError(
                f"agent {name!r} is no snapshot of this store; pass {' or '.join(map(repr, namesakes))}"
            ) from None
    return row.agent_id, f"{row.run}@{row.step}"


def named_agents(store: Reader, game_id: str) -> dict[str, tuple[str, str]]:
    """Agent id -> name and kind, of those that were introduced.

    The name of an agent from elsewhere ends with the beginning of its id where it would be another's, too: `RUN@STEP`
    where this store has such a run, or what two of them are called.
    """
    rows = store.agents(game_id)
    runs = {row.run for row in store.runs()}
    own = {agent for lineage in store.lineages(game_id) for agent in lineage}
    others = Counter(row.name for row in rows if row.agent_id not in own)

    def called(row: AgentRow) -> str:
        is_taken = others[row.name] > 1 or row.name.partition("@")[0] in runs
        return f"{row.name} ({row.agent_id[:LEAST_PREFIX]})" if row.agent_id not in own and is_taken else row.name

    return {row.agent_id: (called(row), str(row.kind)) for row in rows}


def unknown(agent_id: str) -> tuple[str, str]:
    """Name and kind of an agent that only match rows know."""
    return (agent_id, "bot") if agent_id.startswith(BOT_PREFIX) else (agent_id[:SHORT_HASH], "unknown")
