"""The picture of a training: pure functions from what has been told to lines that fit a terminal's width and height."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rich.text import Text

from league.boards.readings import health, healthy
from league.errors import one_line
from league.printing.figures import FIGURES, LearnerFigures, Opponent
from league.printing.sampling import KINDS, Machine
from league.printing.tables import Cell, Column, IntervalCell, Line, Value, around, layout, line_width, score, wrapped

if TYPE_CHECKING:
    from league.training.run import Report

WIDE = 100
"""Columns from which there are two columns of sections."""
GUTTER = "   "
BARS = ("▁▂▃▄▅▆▇█", "_.-=+*#@")
BLOCKS = ("━", "#")
SHADES = {
    **{"game": "cyan", "play nets": "blue", "strict masks": "green"},
    **{"learning": "magenta", "evaluation": "yellow", "waiting": "dim"},
}
MOST_REWARDS = 8
RELATIVE = ("entropy", "value_loss")
"""Figures whose limits are shares of their history."""
ALARM, ALARM_LINES = "last alarm  ", 3


@dataclass
class Screen:
    """All that a picture is made of."""

    learners: dict[str, LearnerFigures] = field(default_factory=dict)
    shares: Mapping[str, float] = field(default_factory=dict)
    """Where the time goes, by kind."""
    now: str = ""
    """What is done at this moment."""
    progress: tuple[str, float, float, float] | None = None
    """Of that: name, done, total, steps a second."""
    machine: Machine = field(default_factory=Machine)
    seconds: float = 0.0
    """Since it began."""
    is_league: bool = False


def spark(values: Sequence[float], width: int, plain: bool, span: tuple[float, float] | None = None) -> str:
    """A curve of the newest values, a letter each; `span`: what its lowest and highest bars stand for."""
    shown = list(values)[-width:]
    if not shown:
        return ""
    low, high = span or (min(shown), max(shown))
    bars = BARS[plain]
    top = len(bars) - 1
    return "".join(bars[round(top * min(max((x - low) / ((high - low) or 1.0), 0.0), 1.0))] for x in shown)


def clock(seconds: float) -> str:
    """Hours, minutes and seconds as a clock shows them."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def picture(view: Screen, width: int, height: int, plain: bool = False) -> list[Text]:
    """The lines of a dashboard, none wider than `width`, at most `height` of them; sections that matter less go first.

    Args:
        view: what is known.
        width, height: of the terminal.
        plain: whether it has ASCII letters alone.
    """
    told = [learner for learner in view.learners.values() if learner.report is not None]
    head = [*_head(view, told, width, plain), *_machine(view, width, plain)]
    focus = max(told, key=lambda x: x.report.steps if x.report else 0) if len(told) == 1 else None
    sections: list[list[Line]] = []
    wide = width >= WIDE and focus is not None
    column = (width - len(GUTTER)) // 2 if wide else width
    if view.is_league:
        sections.append(_league(view, width, plain))
    elif focus is not None:
        sections.append(_opponents(focus, column, plain))
        sections.append(_figures(focus, column, plain))
        sections.append(_rewards(focus, column, plain))
    alarms = [(learner.name, learner.alarm) for learner in view.learners.values() if learner.alarm]
    foot: list[Line] = []
    if alarms:
        name, words = alarms[-1]
        words = f"{name}: {words}" if view.is_league else words
        first, *more = wrapped(words, max(width - len(ALARM), 1))[:ALARM_LINES]
        foot = [[], [(ALARM, "bold"), (first, "red")], *([(" " * len(ALARM) + line, "red")] for line in more)]
    sections = [section for section in sections if section]
    room = height - len(head) - len(foot)
    body = _beside(sections, column, room) if wide else _below(sections, room)
    lines = [*head, *body, *foot]
    return [_fit(line, width) for line in lines[: max(height, 1)]]


def _head(view: Screen, told: Sequence[LearnerFigures], width: int, plain: bool) -> list[Line]:
    if not told:
        return [[("starting", "bold"), (f"  {clock(view.seconds)} elapsed  {_doing(view)}", "")]]
    reports = [learner.report for learner in told if learner.report is not None]
    expected = len(view.learners) if view.is_league else len(reports)
    done = sum(min(report.steps, report.total_steps) for report in reports)
    total = sum(report.total_steps for report in reports) * expected // len(reports)
    made = sum(x.report.steps - (x.first_steps or 0) for x in told if x.report is not None)
    rate = made / view.seconds if view.is_league and view.seconds else reports[-1].steps_per_second
    left = (total - done) / rate if view.is_league and rate else reports[-1].seconds_left
    name = told[0].name.rpartition(".")[0] or told[0].name if view.is_league else told[0].name
    share = done / total if total else 0.0
    texts = f"{done:,} of {total:,} steps", f"{rate:,.0f} steps/s"
    times = f"{clock(view.seconds)} elapsed, {clock(left)} left"
    first: Line = [(name, "bold"), (f"  {share:.0%}  ", "bold green")]
    rest = f"  {texts[0]}"
    bar = min(40, width - line_width(first) - len(rest))
    if bar >= 5:
        filled = round(bar * share)
        block = BLOCKS[plain]
        first += [(block * filled, "green"), ((("-" if plain else block) * (bar - filled)), "dim")]
    first.append((rest, ""))
    doing = _doing(view)
    second = f"{texts[1]}  {times}"
    if doing and width >= len(second) + len(doing) + 7:
        second += f"  now: {doing}"
    return [first, [(second, "")]]


def _doing(view: Screen) -> str:
    """What is done at this moment, and how far it is where that is counted."""
    if view.progress is None:
        return view.now
    name, done, total, rate = view.progress
    speed = f", {rate:,.0f} steps/s" if rate else ""
    return f"{'evaluation' if name in ('games', 'matches') else view.now}, {done:,.0f} of {total:,.0f} {name}{speed}"


def _machine(view: Screen, width: int, plain: bool) -> list[Line]:
    machine = view.machine
    spent: Line = [("time goes to  ", "bold")]
    for kind in KINDS:
        share = view.shares.get(kind, 0.0)
        piece: Line = [(f"{kind} {share:.0%}", SHADES[kind]), ("  ", "")]
        if share >= 0.005 and line_width([*spent, *piece]) <= width + 2:
            spent += piece
    lines = [spent] if view.shares else []
    if machine.cores:
        cores = machine.num_cores
        line: Line = [("processor  ", "bold"), (f"{machine.cores[-1]:.1f} of {cores} cores ", "")]
        line.append((spark(machine.cores, 20 if width >= 80 else 10, plain, (0.0, float(cores))), "cyan"))
        line += [("  memory ", "bold"), (f"{machine.memory / 2**30:.2f} GiB", "")]
        lines.append(line)
    if machine.gpu:
        used, total = machine.gpu_memory
        line = [("GPU  ", "bold"), (f"{machine.gpu[-1]:.0%} ", "")]
        line.append((spark(machine.gpu, 20 if width >= 80 else 10, plain, (0.0, 1.0)), "cyan"))
        line += [("  memory ", "bold"), (f"{used / 2**30:.1f} of {total / 2**30:.1f} GiB", "")]
        lines.append(line)
    return lines


def _opponents(learner: LearnerFigures, width: int, plain: bool) -> list[Line]:
    """The learner's rating, and a row an opponent: its score in training and in the last evaluation, and its rating."""
    title: Line = [("opponents", "bold")]
    if learner.ratings:
        rating, lower, upper = learner.ratings[-1]
        sign = "+-" if plain else "±"
        title += [("   own rating ", ""), (f"{rating:.0f} {sign}{max(upper - rating, rating - lower):.0f} ", "bold")]
        title.append((spark([point[0] for point in learner.ratings], 16, plain), "cyan"))
    columns = [
        *(Column("against"), Column("won", is_number=True), Column("training", 1)),
        *(Column("score %", is_number=True), Column("evaluations", 3), Column("rating", 2, is_number=True)),
    ]
    rows: list[list[Value]] = []
    order = sorted(learner.opponents.items(), key=lambda item: (not item[1].training, item[0]))
    for name, found in order:
        rows.append([name.removeprefix("bot:"), *_against(found, plain)])
    if not rows:
        return []
    return [title, *layout(columns, rows, width, plain)]


def _against(found: Opponent, plain: bool) -> list[Value]:
    won: Value = None
    if found.training:
        rate = found.training[-1]
        won = Cell((f"{rate:.0%}",), around(rate - 0.05, rate + 0.05, 0.5))
    s = found.evaluation
    tested = None if s is None else score(s.score, s.lower, s.upper)
    if isinstance(tested, IntervalCell):
        tested = IntervalCell(100 * tested.value, 100 * tested.lower, 100 * tested.upper, 0, style=tested.style)
    curves = spark(found.training, 12, plain, (0.0, 1.0)), spark(found.scores, 12, plain, (0.0, 1.0))
    rating = None if found.rating is None else IntervalCell(*found.rating)
    return [won, Cell((curves[0],), "cyan"), tested, Cell((curves[1],), "cyan"), rating]


def _figures(learner: LearnerFigures, width: int, plain: bool) -> list[Line]:
    """The losses and what belongs to them, coloured by the limits of `league.boards.readings`."""
    columns = [Column("learning"), Column("", is_number=True), Column("history"), Column("healthy", 1)]
    rows: list[list[Value]] = []
    for metric, name in FIGURES.items():
        history = learner.figures.get(metric)
        if not history:
            continue
        unit = learner.units.get(metric, 1.0)
        limits = None if metric in RELATIVE else healthy(metric, history, unit)
        range_ = "" if limits is None else f"{limits[0]:g} to {limits[1]:.3g}"
        curve = Cell((spark(history, 20, plain),), "cyan")
        rows.append([name, Cell((f"{history[-1]:.3g}",), health(metric, history, unit)), curve, range_])
    return layout(columns, rows, width, plain) if rows else []


def _rewards(learner: LearnerFigures, width: int, plain: bool) -> list[Line]:
    """What the weighted terms bring a match, the one that weighs most first."""
    report = learner.report
    terms = [term for term in report.rewards if term.weight] if report is not None else []
    if not terms:
        return []
    total, shown = sum(term.weighted for term in terms), terms[:MOST_REWARDS]
    columns = [
        Column("reward a match"),
        Column(f"{total:+z.2f}", is_number=True),
        Column("fired in", 1, is_number=True),
    ]
    rows: list[list[Value]] = [
        [t.term, Cell((f"{t.weighted:+z.2f}",), around(t.weighted, t.weighted)), f"{t.fired} of {t.matches}"]
        for t in shown
    ]
    return layout(columns, rows, width, plain)


def _league(view: Screen, width: int, plain: bool) -> list[Line]:
    """A row a learner."""
    columns = [
        *(Column("learner"), Column("done", is_number=True), Column("steps", 3, is_number=True)),
        *(Column("steps/s", 2, is_number=True), Column("won", 0, is_number=True), Column("training", 1)),
        *(Column("rating", 1, is_number=True), Column("entropy", 4, is_number=True), Column("KL", 4, is_number=True)),
    ]
    rows = [_row(learner, plain) for learner in view.learners.values()]
    return layout(columns, rows, width, plain)


def _row(learner: LearnerFigures, plain: bool) -> list[Value]:
    name, report = learner.name.rpartition(".")[2], learner.report
    if report is None:
        return [name, "waits", *[None] * 7]
    rates = list(report.win_rates.values())
    mean = sum(rates) / len(rates) if rates else None
    won = None if mean is None else Cell((f"{mean:.0%}",), around(mean - 0.05, mean + 0.05, 0.5))
    histories = [list(found.training) for found in learner.opponents.values() if found.training]
    shortest = min(map(len, histories), default=0)
    means = [sum(h[len(h) - shortest + i] for h in histories) / len(histories) for i in range(shortest)]
    rating = IntervalCell(*learner.ratings[-1]) if learner.ratings else None
    return [
        *(name, f"{min(1.0, report.steps / report.total_steps):.0%}", f"{report.steps:,}"),
        *(f"{report.steps_per_second:,.0f}", won, Cell((spark(means, 12, plain, (0.0, 1.0)),), "cyan"), rating),
        *(_figure(learner, report, "entropy", ".2f"), _figure(learner, report, "approx_kl", ".4f")),
    ]


def _figure(learner: LearnerFigures, report: Report, metric: str, form: str) -> Cell:
    if metric not in report.metrics:
        return Cell(("",))
    return Cell(
        (f"{report.metrics[metric]:{form}}",), health(metric, learner.figures[metric], learner.units.get(metric, 1.0))
    )


def _below(sections: Iterable[list[Line]], room: int) -> list[Line]:
    """Sections one below the other, each after a blank line, as far as there is room; the last ones go first."""
    lines: list[Line] = []
    for section in sections:
        left = room - len(lines) - 1
        if left < 2:
            break
        lines += [[], *section[:left]]
    return lines


def _beside(sections: Sequence[list[Line]], column: int, room: int) -> list[Line]:
    """The first section to the left, the others to the right."""
    left, right = _below(sections[:1], room), _below(sections[1:], room)
    lines: list[Line] = []
    for i in range(max(len(left), len(right))):
        line = list(left[i]) if i < len(left) else []
        line.append((" " * (column - line_width(line)) + GUTTER, ""))
        lines.append(line + (right[i] if i < len(right) else []))
    return lines


def _fit(line: Line, width: int) -> Text:
    """As much of a line as there is room for, without the spaces at its end."""
    shown = Text.assemble(*((one_line(text), style) for text, style in line))
    shown.truncate(width)
    shown.rstrip()
    return shown
