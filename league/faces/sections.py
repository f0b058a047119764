"""The figures of one game, of what the store has of its runs: curves of runs and, over seeds, of settings."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from league.boards.leaderboards import Entry
from league.boards.readings import healthy, units
from league.faces.records import FigureGroup, Line, Panel, Series
from league.maths.ratings import Unit
from league.maths.record import Record, wilson
from league.maths.seeds import across
from league.printing.figures import FIGURES
from league.store.rows import EventRow, LearnerRow, MetricPoint, RewardTerm, RunRow, SnapshotRow

MOST_OPPONENTS = 12
"""Opponents with a figure of their own: those with most games."""
MOST_STACKED = 8
"""Lines with a figure of shares of their own."""
MOST_PARTS = 10
"""Of a whole; what is smaller is put together."""
LEARNING = (
    *("policy_loss", "value_loss", "approx_kl", "entropy", "clip_share", "explained_variance", "gradient_norm"),
    *(
        "reward_per_step",
        "match/draws",
        "match/steps",
        "match/first_seat",
        "learning_rate",
        "schedule/learner.entropy_coefficient",
    ),
)
STEADY = {"learning_rate", "schedule/learner.entropy_coefficient"}
"""What is drawn where it moves only."""
TITLES = {
    **FIGURES,
    "policy_loss": "policy loss",
    "approx_kl": "KL, nats",
    "entropy": "entropy, nats",
    "clip_share": "clipped, share of samples",
    "explained_variance": "explained variance of values",
    "gradient_norm": "gradient norm before clipping",
    "reward_per_step": "reward a step",
    "match/draws": "draws, share of matches",
    "match/steps": "decisions of a match",
    "match/first_seat": "first seat, mean score",
}
BEHAVIOUR, REWARD = "match/", "reward/"
"""How metrics of matches, and of what reward terms brought, begin."""

OTHERS = "others"
Whole = tuple[Sequence[float], Sequence[float]]
"""x and y."""
Curve = tuple[Sequence[float], Sequence[float], Sequence[float] | None, Sequence[float] | None]
"""x, y, and the ends of the band where there is one."""


@dataclass
class RunFacts:
    """What is known of one run."""

    row: RunRow
    status: str
    learner: LearnerRow | None
    total_steps: int | None
    snapshots: list[SnapshotRow]
    metrics: dict[str, list[MetricPoint]]
    scores: dict[str, list[tuple[int, int, float]]]
    """Opponent -> step of a snapshot, games, score a game."""
    seats: dict[int, Record]
    """Of training."""
    endings: list[tuple[int, str, int]]
    """Step, reason, matches."""
    terms: list[RewardTerm]
    events: list[EventRow]
    rated: list[tuple[int, Entry]] = field(default_factory=list)
    """Step -> the rating of its snapshot."""
    actions: dict[str, list[tuple[int, float]]] = field(default_factory=dict)
    """Action -> its share of a snapshot's decisions, by step."""


def lines_of(facts: Iterable[RunFacts]) -> tuple[Line, ...]:
    """The runs, those that differ by their seed alone as one line."""
    alike: defaultdict[tuple[str, str, str], list[str]] = defaultdict(list)
    for x in facts:
        own = x.row.run if x.learner is not None else ""
        alike[(x.row.fingerprint, x.row.stage, own)].append(x.row.run)
    return tuple(Line(runs[0], _called(runs), tuple(runs)) for runs in alike.values())


def _called(runs: Sequence[str]) -> str:
    if len(runs) == 1:
        return runs[0]
    bare = {run.rstrip("0123456789") for run in runs}
    return f"{bare.pop()}* ({len(runs)} seeds)" if len(bare) == 1 else f"{runs[0]} and {len(runs) - 1} more seeds"


def sections_of(facts: Mapping[str, RunFacts], lines: Sequence[Line], unit: Unit) -> tuple[FigureGroup, ...]:
    """All sections that have a figure, in their order. unit: of the ratings."""
    found = (
        _strength(facts, lines, unit),
        _opponents(facts, lines, unit),
        _learning(facts, lines),
        _rewards(facts, lines),
        _actions(facts, lines),
        _behaviour(facts, lines),
        _seats(facts, lines),
    )
    return tuple(section for section in found if section.panels)


def _drawn(lines: Sequence[Line], curve: Callable[[str], Curve | None]) -> tuple[Series, ...]:
    """The curve of each run in its line's colour; of several seeds what they come to, each faint behind it."""
    series: list[Series] = []
    for line in lines:
        known = {run: found for run in line.members if (found := curve(run)) is not None and len(found[0])}
        if len(known) < 2:
            series += [Series(run, line.id, x, y, low, high) for run, (x, y, low, high) in known.items()]
            continue
        series += [Series(run, line.id, x, y, faint=True) for run, (x, y, _, _) in known.items()]
        both = across([(x, y) for x, y, _, _ in known.values()])
        if both is not None:
            name = f"{line.name}: {'IQM' if both.is_iqm else 'mean'}"
            x, y, low, high = (column.tolist() for column in both[:4])
            series.append(Series(name, line.id, x, y, low, high))
    return tuple(series)


def _metric(facts: Mapping[str, RunFacts], name: str) -> Callable[[str], Curve | None]:
    def curve(run: str) -> Curve | None:
        points = facts[run].metrics.get(name)
        if not points:
            return None
        is_whole = all(p.least == p.most for p in points)
        low, high = (None, None) if is_whole else ([p.least for p in points], [p.most for p in points])
        return [p.steps for p in points], [p.mean for p in points], low, high

    return curve


def _strength(facts: Mapping[str, RunFacts], lines: Sequence[Line], unit: Unit) -> FigureGroup:
    def curve(run: str) -> Curve | None:
        rated = facts[run].rated
        lower, upper = [entry.lower for _, entry in rated], [entry.upper for _, entry in rated]
        return [step for step, _ in rated], [entry.rating for _, entry in rated], lower, upper

    series = _drawn(lines, curve)
    note = "Rating of each snapshot from evaluation games, with its 95 % interval."
    title = "rating, Elo points" if unit == "elo" else "payoff a match"
    return FigureGroup("strength", "Strength", note, (Panel(title, series),) if series else ())


def _opponents(facts: Mapping[str, RunFacts], lines: Sequence[Line], unit: Unit) -> FigureGroup:
    games: defaultdict[str, int] = defaultdict(int)
    for x in facts.values():
        for opponent, points in x.scores.items():
            games[opponent] += sum(count for _, count, _ in points)
    chosen = sorted(games, key=lambda name: (not name.startswith("bot:"), -games[name], name))[:MOST_OPPONENTS]
    panels = []
    for opponent in chosen:

        def curve(run: str, opponent: str = opponent) -> Curve | None:
            points = facts[run].scores.get(opponent)
            if not points:
                return None
            ends = [wilson(score, count) for _, count, score in points]
            steps, scores = [step for step, _, _ in points], [score for _, _, score in points]
            return steps, scores, [low for low, _ in ends], [high for _, high in ends]

        panels.append(Panel(opponent, _drawn(lines, curve), range=(0.0, 1.0), even=0.5))
    left = len(games) - len(chosen)
    scale = "win 1, draw 1/2" if unit == "elo" else "its payoff, from 0 for the largest loss to 1 for the largest gain"
    note = f"Score a game ({scale}) of each snapshot in evaluation games, with its 95 % interval."
    note += f" {left} more opponents are left out." if left else ""
    return FigureGroup("opponents", "Score per opponent", note, tuple(panels))


def _learning(facts: Mapping[str, RunFacts], lines: Sequence[Line]) -> FigureGroup:
    panels = []
    of = units(json.loads(next(iter(facts.values())).row.config)) if facts else {}
    for name in LEARNING:
        series = _drawn(lines, _metric(facts, name))
        if series and (name not in STEADY or _moves(series)):
            seen = [y for x in series for y in x.y if y is not None]
            title = TITLES.get(name, name.rpartition(".")[2].replace("_", " "))
            panels.append(Panel(title, series, healthy=healthy(name, seen, of.get(name, 1.0))))
    note = "One point an update, or the mean of several with their least and most. Green: where a healthy run lies."
    note += " Draws, length and first seat are of training matches."
    return FigureGroup("learning", "Learning", note, tuple(panels))


def _moves(series: Iterable[Series]) -> bool:
    values = {y for x in series for y in x.y}
    return len(values) > 1


def _rewards(facts: Mapping[str, RunFacts], lines: Sequence[Line]) -> FigureGroup:
    found: dict[str, dict[str, Whole]] = {}
    for line in lines[:MOST_STACKED]:
        terms = sorted({name for run in line.members for name in facts[run].metrics if name.startswith(REWARD)})
        curves = {name.removeprefix(REWARD): _typical(line, _metric(facts, name)) for name in terms}
        found[line.name] = {name: curve for name, curve in curves.items() if curve is not None and any(curve[1])}
    note = "What each term weighs in the learner's reward: its weighted sum a match without its sign, as a share."
    return FigureGroup("rewards", "Reward shares", note, _stacks(found))


def _typical(line: Line, curve: Callable[[str], Curve | None]) -> Whole | None:
    """The mean curve of a line's runs."""
    known = [found for run in line.members if (found := curve(run)) is not None]
    if len(known) < 2:
        return (known[0][0], known[0][1]) if known else None
    both = across([(x, y) for x, y, _, _ in known])
    return None if both is None else (both.x.tolist(), both.middle.tolist())


def _stacks(found: Mapping[str, Mapping[str, Whole]], title: str = "") -> tuple[Panel, ...]:
    """A panel of shares for each line whose whole has parts; a part has one colour in all of them."""
    shares = {line: _shares(parts) for line, parts in found.items() if len(parts) > 1}
    order = _largest_first(shares.values())
    return tuple(
        Panel(title + line, tuple(Series(name, "", *own[name]) for name in order if name in own), "stack", range=(0, 1))
        for line, own in shares.items()
    )


def _largest_first(found: Iterable[Mapping[str, tuple[Sequence[float], Sequence[float | None]]]]) -> list[str]:
    sizes: defaultdict[str, float] = defaultdict(float)
    for own in found:
        for name, (_, values) in own.items():
            sizes[name] += sum(x or 0.0 for x in values) / len(values)
    return sorted(sizes, key=lambda name: (name == OTHERS, -sizes[name], name))


def _shares(parts: Mapping[str, Whole]) -> dict[str, tuple[Sequence[float], list[float | None]]]:
    """Curves over the same steps as shares of their sizes' sum; the smallest are put together."""
    grid = max((x for x, _ in parts.values()), key=len)
    sizes = {name: dict(zip(x, map(abs, y), strict=True)) for name, (x, y) in parts.items()}
    order = sorted(sizes, key=lambda name: (-sum(sizes[name].values()), name))
    for name in order[MOST_PARTS:]:
        others = sizes.setdefault(OTHERS, defaultdict(float))
        for x, y in sizes.pop(name).items():
            others[x] += y
    totals = [sum(own.get(x, 0.0) for own in sizes.values()) for x in grid]
    return {
        name: (grid, [own.get(x, 0.0) / total if total else None for x, total in zip(grid, totals, strict=True)])
        for name, own in sizes.items()
    }


def _actions(facts: Mapping[str, RunFacts], lines: Sequence[Line]) -> FigureGroup:
    found: dict[str, dict[str, Whole]] = {}
    for line in lines[:MOST_STACKED]:
        names = dict.fromkeys(name for run in line.members for name in facts[run].actions)
        curves = {name: _typical(line, _action(facts, name)) for name in names}
        found[line.name] = {name: curve for name, curve in curves.items() if curve is not None and any(curve[1])}
    order = _largest_first(found.values())[:MOST_PARTS]
    panels = [
        Panel(line, tuple(Series(name, "", *curves[name]) for name in order if name in curves))
        for line, curves in found.items()
        if curves
    ]
    note = "In what share of its decisions each snapshot chose an action, or held a key, in the matches that are kept."
    return FigureGroup("actions", "Action shares", note, tuple(panels))


def _action(facts: Mapping[str, RunFacts], name: str) -> Callable[[str], Curve | None]:
    def curve(run: str) -> Curve | None:
        points = facts[run].actions.get(name, [])
        return [step for step, _ in points], [share for _, share in points], None, None

    return curve


def _behaviour(facts: Mapping[str, RunFacts], lines: Sequence[Line]) -> FigureGroup:
    names = sorted({name for x in facts.values() for name in x.metrics if name.startswith(BEHAVIOUR)})
    panels = [
        Panel(name.removeprefix(BEHAVIOUR).replace("_", " ") + " a match", _drawn(lines, _metric(facts, name)))
        for name in names
    ]
    endings = {line.name: _endings(facts, line) for line in lines[:MOST_STACKED]}
    panels += _stacks(endings, "how matches end, ")
    note = "Of the learner in training, mean a match."
    return FigureGroup("behaviour", "Behaviour", note, tuple(panels))


def _endings(facts: Mapping[str, RunFacts], line: Line) -> dict[str, Whole]:
    counts: defaultdict[str, defaultdict[float, float]] = defaultdict(lambda: defaultdict(float))
    for run in line.members:
        for step, reason, count in facts[run].endings:
            counts[reason.replace("_", " ")][step] += count
    steps = sorted({step for own in counts.values() for step in own})
    return {reason: (steps, [own.get(step, 0.0) for step in steps]) for reason, own in counts.items()}


def _seats(facts: Mapping[str, RunFacts], lines: Sequence[Line]) -> FigureGroup:
    runs = [run for line in lines for run in line.members if facts[run].seats]
    series = []
    for seat, name in enumerate(("first seat", "second seat")):
        own = [facts[run].seats.get(seat) for run in runs]
        score, lower, upper = ([getattr(x, key) if x else None for x in own] for key in ("score", "lower", "upper"))
        series.append(Series(name, "", runs, score, lower, upper))
    note = "The learner's score a game in training from either seat, with its 95 % interval."
    panel = Panel("score by seat", tuple(series), "bars", range=(0.0, 1.0), even=0.5)
    return FigureGroup("seats", "Seat balance", note, (panel,) if runs else ())
