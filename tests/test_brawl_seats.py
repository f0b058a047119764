"""Brawl favours no seat, no side, no row and no thread."""

from __future__ import annotations

import numpy as np
import pytest

from league.envs.brawl.env import Options, make, options_hash
from league.envs.brawl.state import pack_state, unpack_state
from league.types import DRAW, EXTERNAL

OPTIONS = Options(ticks_per_step=2, time_limit_seconds=15.0, stocks=2, respawn_seconds=0.5)


def exchanged(blob, rows, options):
    """The state with the two fighters of every match in each other's seat, controllers and streams with them."""
    records = unpack_state(blob, rows, options_hash(options))
    records["fighters"] = records["fighters"][:, ::-1].copy()
    return pack_state(records, options_hash(options))


def keys(rng, rows):
    return (rng.random((rows, 2, 10)) < rng.uniform(0.1, 0.7, (rows, 2, 10))).astype(np.int32)


def test_seat_exchange_gives_the_exchanged_match_bit_for_bit():
    """Fighters, controllers and actions swapped through the state play on as the exact exchange of the match."""
    pairs = [(EXTERNAL, EXTERNAL)] * 8 + [(EXTERNAL, 2), (1, EXTERNAL), (1, 2), (2, 2), (0, 2), (1, 1)]
    rows = len(pairs)
    batch, mirror = make(rows, 1, OPTIONS), make(rows, 1, OPTIONS)
    batch.controllers[:] = pairs
    batch.reset(5)
    mirror.set_state(exchanged(batch.get_state(), rows, OPTIONS))
    rng = np.random.default_rng(5)
    ticks = ends = 0
    while ticks < 20_000:
        if ticks % 3 == 0:
            batch.actions[:] = keys(rng, rows)
        mirror.actions[:] = batch.actions[:, ::-1]
        batch.step()
        mirror.step()
        ticks += rows * OPTIONS.ticks_per_step
        assert_exchanged(batch, mirror)
        ended = batch.terminated
        ends += int(ended.sum())
        ours = unpack_state(exchanged(batch.get_state(), rows, OPTIONS), rows, options_hash(OPTIONS))
        theirs = unpack_state(mirror.get_state(), rows, options_hash(OPTIONS))
        assert ours[~ended].tobytes() == theirs[~ended].tobytes()
        if ended.any():
            mirror.set_state(pack_state(ours, options_hash(OPTIONS)))
    assert ends >= 10


def assert_exchanged(batch, mirror):
    np.testing.assert_array_equal(batch.terminated, mirror.terminated)
    np.testing.assert_array_equal(batch.reward_terms, mirror.reward_terms[:, ::-1])
    on, ended = ~batch.terminated, batch.terminated
    np.testing.assert_array_equal(batch.obs[on], mirror.obs[on, ::-1])
    np.testing.assert_array_equal(batch.mask[on], mirror.mask[on, ::-1])
    np.testing.assert_array_equal(batch.final_obs[ended], mirror.final_obs[ended, ::-1])
    for ours, theirs in zip(batch.result[ended], mirror.result[ended], strict=True):
        assert theirs["winner"] == (DRAW if ours["winner"] == DRAW else 1 - ours["winner"])
        assert (theirs["end_reason"], theirs["ticks"]) == (ours["end_reason"], ours["ticks"])
        np.testing.assert_array_equal(theirs["metrics"], ours["metrics"][::-1])


@pytest.mark.parametrize("bot", [1, 2])
def test_mirror_matches_are_even(bot):
    """A bot against itself wins from both seats and from both sides equally often, within 4 sigma of 3,000 matches."""
    options = Options()
    batch = make(500, 1, options)
    batch.controllers[:] = bot
    batch.reset(17)
    sides, winners = [], []
    side = batch.obs[:, 0, 0] > 0
    while len(winners) < 3000:
        batch.step()
        ended = batch.terminated
        sides += side[ended].tolist()
        winners += batch.result["winner"][ended].tolist()
        side[ended] = batch.obs[ended, 0, 0] > 0
    side, winner = np.array(sides), np.array(winners)
    decided = winner != DRAW
    assert abs(side.mean() - 0.5) < 4 * 0.5 / np.sqrt(len(side))
    for first in (winner == 0, (winner == 0) == side):
        assert abs(first[decided].mean() - 0.5) < 4 * 0.5 / np.sqrt(decided.sum())


def trace(batch, steps, actions):
    """The bytes of all that a batch shows over some steps, a list of per-row arrays."""
    out = []
    for t in range(steps):
        batch.actions[:] = actions[t]
        batch.step()
        out.append(np.concatenate([a.reshape(batch.num_rows, -1) for a in (batch.obs, batch.reward_terms)], 1))
    return np.stack(out)


def test_a_match_depends_only_on_its_seed_controllers_and_actions():
    """The same seeds in other rows, and stepped by other numbers of threads, give the same matches bit for bit."""
    options = Options(time_limit_seconds=4.0)
    rows, steps = 12, 120
    seeds = np.arange(100, 100 + rows, dtype=np.uint64)
    rng = np.random.default_rng(0)
    actions = np.stack([keys(rng, rows) for _ in range(steps)])
    controllers = rng.integers(-1, 3, (rows, 2))
    traces = []
    for order, threads in ((slice(None), 1), (slice(None, None, -1), 1), (slice(None), 2), (slice(None), 5)):
        batch = make(rows, threads, options)
        batch.controllers[:] = controllers[order]
        batch.reset(seeds[order])
        traces.append(trace(batch, steps, actions[:, order])[:, order])
    for other in traces[1:]:
        assert other.tobytes() == traces[0].tobytes()


def test_seeds_matter():
    """Different seeds start matches on either side, and the same array of one seed starts equal ones."""
    batch = make(64, 1, Options())
    batch.reset(1)
    assert 16 < (batch.obs[:, 0, 0] > 0).sum() < 48
    batch.controllers[:] = 2
    batch.reset(np.full(64, 9, np.uint64))
    for _ in range(200):
        batch.step()
    assert (batch.obs == batch.obs[0]).all()
