"""The panel Manage: what the store holds, what comes in, what goes out, what is deleted."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import league.commands.completion as completion
from league.commands.options import Output, RunOption, argument, flag, group, option, subcommand
from league.printing import print_json, show

PANEL = "Manage"
snapshots_app = group(PANEL, "snapshots", "List the snapshots of the runs, and delete files of old ones.")
imports_app = group(PANEL, "imports", "List the imported files of matches, and take one back.")


@subcommand(PANEL)
def runs(output: Output) -> None:
    """List the runs of the store with their status (`died`: the process was killed) and kept states.

    `league resume RUN --at STEP` goes back to a kept state.
    """
    from league.printing.lists import print_runs
    from league.sessions.folders import kept_states
    from league.store.locks import LOCK, holder, this_host

    opened = output.open()
    found = opened.runs_with_status()
    roles = {row.run: row.role for row in opened.learners()}
    hosts = {row.run: holder(opened.path / row.run / LOCK) for row, _ in found}
    kept = {row.run: list(kept_states(opened, row.run)) for row, _ in found}
    listed = [
        {
            **{**asdict(r), "status": status, "config": json.loads(r.config), "role": roles.get(r.run)},
            **{"host": hosts[r.run], "kept_states": kept[r.run]},
        }
        for r, status in found
    ]
    others = hosts if set(hosts.values()) - {"", this_host()} else {}
    output.answer({"runs": listed}, lambda: print_runs(found, roles, kept, others), "" if found else "no runs yet")


@subcommand(PANEL)
def stop(
    output: Output,
    run: Annotated[str, argument("RUN", "A run, league or exploiter.", offers=completion.runs)],
) -> None:
    """Ask the process that trains a run, in another shell or on another machine, to stop after its update, saved."""
    from league.sessions.folders import ask_to_stop

    asked = ask_to_stop(output.open(), run)
    told = f"asked {', '.join(asked)} to stop after this update; `league resume {run}` goes on"
    output.answer({"asked": asked}, lambda: show(told))


@subcommand(PANEL)
def export(
    output: Output,
    agent: Annotated[
        str, argument("AGENT", "RUN, RUN@STEP, RUN@best, RUN@stopped or a folder.", offers=completion.agents)
    ],
    out: Annotated[Path, argument("OUT", "A new folder; of a submission it may be a file, NAME.zip.")],
    format: Annotated[
        str,
        option(
            "FORMAT",
            "folder (safetensors and JSON), onnx, torch (torch.export), submission, which plays without torch, or"
            " page, on which you play it in a browser.",
            offers=completion.words("folder", "onnx", "torch", "submission", "page"),
        ),
    ] = "folder",
    quantize: Annotated[
        str | None, option("int8|bf16", "Weights of agent.onnx in 8 or 16 bits; prints the error.")
    ] = None,
) -> None:
    """Export an agent: as weights, as ONNX, as a torch program, as a submission to a contest, or as a page."""
    from league.arena.agents import export

    manifest = export(
        agent,
        out,
        format=format,  # type: ignore[arg-type]  # export refuses other words
        quantize=quantize,  # type: ignore[arg-type]
        store=output.store,
        say=output.say,
    )
    found = {"path": str(out), "agent_id": manifest.agent_id, "run": manifest.run, "step": manifest.step}
    output.answer(found, lambda: show(f"{manifest.run}@{manifest.step} ({manifest.agent_id[:12]}) is in {out}"))


@subcommand(PANEL, "import")
def import_matches(
    output: Output,
    file: Annotated[Path, argument("FILE", "Matches: .jsonl, .csv or .pgn.")],
    game: Annotated[
        str | None, option("GAME", "The game of matches that do not name theirs.", offers=completion.games)
    ] = None,
    game_id: Annotated[str | None, option("ID", "The same as a game id, which may be new to the store.")] = None,
    run: Annotated[str | None, option("NAME", "Name of the import; import-N if not given.")] = None,
    replace: Annotated[bool, flag("--replace", "Replace the earlier imports that this file continues.")] = False,
    as_new: Annotated[bool, flag("--as-new", "These are new games, even if they look like earlier ones.")] = False,
    strict: Annotated[bool, flag("--strict", "Refuse a PGN file with a bad game, which else is left out.")] = False,
) -> None:
    """Import matches played elsewhere; they count for the leaderboard."""
    from league.printing.answers import print_import
    from league.printing.bars import Bar
    from league.store.exchange import import_matches

    with Bar(output.quiet) as bar:
        done = import_matches(
            file,
            game=game,
            game_id=game_id,
            run=run,
            replace=replace,
            as_new=as_new,
            strict=strict,
            store=output.store,
            say=bar.say,
        )
    output.answer(done, lambda: print_import(done, output.store))


@subcommand(PANEL)
def matches(
    output: Output,
    file: Annotated[Path, argument("FILE", "A new file: .jsonl, .csv or .pgn.")],
    run: Annotated[
        str | None, option("RUN", "Only those of this run, evaluation, gate or import.", offers=completion.runs)
    ] = None,
    kind: Annotated[
        str,
        option(
            "KIND",
            "evaluation or training; `league import` takes evaluation only.",
            offers=completion.words("evaluation", "training"),
        ),
    ] = "evaluation",
    game_id: Annotated[str | None, option("ID", "Only this game's.")] = None,
    names: Annotated[bool, flag("--names", "Write agents by name instead of by id.")] = False,
) -> None:
    """Write matches to a file that other tools, and `league import`, read."""
    from league.store.exchange import export_matches

    written = export_matches(
        file,
        run=run,
        kind=kind,  # type: ignore[arg-type]  # export_matches refuses other words
        game_id=game_id,
        names=names,
        store=output.store,
        say=output.say,
    )
    output.answer({"file": str(file), "matches": written}, lambda: show(f"{written:,} matches are in {file}"))


@subcommand(PANEL, "list", group=imports_app)
def imports_list(output: Output) -> None:
    """List the imported files of matches, the oldest first."""
    from league.printing.lists import print_imports
    from league.store.exchange import imports

    found = imports(store=output.store, say=output.say)
    output.answer({"imports": found}, lambda: print_imports(found), "" if found else "no imports yet")


@subcommand(PANEL, "remove", group=imports_app)
def imports_remove(
    output: Output,
    run: Annotated[str, argument("NAME", "As `league imports list` has it.")],
) -> None:
    """Take an import back: its games, and the agents that nobody else has met; ratings are those without it."""
    from league.store.exchange import remove_import

    gone = remove_import(run, store=output.store, say=output.say)
    output.answer(gone, lambda: show(f"removed: {gone.run} with its {gone.matches:,} games of {gone.file}"))


@subcommand(PANEL, "list", group=snapshots_app)
def snapshots_list(output: Output, run: RunOption = None) -> None:
    """List snapshots: size on disk, parent, games, and why pruning would keep them."""
    from league.printing.lists import print_holdings
    from league.sessions.retention import DEFAULT_KEEP, holdings

    found = holdings(output.open(), run)
    title = f"snapshots; what `league snapshots prune --keep {DEFAULT_KEEP}` does"
    output.answer({"snapshots": found}, lambda: print_holdings(title, found), "" if found else "no snapshots yet")


@subcommand(PANEL, "prune", group=snapshots_app)
def snapshots_prune(
    output: Output,
    run: Annotated[str | None, argument("[RUN]", "Only this run's; else every run's.", offers=completion.runs)] = None,
    keep: Annotated[int | None, option("N", "How many of a run's newest are kept; 20 if not given.")] = None,
    is_dry: Annotated[bool, flag("--dry-run", "Print what would be deleted; change nothing.")] = False,
) -> None:
    """Delete files of old snapshots, never of a run that can go on; rows, matches and ratings are kept."""
    from league.printing.lists import print_holdings, show_size
    from league.sessions.retention import DEFAULT_KEEP, prune

    prunings = prune(output.open(), run, DEFAULT_KEEP if keep is None else keep, is_dry=is_dry)
    verb = "would be pruned" if is_dry else "pruned"
    for p in prunings:
        output.say(f"{p.run}: {len(p.goes)} {verb} ({show_size(p.num_bytes)}), {len(p.stays)} kept")
    if not any(p.goes for p in prunings):
        output.say("nothing to prune")
    if output.as_json:
        print_json({"runs": [{**asdict(p), "num_bytes": p.num_bytes} for p in prunings]})
        return
    for p in prunings:
        print_holdings(f"{p.run}, --keep {p.keep}", sorted([*p.goes, *p.stays], key=lambda x: x.step), verb)
