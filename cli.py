"""`league`: parse, call one function, print. Data to stdout, talk to stderr; heavy imports stay in the commands."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from league.errors import DEFAULT_STORE as STORE
from league.errors import UsageError, as_known
from league.printing import flush, print_json, put, say, show, streams
from league.signals import BROKEN_OFF, interrupt, on_signal

if TYPE_CHECKING:
    from league.printing.progress import TerminalWatcher
    from league.sessions.exploitability import Exploit
    from league.sessions.leagues import LeagueResult
    from league.sessions.session import TrainResult
    from league.store.store import Store

app = typer.Typer(
    help="Train an agent against its own past and scripted bots; rank everyone with error bars.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
bench_app = typer.Typer(help="Measure how fast the parts are; one JSON object each.", no_args_is_help=True)
app.add_typer(bench_app, name="bench")
snapshots_app = typer.Typer(help="List the snapshots of the runs, and delete files of old ones.", no_args_is_help=True)
app.add_typer(snapshots_app, name="snapshots")

imports_app = typer.Typer(help="List the imported files of matches, and take one back.", no_args_is_help=True)
app.add_typer(imports_app, name="imports")

StoreOption = Annotated[Path, typer.Option("--store", help="The DuckDB file; a run's files lie beside it.")]
JsonOption = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]
JsonLinesOption = Annotated[
    bool, typer.Option("--json-lines", help="A JSON object on stdout, a line each, for whatever happens.")
]
QuietOption = Annotated[bool, typer.Option("--quiet", help="Say nothing on stderr but errors.")]
DeviceOption = Annotated[str | None, typer.Option("--device", help="auto, cuda, mps or cpu.")]
PlayDeviceOption = Annotated[str, typer.Option("--device", help="auto, cuda, mps or cpu.")]
PlaySeedOption = Annotated[int, typer.Option("--seed", help="Random seed of the matches and actions.")]
GreedyOption = Annotated[bool, typer.Option("--greedy", help="All play their likeliest action instead of sampling.")]
BotsGameOption = Annotated[
    str | None,
    typer.Option("--env", metavar="GAME", help="The game; needed between bots, or to name its code again."),
]
BotOption = Annotated[
    list[str] | None,
    typer.Option("--bot", metavar="[NAME=]ADDRESS", help="A bot in Python, bots.py:greedy; repeatable."),
]
SamplerOption = Annotated[
    str | None,
    typer.Option("--sampler", metavar="[NAME=]ADDRESS", help="A sampler of your own, file.py:NAME, for pool.sampler."),
]
PolicyOption = Annotated[
    str | None,
    typer.Option("--policy", metavar="[NAME=]ADDRESS", help="A network of your own, file.py:NAME, for agent.policy."),
]
PoliciesOption = Annotated[
    list[str] | None,
    typer.Option("--policy", metavar="[NAME=]ADDRESS", help="Code of an agent's network, file.py:NAME; repeatable."),
]
AgainOption = Annotated[
    str | None, typer.Option("--env", metavar="GAME", help="Where the game is, to name its code again.")
]
SetOption = Annotated[list[str] | None, typer.Option("--set", metavar="A.B=VALUE", help="One setting; repeatable.")]
GreedyGamesOption = Annotated[bool, typer.Option("--greedy", help="Use greedy games instead of sampled ones.")]
GATE_FAILED, GATE_UNDECIDED = 3, 4
"""Exit codes of `league gate`; 1 and 2 are errors."""


@app.command()
def train(
    stage: Annotated[str, typer.Option(help="How long: smoke, test50k or 10m.")] = "test50k",
    preset: Annotated[str, typer.Option(help="How wide: fast, heavy, beast or auto (by the device).")] = "fast",
    env: Annotated[
        str | None,
        typer.Option(metavar="GAME", help="The game: a name such as kuhn, game.py[:NAME] or package.module[:NAME]."),
    ] = None,
    run: Annotated[str | None, typer.Option(help="The run's name; the next free GAME-N if not given.")] = None,
    seed: Annotated[int, typer.Option(help="Random seed.")] = 0,
    device: DeviceOption = None,
    config: Annotated[
        Path | None, typer.Option("--config", help="A TOML file that overrides the preset and stage.")
    ] = None,
    overrides: SetOption = None,
    bot: BotOption = None,
    sampler: SamplerOption = None,
    policy: PolicyOption = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Start at step 0 even if a run could be carried on.")] = False,
    league: Annotated[
        str | None, typer.Option("--league", metavar="FILE", help="Train a league: a TOML file, or `small`.")
    ] = None,
    learner: Annotated[
        str | None, typer.Option("--learner", help="Only this learner of the league, in a process of its own.")
    ] = None,
    store: StoreOption = STORE,
    as_json: JsonOption = False,
    json_lines: JsonLinesOption = False,
    quiet: QuietOption = False,
) -> None:
    """Train one run, against its own snapshots and the game's bots, or a league of several."""
    from league import config as settings
    from league.sessions.app import train
    from league.sessions.leagues import train_league

    if learner is not None and league is None:
        raise UsageError(f"--learner {learner}: learners are a league's; pass --league, too")
    if fresh and league is not None:
        raise UsageError("--fresh: a league of a new name begins at step 0 anyway; leave it out, or pass another --run")
    sets = settings.role_sets(overrides or ())[0] if league is not None else overrides or ()
    verbosity = settings.verbosity(stage, config, sets)
    result: TrainResult | LeagueResult
    with _watcher(verbosity, as_json, json_lines, quiet) as watcher:
        given: dict[str, Any] = {
            **{"stage": stage, "preset": preset, "env": env, "run": run, "seed": seed, "device": device},
            **{"config_file": config, "overrides": overrides or (), "bots": bot, "sampler": sampler, "policy": policy},
        }
        if league is not None:
            result = train_league(league, learner=learner, **given, store=store, watcher=watcher)
        else:
            result = train(fresh=fresh, **given, store=store, watcher=watcher)
    _finish(result, store, watcher, as_json, quiet)


@app.command()
def resume(
    run: Annotated[str, typer.Argument(help="A stopped run, league or exploiter, or a learner LEAGUE.NAME.")],
    env: AgainOption = None,
    bot: BotOption = None,
    sampler: SamplerOption = None,
    policy: PolicyOption = None,
    device: DeviceOption = None,
    overrides: Annotated[
        list[str] | None, typer.Option("--set", metavar="A.B=VALUE", help="A setting that may change; repeatable.")
    ] = None,
    store: StoreOption = STORE,
    as_json: JsonOption = False,
    json_lines: JsonLinesOption = False,
    quiet: QuietOption = False,
) -> None:
    """Continue a stopped run, league or exploiter from its last saved state."""
    from league import config as settings
    from league.sessions.app import resume
    from league.sessions.exploitability import resume_exploit
    from league.sessions.leagues import resume_league

    opened = _open(store, quiet)
    roles = {row.run: row.role for row in opened.learners() if run in (row.league, row.run)}
    config = settings.from_json(json.loads(opened.find_run(next(iter(roles), run)).config))
    verbosity = settings.changed(config, overrides or ()).run.verbosity
    again: dict[str, Any] = {"env": env, "bots": bot, "policy": policy, "device": device, "overrides": overrides or ()}
    if "exploiter" in roles.values() and sampler is not None:
        raise UsageError(f"--sampler {sampler}: an exploiter meets one agent and has no sampler; leave it out")
    result: TrainResult | LeagueResult | Exploit
    with _watcher(verbosity, as_json, json_lines, quiet) as watcher:
        again |= {"store": store, "watcher": watcher}
        if "exploiter" in roles.values():
            result = resume_exploit(run, **again)
        elif roles:
            result = resume_league(run, **again, sampler=sampler)
        else:
            result = resume(run, **again, sampler=sampler)
    _finish(result, store, watcher, as_json, quiet)


@app.command()
def leaderboard(
    run: Annotated[str | None, typer.Option(help="Only this run's agents and their opponents.")] = None,
    against: Annotated[
        str | None, typer.Option(metavar="AGENT", help="Also show everyone's difference to this agent.")
    ] = None,
    pairs: Annotated[bool, typer.Option("--pairs", help="Also the pairs that the ratings explain worst.")] = False,
    is_whole: Annotated[
        bool, typer.Option("--all", help="List every agent; else, of more than 20, those that matter most.")
    ] = False,
    greedy: GreedyGamesOption = False,
    prior: Annotated[
        float | None,
        typer.Option(help="Prior: imagined draws per agent, 1.25 if not given; 0: maximum likelihood."),
    ] = None,
    store: StoreOption = STORE,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Rate everyone from the evaluation matches, with 95 % intervals.

    Of a long board the bots are shown, each run's champion, latest, best, first and some historical snapshots.
    """
    from league.boards.standings import leaderboard  # not league.arena.agents, which loads torch
    from league.printing.standings import print_leaderboard

    result = leaderboard(
        _open(store, quiet),
        run,
        against=against,
        sampling="greedy" if greedy else "sample",
        prior=prior,
        is_brief=not is_whole and not as_json,
    )
    if as_json:
        print_json(result.to_json())
        return
    print_leaderboard(result, pairs=pairs, quiet=quiet)


@app.command()
def matchup(
    a: Annotated[str, typer.Argument(metavar="A", help="RUN, RUN@STEP, RUN@best, bot:NAME, or an agent's id.")],
    b: Annotated[str, typer.Argument(metavar="B", help="The same.")],
    greedy: GreedyGamesOption = False,
    store: StoreOption = STORE,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Compare two agents by the stored matches: their record and the predicted score; plays nothing."""
    from league.boards.headtohead import matchup
    from league.printing.standings import print_matchup

    m = matchup(_open(store, quiet), a, b, sampling="greedy" if greedy else "sample")
    if as_json:
        print_json(
            asdict(m)
            | {
                "predicted": m.predicted and m.predicted._asdict(),
                "difference": m.difference and m.difference._asdict(),
            }
        )
        return
    print_matchup(m)


@app.command()
def gate(
    a: Annotated[str, typer.Argument(metavar="A", help="The challenger: RUN, RUN@STEP, bot:NAME or a folder.")],
    b: Annotated[
        str | None, typer.Argument(metavar="[B]", help="Whom it must beat; A's run's champion if not given.")
    ] = None,
    elo0: Annotated[float, typer.Option(help="H0: A is this many points stronger than B.")] = 0.0,
    elo1: Annotated[float, typer.Option(help="H1: A is this many points stronger than B.")] = 35.0,
    alpha: Annotated[float, typer.Option(help="Largest probability of accepting H1 when H0 is true.")] = 0.05,
    beta: Annotated[float, typer.Option(help="Largest probability of accepting H0 when H1 is true.")] = 0.05,
    elo_model: Annotated[str, typer.Option(help="Scale of the points: logistic or normalised.")] = "logistic",
    max_games: Annotated[int, typer.Option(help="Most games to play, an even number.")] = 1000,
    seed: PlaySeedOption = 0,
    greedy: GreedyOption = False,
    env: BotsGameOption = None,
    bot: BotOption = None,
    policy: PoliciesOption = None,
    device: PlayDeviceOption = "auto",
    store: StoreOption = STORE,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Test by SPRT whether A is stronger; exit code 0: yes, 3: no, 4: undecided. A run's winner is its new champion."""
    from league.arena.gating import gate
    from league.maths.sprt import Sprt
    from league.printing.answers import print_gate
    from league.printing.bars import Bar

    with Bar(quiet) as bar:
        result = gate(
            a,
            b,
            test=Sprt(elo0, elo1, alpha, beta, elo_model),  # type: ignore[arg-type]  # Sprt refuses other words
            max_games=max_games,
            seed=seed,
            greedy=greedy,
            env=env,
            bots=bot,
            policy=policy,
            device=device,
            store=store,
            say=bar.say,
        )
    if as_json:
        print_json(result)
    else:
        print_gate(result)
    if result.decision != "passed":
        raise typer.Exit(GATE_FAILED if result.decision == "failed" else GATE_UNDECIDED)


@app.command()
def payoff(
    run: Annotated[str | None, typer.Option(help="Only this run's snapshots and their opponents.")] = None,
    png: Annotated[
        Path | None, typer.Option("--png", help="A new file: the table as a heat map; needs matplotlib.")
    ] = None,
    store: StoreOption = STORE,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Show who beats whom in the evaluation matches, with the Nash mixture, alpha-rank and cycles."""
    from league.boards import heatmap
    from league.boards.payoff import payoffs
    from league.printing.standings import print_payoff

    if png is not None:
        heatmap.check(png)
    tables = payoffs(_open(store, quiet), run)
    met = [table for table in tables if table.rows]
    for table in tables:
        if not table.rows:
            say(f"{table.game}: no two agents have met in an evaluation; run `league evaluate A --against B`", quiet)
    if not tables:
        say("no matches yet; run `league train` first", quiet)
    if png is not None and met:
        heatmap.save(met[0], png)
        others = f"; {len(met) - 1} other games are left out, --run picks one" if len(met) > 1 else ""
        say(f"{png}: {met[0].game}, {len(met[0].rows)} agents{others}", quiet)
    if as_json:
        print_json({"tables": [table.to_json() for table in tables]})
        return
    for table in met:
        print_payoff(table)


@app.command()
def evaluate(
    agent: Annotated[str, typer.Argument(metavar="A", help="RUN, RUN@STEP, RUN@best, bot:NAME or a folder.")],
    against: Annotated[str, typer.Option(metavar="B", help="The same.")],
    games: Annotated[int, typer.Option(help="Number of games, in pairs with swapped seats, so even.")] = 100,
    seed: PlaySeedOption = 0,
    greedy: GreedyOption = False,
    env: BotsGameOption = None,
    bot: BotOption = None,
    policy: PoliciesOption = None,
    device: PlayDeviceOption = "auto",
    store: StoreOption = STORE,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Play A against B; the matches are stored and count for the leaderboard."""
    from league.arena.agents import evaluate
    from league.printing.answers import print_evaluation
    from league.printing.bars import Bar

    with Bar(quiet) as bar:
        result = evaluate(
            agent,
            against,
            games,
            seed=seed,
            greedy=greedy,
            env=env,
            bots=bot,
            policy=policy,
            device=device,
            store=store,
            say=bar.say,
        )
    if as_json:
        print_json(result)
        return
    print_evaluation(result, store)


@app.command()
def tournament(
    agents: Annotated[
        list[str] | None, typer.Argument(metavar="[AGENT]...", help="RUN, RUN@STEP, RUN@best, bot:NAME or a folder.")
    ] = None,
    run: Annotated[list[str] | None, typer.Option("--run", help="Add all snapshots of this run; repeatable.")] = None,
    newest: Annotated[int | None, typer.Option(help="Only the newest N snapshots of each --run.")] = None,
    bots: Annotated[bool, typer.Option("--bots", help="Add all bots of the game.")] = False,
    format: Annotated[
        str,
        typer.Option(help="round-robin; gauntlet: the first against the others; adaptive: the most informative games."),
    ] = "round-robin",
    games: Annotated[
        int | None, typer.Option(help="round-robin, gauntlet: games per pair, an even number; 20 if not given.")
    ] = None,
    seeds: Annotated[
        int | None, typer.Option(help="gauntlet: how many of the first meet the others; 1 if not given.")
    ] = None,
    want: Annotated[
        str | None,
        typer.Option(
            help="adaptive: which differences: all (to the anchor), order (neighbours), top; all if not given."
        ),
    ] = None,
    between: Annotated[
        tuple[str, str] | None, typer.Option(metavar="A B", help="adaptive: only the difference between these two.")
    ] = None,
    until: Annotated[
        float | None,
        typer.Option(help="adaptive: stop when all wanted intervals are narrower than this, in Elo points."),
    ] = None,
    max_games: Annotated[int | None, typer.Option(help="adaptive: most games in all; 1000 if not given.")] = None,
    pairs: Annotated[bool, typer.Option("--pairs", help="Also what everybody did against everybody.")] = False,
    seed: PlaySeedOption = 0,
    greedy: GreedyOption = False,
    env: BotsGameOption = None,
    bot: BotOption = None,
    policy: PoliciesOption = None,
    device: PlayDeviceOption = "auto",
    store: StoreOption = STORE,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Play many agents against each other: round robin, gauntlet, or the most informative games."""
    from league.arena.tournaments import tournament
    from league.printing.bars import Bar
    from league.printing.standings import print_tournament

    with Bar(quiet) as bar:
        result = tournament(
            agents or (),
            runs=run or (),
            newest=newest,
            bots=bots,
            format=format,  # type: ignore[arg-type]  # tournament refuses other words
            games=games,
            seeds=seeds,
            want=want,  # type: ignore[arg-type]  # likewise
            between=between,
            until=until,
            max_games=max_games,
            seed=seed,
            greedy=greedy,
            env=env,
            own_bots=bot,
            policy=policy,
            device=device,
            store=store,
            say=bar.say,
        )
    if as_json:
        wanted = [{**asdict(w), "difference": w.difference and w.difference._asdict()} for w in result.wanted]
        print_json(asdict(result) | {"wanted": wanted})
    else:
        print_tournament(result, pairs=pairs)
    if result.signal:
        raise typer.Exit(128 + result.signal)


@app.command()
def exploit(
    agent: Annotated[str, typer.Argument(metavar="A", help="RUN, RUN@STEP, RUN@best, bot:NAME or a folder.")],
    steps: Annotated[int, typer.Option(help="Training steps of the exploiter.")] = 100_000,
    games: Annotated[int, typer.Option(help="Matches that measure the result, an even number.")] = 400,
    own_weights: Annotated[bool, typer.Option("--own-weights", help="Begin with A's own weights.")] = False,
    run: Annotated[str | None, typer.Option(help="The exploiter's name; that of a stopped one continues it.")] = None,
    seed: Annotated[int, typer.Option(help="Random seed.")] = 0,
    env: Annotated[
        str | None, typer.Option(metavar="GAME", help="The game; needed if A is a bot, or to name its code again.")
    ] = None,
    bot: BotOption = None,
    policy: PoliciesOption = None,
    preset: Annotated[str, typer.Option(help="Preset, if A is a bot; else that of A's run.")] = "fast",
    device: DeviceOption = None,
    overrides: SetOption = None,
    store: StoreOption = STORE,
    as_json: JsonOption = False,
    json_lines: JsonLinesOption = False,
    quiet: QuietOption = False,
) -> None:
    """Train a new agent against A alone: a lower bound of A's exploitability."""
    from league.sessions.exploitability import exploit

    with _watcher(1, as_json, json_lines, quiet) as watcher:
        result = exploit(
            agent,
            steps,
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
            store=store,
            watcher=watcher,
        )
    _finish(result, store, watcher, as_json, quiet)


@app.command()
def watch(
    agent: Annotated[
        str, typer.Argument(metavar="A", help="RUN, RUN@STEP, RUN@best, bot:NAME or a folder; or a .replay file.")
    ],
    b: Annotated[str | None, typer.Argument(metavar="[B]", help="The same; seat 1. None with a replay.")] = None,
    against: Annotated[str | None, typer.Option(metavar="B", help="The same as B.", hidden=True)] = None,
    out: Annotated[
        Path | None, typer.Option(help="A new file: .replay for the match itself, .gif, .png for its last frame.")
    ] = None,
    seconds: Annotated[
        float | None, typer.Option(help="Seconds of the match to draw, at most 300; all if not given.")
    ] = None,
    boxes: Annotated[bool, typer.Option("--boxes", help="Also draw hit boxes and hurt boxes.")] = False,
    seed: PlaySeedOption = 0,
    kept: Annotated[bool, typer.Option("--kept", help="Their newest match that the store keeps; play none.")] = False,
    greedy: GreedyOption = False,
    env: BotsGameOption = None,
    bot: BotOption = None,
    policy: PoliciesOption = None,
    device: PlayDeviceOption = "auto",
    store: StoreOption = STORE,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Play A against B once, or play a replay back, and draw it."""
    from league.arena.watching import watch
    from league.printing.answers import print_film

    shot = watch(
        agent,
        b if against is None else against,
        out,
        seconds=seconds,
        boxes=boxes,
        seed=seed,
        kept=kept,
        greedy=greedy,
        env=env,
        bots=bot,
        policy=policy,
        device=device,
        store=store,
        say=lambda message: say(message, quiet),
    )
    if as_json:
        print_json(shot)
    else:
        print_film(shot)


@app.command()
def play(
    agent: Annotated[str, typer.Argument(metavar="AGENT", help="RUN, RUN@STEP, RUN@best, bot:NAME or a folder.")],
    seat: Annotated[int, typer.Option(help="Your seat, 0 or 1.")] = 0,
    name: Annotated[str, typer.Option(help="What you are called on the leaderboard.")] = "person",
    browser: Annotated[bool, typer.Option("--browser", help="On a page of this machine, not in a window.")] = False,
    port: Annotated[int, typer.Option(help="Of that page; a free one if not given.")] = 0,
    out: Annotated[Path | None, typer.Option(help="A new file, .replay, for the match.")] = None,
    seed: Annotated[int | None, typer.Option(help="Random seed of the match; drawn if not given.")] = None,
    greedy: GreedyOption = False,
    env: BotsGameOption = None,
    bot: BotOption = None,
    policy: PoliciesOption = None,
    device: PlayDeviceOption = "auto",
    store: StoreOption = STORE,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Play against an agent yourself, by keyboard in a window or in the browser; the match is stored as an import."""
    from league.arena.playing import play_by_hand
    from league.printing.answers import print_ended

    ended = play_by_hand(
        agent,
        seat=seat,
        name=name,
        browser=browser,
        port=port,
        out=out,
        seed=seed,
        greedy=greedy,
        env=env,
        bots=bot,
        policy=policy,
        device=device,
        store=store,
        say=lambda message: say(message, quiet and not browser),
    )
    if as_json:
        print_json(ended)
    else:
        print_ended(ended)


@app.command()
def export(
    agent: Annotated[str, typer.Argument(help="RUN, RUN@STEP, RUN@best or a folder.")],
    out: Annotated[Path, typer.Argument(help="A new folder, which `league.snapshots.Agent.load` opens.")],
    store: StoreOption = STORE,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Export an agent as a folder of safetensors and JSON."""
    from league.arena.agents import export

    manifest = export(agent, out, store=store, say=lambda message: say(message, quiet))
    if as_json:
        print_json({"path": str(out), "agent_id": manifest.agent_id, "run": manifest.run, "step": manifest.step})
    else:
        show(f"{manifest.run}@{manifest.step} ({manifest.agent_id[:12]}) is in {out}")


@app.command("import")
def import_matches(
    file: Annotated[Path, typer.Argument(help="Matches: .jsonl, .csv or .pgn.")],
    game: Annotated[str | None, typer.Option(help="The game of matches that do not name theirs.")] = None,
    game_id: Annotated[str | None, typer.Option(help="The same as a game id, which may be new to the store.")] = None,
    run: Annotated[str | None, typer.Option(help="Name of the import; import-N if not given.")] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace the earlier imports that this file continues.")
    ] = False,
    as_new: Annotated[
        bool, typer.Option("--as-new", help="These are new games, even if they look like earlier ones.")
    ] = False,
    store: StoreOption = STORE,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Import matches played elsewhere; they count for the leaderboard."""
    from league.printing.answers import print_import
    from league.printing.bars import Bar
    from league.store.exchange import import_matches

    with Bar(quiet) as bar:
        done = import_matches(
            file,
            game=game,
            game_id=game_id,
            run=run,
            replace=replace,
            as_new=as_new,
            store=store,
            say=bar.say,
        )
    if as_json:
        print_json(done)
        return
    print_import(done, store)


@app.command()
def matches(
    file: Annotated[Path, typer.Argument(help="A new file: .jsonl, .csv or .pgn.")],
    run: Annotated[str | None, typer.Option(help="Only those of this run, evaluation, gate or import.")] = None,
    kind: Annotated[
        str, typer.Option(help="evaluation or training; `league import` takes evaluation only.")
    ] = "evaluation",
    game_id: Annotated[str | None, typer.Option(help="Only this game's.")] = None,
    names: Annotated[bool, typer.Option("--names", help="Write agents by name instead of by id.")] = False,
    store: StoreOption = STORE,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Write matches to a file that other tools, and `league import`, read."""
    from league.store.exchange import export_matches

    done = export_matches(
        file,
        run=run,
        kind=kind,  # type: ignore[arg-type]  # export_matches refuses other words
        game_id=game_id,
        names=names,
        store=store,
        say=lambda message: say(message, quiet),
    )
    if as_json:
        print_json(done)
    else:
        show(f"{done.matches:,} matches are in {done.file}")


@app.command()
def runs(store: StoreOption = STORE, as_json: JsonOption = False, quiet: QuietOption = False) -> None:
    """List the runs of the store with their status; `died`: the process was killed."""
    from league.printing.lists import print_runs
    from league.store.liveness import runs

    opened = _open(store, quiet)
    found = runs(opened)
    roles = {row.run: row.role for row in opened.learners()}
    if not found:
        say("no runs yet", quiet)
    if as_json:
        rows = [(r, status, json.loads(r.config), roles.get(r.run)) for r, status in found]
        print_json(
            [{**asdict(r), "status": status, "config": config, "role": role} for r, status, config, role in rows]
        )
        return
    print_runs(found, roles)


@app.command()
def events(
    run: Annotated[str | None, typer.Argument(metavar="[RUN]", help="Only this run's; it may be training.")] = None,
    store: StoreOption = STORE,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """List alarms, damage, what stopped a run, and changes of its settings."""
    from league.printing.lists import print_events

    opened = _open(store, quiet)
    if run is not None:
        opened.find_run(run)
    rows = opened.events(run)
    if not rows:
        say("no events", quiet)
    if as_json:
        print_json(rows)
    elif rows:
        print_events(rows)


@app.command()
def replay(
    file: Annotated[
        Path, typer.Argument(help="A .replay, or a file of RUN/failures, written when a guard stopped a run.")
    ],
    out: Annotated[
        Path | None, typer.Option(help="A new file: .png draws the match there, .gif also the step before.")
    ] = None,
    env: AgainOption = None,
    store: StoreOption = STORE,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Play a replay back, bit for bit; or rebuild a match with wrong masks, observations or actions."""
    from league.printing.answers import print_played, print_replay
    from league.sessions.failures import Finding, replay

    del store  # the file has all that is needed
    result = replay(file, out, env=env, say=lambda message: say(message, quiet))
    if as_json:
        print_json(result)
        return
    if isinstance(result, Finding):
        print_replay(result)
    else:
        print_played(result)
    if out is not None:
        say(f"{out}: drawn", quiet)


@app.command()
def rewards(
    run: Annotated[str, typer.Argument(help="A run; it may be training.")],
    last: Annotated[int | None, typer.Option(help="Only the newest N training matches; all if not given.")] = None,
    store: StoreOption = STORE,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Show each reward term's mean per match, and in how many matches it was not 0."""
    from league.printing.lists import print_rewards

    opened = _open(store, quiet)
    opened.find_run(run)
    terms = opened.reward_terms(run, last)
    if not terms:
        say(f"{run}: no training match is finished yet", quiet)
    if as_json:
        print_json([{**asdict(term), "weighted": term.weighted} for term in terms])
    elif terms:
        print_rewards(run, terms)


@app.command()
def alarms(
    run: Annotated[str | None, typer.Argument(metavar="[RUN]", help="Only this run and its game; else all.")] = None,
    store: StoreOption = STORE,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Look for forgetting, cycling, passivity and unequal seats; each alarm names the query that shows it."""
    from league.boards.alarms import alarms
    from league.printing.answers import print_alarms

    findings = alarms(_open(store, quiet), run)
    if not findings:
        say("no runs yet", quiet)
    if as_json:
        print_json(findings)
        return
    print_alarms(findings)


@app.command()
def query(
    sql: Annotated[
        str,
        typer.Argument(
            help="One SELECT. Tables: run, agent, snapshot, match, replay, rating, metric, event, gate, import,"
            " learner."
        ),
    ],
    format: Annotated[
        str, typer.Option(help="table, csv, jsonl or md; a table that is too wide is a block a record.")
    ] = "table",
    store: StoreOption = STORE,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Run one read-only SQL query on the store."""
    from league.printing.queries import check_format
    from league.printing.tables import is_ascii, table_width
    from league.store.apart import run_apart

    if as_json and format != "table":
        raise UsageError(f"--format {format}: --json is a document of its own; pass only one of the two")
    shown = {"format": check_format(format), "width": table_width(), "is_plain": is_ascii()}
    run_apart(
        "from league.cli import answer; answer()",
        {"sql": sql, "store": str(store), "as_json": as_json, "shown": shown},
        write=put,
        say=lambda message: say(message, quiet),
    )


def answer() -> None:
    """The process of its own in which `league query` asks and prints."""
    from league.store.apart import answering

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


@imports_app.command("list")
def imports_list(store: StoreOption = STORE, as_json: JsonOption = False, quiet: QuietOption = False) -> None:
    """List the imported files of matches, the oldest first."""
    from league.printing.lists import print_imports
    from league.store.exchange import imports

    found = imports(store=store, say=lambda message: say(message, quiet))
    if not found:
        say("no imports yet", quiet)
    if as_json:
        print_json(found)
    elif found:
        print_imports(found)


@imports_app.command("remove")
def imports_remove(
    run: Annotated[str, typer.Argument(metavar="NAME", help="As `league imports list` has it.")],
    store: StoreOption = STORE,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Take an import back: its games, and the agents that nobody else has met; ratings are those without it."""
    from league.store.exchange import remove_import

    gone = remove_import(run, store=store, say=lambda message: say(message, quiet))
    if as_json:
        print_json(gone)
    else:
        show(f"removed: {gone.run} with its {gone.matches:,} games of {gone.file}")


@snapshots_app.command("list")
def snapshots_list(
    run: Annotated[str | None, typer.Option(help="Only this run's.")] = None,
    store: StoreOption = STORE,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """List snapshots: size on disk, parent, games, and why pruning would keep them."""
    from league.printing.lists import print_holdings
    from league.sessions.retention import DEFAULT_KEEP, holdings

    found = holdings(_open(store, quiet), run)
    if not found:
        say("no snapshots yet", quiet)
    if as_json:
        print_json(found)
        return
    print_holdings(f"snapshots; what `league snapshots prune --keep {DEFAULT_KEEP}` does", found)


@snapshots_app.command("prune")
def snapshots_prune(
    run: Annotated[str | None, typer.Argument(metavar="[RUN]", help="Only this run's; else every run's.")] = None,
    keep: Annotated[int | None, typer.Option(help="How many of a run's newest are kept; 20 if not given.")] = None,
    is_dry: Annotated[bool, typer.Option("--dry-run", help="Print what would be deleted; change nothing.")] = False,
    store: StoreOption = STORE,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Delete files of old snapshots, never of a run that can go on; rows, matches and ratings are kept."""
    from league.printing.lists import print_holdings, show_size
    from league.sessions.retention import DEFAULT_KEEP, prune

    prunings = prune(_open(store, quiet), run, DEFAULT_KEEP if keep is None else keep, is_dry=is_dry)
    verb = "would be pruned" if is_dry else "pruned"
    for p in prunings:
        freed = show_size(p.num_bytes)
        say(f"{p.run}: {len(p.goes)} {verb} ({freed}), {len(p.stays)} kept", quiet)
    if not any(p.goes for p in prunings):
        say("nothing to prune", quiet)
    if as_json:
        print_json([{**asdict(p), "num_bytes": p.num_bytes} for p in prunings])
        return
    for p in prunings:
        print_holdings(f"{p.run}, --keep {p.keep}", sorted([*p.goes, *p.stays], key=lambda x: x.step), verb)


@bench_app.command("env")
def bench_env(
    env: Annotated[str, typer.Option(metavar="GAME", help="The game, by its name or address.")] = "brawl",
    rows: Annotated[int, typer.Option(help="Matches side by side.")] = 1024,
    threads: Annotated[int, typer.Option(help="Threads that step them.")] = 1,
    seconds: Annotated[float, typer.Option(help="How long to measure.")] = 3.0,
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


@bench_app.command("learner")
def bench_learner(
    preset: Annotated[str, typer.Option(help="How wide.")] = "fast",
    rows: Annotated[int | None, typer.Option(help="Matches side by side; the preset's if not given.")] = None,
    threads: Annotated[int | None, typer.Option(help="Torch's threads; its own choice if not given.")] = None,
    repeats: Annotated[int, typer.Option(help="Rollouts and updates measured; medians are printed.")] = 3,
    device: DeviceOption = None,
    overrides: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Steps a second in play, samples a second in learning, steps a second in training, at the preset's sizes."""
    from league.bench import bench_learner
    from league.printing.bars import Bar
    from league.printing.lists import print_bench

    sets = [
        *(overrides or ()),
        *([] if rows is None else [f"env.rows={rows}"]),
        *([f"learner.device={device}"] if device else []),
    ]
    with Bar():
        figures = bench_learner(preset, threads=threads, repeats=repeats, overrides=sets)
    print_bench(figures, as_json)


@bench_app.command("ratings")
def bench_ratings(
    agents: Annotated[int, typer.Option(help="How many are rated.")] = 500,
    matches: Annotated[int, typer.Option(help="How many match rows the store has.")] = 1_000_000,
    repeats: Annotated[int, typer.Option(help="Times measured; medians are printed.")] = 5,
    seed: Annotated[int, typer.Option(help="Random seed of the made-up matches.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """Milliseconds to rate everyone from the match rows: the SQL part and the solving. Fills a store first."""
    from league.bench import bench_ratings
    from league.printing.bars import Bar
    from league.printing.lists import print_bench

    with Bar():
        figures = bench_ratings(agents, matches, repeats=repeats, seed=seed)
    print_bench(figures, as_json)


@app.command()
def tune(
    preset: Annotated[str, typer.Option(help="Preset: fast, heavy, beast or auto.")] = "fast",
    env: Annotated[str | None, typer.Option(metavar="GAME", help="The game: a name or an address.")] = None,
    seconds: Annotated[float, typer.Option(help="How long is measured, about.")] = 60.0,
    device: DeviceOption = None,
    overrides: SetOption = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Try rows, threads and lanes on this machine, and print what is faster as a TOML file for --config."""
    from league.arena.games import enter
    from league.bench.tune import tune

    def talk(line: str) -> None:
        say(line, quiet)

    sets = [*(overrides or ()), *([f"learner.device={device}"] if device else [])]
    found = tune(preset, env=enter(env, talk), seconds=seconds, overrides=sets, say=talk)
    if as_json:
        print_json(found)
    else:
        put(found.toml)
    if not found.is_whole:
        talk(f"{seconds:g} s were not enough for all; more --seconds try the rest")


@app.command("settings")
def show_settings(
    run: Annotated[str | None, typer.Argument(metavar="[RUN]", help="Those of a run; else of a new one.")] = None,
    stage: Annotated[str, typer.Option(help="How long: smoke, test50k or 10m.")] = "test50k",
    preset: Annotated[str, typer.Option(help="How wide: fast, heavy, beast or auto (before it is sized).")] = "fast",
    env: Annotated[str | None, typer.Option(metavar="GAME", help="The game: a name or an address.")] = None,
    config: Annotated[Path | None, typer.Option("--config", help="A TOML file, laid over preset and stage.")] = None,
    overrides: SetOption = None,
    is_explained: Annotated[bool, typer.Option("--explain", help="What each setting means, above it.")] = False,
    store: StoreOption = STORE,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Print every setting, as a TOML file that --config takes; what moves with the steps has its picture."""
    from league import config as settings
    from league.arena.games import enter, load_settings
    from league.config.written import written

    if run is None:
        name = enter(env, lambda message: say(message, quiet))
        found, told = load_settings(stage, preset, name, config, overrides or ())
        say(told, quiet or not told)
    elif overrides or config or env:
        raise UsageError(f"settings {run}: a run's are as they are; leave out --set, --config and --env")
    else:
        found = settings.from_json(json.loads(_open(store, quiet).find_run(run).config))
    if as_json:
        print_json(settings.to_json(found))
        return
    for line in written(found, is_explained=is_explained):
        show(line)


@app.command()
def check(
    game: Annotated[str, typer.Argument(help="The game: a name such as brawl, or an address such as game.py.")],
    overrides: SetOption = None,
    bot: BotOption = None,
    sampler: SamplerOption = None,
    policy: PolicyOption = None,
    seed: Annotated[int, typer.Option(help="Random seed of the matches and actions.")] = 1,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Hold a game to what training takes for granted: play it in every way, and name the first rule that it breaks.

    Then hold your own parts to it, too, in this game.
    """
    from league.arena.games import enter, load_settings
    from league.testing import check_bot, check_game, check_parts

    name = enter(game, lambda message: say(message, quiet))
    options = load_settings(env=name, overrides=overrides or ())[0].env.options
    found = check_game(name, options, seed=seed)
    assert found is not None, "a deep check says what it found"
    for native in found.spec.bots:
        say(f"{name} keeps the contract; now bot {native}", quiet)
        check_bot(name, native, options, seed=seed)
    checked = check_parts(name, bot, sampler, policy, overrides=overrides or (), seed=seed)
    if as_json:
        print_json(found)
        return
    bots = ", ".join(found.spec.bots) or "none"
    show(f"{name}: keeps the contract, in runs of {found.steps:,} steps, with matches of up to {found.longest:,}")
    show(f"bots that play one match from one seed, in both seats: {bots}")
    for part in checked:
        show(f"{part}: keeps the contract")


def _open(store: Path, quiet: bool) -> Store:
    """The store of a command; that it is waited for is said unless `quiet`."""
    from league.store.store import Store

    return Store.open(store, lambda message: say(message, quiet))


def _watcher(verbosity: int, as_json: bool, json_lines: bool, quiet: bool) -> TerminalWatcher:
    """Who shows a training."""
    from league.printing.progress import TerminalWatcher

    if as_json and json_lines:
        raise UsageError("--json-lines: --json is one document at the end; pass only one of the two")
    return TerminalWatcher(0 if quiet else verbosity, json_lines=json_lines)


def _finish(
    result: TrainResult | LeagueResult | Exploit, store: Path, watcher: TerminalWatcher, as_json: bool, quiet: bool
) -> None:
    """What is printed of a training that has ended: where it stands, and what can be done next."""
    from league.printing.answers import endings, print_ending

    for line in endings(result, store):
        say(line, quiet)
    if as_json:
        print_json(result)
    elif not watcher.json_lines:
        print_ending(result)
    watcher.result(result)
    if result.signal:
        raise typer.Exit(128 + result.signal)


def main() -> None:
    """The console script: a known error is one line on stderr and its exit code; a bug keeps its traceback.

    A signal to end breaks a command off: one line, and 128 + its number as the exit code. Training handles it itself.
    """
    with on_signal(interrupt) as received, streams():
        try:
            try:
                app()
            finally:
                flush()  # what stdout does not take is an error, too
        except SystemExit:
            raise
        except BrokenPipeError:  # whoever read has enough, as `head` has
            sys.exit(1)
        except BaseException as error:
            if received:  # whatever it became on its way: a library may wrap it
                say(BROKEN_OFF)
                sys.exit(128 + received[0])
            known = as_known(error)
            if known is None:
                raise
            say(f"error: {' '.join(str(known).split())}")
            sys.exit(known.exit_code)


if __name__ == "__main__":
    main()
