"""A tournament's results as one page of HTML and SVG without a script: standings, bracket, who met whom."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from itertools import groupby
from pathlib import Path

from league.arena.templates import filled
from league.arena.tournament_results import BracketMatch, Encounter, Standing, TournamentResult
from league.errors import one_line
from league.store.files import new_file

WHY = {
    "reached": "ended when what was wanted was known",
    "max-games": "ended with its games",
    "interrupted": "interrupted",
}
MOST_IN_GRID = 64
"""Entrants whose meetings are shown as a grid; of more those that stand highest."""


def save(result: TournamentResult, out: Path) -> None:
    """Writes the page into a new file.

    Raises:
        UsageError: something is at `out`.
        LeagueError: the disk or the folder refuses.
    """
    with new_file(out, "--out") as draft:
        draft.write_text(page(result), encoding="utf-8")


def page(result: TournamentResult) -> str:
    """The whole page."""
    r = result
    body = [*_bracket(r), *_standings(r), *_wanted(r), *_grid(r)]
    kept = f"stored as {r.tournament}" if r.tournament else "nothing is stored"
    about = [
        f"{r.games:,} games",
        r.sampling,
        f"seed {r.seed}",
        WHY.get(r.ended, "complete"),
        kept,
        f"game {r.game_id[:12]}",
    ]
    title = f"{one_line(r.game)}: {r.format.replace('-', ' ')} of {len(r.standings)} agents"
    return filled("tournament.html", (), "tournament.css", body="\n".join(body), title=title, about=", ".join(about))


def _standings(r: TournamentResult) -> Iterable[str]:
    held = f"{_name(r.anchor)} is held at {1000 if r.unit == 'elo' else 0}" if r.anchor else "the mean is held"
    what = "Elo points" if r.unit == "elo" else "payoff a match"
    yield "<h2>Standings</h2>"
    yield f'<p class="note">Ratings in {what} with 95 % intervals, from all evaluation matches; {held}. Games are those'
    yield "of this tournament.</p>"
    has_forfeits = any(s.forfeits for s in r.standings)
    heads = ["rating", "95 % interval", "games", "won", "drawn", "lost", *(["forfeits"] if has_forfeits else [])]
    yield '<div class="scroll"><table><thead><tr><th></th><th class="name">agent</th><th class="bar"></th>'
    yield "".join(f"<th>{head}</th>" for head in heads) + "</tr></thead><tbody>"
    rated = [x for s in r.standings if s.rating is not None for x in (s.lower, s.upper) if x is not None]
    low, high = min(rated, default=0.0), max(rated, default=1.0)
    for s in r.standings:
        played = [s.games, s.wins, s.draws, s.losses, *([s.forfeits] if has_forfeits else [])]
        cells = [*_rating(s, r.unit == "elo"), *(f"{x:,}" for x in played)]
        yield f'<tr><td>{s.rank}</td><td class="name">{_name(s.name)}</td><td class="bar">{_bar(s, low, high)}</td>'
        yield "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"
    yield "</tbody></table></div>"


def _rating(s: Standing, is_elo: bool) -> tuple[str, str]:
    if s.rating is None or s.lower is None or s.upper is None:
        return "no game yet", ""
    form = ".0f" if is_elo else ".3f"
    return f"{s.rating:{form}}", f"{s.lower:{form}} to {s.upper:{form}}"


def _bar(s: Standing, low: float, high: float) -> str:
    """The interval and the rating on the scale of all."""
    if s.rating is None or s.lower is None or s.upper is None:
        return ""
    left, middle, right = (100 * (x - low) / ((high - low) or 1.0) for x in (s.lower, s.rating, s.upper))
    wide = max(right - left, 0.5)
    return (
        '<svg viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect class="interval" x="{left:.2f}" y="3" width="{wide:.2f}" height="4"/>'
        f'<rect class="mean" x="{min(middle, 99.0):.2f}" y="1" width="1" height="8"/></svg>'
    )


def _bracket(r: TournamentResult) -> Iterable[str]:
    if not r.bracket:
        return
    if r.ended == "complete":
        yield f'<p class="champion"><b>{_name(r.bracket[-1].winner)}</b> wins the double elimination.</p>'
    what = "Scores in per cent" if r.unit == "elo" else "Payoffs a game"
    yield f'<h2>Bracket</h2><p class="note">{what}; where a match stays level the better seed goes on.</p>'
    for bracket in ("winners", "losers", "final"):
        matches = [match for match in r.bracket if match.bracket == bracket]
        if not matches:
            continue
        yield f'<h3>{bracket}</h3><div class="scroll"><div class="rounds">'
        for number, round in groupby(matches, key=lambda match: match.round):
            yield f'<div class="round"><h4>round {number}</h4><div>' + "".join(map(_match, round)) + "</div></div>"
        yield "</div></div>"


def _match(m: BracketMatch) -> str:
    sides = []
    for name, value in ((m.a, m.measured[0]), (m.b, _other(m))):
        kind = "side won" if name == m.winner else "side"
        sides.append(f'<div class="{kind}"><span>{_name(name)}</span><b>{_score(m, value)}</b></div>')
    return f'<div class="match">{"".join(sides)}<small>{m.games} games</small></div>'


def _wanted(r: TournamentResult) -> Iterable[str]:
    if not r.wanted:
        return
    form = "+z.0f" if r.unit == "elo" else "+z.3f"
    yield '<h2>Wanted differences</h2><p class="note">With anytime-valid 95 % intervals.</p>'
    yield '<div class="scroll"><table><tbody>'
    for w in r.wanted:
        words = "no game links them"
        if w.difference is not None:
            mean, lower, upper = (f"{x:{form}}" for x in w.difference)
            words = f"{mean} [{lower} to {upper}]"
        yield f'<tr><td class="name">{_name(w.a)} above {_name(w.b or "the mean")}</td><td>{words}</td></tr>'
    yield "</tbody></table></div>"


def _grid(r: TournamentResult) -> Iterable[str]:
    """Everybody's score against everybody, in the order of the standings."""
    names = [s.name for s in r.standings][:MOST_IN_GRID]
    met = {(e.a, e.b): (e, True) for e in r.encounters} | {(e.b, e.a): (e, False) for e in r.encounters}
    what = "Score in per cent" if r.unit == "elo" else "Payoff a game"
    yield f'<h2>Who met whom</h2><p class="note">{what} of the row against the column, and their games.</p>'
    yield '<div class="scroll"><table class="grid"><thead><tr><th></th>'
    yield "".join(f"<th>{place}</th>" for place in range(1, len(names) + 1)) + "</tr></thead><tbody>"
    for place, name in enumerate(names, 1):
        cells = ['<td class="self"></td>' if name == other else _cell(met.get((name, other))) for other in names]
        yield f'<tr><th class="name">{_name(name)} {place}</th>{"".join(cells)}</tr>'
    yield "</tbody></table></div>"


def _cell(found: tuple[Encounter, bool] | None) -> str:
    """A meeting as the row's agent has it; the colour is the score's."""
    if found is None:
        return "<td></td>"
    e, is_first = found
    value, share = (e.measured[0], e.score) if is_first else (_other(e), 1.0 - e.score)
    kind = "even" if share == 0.5 else f"{'w' if share > 0.5 else 'l'}{min(3, 1 + int(6 * abs(share - 0.5)))}"
    return f'<td class="{kind}">{_score(e, value)}<small>{e.games}</small></td>'


def _other(record: BracketMatch | Encounter) -> float:
    """What B is judged by."""
    return 1.0 - record.score if record.payoff is None else -record.payoff.mean


def _score(record: BracketMatch | Encounter, value: float) -> str:
    return f"{100 * value:.0f}" if record.payoff is None else f"{value:+z.3f}"


def _name(name: str) -> str:
    return escape(one_line(name))
