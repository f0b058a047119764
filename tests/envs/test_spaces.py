"""Spaces of all kinds: what is legal, what is refused, and games of each held to the contract."""

from itertools import product
from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple

from league.envs.contract.check import ContractError, check_match_batch
from league.envs.spaces import gymnasium_spaces
from league.types import ActionSpec, GameSpec, ObservationPart
from tests.helpers import guessing
from tests.helpers.guessing import GuessingBatch, Options

BOX = ActionSpec("box", bounds=((-1.0, 1.0), (0.0, 5.0)))
MIXED = guessing.ACTIONS["mixture"]
PAIRS = ActionSpec("legal_tuples", (3, 4), 5)


@pytest.mark.parametrize("kind", guessing.KINDS)
def test_games_of_every_space_keep_the_contract(kind: str) -> None:
    """The checker plays actions and masks of each kind."""
    check_match_batch(lambda rows, threads: GuessingBatch(rows, Options(kind=kind)), steps=60)  # type: ignore[arg-type]


class NoTuples(GuessingBatch):
    def _observe(self) -> None:
        super()._observe()
        self.mask[:, 1] = -1


class TwiceListed(GuessingBatch):
    def _observe(self) -> None:
        super()._observe()
        self.mask[..., 2:4] = self.mask[..., :2]


class GapInList(GuessingBatch):
    def _observe(self) -> None:
        super()._observe()
        self.mask[..., :2] = -1


class NoSuchChoice(GuessingBatch):
    def _observe(self) -> None:
        super()._observe()
        self.mask[..., 0] = 3


class NoSuchToken(GuessingBatch):
    def _observe(self) -> None:
        super()._observe()
        self.obs[..., 1] = 0.5


class IntegersOfABox(GuessingBatch):
    def __init__(self, rows: int, options: Options) -> None:
        super().__init__(rows, options)
        self.actions = self.actions.astype(np.int32)


@pytest.mark.parametrize(
    "broken, kind, rule",
    [
        (NoTuples, "tuples", "no tuple is legal"),
        (TwiceListed, "tuples", "listed twice"),
        (GapInList, "tuples", "no tuple is legal"),
        (NoSuchChoice, "tuples", "no choice of its part"),
        (NoSuchToken, "tokens", r"part 'cards' has .*whole numbers from 0 to 3"),
        (IntegersOfABox, "box", "actions has dtype int32, not float32"),
    ],
)
def test_the_checker_finds_what_no_space_has(broken: type[GuessingBatch], kind: Any, rule: str) -> None:
    """A mask or an observation that cannot be is named."""
    with pytest.raises(ContractError, match=rule):
        check_match_batch(lambda rows, threads: broken(rows, Options(kind=kind)), steps=60)


@pytest.mark.parametrize(
    "fields, rule",
    [
        ({"kind": "boxes"}, "kind 'boxes' is none of"),
        ({"kind": "box"}, "a box needs"),
        ({"kind": "box", "bounds": ((1.0, 1.0),)}, "to a greater one"),
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
    """In one line that names the field and the rule."""
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
    """A hole, an overlap or a shape that cannot be is named."""
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


def test_numpys_numbers_become_pythons() -> None:
    """In bounds, choices, parts and shapes: what is stored and compared is plain."""
    odd = ActionSpec("box", bounds=np.array([[-1, 1], [0, 5]], np.float32).tolist())  # type: ignore[arg-type]
    assert odd == BOX and {type(x) for pair in odd.bounds for x in pair} == {float}
    part = ObservationPart("a", np.int64(0), [np.int32(2), 3], bounds=(np.float32(0), 1))  # type: ignore[arg-type]
    assert part == ObservationPart("a", 0, (2, 3), bounds=(0.0, 1.0)) and {type(x) for x in part.shape} == {int}
    with pytest.raises(ValueError, match=r"observation part 'a': shape=2.5 must be whole numbers"):
        ObservationPart("a", 0, (2.5,))  # type: ignore[arg-type]


def test_sizes_of_a_mixture_are_those_of_its_parts() -> None:
    """Parts in parts lie one after the other; a box has no mask, and two logits a number."""
    assert [leaf.kind for leaf in MIXED.leaves] == ["discrete", "box", "multi_binary", "multi_discrete"]
    sizes = (MIXED.num_parts, MIXED.num_logits, MIXED.mask_size, MIXED.num_draws)
    assert sizes == (1 + 1 + 2 + 2, 3 + 2 + 2 + 5, 3 + 0 + 2 + 5, 3 + 1 + 2 + 5)
    assert MIXED.dtype == np.float32 and PAIRS.dtype == np.int32


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
    """Of all actions exactly the listed ones are legal, and each is drawn equally often."""
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
    """A Dict for named parts, a Tuple for others, and each part its own kind of space."""
    seen, done = gymnasium_spaces(guessing.spec(Options(kind="mixture")))
    assert isinstance(seen, Dict) and list(seen) == ["cards", "wanted"]
    assert seen["cards"] == MultiDiscrete([3, 3, 3]) and seen["wanted"] == Box(-2, 2, (3,), np.float32)
    assert isinstance(done, Dict) and isinstance(done["rest"], Tuple)
    assert done["pick"] == Discrete(3) and done["rest"][0] == MultiBinary(2)
    assert done["aim"] == Box(-2, 2, (1,), np.float32) and done["rest"][1] == MultiDiscrete([2, 3])
