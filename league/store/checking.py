"""The games of a file of matches, checked in SQL a part of the file at a time; they become the table `given`.

Those of them that the store has not got yet become evaluation rows.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Literal

import numpy as np

from league.errors import UsageError, plain, quoted
from league.runtime.phases import advance
from league.store.codec import KINDS, MAX_MATCH_SEED, encoded, naive, quoted_name
from league.store.formats import WINNERS, bad, format_of, name_problem, text_of
from league.store.pgn import UNDECIDED
from league.store.reading import LEAST_LISTED
from league.store.rows import ImportRow
from league.store.segments import batch_of
from league.store.segments import quoted as literal
from league.store.sql import sql
from league.store.view import Cursor, View
from league.types import DRAW

RESULTS = {
    **{"0": 0, "1": 1, "draw": DRAW, "1-0": 0, "0-1": 1, "1/2-1/2": DRAW, "½-½": DRAW},
    UNDECIDED: -2,
}
"""Word -> seat or DRAW; -2: no result."""
UNREADABLE = "cannot be read"
"""Why a bad game is left out."""
MAX_COUNT = 2**63 - 1
MAX_AGENTS = 20_000
"""Of one game: a board with this number takes a minute at worst (docs/ratings.md)."""
Earlier = Literal["refuse", "replace", "keep"]
"""What becomes of an earlier import of which a file has at least half of the games once more."""


class CheckedGames:
    """The games of a file, which are read once; `given` has those between two known agents that have a result.

    Args:
        con: where the tables are made.
        data: the file's content.
        name: the file's, which tells the format and stands in errors.
        find: the id of the agent of (game id, name); its ValueError tells why the name stands for none.
        games: the games of the store, id -> name.
        default: the game of rows that name none.
        wanted: the game that all rows have to be of.
        strict: whether a bad game ends the reading also where the format leaves one out.
        seed: a game that has none gets this and its place in the file.

    Raises:
        UsageError: the file cannot be read, or has a value with two meanings; the message has the line.
    """

    def __init__(
        self,
        con: Cursor,
        data: bytes,
        name: str,
        find: Callable[[str, str], str],
        *,
        games: Mapping[str, str],
        default: str | None = None,
        wanted: str | None = None,
        strict: bool = False,
        seed: int = 0,
    ) -> None:
        self._con, self._name, self._find, self._games = con, name, find, games
        self._default, self._wanted, self._seed = default, wanted, seed
        form = format_of(name)
        self._is_strict = strict or not form.leaves_out
        self.ignored: dict[str, None] = {}
        """Columns that are none of ours, in their order."""
        self.left_out: Counter[str] = Counter()
        """Why -> how many games."""
        self.first_bad = ""
        """What is wrong with the first game that could not be read."""
        self.without_zone = 0
        """Games whose time says no zone."""
        self.seated: dict[tuple[str, str], None] = {}
        """(Game id, agent id) of those that play, in their order."""
        self.count = 0
        """Games in `given`."""
        self._names: set[str] = set()
        """Those that were looked at."""
        self._nobody: dict[tuple[str | None, str], str] = {}
        """(Game id, name) that stands for no agent -> why."""
        con.execute(sql("make_given"))
        with batch_of(con, {"word": np.array([*RESULTS], object), "result": np.array([*RESULTS.values()])}):
            con.execute("CREATE OR REPLACE TEMP TABLE word AS FROM batch")
        num_lines = data.count(b"\n")
        for line in form.read(con, text_of(data, name), self.ignored):
            self._take_part()
            advance("lines", line, num_lines)
        if repeated := self._run("delete_repeated_matches")[0][0]:
            self.left_out["in the file once more"] = repeated
            self.count -= repeated
        self._refuse_two_meanings()
        if not self.count:
            self._refuse_none()
        self.is_listed = bool(self._run("is_listed", least=LEAST_LISTED)[0][0])
        """Whether one seat won every decided match, as in a list that names winners first."""

    def _take_part(self) -> None:
        """Adds the games of `part` to `given`."""
        self._look_up_names()
        self._look_up_moments()
        self._run("make_checked", default=self._default)
        self._look_up_agents()
        misnamed = sorted(set(self._games.values()) - self._games.keys())
        self._run("make_seated", misnamed=misnamed, wanted=self._wanted)
        for worst in self._run("first_broken", is_strict=self._is_strict):
            raise self._error(*worst)
        for worst in [] if self.first_bad else self._run("first_broken", is_strict=True):
            self.first_bad = str(self._error(*worst))
        for why, count, without_zone in self._run("left_out"):
            if why is None:
                self._run("give_games", count=self.count, seed=self._seed)
                self.count += count
                self.without_zone += without_zone
            else:
                self.left_out[why] += count
        self._run("keep_results")
        self._run("keep_called")

    def _run(self, query: str, **values: Any) -> list[tuple[Any, ...]]:
        return self._con.execute(sql(query), values).fetchall()

    # Different values are looked at in Python, once.

    def _look_up_names(self) -> None:
        """Fills `spelling` with the names that are bad, or another name in Unicode's form NFC."""
        new = [name for (name,) in self._run("new_names") if name is not None and name not in self._names]
        self._names.update(new)
        found = [(spelt, _composed(spelt), bool(name_problem(_composed(spelt)))) for spelt in new]
        self._insert("spelling", [row for row in found if row[2] or row[0] != row[1]])

    def _look_up_moments(self) -> None:
        """Makes `moment` of the times that are not in the usual form."""
        told = self._run("odd_moments")
        self._con.execute("CREATE OR REPLACE TEMP TABLE moment (spelt VARCHAR, moment TIMESTAMP, is_zoned BOOLEAN)")
        self._insert("moment", [(spelt, *_moment(spelt)) for (spelt,) in told])

    def _look_up_agents(self) -> None:
        """Fills `seat` with the ids of agents, None for a name that stands for none."""
        rows: list[tuple[str, str, str | None]] = []
        for game, name in self._run("new_agents"):
            try:
                found = self._find(game, name)
                self.seated[game, found] = None
                rows.append((game, name, found))
            except ValueError as error:
                self._nobody[game, name] = str(error)
                rows.append((game, name, None))
        self._insert("seat", rows)

    def _insert(self, table: str, rows: list[tuple[Any, ...]]) -> None:
        if rows:
            columns = {f"c{i}": np.array(column, object) for i, column in enumerate(zip(*rows, strict=True))}
            with batch_of(self._con, columns):
                self._con.execute(f"INSERT INTO {table} FROM batch")

    # What is wrong.

    def _error(self, number: int, rule: str) -> UsageError:
        """What is wrong with the row of that number, which breaks a rule."""
        result = self._con.execute("FROM part WHERE number = $number", {"number": number})
        columns = [column[0] for column in result.description or ()]
        fields = dict(zip(columns, result.fetchall()[0], strict=True))
        return bad(self._name, fields["line"], self._problem(rule, fields))

    def _problem(self, rule: str, fields: Mapping[str, Any]) -> str:
        value = fields.get(rule) or ""
        shown = f"{rule}={quoted(value)}"
        seats = [_composed(fields[column] or "") for column in ("seat0", "seat1")]
        match rule:
            case "problem":
                return str(value)
            case "seat0" | "seat1" | "game_id" | "end_reason":
                return f"{rule}={quoted(_composed(value))} {name_problem(_composed(value))}; correct it"
            case "itself":
                return f"{quoted(seats[0])} plays against itself; a match is between two agents"
            case "winners":
                given = " and ".join(column for column in WINNERS if fields[column])
                return f"{given} say who won; give one of them in a row"
            case "winner" | "winner_seat" | "winner_name":
                known = ", ".join(word for word, result in RESULTS.items() if result >= DRAW)
                rules = {
                    "winner": f"one of {known}, or the name in seat0 or seat1",
                    "winner_seat": f"one of {known}",
                    "winner_name": "the name in seat0 or seat1, or draw",
                }
                return f"{shown} must be {rules[rule]}; correct it"
            case "kind" | "sampling":
                return f"{shown} must be {'evaluation' if rule == 'kind' else 'sample or greedy'}; correct it"
            case "played_at":
                return f"{shown} is no ISO 8601 time such as 2026-05-01T12:00:00+00:00; correct it"
            case "seed" | "steps" | "ticks":
                top = MAX_MATCH_SEED if rule == "seed" else MAX_COUNT
                return f"{shown} is no whole number from 0 to {top}; correct it"
            case "misnamed":
                return misnamed_problem(_composed(fields["game_id"]), self._games)
            case "wanted":
                return f"game_id={quoted(_composed(fields['game_id']))} is not --game-id {self._wanted}; leave one out"
            case "game":
                return "nothing tells the game; pass --game or --game-id, or add a column game_id"
        seat, game_id = int(rule.removeprefix("agent")), _composed(fields["game_id"] or "") or self._default
        return f"seat{seat}={quoted(seats[seat])} {self._nobody[game_id, seats[seat]]}"

    def _refuse_two_meanings(self) -> None:
        for line, column, value in self._run("two_meanings"):
            columns = "winner_seat (0, 1, draw)" + (" or winner_name" if column == "winner" else "")
            problem = f"{column}={quoted(value)} has two meanings, since an agent of the file is called so"
            raise bad(self._name, line, f"{problem}; give the column {columns} instead of {column}")

    def _refuse_none(self) -> None:
        if not self.left_out:
            raise UsageError(f"{self._name}: there is no game in it; give a file with one match or more")
        if self.left_out.total() == self.left_out[UNREADABLE]:
            raise UsageError(self.first_bad)
        raise UsageError(
            f"{self._name}: none of its {self.left_out.total()} games has a result between two agents;"
            " give each a winner or a draw, and a name to both players"
        )


def misnamed_problem(game_id: str, games: Mapping[str, str]) -> str:
    """What is wrong with the name of a game of the store where a game id belongs."""
    ids = ", ".join(plain(known) for known, name in games.items() if name == game_id)
    return (
        f"game_id={quoted(game_id)} is the name of a game of the store, its id is {ids}; give that, or leave it out"
        f" and pass --game {plain(game_id)}"
    )


def _composed(name: str) -> str:
    return unicodedata.normalize("NFC", name)


def _moment(spelt: str) -> tuple[datetime | None, bool]:
    """A time in UTC, which says so or not; None: it is none."""
    try:
        moment = datetime.fromisoformat(spelt)
        return naive(moment if moment.tzinfo else moment.replace(tzinfo=UTC)), moment.tzinfo is not None
    except (ValueError, OverflowError):
        return None, False


def leave_out_stored(view: View, con: Cursor, row: ImportRow, earlier: Earlier) -> tuple[int, list[ImportRow]]:
    """Deletes the games of `given` that the store has already.

    con: the view's, within its `reading`. row: the import that the games become.

    Returns:
        How many are left, and the earlier imports in whose place they come.
    """
    new = {"run": row.run, "imported_at": naive(row.imported_at)}
    replaced = view.select_rows(ImportRow, "repeated_imports", **new) if earlier == "replace" else []
    if earlier == "replace" and not replaced:
        raise UsageError(f"{row.file}: it has less than half of the games of any earlier import; leave --replace out")
    view.select("delete_stored_matches", replaced=[old.run for old in replaced], imported_at=new["imported_at"])
    ((fresh,),) = con.execute("SELECT count(*) FROM given").fetchall()
    if not fresh:
        raise UsageError(f"{row.file}: all {row.matches:,} matches are in {view.path} already; nothing was changed")
    if earlier == "refuse" and (again := view.select_rows(ImportRow, "repeated_imports", **new)):
        named = ", ".join(f"{old.run} ({old.matches:,} games of {old.file})" for old in again)
        raise UsageError(
            f"{row.file}: it has most games of an earlier import once more, of {named}; pass --replace to put this file"
            f" in its place, or --as-new if these are other games; nothing was changed"
        )
    return fresh, replaced


def refuse_too_many(view: View, con: Cursor, file: str) -> None:
    """Refuses games with which nobody of their game could be rated any more."""
    from league.maths.davidson import check_size  # here, since it loads scipy

    for (game_id,) in con.execute("SELECT DISTINCT game_id FROM given ORDER BY game_id").fetchall():
        pairs = view.select("met_pairs", game_id=game_id)
        names = {name: i for i, name in enumerate(sorted({agent for pair in pairs for agent in pair}))}
        if len(names) > MAX_AGENTS:
            raise UsageError(
                f"{file}: with it {len(names):,} agents have games, more than the {MAX_AGENTS:,} that are rated;"
                f" import fewer"
            )
        ends = np.array([[names[a], names[b]] for a, b in pairs], np.int64).reshape(-1, 2)
        check_size(len(names), *ends.T)


def matches_query(row: ImportRow) -> str:
    """The games of `given` as the matches of an import, in SQL."""
    said = {
        **{"run": literal(row.run), "kind": "'evaluation'", "update": "0", "row": "place", "ordinal": "0"},
        **dict.fromkeys(("update_begin", "update_end", "payoff", "course"), "NULL"),
        **dict.fromkeys(("metrics", "rewards"), "'{}'"),
        "finished_at": f"coalesce(played_at, {literal(str(naive(row.imported_at)))}::TIMESTAMP)",
    }
    columns = ", ".join(f"{said.get(name, name)} AS {quoted_name(name)}" for name in KINDS["match"])
    return f"SELECT {encoded('match')} FROM (SELECT {columns} FROM given)"
