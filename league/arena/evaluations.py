"""`league.evaluate`: fixed matches of two agents, written into the store."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from league.arena.agents import Where, check_different, check_seed, introduce, play_pairings
from league.arena.cluster import players, shares
from league.boards import plots
from league.errors import DEFAULT_STORE
from league.play.summaries import Summary, check_games, summarise
from league.runtime.process import settings_kept
from league.store.rows import unique_name
from league.types.results import Grid, Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, repr=False)
class Evaluation(Result):
    """The matches of A against B; `run` is their name in the store, None where there is no store."""

    run: str | None
    a: str
    b: str
    seed: int
    summary: Summary
    seeds: tuple[int, ...]
    """Of the matches, in the order played; each stands twice, once for either seating."""

    def grids(self) -> list[Grid]:
        """The record, then how both behaved."""
        s = self.summary
        columns = ("agent", "against", "games", "wins", "draws", "losses", *s.measured._fields, "run")
        row = (self.a, self.b, s.games, s.wins, s.draws, s.losses, *s.measured, self.run)
        behaviour = [(name, *means) for name, means in s.metrics.items()]
        return [Grid(columns, [row]), Grid(("mean a match", self.a, self.b), behaviour)]

    def plot(self) -> Figure:
        """What was won, drawn and lost, and the score with its interval; of payoffs their mean with its interval."""
        return plots.scores(f"{self.a} against {self.b}, {self.summary.games:,} games", [(self.a, self.summary)])

    def __repr__(self) -> str:
        return f"Evaluation({self.a!r} {self.summary.line(self.b)})"


@settings_kept()
def evaluate(
    a: str,
    against: str,
    games: int = 100,
    *,
    seed: int = 0,
    greedy: bool = False,
    env: object = None,
    bots: object = None,
    policy: object = None,
    device: str = "auto",
    on: str | None = None,
    store: str | Path = DEFAULT_STORE,
    say: Callable[[str], None] | None = None,
) -> Evaluation:
    """Plays A against B, seats swapped in pairs that share a seed, and keeps the matches in the store if there is one.

    Args:
        a, against: names of agents (see `find_agent`).
        games: an even number.
        seed: of the matches and of the actions drawn.
        greedy: both sides play their likeliest action; otherwise both sample, as in training.
        env: the game (docs/bring.md); needed between two bots, and where its code must be named again.
        bots, policy: custom parts, as for `league.train`, that are met first here or must be named again; a mapping of
            names to bots may have some that do not play.
        device: where nets run.
        on: a Ray cluster whose cores play, as of `league.train`; the games are others than those of one process, and
            the same for any size of the cluster.
        store: its folder.
        say: receives a line when play begins, after all checks.

    Raises:
        UsageError: an unknown agent, the same one twice, agents of different games, an odd number of games, a seed out
            of range, or no such device.
        StoreError: a name is a run's and there is no store, or it cannot be used.
        SnapshotError: an agent's files are missing or damaged.
    """
    check_games(games)
    check_seed(seed)
    where = Where(env, bots, policy, device, store, say)
    opened = where.open(a, against)
    meeting = where.gather(opened, a, against)
    first, second = meeting.sides
    check_different(a, against, meeting)
    if say is not None:
        say(f"playing {games} games of {first.label} against {second.label}")
    name = unique_name("evaluation")
    with ExitStack() as stack:
        how, pairings = play_pairings, [(0, 1, games, seed)]
        if on is not None:
            how, pairings = stack.enter_context(players(on, where, meeting)), shares(games, seed)
        rows = None if opened is None else stack.enter_context(opened.evaluations())
        results = how(meeting, pairings, run=name, update=0, greedy=greedy)
        if rows is not None:
            introduce(rows, meeting)
            rows.add_matches(results)
    summary = summarise(results, first.agent_id, meeting.spec.payoff_bound)
    seeds = tuple(result.seed for result in results)
    return Evaluation(name if opened else None, first.label, second.label, seed, summary, seeds)
