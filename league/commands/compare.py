"""The panel Compare: who is stronger, by games that are played now or stored."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

import league.commands.completion as completion
from league.commands.options import (
    AGENT_WORDS,
    AgainOption,
    GreedyGamesOption,
    OnOption,
    Output,
    Play,
    PolicyOption,
    RunOption,
    SeedOption,
    argument,
    count_option,
    flag,
    option,
    subcommand,
)
from league.printing import print_json, show

PANEL = "Compare"
GATE_FAILED, GATE_UNDECIDED = 3, 4
"""Exit codes of `league gate`; 1 and 2 are errors."""


@subcommand(PANEL)
def leaderboard(
    output: Output,
    run: Annotated[
        str | None, option("RUN", "Only this run's agents and their opponents.", offers=completion.runs)
    ] = None,
    against: Annotated[
        str | None, option("AGENT", "Also show everyone's difference to this agent.", offers=completion.agents)
    ] = None,
    pairs: Annotated[bool, flag("--pairs", "Also the pairs that the ratings explain worst.")] = False,
    is_whole: Annotated[
        bool, flag("--all", "List every agent; else, of more than 20, those that matter most.")
    ] = False,
    greedy: GreedyGamesOption = False,
    prior: Annotated[
        float | None, option("X", "Prior: imagined draws per agent, 1.25 if not given; 0: maximum likelihood.")
    ] = None,
) -> None:
    """Rate everyone from the evaluation matches, with 95 % intervals.

    Of a long board the bots are shown, and each run's best, latest, first and some historical snapshots.
    """
    from league.boards.standings import leaderboard  # not league.arena.agents, which loads torch
    from league.printing.standings import print_leaderboard

    result = leaderboard(
        output.open(),
        run,
        against=against,
        sampling="greedy" if greedy else "sample",
        prior=prior,
        is_brief=not is_whole and not output.as_json,
    )
    output.answer(result, lambda: print_leaderboard(result, pairs=pairs, quiet=output.quiet))


@subcommand(PANEL)
def matchup(
    output: Output,
    a: Annotated[
        str,
        argument(
            "A", "As the leaderboard calls it, RUN, RUN@STEP, RUN@best, bot:NAME, or an id.", offers=completion.agents
        ),
    ],
    b: Annotated[str, argument("B", "The same.", offers=completion.agents)],
    greedy: GreedyGamesOption = False,
) -> None:
    """Compare two agents by the stored matches: their record and the predicted score; plays nothing."""
    from league.boards.headtohead import matchup
    from league.printing.standings import print_matchup

    found = matchup(output.open(), a, b, sampling="greedy" if greedy else "sample")
    output.answer(found, lambda: print_matchup(found))


@subcommand(PANEL)
def payoff(
    output: Output,
    run: RunOption = None,
    png: Annotated[
        Path | None, option("FILE", "A new file: the table as a heat map; needs matplotlib.", "--png")
    ] = None,
) -> None:
    """Show who beats whom in the evaluation matches, with the Nash mixture, alpha-rank and cycles."""
    from league.boards import heatmap
    from league.boards.payoff import payoffs
    from league.printing.standings import print_payoff

    if png is not None:
        heatmap.check(png)
    tables = payoffs(output.open(), run)
    met = [table for table in tables if table.rows]
    for table in tables:
        if not table.rows:
            output.say(f"{table.game}: no two agents have met in an evaluation; run `league evaluate A --against B`")
    if not tables:
        output.say("no matches yet; run `league train` first")
    if png is not None and met:
        heatmap.save(met[0], png)
        others = f"; {len(met) - 1} other games are left out, --run picks one" if len(met) > 1 else ""
        output.say(f"{png}: {met[0].game}, {len(met[0].rows)} agents{others}")
    if output.as_json:
        print_json({"tables": [table.to_json() for table in tables]})
        return
    for table in met:
        print_payoff(table)


@subcommand(PANEL)
def evaluate(
    output: Output,
    play: Play,
    agent: Annotated[str, argument("A", AGENT_WORDS, offers=completion.agents)],
    against: Annotated[str, option("B", "The same.", offers=completion.agents)],
    games: Annotated[int, count_option("--games", "In pairs with swapped seats, so an even number.")] = 100,
    seed: SeedOption = 0,
    on: OnOption = None,
) -> None:
    """Play A against B; the matches are stored and count for the leaderboard."""
    from league.arena.evaluations import evaluate
    from league.printing.answers import print_evaluation
    from league.printing.bars import Bar

    with Bar(output.quiet) as bar:
        result = evaluate(
            agent, against, games, seed=seed, on=on, **play.as_keywords(), store=output.store, say=bar.say
        )
    output.answer(result, lambda: print_evaluation(result, output.store))


@subcommand(PANEL)
def nashconv(
    output: Output,
    agent: Annotated[str, argument("A", AGENT_WORDS, offers=completion.agents)],
    env: AgainOption = None,
    policy: PolicyOption = None,
) -> None:
    """Print how far an agent is from a Nash equilibrium, exactly, where the game is small enough to be solved."""
    from league.arena.equilibrium import nashconv

    found = nashconv(agent, env=env, policy=policy, store=output.store, say=output.say)
    if output.as_json:
        print_json(found)
        return
    first, second = found.gains
    show(f"{found.agent} in {found.game}: NashConv {found.nashconv:.4f}, 0 being an equilibrium")
    show(f"a best response gains {first:.4f} a match as player 0 and {second:.4f} as player 1")
    show(f"value for player 0 against itself {found.value:+z.4f}; all actions alike: NashConv {found.uniform:.4f}")


@dataclass(frozen=True)
class Rounds:
    """Who meets whom in a tournament, and how often."""

    format: Annotated[
        str,
        option(
            "FORMAT",
            "round-robin; gauntlet: the first against the others; double-elimination: two lost matches and an"
            " agent is out; adaptive: the most informative games.",
            offers=completion.words("round-robin", "gauntlet", "double-elimination", "adaptive"),
        ),
    ] = "round-robin"
    games: Annotated[
        int | None,
        count_option(
            "--games", "Games of a pair, or of a double elimination's match, an even number; 20 if not given."
        ),
    ] = None
    seeds: Annotated[int | None, option("N", "gauntlet: how many of the first meet the others; 1 if not given.")] = None
    want: Annotated[
        str | None,
        option(
            "WHICH",
            "adaptive: which differences: all (to the anchor), order (neighbours), top; all if not given.",
            offers=completion.words("all", "order", "top"),
        ),
    ] = None
    between: Annotated[tuple[str, str] | None, option("A B", "adaptive: only the difference between these two.")] = None
    until: Annotated[
        float | None,
        option("POINTS", "adaptive: stop when all wanted anytime-valid intervals are narrower, in Elo points."),
    ] = None
    max_games: Annotated[int | None, count_option("--max-games", "adaptive: most games in all; 1000 if not given.")] = (
        None
    )


@subcommand(PANEL)
def tournament(
    output: Output,
    play: Play,
    rounds: Rounds,
    agents: Annotated[list[str] | None, argument("[AGENT]...", AGENT_WORDS, offers=completion.agents)] = None,
    run: Annotated[
        list[str] | None, option("RUN", "Add all snapshots of this run; repeatable.", "--run", offers=completion.runs)
    ] = None,
    newest: Annotated[int | None, option("N", "Only the newest N snapshots of each --run.")] = None,
    bots: Annotated[bool, flag("--bots", "Add all bots of the game.")] = False,
    pairs: Annotated[bool, flag("--pairs", "Also what everybody did against everybody.")] = False,
    out: Annotated[Path | None, option("FILE", "Also write the results as a page, a new file .html.")] = None,
    seed: SeedOption = 0,
    on: OnOption = None,
) -> None:
    """Play many agents against each other: round robin, gauntlet, double elimination, or the most informative games."""
    from league.arena.tournaments import tournament
    from league.printing.bars import Bar
    from league.printing.standings import print_tournament

    with Bar(output.quiet) as bar:
        result = tournament(
            agents or (),
            runs=run or (),
            newest=newest,
            bots=bots,
            **vars(rounds),
            seed=seed,
            on=on,
            out=out,
            **play.as_keywords(bots="own_bots"),
            store=output.store,
            say=bar.say,
        )
    output.answer(result, lambda: print_tournament(result, pairs=pairs))
    if out is not None:
        output.say(f"the results are in {out}")
    if result.signal:
        raise typer.Exit(128 + result.signal)


@subcommand(PANEL)
def gate(
    output: Output,
    play: Play,
    a: Annotated[str, argument("A", f"The challenger: {AGENT_WORDS}", offers=completion.agents)],
    b: Annotated[
        str | None, argument("[B]", "Whom it must beat; A's run's champion if not given.", offers=completion.agents)
    ] = None,
    elo0: Annotated[float | None, option("X", "H0: A is this many points stronger than B; 0 if not given.")] = None,
    elo1: Annotated[float | None, option("X", "H1: A is this many points stronger than B; 35 if not given.")] = None,
    payoff0: Annotated[float | None, option("X", "H0, in a game with a utility: A's payoff a match; else 0.")] = None,
    payoff1: Annotated[
        float | None, option("X", "H1: A's payoff a match; a twentieth of the bound if not given.")
    ] = None,
    payoff_bound: Annotated[
        float | None, option("X", "Largest payoff of a match, where the game does not say.")
    ] = None,
    alpha: Annotated[float, option("P", "Largest probability of accepting H1 when H0 is true.")] = 0.05,
    beta: Annotated[float, option("P", "Largest probability of accepting H0 when H1 is true.")] = 0.05,
    elo_model: Annotated[
        str | None,
        option(
            "MODEL",
            "Scale of the points: logistic (if not given) or normalised.",
            offers=completion.words("logistic", "normalised"),
        ),
    ] = None,
    max_games: Annotated[int, count_option("--max-games", "Most games to play, an even number.")] = 1000,
    seed: SeedOption = 0,
) -> None:
    """Test whether A is stronger, game by game; exit code 0: yes, 3: no, 4: undecided.

    Wins, draws and losses are tested by SPRT, payoffs by betting. A run's winner is its new champion.
    """
    from league.arena.gating import GateTest, gate
    from league.printing.answers import print_gate
    from league.printing.bars import Bar

    with Bar(output.quiet) as bar:
        result = gate(
            a,
            b,
            test=GateTest(elo0, elo1, elo_model, payoff0, payoff1, payoff_bound, alpha, beta),
            max_games=max_games,
            seed=seed,
            **play.as_keywords(),
            store=output.store,
            say=bar.say,
        )
    output.answer(result, lambda: print_gate(result))
    if result.decision != "passed":
        raise typer.Exit(GATE_FAILED if result.decision == "failed" else GATE_UNDECIDED)
