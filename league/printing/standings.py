"""Who is best, as tables: leaderboard, cross table, tournament, matchup. Standings come last, where a terminal is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from league.printing import say, show
from league.printing.tables import (
    Cell,
    Column,
    Value,
    around,
    estimate,
    payoff,
    print_prose,
    print_table,
    rating,
    score,
)

if TYPE_CHECKING:
    from league.arena.tournament_results import TournamentResult
    from league.boards.headtohead import Matchup
    from league.boards.leaderboards import Board, Leaderboard
    from league.boards.payoff import Payoff
    from league.maths.ratings import Difference, Unit
    from league.maths.record import Record

MATRIX_COLUMNS = 14
"""Agents up to which `payoff` prints its matrix as text."""
SURPRISING = 2.5
"""Pairs from this z on are shown; of 100 pairs one is, by chance."""
COUNTS = (
    Column("games", 2, is_number=True),
    Column("won", 5, is_number=True),
    Column("drawn", 5, is_number=True),
    Column("lost", 5, is_number=True),
)


def print_leaderboard(result: Leaderboard, *, pairs: bool = False, quiet: bool = False) -> None:
    """Of each game: the notes, the learners as they train, with `pairs` the surprising ones, and the standings."""
    for k, board in enumerate(result.boards):
        if k:
            show()
        if not (board.entries or board.infinite):
            say(
                f"{board.game}: no evaluation matches yet; play some with `league evaluate A --against B` or"
                " `league tournament A B`",
                quiet,
            )
        for note in board.notes:
            say(f"note: {note}", quiet)
        if board.learners:
            is_paid = any(x.payoff is not None for x in board.learners)
            what = "mean payoff a match" if is_paid else "Elo (start 1000, K 32)"
            print_table(
                f"training, as it goes: {what} of the learners; no interval, it moves",
                (
                    "run",
                    Column("payoff" if is_paid else "Elo", is_number=True),
                    Column("steps", 1, is_number=True),
                    Column("status", 3),
                    *COUNTS,
                ),
                [
                    (
                        x.run,
                        f"{x.elo:.0f}" if not is_paid else "" if x.payoff is None else f"{x.payoff:+z.3f}",
                        f"{x.steps:,}",
                        x.status,
                        *(f"{n:,}" for n in (x.games, x.wins, x.draws, x.losses)),
                    )
                    for x in board.learners
                ],
            )
        _print_surprises(board, pairs)
        if board.entries:
            print_ratings(board)
    if not result.boards:
        say("no matches yet", quiet)


def _print_surprises(board: Board, pairs: bool) -> None:
    surprising = [s for s in board.surprises if abs(s.z) >= SURPRISING]
    if pairs and board.surprises:
        show()
        print_table(
            "pairs that these ratings explain worst: A's score as played and as predicted, z deviations apart",
            ("A", "B", Column("games", 1, True), Column("played", 0, True), Column("predicted", 2, True),
             Column("z", 0, True)),
            [
                (s.a, s.b, s.games, f"{s.observed:.3f}", f"{s.predicted:.3f}", Cell((f"{s.z:+z.1f}",), _surprise(s.z)))
                for s in board.surprises
            ],
        )  # fmt: skip
    elif surprising:
        show()
        print_prose(f"{len(surprising)} pairs score otherwise than these ratings predict; --pairs lists them")


def _surprise(z: float) -> str:
    return "yellow" if abs(z) >= SURPRISING else ""


def print_ratings(board: Board) -> None:
    """The board of fixed agents, the strongest first."""
    groups, sampling = len(board.groups), "" if board.sampling == "sample" else f" ({board.sampling})"
    seat = "not known, taken as 0" if board.seat is None else _points(board.seat, board.unit)
    seat = "no finite estimate" if "seat" in board.undetermined else seat
    prior = f"; prior: {board.prior:g} imagined draws an agent" if board.prior else "; prior: none (maximum likelihood)"
    prior = prior if board.unit == "elo" else ""
    columns = [Column("", 1, is_number=True), Column("agent"), Column("rating", is_number=True), *COUNTS]
    columns += [Column("LOS", 3, is_number=True), *[Column("group", 1, is_number=True)] * (groups > 1)]
    columns += [Column(f"above {board.against}", is_number=True)] * bool(board.against)
    rows: list[list[Value]] = []
    for e in board.entries:
        name = f"{e.name} ({'champion' if e.is_champion else 'best'})" if e.is_best else e.name
        rated = rating(e.rating, e.lower, e.upper, board.unit)
        row: list[Value] = [e.rank, name, rated, e.games, e.wins, e.draws, e.losses]
        row += ["" if e.superiority is None else f"{e.superiority:.2f}", *[e.group] * (groups > 1)]
        row += [e.against and estimate(*e.against, board.unit)] * bool(board.against)
        rows.append(row)
    show()
    effect = f"; design effect of games in pairs: {board.effect:.2f}" if f"{board.effect:.2f}" != "1.00" else ""
    print_prose(f"first seat's advantage: {seat}{prior}{effect}")
    show()
    print_table(
        f"{board.game} {board.game_id[:8]}: {_system(board.unit, board.anchor)}, from evaluation"
        f" matches{sampling}; LOS: likelihood of being stronger than the next",
        columns,
        rows,
    )
    if board.num_left_out:
        print_prose(f"{board.num_left_out:,} other snapshots and imported agents are left out; --all lists them")


def _points(d: Difference, unit: Unit) -> str:
    if unit == "payoff":
        return f"{d.mean:+z.3f} a match, 95 % interval {d.lower:+z.3f} to {d.upper:+z.3f}"
    return f"{d.mean:+z.0f} points, 95 % interval {d.lower:+z.0f} to {d.upper:+z.0f}"


def _system(unit: Unit, anchor: str | None) -> str:
    """What the ratings of a table are, and what is held."""
    held = f"{anchor or 'the mean'} is held at {'1000' if unit == 'elo' else '0'}"
    if unit == "payoff":
        return f"payoff a match by least squares, with its 95 % interval; {held}"
    return f"Bradley-Terry rating of wins, draws and losses, with its 95 % interval; {held}"


def record_cells(record: Record) -> tuple[Value, ...]:
    """Games, wins, draws, losses, and the score or payoff with its interval; none where nothing was played."""
    played: Value = None
    if record.games:
        played = (score if record.payoff is None else payoff)(*record.measured)
    return record.games, record.wins, record.draws, record.losses, played


def print_matchup(m: Matchup) -> None:
    """Two agents: what they did against each other, and what everybody's games say."""
    seatings = (("seat 0", m.seat0), ("seat 1", m.seat1), ("both", m.record))
    print_table(
        f"{m.a} against {m.b} ({m.game} {m.game_id[:8]}, {m.sampling}), as seen from {m.a}; {_judged(m.unit)} with its"
        f" 95 % interval",
        (f"{m.a} in", *COUNTS, Column(_judged(m.unit), is_number=True)),
        [(seat, *record_cells(r)) for seat, r in seatings],
    )
    show()
    if m.difference is None or m.superiority is None:
        print_prose("no chain of games links the two, so nothing compares them; play `league evaluate A --against B`")
        return
    p, d = m.predicted, m.difference
    if p is not None:
        print_prose(f"by the ratings of all: score {p.score:.3f} (win {p.win:.3f}, draw {p.draw:.3f})")
        print_prose(f"difference {d.mean:+z.0f} Elo points, 95 % interval {d.lower:+z.0f} to {d.upper:+z.0f}")
    else:
        print_prose(f"by the payoffs of all: {_points(d, m.unit)}")
    print_prose(f"likelihood that {m.a} is the stronger: {m.superiority:.3f}")
    if not m.record.games:
        print_prose("they never met: all of this is from games against others")
    elif m.z is None:
        print_prose("no surprise: nobody else links the two, so their own games alone decide what is predicted")
    else:
        print_prose(f"surprise: their own score is {m.z:+z.1f} standard deviations from the predicted one")


def _judged(unit: Unit) -> str:
    return "score" if unit == "elo" else "payoff"


def print_tournament(r: TournamentResult, *, pairs: bool = False) -> None:
    """With `pairs` who did what against whom; what was wanted, and the standings."""
    if pairs:
        print_table(
            f"A's {_judged(r.unit)} against B in this tournament, with its 95 % interval",
            ("A", "B", *COUNTS, Column(_judged(r.unit), is_number=True)),
            [(e.a, e.b, *record_cells(e)) for e in r.encounters],
        )
        show()
    if r.bracket:
        print_table(
            f"double elimination: A's {_judged(r.unit)} against B, the better seed first",
            ("round", "A", "B", *COUNTS, Column(_judged(r.unit), is_number=True), "goes on"),
            [(f"{m.bracket} {m.round}", m.a, m.b, *record_cells(m), m.winner) for m in r.bracket],
        )
        show()
    if r.wanted:
        print_table(
            f"the wanted differences in {'Elo points' if r.unit == 'elo' else 'payoff a match'}, with their"
            f" anytime-valid 95 % intervals",
            ("agent", "above", Column("points" if r.unit == "elo" else "payoff", is_number=True)),
            [
                (w.a, w.b or "the mean", estimate(*w.difference, r.unit) if w.difference else "no game links them")
                for w in r.wanted
            ],
        )
        show()
    groups = {s.group for s in r.standings if s.group is not None}
    columns = [Column("", 1, is_number=True), Column("agent"), Column("rating", is_number=True), *COUNTS]
    has_forfeits = any(s.forfeits for s in r.standings)
    columns += [Column("forfeits", is_number=True)] * has_forfeits
    columns += [Column("group", 1, is_number=True)] * (len(groups) > 1)
    rows: list[list[Value]] = []
    for s in r.standings:
        known = s.rating is not None and s.lower is not None and s.upper is not None
        rated: Value = "no game yet"
        if known:
            rated = rating(s.rating, s.lower, s.upper, r.unit)  # type: ignore[arg-type]
        row: list[Value] = [s.rank, s.name, rated, s.games, s.wins, s.draws, s.losses]
        rows.append(row + [s.forfeits] * has_forfeits + [s.group] * (len(groups) > 1))
    print_table(
        f"{r.game} {r.game_id[:8]}: {_system(r.unit, r.anchor)}, from all evaluation matches; games of this tournament",
        columns,
        rows,
    )
    why = {
        "complete": "all games are played",
        "reached": "what was wanted is known",
        "max-games": "the games are used up",
        "interrupted": "interrupted; the games so far count, and the same command plays fresh ones",
    }
    stored = f"stored as {r.tournament}" if r.tournament else "nothing is stored"
    if r.bracket and r.ended == "complete":
        print_prose(f"{r.bracket[-1].winner} wins the double elimination")
    print_prose(f"{r.games:,} games, {r.sampling}, seed {r.seed}: {why[r.ended]}; {stored}")


def print_payoff(table: Payoff) -> None:
    """The matrix where it is small, what its cycles and mixtures say, and the standings."""
    from league.boards.heatmap import findings, percent

    if len(table.rows) <= MATRIX_COLUMNS:
        print_table(
            f"{'score' if table.unit == 'elo' else 'payoff'} of the row against the column"
            f"{' in per cent' if table.unit == 'elo' else ', a match'} (games); ? where they never met",
            (
                Column("", is_number=True),
                Column("", 1),
                *(Column(str(i + 1), is_number=True) for i in range(len(table.rows))),
            ),
            [
                (i + 1, row.name, *(_cell(table, i, j) for j in range(len(table.rows))))
                for i, row in enumerate(table.rows)
            ],
            least=lambda: _leave_out(table, "here"),
        )
    else:
        _leave_out(table, f"for text (at most {MATRIX_COLUMNS})")
    for line in findings(table):
        print_prose(line)
    for circle in table.circles:
        print_prose(
            f"  {' beats '.join([*circle.names, circle.names[0]])}: at least {percent(circle.weakest)} each,"
            f" {percent(circle.certainty)} sure"
        )
    for p in table.performances:
        print_prose(
            f"Relative population performance of {p.a} over {p.b}: {p.gain:+z.2f} in -1 to 1 ({percent(p.known)} of the"
            f" pairs met)"
        )
    show()
    print_table(
        f"{table.game} {table.game_id[:8]}: {_system(table.unit, table.anchor)}; beside it two mixtures, which rank"
        f" nobody",
        (
            *(Column("", is_number=True), Column("agent"), Column("rating", is_number=True)),
            *(Column("games", 3, is_number=True), Column(_judged(table.unit), 2, is_number=True)),
            *(Column("Nash", 1, is_number=True), Column("alpha-rank", 1, is_number=True)),
        ),
        [
            (
                *(i, r.name, rating(r.rating, r.lower, r.upper, table.unit), f"{r.games:,}"),
                percent(r.score) if table.unit == "elo" else f"{r.score:+z.3f}",
                *(percent(r.nash), percent(r.alpha_rank)),
            )
            for i, r in enumerate(table.rows, 1)
        ],
    )


def _leave_out(table: Payoff, where: str) -> None:
    print_prose(
        f"The matrix of {len(table.rows):,} agents is too wide {where}: --png FILE draws it, --json has its numbers,"
        f" --run RUN shows one run's agents and whom they met."
    )


def _cell(table: Payoff, i: int, j: int) -> Cell:
    from league.maths.record import wilson

    played, games = table.score[i][j], table.games[i][j]
    if i == j:
        return Cell(("-",), "dim")
    if played is None:
        return Cell(("?",), "dim")
    if table.unit == "payoff":
        return Cell((f"{played:+z.2f} ({games})", f"{played:+z.2f}"))
    style = around(*wilson(played, games), 0.5)
    return Cell((f"{100 * played:.0f} ({games})", f"{100 * played:.0f}"), style)
