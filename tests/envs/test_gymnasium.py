"""Environments of Gymnasium through the door: duels on one seed, and what they pay is what the library pays."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import gymnasium as library
import numpy as np
import pytest

import league
from league.envs import registry
from league.envs.adapters import gymnasium as adapter
from league.envs.adapters.actions import Acts
from league.envs.adapters.replies import ReplyError
from league.envs.adapters.spaces import Seen, SpaceError
from league.envs.contract.check import check_match_batch
from league.errors import CodeError, ConfigError
from league.types import DRAW, Turns
from tests.helpers.cases import cases
from tests.helpers.sizes import TINY

HERE = "tests.helpers.gym_envs:"
STEPS = {"FrozenLake-v1": 50}
SLOW = {
    **STEPS,
    HERE + "WalkRemembers-v0": 50,
    HERE + "WalkGlobals-v0": 50,
    "CartPole-v1": 150,
    "Taxi-v4": 700,
    "Pendulum-v1": 700,
    "Blackjack-v1": 40,
    "MountainCarContinuous-v0": 2_500,
}


def game_of(name: str, **options: Any) -> Any:
    """A game and its options."""
    game = adapter.open(name)
    return game, game.Options(**options)


def batch_of(name: str, rows: int, **options: Any) -> Any:
    """A batch of a game."""
    game, checked = game_of(name, **options)
    return game.make(rows, 1, checked)


@pytest.mark.parametrize("name", cases(*STEPS, slow=SLOW))
def test_games_keep_the_contract(name: str) -> None:
    """With waiting seats, the bot that takes no part, states and seeds."""
    assert isinstance(batch_of(name, 2), Turns)
    check_match_batch(lambda rows, threads: batch_of(name, rows), rows=2, steps=SLOW[name])


def replayed(name: str, seed: int, actions: list[Any]) -> tuple[list[Any], list[float], bool, bool]:
    """What the library itself shows, pays and ends with in an episode of these actions."""
    env = library.make(name)
    seen, paid, terminated, truncated = [env.reset(seed=seed)[0]], [], False, False
    for action in actions:
        assert not (terminated or truncated)
        observation, reward, terminated, truncated, _ = env.step(action)
        seen.append(observation)
        paid.append(float(reward))
    return seen, paid, terminated, truncated


@pytest.mark.parametrize("name", ["CartPole-v1", "FrozenLake-v1", "MountainCar-v0"])
def test_a_match_is_the_episodes_that_gymnasium_plays(name: str) -> None:
    """Each seat's episode, played again in the library: what is seen and paid, how it ends, who wins."""
    batch = batch_of(name, 6)
    rng, checked, alone = np.random.default_rng(0), 0, 0
    batch.controllers[4:, 1] = batch.spec.bots.index("world")
    batch.reset(3)
    seen: list[list[list[Any]]] = [[[batch.obs[row, seat].copy()] for seat in range(2)] for row in range(6)]
    played: list[list[list[int]]] = [[[], []] for _ in range(6)]
    paid = np.zeros((6, 2))
    while checked < 10 or alone < 3:
        seeds = [match._seed for match in batch.matches]
        acting = batch.to_act & (batch.controllers < 0)
        batch.actions[:] = batch.spec.action.legal_actions(None, rng.random((6, 2, batch.spec.action.num_draws)))
        batch.step()
        paid += batch.reward_terms[:, :, 0]
        ended = batch.terminated | batch.truncated
        for row, seat in np.argwhere(acting).tolist():
            played[row][seat].append(int(batch.actions[row, seat, 0]))
            seen[row][seat].append((batch.final_obs if ended[row] else batch.obs)[row, seat].copy())
        for row in np.flatnonzero(ended):
            game = batch.matches[row]
            returns, cuts = [], []
            for seat in range(2 if row < 4 else 1):
                views, rewards, terminated, truncated = replayed(name, seeds[row], played[row][seat])
                assert terminated or truncated
                for own, there in zip(seen[row][seat], views, strict=True):
                    assert own.tolist() == game._facts.seen.flat(there).tolist()
                assert paid[row, seat] == pytest.approx(sum(rewards), rel=1e-5)
                assert batch.result["metrics"][row, seat].tolist() == pytest.approx([sum(rewards), len(rewards)])
                returns.append(sum(rewards))
                cuts.append(truncated and not terminated)
            assert batch.truncated[row] == any(cuts) and batch.cut_seats[row, : len(cuts)].tolist() == cuts
            other = returns[1] if row < 4 else game._target
            winner = DRAW if row < 4 and other == returns[0] else int(other > returns[0])
            assert batch.result["winner"][row] == winner
            checked += row < 4
            alone += row >= 4
            seen[row] = [[batch.obs[row, seat].copy()] for seat in range(2)]
            played[row], paid[row] = [[], []], 0


def test_cartpoles_numbers_are_scaled_where_they_have_bounds() -> None:
    """By hand: position over 4.8, angle over its bound; the speeds, which have none, as they are, and marked."""
    batch = batch_of("CartPole-v1", 1)
    batch.reset(np.array([5], np.uint64))
    env = library.make("CartPole-v1")
    position, speed, angle, turning = env.reset(seed=batch.matches[0]._seed)[0].tolist()
    bound = 24 / 360 * 2 * np.pi
    assert batch.obs[0, 0].tolist() == pytest.approx([position / 4.8, speed, angle / bound, turning])
    assert batch.spec.unbounded == ((1, 2), (3, 4))


def test_a_cut_is_told_of_each_seat() -> None:
    """Who fell is not cut where the other was; bootstrapping would make falling cost nothing."""
    batch = batch_of("CartPole-v1", 2, max_episode_steps=12)
    batch.reset(0)
    for step in range(12):
        batch.actions[:, 0], batch.actions[:, 1] = 0, step % 2
        batch.step()
        if step == 10:
            assert (batch.to_act == [[False, True]] * 2).all()
    assert batch.truncated.all() and not batch.terminated.any()
    assert batch.cut_seats.tolist() == [[False, True]] * 2 and (batch.result["winner"] == 1).all()


@pytest.mark.parametrize(("target", "winner"), [(3.0, 0), (500.0, 1), (None, DRAW)])
def test_the_world_is_beaten_by_the_target(target: float | None, winner: int) -> None:
    """A return of at least the target wins; without one nobody does."""
    batch = batch_of(HERE + "WalkPlain-v0" if target is None else "CartPole-v1", 1, target=target)
    batch.controllers[0, 1] = 0
    batch.reset(0)
    batch.step()
    assert batch.to_act.tolist() == [[True, False]]
    while not batch.terminated[0]:
        batch.step()
    assert batch.result["winner"][0] == winner and batch.reward_terms[0, :, 1].tolist() == {0: [1, -1], 1: [-1, 1]}.get(
        winner, [0, 0]
    )


def test_a_return_equal_to_the_target_wins() -> None:
    """ "At least" means that: the same episode wins by its own return, and loses by a little more."""
    for more, winner in ((0.0, 0), (1.0, 1)):
        batch = batch_of("CartPole-v1", 1)
        batch.controllers[0, 1] = 0
        for target in (None, "own"):
            batch.reset(0)
            if target:
                batch.matches[0]._target = float(batch.result["metrics"][0, 0, 0]) + more
            batch.step()
            while not batch.terminated[0]:
                batch.step()
        assert batch.result["winner"][0] == winner


def test_global_generators_are_each_matchs_own_and_the_process_keeps_its_own() -> None:
    """Rows side by side draw what each draws alone, and `random` and `numpy.random` go on as if nothing was."""
    random.seed(1)
    np.random.seed(1)
    np.random.standard_normal()  # leaves a second one in store
    before = random.getstate(), np.random.get_state(legacy=False)
    name, seeds = HERE + "WalkGlobals-v0", np.array([3, 4, 5], np.uint64)
    many, single = batch_of(name, 3), batch_of(name, 1)
    views = []
    for batch, own in ((many, seeds), (single, seeds[1:2])):
        batch.reset(own)
        seen = []
        for _ in range(25):
            batch.step()
            seen.append(batch.obs[1 % batch.num_rows].tolist())
        views.append(seen)
    assert views[0] == views[1]
    after = np.random.get_state(legacy=False)
    assert random.getstate() == before[0]
    assert all(np.array_equal(after[key], before[1][key]) for key in ("has_gauss", "gauss"))
    assert (after["state"]["key"] == before[1]["state"]["key"]).all()
    assert many.matches[0]._facts.drawn == (True, True)
    assert batch_of("CartPole-v1", 1).matches[0]._facts.drawn == (False, False)


def test_what_an_environment_prints_is_seen_only_if_asked_for(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """On either stream, while it is made and while it is played."""
    batch = batch_of(HERE + "WalkPrints-v0", 2)
    batch.step()
    assert capfd.readouterr() == ("", "")
    monkeypatch.setenv("LEAGUE_GAME_OUTPUT", "on")
    batch = batch_of(HERE + "WalkPrints-v0", 1)
    batch.step()
    out, err = capfd.readouterr()
    assert "made" in out and "a step" in out and "an error" in err


def test_an_environment_that_shows_what_was_before_is_made_again_for_each_episode() -> None:
    """So a match is that of its seed, whatever was played before it."""
    batch = batch_of(HERE + "WalkRemembers-v0", 1)
    assert batch.matches[0]._facts.remembers and not batch_of("CartPole-v1", 1).matches[0]._facts.remembers
    batch.reset(1)
    first = batch.obs.copy()
    batch.step()
    batch.reset(1)
    assert np.array_equal(batch.obs, first)


def test_keywords_are_options() -> None:
    """Those of the environment, of its own types, in the address, too."""
    batch = batch_of("FrozenLake-v1", 1, map_name="8x8")
    assert batch.spec.observation[0].count == 64
    assert adapter.open('FrozenLake-v1(map_name="8x8")').match.name.startswith("gymnasium-FrozenLake-v1-")
    name = registry.adopt(adapter.open("FrozenLake-v1"), "gymnasium:FrozenLake-v1")
    assert registry.check_options(name, {"success_rate": 0.9})["success_rate"] == 0.9
    for wrong, words in {
        "map_nam": "is not an option of gymnasium-FrozenLake-v1; did you mean `map_name`",
        "is_slippery": "env.is_slippery='x': must be a valid boolean",
    }.items():
        with pytest.raises(ConfigError, match=words):
            registry.check_options(name, {wrong: "x"})
    with pytest.raises(ConfigError, match=r"KeyError: '9x9' \(with env.map_name='9x9'\)") as caught:
        registry.spec(name, {"map_name": "9x9"})
    assert "\n" not in str(caught.value)


def test_what_an_environment_says_is_legal_is_the_mask() -> None:
    """Of Taxi: what would change nothing is not."""
    batch = batch_of("Taxi-v4", 4)
    for match, mask in zip(batch.matches, batch.mask, strict=True):
        env = library.make("Taxi-v4")
        _, info = env.reset(seed=match._seed)
        assert mask[0].tolist() == info["action_mask"].astype(bool).tolist() and not mask.all()


EVERYTHING = library.spaces.Dict(
    {
        "image": library.spaces.Box(0, 255, (12, 10, 3), np.uint8),
        "grey": library.spaces.Box(0, 255, (9, 8), np.uint8),
        "first": library.spaces.Box(0, 255, (4, 12, 10), np.uint8),
        "bounded": library.spaces.Box(-2.0, 6.0, (3,)),
        "free": library.spaces.Box(-np.inf, np.inf, (2, 2)),
        "wide": library.spaces.Box(-3.4e38, 3.4e38, (1,), np.float32),
        "card": library.spaces.Discrete(5, start=3),
        "cards": library.spaces.MultiDiscrete([3, 4]),
        "keys": library.spaces.MultiBinary(3),
        "both": library.spaces.Tuple((library.spaces.Discrete(2), library.spaces.Box(0, 1, (2,)))),
        "action_mask": library.spaces.MultiBinary(4),
    }
)


def test_observations_of_every_kind_are_flat_numbers_within_their_range() -> None:
    """Images by their channels last, numbers to [-1, 1], choices counted from 0."""
    seen, space = Seen(EVERYTHING), EVERYTHING
    parts = {part.name: part for part in seen.parts}
    assert {name: part.kind for name, part in parts.items() if part.kind != "numbers"} == {
        **dict.fromkeys(("image", "grey", "first"), "image"),
        **dict.fromkeys(("card", "cards", "both.0"), "tokens"),
    }
    assert parts["first"].shape == (12, 10, 4) and parts["grey"].shape == (9, 8, 1) and "action_mask" not in parts
    space.seed(1)
    for _ in range(20):
        sample = space.sample()
        flat = seen.flat(sample)
        low, high = seen.range
        assert flat.shape == (seen.size,) and (low <= flat).all() and (flat <= high).all()
        assert not any(part.problem(flat) for part in seen.parts)
        assert parts["first"].of(flat)[..., 2].tolist() == pytest.approx(sample["first"][2] / 255)
        assert parts["card"].of(flat).tolist() == [sample["card"] - 3]
        assert parts["bounded"].of(flat).tolist() == pytest.approx((sample["bounded"] / 4 - 0.5).tolist(), abs=1e-6)


BOARDS = {
    "real": (library.spaces.Box(-1.0, 3.0, (4, 5)), (4, 5, 1)),
    "codes": (library.spaces.Box(-1, 2, (4, 5), np.int8), (4, 5, 4)),
    "many codes": (library.spaces.Box(0, 40, (4, 5), np.int32), (4, 5, 1)),
    "kinds": (library.spaces.MultiDiscrete(np.full((4, 5), 3)), (4, 5, 3)),
    "keys": (library.spaces.MultiBinary((4, 5)), (4, 5, 1)),
    "planes": (library.spaces.Box(0, 1, (4, 5, 3), np.int8), (4, 5, 3)),
    "planes of keys": (library.spaces.MultiBinary((4, 5, 3)), (4, 5, 3)),
}


@pytest.mark.parametrize("kind", BOARDS)
def test_arrays_of_two_or_three_axes_are_boards(kind: str) -> None:
    """Each cell where it is, whole numbers of few kinds as a plane a kind, others from 0 to 1."""
    space, shape = BOARDS[kind]
    seen = Seen(space)
    (part,) = seen.parts
    assert (part.kind, part.shape) == ("image", shape)
    space.seed(0)
    for _ in range(5):
        sample = space.sample()
        board = part.of(seen.flat(sample))
        if kind in ("codes", "kinds"):
            first = -1 if kind == "codes" else 0
            assert (board.argmax(-1) + first == sample).all() and (board.sum(-1) == 1).all()
        else:
            low, high = {"real": (-1, 3), "many codes": (0, 40)}.get(kind, (0, 1))
            assert board.ravel().tolist() == pytest.approx(((sample - low) / (high - low)).ravel().tolist(), abs=1e-6)


def test_a_board_with_a_number_outside_its_space_is_refused() -> None:
    """As of any other observation."""
    with pytest.raises(ReplyError, match="outside Box"):
        Seen(BOARDS["codes"][0]).flat(np.full((4, 5), 3))


@pytest.mark.parametrize(
    "space",
    [
        library.spaces.Box(0.0, 1.0, (2, 5)),
        library.spaces.Box(np.zeros((3, 3), np.float32), np.arange(1, 10, dtype=np.float32).reshape(3, 3)),
        library.spaces.Box(-np.inf, np.inf, (4, 5)),
    ],
)
def test_tables_of_features_are_no_boards(space: Any) -> None:
    """Two rows, numbers of several bounds, and numbers without any."""
    assert not Seen(space).parts


BULLETS = library.spaces.Box(np.array([0, -10], np.float32), np.array([4, 10], np.float32))


@pytest.mark.parametrize("is_stacked", [False, True])
def test_a_sequence_becomes_entities(is_stacked: bool) -> None:
    """A 1 and the numbers of each row, as far as it goes; none at all is all zeros."""
    space = library.spaces.Dict({"bullets": library.spaces.Sequence(BULLETS, stack=is_stacked)})
    seen = Seen(space, 3)
    (part,) = seen.parts
    assert (part.name, part.kind, part.shape, part.bounds) == ("bullets", "entities", (3, 3), None)
    rows = np.array([[4, -10], [1, 5]], np.float32)
    for given in (rows, tuple(rows), rows.tolist()):
        flat = seen.flat({"bullets": given})
        assert part.of(flat).tolist() == [[1, 1, -1], [1, -0.5, 0.5], [0, 0, 0]] and not part.problem(flat)
    for nothing in ((), np.zeros((0, 2), np.float32)):
        assert not seen.flat({"bullets": nothing}).any()
    space.seed(0)
    for _ in range(20):
        sample = space.sample()
        if len(sample["bullets"]) <= 3:
            assert (part.of(seen.flat(sample))[:, 0] == np.arange(3).__lt__(len(sample["bullets"]))).all()


@pytest.mark.parametrize(
    "given, words",
    [
        (np.zeros((4, 2)), r"with 'bullets' of 4 rows; write \(max_rows=4\) or more behind the address"),
        (np.zeros((2, 3)), r"of shape \(2, 3\)"),
        (np.zeros(2), r"of shape \(2,\)"),
        (np.full((1, 2), 90.0), "outside Sequence"),
        (np.full((1, 2), np.nan), "nan in it, which must be finite"),
        ([[1.0, 2.0], [3.0]], "no array of numbers"),
        (3, r"of shape \(\)"),
    ],
)
def test_rows_that_are_not_of_their_sequence_are_refused(given: Any, words: str) -> None:
    """Too many, of another length, or outside their space."""
    seen = Seen(library.spaces.Dict({"bullets": library.spaces.Sequence(BULLETS)}), 3)
    with pytest.raises(ReplyError, match=words):
        seen.flat({"bullets": given})


@pytest.mark.parametrize(
    "row, max_rows, words",
    [
        (BULLETS, None, r"which is of any length; write its most rows behind the address, as in NAME\(max_rows=16\)"),
        (BULLETS, 0, "max_rows=0 is no number of rows"),
        (BULLETS, 2**22, "max_rows=4194304 is no number of rows"),
        (BULLETS, "3", "max_rows='3' is no number of rows"),
        (library.spaces.Discrete(5), 3, "no Box of one axis"),
        (library.spaces.Box(0, 1, (2, 2)), 3, "no Box of one axis"),
        (library.spaces.Box(-np.inf, 1, (2,)), 3, "numbers without bounds"),
    ],
)
def test_a_sequence_that_cannot_be_is_refused(row: Any, max_rows: Any, words: str) -> None:
    """Of unknown length, or of rows that are no numbers with bounds."""
    with pytest.raises(SpaceError, match=words) as caught:
        Seen(library.spaces.Sequence(row), max_rows)
    assert "\n" not in str(caught.value)


def test_rows_of_a_sequence_are_said_behind_the_address() -> None:
    """Without them there is no game; with too few it is refused as it plays; the environment is not given them."""
    with pytest.raises(ConfigError, match=r"any length; write its most rows behind the address"):
        adapter.open(HERE + "Swarm-v0")
    with pytest.raises(ConfigError, match=r"of 3 rows; write \(max_rows=3\) or more behind the address"):
        adapter.open(HERE + "Swarm-v0(max_rows=2)")
    check_match_batch(lambda rows, threads: batch_of(HERE + "Swarm-v0(max_rows=4)", rows), rows=2, steps=30)
    assert batch_of(HERE + "Swarm-v0(max_rows=4)", 1).spec.observation[0].shape == (4, 3)


ACTIONS = {
    "discrete": library.spaces.Discrete(4, start=-2),
    "several": library.spaces.MultiDiscrete([[3, 4], [2, 5]]),
    "keys": library.spaces.MultiBinary((2, 2)),
    "real": library.spaces.Box(np.array([-1, 0], np.float32), np.array([1, 300], np.float32)),
    "whole": library.spaces.Box(-2, 3, (2,), np.int64),
    "tuple": library.spaces.Tuple((library.spaces.Discrete(3), library.spaces.Box(-1, 1, (1,)))),
    "dict": library.spaces.Dict(
        {"a": library.spaces.Discrete(2), "b": library.spaces.Tuple((library.spaces.MultiBinary(2),))}
    ),
}


@pytest.mark.parametrize("kind", ACTIONS)
def test_actions_of_every_kind_are_in_their_space(kind: str) -> None:
    """Whatever the engine chooses; and every choice can be met."""
    from league.envs.matches.mixtures import choices_of

    space = ACTIONS[kind]
    acts = Acts(space)
    choices, rng, met = choices_of(acts.spec), np.random.default_rng(0), set()
    for _ in range(60):
        action = choices.draw(choices.everything, rng)
        given = acts.to_library(action)
        assert space.contains(given), given
        met.add(str(given))
    assert len(met) >= {"discrete": 4, "keys": 12, "whole": 20, "dict": 8}.get(kind, 30)


@pytest.mark.parametrize(
    "space", [library.spaces.Box(-np.inf, 1, (2,)), library.spaces.Text(3), library.spaces.Discrete(1)], ids=str
)
def test_actions_that_cannot_be_are_named(space: Any) -> None:
    """With their space, on a line."""
    with pytest.raises(SpaceError, match=r"the action space") as caught:
        Acts(space)
    assert type(space).__name__ in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("rest", "words"),
    [
        ("CartPol-v1", "did you mean `CartPole-v1`"),
        ("CartPole-v9", "Environment version `v9` .* did you mean `CartPole-v1`"),
        ("nobody:X-v0", "nobody is not installed; pip install"),
        ("Nowhere/Pong-v5", "Namespace Nowhere not found"),
        ("CartPole-v1(3)", r"\(keyword=value, ...\)"),
        (HERE + "Entropy-v0", "did you mean `Walk"),
        (HERE + "WalkEntropy-v0", "two copies of one seed differ after 1 random steps"),
        (HERE + "Text-v0", "the observation space has Text"),
        (HERE + "Unbounded-v0", "the action space Box.* has no bounds"),
        (HERE + "Broken-v0", "ValueError: no such kind"),
    ],
)
def test_what_cannot_be_played_is_one_line(rest: str, words: str, capfd: pytest.CaptureFixture[str]) -> None:
    """With the next step, and the library writes nothing of its own."""
    with pytest.raises(CodeError if rest.endswith("Broken-v0") else ConfigError, match=words) as caught:
        adapter.open(rest)
    assert "\n" not in str(caught.value) and capfd.readouterr() == ("", "")


def test_a_run_is_trained_resumed_evaluated_and_drawn(tmp_path: Path) -> None:
    """By its address, alone with the world; its agents meet each other and the bots."""
    store = tmp_path / "league.duckdb"
    sets = [setting for setting in TINY if not setting.startswith("pool.snap")]
    how = {"env": "gymnasium:CartPole-v1", "overrides": sets, "store": store, "run": "c"}
    assert league.train("smoke", **how).status == "finished"
    registry._leave("gymnasium-CartPole-v1")
    met = league.evaluate("c", "bot:world", games=4, store=store, device="cpu").summary
    own, other = met.metrics["return"]
    assert met.games == 4 and own == met.mean_ticks and other == 0
    assert league.evaluate("c", "c@0", games=2, store=store, device="cpu").summary.games == 2
    pytest.importorskip("pygame")
    film = league.watch("c", "bot:random", tmp_path / "c.gif", store=store, device="cpu")
    assert film.pictures > 5 and (tmp_path / "c.gif").stat().st_size > 1_000


def test_pictures_show_the_copies_side_by_side() -> None:
    """As far as each has come; drawing changes nothing of the match."""
    pytest.importorskip("pygame")
    batch, other = batch_of("CartPole-v1", 1), batch_of("CartPole-v1", 1)
    for each in (batch, other):
        each.reset(2)
    shapes, draw = [], adapter.open("CartPole-v1").render
    for step in range(4):
        shapes.append(draw(batch, 0).shape)
        for each in (batch, other):
            each.actions[0] = [[0], [step % 2]]
            each.step()
        assert np.array_equal(batch.obs, other.obs)
    assert shapes[0][1] * 2 == shapes[1][1] and shapes[1] == shapes[3]
    env = library.make("CartPole-v1", render_mode="rgb_array")
    env.reset(seed=batch.matches[0]._seed)
    for step in range(4):
        env.step(step % 2)
    picture = draw(batch, 0)
    assert np.array_equal(picture[:, picture.shape[1] // 2 :], env.render())


@pytest.mark.parametrize(
    ("space", "given"),
    [
        (library.spaces.Box(-1, 1, (2,)), [0.5]),
        (library.spaces.Box(-1, 1, (2,)), 0.5),
        (library.spaces.Box(-np.inf, np.inf, (2, 3)), [0.5]),
        (library.spaces.MultiDiscrete([3, 3]), [1]),
        (library.spaces.MultiDiscrete([3, 3]), 1),
        (library.spaces.MultiBinary(2), [1]),
        (library.spaces.Box(0, 255, (8, 8, 3), np.uint8), 7),
    ],
)
def test_an_observation_of_too_few_numbers_is_refused(space: library.spaces.Space[Any], given: Any) -> None:
    """One number is not taken for all of them."""
    with pytest.raises(ReplyError, match=rf"an observation of shape \(1?,?\), not \({space.shape[0]},"):
        Seen(space).flat(np.array(given, space.dtype))
