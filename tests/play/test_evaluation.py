"""Evaluation: exactly N games in seat-swapped pairs, every row its share, many pairings at once, honest intervals."""

import dataclasses
from collections import Counter
from typing import Any

import pytest
import torch
from scipy.stats import binomtest

from league.envs import registry
from league.errors import UsageError
from league.maths.record import wilson
from league.play import evaluation, opponents
from league.play.evaluation import play, shares
from league.play.graphs import StepGraphs
from league.play.opponents import stacked_shape as opponents_shape
from league.play.pairings import Contestant, Pairing
from league.play.summaries import MAX_PAIRS, summarise
from league.policies.actor_critic import ActorCritic, Architecture
from league.policies.stacked import StackedPolicy
from league.types import MatchBatch, MatchResult, Origin
from tests.helpers.capturing import COMPILED, Double

SHORT: dict[str, Any] = {"time_limit_seconds": 5.0, "stocks": 1}
BASED, RANDOM = Contestant("bot:based"), Contestant("bot:random")


def meet(a: Contestant, *opponents: Contestant, games: int, seed: int = 0) -> list[MatchResult]:
    """Short brawl matches of one contestant against each of the others."""
    return play_all([Pairing(a, b, games, seed + k) for k, b in enumerate(opponents)])


def play_all(pairings: list[Pairing], **options: Any) -> list[MatchResult]:
    """Short brawl matches, all pairings side by side."""

    def make(rows: int) -> MatchBatch:
        return registry.make("brawl", rows=rows, threads=1, options=SHORT)

    return play(make, pairings, Origin("e", "g"), update=3, **options)


def nets(count: int, dtype: torch.dtype = torch.float64) -> list[Contestant]:
    """Small networks of one architecture that press different keys, precise enough to play alike in any batch."""
    spec = registry.spec("brawl", SHORT)
    found = []
    for i in range(count):
        torch.manual_seed(i)
        sizes = Architecture(spec.obs_size, spec.opponent_slice, spec.action, True, 1, 2, 16, 16, 4, 2, 16, 16, (8,))
        net = ActorCritic(sizes).requires_grad_(False)
        net.actor[-1].weight.mul_(200)
        found.append(Contestant(f"net-{i}", _Precise(net.to(dtype), dtype), sizes))
    return found


class _Precise:
    """A network that is given its observations in its own precision."""

    def __init__(self, net: ActorCritic, dtype: torch.dtype) -> None:
        self.net, self.dtype = net, dtype
        self.rows: list[int] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.net, name)

    def step(self, obs: torch.Tensor, *arguments: Any, **options: Any) -> Any:
        """As the network's, and remembers how many rows each call had."""
        self.rows.append(len(obs))
        return self.net.step(obs.to(self.dtype), *arguments, **options)


class _PreciseStack(StackedPolicy):
    """A stack that is given its observations in double precision."""

    def step(self, obs: torch.Tensor, *arguments: Any, **options: Any) -> Any:
        return super().step(obs.double(), *arguments, **options)


@pytest.mark.parametrize("games", [2, 10, 2 * MAX_PAIRS, 2 * MAX_PAIRS + 6])
def test_every_seed_is_played_in_both_seatings(games: int) -> None:
    results = meet(BASED, RANDOM, games=games)
    assert len(results) == games == len({(r.row, r.ordinal) for r in results})
    seatings = Counter((result.seed, result.agents) for result in results)
    seeds = {result.seed for result in results}
    assert len(seeds) == games // 2
    for seed in seeds:
        assert seatings[seed, ("bot:based", "bot:random")] == seatings[seed, ("bot:random", "bot:based")] == 1
    a_row = Counter(result.row for result in results).values()
    assert max(a_row) - min(a_row) <= 1, "rows with short matches must not play more of them"


def test_seats_and_names_do_not_matter() -> None:
    forth, back = meet(BASED, RANDOM, games=12), meet(RANDOM, BASED, games=12)
    key = {(r.seed, r.agents): (r.winner, r.ticks, r.metrics) for r in forth}
    assert {(r.seed, r.agents): (r.winner, r.ticks, r.metrics) for r in back} == key
    assert summarise(forth, "bot:based").score == pytest.approx(1 - summarise(back, "bot:random").score)


def test_many_pairings_are_one_pairing_after_the_other() -> None:
    a, b, c = nets(3)
    pairings = [
        Pairing(a, b, 6, 11),
        Pairing(c, BASED, 2 * MAX_PAIRS + 4, 12),
        Pairing(RANDOM, BASED, 8, 13),
        Pairing(b, c, 4, 14),
        Pairing(c, a, 6, 15),
    ]
    together = play_all(pairings, greedy=True)
    row = 0
    for pairing in pairings:
        alone = play_all([pairing], greedy=True)
        width = 1 + max(result.row for result in alone)
        found = [r for r in together if row <= r.row < row + width]
        assert [dataclasses.replace(r, row=r.row - row) for r in found] == alone
        row += width
    assert len(together) == sum(pairing.games for pairing in pairings) == len({(r.row, r.ordinal) for r in together})


class _Counting(StepGraphs[Any, Any]):
    """Graphs of a double that runs on a CPU."""

    def __init__(self, generator: torch.Generator) -> None:
        self.double = Double(generator)
        recorder: Any = self.double
        super().__init__(generator, "float32", print, recorder)


@pytest.fixture
def as_on_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nets play by torch's own operations, split over slots and padded as on CUDA."""
    cuda = torch.device("cuda")
    for module in (opponents, evaluation):
        monkeypatch.setattr(module, "stacked_shape", lambda nets, rows, _: opponents_shape(nets, rows, cuda))
    monkeypatch.setattr(evaluation, "shares", lambda counts, _: shares(counts, cuda))
    monkeypatch.setattr(evaluation, "MAX_PADDING", 4.0)
    for name in COMPILED:
        monkeypatch.setattr(f"league.policies.kernels.{name}.is_plain", lambda *tensors: False)


def crowded() -> list[Pairing]:
    """One net against a bot and two nets, one of which has few rows: it fills several slots of a stack."""
    a, b, c = nets(3)
    return [Pairing(a, BASED, 24, 1), Pairing(a, b, 8, 2), Pairing(a, c, 2, 3)]


def test_a_net_that_has_most_rows_fills_several_slots(as_on_cuda: None) -> None:
    stacks: list[_PreciseStack] = []
    steps: list[tuple[int, int]] = []

    class Watched(_PreciseStack):
        def step(self, obs: torch.Tensor, *arguments: Any, num_slots: int, **options: Any) -> Any:
            steps.append((len(obs), num_slots))
            return super().step(obs, *arguments, num_slots=num_slots, **options)

    def make_stack(like: Any) -> _PreciseStack:
        stacks.append(Watched(like.net, 1))
        return stacks[-1]

    assert play_all(crowded(), greedy=True, make_stack=make_stack) == play_all(crowded(), greedy=True)
    assert len(stacks) == 1 and max(slots for _, slots in steps) > 3
    most = 2 * (34 + 8 + 2) + max(slots for _, slots in steps) * opponents.ROW_STEP
    assert max(entries for entries, _ in steps) <= most


def test_graphs_play_what_plain_calls_play(as_on_cuda: None) -> None:
    made: list[_Counting] = []

    def make_graphs(generator: torch.Generator) -> _Counting:
        made.append(_Counting(generator))
        return made[-1]

    options: dict[str, Any] = {"make_stack": lambda like: _PreciseStack(like.net, 1)}
    plain = play_all(crowded(), **options)
    assert play_all(crowded(), **options, make_graphs=make_graphs) == plain
    assert made[0].double.replays > 4 * made[0].double.captures > 0


def test_sampled_games_are_the_same_again() -> None:
    a, b = nets(2)
    first = play_all([Pairing(a, b, 4, 1), Pairing(b, BASED, 4, 2)])
    assert first == play_all([Pairing(a, b, 4, 1), Pairing(b, BASED, 4, 2)])
    other = play_all([Pairing(a, b, 4, 1), Pairing(b, BASED, 4, 3)])
    assert [r.seed for r in first if r.row < 4] == [r.seed for r in other if r.row < 4]
    assert [r.metrics for r in first if r.row < 4] != [r.metrics for r in other if r.row < 4], "other actions are drawn"
    assert {r.sampling for r in first} == {"sample"} and {
        r.sampling for r in play_all([Pairing(a, b, 2, 1)], greedy=True)
    } == {"greedy"}


def test_summary_counts_from_as_side() -> None:
    """Wins, draws, losses and means are A's whichever seat it had."""
    results = meet(BASED, RANDOM, games=20)
    summary = summarise(results, "bot:based")
    wins = sum(r.winner >= 0 and r.agents[r.winner] == "bot:based" for r in results)
    draws = sum(r.winner < 0 for r in results)
    assert (summary.wins, summary.draws, summary.losses) == (wins, draws, 20 - wins - draws)
    dealt = [r.metrics["damage_dealt"][r.agents.index("bot:based")] for r in results]
    assert summary.metrics["damage_dealt"][0] == pytest.approx(sum(dealt) / 20)
    assert sum(summary.end_reasons.values()) == 20 and summary.lower < summary.score < summary.upper


def test_wilson_interval_has_the_published_values() -> None:
    """Newcombe 1998 (Statistics in Medicine 17:857), table I, method 3: 81/263, 15/148, 0/20, 1/29."""
    published = {
        (81, 263): (0.2553, 0.3662),
        (15, 148): (0.0624, 0.1605),
        (0, 20): (0.0, 0.1611),
        (1, 29): (0.0061, 0.1718),
    }
    for (successes, trials), interval in published.items():
        assert wilson(successes / trials, trials) == pytest.approx(interval, abs=5e-5)
        exact = binomtest(successes, trials).proportion_ci(method="wilson")
        assert wilson(successes / trials, trials) == pytest.approx((exact.low, exact.high))


@pytest.mark.parametrize("games", [0, -2, 7])
def test_odd_or_no_games_are_refused(games: int) -> None:
    with pytest.raises(UsageError, match=f"games={games}: .*even"):
        meet(BASED, RANDOM, games=games)
