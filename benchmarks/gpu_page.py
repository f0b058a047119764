"""The figures of `benchmarks.gpu` as a page of Markdown: the goals first, then each section."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Sections = dict[str, dict[str, Any]]
TEN_MILLION = 1e7
SPEEDS = ("rates", "frozen")
"""Sections whose goals mean nothing at toy sizes."""


@dataclass(frozen=True)
class Goal:
    """What is asked for, and where its figure is."""

    what: str
    wanted: str
    section: str
    find: Callable[[dict[str, Any]], tuple[str, bool]]
    """The figure in words, and whether it does. A KeyError says that it was not measured."""


def _flags(*names: str) -> Callable[[dict[str, Any]], tuple[str, bool]]:
    def find(figures: dict[str, Any]) -> tuple[str, bool]:
        found = {name: figures[name] for name in names}
        bad = [name.replace("_", " ") for name, is_so in found.items() if not is_so]
        return ("not so: " + ", ".join(bad) if bad else "yes"), not bad

    return find


def _train_seconds(name: str, most: float) -> Callable[[dict[str, Any]], tuple[str, bool]]:
    def find(figures: dict[str, Any]) -> tuple[str, bool]:
        rate = figures[name]["train_steps_per_second"]
        return f"{TEN_MILLION / rate:,.0f} s at {rate:,} steps/s", rate >= TEN_MILLION / most

    return find


def _frozen(precision: str) -> Callable[[dict[str, Any]], tuple[str, bool]]:
    def find(figures: dict[str, Any]) -> tuple[str, bool]:
        ratio = figures[f"2048_rows_{precision}"]["ratio_graph"]
        return f"{ratio:g} times", ratio <= 1.25

    return find


GOALS = (
    Goal("a tiny run", "finished", "build", _flags("tiny_run_is_finished")),
    Goal("learning replays what play did", "within 1e-5, float32 throughout", "replay", _flags("is_close")),
    Goal("frozen nets in one call are each alone", "within 1e-5", "stacked", _flags("is_close")),
    Goal(
        "two lanes",
        "the same again, in turn and resumed",
        "lanes",
        _flags("is_determined", "is_in_turn", "resumes_alike"),
    ),
    Goal("play as CUDA graphs", "plain calls, bit for bit", "graphs", _flags("play_is_plain_calls")),
    Goal(
        "minibatches as CUDA graphs, whole and in parts",
        "within 1e-5",
        "graphs",
        _flags("minibatch_is_close_1_parts", "minibatch_is_close_2_parts"),
    ),
    Goal(
        "a minibatch in parts",
        "the gradient of the whole, within 1e-4 of its largest",
        "accumulate",
        _flags("is_close_2_parts", "is_close_4_parts"),
    ),
    Goal(
        "a capture that fails", "harms nothing", "failed_capture", _flags("draws_go_on", "other_graphs_work_afterwards")
    ),
    Goal(
        "a run moves from CPU to GPU and back",
        "with all of its matches",
        "moving",
        _flags("to_cuda_keeps_its_matches", "to_cuda_learns_on", "to_cpu_keeps_its_matches", "to_cpu_learns_on"),
    ),
    *(
        Goal(
            f"`{preset}`, {precision}, 10 million steps",
            f"under {words}",
            "rates",
            _train_seconds(f"{preset}_{precision}", most),
        )
        for preset, words, most in (("beast", "180 s", 180.0), ("fast", "20 minutes", 1200.0))
        for precision in ("bf16", "float32")
    ),
    *(
        Goal(f"16 frozen nets, {precision}, 2,048 rows", "at most 1.25 times one", "frozen", _frozen(precision))
        for precision in ("bf16", "float32")
    ),
    Goal("memory over updates", "does not grow", "memory", _flags("does_not_grow")),
)


def page(found: dict[str, Any], words: Mapping[str, str]) -> str:
    """All of it. words: what each section is, in their order."""
    sections: Sections = found["sections"]
    lines = [
        f"# {found['device']}",
        "",
        f"torch {found['torch']}, Python {found['python']}, {found['cores']} cores"
        + (", at toy sizes: the figures mean nothing" if found["tiny"] else "")
        + ". Written by `python -m benchmarks.gpu`.",
        "",
        "## Goals",
        "",
        "| | wanted | found | |",
        "|---|---|---|---|",
        *(_goal(goal, sections, is_tiny=found["tiny"]) for goal in GOALS),
    ]
    for name, what in words.items():
        if name in sections:
            lines += ["", *_section(name, what, sections[name])]
    missing = [name for name in words if name not in sections]
    if missing:
        lines += ["", f"Not measured yet: `python -m benchmarks.gpu --only {' '.join(missing)} --out FOLDER`."]
    return "\n".join(line for line, before in zip(lines, ["", *lines], strict=False) if line or before) + "\n"


def _goal(goal: Goal, sections: Sections, *, is_tiny: bool) -> str:
    figures = sections.get(goal.section, {})
    try:
        value, is_reached = goal.find(figures)
        word = "toy sizes" if is_tiny and goal.section in SPEEDS else "reached" if is_reached else "**missed**"
        return f"| {goal.what} | {goal.wanted} | {value} | {word} |"
    except KeyError:
        why = figures.get("skipped") or ("it failed" if "failed" in figures else f"`--only {goal.section}`")
        return f"| {goal.what} | {goal.wanted} | | not measured: {why} |"


def _section(name: str, what: str, figures: dict[str, Any]) -> list[str]:
    """A heading, then tables of what has the same names, lists, and text of several lines in fences."""
    figures = dict(figures)
    took = f" ({figures.pop('section_seconds'):.0f} s.)" if "section_seconds" in figures else ""
    lines = [f"## {_words(name).capitalize()}", "", f"{' '.join(what.split())}{took}", ""]
    tables: dict[tuple[str, ...], dict[str, dict[str, Any]]] = {}
    plain = []
    for key, value in figures.items():
        if isinstance(value, dict) and value and not any(isinstance(x, dict | list) for x in value.values()):
            tables.setdefault(tuple(value), {})[key] = value
        elif isinstance(value, str) and "\n" in value:
            plain += ["", f"{_words(key)}:", "", "```", value.strip(), "```", ""]
        elif isinstance(value, list):
            plain += [f"- {_words(key)}:", *(f"  - {x}" for x in value)]
        else:
            plain.append(f"- {_words(key)}: {_value(value)}")
    for columns, rows in tables.items():
        lines += _table(columns, rows)
    return [*lines, *plain]


def _table(columns: Sequence[str], rows: dict[str, dict[str, Any]]) -> list[str]:
    """One line a row; where there are more columns than rows, one a column. What is the same in all is said once."""
    same = {c: _value(next(iter(rows.values()))[c]) for c in columns if len({str(x[c]) for x in rows.values()}) == 1}
    same = same if len(rows) > 1 else {}
    shown = [c for c in columns if c not in same]
    lines = [f"All: {', '.join(f'{_words(c)} {x}' for c, x in same.items())}.", ""] if same else []
    if not shown:
        return lines
    if len(shown) > len(rows):
        lines += ["| | " + " | ".join(map(_words, rows)) + " |", "|---" * (len(rows) + 1) + "|"]
        lines += [f"| {_words(c)} | " + " | ".join(_value(x[c]) for x in rows.values()) + " |" for c in shown]
    else:
        lines += ["| | " + " | ".join(map(_words, shown)) + " |", "|---" * (len(shown) + 1) + "|"]
        lines += [f"| {_words(name)} | " + " | ".join(_value(x[c]) for c in shown) + " |" for name, x in rows.items()]
    return [*lines, ""]


def _words(name: str) -> str:
    return name if "`" in name else name.replace("_", " ")


def _value(x: Any) -> str:
    if isinstance(x, bool):
        return "yes" if x else "**no**"
    if isinstance(x, int):
        return f"{x:,}"
    if isinstance(x, float):
        return f"{x:,.0f}" if abs(x) >= 1_000 else f"{x:.3g}"
    return str(x)
