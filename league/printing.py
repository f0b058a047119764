"""How the command line shows results: tables and lines on stdout, talk on stderr, JSON.

The one door for words: whatever a command prints goes through `show`, `say`, `print_table` or `print_json`, which make
it safe for a terminal, and through `streams`, which make it fit the encoding.
"""

from __future__ import annotations

import io
import json
import math
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, is_dataclass
from datetime import date, datetime, time
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from league.errors import one_line, visible

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from league.arena.gating import GateResult
    from league.arena.hands import Ended
    from league.arena.replays import Played
    from league.arena.tournaments import TournamentResult
    from league.arena.watching import Film
    from league.boards.payoff import Payoff
    from league.boards.standings import Board
    from league.maths.ratings import Difference
    from league.maths.record import Record
    from league.sessions.exploitability import Exploit
    from league.sessions.retention import Holding

MATRIX_COLUMNS = 14
"""Agents up to which `payoff` prints its matrix as text."""


def print_ratings(board: Board) -> None:
    """The board of fixed agents, the strongest first."""
    groups, sampling = len(board.groups), "" if board.sampling == "sample" else f" ({board.sampling})"
    held = f"{board.anchor} is held at 1000" if board.anchor else "the mean is held at 1000"
    columns = ["", "agent", "rating", "95 % interval", "games", "won", "drawn", "lost", "LOS"]
    columns += ["group"] * (groups > 1) + [f"above {board.against}", "95 % interval"] * bool(board.against)
    rows = []
    for e in board.entries:
        name = f"{e.name} (champion)" if e.is_champion else e.name
        row = [e.rank, name, f"{e.rating:.0f}", f"{e.lower:.0f} to {e.upper:.0f}", e.games, e.wins, e.draws, e.losses]
        row += ["" if e.superiority is None else f"{e.superiority:.2f}"] + [e.group] * (groups > 1)
        if board.against:
            d = e.against
            row += ["", ""] if d is None else [f"{d.mean:+.0f}", f"{d.lower:+.0f} to {d.upper:+.0f}"]
        rows.append(row)
    print_table(
        f"{board.game} {board.game_id[:8]}: Bradley-Terry rating from evaluation matches{sampling}; {held};"
        f" LOS: likelihood of being stronger than the next",
        columns,
        rows,
    )
    seat = "not known, taken as 0" if board.seat is None else _points(board.seat)
    show(f"first seat's advantage: {seat}; prior: {board.prior:g} imagined draws an agent")
    show()


def _points(d: Difference) -> str:
    return f"{d.mean:+.0f} points, 95 % interval {d.lower:+.0f} to {d.upper:+.0f}"


def print_holdings(title: str, found: Sequence[Holding], verb: str = "goes") -> None:
    """Snapshots with their size, their games and why each is kept, or `verb` where nothing keeps it."""

    def fate(holding: Holding) -> str:
        if not holding.has_files:
            return f"pruned on {holding.pruned_at:%Y-%m-%d}" if holding.pruned_at else "its files are missing"
        return f"kept: {', '.join(holding.reasons)}" if holding.reasons else verb

    print_table(
        title,
        ("snapshot", "agent", "parent", "on disk", "games", "files", ""),
        [
            (
                f"{x.run}@{x.step}",
                x.agent_id[:12],
                (x.parent or "")[:12],
                show_size(x.num_bytes),
                f"{x.games:,}",
                fate(x),
                "RUN@best" if x.is_best else "",
            )
            for x in found
        ],
    )


def show_size(num_bytes: int) -> str:
    """Bytes in MiB."""
    return f"{num_bytes / 2**20:,.2f} MiB"


def record_cells(record: Record) -> tuple[str, ...]:
    """Games, wins, draws, losses, score and its interval, as cells of a table; no score where nothing was played."""
    counts = [str(count) for count in (record.games, record.wins, record.draws, record.losses)]
    score = (f"{record.score:.3f}", f"{record.lower:.3f} to {record.upper:.3f}") if record.games else ("", "")
    return *counts, *score


def print_exploit(r: Exploit) -> None:
    """What an exploiter scored and what that says of the agent, in words; nothing where it was stopped."""
    s, least = r.summary, r.exploitability
    if s is None or least is None:
        return
    show(
        f"{r.exploiter} scored {s.score:.3f} against {r.agent}, 95 % interval {s.lower:.3f} to {s.upper:.3f}: {s.games}"
        f" fresh games, {s.wins} won, {s.draws} drawn, {s.losses} lost; {r.run} learned for {r.steps:,} steps"
    )
    if least > 0:
        show(f"exploitability of {r.agent} at least {least:.3f}, on a scale from 0 to 0.5")
    else:
        show(
            f"no weakness of {r.agent} found: the interval does not exclude 0.5, so its exploitability is at least 0;"
            f" more --steps, --games or another --seed may find one"
        )


def print_ended(e: Ended | None) -> None:
    """How a person's match ended, and where it is kept."""
    if e is None:
        show("broken off before its end; nothing is stored")
        return
    end = "a draw" if e.winner == "draw" else f"won by {e.winner}"
    kept = f"stored as {e.run}; `league imports remove {e.run}` takes it back" if e.run else "not stored"
    show(f"{e.person} (seat {e.seat}) against {e.agent}: {end} ({e.end_reason}), {e.steps:,} steps, seed {e.seed}")
    show(kept)


def print_played(p: Played) -> None:
    """What a replay came to when it was played back."""
    end = "a draw" if p.winner == "draw" else f"won by {p.winner}"
    show(f"{p.path}: {p.game}, {p.agents[0]} against {p.agents[1]}, {end} ({p.end_reason}), {p.steps:,} steps")
    if p.is_exact:
        show("played back bit for bit: every number that the game wrote is the same")
    else:
        show("played back to the same end, but some numbers that the game wrote are not the same bit for bit here")


def print_film(f: Film) -> None:
    """What a film shows, how much of the match it leaves out, and who won."""
    from league.arena.film import MAX_SECONDS

    shown, whole = f"{f.seconds:.1f}", f"{f.match_seconds:.1f}"
    if f.path.endswith(".replay"):
        part = f"all {whole} s to be played back"
    elif f.path.endswith(".png"):
        part = f"{shown} s into a match of {whole} s"
    elif f.seconds < f.match_seconds:
        longer = "leave --seconds out" if f.match_seconds <= MAX_SECONDS else f"--seconds {MAX_SECONDS} is the most"
        part = f"the first {shown} s of {whole} s, {f.match_seconds - f.seconds:.1f} s left out ({longer})"
    else:
        part = f"all {whole} s"
    end = "a draw" if f.winner == "draw" else f"won by {f.winner}"
    where = f"{f.path}: " if f.path else ""
    show(f"{where}{f.a} against {f.b}, seed {f.seed}, {part}; the match is {end}")


def print_gate(r: GateResult) -> None:
    """What a gate came to, in words."""
    words = {
        "passed": f"{r.a} is stronger than {r.b}: H1 is accepted",
        "failed": f"{r.a} is not stronger than {r.b}: H0 is accepted",
        "undecided": f"undecided: {r.max_games:,} games did not tell whether {r.a} is stronger than {r.b}",
    }
    show(words[r.decision])
    elo = "" if r.elo is None else f"; {r.elo[0]:+.0f} Elo points, 95 % interval {r.elo[1]:+.0f} to {r.elo[2]:+.0f}"
    show(f"{r.games:,} games, score {r.score:.3f}{elo}; pairs from both lost to both won: {list(r.pairs)}")
    t = r.test
    show(
        f"SPRT of {t.elo0:g} against {t.elo1:g} {t.elo_model} Elo points, alpha {t.alpha:.3g}, beta {t.beta:.3g}:"
        f" LLR {r.llr:.2f}, bounds {r.lower:.2f} and {r.upper:.2f}"
    )
    if r.is_promoted:
        show(f"promoted: {r.champion}@best is {r.a}")
    elif r.champion:
        show(f"{r.b} keeps its title; attempt {r.attempt} at it")
    show(f"stored as {r.gate}" if r.gate else "not stored: there is no store")


def print_tournament(r: TournamentResult) -> None:
    """Standings, what was wanted, and who did what against whom."""
    groups = {s.group for s in r.standings if s.group is not None}
    held = f"{r.anchor} is held at 1000" if r.anchor else "the mean is held at 1000"
    columns = ("", "agent", "rating", "95 % interval", "games", "won", "drawn", "lost", *["group"] * (len(groups) > 1))
    rows = []
    for s in r.standings:
        known = s.rating is not None and s.lower is not None and s.upper is not None
        rating = (f"{s.rating:.0f}", f"{s.lower:.0f} to {s.upper:.0f}") if known else ("", "no game yet")
        group = ["" if s.group is None else s.group] * (len(groups) > 1)
        rows.append((s.rank, s.name, *rating, s.games, s.wins, s.draws, s.losses, *group))
    print_table(
        f"{r.game} {r.game_id[:8]}: rating from all evaluation matches, {held}; games of this one", columns, rows
    )
    if r.wanted:
        rows = []
        for w in r.wanted:
            d = w.difference
            points = (
                ("", "no game links them") if d is None else (f"{d.mean:+.0f}", f"{d.lower:+.0f} to {d.upper:+.0f}")
            )
            rows.append((w.a, w.b or "the mean", *points))
        print_table("the wanted differences in Elo points", ("", "above", "points", "95 % interval"), rows)
    print_table(
        "A's score against B in this tournament",
        ("A", "B", "games", "won", "drawn", "lost", "score", "95 % interval"),
        [(e.a, e.b, *record_cells(e)) for e in r.encounters],
    )
    why = {
        "complete": "all games are played",
        "reached": "what was wanted is known",
        "max-games": "the games are used up",
        "interrupted": "interrupted; the games so far count, and the same command plays fresh ones",
    }
    stored = f"stored as {r.tournament}" if r.tournament else "nothing is stored"
    show(f"{r.games:,} games, {r.sampling}, seed {r.seed}: {why[r.ended]}; {stored}")


def print_payoff(table: Payoff) -> None:
    """The cross table, what its cycles and mixtures say, and the matrix where it is small."""
    from league.boards.heatmap import findings, percent

    held = f"{table.anchor} is held at 1000" if table.anchor else "the mean is held at 1000"
    print_table(
        f"{table.game} {table.game_id[:8]}: Bradley-Terry rating, {held}; beside it two mixtures, which rank nobody",
        ("", "agent", "rating", "interval", "games", "score", "Nash", "alpha-rank"),
        [
            (
                i,
                r.name,
                f"{r.rating:.0f}",
                f"{r.lower:.0f} to {r.upper:.0f}",
                f"{r.games:,}",
                percent(r.score),
                percent(r.nash),
                percent(r.alpha_rank),
            )
            for i, r in enumerate(table.rows, 1)
        ],
    )
    if len(table.rows) <= MATRIX_COLUMNS:
        print_table(
            "score of the row against the column in per cent (games); ? where they never met",
            ("", *(str(i + 1) for i in range(len(table.rows)))),
            [
                (f"{i + 1} {row.name}", *(_cell(table, i, j) for j in range(len(table.rows))))
                for i, row in enumerate(table.rows)
            ],
            is_numeric=True,
        )
    else:
        show(
            f"The matrix of {len(table.rows):,} agents is too wide for text (at most {MATRIX_COLUMNS}): --png FILE"
            f" draws it, --json has its numbers, --run RUN shows one run's agents and whom they met."
        )
    for line in findings(table):
        show(line)
    for circle in table.circles:
        show(
            f"  {' beats '.join([*circle.names, circle.names[0]])}: at least {percent(circle.weakest)} each,"
            f" {percent(circle.certainty)} sure"
        )
    for p in table.performances:
        show(
            f"Relative population performance of {p.a} over {p.b}: {p.gain:+.2f} in -1 to 1 ({percent(p.known)} of the"
            f" pairs met)"
        )


def _cell(table: Payoff, i: int, j: int) -> str:
    score = table.score[i][j]
    if i == j:
        return "-"
    return "?" if score is None else f"{100 * score:.0f} ({table.games[i][j]})"


@contextmanager
def streams() -> Iterator[None]:
    """Within it stdout and stderr take every letter: one that their encoding lacks is spelt out.

    At its end what they did not take is given up, so that Python does not try, and fail, again as it ends.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        yield
    finally:
        for stream in (sys.stdout, sys.stderr):
            try:
                if stream is not None:
                    stream.flush()
            except (OSError, ValueError):
                with suppress(OSError, ValueError), open(os.devnull, "wb") as nowhere:
                    os.dup2(nowhere.fileno(), stream.fileno())


def flush() -> None:
    """Gives what was printed to whoever reads it.

    Raises:
        OSError: stdout does not take it.
    """
    with _stdout():
        if sys.stdout is not None:
            sys.stdout.flush()


def show(line: str = "") -> None:
    """A line of data on stdout."""
    with _stdout():
        print(one_line(line), flush=True)


def relay(text: str) -> None:
    """A part of what another process of ours has printed through this door, on stdout."""
    with _stdout():
        sys.stdout.write(text)
        sys.stdout.flush()


def say(message: str, quiet: bool = False) -> None:
    """Talk on stderr, unless `quiet`; where nobody takes it the command goes on."""
    if not quiet and sys.stderr is not None:
        with suppress(OSError):
            print(one_line(message), file=sys.stderr, flush=True)


@contextmanager
def _stdout() -> Iterator[None]:
    """Names the stream in what it raises, since the system does not."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or "stdout"
        raise


def print_bench(figures: dict[str, Any], as_json: bool) -> None:
    """A bench's figures, one a line or as JSON."""
    if as_json:
        print_json(figures)
    else:
        print_table("", ("figure", "value"), list(figures.items()))


def print_json(data: Any) -> None:
    """One JSON document on stdout."""
    with _stdout():
        print(json.dumps(_plain(data), allow_nan=False), flush=True)


def _plain(value: Any) -> Any:
    """`value` as JSON has it: a number that is not finite is null, times are ISO 8601, bytes hex."""
    if is_dataclass(value) and not isinstance(value, type):
        return _plain(asdict(value))
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set):
        kinds = set(map(type, value))
        if kinds <= {bool, int, str, type(None)}:  # a row of a large table: nothing to look at cell by cell
            return list(value)
        if kinds <= {float, int, type(None)}:
            return [None if x is None or not math.isfinite(x) else x for x in value]
        return [_plain(item) for item in value]
    if isinstance(value, float | Decimal):
        return float(value) if math.isfinite(value) else None
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, date | datetime | time):
        return value.isoformat()
    return value.hex() if isinstance(value, bytes) else str(value)


def table_width() -> int:
    """Columns of the terminal; as many as a table wants, up to 200, where stdout is none."""
    from rich.console import Console

    console = Console()
    return console.width if console.is_terminal else 200


def print_table(
    title: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[Any]],
    *,
    is_numeric: bool = False,
    width: int | None = None,
) -> None:
    """A table on stdout; `is_numeric`: all columns but the first hold numbers, and are set to the right.

    width: `table_width` if not given.
    """
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for i, column in enumerate(columns):
        table.add_column(Text(visible(str(column))), overflow="fold", justify="right" if is_numeric and i else "left")
    for row in rows:
        table.add_row(*(Text(visible(str(value))) for value in row))
    console = Console(highlight=False)
    console.width = width or table_width()
    with _stdout():
        if title:
            console.print(Text(one_line(title), style="bold"), soft_wrap=True)
        console.print(table)
