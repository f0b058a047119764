"""The roles of a league's learners, by hand arithmetic: whom they meet, which snapshots are historical, resets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from league import config as settings
from league.config import role_sets
from league.config.models import PoolConfig
from league.errors import ConfigError
from league.pool.league_pool import Assignment, LeaguePool, Member
from league.pool.roles import Main, Rivals, Role, are_beaten, odds, without_monotone_tail
from league.pool.roster import load, ready, role_of
from league.snapshots.state import load_state, save_state
from league.training.guards import Guards
from league.training.returns import ReturnSize
from league.training.saving import start_again
from league.types import DRAW, MatchResult


def places(*numbers: int) -> Any:
    """Places in the list of members."""
    return np.array(numbers, np.int64)


def role(name: str, **changes: Any) -> Role:
    """A role with the source's figures but for `changes`."""
    return role_of(name, changes, "here")


def spread(name: str, rivals: Rivals, rates: list[float], epsilon: float = 0.0, **changes: Any) -> list[float]:
    """The odds of each member."""
    found = odds(role(name, **changes), rivals, np.array(rates), epsilon)
    assert found.sum() == pytest.approx(1.0) and (found >= 0.0).all()
    return found.tolist()


# Members: 0 and 1 are the main's historical agents, 2 its current one, 3 and 4 main exploiters', 5 a league one's.
RIVALS = Rivals(places(0, 1, 3, 4, 5), (Main(2, places(0, 1)),), places(3, 4))


def test_a_main_agents_matches_by_hand() -> None:
    """Half by (1 - x)^2 over the historical; 15 % on exploiters while one of them is above 70 %; the rest self-play."""
    # (1 - x)^2 of 0, 1, 3, 4, 5: 0.04, 0.25, 0.64, 0.01, 0.25, together 1.19; of 3 and 4 alone 0.64 and 0.01, of 0.65.
    rates = [0.8, 0.5, 0.5, 0.2, 0.9, 0.5]
    expected = [0.5 * 0.04 / 1.19, 0.5 * 0.25 / 1.19, 0.35, 0.5 * 0.64 / 1.19, 0.5 * 0.01 / 1.19, 0.5 * 0.25 / 1.19]
    expected[3] += 0.15 * 0.64 / 0.65
    expected[4] += 0.15 * 0.01 / 0.65
    assert spread("main", RIVALS, rates) == pytest.approx(expected)


def test_a_main_agent_verifies_what_it_forgot() -> None:
    """No exploiter beats it, but an older agent of its own is harder than a newer one: 15 % go there, by (1 - x)^2."""
    # History 0.4, 0.6: the newer is easier, so both are kept, and 0.4 < 0.7. (1 - x)^2: 0.36 and 0.16, together 0.52.
    rates = [0.4, 0.6, 0.5, 1.0, 1.0, 1.0]
    found = spread("main", RIVALS, rates)
    assert found == pytest.approx([0.65 * 0.36 / 0.52, 0.65 * 0.16 / 0.52, 0.35, 0.0, 0.0, 0.0])
    # History 0.6, 0.4 gets harder with age turned round: nothing is forgotten, and the 15 % are self-play, too.
    assert spread("main", RIVALS, [0.6, 0.4, *rates[2:]])[2] == pytest.approx(0.5)


def test_a_main_agent_is_led_by_its_history_where_self_play_is_hopeless() -> None:
    """At 0.3 and below against the current agent self-play goes to the history by x (1 - x)."""
    rates = [0.9, 0.5, 0.3, 1.0, 1.0, 1.0]
    found = spread("main", RIVALS, rates, pfsp_share=0.0, verification_share=0.0, self_play_share=1.0)
    assert found == pytest.approx([0.09 / 0.34, 0.25 / 0.34, 0.0, 0.0, 0.0, 0.0])
    rates[2] = 0.31
    found = spread("main", RIVALS, rates, pfsp_share=0.0, verification_share=0.0, self_play_share=1.0)
    assert found == pytest.approx([0.0, 0.0, 1.0, 0.0, 0.0, 0.0])


def test_exploiters_matches_by_hand() -> None:
    """A main exploiter meets the current main above 0.2, else its history by variance; a league one all, capped."""
    rates = [0.9, 0.5, 0.21, 0.2, 0.9, 0.75]
    assert spread("main_exploiter", RIVALS, rates) == [0.0, 0.0, 1.0, 0.0, 0.0, 0.0]
    rates[2] = 0.2
    assert spread("main_exploiter", RIVALS, rates) == pytest.approx([0.09 / 0.34, 0.25 / 0.34, 0.0, 0.0, 0.0, 0.0])
    capped = [0.1 / 1.45, 0.5 / 1.45, 0.0, 0.5 / 1.45, 0.1 / 1.45, 0.25 / 1.45]
    assert spread("league_exploiter", RIVALS, rates) == pytest.approx(capped)


def test_epsilon_is_uniform_over_the_historical() -> None:
    """A fifth of a league exploiter's matches, and of a main agent's half, are spread evenly over the historical."""
    rates = [1.0, 1.0, 0.5, 1.0, 1.0, 0.0]
    assert spread("league_exploiter", RIVALS, rates, 0.2) == pytest.approx([0.04, 0.04, 0.0, 0.04, 0.04, 0.84])
    assert spread("main", RIVALS, rates, 0.2)[0] == pytest.approx(0.02)


def test_two_mains_share_and_an_empty_league_still_plays() -> None:
    """Each main has half of self-play; where no main has a snapshot yet, the first weights are met by everybody."""
    two = Rivals(places(0, 1), (Main(0, places(0)), Main(1, places(1))), places())
    assert spread("main_exploiter", two, [0.5, 0.5]) == [0.5, 0.5]
    lone = Rivals(places(0), (Main(0, places(0)),), places())
    bare = Rivals(places(0), (), places())
    for rate in (0.0, 0.5, 1.0):
        assert spread("main", lone, [rate], 0.1) == pytest.approx([1.0])
        for name in ("main_exploiter", "league_exploiter"):
            assert spread(name, bare, [rate], 0.1) == pytest.approx([1.0])


@pytest.mark.parametrize(
    ("rates", "kept"),
    [
        ([0.9, 0.8, 0.7], 0),
        ([0.5, 0.9, 0.7], 2),
        ([0.1, 0.2, 0.3], 3),
        ([0.9, 0.8, 0.5, 0.6, 0.55, 0.5], 4),
        ([0.5], 0),
    ],
)
def test_what_gets_harder_with_time_is_not_forgotten(rates: list[float], kept: int) -> None:
    """The end of a history in which no agent is easier than the one before is left out."""
    history = np.arange(len(rates))
    assert without_monotone_tail(history, np.array(rates)).tolist() == history[:kept].tolist()


def beaten(scores: list[float], games: float, expected: float = 0.5, **changes: Any) -> bool:
    """Whether opponents are beaten from whom these mean scores were won in so many games each."""
    counts = np.full(len(scores), games)
    values = {"beaten_at": 0.7, "min_games": 32, **changes}
    return are_beaten(np.array(scores) * counts, counts, np.full(len(scores), expected), 8, **values)


def test_who_is_beaten_by_hand() -> None:
    """0.85 of 100 has the interval 0.767 to 0.907; of 20 0.640 to 0.948; one that is surely not beaten forbids it."""
    assert beaten([0.85], 100) and not beaten([0.85], 100, beaten_at=0.77)
    assert not beaten([0.85], 20, min_games=10) and not beaten([1.0], 31) and beaten([1.0], 32)
    # 0.3 of 20, shrunk by 8 games at 0.5, is 0.357 of 28: at most 0.542. In all 0.8 of 120, at least 0.719.
    assert beaten([0.9] * 6, 20) and not beaten([0.9] * 5 + [0.3], 20, min_games=10)
    assert not beaten([], 0, min_games=0) and not beaten([0.5], 0.0, min_games=1)


def test_whom_the_ratings_think_strong_is_not_passed_unmet() -> None:
    """An opponent without a game counts as 8 games of what the ratings expect: 0.5 does not forbid, 0.2 does."""
    points, games = np.array([90.0, 0.0]), np.array([100.0, 0.0])
    for unmet, is_beaten in ((0.5, True), (0.2, False)):
        given = (points, games, np.array([0.9, unmet]), 8.0)
        assert are_beaten(*given, beaten_at=0.7, min_games=32) == is_beaten


def test_fifty_noisy_opponents_can_be_beaten() -> None:
    """Of 50 opponents truly beaten at 0.85, in 16 games each, the lowest win-rate is below 0.7; they count as beaten.

    The rule of AlphaStar's pseudocode, min > 0.7, never fires on such leagues; at 0.6 ours does not either.
    """
    rng = np.random.default_rng(0)
    fired, by_minimum, by_mistake = 0, 0, 0
    for _ in range(200):
        games = np.full(50, 16.0)
        points = rng.binomial(16, 0.85, 50).astype(float)
        fired += are_beaten(points, games, np.full(50, 0.85), 8, beaten_at=0.7, min_games=32)
        by_minimum += bool((points / games).min() > 0.7)
        weak = rng.binomial(16, 0.6, 50).astype(float)
        by_mistake += are_beaten(weak, games, np.full(50, 0.6), 8, beaten_at=0.7, min_games=32)
    assert fired > 190 and by_minimum < 10 and by_mistake == 0


# The pool


def member(run: str, step: int, *, kind: str = "main", stays: bool = True, parent: str | None = None) -> Member:
    """A snapshot of another learner, called as its run and step; `w` are the league's first weights."""
    return Member("w" if step == 0 else f"{run}{step}", run, kind, step, parent, stays)


def pool_of(name: str, look: Any = lambda: [], seed: int = 0, **changes: Any) -> LeaguePool:
    """The pool of the learner `me`, snapshots every step asked for; nets are None."""
    config = PoolConfig(
        **{**settings.load().pool.model_dump(), "mix": {"self_play": 0.8, "bot:a": 0.2}, "epsilon": 0.0}
    )
    figures = {"min_steps": 1000, "max_steps": 3000, **changes}
    rng = np.random.default_rng(seed)
    return LeaguePool(
        config,
        lambda agent_id: None,  # type: ignore[arg-type,return-value]
        rng,
        assignment=Assignment("me", name, role(name, **figures), turn_steps=2000),
        look=look,
    )


def game(opponent: str, score: float) -> MatchResult:
    """A training match of `me` in seat 0."""
    winner = DRAW if score == 0.5 else 0 if score == 1.0 else 1
    return MatchResult("me", "training", 1, 0, 0, "g", ("me", opponent), 1, winner, "time", 1, 1, "sample", 0, 0)


def play(pool: LeaguePool, steps: int, opponent: str = "bot:a", score: float = 0.5, games: int = 0) -> None:
    """So many steps of training with these games in them."""
    pool.record([game(opponent, score) for _ in range(games)], "me", steps)


def stays(pool: LeaguePool, agent_id: str) -> bool:
    """Whether a snapshot taken now becomes historical."""
    pool.admit(agent_id)
    return pool.is_historical(agent_id)


@pytest.mark.parametrize("name", ["main", "main_exploiter", "league_exploiter"])
def test_a_snapshot_stays_by_steps_and_by_wins(name: str) -> None:
    """From min_steps on if they are surely beaten, from max_steps on in any case, never before; the first one does."""
    others = [member("m", 0), member("m", 500, parent="w")]
    pool = pool_of(name, lambda: others, max_steps=5000)
    assert stays(pool, "w")
    pool.refresh_targets(set())
    target = "m500" if name == "main_exploiter" else "w"
    play(pool, 999, target, 1.0, 200)
    if name != "main_exploiter":
        play(pool, 0, "m500", 1.0, 200)
    assert not stays(pool, "me999"), "before min_steps"
    play(pool, 1)
    assert stays(pool, "me1000"), "won"
    play(pool, 1000, "m500", 0.0, 400)
    assert not stays(pool, "me2000"), "lost since"
    play(pool, 4000)
    assert stays(pool, "me6000"), "max_steps since the last that stayed"


def test_a_main_exploiter_asks_for_the_mains_of_now_alone() -> None:
    """Wins over a main's current agents count together; wins over its historical ones do not."""
    others = [member("m", 0), member("m", 100, parent="w"), member("m", 200, stays=False, parent="m100")]
    others += [member("m", 300, stays=False, parent="m200")]
    pool = pool_of("main_exploiter", lambda: others, max_steps=9000)
    pool.admit("w")
    pool.refresh_targets(set())
    assert dict(pool.odds["self_play"])["m300"] == 1.0
    play(pool, 1000, "m100", 1.0, 100)
    assert not stays(pool, "a")
    play(pool, 0, "m200", 1.0, 40)
    play(pool, 0, "m300", 1.0, 40)
    assert stays(pool, "b")


def test_members_are_historical_agents_and_the_mains_newest() -> None:
    """A snapshot that does not stay is met while it is a main's newest, and no longer; an exploiter's never is."""
    seen = [member("m", 0), member("m", 100, stays=False, parent="w"), member("e", 0, kind="main_exploiter")]
    seen += [member("e", 100, kind="main_exploiter", parent="w"), member("e", 200, kind="main_exploiter", stays=False)]
    pool = pool_of("league_exploiter", lambda: list(seen))
    pool.admit("w")
    pool.refresh_targets(set())
    assert set(pool.odds["self_play"]) == {"w", "m100", "e100"} and pool.odds["self_play"]["m100"] == 0.0
    assert pool.group_of("e100") == "main_exploiter" and pool.group_of("m100") == "main" and pool.group_of("bot:a")
    assert pool.rivals() == {"m100": "m@100", "e200": "e@200"}
    seen.insert(2, member("m", 200, stays=False, parent="m100"))
    pool.refresh_targets(set())
    assert "m200" not in pool.odds["self_play"], "in the middle of a turn nobody new is seen"
    play(pool, 2000)
    pool.refresh_targets(set())
    assert set(pool.odds["self_play"]) == {"w", "m200", "e100"}


def test_turns_end_and_begin_where_they_may() -> None:
    """With one turn left it begins one, is over after turn_steps, and looks at nobody until it may begin another."""
    looks: list[int] = []
    pool = pool_of("main", lambda: looks.append(1))
    pool.turns_left = 1
    pool.admit("w")
    pool.refresh_targets(set())
    assert not pool.is_turn_over and len(looks) == 1 and pool.turn_ends == 2000
    play(pool, 2048)
    assert pool.is_turn_over
    pool.refresh_targets(set())
    assert len(looks) == 1
    pool.turns_left = 1
    assert not pool.is_turn_over
    pool.refresh_targets(set())
    assert len(looks) == 2 and pool.turn_ends == 4048


def test_a_turn_that_was_cut_ends_where_it_would_have() -> None:
    """From a state in its middle the turn is played to its end, and none begins; from one at its end the next one."""
    first = pool_of("main")
    first.admit("w")
    first.refresh_targets(set())
    play(first, 1000)
    for steps, begins in ((1000, False), (2000, True)):
        pool = pool_of("main")
        pool.turns_left = 1
        pool.load_state_dict(first.state_dict())
        assert pool.steps == steps and not pool.is_turn_over
        play(pool, 1000)
        assert pool.is_turn_over != begins
        play(first, 1000)


def test_a_learner_that_begins_anew_forgets_its_games_and_nothing_else() -> None:
    """`start_again`: first weights, no moments, no figures, no matches in play; they are the next snapshot's parent."""
    pool = pool_of("main_exploiter", lambda: [member("m", 0), member("m", 100, parent="w")])
    pool.admit("w")
    pool.refresh_targets(set())
    play(pool, 3000, "m100", 1.0, 50)
    pool.admit("a")
    assert pool.is_resetting and pool.is_historical("a")
    copy = pool_of("main_exploiter")
    copy.load_state_dict(pool.state_dict())
    assert copy.is_resetting
    state = {
        "counters": {"newest": "a", "steps": 3000},
        "learner": {"policy": {"x": 1}, "optimizer": {"0": 1}, "rate_share": 0.1, "foresight": {"y": 2}, "rng": 7}
        | {"returns": {"mean_square": 9.0, "updates": 5, "credit": None}},
        "guards": {**Guards().state_dict(), "entropy": 3.0, "said": ["kl_blow_up"]},
    }
    state |= {"pool": pool.state_dict(), "collector": {"lanes": []}}
    state["watched"] = {"recent": {"scores": {"main": [1.0]}, "sums": [{"win": [1.0, -1.0]}]}, "alarms": []}
    start_again(state, {"x": 0})
    fresh = {"policy": {"x": 0}, "optimizer": {}, "rate_share": 1.0, "foresight": {"y": 0}, "rng": 7}
    fresh["returns"] = ReturnSize().state_dict()
    assert state["learner"] == fresh and state["collector"] is None
    assert state["counters"] == {"newest": "w", "steps": 3000, "reset_at": 3000}
    assert state["watched"] == {"recent": {"scores": {}, "sums": []}, "alarms": []}
    assert state["guards"] == {**Guards().state_dict(), "said": ["kl_blow_up"]}
    again = pool_of("main_exploiter", seed=5)
    again.load_state_dict(state["pool"])
    assert not again.is_resetting and again.steps == 3000 and again.snapshots == ["w", "a"]
    assert again.results.own(["m100"]).sum() == 0 and again.results.state_dict()["fixed"]
    play(again, 10, "m100", 0.0, 3)
    assert ["w", "m100", 50, 0, 3] in again.results.state_dict()["fixed"], "its games are those of the first weights"
    third = pool_of("main_exploiter")
    third.load_state_dict(again.state_dict())
    assert third.lineage() == again.lineage() and third.lineage()[0][-1] == "w"
    again.admit("b")
    assert again.lineage()[1]["b"] == "w" and again.lineage()[0][-1] == "b"


@pytest.mark.parametrize("chance", [0.0, 0.25, 1.0])
def test_resets_come_as_often_as_the_role_says(chance: float) -> None:
    """Of 400 snapshots that stay, a share near reset_probability is followed by a reset; of the first, none."""
    pool = pool_of("league_exploiter", reset_probability=chance, min_steps=1, max_steps=1)
    pool.admit("w")
    assert not pool.is_resetting
    resets = 0
    for i in range(400):
        play(pool, 1)
        pool.admit(f"s{i}")
        resets += pool.is_resetting
    assert abs(resets / 400 - chance) < 0.06


def test_ratings_follow_who_was_trained_from_whom() -> None:
    """A new agent of another learner is rated as its parent was, not as the first weights are."""
    others = [member("m", 0), member("m", 100, parent="w"), member("m", 200, parent="m100", stays=False)]
    pool = pool_of("league_exploiter", lambda: others)
    pool.admit("w")
    pool.refresh_targets(set())
    play(pool, 10, "m100", 0.0, 50)
    agents, parents = pool.lineage()
    ratings = pool.results.ratings(agents, parents)
    assert ratings["m200"] == ratings["m100"] > ratings["w"] + 100
    assert pool.results.win_rates(["m200"], agents, parents)[0] < 0.35


def test_a_restored_league_pool_draws_the_same(tmp_path: Path) -> None:
    """What is known of the others, the turn, the steps and the RNG pass through the saved state."""
    others = [member("m", 0), member("m", 100, parent="w"), member("e", 50, kind="main_exploiter", parent="w")]

    def go_on(pool: LeaguePool) -> list[Any]:
        seen: list[Any] = []
        for update in range(30):
            if update % 3 == 0:
                pool.admit(f"t{update}")
            pool.refresh_targets(set())
            drawn = [pool.draw() for _ in range(5)]
            pool.record([game(agent, (i + update) % 3 / 2) for i, agent in enumerate(drawn)], "me", 400)
            seen += [
                drawn,
                pool.metrics(),
                pool.agent_metrics(),
                list(pool.targets),
                pool.is_resetting,
                pool.turn_ends,
                pool.rivals(),
            ]
        return seen

    first, second = pool_of("main", lambda: others), pool_of("main", lambda: others, seed=9)
    first.admit("w")
    go_on(first)
    save_state(tmp_path, first.state_dict())
    second.load_state_dict(load_state(tmp_path))
    assert go_on(second) == go_on(first)


# The file


MAIN = 'turn_steps = 1000\n[learners.main]\nrole = "main"\n'


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("turn_steps = ", "is not TOML"),
        ("[learners.main]\nrole = 'main'", "turn_steps=None must be a number of steps"),
        (MAIN.replace("1000", "true"), "turn_steps=True must be"),
        ("turn_steps = 5", 'no learner has role = "main" (nobody)'),
        (MAIN.replace('"main"', '"main_exploiter"'), 'no learner has role = "main" (main (main_exploiter))'),
        (MAIN.replace('"main"', '"mian"'), "[learners.main]: role='mian' is no role; did you mean `main`?"),
        (MAIN.replace("role", "rule"), "[learners.main]: rule is not a key; did you mean `role`?"),
        (MAIN + "[learners.main]\nrole = 'main'", "is not TOML: Cannot declare ('learners', 'main') twice"),
        (MAIN + "[learners.'a b']\nrole = 'main'", "[learners.a b]: a name has letters, digits"),
        (MAIN + "[leaners.x]\nrole = 'main'", "leaners is not a key; did you mean `learners`?"),
        (MAIN + "[roles.mains]\nmin_steps = 1", "[roles]: mains is not a key; did you mean `main`?"),
        (MAIN + "[roles.main]\nmin_step = 1", "[roles.main]: min_step is not a key; did you mean `min_steps`?"),
        (MAIN + "[roles.main]\nmin_steps = 0", "min_steps=0: must be greater than or equal to 1 (Steps since"),
        (MAIN + "[roles.main]\nmin_steps = 900_000", "max_steps=200000 is below min_steps=900000"),
        (MAIN + "[roles.main]\npfsp_share = 0.4", "sum to 0.9, not to 1; change one by +0.1"),
        (MAIN + "[config.leaner]\nepochs = 1", "[config]: [leaner] cannot be set here; did you mean `learner`?"),
        (
            MAIN + "[learners.main.config.agent]\nlstm_size = 8",
            "config.agent is one for all, since they play each other",
        ),
        ("turn_steps = 5\nlearners = 3", "learners=3 is not a table; write [learners]"),
    ],
)
def test_a_league_that_cannot_be_is_one_clear_line(text: str, words: str, tmp_path: Path) -> None:
    """Whatever is wrong with the file is named with its place and what would be right."""
    path = tmp_path / "league.toml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load(path)
    assert words in str(caught.value) and "\n" not in str(caught.value) and "league.toml" in str(caught.value)


def test_ready_leagues_are_whole_and_a_missing_file_names_them() -> None:
    """Each that comes with the library has every role; a name that is none is answered with the nearest."""
    for name in ready():
        names = [learner.role_name for learner in load(name).learners]
        assert names == ["main", "main_exploiter", "league_exploiter", "league_exploiter"]
    with pytest.raises(ConfigError, match="did you mean `small`"):
        load("smal")


def test_what_is_set_for_a_role_lies_over_the_leagues_file(tmp_path: Path) -> None:
    """Figure by figure, for every learner of the role and no other."""
    path = tmp_path / "league.toml"
    path.write_text(MAIN + "[roles.main]\nmin_steps = 10\nmin_games = 5\n[learners.x]\nrole = 'league_exploiter'\n")
    others, figures = role_sets(["role.main.min_games=7", "learner.gamma=0.5", "role.main.beaten_at=0.6"])
    assert others == ["learner.gamma=0.5"]
    (main, other), (plain, same) = load(path, figures).learners, load(path).learners
    assert main.role.model_dump() == {**plain.role.model_dump(), "min_games": 7, "beaten_at": 0.6}
    assert plain.role.min_steps == 10 and other == same


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("role.mian.min_games=3", "--set role: mian is not a key; did you mean `main`?"),
        ("role.main.min_game=3", "--set role.main: min_game is not a key; did you mean `min_games`?"),
        ("role.main.min_games=0", "--set role.main: min_games=0: must be greater than or equal to 1 (Games that"),
        ("role.main.pfsp_share=0.4", "--set role.main: pfsp_share + verification_share + self_play_share sum to 0.9"),
        ("role.main_exploiter.min_games=3", "--set role.main_exploiter: no learner of --league"),
        ("role.main=3", "is not role.ROLE.FIGURE=value"),
        ("roles.main.min_games=3", "[roles] is not a section; did you mean `role`?"),
    ],
)
def test_a_role_that_cannot_be_set_so_is_one_clear_line(text: str, words: str, tmp_path: Path) -> None:
    """An unknown role or figure, one outside its rule, and one that no learner has."""
    path = tmp_path / "league.toml"
    path.write_text(MAIN)
    with pytest.raises(ConfigError) as caught:
        load(path, role_sets([text])[1])
    assert words in str(caught.value) and "\n" not in str(caught.value)


def test_a_learners_own_settings_lie_over_the_leagues(tmp_path: Path) -> None:
    """Key by key; the others keep the league's."""
    path = tmp_path / "league.toml"
    path.write_text(
        MAIN + "config.learner.gamma = 0.5\n[config.learner]\ngamma = 0.9\nepochs = 2\n"
        "[learners.x]\nrole = 'league_exploiter'\n"
    )
    main, other = load(path).learners
    assert main.layer == {"learner": {"gamma": 0.5, "epochs": 2}} and other.layer == {
        "learner": {"gamma": 0.9, "epochs": 2}
    }


def test_the_figures_are_alphastars() -> None:
    """Shares, floors and 0.7 as published; steps are 1 % and 2 % of 10 million, as 2e9 and 4e9 were of its runs."""
    main, exploiter, league = (role(name) for name in ("main", "main_exploiter", "league_exploiter"))
    assert main.model_dump(include={"pfsp_share", "verification_share", "self_play_share"}) == {
        "pfsp_share": 0.5,
        "verification_share": 0.15,
        "self_play_share": 0.35,
    }
    assert [x.reset_probability for x in (main, exploiter, league)] == [0.0, 1.0, 0.25]
    assert {(x.beaten_at, x.min_steps, x.max_steps) for x in (main, exploiter, league)} == {(0.7, 100_000, 200_000)}
