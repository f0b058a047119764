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
from league.pool.roles import Main, Rivals, Role, are_beaten, odds
from league.pool.roster import load, ready, role_of
from league.training.guards import Guards
from league.training.returns import ReturnSize
from league.training.saving import start_again
from tests.helpers.pools import game, goes_on_alike


def places(*numbers: int) -> Any:
    return np.array(numbers, np.int64)


def role(name: str, **changes: Any) -> Role:
    """A role with the source's figures but for `changes`."""
    return role_of(name, changes, "here")


def spread(name: str, rivals: Rivals, rates: list[float], epsilon: float = 0.0, **changes: Any) -> list[float]:
    found = odds(role(name, **changes), rivals, np.array(rates), epsilon)
    assert found.sum() == pytest.approx(1.0) and (found >= 0.0).all()
    return found.tolist()


# Members: 0 and 1 are the main's historical agents, 2 its current one, 3 and 4 main exploiters', 5 a league one's.
RIVALS = Rivals(places(0, 1, 3, 4, 5), (Main(2, places(0, 1)),), places(3, 4))


def test_a_main_agents_matches_by_hand() -> None:
    # (1 - x)^2 of 0, 1, 3, 4, 5: 0.04, 0.25, 0.64, 0.01, 0.25, together 1.19; of 3 and 4 alone 0.64 and 0.01, of 0.65.
    rates = [0.8, 0.5, 0.5, 0.2, 0.9, 0.5]
    expected = [0.5 * 0.04 / 1.19, 0.5 * 0.25 / 1.19, 0.35, 0.5 * 0.64 / 1.19, 0.5 * 0.01 / 1.19, 0.5 * 0.25 / 1.19]
    expected[3] += 0.15 * 0.64 / 0.65
    expected[4] += 0.15 * 0.01 / 0.65
    assert spread("main", RIVALS, rates) == pytest.approx(expected)


def test_a_main_agent_verifies_what_it_forgot() -> None:
    # History 0.4, 0.6: the newer is easier, so both are kept, and 0.4 < 0.7. (1 - x)^2: 0.36 and 0.16, together 0.52.
    rates = [0.4, 0.6, 0.5, 1.0, 1.0, 1.0]
    found = spread("main", RIVALS, rates)
    assert found == pytest.approx([0.65 * 0.36 / 0.52, 0.65 * 0.16 / 0.52, 0.35, 0.0, 0.0, 0.0])
    # History 0.6, 0.4 gets harder with age turned round: nothing is forgotten, and the 15 % are self-play, too.
    assert spread("main", RIVALS, [0.6, 0.4, *rates[2:]])[2] == pytest.approx(0.5)


def test_a_main_agent_is_led_by_its_history_where_self_play_is_hopeless() -> None:
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
    bare = Rivals(places(0), (), places())
    assert spread("main_exploiter", bare, [0.5]) == [1.0], "where no main has a snapshot yet"


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


def member(run: str, step: int, *, kind: str = "main", stays: bool = True, parent: str | None = None) -> Member:
    """A snapshot of another learner, called as its run and step; `w` are the league's first weights."""
    return Member("w" if step == 0 else f"{run}{step}", run, kind, step, parent, stays)


def pool_of(name: str, look: Any = lambda _: [], seed: int = 0, **changes: Any) -> LeaguePool:
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


def play(pool: LeaguePool, steps: int, opponent: str = "bot:a", score: float = 0.5, games: int = 0) -> None:
    """So many steps of training with these games in them."""
    pool.record([game(opponent, score) for _ in range(games)], "me", steps)


def stays(pool: LeaguePool, agent_id: str) -> bool:
    """Whether a snapshot taken now becomes historical."""
    pool.admit(agent_id)
    return pool.is_historical(agent_id)


@pytest.mark.parametrize("name", ["main", "main_exploiter", "league_exploiter"])
def test_a_snapshot_stays_by_steps_and_by_wins(name: str) -> None:
    others = [member("m", 0), member("m", 500, parent="w")]
    pool = pool_of(name, lambda _: others, max_steps=5000)
    assert stays(pool, "w")
    pool.refresh_targets(set())
    target = "m500" if name == "main_exploiter" else "w"
    play(pool, 999, target, 1.0, 200)
    if name != "main_exploiter":
        play(pool, 0, "m500", 1.0, 200)
    assert not stays(pool, "me999"), "before min_steps"
    play(pool, 1)
    assert stays(pool, "me1000"), "won"
    play(pool, 500)
    assert not stays(pool, "me1500"), "before min_steps since the last that stayed"
    play(pool, 500, "m500", 0.0, 400)
    assert not stays(pool, "me2000"), "lost since"
    play(pool, 4000)
    assert stays(pool, "me6000"), "max_steps since the last that stayed"


def test_a_learner_that_begins_anew_forgets_its_games_and_nothing_else() -> None:
    pool = pool_of("main_exploiter", lambda _: [member("m", 0), member("m", 100, parent="w")])
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
    again.admit("b")
    assert again.lineage()[1]["b"] == "w" and again.lineage()[0][-1] == "b"


def test_a_restored_league_pool_draws_the_same(tmp_path: Path) -> None:
    others = [member("m", 0), member("m", 100, parent="w"), member("e", 50, kind="main_exploiter", parent="w")]
    first, second = pool_of("main", lambda _: others), pool_of("main", lambda _: others, seed=9)
    first.admit("w")
    goes_on_alike(first, second, tmp_path, lambda pool: [pool.is_resetting, pool.turn_ends, pool.rivals()])


MAIN = 'turn_steps = 1000\n[learners.main]\nrole = "main"\n'


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("turn_steps = ", "is not TOML"),
        (MAIN.replace("1000", "true"), "turn_steps=True must be"),
        ("turn_steps = 5", 'no learner has role = "main" (nobody)'),
        (MAIN.replace('"main"', '"mian"'), "[learners.main]: role='mian' is no role"),
        (MAIN + "[learners.'a b']\nrole = 'main'", "[learners.a b]: a name"),
        (MAIN + "[roles.main]\nmin_step = 1", "[roles.main]: min_step is not a key"),
        (MAIN + "[roles.main]\nmin_steps = 900_000", "max_steps=200000 is below min_steps=900000"),
        (MAIN + "[roles.main]\npfsp_share = 0.4", "sum to 0.9, not to 1"),
        (MAIN + "[config.leaner]\nepochs = 1", "[config]: [leaner] cannot be set here"),
        (MAIN + "[learners.main.config.agent]\nlstm_size = 8", "config.agent is one for all"),
        ("turn_steps = 5\nlearners = 3", "learners=3 is not a table"),
    ],
)
def test_a_league_that_cannot_be_is_one_clear_line(text: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "league.toml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load(path)
    assert words in str(caught.value) and "\n" not in str(caught.value) and "league.toml" in str(caught.value)


def test_ready_leagues_are_whole_and_a_missing_file_names_them() -> None:
    for name in ready():
        names = [learner.role_name for learner in load(name).learners]
        assert names == ["main", "main_exploiter", "league_exploiter", "league_exploiter"]
    with pytest.raises(ConfigError, match="did you mean `small`"):
        load("smal")


def test_settings_lie_over_each_other(tmp_path: Path) -> None:
    """Figure by figure: what is set for a role over the file's, a learner's own over the league's."""
    path = tmp_path / "league.toml"
    path.write_text(
        MAIN + "config.learner.gamma = 0.5\n[config.learner]\ngamma = 0.9\nepochs = 2\n"
        "[roles.main]\nmin_steps = 10\nmin_games = 5\n[learners.x]\nrole = 'league_exploiter'\n"
    )
    others, figures = role_sets(["role.main.min_games=7", "learner.gamma=0.5", "role.main.beaten_at=0.6"])
    assert others == ["learner.gamma=0.5"]
    (main, other), (plain, same) = load(path, figures).learners, load(path).learners
    assert main.role.model_dump() == {**plain.role.model_dump(), "min_games": 7, "beaten_at": 0.6}
    assert plain.role.min_steps == 10 and other == same
    assert main.layer == {"learner": {"gamma": 0.5, "epochs": 2}}
    assert other.layer == {"learner": {"gamma": 0.9, "epochs": 2}}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("role.mian.min_games=3", "--set role: mian is not a key; did you mean `main`?"),
        ("role.main.min_games=0", "--set role.main: min_games=0"),
        ("role.main_exploiter.min_games=3", "--set role.main_exploiter: no learner of --league"),
        ("role.main=3", "is not role.ROLE.FIGURE=value"),
    ],
)
def test_a_role_that_cannot_be_set_so_is_one_clear_line(text: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "league.toml"
    path.write_text(MAIN)
    with pytest.raises(ConfigError) as caught:
        load(path, role_sets([text])[1])
    assert words in str(caught.value) and "\n" not in str(caught.value)
