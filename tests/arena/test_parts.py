"""The door for parts of one's own: how they are named, which code they are, and what is told of bad ones."""

from __future__ import annotations

import functools
import hashlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from league import config as settings
from league.arena import consent, parts
from league.arena.code_hash import mark_of
from league.config import models
from league.config.models import Config, PartsConfig
from league.errors import ConfigError
from league.pool import samplers
from league.testing import check_bot
from league.types.schema import PartSource
from tests.helpers.games import forget, new_user, times_run
from tests.helpers.refusals import refusal

TEXT = """
from pathlib import Path

with (Path(__file__).resolve().parent / "runs.txt").open("a") as _file:
    _file.write("x")


def one(obs, legal=(), rng=None):
    return legal[0]


def two(obs, legal=(), rng=None):
    return legal[-1]


NUMBER = 3
"""


@pytest.fixture(autouse=True)
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A user in a folder with a file of two bots, who has named nothing."""
    path = tmp_path / "here" / "mine.py"
    path.parent.mkdir()
    path.write_text(TEXT)
    monkeypatch.chdir(path.parent)
    with new_user(tmp_path):
        yield path
    sys.modules.pop("mine", None)


def with_bot(**pool: Any) -> Config:
    """Settings of a matrix game."""
    return settings.load(env="matrix", overrides=[f"pool.{key}={value}" for key, value in pool.items()])


def test_a_part_is_named_by_its_address_or_otherwise(file: Path) -> None:
    """By its function's name or another one; a file, a module, an object; several, and in a mapping."""
    given = parts.enter(["mine.py:one", "other=mine.py:two", "third=mine:one"], say=print)
    assert [part.name for part in given.parts] == ["one", "other", "third"]
    assert given.sets == ['pool.bots=["one", "other", "third"]'] and times_run(file.parent) == 2
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    assert given.parts[1].source == PartSource(address=f"{file}:two", sha256=digest, thing="two")
    assert [entry.address for entry in consent.named("bot")] == [f"{file}:one", f"{file}:two", "mine:one"]
    assert not consent.named() and not consent.named("sampler")
    given = parts.enter({"a-b": lambda *given: 0}, sampler=lambda known: [1.0], policy=functools.partial(dict))
    assert [part.name for part in given.parts] == ["a-b", "sampler", "dict"]
    assert given.sets == ['pool.bots=["a-b"]', 'pool.sampler="sampler"', 'agent.policy="dict"']
    Path("alone.py").write_text("def it(known):\n    return [1.0] * len(known.members)\n")
    [part] = parts.enter(sampler="alone.py").parts
    assert part.source.address.endswith("alone.py:it") and "it" in models.SAMPLERS
    assert list(samplers.probabilities("it", samplers.Beginning(with_bot(epsilon=0).pool, 4))) == [0.25] * 4


@pytest.mark.parametrize(
    ("kind", "given", "words"),
    [
        ("bots", "nowhere.py:x", "there is no such file"),
        ("bots", "mine.py:three", "known: Path, one, two"),
        ("bots", "mine.py", "add one, :one or :two"),
        *(
            (kind, "mine.py:NUMBER", f"a {name} is a function")
            for kind, name in (("bots", "bot"), ("policy", "policy"))
        ),
        ("bots", "mine.txt", "no module 'mine.txt'"),
        ("bots", "nobody", "no installed bot is called so; give FILE.py:NAME"),
        *(("bots", given, "bot='a b': a name has letters") for given in ("a b=mine.py:one", {"a b": "mine.py:one"})),
        *((kind, given, "'s name, file or module") for kind, given in (("bots", "x="), ("policy", ""))),
        ("bots", ["one=mine.py:two", "mine.py:one"], "bot=one: two of that name are given"),
        ("bots", 3, "bot=int"),
        ("sampler", "recent=mine.py:one", "sampler=recent: the library has one of that name"),
        ("sampler", "openspiel:x", "no module 'openspiel'"),
    ],
)
def test_what_is_no_part_is_one_line(kind: str, given: Any, words: str) -> None:
    """It names the setting, what was given and what would be right."""
    assert words in refusal(lambda: parts.enter(**{kind: given}))


def test_settings_are_resolved_to_code(file: Path) -> None:
    """Names in settings get their sources; unknown ones, and those of native bots, are refused with the nearest."""
    parts.enter("mine.py:one", sampler="draw=mine.py:two")
    found = parts.resolved(with_bot(mix='{self_play=0.5, "bot:one"=0.5}', group_sampler="draw"))
    assert list(found.parts.bots) == ["one"] and list(found.parts.samplers) == ["draw"] and not found.parts.policies
    assert settings.from_json(settings.to_json(found)) == found
    again = parts.resolved(found)
    assert again == found and settings.used_parts(found)["bots"] == {"one": ["one", found.parts.bots["one"].sha256]}
    assert settings.fingerprint(found) != settings.fingerprint(found.model_copy(update={"parts": PartsConfig()}))
    assert "pool.bots: bot:onne: matrix has no such bot" in refusal(lambda: parts.resolved(with_bot(bots='["onne"]')))
    assert "did you mean `bot:one`" in refusal(lambda: parts.resolved(with_bot(bots='["onne"]')))
    assert "matrix has a bot of that name itself" in refusal(lambda: parts.resolved(with_bot(bots='["random"]')))
    policy = settings.load(env="matrix", overrides=["agent.policy=net"])
    assert "agent.policy='net': is no policy that is known here" in refusal(lambda: parts.resolved(policy))
    with pytest.raises(ConfigError, match=r"\[parts\] cannot be set here"):
        Path("c.toml").write_text("[parts]\nbots = {}\n")
        settings.load(env="matrix", config_file="c.toml")


def test_which_code_an_object_is(file: Path) -> None:
    """That of its file, wherever it was given; values that it holds count, too."""
    sys.path.insert(0, str(file.parent))
    import mine

    sys.path.remove(str(file.parent))
    [named] = parts.enter("mine.py:one").parts
    assert mark_of(mine.one) == named.source

    def made(number: Any) -> Callable[..., Any]:
        return lambda *given: number

    class Holding:
        def __init__(self, number: Any) -> None:
            self.number = number

        def __call__(self, *given: Any) -> Any:
            return self.number

        bot = __call__

    def marks(make: Callable[[Any], Any]) -> list[str]:
        values = (0, 1, 0, np.zeros(2), np.ones(2), [1, {"a": None}])
        return [mark_of(make(value)).sha256 for value in values]

    for make in (made, Holding, lambda x: functools.partial(mine.one, x), lambda x: Holding(x).bot):
        found = marks(make)
        assert found[0] == found[2] and len(set(found)) == 5
        assert mark_of(make(0)).address == ""
    typed = eval("lambda *given: 0")  # noqa: S307  # as at a prompt: there is no file
    other = eval("lambda *given: 7")  # noqa: S307
    assert mark_of(typed).sha256 != mark_of(other).sha256 and mark_of(typed).address == ""


def test_installed_parts_need_no_option(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A setting names them; their version is known, and they are found again as long as they are installed."""
    site = Path("site").resolve()
    (site / "more-1.5.dist-info").mkdir(parents=True)
    (site / "more_parts.py").write_text(TEXT + "def weights(known):\n    return [1.0] * len(known.members)\n")
    (site / "more-1.5.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: more\nVersion: 1.5\n")
    points = "[league.bots]\nfirst = more_parts:one\n[league.samplers]\nflat = more_parts:weights\n"
    (site / "more-1.5.dist-info" / "entry_points.txt").write_text(points)
    with monkeypatch.context() as patch:
        patch.syspath_prepend(str(site))
        config = parts.resolved(with_bot(mix='{self_play=0.5, "bot:first"=0.5}', sampler="flat"))
        told = config.parts.bots["first"]
        assert (told.address, told.version, told.thing) == ("first", "1.5", "one") and not consent.named("bot")
        assert [part.name for part in parts.enter("first").parts] == ["first"]
        forget()
        assert parts.find_again(config, "run r", parts.Given()) == (config, "")
        assert "did you mean `first`" in refusal(lambda: parts.enter("fist"))
        newer = config.model_copy(update={"parts": config.parts.model_copy(update={"samplers": {}})})
        assert "run r has no sampler of that name" in refusal(
            lambda: parts.find_again(newer, "run r", parts.enter(sampler="flat"))
        )
    sys.modules.pop("more_parts")
    forget()
    assert "is not installed here; install what brings first" in refusal(
        lambda: parts.find_again(config, "run r", parts.Given())
    )


def test_a_moved_file_is_the_same_part(file: Path) -> None:
    """Named where it is now, it is found, and the move is said; the settings then have the new address."""
    parts.enter("mine.py:one")
    config = parts.resolved(with_bot(bots='["one"]'))
    forget()
    Path("moved.py").write_bytes(file.read_bytes())
    file.unlink()
    assert "which is gone; put it back, or pass --bot one= with" in refusal(
        lambda: parts.find_again(config, "run r", parts.Given())
    )
    said: list[str] = []
    found, told = parts.find_again(config, "run r", parts.enter("moved.py:one"), said.append)
    assert said == [told] and "now comes from" in told and told.endswith("unchanged")
    assert found.parts.bots["one"].address.endswith("moved.py:one")
    assert settings.fingerprint(found) == settings.fingerprint(config)


def test_the_samplers_of_one_process_may_be_registered() -> None:
    """Without the door: `pool.sampler` takes the name from then on, and a run knows its code."""
    assert "pool.sampler='mine'" in refusal(lambda: with_bot(sampler="mine"))
    samplers.register("mine", lambda known: np.ones(len(known.members)))
    found = parts.resolved(with_bot(sampler="mine"))
    assert len(found.parts.samplers["mine"].sha256) == 64
    assert parts.find_again(found, "run r", parts.Given())[0] == found


def counting() -> Callable[..., Any]:
    """A bot that keeps something from one call to the next."""
    calls = [0]

    def count(obs: Any, legal: Any, rng: Any) -> Any:
        calls[0] += 1
        return legal[calls[0] % len(legal)]

    return count


def test_a_function_is_held_to_the_contract_of_bots_in_any_game() -> None:
    """In games in arrays as well, in turns and at once."""
    for game in ("matrix", "kuhn"):
        check_bot(game, lambda obs, legal, rng: legal[int(rng.integers(len(legal)))], matches=4)
        assert "is another when" in refusal(lambda game=game: check_bot(game, counting(), matches=4))
        assert "answered 9, where" in refusal(lambda game=game: check_bot(game, lambda *given: 9, matches=4))


@pytest.mark.parametrize("kind", ["bots", "sampler", "policy"])
def test_a_part_takes_what_the_engine_gives(kind: str, file: Path) -> None:
    """A function or class with other arguments is refused by them when it is named, before anything is played."""
    file.write_text(
        "def one(*, level):\n    return 0\n\n\nclass Two:\n    def __init__(self, *, level):\n        del level\n"
    )
    for name, arguments in (("one", r"\(\*, level\)"), ("Two", r"\(\*, level\)")):
        with pytest.raises(ConfigError, match=rf"mine\.py:{name}: {name} takes {arguments}; a .* is a function"):
            parts.enter(**{kind: f"mine.py:{name}"})
