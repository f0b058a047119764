"""What `benchmarks.styles` reads out of matches, and a trial end to end."""

from __future__ import annotations

import argparse
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.styles import TRIALS, liking_of, measure, score, stocks, summary
from league.envs import registry
from league.envs.brawl.styles import FAVOURITES
from league.play.evaluation import play
from league.play.pairings import Contestant, Pairing
from league.types import DRAW, MatchResult, Origin

TRIAL = TRIALS["brawl"]
MATCH = MatchResult("r", "evaluation", 0, 0, 0, "g", ("me", "bot:based"), 7, 0, "knock_out", 1, 3, "sample")


def met(bot: str, winner: int, left: tuple[float, float], seat: int = 0) -> MatchResult:
    """A match of `me` in `seat`."""
    agents = ("me", f"bot:{bot}") if seat == 0 else (f"bot:{bot}", "me")
    return replace(MATCH, agents=agents, winner=winner, metrics={"stocks_left": left})


def test_a_match_is_read_from_the_agents_own_seat() -> None:
    """Score and stocks are those of the agent, wherever it sits."""
    assert [score(met("based", winner, (1, 0)), 0) for winner in (0, 1, DRAW)] == [100.0, 0.0, 50.0]
    assert score(met("based", 1, (0, 2)), 1) == 100.0
    assert (stocks(met("based", 0, (2, 0)), 0), stocks(met("based", 0, (2, 0)), 1)) == (2, -2)


def test_opponents_count_alike_however_often_they_played() -> None:
    """The mean is over opponents, with the interval that their spreads give."""
    results = [met("based", winner, (1, 0)) for winner in (0, 0, 1, 1)] + [met("zoner", 0, (1, 0)) for _ in range(8)]
    found = summary(replace(TRIAL, kinds=TRIAL.kinds[:1]), results, [0] * 12, "seen", score)
    spread = 1.96 * (10_000 / 3 / 4) ** 0.5 / 2
    assert found == {"all": [75.0, round(spread, 2)], "based": 50.0, "zoner": 100.0}


def test_a_style_is_told_of_the_opponents_seat() -> None:
    """What a match's bot likes is what it does: it dodges most who likes to dodge, and least who likes lights."""
    pairing = Pairing(Contestant("bot:constant"), Contestant("bot:based"), 240, seed=3)
    options = {"bot_styles": "held_out", "time_limit_seconds": 8.0}
    rows = play(
        lambda count: registry.make("brawl", rows=count, threads=1, options=options),
        [pairing],
        Origin("r", "g"),
        update=0,
    )
    did, of = Counter[str](), Counter[str]()
    for match in rows:
        seat = match.agents.index("bot:based")
        liked = liking_of(match, seat, "held_out").removeprefix("likes ")
        did[liked] += match.metrics["dodges"][seat]
        of[liked] += 1
    rate = {liked: did[liked] / of[liked] for liked in of}
    assert set(rate) == set(FAVOURITES)
    assert min(rate["dodge"], rate["riposte"]) > 2 * max(rate["light"], rate["heavy"], rate["wait"])


@pytest.mark.slow
def test_a_trial_judges_each_mark(tmp_path: Path) -> None:
    """Both groups of opponents are read at each mark, and the held-out liking only where it belongs."""
    sets = ["agent.lstm_size=8", "learner.epochs=1", "env.time_limit_seconds=4.0", "pool.snapshot_every=2048"]
    arguments = argparse.Namespace(steps=4096, mark=2048, games=40, preset="fast", sets=sets)
    found = measure(TRIAL, "neither", 0, tmp_path, arguments)
    assert list(found["curve"]) == [2048, 4096] and found["steps"] == 4096
    minutes = [at["minutes"] for at in found["curve"].values()]
    assert 0 <= minutes[0] <= minutes[1], "rounded, so 0.0 on a fast machine"
    for at in found["curve"].values():
        assert set(at) == {"minutes", "seen", "held_out"}
        assert set(at["seen"]) == set(TRIAL.readings) and "likes riposte" not in at["seen"]["score"]
        assert "likes riposte" in at["held_out"]["score"] and 0 <= at["held_out"]["score"]["all"][0] <= 100
