"""Alarms: forgetting, cycling, passivity and unequal seats, each from the stored matches by a query that is shown.

Those that training raised while a run went on (`league.training.guards`), and that are not over, are among them.

Every kind is tested once a run (unequal seats: once a game) at `ALPHA`, spent over all comparisons that are made in it,
so that a healthy store seldom raises one; and each also needs an effect that is large enough to matter.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, get_args

import numpy as np
from scipy.special import ndtr

from league.errors import plain
from league.maths.means import Z95
from league.maths.metagame import Crosstable, cycles, cyclic_share, cyclic_share_by_chance
from league.maths.pairs import PairCounts
from league.maths.ratings import Floats, bradley_terry
from league.maths.record import wilson
from league.store.folder import Folder
from league.store.reading import Reader
from league.store.rows import ALARM, OVER, EventRow, RunRow
from league.store.sql import sql

Kind = Literal["training", "forgetting", "cycling", "passivity", "seats"]
FOUND = frozenset(get_args(Kind))
"""Kinds that are found in the store's matches; those of training are known from its events alone."""
ALPHA = 0.01
"""The chance of a false alarm of one kind in one look at a healthy run. A run that is looked at ten times has ten."""
FORGET_DROP = 0.1
"""Of the score: from even, 70 Elo points. Less is what one opponent's style makes between two snapshots."""
CYCLE_EXCESS = 0.05
"""Of the payoff's squares, above what chance alone makes of them."""
CYCLE_CERTAINTY = 0.9
"""Of the surest circle of three: else there is nobody to show."""
CYCLE_SAMPLES = 299
IDLE_SHARE = 0.5
"""Matches in which the learner did nothing. A random player of brawl deals a good opponent no damage in a third."""
TIME_OUT_SHARE = 0.9
"""Matches ended by the clock, in a game without such a metric. Good players of brawl end up to 95 % so, fighting."""
LAST_MATCHES = 200
"""Of a run's newest training matches, which passivity looks at."""
CONTINUITY = 0.5
"""Of a game, for taking a score that goes in steps for one that does not."""
SEAT_MARGIN = 0.02
"""Of the first seat's score, from even 14 Elo points: pairs with seats exchanged cancel it, so less does no harm."""


@dataclass(frozen=True)
class Finding:
    """One kind of trouble looked for, in a run or (`seats`) a game.

    is_raised: None where the store has not the matches to tell. numbers: those of the sentence and its test, intervals
    as `..._lower` and `..._upper`, 95 %. query: what `league query` prints them from.
    """

    kind: Kind
    about: str
    is_raised: bool | None
    sentence: str
    numbers: dict[str, float | int | str]
    query: str


def alarms(store: Reader, run: str | None = None) -> tuple[Finding, ...]:
    """Looks for every kind of trouble in one run and its game, or in all; raised ones first.

    Raises:
        UsageError: no such run.
        StoreError: the store cannot be read.
    """
    with store.reading():
        if run is None:
            return look(store, store.runs(), store.games())
        row = store.find_run(run)
        return look(store, [row], [row.game_id])


def look(store: Reader, rows: Sequence[RunRow], game_ids: Collection[str]) -> tuple[Finding, ...]:
    """The same of these runs and games.

    Raises:
        StoreError: the store cannot be read.
    """
    of_runs = (_training, _forgetting, _cycling, _passivity)
    findings = [find(store, row.run, row.game_id) for row in rows for find in of_runs]
    games = {game_id: name for game_id, name in store.games().items() if game_id in game_ids}
    findings += [finding for game_id, name in games.items() for finding in _seats(store, game_id, name)]
    return tuple(sorted(findings, key=lambda finding: (not finding.is_raised, finding.is_raised is None)))


def sound(store: Reader, rows: Folder, update: int) -> list[str]:
    """Adds a run's alarms to its rows as events of kind `alarm:KIND`, but for those that training wrote itself.

    Returns:
        A line for each.

    Raises:
        StoreError: the store cannot be used.
    """
    raised = [finding for finding in alarms(store, rows.name) if finding.is_raised and finding.kind != "training"]
    for finding in raised:
        rows.add_event(update, ALARM + finding.kind, finding.sentence)
    rows.flush(force=True)
    return [f"alarm, {finding.kind}: {finding.sentence}" for finding in raised]


def statement(name: str, **values: str | int | Sequence[int] | None) -> str:
    """The named query on one line, with its parameters written out, as `league query` takes it."""
    text = re.sub(r"--[^\n]*", "", sql(name))
    text = re.sub(r"\$(\w+)", lambda found: _literal(values[found[1]]), " ".join(text.split()))
    return text.removesuffix(";")


def _literal(value: str | int | Sequence[int] | None) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return str(value) if isinstance(value, int) else str(list(value))


def _rows(store: Reader, query: str) -> list[dict[str, Any]]:
    columns, rows = store.execute(query)
    return [dict(zip(columns, row, strict=True)) for row in rows]


def _training(store: Reader, run: str, game_id: str) -> Finding:
    """Alarms over the run's own updates that are not over."""
    query = statement("alarm_training", run=run)
    last: dict[str, EventRow] = {}
    for event in store.events(run):
        word, _, kind = event.kind.partition(":")
        if f"{word}:" in (ALARM, OVER) and kind not in FOUND:
            last[kind] = event
    raised = [f"since step {x.steps or 0:,} {x.message}" for x in last.values() if x.kind.startswith(ALARM)]
    sentence = f"{run}: {'; '.join(raised) or 'no figure of its updates is sick'}"
    return Finding("training", run, bool(raised), sentence, {"alarms": len(raised)}, query)


def _forgetting(store: Reader, run: str, game_id: str) -> Finding:
    """The newest snapshot scores less than an earlier one against one bot or old snapshot (Fisher's exact test)."""
    query = statement("alarm_forgetting", run=run, game_id=game_id, against=None)
    finding = partial(Finding, "forgetting", run)
    records: dict[str, list[dict[str, Any]]] = {}
    for row in _rows(store, query):
        records.setdefault(row["against"], []).append(row)
    falls = [(earlier, found[-1]) for found in records.values() for earlier in found[:-1]]
    if not falls:
        why = f"no two snapshots have met the same old opponent; play `league tournament --run {run} --bots`"
        return finding(None, f"{run}: {why}", {}, query)
    chances = _chances(falls) * len(falls)
    drops = [old["score"] - new["score"] for old, new in falls]
    place = min(range(len(falls)), key=lambda i: (drops[i] < FORGET_DROP, chances[i], -drops[i]))
    old, new = falls[place]
    is_raised = bool(chances[place] <= ALPHA) and drops[place] >= FORGET_DROP
    numbers: dict[str, float | int | str] = {"against": old["against"]}
    for name, row in (("earlier", old), ("newest", new)):
        lower, upper = wilson(row["score"], row["games"])
        numbers |= {f"{name}_{key}": row[key] for key in ("step", "games", "score")}
        numbers |= {f"{name}_lower": lower, f"{name}_upper": upper}
    numbers |= {"comparisons": len(falls), "p": min(1.0, float(chances[place]))}
    sentence = (
        f"{run}@{new['step']} scores {_share(numbers, 'newest')} against {old['against']}, where {run}@{old['step']}"
        f" scored {_share(numbers, 'earlier')}"
    )
    if not is_raised:
        sentence = f"{run}: no score against {len(records)} old opponents has fallen; the nearest to it: {sentence}"
    query = statement("alarm_forgetting", run=run, game_id=game_id, against=old["against"])
    return finding(is_raised, sentence, numbers, query)


def _cycling(store: Reader, run: str, game_id: str) -> Finding:
    """More of the run's own cross table is cyclic than a ranking with as much noise makes, and a sure circle shows it.

    Noise: tables drawn from the Bradley-Terry fit to the same games (a parametric bootstrap).
    """
    query = statement("alarm_cycling", run=run, game_id=game_id, steps=None)
    finding = partial(Finding, "cycling", run)
    met = [row for row in _rows(store, query) if row["step"] != row["other"]]
    steps = sorted({row[key] for row in met for key in ("step", "other")})
    place = {step: i for i, step in enumerate(steps)}
    wins, draws = np.zeros((2, len(steps), len(steps)))
    for row in met:
        i, j = place[row["step"]], place[row["other"]]
        wins[i, j], wins[j, i] = row["wins"], row["games"] - row["wins"] - row["draws"]
        draws[i, j] = draws[j, i] = row["draws"]
    table = Crosstable(tuple(str(step) for step in steps), wins, draws)
    known = (table.games > 0).astype(np.int64)
    triangles = int(np.trace(known @ known @ known)) // 6
    if not triangles:
        why = f"no three snapshots have all met; play `league tournament --run {run}`"
        return finding(None, f"{run}: {why}", {}, query)
    share = cyclic_share(2.0 * table.score - 1.0)
    chance = cyclic_share_by_chance(table, _expected(table), np.random.default_rng(0), CYCLE_SAMPLES)
    p = float((1 + np.sum(chance >= share)) / (1 + len(chance)))
    _, surest = cycles(table, most=1)
    numbers: dict[str, float | int | str] = {
        "snapshots": len(steps),
        "games": int(table.games.sum()) // 2,
        "cyclic_share": share,
        "chance_mean": float(chance.mean()),
        "chance_upper": float(np.quantile(chance, 0.95)),
        "p": p,
    }
    sentence = f"{100 * share:.0f} % of {run}'s own cross table is cyclic, by chance {100 * chance.mean():.0f} %"
    certainty = surest[0].certainty if surest else 0.0
    is_raised = p <= ALPHA and share - float(chance.mean()) >= CYCLE_EXCESS and certainty >= CYCLE_CERTAINTY
    if not is_raised:
        return finding(False, f"{sentence}; no circle is sure", numbers, query)
    circle = surest[0].agents
    links = []
    for k in range(3):
        a, b = circle[k], circle[(k + 1) % 3]
        numbers |= {f"score_{k + 1}": float(table.score[a, b]), f"games_{k + 1}": int(table.games[a, b])}
        links.append(f"{run}@{steps[a]} beats {run}@{steps[b]} by {table.score[a, b]:.3f} of {table.games[a, b]} games")
    numbers["certainty"] = certainty
    query = statement("alarm_cycling", run=run, game_id=game_id, steps=sorted(steps[i] for i in circle))
    return finding(True, f"{sentence}: {', '.join(links)}", numbers, query)


def _expected(table: Crosstable) -> Floats:
    """(N, N): the scores that the ratings fitted to a table expect."""
    first, second = np.nonzero(np.triu(table.games))
    names = [f"{i:06d}" for i in range(len(table.agents))]
    counts = PairCounts(
        tuple(names[i] for i in first),
        tuple(names[j] for j in second),
        table.wins[first, second],
        table.draws[first, second],
        table.wins[second, first],
    )
    return bradley_terry(counts, agents=names).scores(names)


def _passivity(store: Reader, run: str, game_id: str) -> Finding:
    """The game's metric of activity is 0 in most matches; in a game without one nearly all matches run out of time."""
    activity = store.game(game_id).activity
    query = statement("alarm_passivity", run=run, last=LAST_MATCHES, activity=activity)
    [row] = _rows(store, query)
    matches, time_outs, idle = row["matches"], row["time_outs"], row["idle"]
    if not matches or not (row["with_activity"] or time_outs):
        why = "no metric of its game tells of activity, and no match ended by the clock"
        why = why if matches else "no training match yet"
        return Finding("passivity", run, None if not matches else False, f"{run}: {why}", {"matches": matches}, query)
    count, limit = (idle, IDLE_SHARE) if row["with_activity"] else (time_outs, TIME_OUT_SHARE)
    numbers: dict[str, float | int | str] = {"matches": matches}
    for name, part in (("time_outs", time_outs), *([("idle", idle)] if row["with_activity"] else [])):
        lower, upper = _interval(part, matches)
        numbers |= {name: part, f"{name}_share": part / matches, f"{name}_lower": lower, f"{name}_upper": upper}
    sentence = f"of {run}'s newest {matches:,} training matches {time_outs:,} ended by the clock"
    if row["with_activity"]:
        numbers["mean_activity"] = row["mean_activity"]
        sentence += f", and in {idle:,} ({_share(numbers, 'idle', 'idle_share')}) its {activity} was 0"
    is_raised = _interval(count, matches, 2.0 * ALPHA)[0] > limit
    return Finding("passivity", run, is_raised, sentence, numbers, query)


def _seats(store: Reader, game_id: str, game: str) -> list[Finding]:
    """The same agents do better from one seat: in games that share a seed, and in others, such as imported ones."""
    about = f"{game} {plain(game_id[:8])}".strip()
    judged = [finding for look in (_shared_seeds, _other_seeds) if (finding := look(store, game_id, about))]
    query = statement("alarm_seats", game_id=game_id)
    nothing = f"{about}: no two agents met in both seatings; play `league evaluate A --against B`"
    return judged or [Finding("seats", about, None, nothing, {}, query)]


def _shared_seeds(store: Reader, game_id: str, about: str) -> Finding | None:
    """More pairs of games with exchanged seats go to one seat than to the other (an exact sign test).

    In a fair game an agent does as well from either seat, so pairs in which it did better from the first and from the
    second are equally likely for any players.
    """
    from scipy.stats import binomtest

    query = statement("alarm_seats", game_id=game_id)
    [row] = _rows(store, query)
    decided = row["to_first"] + row["to_second"]
    if not decided:
        return None
    p = float(binomtest(row["to_first"], decided).pvalue)
    lower, upper = _interval(row["to_first"], decided)
    numbers = {**row, "first_share": row["to_first"] / decided, "first_lower": lower, "first_upper": upper, "p": p}
    sentence = (
        f"of {decided:,} pairs of games that the seats decided the first seat took {row['to_first']:,}"
        f" ({_share(numbers, 'first', 'first_share')}); its score in {row['pairs']:,} pairs is"
        f" {row['first_seat_score']:.3f}"
    )
    return _seat_finding(about, sentence, numbers, query)


def _other_seeds(store: Reader, game_id: str, about: str) -> Finding | None:
    """Agents score more from one seat than from the other against the same opponents (Mantel and Haenszel's test).

    Of two agents that met in both seatings, chance alone would decide which of their results fell to which seating:
    the first seat's score is compared with its mean and variance over all such permutations, summed over the pairs
    (Mantel and Haenszel 1959, Journal of the National Cancer Institute 22:719, with their continuity correction).
    """
    query = statement("alarm_seats_apart", game_id=game_id)
    [row] = _rows(store, query)
    if not row["variance"]:
        return None
    z = max(0.0, abs(row["excess"]) - CONTINUITY) / math.sqrt(row["variance"])
    p = float(2.0 * ndtr(-z))
    doubt = "" if 0.0 < row["first_seat_score"] < 1.0 else "; does a file name its winners first?"
    half = Z95 * math.sqrt(row["variance"]) / row["weight"] / 2.0
    ends = max(0.0, row["first_seat_score"] - half), min(1.0, row["first_seat_score"] + half)
    numbers = {**row, "first_lower": ends[0], "first_upper": ends[1], "p": p}
    sentence = (
        f"in {row['games']:,} games without a shared seed, of {row['pairs']:,} pairs of agents that met in both"
        f" seatings, the first seat's score is {_share(numbers, 'first', 'first_seat_score')}{doubt}"
    )
    return _seat_finding(about, sentence, numbers, query)


def _seat_finding(about: str, sentence: str, numbers: dict[str, Any], query: str) -> Finding:
    """Raised where chance seldom makes as much, and it is enough to matter."""
    is_raised = numbers["p"] <= ALPHA and abs(numbers["first_seat_score"] - 0.5) >= SEAT_MARGIN
    return Finding("seats", about, is_raised, f"{about}: {sentence}", numbers, query)


def _share(numbers: dict[str, float | int | str], name: str, value: str | None = None) -> str:
    share, lower, upper = (numbers[key] for key in (value or f"{name}_score", f"{name}_lower", f"{name}_upper"))
    return f"{share:.3f} [{lower:.3f} to {upper:.3f}]"


def _interval(count: int, total: int, alpha: float = 0.05) -> tuple[float, float]:
    """The exact interval of a share, 95 % if not told otherwise (Clopper and Pearson 1934, Biometrika 26:404)."""
    from scipy.stats import binomtest  # loading it takes longer than most commands

    interval = binomtest(count, total).proportion_ci(1.0 - alpha, method="exact")
    return float(interval.low), float(interval.high)


def _chances(falls: Sequence[tuple[dict[str, Any], dict[str, Any]]]) -> Floats:
    """(F,): the chance, with equal shares, of scores at least so far apart (Fisher's exact test, one-sided).

    The test counts games, so halves are rounded against the alarm. `scipy.stats.fisher_exact` is this one tail of the
    hypergeometric distribution, a table at a time.
    """
    from scipy.stats import hypergeom

    old = np.array([math.floor(row["points"]) for row, _ in falls])
    new = np.array([math.ceil(row["points"]) for _, row in falls])
    old_games, new_games = (np.array([pair[k]["games"] for pair in falls]) for k in (0, 1))
    return np.asarray(hypergeom.sf(old - 1, old_games + new_games, old + new, old_games), np.float64)
