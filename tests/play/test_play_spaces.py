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
from league.errors import UsageError
from league.snapshots import Agent
from league.zoo import ParallelMatch
from tests.helpers import guessing
from tests.helpers.cases import cases
from tests.helpers.rollouts import make_collector, network


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


def test_an_agent_refuses_masks_and_tokens_that_cannot_be(tmp_path: Path) -> None:
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
