"""Matches in plain Python with actions and observations of all kinds."""

from typing import Any, cast

import numpy as np
import pytest

from league.arena.games import load_settings
from league.envs import Match, registry
from league.envs.contract.check import check_match_batch
from league.envs.contract.games import check_deeply
from league.envs.lastaction import shown
from league.envs.matches.row import MatchError
from league.envs.matches.rows import RowBatch
from league.errors import UsageError
from league.types import EXTERNAL, ActionSpec, ObservationPart
from tests.helpers.matches import Dance, Darts, Hands, OpenHands, Waltz

GAMES: list[type[Match]] = [Darts, Dance, Waltz, OpenHands]
DANCE = Dance.observation


@pytest.fixture(autouse=True)
def _games(monkeypatch: pytest.MonkeyPatch) -> None:
    games = {match.as_game().spec(match.as_game().Options()).name: match.as_game() for match in GAMES}
    monkeypatch.setattr(registry, "_games", {**registry._games, **games})


def make(match: type[Match], rows: int = 4) -> RowBatch:
    """A batch of a game's matches, without what the registry adds."""
    game = match.as_game()
    return cast(RowBatch, game.make(rows, 1, game.Options()))


def broken(base: type[Match], **attributes: Any) -> type[Match]:
    """`base` with something wrong about it."""
    return type("Broken", (base,), {"name": "broken", **attributes})


@pytest.mark.parametrize("match", GAMES)
def test_matches_of_all_kinds_keep_the_contract(match: type[Match]) -> None:
    """The public checker passes: states, seeds, bots, masks, and that bots' actions are told where these are public."""
    batch = make(match)
    assert batch.actions.dtype == batch.spec.action.dtype
    check_match_batch(lambda rows, threads: make(match, rows), steps=40, rows=3)


@pytest.mark.parametrize("game", ["waltz", "openhands"])
def test_the_registry_adds_last_actions_to_matches(game: str) -> None:
    """What is public is shown, in turns too; the game as the registry makes it passes every check."""
    plain, seen = registry.game(game).spec(registry.options_model(game)()), registry.spec(game, {})
    assert seen.opponent_slice == (plain.obs_size, seen.obs_size) and plain.opponent_slice == (0, 0)
    assert load_settings(env=game)[0].agent.opponent_encoder
    check_deeply(game, {})


def test_what_bots_and_others_play_is_told() -> None:
    """The last action shows what was played: a bot's answer, and in place of an illegal action the legal one."""
    batch = registry.make("openhands", rows=20, threads=1, options={})
    width = batch.spec.opponent_slice[0]
    batch.controllers[:10, 1] = 0
    batch.reset(1)
    batch.actions[:] = (4, 1)  # legal for few
    told = np.zeros((20, 2, 2), np.int64)
    for _ in range(3):
        turns = cast(Any, batch).to_act.copy()
        before = [[list(row.options[0]), list(row.options[1])] for row in batch._rows]  # type: ignore[attr-defined]
        batch.actions[10:] = (4, 1)
        batch.step()
        for row, seat in np.argwhere(turns).tolist():
            played = batch._rows[row].log[-1][0]  # type: ignore[attr-defined]
            assert played in before[row][seat]
            assert batch.controllers[row, seat] != EXTERNAL or played in ((4, 1), before[row][seat][0])
            told[row, seat] = played
            assert np.array_equal(batch.obs[row, 1 - seat, width:], shown(batch.spec.action, told[row, seat]))
    assert len(np.unique(told.reshape(-1, 2), axis=0)) > 5


def test_observations_by_name_lie_in_the_order_of_their_parts() -> None:
    """A dict in any order fills the flat array; what the parts can hold is the range where the class leaves it out."""
    batch = make(Dance)
    match, spec = cast(Dance, batch.matches[2]), batch.spec
    assert spec.obs_range == (0.0, 8.0) and spec.obs_size == 9 and spec.observation == DANCE
    flat = [*match.floor[::-1].ravel(), *match.shoes[1], 0.0]
    assert np.allclose(batch.obs[2, 1], flat)


def test_a_mixture_reaches_the_match_by_name() -> None:
    """Illegal choices become legal ones, real numbers stay, and what a dict leaves out is all legal."""
    batch = make(Dance, 1)
    match, seen = cast(Any, batch.matches[0]), []
    match.step = lambda actions: (seen.append(actions), Dance.step(match, actions))
    batch.reset(0)
    for _ in range(2):
        batch.actions[:] = [3, 0.5, 1, 1, 1, 2]
        batch.step()
    move = 1 + int(match.shoes[0, 0]) % 3
    assert seen[0][0] == {"move": 3, "aim": (0.5,), "rest": ((1, 1), (1, 2))}
    assert seen[1][0] == {"move": 3 if move == 3 else 0, "aim": (0.5,), "rest": ((0, 1), (1, 2))}
    assert batch.mask is not None and batch.mask.all() and match.made == 2
    batch.actions[0, 0] = [1.5, 0, 0, 0, 0, 0]
    with pytest.raises(ValueError, match=r"actions have \[1.5\] where choices are whole numbers"):
        batch.step()
    batch.actions[0, 0] = [1, 1.5, 0, 0, 0, 0]
    with pytest.raises(ValueError, match=r"\[1.5\] is not within the bounds"):
        batch.step()
    assert match.made == 2  # nothing has moved


@pytest.mark.parametrize(
    ("attributes", "rule"),
    [
        ({"legal": lambda self, seat: [0]}, "class Broken: every number within a box's bounds is legal"),
        ({"observation": (ObservationPart("a", 0, (2,)),)}, "parts have 2 numbers together, obs_size=4"),
        ({"observation": (3,), "obs_size": 0}, "must be a tuple of ObservationPart"),
    ],
)
def test_a_class_that_cannot_be_is_told_in_one_line(attributes: dict[str, Any], rule: str) -> None:
    """Before anything is played."""
    with pytest.raises(UsageError) as caught:
        make(broken(Darts, **attributes))
    assert rule in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("match", "rule"),
    [
        (broken(Darts, observe=lambda self, seat: {"a": 1}), "observe gave a dict, but the class names no parts"),
        (
            broken(Dance, observe=lambda self, seat: {"floor": 1}),
            "a dict of floor; its parts are floor, shoes, time",
        ),
        (
            broken(Dance, observe=lambda self, seat: {"floor": [1], "shoes": [1, 1], "time": 0}),
            r"gave 1 numbers as part 'floor'; \(2, 3, 1\) has 6",
        ),
        (
            broken(Dance, observe=lambda self, seat: {"floor": [0] * 6, "shoes": [1, 0.5], "time": 0}),
            r"row 0, seat 0, .*part 'shoes' has 0.5; its tokens are whole numbers from 0 to 4",
        ),
        (
            broken(Dance, observe=lambda self, seat: {"floor": "abc", "shoes": [1, 1], "time": 0}),
            "gave a part 'floor' that is no array of numbers",
        ),
        (broken(Dance, legal=lambda self, seat: {"mvoe": [0]}), "legal gave .*; it must be a dict of move, aim, rest"),
        (broken(Dance, legal=lambda self, seat: {"move": []}), "legal gave no action"),
        (broken(Dance, legal=lambda self, seat: {"aim": [0.0]}), "for real numbers, which are all legal; give None"),
        (broken(Dance, legal=lambda self, seat: {"rest": [None]}), "it must be one for each of 2 parts"),
    ],
)
def test_a_match_that_breaks_a_rule_of_spaces_is_told_in_one_line(match: type[Match], rule: str) -> None:
    """With the row, the seat, the step and the match's seed."""
    with pytest.raises(MatchError, match=rule) as caught:
        make(match, 2).step()
    assert "\n" not in str(caught.value) and "of the match of seed" in str(caught.value)


@pytest.mark.parametrize(
    ("base", "answer", "rule"),
    [
        (Darts, 0.5, "must be 2 real numbers"),
        (Darts, (0.5, 3.5), "is not within the bounds"),
        (Darts, (0.5, float("nan")), "is not within the bounds"),
        (Dance, {"move": 0, "aim": (0.0,)}, "must be a dict of move, aim, rest"),
        (Dance, {"move": 4, "aim": (0.0,), "rest": ([0, 0], [0, 0])}, "4, where .* are legal"),
    ],
)
def test_a_bot_that_answers_what_is_no_action_is_named(base: type[Match], answer: Any, rule: str) -> None:
    """With its seat and its answer."""
    batch = make(broken(base, bots={"odd": lambda observation, legal, rng: answer}, anchor=None), 1)
    batch.controllers[:] = 0
    with pytest.raises(MatchError, match=rf"seat \d, after 0 steps .*: bot odd answered .*{rule}"):
        batch.step()


def test_states_of_spaces_hold_what_was_played_to_the_last_digit() -> None:
    """Real numbers and dicts come back from a state as they were; a state with others is refused."""
    batch, other = make(Dance), make(Dance)
    batch.controllers[:2] = 1
    rng = np.random.default_rng(0)
    for _ in range(3):
        batch.actions[:] = batch.spec.action.legal_actions(batch.mask, rng.random((4, 2, batch.spec.action.num_draws)))
        batch.step()
    state = batch.get_state()
    other.set_state(state)
    assert other.get_state() == state and [r.log for r in other._rows] == [r.log for r in batch._rows]
    assert any(type(row.log[0][0]["aim"][0]) is float for row in batch._rows if row.log)
    for stored in ([4, [0.0], [[0, 0], [0, 0]]], {"move": 4, "aim": [0.0], "rest": [[0, 0], [0, 0]]}, {"move": 1}):
        with pytest.raises(ValueError):
            batch._choices.read(stored)


def test_hands_without_public_actions_leave_actions_alone() -> None:
    """Only a game that says so writes what was played into the engine's array."""
    batch = make(Hands, 2)
    batch.controllers[:] = 0
    batch.actions[:] = 1
    batch.step()
    assert (batch.actions == 1).all()
    assert ActionSpec("legal_tuples", (5, 2), 8) == batch.spec.action
