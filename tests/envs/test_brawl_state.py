"""Brawl's state blob: what it restores, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest

from league.envs.blob import HEADER_SIZE
from league.envs.brawl.env import Options, make, options_hash
from league.envs.brawl.moves import STRIKES
from league.envs.brawl.rules import BOTS
from league.envs.brawl.state import INT_RANGES, STATE_DTYPE, pack_state, unpack_state

OPTIONS = Options(time_limit_seconds=5.0, stocks=1)
HASH = options_hash(OPTIONS)


def played(rows=6, steps=40, options=OPTIONS, threads=1):
    """A batch in the middle of lively matches, all controllers in use."""
    batch = make(rows, threads, options)
    batch.controllers[:] = np.arange(rows * 2).reshape(rows, 2) % (len(BOTS) + 1) - 1
    batch.reset(11)
    for _ in range(steps):
        advance(batch)
    return batch


def advance(batch):
    """One step with keys that follow from the observation, so that equal batches act equally."""
    batch.actions[:] = (np.abs(batch.obs[:, :, :10] * 97.0) % 1.0 > 0.5).astype(np.int32)
    batch.step()


def test_a_restored_match_goes_on_identically():
    """set_state(get_state()) in a fresh batch of other threads shows and plays the same from there, past ends."""
    batch = played()
    blob = batch.get_state()
    other = make(6, 2, OPTIONS)
    other.set_state(blob)
    assert other.get_state() == blob
    names = ("obs", "mask", "controllers")
    ends = 0
    for _ in range(100):
        for name in names:
            assert getattr(other, name).tobytes() == getattr(batch, name).tobytes()
        advance(batch)
        advance(other)
        ends += int(batch.terminated.sum())
        names = ("obs", "mask", "controllers", "reward_terms", "terminated", "final_obs", "result")
        for name in ("final_obs", "result"):
            getattr(other, name)[~batch.terminated] = getattr(batch, name)[~batch.terminated]
    assert ends > 6


def test_set_state_clears_what_belonged_to_the_step_before():
    """Rewards and ends of the step before do not outlive a restored state."""
    batch = played(options=Options(time_limit_seconds=1.0), steps=10)
    assert batch.terminated.any() and batch.reward_terms.any()
    batch.set_state(batch.get_state())
    assert not (batch.terminated.any() or batch.reward_terms.any() or batch.final_obs.any())


@pytest.mark.parametrize(
    ("damage", "rule"),
    [
        (lambda b: b"", "length"),
        (lambda b: b[:-1], "length"),
        (lambda b: b + b"\0", "length"),
        (lambda b: bytearray(b), "bytes"),
        (lambda b: b"x" + b[1:], "magic"),
        (lambda b: b[:8] + b"\xff" + b[9:], "version"),
        (lambda b: b[:12] + b"\x07" + b[13:], "rows"),
        (lambda b: b[:16] + bytes(16) + b[32:], "options"),
        (lambda b: b[:-5] + bytes([b[-5] ^ 1]) + b[-4:], "checksum"),
        (lambda b: make(6, 1, Options()).get_state(), "options"),
        (lambda b: make(5, 1, OPTIONS).get_state(), "rows"),
    ],
)
def test_a_damaged_blob_is_refused(damage, rule):
    """A blob cut, padded, altered or of another batch raises a ValueError that names the rule; the match stays."""
    batch = played()
    blob = batch.get_state()
    with pytest.raises(ValueError, match=rule):
        batch.set_state(damage(blob))
    assert batch.get_state() == blob


def test_any_flipped_byte_is_refused():
    """No single damaged byte anywhere in the blob passes."""
    batch = played(rows=2)
    blob = batch.get_state()
    for i in range(len(blob)):
        with pytest.raises(ValueError, match="state"):
            batch.set_state(blob[:i] + bytes([blob[i] ^ 0x41]) + blob[i + 1 :])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("x", np.nan),
        ("vy", np.inf),
        ("damage", -1e300),
        ("facing", 0),
        ("side", 3),
        ("support", 3),
        ("direction", -2),
        ("stun", -1),
        ("dash", -1),
        ("turn", 2**31 - 1),
        ("stocks", 100),
        ("jumps_left", -1),
        ("move", len(STRIKES)),
        ("move", -2),
        ("move_tick", 1000),
        ("charge", 10_000),
        ("combo", 10_000),
        ("landed", 2),
        ("weapon", 3),
        ("weapon_left", -1),
        ("keys", 1024),
        ("field_ticks", -1),
        ("controller", len(BOTS)),
        ("controller", -2),
    ],
)
def test_an_impossible_value_of_a_fighter_is_refused(name, value):
    """A well-formed blob with a value that the compiled rules could not play raises a ValueError naming the field."""
    batch = played()
    records = unpack_state(batch.get_state(), 6, HASH)
    records["fighters"][name][3, 1] = value
    with pytest.raises(ValueError, match=f"fighters.{name}"):
        batch.set_state(pack_state(records, HASH))


@pytest.mark.parametrize("name", INT_RANGES)
def test_each_integer_of_a_fighter_is_checked(name):
    """The least and the most that the table names are taken, one beyond either is refused."""
    batch = played()
    records = unpack_state(batch.get_state(), 6, HASH)
    for value in INT_RANGES[name]:
        records["fighters"][name][3, 1] = value
        batch.set_state(pack_state(records, HASH))
    for value in np.add(INT_RANGES[name], [-1, 1]):
        records["fighters"][name][3, 1] = value
        with pytest.raises(ValueError, match=rf"fighters.{name}={value} must be within"):
            batch.set_state(pack_state(records, HASH))


@pytest.mark.parametrize(
    ("path", "value", "rule"),
    [
        (("items", "kind"), 3, "items.kind=3"),
        (("items", "kind"), -1, "items.kind=-1"),
        (("items", "ticks"), -1, "items.ticks=-1"),
        (("items", "left"), -1, "items.left=-1"),
        (("items", "left"), 2**40, "items.left"),
        (("items", "x"), np.nan, "items.x=nan"),
        (("platform_y",), np.inf, "platform_y=inf"),
        (("platform_y",), -1e7, "platform_y"),
        (("platform_direction",), 0.0, "platform_direction=0"),
        (("platform_direction",), np.nan, "platform_direction=nan"),
        (("tick",), -1, "tick=-1"),
        (("tick",), 2**62, "tick"),
    ],
)
def test_an_impossible_value_of_a_match_is_refused(path, value, rule):
    """Items, platform and clock are held to their ranges as the fighters are; the batch stays as it was."""
    batch = played()
    blob = batch.get_state()
    records = unpack_state(blob, 6, HASH)
    array = records
    for name in path:
        array = array[name]
    array[4] = value
    with pytest.raises(ValueError, match=rule):
        batch.set_state(pack_state(records, HASH))
    assert batch.get_state() == blob


def random_records(rng, rows, *, most):
    """States (rows,) of any values that `set_state` takes, integers up to `most`."""
    records = np.zeros(rows, STATE_DTYPE)
    fighters = records["fighters"]
    for name in ("x", "y", "vx", "vy", "damage", "damage_dealt"):
        fighters[name] = np.clip(rng.normal(size=(rows, 2)) * 10.0 ** rng.integers(-3, 6), -1e6, 1e6)
    for name, (low, high) in INT_RANGES.items():
        fighters[name] = rng.integers(low, min(high, most) + 1, (rows, 2))
    for name in ("facing", "side"):
        fighters[name] = rng.choice([-1, 1], (rows, 2))
    fighters["rng"] = rng.integers(0, 2**63, (rows, 2))
    records["items"]["x"] = rng.normal(size=(rows, 2)) * 10.0 ** rng.integers(-1, 5)
    records["items"]["kind"] = rng.integers(0, 3, (rows, 2))
    for name in ("ticks", "left"):
        records["items"][name] = rng.integers(0, most + 1, (rows, 2))
    records["platform_y"] = rng.normal(size=rows) * 10.0 ** rng.integers(-1, 5)
    records["platform_direction"] = rng.choice([-1.0, 1.0], rows)
    records["tick"] = rng.integers(0, most + 1, rows)
    return records


@pytest.mark.parametrize("most", [2, 40, 999, 2**30])
def test_accepted_states_always_play(most):
    """Whatever values a blob may hold, the game plays on with everything shown finite, and observations in [-1, 1]."""
    rng = np.random.default_rng(most)
    rows = 64
    batch = make(rows, 1, OPTIONS)
    for _ in range(25):
        batch.set_state(pack_state(random_records(rng, rows, most=most), HASH))
        for _ in range(5):
            batch.actions[:] = rng.integers(0, 2, batch.actions.shape)
            batch.step()
            for array in (batch.obs, batch.final_obs):
                assert np.isfinite(array).all() and (np.abs(array) <= 1).all()
            assert np.isfinite(batch.reward_terms).all()
            assert np.isfinite(batch.result["metrics"][batch.terminated]).all()


def test_the_header_is_as_documented():
    """The blob is a 40-byte header and one packed record a match."""
    assert HEADER_SIZE == 40
    assert len(played().get_state()) == 40 + 6 * STATE_DTYPE.itemsize
    assert STATE_DTYPE.itemsize == sum(STATE_DTYPE[name].itemsize for name in STATE_DTYPE.names)
