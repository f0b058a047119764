"""The panel Diagnose: whether a game, a run and this machine are well, and how fast they are."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import league.commands.completion as completion
from league.commands.options import (
    AgentOption,
    BotOption,
    DeviceOption,
    GameOption,
    JsonOption,
    Output,
    PolicyOption,
    PresetOption,
    QuietOption,
    RunArgument,
    SamplerOption,
    SetOption,
    argument,
    count_option,
    flag,
    group,
    option,
    subcommand,
)
from league.printing import print_json, put, show

PANEL = "Diagnose"
BOT_MATCHES, BOT_STEPS = 40, 12_000
"""Of `check`: matches of each bot, fewer where matches are so long that they had more steps together."""
bench_app = group(PANEL, "bench", "Measure how fast the parts are; one JSON object each.")


@subcommand(PANEL)
def doctor(output: Output) -> None:
    """Look at versions, compiled parts, threads, CUDA, memory, disk and store; say what to do about each.

    Exit code 1 where something is broken.
    """
    from league.commands.doctor import examine
    from league.printing.lists import print_findings

    found = examine(output.store)
    output.answer({"findings": found}, lambda: print_findings(found))
    if any(finding.health == "broken" for finding in found):
        raise typer.Exit(1)


@subcommand(PANEL)
def selftest(
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Compute known answers with fixed seeds, for about a minute: games, networks, kernels, learning, ratings.

    Exit code 1 if one is wrong. Results that differ in the last bits on another kind of machine are no failure.
    """
    from league.commands.selftest import checks
    from league.printing import say

    made = []
    for one in checks():
        made.append(one)
        line = f"{one.outcome:10}  {one.name:10}  {one.told} ({one.seconds:.1f} s)"
        say(line, quiet) if as_json else show(line)
    failed = [one.name for one in made if one.outcome == "failed"]
    if as_json:
        print_json({"checks": made, "is_well": not failed})
    elif failed:
        show(f"failed: {', '.join(failed)}; run `league doctor`, and report these lines")
    else:
        show("all is well" if all(one.outcome == "passed" for one in made) else "all numbers are right")
    if failed:
        raise typer.Exit(1)


@subcommand(PANEL)
def validate(
    output: Output,
    submission: Annotated[Path, argument("PATH", "A folder or zip with an agent.py or a main.py.")],
    env: GameOption = None,
    matches: Annotated[int, count_option("--matches", "Matches against random play, an even number.")] = 20,
    time_limit: Annotated[float, option("MS", "Milliseconds of a decision.")] = 50.0,
    memory: Annotated[int, option("MIB", "Memory of a process.")] = 1024,
    seed: Annotated[int, option("N", "Random seed of the matches.")] = 0,
    trust: Annotated[bool, flag("--trust", "Run its code where this machine cannot isolate it.")] = False,
) -> None:
    """Play a submission as a referee would, shut in without network, programs and changes of files; say what is wrong.

    Exit code 1 if a rule is broken.
    """
    from league.arena.validation import validate
    from league.printing.lists import print_validation

    found = validate(
        submission,
        env=env,
        matches=matches,
        time_limit=time_limit / 1e3,
        memory=memory,
        seed=seed,
        trust=trust,
        say=output.say,
    )
    output.answer(found, lambda: print_validation(found))
    if not found.is_fit:
        raise typer.Exit(1)


@subcommand(PANEL)
def check(
    output: Output,
    game: Annotated[
        str, argument("GAME", "The game: a name such as brawl, or an address such as game.py.", offers=completion.games)
    ],
    overrides: SetOption = None,
    bot: BotOption = None,
    sampler: SamplerOption = None,
    policy: PolicyOption = None,
    seed: Annotated[int, option("N", "Random seed of the matches and actions.")] = 1,
) -> None:
    """Hold a game to what training takes for granted: play it in every way, and name the first rule that it breaks.

    Then hold your own parts to it, too, in this game.
    """
    from league.arena.games import enter, load_settings
    from league.config.updates import check_rewards
    from league.envs import registry
    from league.printing.bars import Bar
    from league.printing.layouts import layout_lines
    from league.testing import check_bot, check_game, check_parts

    with Bar(output.quiet) as bar:
        name = enter(game, bar.say)
        settings = load_settings(env=name, overrides=overrides or ())[0]
        options = settings.env.options
        check_rewards(settings, registry.spec(settings.env.name, options))
        found = check_game(name, options, seed=seed, say=bar.say)
        assert name is not None and found is not None, "a game is named, and a deep check says what it found"
        carried = registry.carried_bots(name)
        matches = max(4, min(BOT_MATCHES, BOT_STEPS // found.longest))
        for title, own in {**{native: native for native in found.spec.bots}, **carried}.items():
            bar.say(f"{name} keeps the contract; now bot {title}")
            check_bot(name, own, options, matches=matches, seed=seed)
        checked = check_parts(name, bot, sampler, policy, overrides=overrides or (), seed=seed)
    if output.as_json:
        print_json(found)
        return
    bots = ", ".join((*found.spec.bots, *carried)) or "none"
    compared = f" of which {found.compared:,} were compared," if found.compared < found.steps else ""
    runs = f"in runs of {found.steps:,} steps,{compared} with matches of up to {found.longest:,}"
    show(f"{name}: keeps the contract, {runs}")
    show(f"bots that play one match from one seed, in both seats: {bots}")
    for line in layout_lines(found.spec, found.layout):
        show(line)
    if found.drawings:
        show(f"drawn {found.drawings} times")
    for part in checked:
        show(f"{part}: keeps the contract")


@subcommand(PANEL)
def alarms(output: Output, run: RunArgument = None) -> None:
    """Look for forgetting, cycling, passivity and unequal seats; each alarm names the query that shows it."""
    from league.boards.alarms import alarms
    from league.printing.answers import print_alarms

    findings = alarms(output.open(), run)
    output.answer({"alarms": findings}, lambda: print_alarms(findings), "" if findings else "no runs yet")


@subcommand(PANEL)
def events(output: Output, run: RunArgument = None) -> None:
    """List alarms, damage, what stopped a run, and changes of its settings."""
    from league.printing.lists import print_events

    opened = output.open()
    if run is not None:
        opened.find_run(run)
    rows = opened.events(run)
    output.answer({"events": rows}, lambda: print_events(rows), "" if rows else "no events")


@subcommand(PANEL)
def tune(
    preset: PresetOption = "fast",
    agent: AgentOption = None,
    env: GameOption = None,
    seconds: Annotated[float, option("X", "How long is measured, about.")] = 60.0,
    device: DeviceOption = None,
    overrides: SetOption = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Try rows, threads and lanes on this machine, and print what is faster as a TOML file for --config."""
    from league.arena.games import enter
    from league.bench.tune import tune
    from league.config.written import as_words
    from league.printing import say

    def talk(line: str) -> None:
        say(line, quiet)

    sets = [*as_words(overrides or (), agent), *([f"learner.device={device}"] if device else [])]
    found = tune(preset, env=enter(env, talk), seconds=seconds, overrides=sets, say=talk)
    if as_json:
        print_json(found)
    else:
        put(found.toml)
    if not found.is_whole:
        talk(f"{seconds:g} s were not enough for all; more --seconds try the rest")


@subcommand(PANEL, "env", group=bench_app)
def bench_env(
    env: Annotated[str, option("GAME", "The game, by its name or address.", offers=completion.games)] = "brawl",
    rows: Annotated[int, count_option("--rows", "Matches side by side.")] = 1024,
    threads: Annotated[int, option("N", "Threads that step them.")] = 1,
    seconds: Annotated[float, option("X", "How long to measure.")] = 3.0,
    overrides: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Ticks a second of the game alone, random keys, everything written at each decision."""
    from league.bench import bench_env
    from league.printing.bars import Bar
    from league.printing.lists import print_bench

    with Bar():
        figures = bench_env(env, rows=rows, threads=threads, seconds=seconds, overrides=overrides or ())
    print_bench(figures, as_json)


@subcommand(PANEL, "learner", group=bench_app)
def bench_learner(
    preset: PresetOption = "fast",
    agent: AgentOption = None,
    rows: Annotated[int | None, count_option("--rows", "Matches side by side; the preset's if not given.")] = None,
    threads: Annotated[int | None, option("N", "Torch's threads; its own choice if not given.")] = None,
    repeats: Annotated[int, option("N", "Rollouts and updates measured; medians are printed.")] = 3,
    device: DeviceOption = None,
    overrides: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Steps a second in play, samples a second in learning, steps a second in training, at the preset's sizes."""
    from league.bench import bench_learner
    from league.config.written import as_words
    from league.printing.bars import Bar
    from league.printing.lists import print_bench

    sets = [
        *as_words(overrides or (), agent),
        *([] if rows is None else [f"env.rows={rows}"]),
        *([f"learner.device={device}"] if device else []),
    ]
    with Bar():
        figures = bench_learner(preset, threads=threads, repeats=repeats, overrides=sets)
    print_bench(figures, as_json)


@subcommand(PANEL, "torso", group=bench_app)
def bench_torso(
    env: Annotated[str, option("GAME", "The game, by its name or address.", offers=completion.games)] = "brawl",
    agent: AgentOption = None,
    rows: Annotated[int, count_option("--rows", "Rows that decide in one step.")] = 64,
    threads: Annotated[int, option("N", "Torch's threads.")] = 1,
    repeats: Annotated[int, option("N", "Times measured; medians are printed.")] = 5,
    overrides: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Microseconds of a decision and of a learned sample, by the game's network and by a plain one."""
    from league.bench.torso import bench_torso
    from league.config.written import as_words
    from league.printing.bars import Bar
    from league.printing.lists import print_bench

    with Bar():
        figures = bench_torso(
            env, rows=rows, threads=threads, repeats=repeats, overrides=as_words(overrides or (), agent)
        )
    print_bench(figures, as_json)


@subcommand(PANEL, "ratings", group=bench_app)
def bench_ratings(
    agents: Annotated[int, count_option("--agents", "How many are rated.")] = 500,
    matches: Annotated[int, count_option("--matches", "How many match rows the store has.")] = 1_000_000,
    repeats: Annotated[int, option("N", "Times measured; medians are printed.")] = 5,
    seed: Annotated[int, option("N", "Random seed of the made-up matches.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """Milliseconds to rate everyone from the match rows: the SQL part and the solving. Fills a store first."""
    from league.bench import bench_ratings
    from league.printing.bars import Bar
    from league.printing.lists import print_bench

    with Bar():
        figures = bench_ratings(agents, matches, repeats=repeats, seed=seed)
    print_bench(figures, as_json)
