"""The panel Train: runs, leagues and exploiters, and what they may be given."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import league.commands.completion as completion
from league.commands.options import (
    AGENT_WORDS,
    AgainOption,
    AgentOption,
    BotOption,
    ConfigOption,
    DeviceOption,
    GameOption,
    OnOption,
    Output,
    PoliciesOption,
    PolicyOption,
    PresetOption,
    SamplerOption,
    SeedOption,
    SetOption,
    StageOption,
    TrainingOutput,
    argument,
    count_option,
    flag,
    option,
    subcommand,
)
from league.errors import UsageError
from league.printing import print_json

if TYPE_CHECKING:
    from league.printing.progress import TerminalCallback
    from league.sessions.plans import TrainResult
    from league.training.run import Callback

PANEL = "Train"
RanksOption = Annotated[
    int | None, count_option("--ranks", "Processes on this machine that train it together, each with rows / N.")
]


@subcommand(PANEL)
def train(
    output: TrainingOutput,
    stage: StageOption = "test50k",
    preset: PresetOption = "fast",
    agent: AgentOption = None,
    env: GameOption = None,
    encode: Annotated[str | None, option("FILE.py[:NAME]", "The encoder of the game --env kaggle:NAME.")] = None,
    run: Annotated[str | None, option("NAME", "The run's name; the next free GAME-N if not given.")] = None,
    steps: Annotated[
        int | None, count_option("--steps", "Total steps, such as 300k or 1.5M (default: the stage's).")
    ] = None,
    seed: SeedOption = 0,
    device: DeviceOption = None,
    config: ConfigOption = None,
    overrides: SetOption = None,
    bot: BotOption = None,
    sampler: SamplerOption = None,
    policy: PolicyOption = None,
    fresh: Annotated[bool, flag("--fresh", "Start at step 0 even if a run could be carried on.")] = False,
    league: Annotated[str | None, option("FILE", "Train a league: a TOML file, or `small`.", "--league")] = None,
    learner: Annotated[
        str | None, option("NAME", "Only this learner of the league, in a process of its own.", "--learner")
    ] = None,
    begin_with: Annotated[
        str | None,
        option(
            "AGENT",
            "Begin with its weights, and near it: a folder of `league imitate`, or RUN@STEP.",
            "--begin-with",
            offers=completion.agents,
        ),
    ] = None,
    on: OnOption = None,
    ranks: RanksOption = None,
) -> None:
    """Train one run, against its own snapshots and the game's bots, or a league of several."""
    from league import config as settings
    from league.runtime.launch import launched
    from league.sessions.app import train

    sets = overrides or []
    verbosity = settings.verbosity(stage, config, settings.role_sets(sets)[0] if league is not None else sets)
    callback, trackers = _callbacks(verbosity, output)
    with launched(ranks), callback:
        result = train(
            stage,
            preset=preset,
            agent=agent,
            env=_encoded(env, encode),
            run=run,
            steps=steps,
            seed=seed,
            device=device,
            config_file=config,
            overrides=sets,
            bots=bot,
            sampler=sampler,
            policy=policy,
            fresh=fresh,
            league=league,
            learner=learner,
            begin_with=begin_with,
            on=on,
            store=output.store,
            callback=[callback, trackers],
        )
    _finish(result, output, callback)


def _encoded(env: str | None, encode: str | None) -> str | None:
    """The address of a game with its encoder, `kaggle:NAME:FILE.py[:NAME]`.

    Raises:
        UsageError: the game is not Kaggle's.
    """
    if encode is not None and not (env or "").startswith("kaggle:"):
        raise UsageError(f"--encode {encode}: env={env} is no environment of Kaggle; pass --env kaggle:NAME")
    return env if encode is None else f"{env}:{encode}"


@subcommand(PANEL)
def resume(
    output: TrainingOutput,
    run: Annotated[
        str, argument("RUN", "A run, league or exploiter, or a learner LEAGUE.NAME.", offers=completion.runs)
    ],
    steps: Annotated[
        int | None, count_option("--steps", "Total steps (default: the stage's); a finished run goes further.")
    ] = None,
    at: Annotated[
        int | None,
        count_option("--at", "Start a new run from the kept state at or before STEP.", "STEP", completion.states),
    ] = None,
    name: Annotated[
        str | None, option("NAME", "With --at: the new run's name; the next free GAME-N if not given.", "--run")
    ] = None,
    env: AgainOption = None,
    bot: BotOption = None,
    sampler: SamplerOption = None,
    policy: PolicyOption = None,
    device: DeviceOption = None,
    overrides: Annotated[
        list[str] | None,
        option("A.B=VALUE", "A setting that may change; repeatable.", "--set", offers=completion.setting_names),
    ] = None,
    take_over: Annotated[
        bool, flag("--take-over", "End the lock of another machine that shows no sign of life for a minute.")
    ] = False,
    on: OnOption = None,
    ranks: RanksOption = None,
) -> None:
    """Continue a stopped run, league or exploiter from its last saved state, or a run from an earlier one."""
    from league import config as settings
    from league.runtime.launch import is_follower, launched
    from league.sessions.app import resume

    sets, verbosity = overrides or [], 0
    if not is_follower():  # which may have no store
        opened = output.open()
        row = opened.find_run(next((row.run for row in opened.learners() if run in (row.league, row.run)), run))
        verbosity = settings.changed(settings.of_run(row.run, row.config), sets).run.verbosity
    callback, trackers = _callbacks(verbosity, output)
    with launched(ranks), callback:
        result = resume(
            run,
            steps=steps,
            at=at,
            name=name,
            take_over=take_over,
            on=on,
            env=env,
            bots=bot,
            sampler=sampler,
            policy=policy,
            device=device,
            overrides=sets,
            store=output.store,
            callback=[callback, trackers],
        )
    _finish(result, output, callback)


@subcommand(PANEL)
def exploit(
    output: TrainingOutput,
    agent: Annotated[str, argument("A", AGENT_WORDS, offers=completion.agents)],
    steps: Annotated[int, count_option("--steps", "Training steps of the exploiter.")] = 100_000,
    games: Annotated[int, count_option("--games", "Matches that measure the result, an even number.")] = 400,
    own_weights: Annotated[bool, flag("--own-weights", "Begin with A's own weights.")] = False,
    run: Annotated[str | None, option("NAME", "The exploiter's name; that of a stopped one continues it.")] = None,
    seed: SeedOption = 0,
    env: Annotated[
        str | None,
        option("GAME", "The game; needed if A is a bot, or to name its code again.", offers=completion.games),
    ] = None,
    bot: BotOption = None,
    policy: PoliciesOption = None,
    preset: Annotated[
        str, option("PRESET", "Preset, if A is a bot; else that of A's run.", offers=completion.presets)
    ] = "fast",
    device: DeviceOption = None,
    overrides: SetOption = None,
    on: OnOption = None,
) -> None:
    """Train a new agent against A alone: a lower bound of A's exploitability."""
    from league.sessions.app import train

    callback, trackers = _callbacks(1, output)
    with callback:
        result = train(
            against=agent,
            steps=steps,
            games=games,
            own_weights=own_weights,
            run=run,
            seed=seed,
            env=env,
            bots=bot,
            policy=policy,
            preset=preset,
            device=device,
            overrides=overrides or (),
            on=on,
            store=output.store,
            callback=[callback, trackers],
        )
    _finish(result, output, callback)


@subcommand(PANEL)
def imitate(
    output: Output,
    game: Annotated[str, argument("GAME", "A name, game.py[:NAME] or an address.", offers=completion.games)],
    sources: Annotated[
        list[str],
        option(
            "SOURCE",
            "An agent that plays now, replays[:NAME], FILE.replay or FILE.parquet; repeatable.",
            "--from",
            offers=completion.agents,
        ),
    ],
    out: Annotated[Path, option("FOLDER", "A new folder; names the agent.", "--out")],
    games: Annotated[int, count_option("--games", "Games of each two named agents, an even number.")] = 200,
    epochs: Annotated[int, count_option("--epochs", "Most passes over the demonstrations.")] = 50,
    seed: SeedOption = 0,
    agent: AgentOption = None,
    device: DeviceOption = None,
    config: ConfigOption = None,
    overrides: SetOption = None,
    bot: BotOption = None,
    policy: PolicyOption = None,
) -> None:
    """Train a network to decide as recorded players did, for `league train --begin-with`."""
    from league.printing.answers import print_clone
    from league.printing.bars import Bar
    from league.sessions.imitation import imitate

    with Bar(output.quiet) as bar:
        clone = imitate(
            game,
            sources,
            out,
            games=games,
            epochs=epochs,
            seed=seed,
            agent=agent,
            config_file=config,
            overrides=overrides or (),
            bots=bot,
            policy=policy,
            device=device,
            store=output.store,
            say=bar.say,
        )
    output.answer(clone, lambda: print_clone(clone))


def _callbacks(verbosity: int, output: TrainingOutput) -> tuple[TerminalCallback, Callback]:
    """Who shows a training, and what logs it."""
    from league.faces.trackers import track
    from league.printing.progress import TerminalCallback
    from league.runtime.launch import is_follower

    if output.as_json and output.json_lines:
        raise UsageError("--json-lines: --json is one document at the end; pass only one of the two")
    if is_follower():
        return TerminalCallback(0), track()
    return TerminalCallback(0 if output.quiet else verbosity, json_lines=output.json_lines), track(*output.log or ())


def _finish(result: TrainResult, output: TrainingOutput, callback: TerminalCallback) -> None:
    """What is printed of a training that has ended: where it stands, and what can be done next."""
    from league.printing.answers import endings, print_exploit
    from league.runtime.launch import is_follower
    from league.sessions.exploitability import Exploit

    if is_follower():  # rank 0 says it
        return
    for line in endings(result, output.store) if callback.verbosity else ():
        output.say(line)
    if output.as_json:
        print_json(result)
    elif isinstance(result, Exploit) and not callback.json_lines:
        print_exploit(result)
    callback.result(result)
    if result.signal:
        raise typer.Exit(128 + result.signal)
