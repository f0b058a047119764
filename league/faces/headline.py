"""The first words of a page: how the best snapshot stands against the bots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from league.boards.leaderboards import Board, Entry
from league.boards.naming import LEAST_GAMES, strength
from league.errors import command
from league.faces.records import AlarmLine
from league.faces.sections import RunFacts
from league.maths.record import Record

VERDICTS = ("loses to", "is neither clearly better nor clearly worse than", "beats")
"""The 95 % interval of the score is below 1/2, holds 1/2, is above 1/2; of a payoff 0."""


def headline(
    board: Board,
    facts: Mapping[str, RunFacts],
    met: Mapping[tuple[str, str], Record],
    alarms: Sequence[AlarmLine],
    store: Path,
) -> str:
    """A paragraph about the runs of one game. The first sentence has the best snapshot's score against each bot.

    Args:
        board: the game's.
        facts: the runs, by name; `rated` is filled in.
        met: two agents -> what the first did against the second.
        alarms: of these runs.
        store: for the command that plays what is missing.
    """
    steps = [x.row.steps for x in facts.values()]
    span = f"{min(steps):,}" if min(steps) == max(steps) else f"{min(steps):,} to {max(steps):,}"
    runs = f"run {next(iter(facts))}" if len(facts) == 1 else f"{len(facts)} runs"
    candidates = [entry for x in facts.values() for _, entry in x.rated if entry.is_best]
    best = max(candidates, key=lambda x: strength(x.games, x.group, x.lower), default=None)
    if best is None:
        sentences = [f"{board.game}: no snapshot of {runs} ({span} steps) that can play is rated yet"]
    else:
        records = {b: record for (a, b), record in met.items() if a == best.agent_id}
        bots = {entry.name: records.get(entry.agent_id) for entry in board.entries if entry.kind == "bot"}
        title = "champion" if best.is_champion else "best snapshot"
        subject = f"{board.game}: {best.name}, the {title} of {runs} ({span} steps),"
        sentences = [f"{subject} {_against(bots)}", *_evidence(best, board, bots, store)]
    raised = [x.kind for x in alarms if x.state == "raised"]
    sentences.append(f"Alarms raised: {', '.join(dict.fromkeys(raised))}" if raised else "No alarm is raised")
    return f"{'. '.join(sentences)}."


def _against(bots: Mapping[str, Record | None]) -> str:
    """What an agent comes to against each bot, the worst first."""
    found: dict[str, list[str]] = {}
    played = [(name, x) for name, x in bots.items() if x is not None]
    for name, x in sorted(played, key=lambda pair: pair[1].measured[0]):
        value, lower, upper = x.measured
        even, form = (0.5, ".2f") if x.payoff is None else (0.0, "+z.2f")
        verdict = VERDICTS[1 + (lower > even) - (upper < even)]
        word = "" if found else f"{x.measured._fields[0]} "
        games = f"{x.games:,} {'game' if x.games == 1 else 'games'}"
        found.setdefault(verdict, []).append(
            f"{name} ({word}{value:{form}} [{lower:{form}} to {upper:{form}}] of {games})"
        )
    parts = [f"{verdict} {_listed(found[verdict])}" for verdict in VERDICTS if verdict in found]
    if missing := [name for name, x in bots.items() if x is None]:
        parts.append(f"has not met {_listed(missing)}")
    return "; ".join(parts) or "has met no bot"


def _evidence(best: Entry, board: Board, bots: Mapping[str, Record | None], store: Path) -> list[str]:
    """Its rating, and whether that and the scores rest on enough games."""
    form, level = (",.0f", "1,000") if board.unit == "elo" else ("+z.3f", "0")
    held = f", where {board.anchor} has {level}" if board.anchor else ""
    games = f"{best.games:,} {'game' if best.games == 1 else 'games'}"
    found = [f"It is rated {best.rating:{form}} [{best.lower:{form}} to {best.upper:{form}}]{held}, from {games}"]
    more = f"{command('tournament', best.name, '--bots', '--format', 'gauntlet', store=store)} plays more"
    if best.games < LEAST_GAMES:
        found.append(f"Fewer than {LEAST_GAMES} games are too few to tell which snapshot is the best: {more}")
    elif None in bots.values():
        found.append(f"To see it against every bot: {more}")
    return found


def _listed(words: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))
