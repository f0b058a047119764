"""Sweeps and comparisons of settings, in the panels Train and Compare."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import league.commands.completion as completion
from league.commands.options import (
    AgentOption,
    DeviceOption,
    GameOption,
    OnOption,
    Output,
    PresetOption,
    SetOption,
    StageOption,
    argument,
    count_option,
    flag,
    option,
    subcommand,
)

if TYPE_CHECKING:
    from league.sessions.sweep_results import SweepResult


@subcommand("Train")
def sweep(
    output: Output,
    file: Annotated[Path, argument("FILE", "A TOML file with the tables space and train.")],
    trials: Annotated[int, option("N", "Settings in all, those of earlier calls among them.")] = 30,
    jobs: Annotated[int, option("J", "Processes at once, of one thread each.")] = 1,
    show: Annotated[bool, flag("--show", "Try nothing; print where the sweep stands.")] = False,
    best: Annotated[Path | None, option("OUT", "A new file: the best setting, for --config.", "--best")] = None,
    on: OnOption = None,
) -> None:
    """Search settings with Optuna; each is judged on as many seeds as it takes. The same call again goes on."""
    from league.printing.sweeps import print_sweep
    from league.sessions.sweep_results import write_best
    from league.sessions.sweeps import read_sweep, sweep
    from league.store.files import check_new

    if best is not None:
        check_new(best, "--best")
    if show:
        result = read_sweep(file, output.store)
    else:
        result = sweep(file, trials, jobs=jobs, on=on, store=output.store, say=None if output.quiet else output.say)
    if best is not None:
        write_best(result, best)
        output.say(f"the best is in {best}: league train --config {best}")
    output.answer(_as_json(result), lambda: print_sweep(result))
    if result.signal:
        raise typer.Exit(128 + result.signal)


def _as_json(result: SweepResult) -> dict[str, Any]:
    """Without what `--json` has no words for: NaN, and the file."""
    tried = [{**asdict(x), **({} if x.values else dict.fromkeys(("mean", "lower", "upper")))} for x in result.tried]
    told = {name: getattr(result, name) for name in ("sweep", "objective", "direction", "importance")}
    return {**told, "journal": str(result.journal), "tried": tried}


@subcommand("Compare")
def compare(
    output: Output,
    a: Annotated[str, argument("A", "A TOML file of settings, or a run of the store.")],
    b: Annotated[str, argument("B", "The same.")],
    seeds: Annotated[int, option("N", "Runs of each; those in the store are not repeated.")] = 5,
    seed: Annotated[int, option("N", "The first seed.")] = 1,
    objective: Annotated[
        str,
        option(
            "WHAT",
            "rating, score, nashconv or exploitability.",
            offers=completion.words("rating", "score", "nashconv", "exploitability"),
        ),
    ] = "rating",
    against: Annotated[
        list[str] | None, option("AGENT", "score: an opponent; repeatable.", offers=completion.agents)
    ] = None,
    games: Annotated[int | None, count_option("--games", "Games of each pair; 20 if not given, else 200.")] = None,
    env: GameOption = None,
    stage: StageOption = "test50k",
    preset: PresetOption = "fast",
    agent: AgentOption = None,
    steps: Annotated[int | None, count_option("--steps", "Steps of a run (default: the stage's).")] = None,
    device: DeviceOption = None,
    overrides: SetOption = None,
) -> None:
    """Compare two settings over paired seeds: the difference with its interval, and the seeds still needed."""
    from league.printing.sweeps import print_comparison
    from league.sessions.comparisons import compare

    result = compare(
        a,
        b,
        seeds=seeds,
        seed=seed,
        objective=objective,
        against=against or (),
        games=games,
        env=env,
        stage=stage,
        preset=preset,
        agent=agent,
        steps=steps,
        device=device,
        overrides=overrides or (),
        store=output.store,
        say=output.say,
    )
    output.answer({**asdict(result), "is_decided": result.is_decided}, lambda: print_comparison(result))
    if result.signal:
        raise typer.Exit(128 + result.signal)
