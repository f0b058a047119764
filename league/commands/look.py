"""The panel Look: matches on a screen or in a file, and what the store says of them."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

import league.commands.completion as completion
from league.commands.options import (
    AGENT_WORDS,
    AgainOption,
    Output,
    Play,
    SeedOption,
    argument,
    count_option,
    flag,
    option,
    subcommand,
)
from league.errors import UsageError, next_step, unused
from league.printing import print_json, put

PANEL = "Look"
BUNDLED = Path(__file__).parents[1] / "arena" / "bundled"
"""Exports of two small agents, made as bundled/README.md says."""
DEMO_SECONDS = 10.0


@subcommand(PANEL)
def watch(
    output: Output,
    play: Play,
    agent: Annotated[str, argument("A", f"{AGENT_WORDS} Or a replay.", offers=completion.agents)],
    b: Annotated[str | None, argument("[B]", "The same; seat 1. None with a replay.", offers=completion.agents)] = None,
    against: Annotated[str | None, typer.Option(metavar="B", help="The same as B.", hidden=True)] = None,
    out: Annotated[
        Path | None,
        option("FILE", "A new file: .html a page, .mp4, .gif, .png its last frame, .replay the match itself."),
    ] = None,
    seconds: Annotated[
        float | None, option("X", "Seconds of the match to draw, at most 300; all if not given.")
    ] = None,
    start: Annotated[float, option("X", "Seconds of the match that are left out before that.")] = 0.0,
    boxes: Annotated[bool, flag("--boxes", "Also draw hit boxes and hurt boxes.")] = False,
    kept: Annotated[bool, flag("--kept", "Their newest match that the store keeps; play none.")] = False,
    seed: SeedOption = 0,
) -> None:
    """Play A against B once, or play a replay back, and draw it."""
    from league.arena.watching import watch
    from league.printing.answers import print_film

    unused(f"B is {b}", against=b and against)
    shot = watch(
        agent,
        b if against is None else against,
        out,
        seconds=seconds,
        start=start,
        boxes=boxes,
        seed=seed,
        kept=kept,
        **play.as_keywords(),
        store=output.store,
        say=output.say,
    )
    output.answer(shot, lambda: print_film(shot))


@subcommand(PANEL)
def demo(
    output: Output,
    out: Annotated[Path | None, option("FILE", "As of `league watch`; the terminal if not given.")] = None,
) -> None:
    """Watch ten seconds of brawl between two agents that come with league: one million steps against 50,000."""
    from league.arena.watching import watch
    from league.printing.answers import print_film

    strong, weak = (str(BUNDLED / name) for name in ("strong", "weak"))
    shot = watch(strong, weak, out, seconds=DEMO_SECONDS, store=output.store, say=output.say)
    output.answer(shot, lambda: print_film(shot))
    for words in (["train", "--agent", "small", "--run", "mine"], ["leaderboard"], ["report", "mine"]):
        output.say(next_step(*words, store=output.store))


@subcommand(PANEL, "play")
def play_by_hand(
    output: Output,
    play: Play,
    agent: Annotated[str, argument("AGENT", AGENT_WORDS, offers=completion.agents)],
    seat: Annotated[int, option("SEAT", "Your seat, 0 or 1.")] = 0,
    name: Annotated[str, option("NAME", "What you are called on the leaderboard.")] = "person",
    port: Annotated[int, option("PORT", "Of the page; a free one if not given.")] = 0,
    out: Annotated[Path | None, option("FILE", "A new file, .replay, for the match.")] = None,
    seed: Annotated[int | None, option("N", "Random seed of the match; drawn if not given.")] = None,
) -> None:
    """Play against an agent yourself, on a page of this machine in the browser; the match is stored as an import."""
    from league.arena import browser
    from league.printing import say
    from league.printing.answers import print_ended

    ended = browser.play(
        agent,
        seat=seat,
        name=name,
        port=port,
        out=out,
        seed=seed,
        **play.as_keywords(),
        store=output.store,
        say=say,
    )
    if ended is None:
        output.answer({}, lambda: None, "broken off before its end; nothing is stored")
    else:
        output.answer(ended, lambda: print_ended(ended))


@subcommand(PANEL)
def replay(
    output: Output,
    file: Annotated[
        Path, argument("FILE", "A .replay, or a file of RUN/failures, written when a guard stopped a run.")
    ],
    out: Annotated[
        Path | None, option("FILE", "A new file: .png draws the match there, .gif also the step before.")
    ] = None,
    env: AgainOption = None,
) -> None:
    """Play a replay back, bit for bit; or rebuild a match with wrong masks, observations or actions."""
    from league.printing.answers import print_played, print_replay
    from league.sessions.failures import ReplayedFailure, replay

    result = replay(file, out, env=env, say=output.say)
    output.answer(result, lambda: print_replay(result) if isinstance(result, ReplayedFailure) else print_played(result))
    if out is not None:
        output.say(f"{out}: drawn")


@subcommand(PANEL)
def rewards(
    output: Output,
    run: Annotated[str, argument("RUN", "A run; it may be training.", offers=completion.runs)],
    last: Annotated[int | None, count_option("--last", "Only the newest N training matches; all if not given.")] = None,
) -> None:
    """Show each reward term's mean per match, and in how many matches it was not 0."""
    from league.printing.lists import print_rewards

    opened = output.open()
    opened.find_run(run)
    terms = opened.reward_terms(run, last)
    nothing = "" if terms else f"{run}: no training match is finished yet"
    weighed = [{**asdict(term), "weighted": term.weighted} for term in terms]
    output.answer({"terms": weighed}, lambda: print_rewards(run, terms), nothing)


@subcommand(PANEL)
def report(
    output: Output,
    runs: Annotated[
        list[str] | None,
        argument("[RUN]...", "Runs, or a league for its learners; else the newest.", offers=completion.runs),
    ] = None,
    out: Annotated[Path, option("FILE", "A new file.")] = Path("report.html"),
    matches: Annotated[int | None, option("N", "How many kept matches it can play; 12 if not given.")] = None,
) -> None:
    """Write one page about runs, for a browser: ratings, scores, losses, payoffs, matches, alarms, settings."""
    from league.faces.report import MATCHES, report
    from league.printing.answers import print_report
    from league.printing.bars import Bar

    with Bar(output.quiet) as bar:
        done = report(runs or (), out, matches=MATCHES if matches is None else matches, store=output.store, say=bar.say)
    output.answer(done, lambda: print_report(done))


@subcommand(PANEL)
def serve(
    output: Output,
    port: Annotated[int | None, option("PORT", "Of the page, 8700 if not given; 0: a free one.")] = None,
) -> None:
    """Show the store live in a browser, on 127.0.0.1, while training runs; writes nothing. Ctrl+C ends it."""
    from league.faces.live import PORT, serve

    def begun(address: str) -> None:
        if output.as_json:
            print_json({"address": address, "store": str(output.store)})
        else:
            output.say(f"open {address} in a browser; Ctrl+C ends it")

    serve(port=PORT if port is None else port, store=output.store, say=output.say, begun=begun)


@subcommand(PANEL)
def query(
    output: Output,
    sql: Annotated[
        str,
        argument(
            "SQL",
            "One SELECT. Tables: run, agent, snapshot, match, replay, rating, metric, event, gate, import, learner.",
        ),
    ],
    format: Annotated[
        str,
        option(
            "FORMAT",
            "table, csv, jsonl or md; a table that is too wide is a block a record.",
            offers=completion.words("table", "csv", "jsonl", "md"),
        ),
    ] = "table",
) -> None:
    """Run one read-only SQL query on the store."""
    from league.printing.queries import check_format
    from league.printing.tables import is_ascii, table_width
    from league.store.child import run_child

    if output.as_json and format != "table":
        raise UsageError(f"--format {format}: --json is a document of its own; pass only one of the two")
    is_terminal = sys.stdout is not None and sys.stdout.isatty()
    shown = {"width": table_width(), "is_plain": is_ascii(), "is_terminal": is_terminal}
    run_child(
        "from league.commands.look import answer; answer()",
        {
            **{"sql": sql, "store": str(output.store), "as_json": output.as_json},
            "shown": {"format": check_format(format), **shown},
        },
        write=put,
        say=output.say,
    )


def answer() -> None:
    """The process of its own in which `league query` asks and prints."""
    from league.store.child import answering

    with answering() as (request, tell, begin):
        from league.printing.queries import print_rows
        from league.store.store import Store

        store = Store.open(Path(request["store"]), tell)
        with store.reading():
            begin()
            columns, rows = store.query(request["sql"])
        tell(f"{len(rows):,} rows")
        if request["as_json"]:
            print_json({"columns": columns, "rows": rows})
        else:
            print_rows(columns=columns, rows=rows, **request["shown"])
