"""What a network from outside plays is looked at wherever it plays: nothing illegal, and no numbers that are none."""

from typing import Any

import numpy as np
import pytest
import torch

from league.envs import registry
from league.errors import GuardError, SnapshotError
from league.play.evaluation import play
from league.play.pairings import Contestant, Pairing
from league.policies.actor_critic import ActorCritic
from league.snapshots import Agent
from league.snapshots.manifest import GameRecord, Manifest, spec_to_json
from league.types import Origin
from tests.helpers.rollouts import make_collector, network


def overflowing(net: ActorCritic) -> ActorCritic:
    """Its numbers overflow."""
    for weights in net.parameters():
        weights.data.fill_(3e38)
    return net


def unwilling(net: ActorCritic) -> ActorCritic:
    """Finite numbers, of which those of an illegal choice are the greatest once the mask is laid over them."""
    net.actor[-1].bias.data.fill_(-1e15)
    return net


SPOILT = {overflowing: "gives no finite numbers", unwilling: r"plays \[\d\], which is not legal"}


@pytest.mark.parametrize("spoil", SPOILT)
@pytest.mark.parametrize("greedy", [False, True])
def test_an_evaluation_plays_nothing_that_cannot_be(spoil: Any, greedy: bool) -> None:
    """It ends in one line with the agent's name, in whichever pairing that plays."""
    good, bad = (network("kuhn", {}, seed).requires_grad_(False) for seed in (0, 1))
    sides = Contestant("a" * 64, good), Contestant("b" * 64, spoil(bad), name="theirs@1"), Contestant("bot:random")

    def meet(*pairs: tuple[int, int]) -> object:
        return play(
            lambda rows: registry.make("kuhn", rows=rows, threads=1, options={}),
            [Pairing(sides[a], sides[b], 8, seed=1) for a, b in pairs],
            Origin("e", "g"),
            update=0,
            greedy=greedy,
        )

    assert meet((0, 2))
    with pytest.raises(SnapshotError, match=f"^agent theirs@1: its network {SPOILT[spoil]}.*not stored"):
        meet((0, 2), (2, 1))


@pytest.mark.parametrize("spoil", SPOILT)
@pytest.mark.parametrize(("stack", "lanes"), [(False, 1), (True, 2)])
def test_a_rollout_plays_no_opponent_that_cannot_be(spoil: Any, stack: bool, lanes: int) -> None:
    """A frozen net of the pool, in a stack or by itself, stops the run with its name."""
    collector = make_collector("kuhn", stack=stack, lanes=lanes)
    collector.collect(8, 1)
    for i in range(3):
        spoil(collector.pool.policy(f"net-{i}"))  # type: ignore[arg-type]
        for slot, agent in enumerate(collector.nets.agents):
            if stack and agent == f"net-{i}":
                collector.nets._fill(slot)
    with pytest.raises(GuardError, match=rf"^opponent net-\d: its network {SPOILT[spoil]}") as caught:
        collector.collect(8, 2)
    assert caught.value.kind == "bad_opponent"


@pytest.mark.parametrize("spoil", SPOILT)
def test_a_lone_agent_plays_nothing_that_cannot_be(spoil: Any) -> None:
    """An exported agent, as it is watched and as it plays in Gymnasium, refuses in one line what it would play."""
    spec, net = registry.spec("kuhn", {}), spoil(network("kuhn", {}, 0))
    manifest = Manifest(
        run="theirs",
        step=1,
        update=1,
        seed=0,
        fingerprint="0" * 64,
        game=GameRecord(name="kuhn", version=1, game_id="g", options={}),
        spec=spec_to_json(spec),
        architecture={},
        config={},
        history_tokens=5,
        agent_id="0" * 64,
    )
    agent = Agent(net.requires_grad_(False), manifest)
    mask = np.array([[False, True, True, False]], np.bool_)[:, : spec.action.mask_size]
    with pytest.raises(SnapshotError, match=f"^theirs@1: its network {SPOILT[spoil]}"):
        for seed in range(20):
            agent.reset(seed)
            agent.act(torch.zeros(1, spec.obs_size).numpy(), mask)
