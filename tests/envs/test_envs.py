"""The game registry, and the match-batch contract for every registered game and against games that break it."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pydantic
import pytest
from gymnasium import spaces

from league import config
from league.config import updates
from league.envs import registry
from league.envs.classic import matrix
from league.envs.classic.matrix import MatrixBatch, Options
from league.envs.contract.check import ContractError, check_match_batch
from league.envs.spaces import gymnasium_spaces
from league.errors import ConfigError
from league.sessions.settling import settle
from league.types import ActionSpec
from tests.helpers.cases import cases


@pytest.mark.parametrize("name", cases(*(game for game in registry.games() if game != "leduc"), slow=["leduc"]))
def test_registered_game_keeps_the_contract(name: str) -> None:
    """Every registered game passes the public checker with the options that training uses."""
    options = config.load(env=name).env.options
    steps = {"kuhn": 250, "leduc": 250, "matrix": 250}.get(name, 850)  # two matches of one row
    check_match_batch(
        lambda rows, threads: registry.make(name, rows=rows, threads=threads, options=options), steps=steps
    )


@pytest.mark.parametrize("name", registry.games())
def test_hyperparameters_fit_the_registered_game(name: str) -> None:
    """The source's options, rewards and mix for a game are ones that the game has."""
    settings = config.load(env=name)
    spec = registry.spec(name, settings.env.options)
    updates.check_rewards(settings, spec)
    assert set(settings.pool.mix) <= {"self_play", "current", *(f"bot:{bot}" for bot in spec.bots)}


class MovesObs(MatrixBatch):
    def step(self) -> None:
        super().step()
        self.obs = self.obs.copy()


class UnseededReset(MatrixBatch):
    def reset(self, seed: Any) -> None:
        super().reset(int(np.random.default_rng().integers(2**60)))


class LateReset(MatrixBatch):
    def step(self) -> None:
        super().step()
        ended = self.terminated | self.truncated
        self.obs[ended] = self.final_obs[ended]


class NextViewAsLast(MatrixBatch):
    def step(self) -> None:
        super().step()
        self.final_obs[:] = self.obs


class NoFinalObs(MatrixBatch):
    def step(self) -> None:
        before = self.final_obs.copy()
        super().step()
        self.final_obs[:] = before


class BothEnds(MatrixBatch):
    def step(self) -> None:
        super().step()
        self.truncated[:] = self.terminated


class BotsIgnored(MatrixBatch):
    def step(self) -> None:
        kept = self.controllers.copy()
        self.controllers[:] = -1
        super().step()
        self.controllers[:] = kept


class DeafSeat(MatrixBatch):
    def step(self) -> None:
        self.actions[:, 1] = 0
        super().step()


class PlaceMatters(MatrixBatch):
    def step(self) -> None:
        super().step()
        self.reward_terms[0] += 1


class OneSeed(MatrixBatch):
    def reset(self, seed: Any) -> None:
        super().reset(seed if isinstance(seed, np.ndarray) else np.full(self.num_rows, seed, np.uint64))


class SameSeedAgain(MatrixBatch):
    def step(self) -> None:
        before = self._match["seed"].copy()
        super().step()
        ended = self.terminated | self.truncated
        self._start(ended, before)


class StateWithoutControllers(MatrixBatch):
    def set_state(self, state: bytes) -> None:
        kept = self.controllers.copy()
        super().set_state(state)
        self.controllers[:] = kept


class BlindSetState(MatrixBatch):
    def set_state(self, state: bytes) -> None:
        kept = self.obs.copy()
        super().set_state(state)
        self.obs[:] = kept


class TakesAnything(MatrixBatch):
    def set_state(self, state: bytes) -> None:
        super().set_state(state if len(state) == len(self.get_state()) else self.get_state())


class NanObs(MatrixBatch):
    def step(self) -> None:
        super().step()
        self.obs[0, 0, 0] = np.nan


class ObsTooLarge(MatrixBatch):
    def step(self) -> None:
        super().step()
        self.obs[0, 0, 0] = 1.5


class FinalObsTooSmall(MatrixBatch):
    def step(self) -> None:
        super().step()
        self.final_obs[self.terminated] -= 0.5


class WrongType(MatrixBatch):
    def __init__(self, rows: int, options: Options) -> None:
        super().__init__(rows, options)
        self.controllers = self.controllers.astype(np.int32)


class NothingAllowed(MatrixBatch):
    def __init__(self, rows: int, options: Options) -> None:
        super().__init__(rows, options)
        self.mask = np.zeros((rows, 2, self.spec.action.mask_size), np.bool_)


class ThreadsMatter(MatrixBatch):
    threads = 1

    def step(self) -> None:
        super().step()
        self.reward_terms[:] *= self.threads


BROKEN: list[tuple[type[MatrixBatch], str]] = [
    (MovesObs, "obs moved"),
    (UnseededReset, "plays differently the second time"),
    (LateReset, "next match's first"),
    (NextViewAsLast, "final_obs is the next"),
    (NoFinalObs, r"final_obs\[0\] is nan, .* not written"),
    (BothEnds, "both terminated and truncated"),
    (BotsIgnored, "bot constant in seat 0 follows"),
    (DeafSeat, "nothing depends on the actions of seat 1"),
    (PlaceMatters, "at another index"),
    (OneSeed, "two rows from the same seed"),
    (SameSeedAgain, "has the first one's seed"),
    (StateWithoutControllers, "does not restore controllers"),
    (BlindSetState, "set_state does not write obs"),
    (TakesAnything, "an empty state is taken"),
    (NanObs, r"row 0, seat 0, step 1 of its match 1: obs\[0\] is nan, not finite"),
    (ObsTooLarge, r"obs\[0\] is 1.5, which leaves obs_range"),
    (FinalObsTooSmall, r"step 5 of its match 1: final_obs\[.\] is -0.5, which leaves"),
    (WrongType, "controllers has dtype int32"),
    (NothingAllowed, "row 0, seat 0, .*nothing is legal in part 0"),
    (ThreadsMatter, "two threads"),
]


@pytest.mark.parametrize(("game", "rule"), BROKEN, ids=[game.__name__ for game, _ in BROKEN])
def test_checker_finds_the_broken_rule(game: type[MatrixBatch], rule: str) -> None:
    """Each way of breaking the contract is found and named on one line."""

    def make(rows: int, threads: int) -> MatrixBatch:
        batch = game(rows, Options(rounds=5))
        if isinstance(batch, ThreadsMatter):
            batch.threads = threads
        return batch

    with pytest.raises(ContractError, match=rule) as caught:
        check_match_batch(make, steps=60)
    assert "\n" not in str(caught.value)


def test_checker_wants_whole_matches() -> None:
    """A run too short to finish two matches is an error, not a pass."""
    with pytest.raises(ContractError, match="finished two matches in 60 steps"):
        check_match_batch(lambda rows, threads: MatrixBatch(rows, Options(rounds=50)), steps=60)


def test_legal_actions_respect_the_mask() -> None:
    """Forbidden keys are never pressed and forbidden choices never taken; allowed ones all are, some time."""
    rng = np.random.default_rng(0)
    keys = ActionSpec("multi_binary", (2, 2, 2))
    key_mask = np.broadcast_to(np.array([True, False, True]), (500, 2, 3))
    pressed = keys.legal_actions(key_mask, rng.random((500, 2, 3)))
    assert pressed.dtype == np.int32 and pressed.max(axis=(0, 1)).tolist() == [1, 0, 1]
    parts = ActionSpec("multi_discrete", (2, 3))
    part_mask = np.broadcast_to(np.array([True, True, False, True, True]), (500, 2, 5))
    taken = parts.legal_actions(part_mask, rng.random((500, 2, 5)))
    assert set(taken[..., 0].flat) == {0, 1} and set(taken[..., 1].flat) == {1, 2}


def test_gymnasium_spaces_follow_the_spec() -> None:
    """Observations are a float32 Box with the spec's range; keys are MultiBinary, choices MultiDiscrete."""
    spec = registry.spec("matrix", {})
    box, action = gymnasium_spaces(spec)
    assert box == spaces.Box(0.0, 1.0, (8,), np.float32)
    assert action == spaces.MultiDiscrete(np.array([3]))
    keys = type(spec)(**{**vars(spec), "action": ActionSpec("multi_binary", (2,) * 10)})
    assert gymnasium_spaces(keys)[1] == spaces.MultiBinary(10)


@pytest.mark.parametrize(
    ("call", "parts"),
    [
        (lambda: registry.spec("matrx", {}), ("env.name='matrx'", "did you mean `matrix`")),
        (lambda: registry.check_options("matrix", {"round": 3}), ("env.round=3", "did you mean `rounds`")),
        (lambda: registry.check_options("matrix", {"rowz": 3}), ("env.rowz=3", "did you mean `rows`")),
        (lambda: registry.check_options("matrix", {"rounds": "3"}), ("env.rounds='3'", "integer", "Rounds of a match")),
        (lambda: registry.check_options("matrix", {"payoff": [[0.0, float("nan")]] * 2}), ("env.payoff", "finite")),
        (lambda: registry.check_options("matrix", {"payoff": [[0.0, 1.0]]}), ("env.payoff", "square")),
        (lambda: registry.check_options("matrix", {"bot_mix": [0.5, 0.5]}), ("env.bot_mix", "3 actions")),
        (lambda: registry.check_options("matrix", {"bot_mix": [0.5, 0.5, 0.5]}), ("env.bot_mix", "1.5")),
        (lambda: registry.check_options("matrix", {"payoff": []}), ("env.payoff", "at least 2 x 2")),
    ],
)
def test_bad_game_or_option_is_one_line(call: Callable[[], Any], parts: tuple[str, ...]) -> None:
    """An unknown game or option, or a bad value, names the setting, the value and the rule."""
    with pytest.raises(ConfigError) as caught:
        call()
    message = str(caught.value)
    assert "\n" not in message
    for part in parts:
        assert part in message


WRONG: dict[type, tuple[Any, ...]] = {
    bool: (1, 0, "yes", "true", None),
    int: (True, "3", 3.0, None, [3]),
    float: (True, "1.5", None, [1.5], float("inf")),
    list: ("[1.0]", True, 1.0, {"0": 1.0}, ["1.0"], [True]),
}
"""Type of an option's default -> values that are not of it."""
WRONG_OPTIONS = [
    (game, key, value)
    for game in registry.games()
    for key, default in registry.check_options(game, {}).items()
    for value in WRONG[type(default)]
]


class Lenient(pydantic.BaseModel):
    """Options of a game from elsewhere that says nothing of how they are checked."""

    model_config = pydantic.ConfigDict(frozen=True, extra="forbid")

    size: int = 3
    sides: tuple[int, ...] = (1, 2)


@pytest.mark.parametrize(("game", "key", "value"), WRONG_OPTIONS)
def test_an_option_of_another_type_is_refused(game: str, key: str, value: Any, tmp_path: Path) -> None:
    """Of every game, in one line that names it: from Python, from TOML and from --set."""
    literal = "inf" if value == float("inf") else json.dumps(value)
    calls: list[Callable[[], object]] = [lambda: registry.check_options(game, {key: value})]
    if value is not None and not isinstance(value, dict):  # TOML has no null, and writes tables otherwise
        (tmp_path / "my.toml").write_text(f"[env]\n{key} = {literal}\n")
        calls.append(lambda: settle("smoke", "fast", game, tmp_path / "my.toml", []))
        calls.append(lambda: settle("smoke", "fast", game, None, [f"env.{key}={literal}"]))
    for call in calls:
        with pytest.raises(ConfigError, match=f"env.{key}=") as caught:
            call()
        assert "\n" not in str(caught.value)


def test_options_of_any_game_are_checked_strictly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a game's model says; a list serves where it has a tuple, since TOML and JSON have no other."""
    monkeypatch.setitem(registry._games, "elsewhere", cast(Any, SimpleNamespace(Options=Lenient)))
    assert registry.check_options("elsewhere", {"sides": [4, 5]}) == {"size": 3, "sides": [4, 5]}
    assert registry.check_options("elsewhere", {"sides": (4, 5)}) == {"size": 3, "sides": [4, 5]}
    wrong: dict[str, Any]
    for wrong in ({"size": True}, {"size": "3"}, {"size": 3.0}, {"size": {3}}, {"sides": ["1"]}, {"sides": "\ud800"}):
        with pytest.raises(ConfigError, match=f"env.{next(iter(wrong))}="):
            registry.check_options("elsewhere", wrong)


def test_game_id_is_of_the_completed_options() -> None:
    """Defaults written out give the same game; any other value, or version, gives another."""
    default = registry.game_id("matrix", {})
    assert len(default) == 16 and set(default) <= set("0123456789abcdef")
    assert registry.game_id("matrix", {"rounds": 10}) == default
    assert registry.game_id("matrix", {"payoff": [[0, -1, 1], [1, 0, -1], [-1, 1, 0]]}) == default
    assert registry.game_id("matrix", {"rounds": 11}) != default
    assert registry.check_options("matrix", {"rounds": 11})["continuing"] is False


def test_third_party_game_is_registered_by_object_and_by_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """A game from elsewhere is made by name; a taken name is refused, and one that is not the game's own."""
    monkeypatch.setattr(registry, "_games", dict(registry._games))
    coins: Any = SimpleNamespace(**vars(matrix), DEFAULTS={"rewards": {"win": 2.0}})
    coins.spec = lambda options: replace(matrix.spec(options), name="coins")
    registry.register("coins", coins)
    registry.register("coins", coins)
    registry.register("stones", "league.envs.classic.matrix")
    assert registry.games()[-2:] == ("coins", "stones")
    assert registry.make("coins", rows=3, threads=0, options={"rounds": 2}).num_rows == 3
    assert registry.spec("coins", {}).name == "coins" and registry.defaults("coins") == coins.DEFAULTS
    with pytest.raises(ConfigError, match=r"'pebbles': the game calls itself 'matrix'; register it under that name"):
        registry.register("pebbles", matrix)
    with pytest.raises(ConfigError, match=r"'stones': the game calls itself 'matrix'"):
        registry.spec("stones", {})
    with pytest.raises(ConfigError, match="already registered"):
        registry.register("matrix", "some.other.module")


def test_common_env_keys_are_those_of_the_config() -> None:
    """The registry and the configuration agree on which keys of [env] are not the game's own."""
    assert set(registry.COMMON_ENV_KEYS) == set(config.COMMON_ENV_KEYS)


IDS = {
    "brawl": "01ab9aaf409e1b89",
    "cards": "75f152b3ad740617",
    "matrix": "be06dabd4946469c",
    "kuhn": "a098104d539150f7",
    "leduc": "646eabd854c48f29",
}


def test_what_games_declare_does_not_change_their_ids() -> None:
    """Stores and snapshots of these games have these ids; only another version or other options make another game."""
    ids = {name: registry.game_id(name, config.load(env=name).env.options) for name in IDS}
    assert ids == IDS


@pytest.mark.parametrize("name", registry.games())
def test_games_say_what_the_engine_needs(name: str) -> None:
    """What each game declares; brawl's ticks follow its option; a part that is not there is refused."""
    settings = config.load(env=name)
    spec = registry.spec(name, settings.env.options)
    is_brawl = name == "brawl"
    assert spec.floor == "random" and spec.ticks_per_step == (3 if is_brawl else 1)
    declared = {"brawl": ("based", "damage_dealt"), "cards": ("greedy", "damage_dealt")}
    assert (spec.anchor, spec.activity) == declared.get(name, (None, None))
    for wrong in ({"anchor": "nobody"}, {"floor": "nobody"}, {"activity": "nothing"}, {"ticks_per_step": 0}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            replace(spec, **cast(Any, wrong))
    if is_brawl:
        options = {**settings.env.options, "ticks_per_step": 5}
        assert registry.spec(name, options).ticks_per_step == 5
        assert registry.make(name, rows=1, threads=1, options=options).spec.ticks_per_step == 5
