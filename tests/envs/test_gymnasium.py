"""Environments of Gymnasium through the door: duels on one seed, and what they pay is what the library pays."""

import math
import sys
from pathlib import Path
from typing import Any

import gymnasium as library
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Sequence, Text, Tuple

import league
from league.envs import registry
from league.envs.adapters import gymnasium as adapter
from league.envs.adapters.actions import Acts
from league.envs.adapters.isolation import Apart, Drawn
from league.envs.adapters.replies import ReplyError
from league.envs.adapters.spaces import Seen, SpaceError
from league.envs.contract.check import check_match_batch
from league.errors import CodeError, ConfigError, UsageError
from league.types import DRAW, Turns
from tests.helpers.cases import cases
from tests.helpers.sizes import TINY

HERE = "tests.helpers.gym_envs:"
ONE = library.spaces.Box(-1, 1, (1,))
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


def batch_of(name: str, rows: int, **options: Any) -> Any:
    """A batch of a game."""
    game = adapter.open(name)
    return game.make(rows, 1, game.Options(**options))


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


@pytest.mark.parametrize(("target", "winner"), [(3.0, 0), (500.0, 1), ("own", 0), ("more", 1), (None, DRAW)])
def test_the_world_is_beaten_by_the_target(target: Any, winner: int) -> None:
    """A return of at least the target wins; without one nobody does."""
    given = target if isinstance(target, float) else None
    batch = batch_of(HERE + "WalkPlain-v0" if target is None else "CartPole-v1", 1, target=given)
    batch.controllers[0, 1] = 0
    for again in (False, True):
        batch.reset(0)
        if again and isinstance(target, str):
            batch.matches[0]._target = float(batch.result["metrics"][0, 0, 0]) + (target == "more")
        batch.step()
        assert batch.to_act.tolist() == [[True, False]]
        while not batch.terminated[0]:
            batch.step()
    assert batch.result["winner"][0] == winner
    assert batch.reward_terms[0, :, 1].tolist() == {0: [1, -1], 1: [-1, 1], DRAW: [0, 0]}[winner]


@pytest.mark.parametrize("threshold", [math.nan, math.inf, "9", True])
def test_a_threshold_that_is_no_number_is_refused(threshold: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each match would be lost by it, or drawn."""
    monkeypatch.setattr(library.registry["CartPole-v1"], "reward_threshold", threshold)
    with pytest.raises(ConfigError, match="must be a finite number or None; mend where it is registered"):
        adapter.open("CartPole-v1")


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
    monkeypatch.setenv("LEAGUE_GAME_OUTPUT", "maybe")
    with pytest.raises(UsageError, match="LEAGUE_GAME_OUTPUT='maybe': must be on or off"):
        batch_of(HERE + "WalkPrints-v0", 1)


def test_the_streams_of_a_game_are_kept() -> None:
    """A thread of the game may be in the middle of a `print`, and Python crashes where the stream goes meanwhile."""
    apart, found = Apart(Drawn(random=False, numpy=False)), []
    for _ in range(2):
        with apart:
            found.append((sys.stdout, sys.stderr))
    assert all(one is two for one, two in zip(*found, strict=True)) and found[0][0] is not sys.stdout


@pytest.mark.parametrize("name", ["WalkRemembers-v0", "WalkRemembersPay-v0", "WalkRemembersEnd-v0"])
def test_an_environment_that_shows_what_was_before_is_made_again_for_each_episode(name: str) -> None:
    """So a match is that of its seed, whatever was played before it; also where only pay or end show it."""
    batch = batch_of(HERE + name, 1)
    assert batch.matches[0]._facts.remembers and not batch_of("CartPole-v1", 1).matches[0]._facts.remembers
    batch.reset(1)
    first = batch.obs.copy()
    batch.step()
    batch.reset(1)
    assert np.array_equal(batch.obs, first)


def test_keywords_are_options() -> None:
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


EVERYTHING = Dict(
    {
        "image": Box(0, 255, (12, 10, 3), np.uint8),
        "grey": Box(0, 255, (9, 8), np.uint8),
        "first": Box(0, 255, (4, 12, 10), np.uint8),
        "bounded": Box(-2.0, 6.0, (3,)),
        "free": Box(-np.inf, np.inf, (2, 2)),
        "wide": Box(-3.4e38, 3.4e38, (1,), np.float32),
        "card": Discrete(5, start=3),
        "cards": MultiDiscrete([3, 4]),
        "keys": MultiBinary(3),
        "both": Tuple((Discrete(2), Box(0, 1, (2,)))),
        "action_mask": MultiBinary(4),
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
    "real": (Box(-1.0, 3.0, (4, 5)), (4, 5, 1)),
    "codes": (Box(-1, 2, (4, 5), np.int8), (4, 5, 4)),
    "many codes": (Box(0, 40, (4, 5), np.int32), (4, 5, 1)),
    "kinds": (MultiDiscrete(np.full((4, 5), 3)), (4, 5, 3)),
    "keys": (MultiBinary((4, 5)), (4, 5, 1)),
    "planes": (Box(0, 1, (4, 5, 3), np.int8), (4, 5, 3)),
    "planes of keys": (MultiBinary((4, 5, 3)), (4, 5, 3)),
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


BULLETS = Box(np.array([0, -10], np.float32), np.array([4, 10], np.float32))


@pytest.mark.parametrize("is_stacked", [False, True])
def test_a_sequence_becomes_entities(is_stacked: bool) -> None:
    """A 1 and the numbers of each row, as far as it goes; none at all is all zeros; too many rows are refused."""
    seen = Seen(Dict({"bullets": Sequence(BULLETS, stack=is_stacked)}), 3)
    (part,) = seen.parts
    assert (part.name, part.kind, part.shape, part.bounds) == ("bullets", "entities", (3, 3), None)
    rows = np.array([[4, -10], [1, 5]], np.float32)
    for given in (rows, tuple(rows), rows.tolist()):
        assert part.of(seen.flat({"bullets": given})).tolist() == [[1, 1, -1], [1, -0.5, 0.5], [0, 0, 0]]
    assert not seen.flat({"bullets": ()}).any()
    for wrong, words in (
        (np.zeros((4, 2)), r"of 4 rows; write \(max_rows=4\) or more behind the address"),
        (np.zeros((2, 3)), r"of shape \(2, 3\)"),
        (np.full((1, 2), 90.0), "outside Sequence"),
        (np.full((1, 2), np.nan), "nan in it"),
        ([[1.0, 2.0], [3.0]], "no array of numbers"),
    ):
        with pytest.raises(ReplyError, match=words):
            seen.flat({"bullets": wrong})


@pytest.mark.parametrize(
    "row, max_rows, words",
    [
        (BULLETS, None, r"which is of any length; write its most rows behind the address, as in NAME\(max_rows=16\)"),
        (BULLETS, 0, "max_rows=0 is no number of rows"),
        (BULLETS, 2**22, "max_rows=4194304 is no number of rows"),
        (BULLETS, "3", "max_rows='3' is no number of rows"),
        (Discrete(5), 3, "no Box of one axis"),
        (Box(0, 1, (2, 2)), 3, "no Box of one axis"),
        (Box(-np.inf, 1, (2,)), 3, "numbers without bounds"),
    ],
)
def test_a_sequence_that_cannot_be_is_refused(row: Any, max_rows: Any, words: str) -> None:
    with pytest.raises(SpaceError, match=words) as caught:
        Seen(Sequence(row), max_rows)
    assert "\n" not in str(caught.value)


def test_rows_of_a_sequence_are_said_behind_the_address() -> None:
    """Without them there is no game; with too few it is refused as it plays."""
    for rows, words in (("", "any length; write its most rows"), ("(max_rows=2)", r"of 3 rows; write \(max_rows=3\)")):
        with pytest.raises(ConfigError, match=words):
            adapter.open(HERE + "Swarm-v0" + rows)
    assert batch_of(HERE + "Swarm-v0(max_rows=4)", 1).spec.observation[0].shape == (4, 3)


ACTIONS = {
    "discrete": Discrete(4, start=-2),
    "several": MultiDiscrete([[3, 4], [2, 5]]),
    "keys": MultiBinary((2, 2)),
    "real": Box(np.array([-1, 0], np.float32), np.array([1, 300], np.float32)),
    "whole": Box(-2, 3, (2,), np.int64),
    "tuple": Tuple((Discrete(3), Box(-1, 1, (1,)))),
    "dict": Dict({"a": Discrete(2), "b": Tuple((MultiBinary(2),))}),
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


@pytest.mark.parametrize("space", [Box(-np.inf, 1, (2,)), Text(3), Discrete(1)], ids=str)
def test_actions_that_cannot_be_are_named(space: Any) -> None:
    with pytest.raises(SpaceError, match=r"the action space") as caught:
        Acts(space)
    assert type(space).__name__ in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("rest", "words"),
    [
        ("CartPol-v1", "did you mean `CartPole-v1`"),
        ("CartPole-v9", "Environment version `v9` .* did you mean `CartPole-v1`"),
        ("nobody:X-v0", "nobody is not installed; pip install"),
        ("./mine.PY:Mine", "'./mine.PY' is no module's name, nor a file's, which ends in .py"),
        ("Nowhere/Pong-v5", "Namespace Nowhere not found"),
        ("CartPole-v1(3)", r"\(keyword=value, ...\)"),
        ("CartPole-v1(render_mode='human')", "render_mode is chosen where a match is drawn"),
        (HERE + "Entropy-v0", "did you mean `Walk"),
        (HERE + "WalkEntropy-v0", "two copies of one seed differ after 1 random steps"),
        (HERE + "WalkEntropyPay-v0", "two copies of one seed pay .* and .* for random step 1, so a match"),
        (HERE + "Text-v0", "the observation space has Text"),
        (HERE + "Unbounded-v0", "the action space Box.* has no bounds"),
        (HERE + "Broken-v0", "ValueError: no such kind"),
    ],
)
def test_what_cannot_be_played_is_one_line(rest: str, words: str, capfd: pytest.CaptureFixture[str]) -> None:
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


@pytest.mark.parametrize(
    ("space", "given", "words"),
    [
        (library.spaces.Dict(a=ONE), {"a": [0.5], "z": 1}, "an observation with 'z', which is not in Dict"),
        (library.spaces.Dict(b=library.spaces.Dict(a=ONE)), {"b": {"a": [0.5], 3: 1}}, "an observation with 3, which"),
        (library.spaces.Tuple((ONE,)), ([0.5], [0.5]), "an observation with 1, which is not in Tuple"),
    ],
)
def test_parts_that_a_space_does_not_have_are_refused(space: library.spaces.Space[Any], given: Any, words: str) -> None:
    with pytest.raises(ReplyError, match=words):
        Seen(space).flat(given)


def test_a_mask_of_a_part_that_is_none_is_refused() -> None:
    acts = Acts(library.spaces.Dict({"move": library.spaces.Discrete(2), "aim": library.spaces.Discrete(2)}))
    assert [*acts.legal({"move": [0, 1]})["move"]] == [1]
    with pytest.raises(ReplyError, match="an action_mask with other keys than Dict"):
        acts.legal({"mvoe": [0, 1]})
