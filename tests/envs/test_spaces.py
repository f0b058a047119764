"""Spaces of all kinds: what is legal, what is refused; and the opponent's last action as what shows it."""

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple

from league.envs import registry
from league.envs.contract.check import check_match_batch
from league.envs.spaces import gymnasium_spaces
from league.errors import ConfigError
from league.types import EXTERNAL, ActionSpec, GameSpec, ObservationPart
from tests.helpers import guessing
from tests.helpers.guessing import GuessingBatch, Options
from tests.helpers.rollouts import make_collector, network

BOX = ActionSpec("box", bounds=((-1.0, 1.0), (0.0, 5.0)))
PAIRS = ActionSpec("legal_tuples", (3, 4), 5)


@pytest.mark.parametrize(
    "fields, rule",
    [
        ({"kind": "boxes"}, "kind 'boxes' is none of"),
        ({"kind": "box"}, "a box needs"),
        ({"kind": "box", "bounds": ((1.0, 1.0),)}, "to a greater one"),
        ({"kind": "discrete", "choices": (0,)}, "one choice at least"),
        ({"kind": "legal_tuples", "choices": (3, -1), "max_tuples": 4}, "one choice at least"),
        ({"kind": "box", "bounds": ((0.0, float("inf")),)}, "to a greater one"),
        ({"kind": "box", "bounds": ((0.0, 1.0),), "choices": (2,)}, "choices=.*has none"),
        ({"kind": "discrete", "choices": (2, 3)}, "take multi_discrete"),
        ({"kind": "multi_binary", "choices": (2,), "max_tuples": 3}, "max_tuples=3.*has none"),
        ({"kind": "legal_tuples", "choices": (2, 2)}, "max_tuples=0"),
        ({"kind": "legal_tuples", "choices": (2, 40_000), "max_tuples": 3}, "at most 32,768"),
        ({"kind": "mixture"}, "at least one"),
        ({"kind": "mixture", "parts": (PAIRS,)}, "cannot be a part"),
        ({"kind": "mixture", "parts": (BOX,), "names": ("a", "b")}, "names="),
        ({"kind": "mixture", "parts": (3,)}, r"parts=\(3,\) must be a tuple of ActionSpec"),
        ({"kind": "mixture", "parts": (BOX,), "names": (1,)}, r"names=\(1,\) must be a tuple of str"),
        ({"kind": "box", "bounds": ("ab",)}, r"bounds\[0\]='ab' must be numbers"),
        ({"kind": "box", "bounds": ((0.0, 1.0, 2.0),)}, r"bounds\[0\]=.* must be \(least, greatest\)"),
        ({"kind": "discrete", "choices": (2.5,)}, "must be whole numbers"),
        ({"kind": "discrete", "choices": (3,), "pointers": (0, 1)}, "pointers has 2 entries; name the element of"),
        ({"kind": "discrete", "choices": (2,), "pointers": (-1, -1)}, "name the element of each of 2 choices"),
        ({"kind": "discrete", "choices": (2,), "pointers": (0, -2)}, "pointers=-2: elements are counted from 0"),
        ({"kind": "discrete", "choices": (2,), "pointers": (0, 0.5)}, "pointers=0.5 must be whole numbers"),
        ({"kind": "box", "bounds": ((0.0, 1.0),), "pointers": (0, 0)}, "pointers=.*has none"),
        ({"kind": "mixture", "parts": (BOX, ActionSpec("discrete", (2**24 + 1,)))}, "at most 16,777,216"),
    ],
)
def test_an_action_that_cannot_be_is_refused(fields: dict[str, Any], rule: str) -> None:
    with pytest.raises(ValueError, match=rule) as caught:
        ActionSpec(**fields)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "parts, rule",
    [
        ([("a", 1, (3,), "numbers")], "starts at 1"),
        ([("a", 0, (2,), "numbers"), ("b", 2, (3,), "numbers")], "5 numbers together, obs_size=4"),
        ([("a", 0, (2,), "numbers"), ("a", 2, (2,), "numbers")], "one name"),
        ([("a", 0, (2, 2), "image")], "height, width, channels"),
        ([("a", 0, (4,), "tokens")], "count=0"),
        ([("a", 0, (4,), "entities")], "entities have"),
        ([("a", 0, (4, 1), "entities")], "of numbers at least 2"),
        ([("a", 0, (2, 2), "entities", 0, (1.0, 2.0))], "include 0 and 1"),
        ([("a", 0, (4,), "set")], "kind='set' is none of numbers, image, tokens, entities"),
        ([("a", 0, (0,), "numbers")], "positive sizes"),
        ([("a", 0, (4,), "numbers", 0, (1.0, 0.0))], "to a greater one"),
    ],
)
def test_parts_that_are_not_the_observation_are_refused(parts: list[Any], rule: str) -> None:
    with pytest.raises(ValueError, match=rule):
        GameSpec(
            *("g", 1, 4, (0, 4), (0.0, 1.0), BOX, ("r",), (), ("e",), (), 1.0),
            observation=tuple(ObservationPart(*part) for part in parts),
        )


@pytest.mark.parametrize(
    "parts, rule",
    [
        ([("a", 0, (12,), "numbers")], "action pointers=6: the observation has 0 elements"),
        ([("a", 0, (2, 3, 2), "image")], "action pointers=6: the observation has 6 elements"),
        ([("a", 0, (2, 2, 2), "image"), ("b", 8, (2, 2), "entities")], "action pointers=6: .* 6 elements"),
    ],
)
def test_elements_that_the_observation_lacks_are_refused(parts: list[Any], rule: str) -> None:
    """Cells of images and rows of entities are counted through all parts."""
    with pytest.raises(ValueError, match=rule):
        GameSpec(
            *(
                "g",
                1,
                12,
                (0, 12),
                (0.0, 1.0),
                ActionSpec("discrete", (3,), pointers=(0, 6, -1)),
                ("r",),
                (),
                ("e",),
                (),
            ),
            1.0,
            observation=tuple(ObservationPart(*part) for part in parts),
        )


@pytest.mark.parametrize("kind", guessing.KINDS)
def test_drawn_actions_are_legal(kind: str) -> None:
    """Under random masks 500 random actions are legal, and not all one; a real number beyond its bounds is not."""
    spec, rng = guessing.ACTIONS[kind], np.random.default_rng(0)
    mask: Any = None
    if spec.kind == "legal_tuples":
        mask = np.tile(np.array([0, 1, 2, 3] + [-1] * 8, np.int16), (500, 1))
    elif spec.mask_size:
        mask = rng.random((500, spec.mask_size)) < 0.6
        mask[[bool(spec.mask_problem(row)) for row in mask]] = True
    actions = spec.legal_actions(mask, rng.random((500, spec.num_draws)))
    assert actions.dtype == spec.dtype and actions.shape == (500, spec.num_parts)
    assert spec.is_legal(actions, mask).all() and len(np.unique(actions, axis=0)) > 1
    if spec.has_real:
        at = 0 if spec.kind == "box" else 1
        actions[:, at] = 10.5
        assert not spec.is_legal(actions, mask).any()


def test_tuples_in_a_mask_are_the_legal_actions() -> None:
    listed = [(0, 3), (1, 0), (2, 2)]
    mask = np.full((5, 2), -1, np.int16)
    mask[:3] = listed
    every = np.array(list(product(range(3), range(4))), np.int32)
    legal = PAIRS.is_legal(every, np.tile(mask.ravel(), (12, 1)))
    assert [tuple(action) for action in every[legal]] == listed
    drawn = PAIRS.legal_actions(np.tile(mask.ravel(), (3000, 1)), np.random.default_rng(0).random((3000, 10)))
    counts = [(drawn == action).all(1).sum() for action in listed]
    assert sum(counts) == 3000 and min(counts) > 900


def test_gymnasium_shows_spaces_of_their_names() -> None:
    seen, done = gymnasium_spaces(guessing.spec(Options(kind="mixture")))
    assert isinstance(seen, Dict) and list(seen) == ["cards", "wanted"]
    assert seen["cards"] == MultiDiscrete([3, 3, 3]) and seen["wanted"] == Box(-2, 2, (3,), np.float32)
    assert isinstance(done, Dict) and isinstance(done["rest"], Tuple)
    assert done["pick"] == Discrete(3) and done["rest"][0] == MultiBinary(2)
    assert done["aim"] == Box(-2, 2, (1,), np.float32) and done["rest"][1] == MultiDiscrete([2, 3])


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


def test_plain_kinds_have_spaces_of_their_own() -> None:
    """Numbers are a float32 Box with the spec's range; keys are MultiBinary, choices MultiDiscrete."""
    spec = registry.spec("matrix", {})
    assert gymnasium_spaces(spec) == (Box(0.0, 1.0, (8,), np.float32), MultiDiscrete([3]))
    keys = replace(spec, action=ActionSpec("multi_binary", (2,) * 10))
    assert gymnasium_spaces(keys)[1] == MultiBinary(10)
