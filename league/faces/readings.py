"""Takes what a page shows out of the store, in a few short readings; nothing is worked out while the file is open."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import groupby

from league.boards.alarms import Finding, look
from league.boards.leaderboards import Board, Entry
from league.boards.naming import SHORT_HASH
from league.boards.selection import choose
from league.boards.standings import leaderboard
from league.errors import UsageError, command_line
from league.faces.headline import headline
from league.faces.provenance import provenance
from league.faces.records import AlarmLine, Document, FilmedMatch, GameCard, Listed, Map, RunCard
from league.faces.sections import RunFacts, lines_of, sections_of
from league.faces.stored_matches import Films, key_of
from league.maths.payoffs import means_of
from league.maths.record import Record
from league.runtime.phases import phase
from league.store.reading import Reader
from league.store.rows import KeptMatch, LearnerRow, MetricPoint, RunRow, now
from league.types import BOT_PREFIX

POINTS = 160
"""Of a curve."""
MOST_RUNS = 12
"""Runs that are shown where nobody said which: the newest."""
MOST_NAMED = 3
"""Of the runs that are shown, in the page's title."""
MOST_EVENTS = 40
"""Of a run: the newest."""
MOST_KEPT = 60
"""Matches that are listed."""


@phase("read the store")
def read(store: Reader, names: Sequence[str] = (), films: Films | None = None) -> Document:
    """What a page shows of these runs.

    Args:
        store: the store.
        names: runs, or leagues for their learners; none: the newest `MOST_RUNS`.
        films: plays kept matches back, which tells what was played in them; None: that is left out.

    Raises:
        UsageError: no such run or league.
        StoreError: the store cannot be read.
    """
    with store.reading():
        known, learners = store.runs_with_status(), {row.run: row for row in store.learners()}
    rows = _wanted(store, names, [row for row, _ in known], learners)
    status = {row.run: shown for row, shown in known}
    by_game: dict[str, list[RunRow]] = {}
    for row in rows:
        by_game.setdefault(row.game_id, []).append(row)
    games = []
    for game_id, own in by_game.items():
        facts = {row.run: _facts(store, row, status[row.run], learners.get(row.run)) for row in own}
        with store.reading():
            met, kept = _records(store, game_id), store.select_rows(KeptMatch, "kept_matches", game_id=game_id)
        board = leaderboard(store, game_id=game_id).boards[0]
        found = look(store, own, [game_id])
        games.append(_game(store, facts, board, met, kept, found, films))
    shown = {row.run for row in rows}
    listed = tuple(
        Listed(x.run, x.game, x.stage, state, x.steps, x.seed, x.run in shown) for x, state in reversed(known)
    )
    summary = " ".join(game.summary for game in games) or "The store has no run yet."
    title = _title(names or [row.run for row in rows])
    return Document(title, str(store.path), f"{now():%Y-%m-%d %H:%M:%S} UTC", summary, tuple(games), listed)


def _title(names: Sequence[str]) -> str:
    """The names of what is shown; of many the first ones."""
    left = len(names) - MOST_NAMED
    return ", ".join(names[:MOST_NAMED]) + (f" and {left} more" if left > 0 else "") or "no run yet"


def _wanted(
    store: Reader, names: Sequence[str], rows: Sequence[RunRow], learners: Mapping[str, LearnerRow]
) -> list[RunRow]:
    if not names:
        return list(rows[-MOST_RUNS:])
    by_name, leagues = {row.run: row for row in rows}, {row.league for row in learners.values()}
    found: dict[str, RunRow] = {}
    for name in names:
        members = [name] if name in by_name else [x.run for x in learners.values() if x.league == name]
        if not members:
            raise UsageError(store.no_run(name, {*by_name, *leagues}))
        found |= {run: by_name[run] for run in members}
    return list(found.values())


def _facts(store: Reader, row: RunRow, status: str, learner: LearnerRow | None) -> RunFacts:
    with store.reading():
        curves = store.select_rows(MetricPoint, "metric_curves", run=row.run, points=POINTS)
        seats = {seat: Record(*counts) for seat, *counts in store.select("training_seats", run=row.run)}
        endings = store.select("endings", run=row.run, points=POINTS // 8)
        snapshots, terms, events = store.snapshots(row.run), store.reward_terms(row.run), store.events(row.run)
        scored = store.scores_over_steps(row.run, row.game_id)
    scores: dict[str, list[tuple[int, int, float]]] = {}
    for against, step, games, score in scored:
        itself = f"itself at step {against[len(row.run) + 1 :]}" if against.startswith(f"{row.run}@") else against
        scores.setdefault(itself, []).append((step, games, score))
    steps = row.steps / row.update if row.update else 0.0  # of an update, about
    return RunFacts(
        row=row,
        status=status,
        learner=learner,
        total_steps=_total_steps(row),
        snapshots=snapshots,
        metrics={name: list(points) for name, points in groupby(curves, lambda point: point.name)},
        scores=scores,
        seats=seats,
        endings=[(round(until * steps), reason, count) for until, reason, count in endings],
        terms=terms,
        events=events[-MOST_EVENTS:],
    )


def _total_steps(row: RunRow) -> int | None:
    try:
        return int(json.loads(row.config)["run"]["total_steps"])
    except (ValueError, KeyError, TypeError):
        return None


def _game(
    store: Reader,
    facts: dict[str, RunFacts],
    board: Board,
    met: Mapping[tuple[str, str], Record],
    kept: Sequence[KeptMatch],
    found: Sequence[Finding],
    films: Films | None,
) -> GameCard:
    by_id = {entry.agent_id: entry for entry in board.entries}
    for x in facts.values():
        x.rated = [(row.step, by_id[row.agent_id]) for row in x.snapshots if row.agent_id in by_id]
    own = {row.agent_id for x in facts.values() for row in x.snapshots}
    near = own | {a for a, b in met if b in own} | {agent for agent in by_id if agent.startswith(BOT_PREFIX)}
    entries = [entry for entry in board.entries if entry.agent_id in near]
    names = {entry.agent_id: entry.name for entry in board.entries}
    if films is not None:
        films.tell_actions(facts.values(), [x for x in kept if {x.seat0_agent, x.seat1_agent} & own])
    chosen = choose(entries)
    shown = tuple(entry for entry in entries if entry.agent_id in chosen)
    lines = lines_of(facts.values())
    told = tuple(_alarm(x, store) for x in found)
    matches = [x for x in kept if {x.seat0_agent, x.seat1_agent} <= near]
    return GameCard(
        game=board.game,
        game_id=board.game_id,
        summary=headline(board, facts, met, told, store.path),
        lines=lines,
        sections=sections_of(facts, lines, board.unit),
        board=shown,
        notes=board.notes,
        unit=board.unit,
        anchor=board.anchor or "",
        map=_map(shown, met, matches, len(entries) - len(shown)),
        matches=tuple(_kept(x, names, store) for x in matches[:MOST_KEPT]),
        alarms=told,
        runs=tuple(_card(facts[run], line.id) for line in lines for run in line.members),
    )


def _records(store: Reader, game_id: str) -> dict[tuple[str, str], Record]:
    """What each agent did against each other that it met, with its payoff in a game that pays."""
    sums, game = store.pair_counts(game_id).sums, store.game(game_id)
    is_paid = game.utility is not None and sums is not None and sums.is_paid
    paid = means_of(sums, game.bound) if is_paid and sums is not None else {}
    return {(a, b): Record(*counts, payoff=paid.get((a, b))) for a, b, *counts in store.payoff(game_id)}


def _map(shown: Sequence[Entry], met: Mapping[tuple[str, str], Record], kept: Sequence[KeptMatch], left: int) -> Map:
    index = {entry.agent_id: i for i, entry in enumerate(shown)}
    cells: list[list[Record | None]] = [[None] * len(index) for _ in index]
    for (a, b), record in met.items():
        if a in index and b in index:
            cells[index[a]][index[b]] = record

    def table(place: int) -> tuple[tuple[float | None, ...], ...]:
        return tuple(tuple(None if x is None else _scaled(x, place) for x in row) for row in cells)

    watched = []
    for x in kept:
        if x.seat0_agent in index and x.seat1_agent in index:
            i, j = index[x.seat0_agent], index[x.seat1_agent]
            watched += [(i, j, key_of(x)), (j, i, key_of(x))]
    return Map(
        names=tuple(entry.name for entry in shown),
        judged="payoff, from 0 to 1," if any(x.payoff for x in met.values()) else "score",
        score=table(0),
        games=tuple(tuple(0 if x is None else x.games for x in row) for row in cells),
        lower=table(1),
        upper=table(2),
        kept=tuple(watched),
        num_left_out=left,
    )


def _scaled(record: Record, place: int) -> float:
    """The score, its lower or its upper end; a payoff from the most that a match can cost to the most it can pay."""
    value = record.measured[place]
    return value if record.payoff is None else 0.5 + value / (2.0 * record.payoff.bound)


def _kept(x: KeptMatch, names: Mapping[str, str], store: Reader) -> FilmedMatch:
    a, b = (names.get(agent, agent[:SHORT_HASH]) for agent in (x.seat0_agent, x.seat1_agent))
    is_named = x.seat0_agent in names and x.seat1_agent in names
    watch = command_line("watch", a, b, "--kept", "--out", "match.html", store=store.path) if is_named else ""
    return FilmedMatch(key_of(x), a, b, x.winner, x.end_reason.replace("_", " "), x.steps, x.run, watch)


def _alarm(finding: Finding, store: Reader) -> AlarmLine:
    state = {True: "raised", False: "quiet", None: "unknown"}[finding.is_raised]
    command = command_line("query", finding.query, store=store.path)
    return AlarmLine(finding.kind, finding.about, state, finding.sentence, command)


def _card(x: RunFacts, line: str) -> RunCard:
    row = x.row
    return RunCard(
        run=row.run,
        line=line,
        status=x.status,
        stage=row.stage,
        preset=row.preset,
        seed=row.seed,
        steps=row.steps,
        total_steps=x.total_steps,
        device=row.device,
        started_at=f"{row.started_at:%Y-%m-%d %H:%M} UTC",
        updated_at=f"{row.updated_at:%Y-%m-%d %H:%M} UTC",
        fingerprint=row.fingerprint,
        parent=row.parent or "",
        role="" if x.learner is None else x.learner.role.replace("_", " "),
        made=provenance(row, x.learner),
        terms=tuple(x.terms),
        events=tuple(x.events),
    )
