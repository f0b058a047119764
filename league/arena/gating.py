"""The gate: a sequential test whether one agent is stronger than another, and a run's champion, which it promotes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from league.arena.agents import (
    STOPPED,
    Meeting,
    Where,
    check_different,
    check_seed,
    introduce,
    is_path,
    play_pairings,
    sampling_of,
)
from league.boards import plots
from league.boards.naming import best_rated, find_named
from league.errors import DEFAULT_STORE, StoreError, UsageError
from league.maths.means import Mean, MeanTest
from league.maths.sprt import Sprt, elo_interval, pair_counts
from league.play.summaries import check_games, summarise
from league.runtime.phases import advance
from league.runtime.process import settings_kept
from league.runtime.signals import put_off
from league.store.folder import Folder
from league.store.locks import LOCK, held, is_held
from league.store.rows import Decision, GateRow, SnapshotRow, unique_name
from league.store.store import Store
from league.types import BOT_PREFIX, SEATS, GameSpec, MatchResult
from league.types.results import Grid, Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BATCH_PAIRS = 16
"""Pairs played side by side between two looks at the test."""
MAX_GAMES = 1000


@dataclass(frozen=True, repr=False)
class GateResult(Result):
    """What a gate came to; `gate` is the name of its matches in the store, None where there is no store.

    decision: `passed`, A is stronger (H1 of `test`); `failed`, it is not (H0); `undecided`, the games were used up.
    llr: what `test` decides by: the log-likelihood ratio, of payoffs the logarithm of a bet's capital (`MeanTest`).
    pairs: how many pairs made each score of A, both lost to both won. elo: logistic points of A over B as these games
    alone have them, with a 95 % interval; None where it is not finite, or payoffs are tested. payoff: A's mean payoff a
    match; None in a game of wins, draws and losses. champion: the run whose champion's title was at
    stake. attempt: how often that was tried since the last promotion, this time included; it sets `test.alpha`.
    """

    gate: str | None
    a: str
    b: str
    decision: Decision
    is_promoted: bool
    test: Sprt | MeanTest
    llr: float
    lower: float
    upper: float
    games: int
    max_games: int
    pairs: tuple[int, int, int, int, int]
    score: float
    elo: tuple[float, float, float] | None
    payoff: Mean | None
    champion: str | None
    attempt: int
    seed: int

    def grids(self) -> list[Grid]:
        """Its numbers in one row; in a game with a payoff the mean payoff with its interval in the score's place."""
        (grid,), paid = super().grids(), self.payoff
        shown = dict(zip(grid.columns, grid.rows[0], strict=True))
        if paid is not None:
            del shown["score"], shown["elo"]
            shown |= {"payoff": paid.mean, "payoff_lower": paid.lower, "payoff_upper": paid.upper}
        return [Grid(list(shown), [list(shown.values())])]

    def plot(self) -> Figure:
        """How many pairs of games made each score of A."""
        labels = ("both lost", "", "even", "", "both won")
        evidence = "LLR" if self.payoff is None else "log capital"
        return plots.counts(
            f"{self.a} against {self.b}: {self.decision}, {evidence} {self.llr:.2f}", labels, self.pairs
        )


@dataclass(frozen=True)
class GateTest:
    """What a gate is to test; None: the default of the game's kind.

    elo0, elo1, elo_model: of an `Sprt`, in games of wins, draws and losses. payoff0, payoff1, payoff_bound: of a
    `MeanTest`, in games with a utility. alpha, beta: of either.
    """

    elo0: float | None = None
    elo1: float | None = None
    elo_model: str | None = None
    payoff0: float | None = None
    payoff1: float | None = None
    payoff_bound: float | None = None
    alpha: float = 0.05
    beta: float = 0.05

    def of(self, spec: GameSpec) -> Sprt | MeanTest:
        """The test of a game.

        Raises:
            UsageError: an option of the other kind, an unknown bound of payoffs, or a test with impossible values.
        """
        utility = spec.utility
        others = ("payoff0", "payoff1", "payoff_bound") if utility is None else ("elo0", "elo1", "elo_model")
        for name in others:
            if (value := getattr(self, name)) is not None:
                what = "pays nothing beside the win" if utility is None else f"pays {utility.term}, which is tested"
                instead = "--elo0, --elo1" if utility is None else "--payoff0, --payoff1"
                raise UsageError(f"{name}={value}: {spec.name} {what}; pass {instead}")
        if utility is None:
            points = 0.0 if self.elo0 is None else self.elo0, 35.0 if self.elo1 is None else self.elo1
            return Sprt(*points, self.alpha, self.beta, self.elo_model or "logistic")  # type: ignore[arg-type]
        bound = utility.bound if self.payoff_bound is None else self.payoff_bound
        if bound is None:
            raise UsageError(
                f"payoff_bound: {spec.name} does not say how much a match can pay, which the test needs; pass"
                f" --payoff-bound X"
            )
        payoff0 = self.payoff0 or 0.0
        return MeanTest(
            payoff0, payoff0 + bound / 20.0 if self.payoff1 is None else self.payoff1, bound, self.alpha, self.beta
        )


def spent_alpha(alpha: float, attempt: int) -> float:
    """What attempt k = 1, 2, ... at a title may err: alpha / (k (k + 1)), which adds up to alpha over all attempts.

    So the chance that a champion ever loses its title to agents no stronger is at most alpha, however often it is tried
    (alpha spending by Bonferroni's inequality).
    """
    return alpha / (attempt * (attempt + 1))


@settings_kept()
def gate(
    a: str,
    b: str | None = None,
    *,
    test: GateTest | None = None,
    max_games: int = MAX_GAMES,
    seed: int = 0,
    greedy: bool = False,
    env: object = None,
    bots: object = None,
    policy: object = None,
    device: str = "auto",
    store: str | Path = DEFAULT_STORE,
    say: Callable[[str], None] | None = None,
) -> GateResult:
    """Plays A against B in pairs that share a seed, seats swapped, until `test` knows which holds or games run out.

    Without B, A is `RUN` or `RUN@STEP` and B the run's champion; where it has none yet, its best rated other snapshot
    (else its latest other). An A that passes against that agent is promoted: `RUN@best` is A from then on. Every
    attempt plays fresh games, and may err less than the one before (`spent_alpha`). Between other agents nothing is
    promoted and `test.alpha` is used as it is.

    The matches are kept in the store as evaluation rows, in batches, if there is one.

    Args:
        a, b: names of agents (see `league.arena.agents.find_agent`).
        test: the hypotheses and errors. In a game with a utility the payoff is tested (0 against a twentieth of the
            most that a match can pay, and 5 % each, if not given), in others Elo points (0 against 35 logistic ones).
        max_games: an even number.
        seed: of the matches and of the actions drawn, together with the attempt's number.
        greedy, env, bots, policy, device, store: as for `league.arena.evaluations.evaluate`.
        say: receives a line at the beginning and for each batch.

    Raises:
        UsageError: as `league.evaluate`; or without B, an A that is no run's snapshot, or is the champion; or a
            test of the other kind of game, or a match that pays more than the test's bound.
        StoreError, SnapshotError: as `league.evaluate`.
    """
    check_games(max_games, "max_games")
    check_seed(seed)
    where = Where(env, bots, policy, device, store, say)
    opened = where.open(a, *([] if b is None else [b]))
    snapshot = _snapshot(opened, a)
    incumbent = None if opened is None or snapshot is None else _incumbent(opened, snapshot)
    if b is None:
        b = _opponent(opened, a, snapshot, incumbent)
    meeting = where.gather(opened, a, b)
    check_different(a, b, meeting)
    chosen = (test or GateTest()).of(meeting.spec)
    is_at_stake = incumbent is not None and meeting.sides[1].agent_id == incumbent.agent_id
    row = _first_row(meeting, snapshot.run if snapshot and is_at_stake else None, chosen, seed, greedy)
    return _run(opened, meeting, _Trial(row, chosen), max_games, say)


def _run(
    store: Store | None, meeting: Meeting, trial: _Trial, max_games: int, say: Callable[[str], None] | None
) -> GateResult:
    run, champion = trial.row.run, None
    with ExitStack() as stack:
        if store is not None:
            end_broken_off(store)
            champion = store.champion(run) if run else None
            introduce(trial.begin(store, stack), meeting)
        try:
            decision = trial.play(meeting, max_games, say or (lambda _: None)) or "undecided"
            row = _came_to(trial.row, trial.pairs, trial.llr, decision)
            row = row if store is None else trial.end(store, row, champion)
        except BaseException:
            if store is not None:
                with suppress(StoreError):  # what ended the gate is the error to tell
                    trial.end(store, _came_to(trial.row, trial.pairs, trial.llr, "broken off"), champion)
            raise
    return trial.result(meeting, row, max_games, is_stored=store is not None)


def _first_row(meeting: Meeting, run: str | None, test: Sprt | MeanTest, seed: int, greedy: bool) -> GateRow:
    first, second = meeting.sides
    if isinstance(test, MeanTest):
        elo0, elo1, elo_model, bound = test.payoff0, test.payoff1, "payoff", test.bound
    else:
        elo0, elo1, elo_model, bound = test.elo0, test.elo1, test.elo_model, None
    return GateRow(
        gate=unique_name("gate"),
        game_id=meeting.game.game_id,
        run=run,
        challenger=first.agent_id,
        opponent=second.agent_id,
        attempt=1,
        elo0=elo0,
        elo1=elo1,
        elo_model=elo_model,
        bound=bound,
        alpha=test.alpha,
        beta=test.beta,
        seed=seed,
        sampling=sampling_of(greedy),
    )


class _Trial:
    """A gate's test as far as it has come: its games, the pairs of them by score, and the test's evidence."""

    def __init__(self, row: GateRow, test: Sprt | MeanTest) -> None:
        self.row, self.test = row, test
        self.games: list[MatchResult] = []
        self.pairs, self.llr = np.zeros(5, np.int64), 0.0
        self._folder: Folder | None = None

    def begin(self, store: Store, locks: ExitStack) -> Folder:
        """Makes its folder, whose lock `locks` gets; an attempt at a title has what is left of alpha."""
        run, alpha = self.row.run, self.test.alpha
        self.row, folder = store.begin_gate(
            self.row, lambda attempt: spent_alpha(alpha, attempt) if run else alpha, locks
        )
        self.test = replace(self.test, alpha=self.row.alpha)
        self._folder = folder
        return folder

    def end(self, store: Store, row: GateRow, champion: str | None) -> GateRow:
        """Writes its games and what it came to, as `Store.end_gate` does."""
        assert self._folder is not None
        self._folder.close()
        ended = store.end_gate(row, champion)
        store.write_catalogue()
        return ended

    def play(self, meeting: Meeting, max_games: int, say: Callable[[str], None]) -> Decision | None:
        """Plays until the test decides, or the games are used up."""
        row, test, (first, second) = self.row, self.test, meeting.sides
        title = f", attempt {row.attempt} at the title of {row.run}'s champion" if row.run else ""
        say(f"playing up to {max_games:,} games of {first.label} against {second.label}{title}")
        for batch, games in enumerate(_batches(max_games)):
            # Both words: a repeated seed plays fresh games at every attempt, and every batch has games of its own.
            drawn = np.random.SeedSequence([row.seed, row.attempt, batch]).generate_state(1, np.uint64)[0]
            is_greedy = row.sampling == "greedy"
            advance("games", 2 * int(self.pairs.sum()), max_games)
            pairing = 0, 1, games, int(drawn >> 1)
            results = play_pairings(meeting, [pairing], run=row.gate, update=batch, greedy=is_greedy)
            with put_off():  # what is stored is what is counted
                self.llr = _evidence(test, [*self.games, *results], first.agent_id)
                self.games += results
                self.pairs += pair_counts(_pairs(results, first.agent_id))
                if self._folder is not None:
                    self._folder.add_matches(results)
                    self._folder.flush()
            told = "LLR" if isinstance(test, Sprt) else "log capital"
            say(f"{2 * self.pairs.sum():,} games: {told} {self.llr:.2f} of {test.lower:.2f} to {test.upper:.2f}")
            if decision := test.decide(self.llr):
                return decision
        return None

    def result(self, meeting: Meeting, row: GateRow, max_games: int, *, is_stored: bool) -> GateResult:
        """What the caller is told; `row` is as the store has it."""
        (first, second), test = meeting.sides, self.test
        lost, one, two, three, won = counts = self.pairs.tolist()
        return GateResult(
            gate=row.gate if is_stored else None,
            a=first.label,
            b=second.label,
            decision=row.decision,
            is_promoted=row.is_promoted,
            test=test,
            llr=self.llr,
            lower=test.lower,
            upper=test.upper,
            games=row.games,
            max_games=max_games,
            pairs=(lost, one, two, three, won),
            score=(one + 2 * two + 3 * three + 4 * won) / (4 * sum(counts)),
            elo=elo_interval(counts) if isinstance(test, Sprt) else None,
            payoff=summarise(self.games, first.agent_id, meeting.spec.payoff_bound).payoff,
            champion=row.run,
            attempt=row.attempt,
            seed=row.seed,
        )


def end_broken_off(store: Store) -> None:
    """Writes of every gate whose process is gone that it was broken off, with what its stored games say.

    Raises:
        StoreError: the store cannot be used.
    """
    for row in store.gates():
        lock = store.path / row.gate / LOCK
        if row.decision != "running" or is_held(lock) is not False:
            continue
        with suppress(BlockingIOError), held(lock):
            _end_broken_off(store, row.gate)


def _end_broken_off(store: Store, gate: str) -> None:
    """Of one gate, whose lock is held; it may have ended since it was looked at."""
    for row in store.gates():
        if row.gate != gate or row.decision != "running":
            continue
        games = store.matches(row.gate, "evaluation")
        pairs = np.array(pair_counts(_pairs(games, row.challenger)))
        test: Sprt | MeanTest
        if row.bound is not None:
            test = MeanTest(row.elo0, row.elo1, row.bound, row.alpha, row.beta)
        else:
            test = Sprt(row.elo0, row.elo1, row.alpha, row.beta, row.elo_model)  # type: ignore[arg-type]  # as begun
        store.end_gate(_came_to(row, pairs, _evidence(test, games, row.challenger), "broken off"), None)


def _came_to(row: GateRow, pairs: npt.NDArray[np.int64], llr: float, decision: Decision) -> GateRow:
    is_promoted = row.run is not None and decision == "passed"
    return replace(row, games=int(2 * pairs.sum()), llr=llr, decision=decision, is_promoted=is_promoted)


def _snapshot(store: Store | None, name: str) -> SnapshotRow | None:
    """The snapshot of a run of the store that `name` stands for."""
    run, _, which = name.partition("@")
    if store is None or name.startswith(BOT_PREFIX) or is_path(name) or which == STOPPED:
        return None
    is_run = run in {row.run for row in store.runs()}
    return find_named(store, name) if is_run else None


def _incumbent(store: Store, challenger: SnapshotRow) -> SnapshotRow | None:
    """Who has the title that this snapshot may take: its run's champion, else the run's best rated other."""
    others = [
        row for row in store.snapshots(challenger.run) if row.agent_id != challenger.agent_id and row.pruned_at is None
    ]
    champion = store.champion(challenger.run)
    if not others or champion == challenger.agent_id:
        return None
    holder = champion or best_rated(store, challenger.run, but=challenger.agent_id)
    return next(row for row in others if row.agent_id == holder)


def _opponent(store: Store | None, a: str, snapshot: SnapshotRow | None, incumbent: SnapshotRow | None) -> str:
    """The name of the incumbent.

    Raises:
        UsageError: there is none.
    """
    if store is None or snapshot is None:
        raise UsageError(f"agent {a!r}: only a run's snapshot has a champion to meet; name B, too: league gate A B")
    if incumbent is not None:
        return f"{incumbent.run}@{incumbent.step}"
    is_champion = store.champion(snapshot.run) == snapshot.agent_id
    raise UsageError(
        f"{snapshot.run}@{snapshot.step} is {'the champion' if is_champion else 'the only snapshot'} of {snapshot.run};"
        f" train it further, or name B, too: league gate A B"
    )


def _batches(max_games: int) -> Sequence[int]:
    """The games of each batch."""
    whole, rest = divmod(max_games, SEATS * BATCH_PAIRS)
    return [SEATS * BATCH_PAIRS] * whole + [rest] * bool(rest)


def _pairs(results: Sequence[MatchResult], agent_id: str) -> list[tuple[float, float]]:
    """The agent's scores in the two games of each pair."""
    return [(one.score_of(agent_id), two.score_of(agent_id)) for one, two in _paired(results)]


def _paired(results: Sequence[MatchResult]) -> list[tuple[MatchResult, MatchResult]]:
    """The two games of each pair, those of two neighbouring rows with one ordinal, in the order of play."""

    def key(result: MatchResult) -> tuple[int, int, int]:
        return result.update, result.row // SEATS, result.ordinal

    return [(one, two) for _, (one, two) in groupby(sorted(results, key=key), key)]


def _evidence(test: Sprt | MeanTest, results: Sequence[MatchResult], agent_id: str) -> float:
    """What a test decides by, after these games."""
    if isinstance(test, Sprt):
        return test.llr(pair_counts(_pairs(results, agent_id)))
    return test.evidence([[game.payoff_of(agent_id) or 0.0 for game in pair] for pair in _paired(results)])
