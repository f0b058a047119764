"""Brawl's batch and its state blob: what they take, and what they refuse."""

import subprocess
import sys

import numpy as np
import pytest
from pydantic import ValidationError

from league.envs.blob import pack
from league.envs.brawl.env import FIELDS, KEYS, SPEC, Options, make, options_hash
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


@pytest.mark.parametrize(
    ("damage", "rule"),
    [
        (lambda b: b"", "shorter than a header"),
        (lambda b: b[:-1], "checksum"),
        (lambda b: pack(b[:8], b[8:24], 6, b[32:] + b"\0"), "cut or padded"),
        (lambda b: bytearray(b), "get_state"),
        (lambda b: b"x" + b[1:], "not of this game"),
        (lambda b: b[:24] + b"\x07" + b[25:], "rows"),
        (lambda b: b[:8] + bytes(16) + b[24:], "options"),
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


def refused(path, value):
    """The error of a well-formed blob with this value in one place; the batch stays as it was."""
    batch = played()
    blob = batch.get_state()
    array = records = unpack_state(blob, 6, HASH)
    for name in path:
        array = array[name]
    array[3] = value
    with pytest.raises(ValueError) as caught:
        batch.set_state(pack_state(records, HASH))
    assert batch.get_state() == blob
    return str(caught.value)


@pytest.mark.parametrize("name", INT_RANGES)
def test_each_integer_of_a_fighter_is_checked(name):
    """The least and the most that the table names are taken, one beyond either is refused."""
    batch = played()
    records = unpack_state(batch.get_state(), 6, HASH)
    for value in INT_RANGES[name]:
        records["fighters"][name][3, 1] = value
        batch.set_state(pack_state(records, HASH))
    for value in np.add(INT_RANGES[name], [-1, 1]):
        assert f"fighters.{name}={value} must be within" in refused(("fighters", name), value)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        *((("fighters", "x"), np.nan), (("fighters", "vy"), np.inf), (("fighters", "damage"), -1e300)),
        *((("fighters", "facing"), 0), (("fighters", "side"), 3), (("fighters", "controller"), len(BOTS))),
        *((("items", "kind"), 3), (("items", "ticks"), -1), (("items", "left"), 2**40), (("items", "x"), np.nan)),
        *((("platform_y",), np.inf), (("platform_y",), -1e7), (("platform_direction",), 0.0)),
        *((("platform_direction",), np.nan), (("tick",), -1), (("tick",), 2**62)),
    ],
)
def test_an_impossible_value_is_refused_by_name(path, value):
    """Of numbers, signs, items, platform and clock, which the compiled rules could not play."""
    assert ".".join(path) in refused(path, value)


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


def test_the_spec_fits_the_field_table():
    """The 32 named fields make one half, the opponent's half is the other, and the parts are as many as the keys."""
    assert len(FIELDS) == len({name for name, *_ in FIELDS}) == 32
    assert SPEC.obs_size == 64 and SPEC.opponent_slice == (32, 64)
    assert SPEC.action.mask_size == len(KEYS) == 10
    assert SPEC.bots == BOTS and BOTS[:3] == ("constant", "random", "based") and len(BOTS) == 8


def test_wrong_sizes_and_options_are_refused():
    with pytest.raises(ValueError, match="rows=0"):
        make(0, 1, Options())
    with pytest.raises(ValueError, match="threads=0"):
        make(1, 0, Options())
    for wrong in ({"ticks_per_step": 0}, {"ticks_per_step": 31}, {"stocks": 0}, {"gravity": 1}):
        with pytest.raises(ValidationError, match=next(iter(wrong))):
            Options(**wrong)


def test_the_spec_needs_no_compiled_module():
    """Importing env.py loads the compiled rules only when a batch is made."""
    code = "import sys, league.envs.brawl.env; sys.exit('league.envs.brawl.brawl' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
