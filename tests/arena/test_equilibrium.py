"""How far an agent is from an equilibrium, and the trees that tell it."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

import league
from league.arena.games import enter
from league.cli import main
from league.envs import registry
from league.errors import UsageError
from league.maths.behaviour import behaviour
from league.maths.nashconv import nash_conv, uniform
from tests.helpers.games import new_user
from tests.helpers.sizes import TINY


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A store with a tiny run of Kuhn poker, one of matrix games of 5 rounds, and one of brawl."""
    folder = tmp_path_factory.mktemp("equilibria")
    path = folder / "league.duckdb"
    with new_user(folder):
        league.train("smoke", env="kuhn", run="poker", overrides=TINY, store=path)
        league.train("smoke", env="matrix", run="long", overrides=[*TINY, "env.rounds=5"], store=path)
        league.train("smoke", env="cards", run="cards", overrides=TINY, store=path)
        yield path


def test_it_is_that_of_the_agents_behaviour(store: Path) -> None:
    """As worked out on the tree by hand; by lot it is 11/12 chips (OpenSpiel: exploitability 0.458333)."""
    found = league.nashconv("poker", store=store)
    agent = league.load("poker", store=store)
    tree = registry.tree("kuhn", {})
    assert tree is not None
    by_hand = nash_conv(tree, behaviour(agent.policy, tree))
    assert found.nashconv == pytest.approx(by_hand.total) and found.gains == pytest.approx(by_hand.gains)
    assert found.agent == "poker@64" and found.game == "kuhn" and found.uniform == pytest.approx(11 / 12)
    assert 0 < found.nashconv == pytest.approx(sum(found.gains))


def test_the_command_prints_it(
    store: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In three lines, or as JSON."""
    for more in ([], ["--json"]):
        monkeypatch.setattr(sys, "argv", ["league", "nashconv", "poker", "--store", str(store), *more])
        with pytest.raises(SystemExit, match="0"):
            main()
    lines = capsys.readouterr().out.splitlines()
    told = json.loads(lines[-1])
    assert lines[0] == f"poker@64 in kuhn: NashConv {told['nashconv']:.4f}, 0 being an equilibrium"
    assert "NashConv 0.9167" in lines[2]


@pytest.mark.parametrize(
    ("agent", "words"),
    [
        ("cards", "cards has no tree"),
        ("long", "env.rounds=5: the tree is of one round"),
        ("bot:nash", "a bot tells no probabilities"),
        ("nobody", "nobody"),
    ],
)
def test_what_has_no_tree_is_one_line(agent: str, words: str, store: Path) -> None:
    """With what has one."""
    with pytest.raises(UsageError) as caught:
        league.nashconv(agent, store=store)
    assert words in str(caught.value) and "\n" not in str(caught.value)


def test_an_address_of_openspiel_has_a_tree() -> None:
    """Kuhn's and Leduc's uniform NashConv are those of OpenSpiel; the game has one name however it is named."""
    pytest.importorskip("pyspiel")
    tree = registry.tree("openspiel:kuhn_poker", {})
    assert tree is not None and nash_conv(tree, uniform(tree)).total == pytest.approx(11 / 12)
    assert enter("openspiel:kuhn_poker") == "openspiel-kuhn_poker"
    assert registry.tree("openspiel-kuhn_poker", {}) is not None
    assert registry.tree("openspiel:kuhn_poker", {}) is not None
