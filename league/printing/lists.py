"""What a store has, as tables: runs, events, reward terms, imports, snapshots; and the figures of a bench."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from league.printing import print_json, show
from league.printing.tables import Cell, Column, Value, around, print_table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from league.arena.validation import Validation
    from league.commands.doctor import HealthCheck
    from league.config.reference import SettingDoc
    from league.envs.listing import ListedBot, ListedGame
    from league.sessions.retention import Holding
    from league.store.rows import EventRow, ImportRow, RewardTerm, RunRow

STATUS = {"died": "red", "failed": "red", "running": "green"}
"""Colours of a run's status."""
HEALTH = {"well": "green", "note": "yellow", "broken": "red"}
"""Colours of what `league doctor` found."""


def print_runs(
    found: Sequence[tuple[RunRow, str]],
    roles: Mapping[str, str],
    kept: Mapping[str, Sequence[int]],
    hosts: Mapping[str, str],
) -> None:
    """The runs of a store with their status.

    Args:
        found: the runs.
        roles: of a league's learners, by run, as the next two.
        kept: steps of kept states.
        hosts: the machines of the processes that train them.
    """
    columns = [Column("run"), Column("game", 2), Column("stage", 3), *[Column("role", 4)] * bool(roles)]
    columns += [
        Column("status"),
        *[Column("host", 4)] * bool(hosts),
        Column("steps", is_number=True),
        Column("seed", 5, is_number=True),
    ]
    has_parents = any(r.parent for r, _ in found)
    columns += [*[Column("from", 4)] * has_parents, Column("fingerprint", 7), Column("started (UTC)", 6)]
    columns += [Column("kept states", 8)] * (has_kept := any(kept.values()))
    rows: list[list[Value]] = []
    for r, status in found:
        role = [roles.get(r.run, "").replace("_", " ")] * bool(roles)
        state, mark = Cell((status,), STATUS.get(status, "")), r.fingerprint[:8]
        parent = [r.parent or ""] * has_parents
        back = [_span(kept[r.run])] * has_kept
        steps = f"{r.steps:,}"
        host = [hosts.get(r.run, "")] * bool(hosts)
        rows.append(
            [r.run, r.game, r.stage, *role, state, *host, steps, r.seed, *parent, mark, _when(r.started_at), *back]
        )
    print_table("", columns, rows)


def _span(steps: Sequence[int]) -> str:
    """How many, from the least to the most: `20,480 to 51,200 (3)`."""
    if len(steps) < 2:
        return "".join(f"{step:,}" for step in steps)
    return f"{min(steps):,} to {max(steps):,} ({len(steps)})"


def print_events(rows: Sequence[EventRow]) -> None:
    """What happened to runs, oldest first."""
    columns = (
        *("run", Column("at step", 1, is_number=True), Column("update", 3, is_number=True)),
        *(Column("when (UTC)", 2), "kind", Column("message", is_prose=True)),
    )
    print_table(
        "",
        columns,
        [
            (r.run, None if r.steps is None else f"{r.steps:,}", r.update, _when(r.happened_at), r.kind, r.message)
            for r in rows
        ],
    )


def print_rewards(run: str, terms: Sequence[RewardTerm]) -> None:
    """What each reward term brought a match."""
    total = sum(term.weighted for term in terms)
    columns = (
        *("term", Column("weight", 2, is_number=True), Column("mean", 3, is_number=True)),
        *(Column("weighted", is_number=True), Column("opponents' mean", 5, is_number=True)),
        Column("fired in", 4, is_number=True),
    )
    print_table(
        f"{run}: learner's mean of {terms[0].matches:,} training matches; weighted, {total:z.2f} in all",
        columns,
        [
            (
                *(t.term, f"{t.weight:g}", f"{t.own:z.2f}"),
                *(Cell((f"{t.weighted:z.2f}",), around(t.weighted, t.weighted)), f"{t.other:z.2f}", f"{t.fired:,}"),
            )
            for t in terms
        ],
    )


def print_imports(found: Sequence[ImportRow]) -> None:
    """The imported files, oldest first."""
    columns = ("import", "file", Column("games", is_number=True), Column("imported (UTC)", 1), Column("sha256", 2))
    rows = [(x.run, x.file, f"{x.matches:,}", _when(x.imported_at), x.sha256[:12]) for x in found]
    print_table("", columns, rows)


def print_holdings(title: str, found: Sequence[Holding], verb: str = "goes") -> None:
    """Snapshots with their size, their games and why each is kept, or `verb` where nothing keeps it."""

    def fate(holding: Holding) -> str:
        if not holding.has_files:
            return f"pruned on {holding.pruned_at:%Y-%m-%d}" if holding.pruned_at else "its files are missing"
        return f"kept: {', '.join(holding.reasons)}" if holding.reasons else verb

    columns = (
        *("snapshot", Column("is", 1), Column("agent", 4), Column("parent", 5)),
        *(Column("on disk", 2, is_number=True), Column("games", 3, is_number=True), Column("files", is_prose=True)),
    )
    print_table(
        title,
        columns,
        [
            (
                *(f"{x.run}@{x.step}", "best" if x.is_best else "", x.agent_id[:12], (x.parent or "")[:12]),
                *(show_size(x.num_bytes), f"{x.games:,}", fate(x)),
            )
            for x in found
        ],
    )


def print_games(found: Sequence[ListedGame]) -> None:
    """The games by name."""
    has_sources = any(x.source for x in found)
    columns: tuple[Column | str, ...] = (
        *("game", Column("actions", 1), Column("observation", 3, is_number=True), Column("bots", 2, is_number=True)),
        *(Column("anchor", 4), *[Column("from", 5)] * has_sources, Column("what it is", is_prose=True)),
    )
    rows = [
        (
            *(x.name, x.action.replace("_", " "), x.observation, len(x.bots), x.anchor and f"bot:{x.anchor}"),
            *([x.source] * has_sources),
            x.about,
        )
        for x in found
    ]
    print_table("", columns, rows)


def print_bots(found: Sequence[ListedBot]) -> None:
    """The bots of games; anchor: held at 1000, floor: who must be beaten."""
    kinds = {x.kind for x in found}
    columns: list[Column | str] = ["bot", Column("game", 1), *[Column("kind", 3)] * (len(kinds) > 1)]
    columns += [Column("role", 2), Column("what it does", is_prose=True)]
    rows = [(x.bot, x.game, *[x.kind] * (len(kinds) > 1), x.role, x.meaning) for x in found]
    print_table("", columns, rows)


def print_settings(found: Sequence[SettingDoc], values: Mapping[str, str]) -> None:
    """Settings of one section with their values, what they mean and what else they may be."""
    section = found[0].name.partition(".")[0]
    columns = ("setting", "value", Column("meaning", is_prose=True))
    rows = []
    for x in found:
        resumed = "; may change on resume" if x.is_changeable else ""
        rows.append((x.name.removeprefix(f"{section}."), values.get(x.name, ""), f"{x.meaning} [{x.allowed}{resumed}]"))
    print_table(f"[{section}]", columns, rows)


def print_findings(found: Sequence[HealthCheck]) -> None:
    """What `league doctor` found, and what to do about each."""
    _print_checks("", "what", [(x.health, HEALTH[x.health], x.about, x.found, x.next) for x in found])


def print_validation(found: Validation) -> None:
    """What a submission did, a row a rule, and the verdict."""
    words = {True: ("broken", HEALTH["broken"]), False: ("holds", HEALTH["well"])}
    checks = [(*words[bool(x.next)], x.rule, x.found, x.next) for x in found.checks]
    _print_checks(f"{found.submission}, {found.game}", "rule", checks)
    show(f"{found.submission} is {'fit to submit' if found.is_fit else 'not fit to submit'}")


def _print_checks(title: str, what: str, checks: Sequence[tuple[str, str, str, str, str]]) -> None:
    """Checks of (word, its colour, what was checked, what was found, what to do) each."""
    rows = [(Cell((word,), colour), name, f"{x}. Next: {do}" if do else x) for word, colour, name, x, do in checks]
    print_table(title, ("", what, Column("found", is_prose=True)), rows)


def show_size(num_bytes: int) -> str:
    """Bytes in MiB."""
    return f"{num_bytes / 2**20:,.2f} MiB"


def print_bench(figures: Mapping[str, Any], as_json: bool) -> None:
    """A bench's figures, one a line or as JSON."""
    if as_json:
        print_json(figures)
    else:
        print_table("", ("figure", Column("value", is_number=True)), list(figures.items()))


def _when(time: Any) -> str:
    return f"{time:%Y-%m-%d %H:%M}"
