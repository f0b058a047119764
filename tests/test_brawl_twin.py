"""Brawl's compiled rules against the slow twin: the same bits, tick by tick."""

from __future__ import annotations

import numpy as np
import pytest

from league.envs.brawl.env import Options, make, rules_of
from league.envs.brawl.reference import ReferenceMatch, next_seed, row_seed
from league.envs.brawl.rules import END_REASONS, METRICS, TERMS
from league.envs.brawl.state import HEADER_SIZE, STATE_DTYPE
from league.types import EXTERNAL

SHORT = {"time_limit_seconds": 12.0, "stocks": 2, "respawn_seconds": 0.5, "protection_seconds": 1.0}


def random_keys(rng, rows):
    """Actions (rows, 2, 10) that roam, fight and hold keys for a while; the chance of a key differs by seat and row."""
    chance = rng.uniform(0.1, 0.7, size=(rows, 2, 10))
    return (rng.random((rows, 2, 10)) < chance).astype(np.int32)


def bits(values, dtype):
    """The bytes of `values` rounded once to `dtype`: unlike ==, they tell 0.0 from -0.0."""
    return np.ascontiguousarray(values).astype(dtype).tobytes()


def assert_same(batch, twins, outcomes):
    """Every array of the batch holds the twins' numbers, bit for bit."""
    assert batch.get_state()[HEADER_SIZE:] == np.array([twin.record() for twin in twins], STATE_DTYPE).tobytes()
    obs = np.array([[twin.observe(s) for s in (0, 1)] for twin in twins])
    assert batch.obs.tobytes() == bits(obs, np.float32)
    assert batch.mask.tobytes() == bits([[twin.legal(s) for s in (0, 1)] for twin in twins], np.bool_)
    if outcomes is None:
        return
    terms = [[[t[name] for name in TERMS] for t in out.terms] for out in outcomes]
    assert batch.reward_terms.tobytes() == bits(terms, np.float32)
    ended = np.array([out.end_reason is not None for out in outcomes])
    assert batch.terminated.tobytes() == ended.tobytes()
    assert not batch.truncated.any()
    for i in np.flatnonzero(ended):
        assert_same_end(batch, i, outcomes[i])


def assert_same_end(batch, i, out):
    """The end of row i, as its arrays tell it, is the twin's."""
    assert batch.final_obs[i].tobytes() == bits(out.final_obs, np.float32)
    result = batch.result[i]
    assert END_REASONS[result["end_reason"]] == out.end_reason
    assert (result["winner"], result["ticks"], result["seed"]) == (out.winner, out.ticks, out.seed)
    assert result["metrics"].tobytes() == bits(out.metrics, np.float32)
    assert result["metrics"].shape == (2, len(METRICS))


@pytest.mark.parametrize("ticks_per_step", [1, 3, 30])
@pytest.mark.parametrize("seed", [0, 7, 2**64 - 1])
def test_twin_is_equal_bit_for_bit(seed, ticks_per_step):
    """State, observations, masks, rewards and results equal the twin's over random keys and every controller."""
    options = Options(ticks_per_step=ticks_per_step, **SHORT)
    pairs = [(EXTERNAL, EXTERNAL), (EXTERNAL, 2), (1, EXTERNAL), (1, 1), (2, 2), (0, 2), (1, 2), (2, EXTERNAL)]
    batch = make(len(pairs), 1, options)
    batch.controllers[:] = pairs
    batch.reset(seed)
    twins = [ReferenceMatch(rules_of(options), row_seed(seed, i)) for i in range(len(pairs))]
    for twin, pair in zip(twins, pairs, strict=True):
        twin.fighters[0].controller, twin.fighters[1].controller = pair
    assert_same(batch, twins, None)
    rng = np.random.default_rng(seed)
    ends = 0
    for step in range(max(60, 1500 // ticks_per_step)):
        if step % 4 == 0:
            batch.actions[:] = random_keys(rng, len(pairs))
        batch.step()
        outcomes = [twin.step(batch.actions[i].tolist()) for i, twin in enumerate(twins)]
        assert_same(batch, twins, outcomes)
        ends += int(batch.terminated.sum())
    assert ends >= len(pairs)


def test_twin_test_reaches_every_mechanic():
    """The keys of the twin test bring about every move, dodges, taunts, bounces, knock-outs and respawns."""
    options = Options(**SHORT)
    batch = make(32, 1, options)
    batch.reset(3)
    batch.controllers[:8] = (EXTERNAL, 2)
    rng = np.random.default_rng(3)
    seen: dict[str, set[int]] = {name: set() for name in ("move", "dodge", "taunt", "respawn", "move_hit")}
    counts = dict.fromkeys(("knock_outs", "self_destructs"), 0)
    for step in range(800):
        if step % 4 == 0:
            batch.actions[:] = random_keys(rng, 32)
        batch.step()
        fighters = np.frombuffer(batch.get_state(), STATE_DTYPE, offset=HEADER_SIZE)["fighters"]
        for name, values in seen.items():
            values.update(np.unique(fighters[name]).tolist())
        for name in counts:
            counts[name] += int(fighters[name].sum())
    assert seen["move"] == set(range(-1, 10))
    assert all(len(seen[name]) > 1 for name in seen)
    assert all(counts.values())


def test_seeds_follow_from_the_row_and_the_match_before():
    """reset(int) seeds row i by splitmix64 of (seed, i), and a row's next seed follows from its last one."""
    batch = make(4, 1, Options(time_limit_seconds=1.0))
    batch.reset(99)
    expected = [row_seed(99, i) for i in range(4)]
    for _ in range(3):
        for _ in range(10):
            batch.step()
        assert batch.terminated.all()
        assert batch.result["seed"].tolist() == expected
        expected = [next_seed(seed) for seed in expected]
