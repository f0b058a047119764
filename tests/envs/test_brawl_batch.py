"""The batch itself: its arrays and its checks."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from pydantic import ValidationError

from league.envs.brawl.env import FIELDS, KEYS, SPEC, Options, make, spec
from league.envs.brawl.rules import BOTS, METRICS, TERMS
from league.envs.contract.check import check_match_batch
from league.types import EXTERNAL, result_dtype


def test_the_arrays_are_those_of_the_contract():
    """Shapes and types are MatchBatch's, and stepping writes into the same arrays."""
    batch = make(5, 1, Options())
    arrays = {
        "obs": ((5, 2, 64), np.float32),
        "final_obs": ((5, 2, 64), np.float32),
        "actions": ((5, 2, 10), np.int32),
        "mask": ((5, 2, 10), np.bool_),
        "reward_terms": ((5, 2, len(TERMS)), np.float32),
        "terminated": ((5,), np.bool_),
        "truncated": ((5,), np.bool_),
        "controllers": ((5, 2), np.int16),
        "result": ((5,), result_dtype(len(METRICS))),
    }
    held = {name: getattr(batch, name) for name in arrays}
    for name, (shape, dtype) in arrays.items():
        assert held[name].shape == shape and held[name].dtype == dtype
    assert (batch.controllers == EXTERNAL).all()
    before = held["obs"].copy()
    batch.actions[:, :, KEYS.index("jump")] = 1
    batch.step()
    assert all(getattr(batch, name) is array for name, array in held.items())
    assert (held["obs"] != before).any()
    assert batch.spec == spec(Options()) and batch.num_rows == 5


def test_brawl_keeps_the_contract():
    """The public checker of match batches finds nothing wrong."""
    check_match_batch(lambda rows, threads: make(rows, threads, Options(time_limit_seconds=10.0)), steps=300)


def test_the_spec_fits_the_field_table():
    """The 32 named fields make one half, the opponent's half is the other, and the parts are as many as the keys."""
    assert len(FIELDS) == len({name for name, *_ in FIELDS}) == 32
    assert SPEC.obs_size == 64 and SPEC.opponent_slice == (32, 64)
    assert SPEC.action.mask_size == len(KEYS) == 10
    assert SPEC.bots == BOTS and BOTS[:3] == ("constant", "random", "based") and len(BOTS) == 8


@pytest.mark.parametrize("value", [2, -1, 1 << 20])
def test_a_key_outside_0_and_1_is_refused(value):
    """An action that is not 0 or 1 raises before anything moves, and is ignored where a bot plays."""
    batch = make(3, 1, Options())
    before = batch.get_state()
    batch.actions[1, 0, 4] = value
    with pytest.raises(ValueError, match=r"actions\[1, 0\].*0 or 1"):
        batch.step()
    assert batch.get_state() == before
    batch.controllers[1, 0] = BOTS.index("random")
    batch.step()


@pytest.mark.parametrize("value", [-2, 8, 300])
def test_an_unknown_controller_is_refused(value):
    """A controller that is no bot's id raises, naming the place and the value."""
    batch = make(3, 1, Options())
    batch.controllers[2, 1] = value
    with pytest.raises(ValueError, match=rf"controllers\[2, 1\]={value}"):
        batch.step()


@pytest.mark.parametrize(
    "seed",
    [-1, 2**64, 1.5, True, "1", None, np.zeros(2, np.uint64), np.zeros(3, np.int64), np.zeros((3, 1), np.uint64)],
)
def test_a_wrong_seed_is_refused(seed):
    """Seeds are ints of 64 bits or one uint64 a row."""
    with pytest.raises(ValueError, match="seed"):
        make(3, 1, Options()).reset(seed)


def test_wrong_sizes_and_options_are_refused():
    """Rows, threads and options outside their rules raise, naming themselves."""
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
