"""Environments of PettingZoo through the door, in turns and at once; what they pay is what the library pays."""

import sys
from importlib import import_module
from typing import Any

import numpy as np
import pytest

from league.envs.contract.check import check_match_batch
from league.errors import ConfigError
from league.types import DRAW, Turns
from tests.helpers.cases import cases

pytest.importorskip("pettingzoo")
pytest.importorskip("pygame")
from league.envs.adapters import pettingzoo as adapter
from tests.helpers import zoo_envs

CLASSIC = {"connect_four_v3": True, "classic/tictactoe_v3": True, "rps_v2": False}
"""Name -> whether it is in turns."""


OWN_KINDS = (zoo_envs.Uneven, zoo_envs.Payday, zoo_envs.Swarms, zoo_envs.Emptied)
OWN_KINDS += (zoo_envs.EmptiedInTurns, zoo_envs.StillListed)


@pytest.fixture(autouse=True)
def modules(monkeypatch: pytest.MonkeyPatch) -> None:
    """The modules of the tests' own environments are there to be imported."""
    for kind in OWN_KINDS:
        found = zoo_envs.module(kind)
        monkeypatch.setitem(sys.modules, found.__name__, found)


OWN = {"tests.helpers.uneven_v0": False, "tests.helpers.payday_v0": True}


def batch_of(name: str, rows: int, **options: Any) -> Any:
    """A batch of a game."""
    game = adapter.open(name)
    return game.make(rows, 1, game.Options(**options))


@pytest.mark.parametrize("name", cases("classic/tictactoe_v3", slow={**CLASSIC, **OWN}))
def test_games_keep_the_contract(name: str) -> None:
    """In turns where agents are, else at once."""
    batch = batch_of(name, 2)
    assert isinstance(batch, Turns) == {**CLASSIC, **OWN}[name]
    steps = 100 if "four" in name else 50
    check_match_batch(lambda rows, threads: batch_of(name, rows), rows=2, steps=steps)


def library_env(name: str) -> Any:
    """The library's own environment of a name, and whether it is parallel."""
    path = name if name.startswith("tests.") else f"pettingzoo.classic.{name.rpartition('/')[2]}"
    module = import_module(path)
    is_parallel = hasattr(module, "parallel_env")
    return (module.parallel_env if is_parallel else module.env)(), is_parallel


def replayed_in_turns(env: Any, seed: int, actions: list[int]) -> tuple[dict[str, float], dict[str, bool], list[Any]]:
    """What each agent is paid by `last()`, whether it was cut, and who saw what, in a match of these actions."""
    env.reset(seed=seed)
    paid = dict.fromkeys(env.possible_agents, 0.0)
    cut = dict.fromkeys(env.possible_agents, False)
    left, seen = list(actions), []
    for agent in env.agent_iter():
        observation, reward, terminated, truncated, _ = env.last()
        paid[agent] += reward
        if terminated or truncated:
            cut[agent] = truncated and not terminated
            env.step(None)
        else:
            seen.append((agent, observation))
            env.step(left.pop(0))
    assert not left
    return paid, cut, seen


def replayed_at_once(env: Any, seed: int, actions: list[list[int]]) -> tuple[dict[str, float], dict[str, bool]]:
    """What each agent is paid and whether it was cut; `actions` are in the order of the agents."""
    env.reset(seed=seed)
    paid, cut = dict.fromkeys(env.possible_agents, 0.0), dict.fromkeys(env.possible_agents, False)
    for both in actions:
        given = {agent: both[env.possible_agents.index(agent)] for agent in env.agents}
        _, rewards, terminated, truncated, _ = env.step(given)
        for agent in given:
            paid[agent] += rewards[agent]
            cut[agent] = truncated[agent] and not terminated[agent]
    assert not env.agents
    return paid, cut


@pytest.mark.parametrize("name", [*CLASSIC, *OWN])
def test_a_match_is_the_one_that_pettingzoo_plays(name: str) -> None:
    """Replayed by its seed and actions: what is seen, legal and paid, how it ends, who wins."""
    rows, batch = 4, batch_of(name, 4)
    rng, checked = np.random.default_rng(0), 0
    action = batch.spec.action
    batch.reset(3)
    played: list[list[Any]] = [[] for _ in range(rows)]
    views: list[list[Any]] = [[] for _ in range(rows)]
    paid = np.zeros((rows, 2))
    while checked < 8:
        acting = batch.to_act.copy() if isinstance(batch, Turns) else np.ones((rows, 2), bool)
        swaps, seeds = zip(*((match._swap, match._seed) for match in batch.matches), strict=True)
        batch.actions[:] = action.legal_actions(batch.mask, rng.random((rows, 2, action.num_draws)))
        for row in range(rows):
            if acting[row].all():
                played[row].append([int(batch.actions[row, seat ^ swaps[row], 0]) for seat in range(2)])
                continue
            seat = int(acting[row].argmax())
            played[row].append(int(batch.actions[row, seat, 0]))
            views[row].append((seat, batch.obs[row, seat].copy(), batch.mask[row, seat].copy()))
        batch.step()
        paid += batch.reward_terms[:, :, 0]
        for row in np.flatnonzero(batch.terminated | batch.truncated):
            env, is_parallel = library_env(name)
            agents, swap = env.possible_agents, swaps[row]
            if is_parallel:
                there, cut = replayed_at_once(env, seeds[row], played[row])
            else:
                there, cut, seen = replayed_in_turns(env, seeds[row], played[row])
                seens = batch.matches[row]._facts.views._seen
                for (seat, view, mask), (agent, observation) in zip(views[row], seen, strict=True):
                    player = agents.index(agent)
                    assert seat == player ^ swap and view[-2:].tolist() == [player == 0, player == 1]
                    assert view[:-2].tolist() == seens[player].flat(observation).tolist()
                    assert mask.tolist() == observation["action_mask"].astype(bool).tolist()
            own = [there[agents[seat ^ swap]] for seat in range(2)]
            assert paid[row].tolist() == pytest.approx(own)
            assert batch.result["metrics"][row, :, 0].tolist() == pytest.approx(own)
            assert batch.result["winner"][row] == (DRAW if own[0] == own[1] else int(own[1] > own[0]))
            assert batch.cut_seats[row].tolist() == [cut[agents[seat ^ swap]] for seat in range(2)]
            assert batch.truncated[row] == any(cut.values()) and batch.terminated[row] != any(cut.values())
            played[row], views[row], paid[row] = [], [], 0
            checked += 1


def test_agents_that_differ_share_one_observation() -> None:
    """Zeros where one sees less, which agent it is at the end, and only its own actions are legal."""
    batch = batch_of("tests.helpers.uneven_v0", 12)
    batch.reset(0)
    assert batch.spec.obs_size == 4 and batch.spec.action.choices == (4,)
    for row, match in enumerate(batch.matches):
        narrow = 1 ^ match._swap
        assert batch.mask[row, narrow].tolist() == [True, True, False, False] and batch.mask[row, 1 - narrow].all()
        assert batch.obs[row, narrow, 1:].tolist() == [0, 0, 1] and batch.obs[row, 1 - narrow, 2:].tolist() == [1, 0]
    assert {match._swap for match in batch.matches} == {0, 1}


def test_agents_that_see_sequences_share_their_rows() -> None:
    """The longer rows of the two, zeros behind the shorter ones."""
    name = "tests.helpers.swarms_v0"
    with pytest.raises(ConfigError, match="any length; write its most rows behind the address"):
        adapter.open(name)
    batch = batch_of(name + "(max_rows=6)", 2)
    units = batch.spec.observation[0]
    assert (units.kind, units.shape, batch.spec.obs_size) == ("entities", (6, 3), 20)
    batch.reset(0)
    for row, match in enumerate(batch.matches):
        for player, rows in enumerate(([[1, 0.5, 0.5]] * 2, [[1, 0.5, 0]] * 5)):
            found = units.of(batch.obs[row, player ^ match._swap])
            assert found.tolist() == rows + [[0, 0, 0]] * (6 - len(rows))


def cut_by_agent(name: str, max_steps: int) -> dict[str, bool]:
    """Whether each agent was truncated, in a match of `max_steps` decisions."""
    batch = batch_of(name, 1, max_steps=max_steps)
    batch.reset(0)
    match = batch.matches[0]
    swap, agents = match._swap, match.table.agents
    for _ in range(max_steps):
        assert not (batch.terminated[0] or batch.truncated[0])
        batch.actions[:] = batch.spec.action.legal_actions(
            batch.mask, np.full((1, 2, batch.spec.action.num_draws), 0.5)
        )
        batch.step()
    assert batch.terminated[0] or batch.truncated[0]
    return {agents[seat ^ swap]: bool(batch.cut_seats[0, seat]) for seat in range(2)}


@pytest.mark.parametrize(
    ("name", "max_steps", "cut"),
    [
        *((name, steps, True) for name in ("tictactoe_v3", "tests.helpers.payday_v0") for steps in (1, 2, 3)),
        *((f"tests.helpers.{name}_v0", 4, True) for name in ("emptied", "emptiedinturns", "stilllisted")),
        ("tests.helpers.payday_v0", 5, False),
        ("tests.helpers.payday_v0", 6, False),
    ],
)
def test_each_agent_is_told_whether_it_was_truncated(name: str, max_steps: int, cut: bool) -> None:
    """By `env.max_steps` the one that moved last, too; by the environment; one that was terminated before stays so."""
    found = cut_by_agent(name, max_steps)
    assert set(found.values()) == {True} if cut else found == {"wide": True, "narrow": False}


@pytest.mark.parametrize(
    ("rest", "words"),
    [
        ("conect_four_v3", "PettingZoo has no environment 'conect_four_v3'; did you mean `connect_four_v3`"),
        ("clasic/rps_v2", "did you mean `classic/rps_v2`"),
        ("pistonball_v6", "it is for 20 agents; .* its own are n_pistons"),
        ("connect_four_v3(1)", r"\(keyword=value, ...\)"),
        ("connect_four_v3(size=3)", "TypeError: .* unexpected keyword argument 'size'"),
        ("nobody.game_v0", "nobody is not installed"),
        ("json.tool", "it defines no environment of pettingzoo"),
    ],
)
def test_what_cannot_be_played_is_one_line(rest: str, words: str, capfd: pytest.CaptureFixture[str]) -> None:
    if rest.startswith("piston"):
        pytest.importorskip("pymunk")
    with pytest.raises(ConfigError, match=words) as caught:
        adapter.open(rest)
    assert "\n" not in str(caught.value) and capfd.readouterr() == ("", "")


def test_what_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rlcard", None)
    for name in [name for name in sys.modules if name.startswith("pettingzoo.classic.")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(ConfigError, match=r"rlcard is not installed; pip install 'pettingzoo\[classic\]'"):
        adapter.open("leduc_holdem_v4")
