"""All spaces through the engine: rollouts and their replay, graphs, evaluation, evidence, the lone agent, the faces."""

import warnings
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.utils.env_checker import check_env, data_equivalence
from gymnasium.vector import AutoresetMode
from pettingzoo.test import parallel_api_test

import league
import league.gym
from league.envs import registry
from league.errors import LeagueError, SnapshotError, UsageError
from league.play import evaluation, opponents, strict
from league.play.graphs import StepGraphs
from league.play.opponents import stacked_shape
from league.snapshots import Agent
from league.snapshots.io import save
from league.snapshots.manifest import About, GameRecord, spec_to_json
from league.types import EXTERNAL, Origin
from league.zoo import ParallelMatch
from tests.helpers import guessing
from tests.helpers.capturing import Double, without_kernels
from tests.helpers.cases import cases
from tests.helpers.rollouts import make_collector, network, same
from tests.helpers.sizes import SMALL

SHORT = ("agent.opponent_encoder=false", "rewards.right=1.0", "run.allow_short=true", "run.total_steps=256")
MIX = 'pool.mix={self_play=0.5,"bot:random"=0.5}'


@pytest.fixture(autouse=True)
def _game(monkeypatch: pytest.MonkeyPatch) -> None:
    guessing.register(monkeypatch)


@pytest.mark.parametrize(
    "kind, stack",
    cases(("tuples", False), ("mixture", True), ("image", True), slow=product(guessing.KINDS, (False, True))),
)
def test_rollouts_hold_what_was_played(kind: str, stack: bool) -> None:
    """Legal actions of the game's type for both seats; learning sees the log-probabilities of play."""
    collector = make_collector("guessing", kind=kind, stack=stack)
    batch = collector.lanes[0].batch
    rollout = collector.collect(9, 1)
    assert rollout.action.dtype == (torch.float32 if batch.spec.action.has_real else torch.int64)
    mask = None if rollout.mask is None else rollout.mask.numpy()
    assert batch.spec.action.is_legal(rollout.action.numpy().astype(batch.actions.dtype), mask).all()
    with torch.no_grad():
        log_prob, _, value = collector.policy.sequence(
            rollout.obs.transpose(0, 1),
            rollout.action.transpose(0, 1),
            rollout.state,
            rollout.is_first.t(),
            None if rollout.mask is None else rollout.mask.transpose(0, 1),
        )
    assert (log_prob.t() - rollout.log_prob).abs().max() < 2e-5
    assert (value.t() - rollout.value).abs().max() < 1e-5
    assert len(rollout.action.flatten(0, 1).unique(dim=0)) > 1 and rollout.is_first[1:].any()


@pytest.mark.parametrize("kind, lanes", cases(("mixture", 2), slow=product(guessing.KINDS, (1, 2))))
def test_a_saved_state_plays_on(kind: str, lanes: int) -> None:
    """With last actions, too: another collector, in other lanes as well, goes on from what was seen and remembered."""
    first, second = (make_collector("guessing", kind=kind, public=True) for _ in range(2))
    first.collect(6, 1)
    state = first.state_dict()
    second.pool.load_state_dict(first.pool.state_dict())
    assert second.load_state_dict(state).carried == 12
    assert same(first.collect(5, 2), second.collect(5, 2))
    other = make_collector("guessing", kind=kind, public=True, lanes=lanes, seed=3)
    other.load_state_dict(state)
    there = np.concatenate([lane.batch.obs for lane in other.lanes])
    second.load_state_dict(state)
    assert np.array_equal(there, second.lanes[0].batch.obs) and there[..., -2:].any()


@pytest.mark.parametrize("kind", cases("tuples", slow=["mixture", "image"]))
def test_graphs_replay_what_plain_calls_play(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps of tuples, real numbers, tables and convolutions have fixed shapes and read fixed addresses."""
    cuda = torch.device("cuda")
    monkeypatch.setattr(opponents, "stacked_shape", lambda nets, rows, _: stacked_shape(nets, rows, cuda))
    without_kernels(monkeypatch)
    plain, replayed = (make_collector("guessing", kind=kind, stack=True) for _ in range(2))
    double = Double(replayed.generator)
    graphs: Any = StepGraphs(replayed.generator, "float32", print, double)
    replayed.lanes[0].nets.graphs = graphs
    for update in range(1, 4):
        assert same(plain.collect(8, update), replayed.collect(8, update))
    assert double.replays > 2


@pytest.mark.parametrize("kind", cases("tuples", "mixture", slow=guessing.KINDS))
def test_evaluation_plays_all_spaces(kind: str) -> None:
    """Nets, stacked where that is faster, and bots finish their matches; one net twice gives the same again."""
    nets = [network("guessing", {"kind": kind}, seed).requires_grad_(False) for seed in (1, 2)]
    known = [evaluation.Contestant(f"net-{i}", net, "f") for i, net in enumerate(nets)]
    pairs = [(known[0], known[1]), (known[0], evaluation.Contestant("bot:random"))]
    pairings = [evaluation.Pairing(a, b, 4, 7) for a, b in pairs]

    def play() -> Any:
        return evaluation.play(
            lambda rows: registry.make("guessing", rows=rows, threads=1, options={"kind": kind}),
            pairings,
            Origin("e", "g"),
            update=0,
        )

    results = play()
    assert len(results) == 8 and results == play()


class Liar(guessing.GuessingBatch):
    """From some step on row 3's mask, seat 1, is not what the state says."""

    made = 0

    def step(self) -> None:
        super().step()
        self.made += 1
        if self.made >= 5 and self.num_rows == 8:
            assert self.mask is not None
            if self.mask.dtype == np.int16:
                self.mask[3, 1] = self.mask[3, 1][::-1]
            else:
                self.mask[3, 1, 0] = ~self.mask[3, 1, 0]


@pytest.mark.parametrize("kind, words", cases(("tuples", "tuples ("), slow=[("mixture", "part 0: ")]))
def test_evidence_tells_masks_of_all_kinds(
    kind: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mask that differs from the state stops a strict run, told in words, and its file replays."""
    made = {**vars(guessing.GAME), "make": staticmethod(lambda rows, threads, options: Liar(rows, options))}
    lying = type("Lying", (), made)
    monkeypatch.setitem(registry._games, "guessing", lying)
    monkeypatch.setattr(strict, "SHARE", 1.0)  # every step is looked at
    store = tmp_path / "league.duckdb"
    given = [*SMALL, *SHORT, MIX, f"env.kind={kind}", "env.strict_masks=true"]
    with pytest.raises(LeagueError, match="strict_masks: guessing") as caught:
        league.train("smoke", env="guessing", run="me", overrides=given, store=store)
    assert f"allowed by the mask as seen: {words}" in str(caught.value)
    (path,) = (tmp_path / "me" / "failures").iterdir()
    found = league.replay(path)
    assert any(words in line for line in found.differences)


@pytest.mark.parametrize("kind", cases("mixture", slow=guessing.KINDS))
def test_an_export_plays_alone(kind: str, tmp_path: Path) -> None:
    """A run of each kind trains and is exported; the agent's actions are legal, greedy ones the same each time."""
    store = tmp_path / "league.duckdb"
    given = [*SMALL, *SHORT, MIX, f"env.kind={kind}"]
    league.train("smoke", env="guessing", run="me", overrides=given, store=store)
    league.export("me", tmp_path / "out", store=store)
    agent = Agent.load(tmp_path / "out")
    batch = registry.make("guessing", rows=6, threads=1, options={"kind": kind})
    batch.controllers[:] = EXTERNAL
    batch.reset(3)
    for _ in range(3):
        mask = None if batch.mask is None else batch.mask[:, 0]
        action = agent.act(batch.obs[:, 0], mask)
        assert action.dtype == (np.float32 if batch.spec.action.has_real else np.int64)
        assert batch.spec.action.is_legal(action.astype(batch.actions.dtype), mask).all()
        batch.actions[:, 0] = action
        batch.step()
    agent.reset()
    one = agent.act(batch.obs[0, 0], None if batch.mask is None else batch.mask[0, 0], greedy=True)
    assert one.shape == (batch.spec.action.num_parts,)


def test_a_manifest_whose_parts_do_not_fit_is_refused(tmp_path: Path) -> None:
    """Parts that the spec does not have, others than the weights', or that cut each other: one line, nothing built."""
    policy = network("guessing", {"kind": "mixture"}, 0)
    spec = spec_to_json(guessing.spec(guessing.Options(kind="mixture")))
    sizes = policy.architecture.to_json()
    record = GameRecord(name="guessing", version=1, game_id="0" * 16, options={"kind": "mixture"})

    def written(name: str, **changes: Any) -> Path:
        given = {"spec": spec, "architecture": sizes, **changes}
        about = {"run": "r", "step": 0, "update": 0, "seed": 0, "fingerprint": "ab" * 32, "game": record}
        save(tmp_path / name, policy.state_dict(), About(**about, **given, config={}, history_tokens=5))
        return tmp_path / name

    assert Agent.load(written("good")).policy.architecture == policy.architecture
    huge = [{**part, "count": 2**24} if part["kind"] == "tokens" else part for part in sizes["observation"]]
    flat = {name: value for name, value in sizes.items() if name != "observation"}
    for name, changes, rule in (
        ("flat", {"architecture": flat}, "not made for the observations"),
        ("huge", {"architecture": {**sizes, "observation": huge}, "spec": {**spec, "observation": huge}}, "not torch"),
        ("many", {"architecture": {**sizes, "action": {"kind": "box", "bounds": [[0, 1]] * 9}}}, "not made for"),
        ("kind", {"architecture": {**sizes, "action": {"kind": "bow"}}}, "kind"),
        ("none", {"architecture": {**sizes, "action": {"kind": "mixture"}}}, "at least one"),
    ):
        with pytest.raises(SnapshotError, match=rule) as caught:
            Agent.load(written(name, **changes))
        assert "\n" not in str(caught.value)


def test_an_agent_refuses_masks_and_tokens_that_cannot_be(tmp_path: Path) -> None:
    """Each in one line that says the rule; the memory is as before."""
    tuples = Agent(network("guessing", {"kind": "tuples"}, 0).requires_grad_(False), None)  # type: ignore[arg-type]
    obs, good = np.zeros(16, np.float32), np.array([0, 1, 2, 3] + [-1] * 8)
    assert tuples.act(obs, good).tolist() in ([0, 1], [2, 3])
    for mask, rule in (
        (None, "give it the game's mask"),
        (np.full(12, -1), "no tuple is legal"),
        (np.array([0, 1, 0, 1] + [-1] * 8), "listed twice"),
        (np.array([0, 1, 3, 3] + [-1] * 8), "no choice of its part"),
        (np.array([0, 1, -1, -1, 2, 3] + [-1] * 6), "follows a -1"),
        (np.array([0, 0.5] + [-1] * 10), "must be a choice"),
    ):
        with pytest.raises(UsageError, match=rule):
            tuples.act(obs, mask)
    tokens = Agent(network("guessing", {"kind": "tokens"}, 0).requires_grad_(False), None)  # type: ignore[arg-type]
    assert tokens.act([0, 3, 1, 2, 1]).shape == (2,)
    for seen in ([0, 4, 1, 2, 1], [0, -1, 1, 2, 1], [0, 1.5, 1, 2, 1]):
        with pytest.raises(UsageError, match=r"part 'cards' has .*; its tokens are whole numbers from 0 to 3"):
            tokens.act(seen)


@pytest.fixture
def face() -> Iterator[str]:
    """The game's id in Gymnasium."""
    league.gym.register("guessing")
    yield "league/Guessing-v0"
    del gymnasium.registry["league/Guessing-v0"]


@pytest.mark.parametrize("kind", guessing.KINDS)
def test_faces_show_all_spaces(kind: str, face: str) -> None:
    """Gymnasium's and PettingZoo's checkers pass, and the native vector environment is one of single ones."""
    given: dict[str, Any] = {"kind": kind, "opponent": "random", "rewards": {"right": 1.0}}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", ".*recommend using a symmetric and normalized space")
        check_env(gymnasium.make(face, **given).unwrapped)
        parallel_api_test(ParallelMatch("guessing", kind=kind, rewards={"right": 1.0}), num_cycles=20)
    sync = {"autoreset_mode": AutoresetMode.SAME_STEP}
    native = gymnasium.make_vec(face, 3, "vector_entry_point", **given)
    single = gymnasium.make_vec(face, 3, "sync", vector_kwargs=sync, **given)
    assert native.observation_space == single.observation_space and native.action_space == single.action_space
    assert data_equivalence(native.reset(seed=1), single.reset(seed=1), exact=True)
    native.action_space.seed(0)
    for _ in range(9):
        actions = native.action_space.sample()
        assert data_equivalence(native.step(actions), single.step(actions), exact=True)


def test_faces_refuse_actions_that_are_not_of_the_space(face: str) -> None:
    """Named by part, nothing rounded or clipped."""
    given: dict[str, Any] = {"opponent": "random", "rewards": {"right": 1.0}}
    mixture = gymnasium.make(face, kind="mixture", **given).unwrapped
    mixture.reset(seed=1)
    good = {"pick": 1, "aim": [0.5], "rest": ([0, 1], [1, 2])}
    mixture.step(good)
    for wrong, rule in (
        ({**good, "pick": 3}, r"action\['pick'\]\[\]=3: must be an integer from 0 to 2"),
        ({**good, "aim": [2.5]}, r"action\['aim'\]\[0\]=2.5: must be a number from -2 to 2"),
        ({**good, "aim": [float("nan")]}, "must be a number from -2 to 2"),
        ({**good, "rest": ([0, 1],)}, r"action\['rest'\]=.* must be a tuple of 2 parts"),
        ({"pick": 1}, "must be a dict of pick, aim, rest"),
        ({**good, "rest": ([0, 2], [1, 2])}, r"action\['rest'\]\[0\]\[1\]=2: must be an integer from 0 to 1"),
    ):
        with pytest.raises(UsageError, match=rule):
            mixture.step(wrong)
