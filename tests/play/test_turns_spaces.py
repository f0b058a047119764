"""Games in turns with actions of all kinds, and the opponent's last action where it is public."""

import numpy as np
import pytest
import torch

from league.device import products
from league.envs import registry
from league.envs.lastaction import shown
from tests.helpers.matches import OpenHands, Waltz
from tests.helpers.rollouts import make_collector
from tests.play.test_turns import segment


@pytest.fixture(autouse=True)
def _games(monkeypatch: pytest.MonkeyPatch) -> None:
    games = {"openhands": OpenHands.as_game(), "waltz": Waltz.as_game()}
    monkeypatch.setattr(registry, "_games", {**registry._games, **games})


@pytest.mark.parametrize(("game", "stack"), [("openhands", True), ("waltz", False)])
def test_learning_reads_the_tokens_of_play(game: str, stack: bool) -> None:
    """`sequence` with the views gives play's log-probabilities; every token is an action that was played, or none."""
    collector = make_collector(game, 10, stack=stack, precision="highest")
    with products("highest"), torch.no_grad():
        collector.collect(13, 1)
        rollout = collector.collect(30, 2)
        log_prob, _, value = collector.policy.sequence(*segment(rollout))
        without, _, _ = collector.policy.sequence(*segment(rollout)[:-1])
    assert rollout.ends.any() and rollout.action.dtype == (torch.float32 if game == "waltz" else torch.int64)
    assert (log_prob.T - rollout.log_prob).abs().max() < 2e-5 and (value.T - rollout.value).abs().max() < 1e-5
    spec = collector.spec
    start, stop = spec.opponent_slice
    tokens = rollout.obs[..., start:stop]
    assert (tokens != 0).any() and (tokens == 0).all(-1).any()
    if game == "waltz":  # seat 1 goes twice, and seat 0 looks on
        assert rollout.watched is not None and (without.T - rollout.log_prob).abs().max() > 1e-4
        there = rollout.watched.before < 30
        seen = rollout.watched.obs[there][:, start:stop]
        assert len(seen) > 5 and (seen != 0).any(-1).all()


def test_a_waiting_seat_keeps_its_last_action_on_show() -> None:
    """While the other goes on alone, what a seat played last stays what the other sees of it."""
    batch = registry.make("waltz", rows=8, threads=1, options={})
    spec, rng = batch.spec, np.random.default_rng(0)
    start = spec.opponent_slice[0]
    batch.reset(0)
    last = np.zeros((8, 2, spec.action.num_parts), np.float32)
    has_acted = np.zeros((8, 2), np.bool_)
    twice = 0
    for _ in range(40):
        batch.held[:] = rng.random(8) < 0.3  # type: ignore[attr-defined]
        acts = batch.to_act & ~batch.held[:, None]  # type: ignore[attr-defined]
        batch.actions[:] = spec.action.legal_actions(batch.mask, rng.random((8, 2, spec.action.num_draws)))
        given = batch.actions.copy()
        batch.step()
        last[acts], has_acted[acts] = given[acts], True
        has_acted[batch.terminated | batch.truncated] = False
        expected = np.where(has_acted[..., None], shown(spec.action, last), 0)[:, ::-1]
        assert np.array_equal(batch.obs[..., start:], expected)
        twice += int((acts & batch.to_act & has_acted[:, ::-1]).sum())  # type: ignore[attr-defined]
    assert twice > 10
