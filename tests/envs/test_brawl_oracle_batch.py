"""The batch that plays brawl where nothing was compiled: the same contract, the same bits."""

import numpy as np
import pytest

from league.envs.brawl import env
from league.envs.brawl.env import Options
from league.envs.brawl.rules import BOTS
from league.envs.contract.check import check_match_batch
from tests.oracles.brawl.batch import ReferenceBatch

SHORT = Options(time_limit_seconds=2.0, stocks=1, respawn_seconds=0.2)
ARRAYS = ("obs", "mask", "reward_terms", "terminated", "truncated", "final_obs", "result", "controllers")


def twin(rows: int, threads: int = 1) -> ReferenceBatch:
    """A batch of the twin under `SHORT`."""
    return ReferenceBatch(
        rows, threads, spec=env.spec(SHORT), rules=env.rules_of(SHORT), options_hash=env.options_hash(SHORT)
    )


@pytest.mark.slow
def test_the_twin_keeps_the_contract() -> None:
    """The public checker passes it, states and regrouping included."""
    check_match_batch(twin, steps=150)


def test_both_batches_are_one_game_bit_for_bit() -> None:
    """All arrays and states are equal over random keys and bots, and each goes on from the other's state."""
    ours, theirs = twin(6), env.make(6, 1, SHORT)
    rng = np.random.default_rng(0)
    for batch in (ours, theirs):
        batch.controllers[3:] = [[-1, 1], [2, 3], [BOTS.index("punisher"), -1]]
        batch.reset(7)
    ends = 0
    for step in range(200):
        keys = (rng.random((6, 2, 10)) < 0.3).astype(np.int32)
        for batch in (ours, theirs):
            batch.actions[:] = keys
            batch.step()
        for name in ARRAYS:
            assert getattr(ours, name).tobytes() == getattr(theirs, name).tobytes(), (step, name)
        state = ours.get_state()
        assert state == theirs.get_state(), step
        assert all(ours.record(row).tobytes() == theirs.record(row).tobytes() for row in range(6))
        ends += int(ours.terminated.sum())
        if step % 50 == 25:
            ours, theirs = twin(6), env.make(6, 1, SHORT)
            ours.set_state(state), theirs.set_state(state)
    assert ends >= 6


@pytest.mark.parametrize("seed", [-1, 2**64, True, 1.5, np.zeros(2, np.uint64), np.zeros(3)])
def test_both_refuse_the_same_seeds(seed: object) -> None:
    """With the same words."""
    told = []
    for batch in (twin(3), env.make(3, 1, SHORT)):
        with pytest.raises(ValueError, match="seed") as error:
            batch.reset(seed)  # type: ignore[arg-type]
        told.append(str(error.value))
    assert told[0] == told[1]


def test_both_refuse_the_same_inputs() -> None:
    """An unknown controller and a key that is neither 0 nor 1; nothing has moved then."""
    for name, value in (("controllers", len(BOTS)), ("actions", 2)):
        told = []
        for batch in (twin(2), env.make(2, 1, SHORT)):
            state = batch.get_state()
            getattr(batch, name)[1, 0] = value
            with pytest.raises(ValueError, match=rf"{name}\[1, 0\]") as error:
                batch.step()
            told.append(str(error.value))
            batch.controllers[:] = -1
            assert batch.get_state() == state
        assert told[0] == told[1]
