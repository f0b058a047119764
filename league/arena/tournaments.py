"""Tournaments: many agents meet in a round robin, a gauntlet, a double elimination, or the games that narrow the wanted
intervals most."""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

import numpy as np

from league.arena.agents import Meeting, Where, check_seed, find_agent, play_pairings, sampling_of
from league.arena.cluster import PARTS, players
from league.arena.entrants import enter, with_submissions
from league.arena.tournament_games import Played, play_all, play_bracket
from league.arena.tournament_page import save
from league.arena.tournament_results import (
    ContrastEstimate,
    Encounter,
    Ended,
    Format,
    Standing,
    TournamentResult,
)
from league.errors import DEFAULT_STORE, Interrupted, UsageError, nearest
from league.maths.davidson import Ints
from league.maths.ratings import Difference, Ratings, Unit
from league.maths.scheduling import Contrast, Want, contrasts, gauntlet, narrowest, round_robin, widths
from league.play.seats import FORFEIT
from league.play.summaries import check_games, distinct
from league.runtime.phases import advance
from league.runtime.process import settings_kept
from league.store.files import check_new
from league.store.store import Store
from league.types import SEATS

GAMES = 20
"""Of each pair in a round robin or a gauntlet."""
MAX_GAMES = 1000
"""Of all together in an adaptive tournament."""
BATCH_PAIRS, CUDA_BATCH_PAIRS = 64, 512
"""Pairs of games played side by side between two writings; a GPU is bound by the number of calls, not by their rows."""
ADAPTIVE_PAIRS = 32
"""The same where the games that are played decide which are played next."""


@dataclass(frozen=True)
class Objective:
    """What an adaptive tournament plays for, see `scheduling.contrasts`.

    between: ids. until: Elo points; None: it ends with its games.
    """

    want: Want
    between: tuple[str, str] | None
    until: float | None
    max_games: int


@settings_kept()
def tournament(
    agents: Sequence[str] = (),
    *,
    runs: Sequence[str] = (),
    newest: int | None = None,
    bots: bool = False,
    format: Format = "round-robin",
    games: int | None = None,
    seeds: int | None = None,
    want: Want | None = None,
    between: tuple[str, str] | None = None,
    until: float | None = None,
    max_games: int | None = None,
    seed: int = 0,
    greedy: bool = False,
    env: object = None,
    own_bots: object = None,
    policy: object = None,
    device: str = "auto",
    on: str | None = None,
    out: str | Path | None = None,
    store: str | Path = DEFAULT_STORE,
    say: Callable[[str], None] | None = None,
) -> TournamentResult:
    """Lets the agents meet in pairs of games that share a seed, seats swapped, and keeps the matches in the store.

    Many pairs of agents play side by side; each batch is written once it is played. Every pair's games are fresh ones:
    their seeds follow from `seed`, the two agents and how many evaluation games of theirs the store has. So the same
    call again adds to what is there, and with the same seed a copy of the store gets the same games on a CPU.

    Args:
        agents: names (see `league.arena.agents.find_agent`), and folders of submissions, whose code plays shut in
            where this machine can; an agent that is named twice enters once.
        runs, newest: runs of which all snapshots with files enter, too, or the `newest` of each.
        bots: all native bots of the game enter.
        format: `round-robin`: everybody meets everybody; `gauntlet`: the first `seeds` (1) entrants meet the others;
            `double-elimination`: two lost matches and an agent is out (`league.maths.brackets`), seeds are by rating
            in the store, then in the order of entry; `adaptive`: schedules the most informative games until the wanted
            intervals are narrow.
        games: of each pair in a round robin or gauntlet, of each match in a double elimination, an even number (20).
            A level match has two more at a time, at most twice `games`; then the better seed goes on.
        want, between: what an adaptive one wants to know (`all`), see `league.maths.scheduling.contrasts`.
        until: it ends when the widest of those intervals is at most so many Elo points wide.
        max_games: at most so many in all (1,000), an even number.
        seed, greedy: as for `league.evaluate`.
        env: the game (docs/bring.md); needed between bots, and where its code must be named again.
        own_bots: bots in Python, as `bots` of `league.train`; they enter.
        policy, device, store: as for `league.evaluate`.
        on: a Ray cluster whose cores play, as of `league.train`; its size does not change the games.
        out: a new file for a page of the results, which needs no script and no network.
        say: receives a line at the beginning and for each batch.

    Raises:
        UsageError: as `league.evaluate`, fewer than two entrants, or an option that the format does not take.
        StoreError, SnapshotError: as `league.evaluate`.
    """
    given = {"games": games, "seeds": seeds, "want": want, "between": between, "until": until, "max_games": max_games}
    check_options(format, given)
    check_seed(seed)
    if out is not None:
        check_new(Path(out), "--out")  # before hours of games
    agents, own_bots = with_submissions(agents, own_bots, needs_game=env is None and not runs)
    where = Where(env, own_bots, policy, device, store, say)
    opened, meeting = enter(agents, runs, newest, bots, between or (), where=where)
    objective = None
    if format == "adaptive":
        chosen = None if between is None else _both(opened, between, meeting)
        objective = Objective(want or "all", chosen, until, max_games or MAX_GAMES)
    places = _places(format, len(meeting.sides), 1 if seeds is None else seeds)
    with ExitStack() as stack:
        how = play_pairings if on is None else stack.enter_context(players(on, where, meeting))
        size = PARTS * BATCH_PAIRS if on else CUDA_BATCH_PAIRS if meeting.device.type == "cuda" else BATCH_PAIRS
        rows = None if opened is None else stack.enter_context(opened.evaluations())
        played = Played(opened, rows, meeting, seed, greedy, how, size)
        ended, number = _play(played, format, objective, places, games or GAMES, say)
    result = _result(played, format, ended, objective, number)
    if out is not None:
        save(result, Path(out))
    return result


def _play(
    played: Played,
    format: Format,
    objective: Objective | None,
    places: Ints,
    games: int,
    say: Callable[[str], None] | None,
) -> tuple[Ended, int]:
    """Plays a tournament; how it ended, and the number of the signal that interrupted it, if one did.

    places: (P, 2), the pairs of entrants that meet. games: of each.
    """
    if say is not None:
        total = f"up to {objective.max_games:,}" if objective else f"{games * len(places):,}"
        if format == "double-elimination":
            total = f"at least {games * SEATS * (len(played.ids) - 1):,}"
        say(f"playing {total} games between {len(played.ids)} agents, {format}; Ctrl+C keeps what is written")
    try:
        if objective is not None:
            return _play_for(played, places, objective, say), 0
        if format == "double-elimination":
            play_bracket(played, games, say)
        else:
            play_all(played, places, games, say)
        return "complete", 0
    except (Interrupted, KeyboardInterrupt) as error:  # the second one where nobody minds signals, as in a notebook
        return "interrupted", error.number if isinstance(error, Interrupted) else int(signal.SIGINT)


def _places(format: Format, entrants: int, seeds: int) -> Ints:
    """(P, 2): the pairs of entrants that meet, where results do not decide that.

    Raises:
        UsageError: a gauntlet has nobody on one side.
    """
    if format != "gauntlet":
        return np.array(round_robin(entrants))
    if not 1 <= seeds < entrants:
        raise UsageError(
            f"seeds={seeds}: this number of the {entrants} entrants meets all the others; pass 1 to {entrants - 1}"
        )
    return np.array(gauntlet(entrants, seeds))


def check_options(format: str, given: Mapping[str, object]) -> None:
    """Refuses an unknown format, options that it does not take, and values outside their rule.

    Raises:
        UsageError: one of these.
    """
    takes = {"round-robin": {"games"}, "gauntlet": {"games", "seeds"}, "double-elimination": {"games"}}
    takes["adaptive"] = set(given) - takes["gauntlet"]
    if format not in takes:
        raise UsageError(f"format={format}: no such format{nearest(format, takes)}")
    for name, value in given.items():
        if value is not None and name not in takes[format]:
            formats = " or ".join(word for word, names in takes.items() if name in names)
            raise UsageError(f"{name}: {format} takes no {name}; leave it out, or pass --format {formats}")
    want, until = given["want"], given["until"]
    if want is not None and want not in get_args(Want):
        raise UsageError(f"want={want}: no such objective{nearest(str(want), get_args(Want))}")
    if want is not None and given["between"] is not None:
        raise UsageError(f"want={want}: --between names the only difference that is wanted; pass one of the two")
    if isinstance(until, float | int) and not until > 0:
        raise UsageError(f"until={until:g}: the width of an interval in Elo points, above 0; pass another --until")
    for name in ("games", "max_games"):
        value = given[name]
        if isinstance(value, int):
            check_games(value, name)


def _both(store: Store | None, between: tuple[str, str], meeting: Meeting) -> tuple[str, str]:
    """The ids of the two agents whose difference is wanted, both of whom must have entered."""
    a, b = (find_agent(store, name) for name in between)
    known = {named.agent_id for named in meeting.sides}
    for named in (a, b):
        if named.agent_id not in known:
            raise UsageError(f"between: {named.label} is not among the entrants; name it as an agent, too")
    if a.agent_id == b.agent_id:
        raise UsageError(f"between: {between[0]} and {between[1]} are the same agent; name two different ones")
    return a.agent_id, b.agent_id


def _play_for(played: Played, pairs: Ints, objective: Objective, say: Callable[[str], None] | None) -> Ended:
    """Games for what is wanted, chosen again after each batch."""
    while True:
        ratings = played.ratings()
        wanted = contrasts(objective.want, ratings, played.ids, objective.between)
        widest = 0.0
        if wanted:
            weights = np.array([contrast.weights for contrast in wanted])
            widest = float(widths(ratings.model.covariance, weights, ratings.model.game_variance).max())
        is_linked = all(contrast.is_linked for contrast in wanted)
        if say is not None:
            say(f"{played.games:,} games: " + _progress(wanted, widest, is_linked, objective, ratings.unit))
        if not wanted or (is_linked and objective.until is not None and widest <= objective.until):
            return "reached"
        if played.games >= objective.max_games:
            return "max-games"
        advance("games", played.games, objective.max_games)
        size = min(ADAPTIVE_PAIRS, (objective.max_games - played.games) // SEATS)
        places = np.array([ratings.index(agent) for agent in played.ids])[pairs]
        until = objective.until if is_linked and objective.until is not None else 0.0
        played.play(pairs, narrowest(ratings.model, places, weights, size, until))


def _progress(wanted: Sequence[Contrast], widest: float, is_linked: bool, objective: Objective, unit: Unit) -> str:
    if not wanted:
        return "nobody else may be the best"
    if not is_linked:
        return "not everybody is linked by games yet"
    end = f" of {objective.until:g}" if objective.until is not None else ""
    wide = f"{widest:.0f}{end} Elo points" if unit == "elo" else f"{widest:.3g}{end} of the game's payoff"
    return f"the widest of {len(wanted)} wanted intervals is {wide} wide"


def _result(played: Played, format: Format, ended: Ended, objective: Objective | None, number: int) -> TournamentResult:
    meeting, ratings = played.meeting, played.ratings()
    names = {named.agent_id: named.label for named in meeting.sides}
    wanted = [] if objective is None else contrasts(objective.want, ratings, played.ids, objective.between)
    pairs = [(both, distinct(played.games_of(*both))) for both in round_robin(len(played.ids))]
    encounters = [played.record(Encounter, met, *both) for both, met in pairs if met]
    return TournamentResult(
        tournament=played.name if played.rows is not None and played.games else None,
        game=meeting.game.name,
        game_id=meeting.game.game_id,
        format=format,
        sampling=sampling_of(played.greedy),
        seed=played.seed,
        ended=ended,
        games=played.games,
        unit=ratings.unit,
        anchor=ratings.anchor,
        standings=_standings(played, ratings, names),
        encounters=tuple(encounters),
        wanted=tuple(_wanted(contrast, ratings, names) for contrast in wanted),
        wanted_interval="anytime-valid" if objective is not None else None,
        signal=number,
        bracket=tuple(played.bracket),
    )


def _standings(played: Played, ratings: Ratings, names: dict[str, str]) -> tuple[Standing, ...]:
    has_games = ratings.wins + ratings.draws + ratings.losses > 0
    order = sorted(
        (ratings.index(agent) for agent in played.ids),
        key=lambda i: (not has_games[i], ratings.group[i], -ratings.rating[i], ratings.agents[i]),
    )
    standings: list[Standing] = []
    for place, i in enumerate(order):
        group = int(ratings.group[i]) if has_games[i] else None
        is_next = place and standings[-1].group == (None if group is None else group + 1)
        agent = ratings.agents[i]
        games = [x for met in played.met.values() for x in distinct(met) if agent in x.agents]
        own = [x.outcome_of(agent) for x in games]
        forfeits = sum(x.end_reason == FORFEIT and x.outcome_of(agent) == 2 for x in games)
        standings.append(
            Standing(
                rank=standings[-1].rank + 1 if is_next else 1,
                name=names[agent],
                agent_id=agent,
                rating=float(ratings.rating[i]) if has_games[i] else None,
                lower=float(ratings.lower[i]) if has_games[i] else None,
                upper=float(ratings.upper[i]) if has_games[i] else None,
                group=None if group is None else group + 1,
                games=len(own),
                wins=own.count(0),
                draws=own.count(1),
                losses=own.count(2),
                forfeits=forfeits,
            )
        )
    return tuple(standings)


def _wanted(contrast: Contrast, ratings: Ratings, names: dict[str, str]) -> ContrastEstimate:
    difference = None
    if contrast.is_linked:
        mean = float(contrast.weights[:-2] @ ratings.model.strength) * ratings.scale
        model = ratings.model
        half = float(widths(model.covariance, contrast.weights[None], model.game_variance)[0]) / 2.0
        difference = Difference(mean, mean - half, mean + half)
    return ContrastEstimate(names[contrast.a], None if contrast.b is None else names[contrast.b], difference)
