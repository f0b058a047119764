"""Games with a payoff: evaluations, ratings, gates and samplers score by it. Known values of Kuhn and Leduc poker."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import league
from league.arena.gating import GateTest
from league.arena.tournaments import tournament
from league.envs import registry
from league.envs.classic import kuhn
from league.envs.classic.poker import betting, simple_bots
from league.errors import ContractError, LeagueError, UsageError
from league.maths.nashconv import margins
from league.pool.pool import Results
from league.store.store import Store
from league.testing import check_game
from league.types import GameSpec, MatchResult, Utility
from tests.helpers.games import SUMS as GAME
from tests.helpers.refusals import refusal
from tests.helpers.stores import keeping_store
from tests.maths.test_nashconv import KUHN, of_bot

RAISER = """
def raiser(observation, legal, rng):
    return 3 if 3 in legal else 2 if 2 in legal else legal[0]
"""
"""Kuhn poker: bets and raises where it can, else calls. It loses 1/9 chip a match to an equilibrium."""


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder with the bot in a file."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(RAISER, encoding="utf-8")
    return tmp_path


def made(path: Path) -> Path:
    """A new store."""
    return keeping_store(path).path


def exact() -> dict[tuple[str, str], float]:
    """What each of Kuhn's own bots is paid a match against each other, from the game's tree."""
    table = betting(kuhn.RULES)
    bots = simple_bots(kuhn.RULES, table) | {"nash": kuhn.equilibrium(table, kuhn.Options().bluff)}
    gains = margins(KUHN, np.stack([of_bot(KUHN, bot) for bot in bots.values()]))
    return {(a, b): float(gains[i, j]) for i, a in enumerate(bots) for j, b in enumerate(bots)}


def test_a_tournament_of_kuhn_finds_the_exact_payoffs(user: Path) -> None:
    """Every interval holds the value of the tree; `nash` is ahead of `call`, which wins as many hands as it."""
    played = tournament(["bot:nash"], bots=True, games=400, env="kuhn", device="cpu", store=user / "s")
    truth = exact()
    assert played.unit == "payoff" and len(played.encounters) == 6
    for met in played.encounters:
        assert met.payoff is not None
        assert met.payoff.lower <= truth[met.a[4:], met.b[4:]] <= met.payoff.upper
    order = [standing.name for standing in played.standings]
    assert order.index("bot:nash") < order.index("bot:call")
    mean = {agent: np.mean([truth[agent, other] for other in ("fold", "call", "random", "nash")]) for agent, _ in truth}
    for standing in played.standings:
        assert standing.rating == pytest.approx(mean[standing.name[4:]], abs=0.12)


def test_boards_of_a_store_agree(user: Path) -> None:
    """Leaderboard, matchup and payoff table rate by payoff, from the store what the tournament had in memory."""
    other = made(user / "t")
    tournament(["bot:nash", "bot:call", "bot:fold"], games=100, env="kuhn", device="cpu", store=made(user / "s"))
    (board,) = league.leaderboard(store=user / "s").boards
    assert board.unit == "payoff" and board.prior == 0.0
    assert abs(np.mean([entry.rating for entry in board.entries])) < 1e-9
    evaluated = league.evaluate("bot:nash", "bot:fold", 400, env="kuhn", device="cpu", store=other).summary
    assert evaluated.payoff is not None
    matched = league.matchup("bot:nash", "bot:fold", store=other)
    assert matched.unit == "payoff" and matched.record.payoff == evaluated.payoff
    assert matched.difference is not None and matched.predicted is None
    assert matched.difference.mean == pytest.approx(evaluated.payoff.mean, abs=1e-9)
    table = league.payoff(store=other)
    places = [row.name for row in table.rows]
    score = table.score[places.index("bot:nash")][places.index("bot:fold")]
    assert table.unit == "payoff" and score == pytest.approx(evaluated.payoff.mean, abs=1e-9)


def test_a_raiser_wins_hands_and_fails_the_gate(user: Path) -> None:
    """Against an equilibrium of Kuhn's: by hands it passed in 64 games; it loses 1/9 chip a match."""
    given: dict[str, Any] = {"env": "kuhn", "bots": "mine.py:raiser", "max_games": 4000, "device": "cpu"}
    found = league.gate("bot:raiser", "bot:nash", **given, store=user / "s")
    assert found.score > 0.5 and found.decision == "failed" and found.elo is None
    assert found.payoff is not None and found.payoff.lower <= -1 / 9 <= found.payoff.upper
    assert league.gate("bot:nash", "bot:raiser", **given, store=user / "s").decision == "passed"


def test_gates_refuse_the_other_kind_of_test(user: Path) -> None:
    """Elo points in a game with a utility, chips in one without, and payoffs of no known bound."""
    with pytest.raises(UsageError, match="kuhn pays payoff, which is tested; pass --payoff0, --payoff1"):
        league.gate("bot:call", "bot:nash", env="kuhn", test=GateTest(elo1=20.0), store=user / "s")
    with pytest.raises(UsageError, match=r"payoff1=0\.5: brawl pays nothing beside the win"):
        league.gate("bot:based", "bot:constant", env="brawl", test=GateTest(payoff1=0.5), store=user / "s")
    spec = registry.spec("kuhn", {})
    unknown = GameSpec(**{**vars(spec), "utility": Utility("payoff")})
    with pytest.raises(UsageError, match="pass --payoff-bound X"):
        GateTest().of(unknown)
    assert GateTest(payoff_bound=4.0).of(unknown).upper == pytest.approx(np.log(20.0))
    for game in (spec, unknown):
        for bound in (0.0, -4.0):
            with pytest.raises(UsageError, match=f"payoff_bound={bound:g}: .* above 0"):
                GateTest(payoff_bound=bound).of(game)


def test_a_match_that_pays_more_than_the_bound_is_refused(user: Path) -> None:
    """It has no place in an interval; the line names the bound."""
    text = GAME.replace(
        "class Sums(Match):", "class Sums(Match):\n    reward_terms, utility = ('coins',), Utility('coins', 1.0)"
    )
    text = text.replace("self.steps += 1", "self.steps += 1\n        self.reward(0, 'coins', 4)")
    bots = "\nPYTHON_BOTS = {'low': lambda observation, legal, rng: legal[0]}\n"
    for name, bot, words in (
        ("a", bots, "a match pays 6, more than utility.bound=1"),
        ("b", "\nPYTHON_BOTS = {'low': 5}\n", "to functions"),
    ):
        (user / f"{name}.py").write_text("from league.types import Utility\n" + text + bot, encoding="utf-8")
        with pytest.raises(LeagueError, match=words):
            league.evaluate("bot:low", "bot:random", games=2, env=f"{name}.py", store=user / "s")
    with pytest.raises(ContractError, match=r"a match pays \d+, more than utility.bound=1"):
        check_game("a.py")


def test_a_bot_that_plays_nowhere_is_refused(user: Path) -> None:
    """By name, also where an exploiter learns."""
    given: dict[str, Any] = {"env": "kuhn", "bots": "mine.py:raiser", "store": user / "s"}
    calls = (
        lambda: league.evaluate("bot:call", "bot:nash", games=2, **given),
        lambda: league.gate("bot:call", "bot:nash", **given),
        lambda: league.watch("bot:call", "bot:nash", "w.html", **given),
        lambda: league.train(against="bot:call", **given),
    )
    for call in calls:
        assert "bot=raiser: bot:raiser is not among bot:call" in refusal(call)
    given["bots"] = {"raiser": "mine.py:raiser"}
    assert league.evaluate("bot:call", "bot:nash", games=2, **given).b == "bot:nash", "a mapping may name others, too"


def test_a_gate_ends_at_a_payoff_beyond_its_bound(user: Path) -> None:
    """A deal of Kuhn pays up to 2 chips; the store has the gate as broken off, with no game that it does not have."""
    store = made(user / "s")
    with pytest.raises(UsageError, match="payoff_bound=1: a match paid 2"):
        league.gate("bot:nash", "bot:call", env="kuhn", device="cpu", test=GateTest(payoff_bound=1.0), store=store)
    (row,) = Store.open(store).gates()
    assert (row.decision, row.games) == ("broken off", 0)


def result(payoff: float | None, winner: int, **more: Any) -> MatchResult:
    """A training match of the learner `me` in seat 0."""
    values: dict[str, Any] = {"run": "r", "kind": "training", "update": 0, "row": 0, "ordinal": 0, "game_id": "g"}
    values |= {"agents": ("me", "it"), "seed": 0, "end_reason": "over", "steps": 1, "ticks": 1, "sampling": "sample"}
    return MatchResult(**values, winner=winner, payoff=payoff, **more)


def test_samplers_see_what_is_paid() -> None:
    """PFSP's win-rate is the mean payoff on the scale of the largest so far: a large loss outweighs many wins."""
    results = Results(1e9, 1)
    for _ in range(3):
        results.add(result(1.0, 0), "me", "me0")
    results.add(result(-5.0, 1), "me", "me0")
    assert results.own(["it"]).sum() == pytest.approx(4.0)
    for _ in range(60):
        results.add(result(-5.0, 1), "me", "me0")
        results.add(result(1.0, 0), "me", "me0")
    (rate,) = results.win_rates(["it"], ["me0"])
    assert rate == pytest.approx(0.5 + (-2.0 / 5.0) / 2.0, abs=0.05)
    again = Results(1e9, 1)
    again.load_state_dict(results.state_dict())
    assert again.state_dict() == results.state_dict()
    plain = Results(1e9, 1)
    plain.add(result(None, -1), "me", "me0")
    assert plain.own(["it"]).tolist() == [[0.0, 1.0, 0.0]]


def test_an_exploiter_of_an_equilibrium_finds_nothing(user: Path) -> None:
    """`nash` of Kuhn has NashConv 0, so winning more hands than it exploits nothing; `fold` gives half a chip."""
    quick = ["agent.encoder_layers=1", "agent.encoder_width=16", "agent.encoder_heads=2", "agent.lstm_size=16"]
    given: dict[str, Any] = {"games": 400, "env": "kuhn", "device": "cpu", "overrides": quick}
    assert league.train(against="bot:nash", steps=2048, **given, store=user / "s").exploitability == 0.0
    some = league.train(against="bot:fold", steps=4096, **given, store=user / "s")
    assert some.exploitability is not None and 0.25 < some.exploitability <= 1.0
    assert some.summary is not None and some.summary.payoff is not None and some.summary.payoff.bound == 2.0
