"""The matrix game: payoffs, observations, ends, bots, seat exchange and its state on bytes."""

import zlib
from typing import Any

import numpy as np
import pytest

from league.envs.classic.matrix import BIASED, CONSTANT, MATCH, RANDOM, MatrixBatch, Options
from league.envs.classic.shared import GOLDEN, HEADER, mix64
from league.types import DRAW, EXTERNAL

ASYMMETRIC = [[3.0, -2.0], [0.5, 1.0]]


def play(batch: MatrixBatch, actions: list[tuple[int, int]]) -> None:
    """The same pair of actions in every row, one step each."""
    for pair in actions:
        batch.actions[:, :, 0] = pair
        batch.step()


def test_rewards_are_the_matrix_and_sum_to_zero() -> None:
    """Seat 0 gets the entry of the pair of actions, seat 1 its negative, for every pair of any matrix."""
    payoff = np.random.default_rng(0).normal(size=(4, 4))
    batch = MatrixBatch(2, Options(payoff=payoff.tolist(), bot_mix=[0.25] * 4, rounds=100))
    for mine in range(4):
        for theirs in range(4):
            play(batch, [(mine, theirs)])
            assert batch.reward_terms[0, 0, 0] == np.float32(payoff[mine, theirs])
            assert batch.reward_terms[0, 1, 0] == np.float32(-payoff[mine, theirs])
            assert not batch.reward_terms[:, :, 1].any()


def test_match_against_a_plain_python_twin() -> None:
    """Winner, metrics, length and rewards of random matches equal a loop in plain Python."""
    rounds, rng = 7, np.random.default_rng(1)
    batch = MatrixBatch(5, Options(payoff=ASYMMETRIC, bot_mix=[0.5, 0.5], rounds=rounds))
    for _ in range(6):
        actions = rng.integers(0, 2, size=(rounds, 5, 2))
        for pairs in actions:
            assert not batch.terminated.all()
            batch.actions[:, :, 0] = pairs
            batch.step()
        assert batch.terminated.all() and not batch.truncated.any()
        for row in range(5):
            total = sum(ASYMMETRIC[a][b] for a, b in actions[:, row])
            winner = 0 if total > 0 else 1 if total < 0 else DRAW
            result = batch.result[row]
            assert (result["winner"], result["ticks"], result["end_reason"]) == (winner, rounds, 0)
            assert result["metrics"][:, 0].tolist() == [np.float32(total), np.float32(-total)]
            shares = [np.float32(np.mean(actions[:, row, seat] == 0)) for seat in (0, 1)]
            assert result["metrics"][:, 1].tolist() == shares
            sign = 1 if winner == 0 else -1 if winner == 1 else 0
            assert batch.reward_terms[row, :, 1].tolist() == [sign, -sign]
        batch.terminated[:] = False


def test_equal_payoffs_are_a_draw() -> None:
    """A match whose payoffs cancel has no winner and no win reward."""
    batch = MatrixBatch(1, Options(rounds=2))
    play(batch, [(0, 1), (1, 0)])
    assert batch.terminated[0] and batch.result["winner"][0] == DRAW
    assert batch.reward_terms[0, :, 1].tolist() == [0, 0]


def test_observation_shows_both_halves_in_one_layout() -> None:
    """Own last action and progress, then the opponent's, seen from each seat; nothing before the first round."""
    batch = MatrixBatch(1, Options(rounds=4))
    assert not batch.obs.any()
    play(batch, [(2, 0)])
    assert batch.obs[0, 0].tolist() == [0, 0, 1, 0.25, 1, 0, 0, 0.25]
    assert batch.obs[0, 1].tolist() == [1, 0, 0, 0.25, 0, 0, 1, 0.25]
    assert batch.spec.opponent_slice == (4, 8)


def test_same_step_restart() -> None:
    """The step that ends a match shows its last observation aside and the next match's first in place."""
    batch = MatrixBatch(1, Options(rounds=2))
    play(batch, [(1, 1), (2, 0)])
    assert batch.final_obs[0, 0].tolist() == [0, 0, 1, 1, 1, 0, 0, 1]
    assert not batch.obs.any()


def test_continuing_game_is_cut_and_hides_its_length() -> None:
    """With continuing=True the last round truncates, and progress is not shown."""
    batch = MatrixBatch(1, Options(rounds=2, continuing=True))
    play(batch, [(1, 0)])
    assert batch.obs[0, 0].tolist() == [0, 1, 0, 0, 1, 0, 0, 0]
    play(batch, [(1, 0)])
    assert batch.truncated[0] and not batch.terminated[0]
    assert batch.spec.end_reasons[batch.result["end_reason"][0]] == "cut"
    assert batch.result["winner"][0] == 0


@pytest.mark.parametrize("seat", [0, 1])
@pytest.mark.parametrize(
    ("bot", "mix"), [(CONSTANT, [1, 0, 0]), (RANDOM, [1 / 3, 1 / 3, 1 / 3]), (BIASED, [0.7, 0.1, 0.2])]
)
def test_bot_plays_its_mix(bot: int, mix: list[float], seat: int) -> None:
    """Over 20,000 draws a bot's action shares are its mix within 5 standard errors, in either seat."""
    batch = MatrixBatch(2_000, Options(bot_mix=[0.7, 0.1, 0.2], rounds=1_000))
    batch.controllers[:, seat] = bot
    counts = np.zeros(3)
    for _ in range(10):
        batch.step()
        counts += batch.obs[:, seat, :3].sum(axis=0)
    error = np.sqrt(np.array(mix) * (1 - np.array(mix)) / counts.sum())
    assert (np.abs(counts / counts.sum() - mix) <= 5 * error).all()


def test_bots_of_both_seats_draw_independently() -> None:
    """Two random bots agree in a third of the rounds, not always: seats have streams of their own."""
    batch = MatrixBatch(3_000, Options(rounds=1_000))
    batch.controllers[:] = RANDOM
    batch.step()
    agree = (batch.obs[:, 0, :3] == batch.obs[:, 1, :3]).all(axis=1).mean()
    assert abs(agree - 1 / 3) < 5 * np.sqrt(2 / 9 / 3_000)


def test_seat_exchange_gives_the_exchanged_match() -> None:
    """Swapping streams, controllers and actions of a fair game swaps everything seen, bit for bit."""
    one, other = (MatrixBatch(6, Options(rounds=9)) for _ in range(2))
    one.controllers[:] = [[RANDOM, BIASED], [BIASED, RANDOM], [EXTERNAL, RANDOM], [RANDOM] * 2, [BIASED] * 2, [-1, -1]]
    one.reset(5)
    other.reset(5)
    other._match["streams"] = other._match["streams"][:, ::-1].copy()
    other.controllers[:] = one.controllers[:, ::-1]
    rng = np.random.default_rng(2)
    for _ in range(9):
        one.actions[:] = rng.integers(0, 3, one.actions.shape)
        other.actions[:] = one.actions[:, ::-1]
        one.step()
        other.step()
        assert np.array_equal(one.reward_terms, other.reward_terms[:, ::-1])
        assert np.array_equal(one.obs, other.obs[:, ::-1])
    assert one.terminated.all()
    assert np.array_equal(one.final_obs, other.final_obs[:, ::-1])
    assert np.array_equal(one.result["metrics"], other.result["metrics"][:, ::-1])
    exchanged = np.where(one.result["winner"] == DRAW, DRAW, 1 - one.result["winner"])
    assert np.array_equal(exchanged, other.result["winner"]) and (one.result["winner"] != DRAW).any()


def test_random_numbers_are_splitmix64() -> None:
    """The first outputs for the seed 1234567 are those of the published reference implementation."""
    counters = np.arange(1, 4, dtype=np.uint64) * GOLDEN + np.uint64(1234567)
    assert mix64(counters).tolist() == [6457827717110365317, 3203168211198807973, 9817491932198370423]


def test_bit_flip_anywhere_in_the_state_is_refused() -> None:
    """Whichever byte is damaged, set_state raises ValueError and leaves the batch as it was."""
    batch = MatrixBatch(2, Options())
    play(batch, [(1, 2)])
    state = batch.get_state()
    assert len(state) == HEADER.size + 2 * MATCH.itemsize + batch.controllers.nbytes
    for place in range(len(state)):
        with pytest.raises(ValueError):
            batch.set_state(state[:place] + bytes([state[place] ^ 1]) + state[place + 1 :])
    assert batch.get_state() == state


def test_state_of_other_options_is_refused() -> None:
    """A state belongs to the game that it was taken from."""
    with pytest.raises(ValueError, match="not of this game"):
        MatrixBatch(2, Options()).set_state(MatrixBatch(2, Options(rounds=3)).get_state())


@pytest.mark.parametrize(("name", "value"), [("actions", 3), ("actions", -1), ("controllers", 3), ("controllers", -2)])
def test_action_or_bot_that_does_not_exist_is_refused(name: str, value: Any) -> None:
    """An action or bot outside the game raises instead of wrapping round."""
    batch = MatrixBatch(2, Options())
    getattr(batch, name)[1, 1] = value
    with pytest.raises(ValueError, match=r"outside|no bot"):
        batch.step()


def test_wrong_number_of_seeds_is_refused() -> None:
    """An array of seeds has one for each row."""
    with pytest.raises(ValueError, match="one seed for each of 2 rows"):
        MatrixBatch(2, Options()).reset(np.zeros(3, np.uint64))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("round", -1), ("round", 10), ("last", 3), ("last", -2), ("payoff", np.nan), ("payoff", np.inf)),
        *(("first", -1), ("first", 9), ("controllers", 3), ("controllers", -2)),
    ],
)
def test_an_impossible_state_with_a_right_checksum_is_refused(field: str, value: float) -> None:
    """A blob that only a forger makes is refused by the field's name, and the batch stays as it was."""
    batch = MatrixBatch(2, Options())
    batch.step()
    whole = batch.get_state()
    body = bytearray(whole[HEADER.size :])
    split = 2 * MATCH.itemsize
    if field == "controllers":
        np.frombuffer(body, np.int16, offset=split)[1] = value
    else:
        np.frombuffer(body, MATCH, count=2)[field][1] = value
    head = HEADER.unpack_from(whole)
    with pytest.raises(ValueError, match=f"`{field}`"):
        batch.set_state(HEADER.pack(*head[:3], zlib.crc32(body)) + body)
    assert batch.get_state() == whole
