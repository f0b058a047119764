"""Evaluation: exactly N games in seat-swapped pairs, every row its share, many pairings at once, honest intervals."""

import dataclasses
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
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
from league.types import DRAW, MatchBatch, MatchResult, Origin
from tests.helpers.capturing import COMPILED, Double
from tests.helpers.stores import empty_store

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
        """As the stack's."""
        return super().step(obs.double(), *arguments, **options)


@pytest.mark.parametrize("games", [2, 10, 2 * MAX_PAIRS, 2 * MAX_PAIRS + 6])
def test_every_seed_is_played_in_both_seatings(games: int) -> None:
    """N games are N / 2 pairs of one seed with the seats exchanged, keys unique, no row favoured."""
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
    """A against B is B against A: same seeds, same matches, the exchanged outcome."""
    forth, back = meet(BASED, RANDOM, games=12), meet(RANDOM, BASED, games=12)
    key = {(r.seed, r.agents): (r.winner, r.ticks, r.metrics) for r in forth}
    assert {(r.seed, r.agents): (r.winner, r.ticks, r.metrics) for r in back} == key
    assert summarise(forth, "bot:based").score == pytest.approx(1 - summarise(back, "bot:random").score)


def test_opponents_are_met_side_by_side() -> None:
    """Each opponent has its games, in rows of its own, and every result names who played whom."""
    rusher = Contestant("bot:rusher")
    results = meet(BASED, RANDOM, rusher, games=2 * MAX_PAIRS + 6)
    keys = {(result.row, result.ordinal) for result in results}
    assert len(keys) == len(results) == 2 * (2 * MAX_PAIRS + 6)
    for opponent, rows in ((RANDOM, range(2 * MAX_PAIRS)), (rusher, range(2 * MAX_PAIRS, 4 * MAX_PAIRS))):
        met = [result for result in results if opponent.agent_id in result.agents]
        assert len(met) == 2 * MAX_PAIRS + 6 and {result.row for result in met} == set(rows)
        assert Counter(result.agents.index("bot:based") for result in met) == {0: len(met) // 2, 1: len(met) // 2}
    scores = [summarise([r for r in results if o.agent_id in r.agents], "bot:based").score for o in (RANDOM, rusher)]
    assert scores[0] > scores[1] + 0.1


def test_same_seed_same_matches() -> None:
    """A seed gives the same matches again, another seed others."""
    assert meet(BASED, RANDOM, games=8, seed=1) == meet(BASED, RANDOM, games=8, seed=1)
    assert meet(BASED, RANDOM, games=8, seed=1) != meet(BASED, RANDOM, games=8, seed=2)


def test_many_pairings_are_one_pairing_after_the_other() -> None:
    """Bots' and greedy nets' games in one batch are, row by row, those that each pairing plays by itself."""
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


def test_a_net_plays_all_its_rows_in_one_call() -> None:
    """A net in several pairings steps once a decision, for all its rows and never for rows that are done."""
    a, b, c = nets(3)
    results = play_all([Pairing(a, b, 4, 1), Pairing(c, a, 4, 2), Pairing(a, BASED, 4, 3)])
    for who, rows in ((a, 12), (b, 4), (c, 4)):
        mine = [r.steps for r in results if who.agent_id in r.agents]
        assert isinstance(who.policy, _Precise)
        assert who.policy.rows[0] == rows and len(who.policy.rows) == max(mine)
        assert sum(who.policy.rows) == sum(mine), "as many decisions as its matches have"


def test_stacked_nets_play_the_same_games() -> None:
    """Nets of one architecture in one call play what they play net by net; one that is crowded is not stacked."""
    a, b, c = nets(3)
    stacks: list[StackedPolicy] = []

    def make_stack(like: Any) -> StackedPolicy:
        stacks.append(_PreciseStack(like.net, 1))
        return stacks[-1]

    pairings = [Pairing(a, b, 4, 1), Pairing(b, c, 4, 2), Pairing(c, a, 4, 3), Pairing(RANDOM, BASED, 2, 4)]
    assert play_all(pairings, greedy=True, make_stack=make_stack) == play_all(pairings, greedy=True)
    assert len(stacks) == 1
    play_all([Pairing(a, BASED, 12, 1), Pairing(b, c, 2, 2)], greedy=True, make_stack=make_stack)
    assert len(stacks) == 1, "12 rows of one net would make 12 of each"


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
    """On CUDA's shapes the games are those of net by net; no step has more than twice the rows, but for rounding."""
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


@pytest.mark.parametrize("counts", [[320, 64], [2048, 1, 1, 1, 1, 1], [7], [1] * 17, [1000, 3, 999, 1], [64] * 16])
def test_padding_is_at_most_twice_the_rows(counts: list[int]) -> None:
    """With the fewest slots that do: with one fewer for the crowded nets there would be more padding."""
    slots = shares(counts, torch.device("cuda"))
    width = max(-(-count // parts) for count, parts in zip(counts, slots, strict=True))
    assert sum(slots) * width <= 2 * sum(counts) and all(parts >= 1 for parts in slots)
    if max(slots) > 1:
        wider = width + 1
        assert sum(-(-count // wider) for count in counts) * wider > 2 * sum(counts)
    assert shares(counts, torch.device("cpu")) == [1] * len(counts)


def test_graphs_play_what_plain_calls_play(as_on_cuda: None) -> None:
    """Sampled games through graphs are bit for bit those of the same steps as they are, though groups come again."""
    made: list[_Counting] = []

    def make_graphs(generator: torch.Generator) -> _Counting:
        made.append(_Counting(generator))
        return made[-1]

    options: dict[str, Any] = {"make_stack": lambda like: _PreciseStack(like.net, 1)}
    plain = play_all(crowded(), **options)
    assert play_all(crowded(), **options, make_graphs=make_graphs) == plain
    assert made[0].double.replays > 4 * made[0].double.captures > 0


def test_a_rows_next_match_begins_without_memory() -> None:
    """A net's second match in a row is the one that it plays from that seed with nothing to remember."""
    (net,) = nets(1)
    results = play_all([Pairing(net, BASED, 2 * MAX_PAIRS + 4, 5)], greedy=True)
    later = [result for result in results if result.ordinal]
    assert len(later) == 4
    for result in later:
        seat = result.agents.index("net-0")
        batch = registry.make("brawl", rows=1, threads=1, options=SHORT)
        batch.controllers[0, 1 - seat] = batch.spec.bots.index("based")
        batch.reset(np.array([result.seed], np.uint64))
        assert net.policy is not None
        state = net.policy.initial_state(1)
        while not batch.terminated[0]:
            obs, mask = torch.from_numpy(batch.obs[:, seat]), batch.mask
            assert mask is not None
            action = net.policy.step(obs, state, mask=torch.from_numpy(mask[:, seat]), greedy=True)[0]
            batch.actions[:, seat] = action.numpy()
            batch.step()
        metrics = batch.result["metrics"][0].T.tolist()
        assert (result.winner, result.ticks) == (batch.result["winner"][0], batch.result["ticks"][0])
        assert result.metrics == dict(zip(batch.spec.metrics, map(tuple, metrics), strict=True))


def test_sampled_games_are_the_same_again() -> None:
    """The same pairings with their seeds give the same sampled games; another seed others."""
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


def test_stored_reward_terms_are_a_recount_of_the_steps(tmp_path: Path) -> None:
    """SQL finds for both seats of every evaluation match what the same match, played again alone, sums to."""
    results = meet(BASED, RANDOM, games=2 * MAX_PAIRS + 6)
    assert any(result.ordinal for result in results), "rows that play a second match"
    store = empty_store(tmp_path)
    store.add_matches(results)
    store.flush(force=True)
    _, rows = store.query("SELECT seed, seat0_agent, seat1_agent, rewards FROM match WHERE kind = 'evaluation'")
    fired: set[str] = set()
    for seed, *agents, rewards in rows:
        batch = registry.make("brawl", rows=1, threads=1, options=SHORT)
        batch.controllers[0] = [batch.spec.bots.index(agent.removeprefix("bot:")) for agent in agents]
        batch.reset(np.array([seed], np.uint64))
        sums = np.zeros((2, len(batch.spec.reward_terms)))
        while not batch.terminated[0]:
            batch.step()
            sums += batch.reward_terms[0]
        assert rewards == dict(zip(batch.spec.reward_terms, sums.T.tolist(), strict=True))
        fired |= {term for term, pair in rewards.items() if pair[0] and pair[1]}
    assert len(rows) == len(results) and fired >= {"damage_dealt", "attack", "approach", "win"}


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
    """One line that names the number and the rule."""
    with pytest.raises(UsageError, match=f"games={games}: .*even"):
        meet(BASED, RANDOM, games=games)


def test_a_match_is_scored_from_either_seat() -> None:
    """A win is 1, a draw 1/2, a loss 0, for whoever sat there; nobody else has a score."""
    match = MatchResult("r", "evaluation", 0, 0, 0, "g", ("a", "b"), 1, 1, "over", 1, 1, "sample")
    assert (match.score_of("a"), match.score_of("b")) == (0.0, 1.0)
    drawn = replace(match, winner=DRAW)
    assert (drawn.score_of("a"), drawn.score_of("b")) == (0.5, 0.5)
    with pytest.raises(ValueError, match="not in tuple"):
        match.score_of("c")
