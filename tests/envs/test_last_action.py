"""The opponent's last action as what shows it: where a game shows nothing else and its actions are public."""

from typing import Any

import numpy as np
import pytest

from league.envs import registry
from league.envs.contract.check import ContractError, check_match_batch
from league.envs.lastaction import shown, shown_size
from league.errors import ConfigError
from league.types import EXTERNAL, ActionSpec
from tests.helpers import guessing
from tests.helpers.guessing import GuessingBatch, Options
from tests.helpers.rollouts import make_collector, network


@pytest.fixture(autouse=True)
def _game(monkeypatch: pytest.MonkeyPatch) -> None:
    guessing.register(monkeypatch)


def make(kind: str, rows: int = 4) -> Any:
    """A batch that the registry made."""
    return registry.make("guessing", rows=rows, threads=1, options={"kind": kind, "public": True})


@pytest.mark.parametrize("kind", guessing.KINDS)
def test_wrapped_games_keep_the_contract(kind: str) -> None:
    """Arrays, ranges, states, regrouping and bots are as of any game."""
    check_match_batch(lambda rows, threads: make(kind, rows), steps=30)


def test_each_seat_sees_what_the_other_played_last() -> None:
    """Zero at a match's start, then the other seat's action by key, choice and number; also in the last observation."""
    batch, plain = make("mixture"), GuessingBatch(4, Options(kind="mixture", public=True))
    width, spec = plain.spec.obs_size, batch.spec
    assert spec.opponent_slice == (width, width + 11) and spec.obs_size == width + 11
    assert [part.name for part in spec.observation] == ["cards", "wanted", "opponent_last_action"]
    batch.controllers[1:, 1] = plain.controllers[1:, 1] = 0
    batch.reset(3)
    plain.reset(3)
    rng, ends = np.random.default_rng(0), 0
    assert (batch.obs[..., width:] == 0).all()
    for _ in range(12):
        actions = spec.action.legal_actions(batch.mask, rng.random((4, 2, spec.action.num_draws)))
        batch.actions[:] = plain.actions[:] = actions
        batch.step()
        plain.step()
        played = plain.actions
        pick, aim, keys, rest = played[..., 0], played[..., 1:2], played[..., 2:4], played[..., 4:]
        expected = np.concatenate(
            [
                np.eye(3)[pick.astype(int)],
                aim / 2,
                keys,
                np.eye(2)[rest[..., 0].astype(int)],
                np.eye(3)[rest[..., 1].astype(int)],
            ],
            -1,
        )[:, ::-1]
        over = plain.terminated
        ends += over.sum()
        assert np.allclose(batch.obs[~over][..., width:], expected[~over], atol=1e-6)
        assert np.allclose(batch.final_obs[over][..., width:], expected[over], atol=1e-6)
        assert (batch.obs[over][..., width:] == 0).all()
        assert np.array_equal(batch.obs[..., :width], plain.obs)
        assert np.array_equal(batch.final_obs[over][..., :width], plain.final_obs[over])
    assert ends == 12 and (batch.controllers[0] == EXTERNAL).all()


def test_actions_are_shown_by_one_number_a_key_choice_or_real_number() -> None:
    """Bounds become -1 and 1; a tuple is shown as its parts' choices."""
    box = ActionSpec("box", bounds=((0.0, 10.0), (-1.0, 1.0)))
    assert shown(box, np.array([[0.0, 1.0], [10.0, 0.0]], np.float32)).tolist() == [[-1, 1], [1, 0]]
    pairs = ActionSpec("legal_tuples", (2, 3), 4)
    assert shown(pairs, np.array([1, 2])).tolist() == [0, 1, 0, 0, 1] and shown_size(pairs) == 5


class Silent(GuessingBatch):
    """Tells nobody what its bot played."""

    def step(self) -> None:
        given = self.actions.copy()
        super().step()
        self.actions[:] = given


def test_a_bot_that_tells_nothing_breaks_the_contract() -> None:
    """With public actions a game writes into `actions` what its bots played."""
    with pytest.raises(ContractError, match="public_actions: what bot random played is not written"):
        check_match_batch(lambda rows, threads: Silent(rows, Options(kind="box", public=True)), steps=30)


def test_the_encoder_reads_the_last_action() -> None:
    """A net with an encoder plays and remembers the other seat's actions: its token is they, and they alone."""
    collector = make_collector("guessing", kind="tokens", public=True)
    rollout = collector.collect(6, 1)
    start, stop = collector.spec.opponent_slice
    tokens = rollout.obs[..., start:stop]
    assert stop - start == 2 and (tokens[rollout.is_first] == 0).all() and tokens.sum() > 0
    net = collector.policy
    seen = rollout.obs[0].clone()
    first = net.step(seen, net.initial_state(len(seen)), greedy=True)[2]
    seen[:, start:stop] = 1 - seen[:, start:stop]
    assert (net.step(seen, net.initial_state(len(seen)), greedy=True)[2] - first).abs().max() > 1e-6


def test_an_encoder_with_nothing_to_read_is_refused_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a slice, and with actions that are hidden, it names the setting and what the game may declare."""
    monkeypatch.setattr(guessing, "SLICES", dict.fromkeys(guessing.KINDS, (0, 0)))
    with pytest.raises(ConfigError, match=r"opponent_encoder=true: guessing shows nothing of the opponent") as caught:
        network("guessing", {"kind": "box"}, 0)
    assert "\n" not in str(caught.value) and "public_actions=True" in str(caught.value)
