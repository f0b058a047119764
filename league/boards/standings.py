"""Who is best: the agents of each game rated from evaluation games, and how each run's learner is doing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import chdtrc

from league.boards import plots
from league.boards.leaderboards import (
    Board,
    Entry,
    Leaderboard,
    PairSurprise,
    Rated,
    RatingGroup,
    TrainingEntry,
    Unbounded,
)
from league.boards.naming import best_of, find_rated, named_agents, unknown
from league.boards.rating import Games, games_of, rate_counts
from league.boards.selection import choose
from league.errors import UsageError, nearest
from league.maths.davidson import Prior
from league.maths.elo import ELO_START, elo_ratings
from league.maths.pairs import PairCounts
from league.maths.ratings import DEFAULT_PRIOR, MAXIMUM_LIKELIHOOD, Ratings
from league.store.folder import Folder
from league.store.reading import Reader, TrainingGame
from league.store.rows import GameRow, RatingRow, RunRow, Sampling, SnapshotRow
from league.types import BOT_PREFIX
from league.types.schema import check_number

if TYPE_CHECKING:
    from matplotlib.figure import Figure

UNLIKELY = 1e-3
"""The chance below which a dispersion is no longer taken for luck."""
LEAST_PRIOR, MAX_PRIOR = 1e-3, 1e6
"""Imagined draws: fewer, but for none, leave strengths that numbers cannot tell from infinite ones; no more than the
second are ever played."""
NUM_SURPRISES = 10
"""The most surprising pairs that a board lists."""


def leaderboard(
    store: Reader,
    run: str | None = None,
    game_id: str | None = None,
    *,
    against: str | None = None,
    sampling: Sampling = "sample",
    prior: float | None = None,
    is_brief: bool = False,
) -> Leaderboard:
    """Ranks the agents of every game in the store, of one run's game, or of one game.

    Ratings are those of `league.boards.rating.rate`. With `run`, only that run's snapshots, their opponents and
    the bots are shown, and only that run as a learner; the ratings are the same.

    Args:
        store: the match store.
        run: whose agents are shown.
        game_id: the game shown.
        against: an agent (`find_rated`) to which everyone's difference is wanted.
        sampling: how the nets chose in the games rated.
        prior: imagined draws an agent, and of each snapshot with the one before it; None: 1.25, 0: maximum likelihood.
        is_brief: shorten a long board (`league.boards.selection`). Ratings and ranks are those of the
            whole board; `superiority` is that over the next one shown.

    Raises:
        UsageError: no such run, game id or agent, the run plays another game than `game_id`, `against` has no rated
            game (or no finite rating) in what is shown, or `prior` is below 0, above `MAX_PRIOR`, or
                next to 0 (`LEAST_PRIOR`).
        StoreError: the store cannot be read.
    """
    believed = _prior(prior)
    with store.reading():
        games = store.games()
        if run is not None:
            game_id = _game_of(store, run, game_id)
        elif game_id is not None and game_id not in games:
            raise UsageError(f"no game id `{game_id}` in {store.path}{nearest(game_id, games)}")
        other = None if against is None else find_rated(store, against)
        shown = games if game_id is None else [game_id]
        facts = [_read(store, games[g], g, run, sampling, believed == DEFAULT_PRIOR) for g in shown]
    rated = [rate_counts(f.counts, f.lineages, f.row, prior=believed) for f in facts]
    boards = tuple(_board(f, ratings, other, is_brief) for f, ratings in zip(facts, rated, strict=True))
    if other is not None and all(board.against is None for board in boards):
        if any(other[0] == agent.agent_id for board in boards for agent in board.infinite):
            raise UsageError(f"against={against}: it has no finite rating with prior={prior:g}; take a prior above 0")
        raise UsageError(
            f"against={against}: it has no evaluation game with sampling={sampling} here; play some with"
            f" `league evaluate A --against B`, or name another agent"
        )
    return Leaderboard(boards)


def _prior(draws: float | None) -> Prior:
    if draws is None:
        return DEFAULT_PRIOR
    check_number("prior", draws, 0.0, MAX_PRIOR, f"imagined draws an agent ({Prior.draws} if not given)")
    if 0.0 < draws < LEAST_PRIOR:
        raise UsageError(
            f"prior={draws:.3g}: imagined draws an agent, must be 0 or at least {LEAST_PRIOR}; pass another --prior"
        )
    return Prior(draws=draws, lineage=draws) if draws else MAXIMUM_LIKELIHOOD


def rate_evaluation(
    rows: Folder,
    counts: PairCounts,
    elo: tuple[float, int],
    game: GameRow,
    update: int,
    agents: Mapping[str, str],
    taken: Mapping[str, int],
    tell: Callable[[int, Sequence[Rated]], None] = lambda steps, ratings: None,
) -> None:
    """Adds to a run's rows what its own games make of its learner (Elo) and of the agents of an evaluation.

    Boards rate from the games of all runs and evaluations.

    rows: the run's.
    counts: of the run's own evaluation games.
    elo: the learner's, and the training games that it is of.
    agents: those of the evaluation by id, with their names, which the run's own snapshots need not have.
    taken: agent id -> steps of the run's snapshots that its rows may not have yet.
    tell: is given the newest snapshot's steps and the ratings of `agents`, by name.
    """
    steps = {**{row.agent_id: row.step for row in rows.snapshots}, **taken}
    names = {**agents, **{agent: f"{rows.name}@{step}" for agent, step in steps.items()}}
    ratings = rate_counts(counts, [sorted(steps, key=steps.__getitem__)], game)
    games = ratings.wins + ratings.draws + ratings.losses
    rated = [
        RatingRow(
            run=rows.name,
            update=update,
            system="bradley_terry" if ratings.unit == "elo" else "payoff",
            agent_id=agent,
            rating=float(ratings.rating[i]),
            lower=float(ratings.lower[i]),
            upper=float(ratings.upper[i]),
            games=int(games[i]),
            game_id=game.game_id,
            sampling="sample",
            prior=ratings.prior.draws,
            group_number=int(ratings.group[i]) + 1,
        )
        for i, agent in enumerate(ratings.agents)
        if agent in agents
    ]
    learner = RatingRow(rows.name, update, "elo", rows.name, elo[0], None, None, elo[1], game.game_id)
    rows.add_ratings([learner, *rated])
    newest = max((steps[agent] for agent in agents if agent in steps), default=0)
    tell(
        newest,
        [
            Rated(
                name=names.get(row.agent_id) or unknown(row.agent_id)[0],
                rating=row.rating,
                lower=row.rating if row.lower is None else row.lower,
                upper=row.rating if row.upper is None else row.upper,
                is_newest=steps.get(row.agent_id, -1) == newest,
            )
            for row in rated
        ],
    )


def curves(store: Reader, runs: Sequence[str], title: str, metric: str = "") -> Figure:
    """The ratings of runs' snapshots over the steps, as the leaderboard has them now; beside them a metric of theirs.

    Raises:
        UsageError: no such run, or matplotlib is not installed.
        StoreError: the store cannot be read.
    """
    with store.reading():
        steps = {run: {row.agent_id: row.step for row in store.snapshots(run)} for run in runs}
        told = {run: [(x, y) for _, x, _, y in store.metrics(run, metric) if y is not None] for run in runs if metric}
    (board,) = leaderboard(store, runs[0]).boards
    rated = {entry.agent_id: entry for entry in board.entries}
    points = {
        run: [(at, x.rating, x.lower, x.upper) for agent, at in known.items() if (x := rated.get(agent))]
        for run, known in steps.items()
    }
    return plots.progress(title, points, (metric.replace("_", " "), told) if metric else None, board.unit)


def _game_of(store: Reader, run: str, game_id: str | None) -> str:
    found = store.find_run(run).game_id
    if game_id not in (None, found):
        raise UsageError(f"run `{run}` plays game id `{found}`, not `{game_id}`; pass only one of them")
    return found


@dataclass(frozen=True)
class _Facts:
    """What one board is made from; read at one moment, so that the store is let go before anything is worked out."""

    game: str
    game_id: str
    row: GameRow
    sampling: Sampling
    counts: PairCounts
    lineages: Sequence[Sequence[str]]
    samplings: Mapping[str, int]
    """Evaluation rows by how the nets chose."""
    snapshots: Mapping[str, Sequence[SnapshotRow]]
    """Of every run shown."""
    champions: Mapping[str, str]
    """Run -> agent id."""
    usual: Games | None
    """What RUN@best is decided by, where it is not what is rated here."""
    known: Mapping[str, tuple[str, str]]
    """Agent id -> name and kind."""
    own: frozenset[str] | None
    """The snapshots of the run that was asked for."""
    training: tuple[tuple[RunRow, str, list[TrainingGame]], ...]
    """Every run shown with its status and its training games."""


def _read(store: Reader, game: str, game_id: str, run: str | None, sampling: Sampling, has_usual_prior: bool) -> _Facts:
    known = named_agents(store, game_id)
    own = {} if run is None else {row.agent_id: f"{run}@{row.step}" for row in store.snapshots(run)}
    runs = [row for row in store.runs() if row.game_id == game_id and run in (None, row.run)]
    snapshots, champions = store.all_snapshots(), store.champions()
    games = store.training_games(run, None if run else game_id)
    return _Facts(
        game=game,
        game_id=game_id,
        row=store.game(game_id),
        sampling=sampling,
        counts=store.pair_counts(game_id, sampling=sampling),
        lineages=store.lineages(game_id),
        samplings=dict(store.select("samplings", game_id=game_id)),
        snapshots={row.run: snapshots.get(row.run, []) for row in runs},
        champions={row.run: champions[row.run] for row in runs if row.run in champions},
        usual=None if sampling == "sample" and has_usual_prior else games_of(store, game_id, "sample"),
        known=known | {agent_id: (name, "snapshot") for agent_id, name in own.items()},
        own=None if run is None else frozenset(own),
        training=tuple((row, store.status_of(row), games.get(row.run, [])) for row in runs),
    )


def _board(facts: _Facts, ratings: Ratings, other: tuple[str, str] | None, is_brief: bool) -> Board:
    shown = {*facts.counts.seat0, *facts.counts.seat1} if facts.own is None else _company(facts.counts, facts.own)
    against = other[0] if other is not None and other[0] in ratings.agents else None

    def name(agent_id: str) -> str:
        return (facts.known.get(agent_id) or unknown(agent_id))[0]

    usual = rate_counts(*facts.usual) if facts.usual else ratings
    best = {facts.champions.get(run) or best_of(usual, rows) for run, rows in facts.snapshots.items()}
    entries = whole = _entries(ratings, shown, facts, best, against)
    if is_brief and len(chosen := choose(whole, against)) < len(whole):
        ranks = {entry.agent_id: entry.rank for entry in whole}
        shorter = _entries(ratings, set(chosen), facts, best, against)
        entries = tuple(replace(x, rank=ranks[x.agent_id]) for x in shorter)
    sizes = np.bincount(ratings.group, minlength=len(ratings.anchors))
    return Board(
        game=facts.game,
        game_id=facts.game_id,
        sampling=facts.sampling,
        unit=ratings.unit,
        anchor=ratings.anchor,
        entries=entries,
        learners=tuple(_learner(*run) for run in facts.training),
        groups=tuple(RatingGroup(k + 1, anchor, int(sizes[k])) for k, anchor in enumerate(ratings.anchors)),
        against=None if against is None or other is None else other[1],
        seat=ratings.seat,
        prior=ratings.prior.draws,
        effect=ratings.effect,
        infinite=tuple(Unbounded(x.agent, name(x.agent), x.sign) for x in ratings.infinite if x.agent in shown),
        undetermined=ratings.undetermined,
        dispersion=ratings.dispersion,
        surprises=tuple(PairSurprise(name(s.a), name(s.b), *s[2:]) for s in ratings.most_surprising(NUM_SURPRISES)),
        notes=_notes(ratings, facts, name),
        num_left_out=len(whole) - len(entries),
    )


def _notes(ratings: Ratings, facts: _Facts, name: Callable[[str], str]) -> tuple[str, ...]:
    notes = []
    if len(ratings.anchors) > 1:
        both_ways = "" if ratings.prior.draws else ", or of which one never scored against the other"
        notes.append(
            f"{len(ratings.anchors)} groups that no game links{both_ways}: ranks and ratings of different groups cannot"
            f" be compared; join them with `league evaluate A --against B`, A of one and B of another"
        )
    if ratings.agents and ratings.anchor is None:
        has_game = any(x.agent == facts.row.anchor for x in ratings.infinite)
        why = f"{facts.row.anchor} has no {'finite rating' if has_game else 'game'} here"
        why = why if facts.row.anchor else "no anchor is known of this game"
        notes.append(f"{why}, so the mean of the agents is held at {ratings.anchor_rating:g} and moves with them")
    if facts.row.utility is not None and ratings.unit == "elo":
        notes.append(
            f"the game pays {facts.row.utility}, but not all of these games say how much; rated are wins, draws and"
            f" losses"
        )
    one_sided = [
        name(agent)
        for agent, wins, draws, losses in zip(ratings.agents, ratings.wins, ratings.draws, ratings.losses, strict=True)
        if not draws and not (wins and losses)
    ]
    if one_sided and ratings.prior.draws:
        notes.append(f"all games won or all lost: {_first_few(one_sided)}; how far above or below is a guess")
    for sign, words in ((1, "infinitely above"), (-1, "infinitely below"), (0, "not to be compared with")):
        if agents := [name(x.agent) for x in ratings.infinite if x.sign == sign]:
            notes.append(f"without a prior {words} the others: {_first_few(agents, 10)}; --prior above 0 rates them")
    if "draws" in ratings.undetermined:
        notes.append("without a prior the weight of draws has no finite estimate: no agent has a finite rating")
    notes += _seat_notes(ratings, facts.counts)
    apart = {mode: rows for mode, rows in facts.samplings.items() if mode != facts.sampling}
    if apart:
        rows = ", ".join(f"{count:,} {mode}" for mode, count in apart.items())
        option = "--greedy" if facts.sampling == "sample" else "no --greedy"
        notes.append(f"rated are games whose nets chose by {facts.sampling}; {rows} are rated apart ({option})")
    repeated = facts.samplings.get(facts.sampling, 0) - int(facts.counts.games[_with_nets(facts.counts)].sum())
    if repeated:
        notes.append(f"{repeated:,} games that had been played before, move for move, are counted once")
    scatter, freedom = ratings.dispersion, ratings.freedom
    if scatter is not None and scatter > 2.0 and chdtrc(freedom, scatter * freedom) < UNLIKELY:
        notes.append(
            f"the pairs scatter {scatter:.1f} times as much as chance explains: who beats whom goes in circles, or is"
            f" not one number an agent; read the most surprising pairs"
        )
    return tuple(notes)


def _seat_notes(ratings: Ratings, counts: PairCounts) -> list[str]:
    """What keeps the first seat's advantage from being known."""
    notes = []
    if unseated := int(counts.games[~counts.is_seated].sum()):
        notes.append(
            f"{unseated:,} imported games name winners first, or losers, so that their seats say nothing and count for"
            f" nothing"
        )
    if "seat" in ratings.undetermined:
        notes.append("without a prior the first seat's advantage has no finite estimate: games with seats rate nobody")
    elif ratings.agents and ratings.seat is None and counts.is_seated.any():
        notes.append("no two agents met in both seatings, so the first seat's advantage is not known and counts as 0")
    return notes


def _first_few(names: Sequence[str], most: int = 3) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"


def _with_nets(counts: PairCounts) -> list[int]:
    """The pairs that are not two bots."""
    seats = zip(counts.seat0, counts.seat1, strict=True)
    return [p for p, pair in enumerate(seats) if not all(agent.startswith(BOT_PREFIX) for agent in pair)]


def _company(counts: PairCounts, own: frozenset[str]) -> set[str]:
    """The run's own agents, their opponents and the bots."""
    pairs = list(zip(counts.seat0, counts.seat1, strict=True))
    met = {agent for pair in pairs if own.intersection(pair) for agent in pair}
    return met | {agent for pair in pairs for agent in pair if agent.startswith(BOT_PREFIX)}


def _entries(
    ratings: Ratings, shown: set[str], facts: _Facts, best: set[str | None], against: str | None
) -> tuple[Entry, ...]:
    order = sorted(
        (i for i, agent in enumerate(ratings.agents) if agent in shown),
        key=lambda i: (ratings.group[i], -ratings.rating[i], ratings.agents[i]),
    )
    places = np.array(order, np.int64)
    following = np.flatnonzero(ratings.group[places[:-1]] == ratings.group[places[1:]])
    los = dict(zip(following.tolist(), ratings.superiorities(places[following], places[following + 1]), strict=True))
    gaps = {} if against is None else ratings.differences(places, against)
    entries: list[Entry] = []
    rank = 0
    for place, i in enumerate(order):
        agent_id, group = ratings.agents[i], ratings.group[i]
        rank = rank + 1 if place and ratings.group[order[place - 1]] == group else 1
        name, kind = facts.known.get(agent_id) or unknown(agent_id)
        wins, draws, losses = int(ratings.wins[i]), int(ratings.draws[i]), int(ratings.losses[i])
        entries.append(
            Entry(
                rank=rank,
                agent_id=agent_id,
                name=name,
                kind=kind,
                rating=float(ratings.rating[i]),
                lower=float(ratings.lower[i]),
                upper=float(ratings.upper[i]),
                games=wins + draws + losses,
                wins=wins,
                draws=draws,
                losses=losses,
                group=int(group) + 1,
                superiority=los.get(place),
                is_champion=agent_id in facts.champions.values(),
                is_best=agent_id in best,
                against=gaps.get(i),
            )
        )
    return tuple(entries)


def _learner(run: RunRow, status: str, games: Sequence[TrainingGame]) -> TrainingEntry:
    ratings = elo_ratings((run.run, opponent, score) for opponent, score, _ in games)
    scores = [score for _, score, _ in games]
    paid = [payoff for _, _, payoff in games if payoff is not None]
    return TrainingEntry(
        run=run.run,
        elo=ratings.get(run.run, ELO_START),
        games=len(scores),
        wins=scores.count(1.0),
        draws=scores.count(0.5),
        losses=scores.count(0.0),
        steps=run.steps,
        status=status,
        payoff=sum(paid) / len(paid) if paid else None,
    )
