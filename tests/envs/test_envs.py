"""The game registry, and the match-batch contract for every registered game and against games that break it."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pydantic
import pytest

from league import config
from league.config import updates
from league.envs import registry
from league.envs.classic import matrix
from league.errors import ConfigError
from league.sessions.settling import settle


@pytest.mark.parametrize("name", registry.games())
def test_hyperparameters_fit_the_registered_game(name: str) -> None:
    settings = config.load(env=name)
    spec = registry.spec(name, settings.env.options)
    updates.check_rewards(settings, spec)
    assert set(settings.pool.mix) <= {"self_play", "current", *(f"bot:{bot}" for bot in spec.bots)}


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
