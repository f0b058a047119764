"""Runs with parts of one's own: found again by every command, asked for where they changed, and nothing lost."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import league
from league.arena import consent, parts
from league.cli import app
from league.envs.listing import listed_bots
from league.errors import LeagueError, SnapshotError
from league.snapshots import Agent
from league.store.store import Store
from tests.helpers.cases import cases
from tests.helpers.games import forget, new_user, times_run, write_game
from tests.helpers.runs import learned, stopping
from tests.helpers.sizes import TINY, as_options

GRU = Path(__file__).resolve().parents[2] / "examples" / "gru.py"
PARTS = """
from pathlib import Path

with (Path(__file__).resolve().parent / "runs.txt").open("a") as _file:
    _file.write("x")


def last(obs, legal, rng):
    return legal[-1] if rng.random() < 0.9 else legal[0]


def hard(known, *more):
    return (1.1 - known.win_rates()) ** 3
"""
MIX = """pool.mix={self_play=0.5, "bot:last"=0.5}"""
SETS = (*TINY, "run.total_steps=96", MIX)
ALL: dict[str, Any] = {
    "bots": ["mine.py:last", "held-out=mine.py:last"],
    "sampler": "mine.py:hard",
    "policy": "gru.py:GRU",
}


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A user in a folder with files of a game and of parts, who has named nothing."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    shutil.copy(GRU, folder / "gru.py")
    (folder / "mine.py").write_text(PARTS)
    write_game(folder / "game.py")
    with new_user(tmp_path):
        yield folder


@pytest.fixture
def user(here: Path) -> Path:
    """The file of a bot and a sampler."""
    return here / "mine.py"


@pytest.fixture
def game(here: Path) -> Path:
    return here / "game.py"


def train(run: str = "r", *more: str, **given: Any) -> Any:
    """A tiny run of a matrix game in the store of this folder."""
    return league.train("smoke", env="matrix", run=run, overrides=(*SETS, *more), **given)


def refusal(call: Callable[[], Any], kind: type[LeagueError] = LeagueError) -> str:
    """The one line with which `call` is refused."""
    with pytest.raises(kind) as caught:
        call()
    assert "\n" not in str(caught.value)
    return str(caught.value)


def again(call: Callable[[], Any]) -> Any:
    """What it gives in a process of its own."""
    forget()
    return call()


def call(*words: str, raises: bool = False) -> Any:
    done = CliRunner().invoke(app, words)
    if raises and done.exception is not None:
        raise done.exception
    return done


def row(run: str = "r") -> Any:
    return Store.open("runs/league.duckdb").find_run(run)


def test_every_command_finds_the_parts_of_a_run_again(user: Path) -> None:
    train("whole", **ALL)
    forget()
    with stopping(1):
        train(**ALL)
    assert learned(Path("runs"), "r") != learned(Path("runs"), "whole")
    told = json.loads(row().config)["parts"]
    assert told["bots"]["last"]["address"] == f"{user}:last" and len(told["samplers"]["hard"]["sha256"]) == 64
    assert list(told["policies"]) == ["GRU"] and row().fingerprint == row("whole").fingerprint

    assert again(lambda: league.resume("r")).status == "finished"
    assert learned(Path("runs"), "r") == learned(Path("runs"), "whole")
    store = Store.open("runs/league.duckdb")
    met = {k: {a for match in store.matches("r", k) for a in match.agents} for k in ("training", "evaluation")}
    assert "bot:last" in met["training"] and {"bot:last", "bot:held-out"} <= met["evaluation"]
    assert "bot:held-out" not in met["training"]
    assert again(lambda: league.evaluate("r", "bot:last", games=2)).b == "bot:last"
    before = times_run(user.parent)
    assert again(lambda: league.evaluate("bot:last", "bot:random", games=2, env="matrix")).a == "bot:last"
    assert times_run(user.parent) == before + 1
    again(lambda: league.export("r", "agent"))
    before = times_run(user.parent)
    assert again(lambda: league.evaluate("./agent", "bot:random", games=2)).a.startswith("r@")
    assert again(lambda: league.load("agent")).act(np.zeros(8)).shape == (1,)
    assert "whose code is not in it; open it with `league.load`" in refusal(lambda: Agent.load("agent"), SnapshotError)
    assert times_run(user.parent) == before
    assert {x.name for x in league.leaderboard().boards[0].entries} >= {"bot:last", "bot:random"}
    own = json.loads(Path("agent/manifest.json").read_text())["architecture"]
    assert own["policy"] == "GRU" and own["type"] == "gru.GRU" and own["source"]["thing"] == "GRU"


def test_the_options_are_the_same_in_every_command(user: Path) -> None:
    words = ["--bot", "mine.py:last", "--sampler", "mine.py:hard", "--policy", "gru.py"]
    assert call("train", "--stage", "smoke", "--env", "matrix", "--run", "r", *words, *as_options(SETS)).exit_code == 0
    assert row().fingerprint and list(json.loads(row().config)["parts"]["policies"]) == ["GRU"]
    done = call("evaluate", "r", "--against", "bot:other", "--bot", "other=mine.py:last", "--games", "2")
    assert done.exit_code == 0 and "against bot:other: payoff" in done.stdout
    done = call("check", "matrix", *words, *as_options(["agent.lstm_size=4"]))
    assert (
        "bot last: keeps the contract\nsampler hard: keeps the contract\npolicy GRU: keeps the contract" in done.stdout
    )
    for command in ("resume", "tournament", "gate", "exploit", "watch"):
        assert {"--bot", "--policy"} <= set(call(command, "--help").stdout.split()), command
    for command in (["tournament", "--bots", "--env", "matrix"], ["gate", "bot:random", "bot:last", "--env", "matrix"]):
        with pytest.raises(LeagueError, match="there is no such file"):
            call(*command, "--bot", "nowhere.py:x", raises=True)


def test_what_has_changed_is_asked_for_and_is_an_event(user: Path) -> None:
    with stopping(1):
        train(**ALL)
    before = row()
    user.write_text(user.read_text().replace("0.9", "0.5"))
    forget()
    assert "bot last comes from" in refusal(lambda: league.resume("r"))
    assert "has changed since you named it" in refusal(lambda: league.resume("r"))
    assert "has no bot of that name" in refusal(lambda: league.resume("r", bots={"hard": "mine.py:hard"}))
    forget()
    assert "has changed since you named it" in refusal(lambda: league.evaluate("r", "bot:last", games=2))
    assert row() == before and times_run(user.parent) == 2  # the second one to name what the run does not have
    league.resume("r", bots="mine.py:last", sampler="mine.py:hard")
    told = [event.message for event in Store.open("runs/league.duckdb").events("r") if event.kind == "part"]
    assert len(told) == 1 and told[0].count("is not what run r began with") == 3
    assert row().fingerprint != before.fingerprint and row().status == "finished"
    user.unlink()
    forget()
    assert "which is gone" in refusal(lambda: league.evaluate("r", "bot:last", games=2))


def test_nothing_runs_that_was_not_named_here(user: Path, tmp_path: Path) -> None:
    train(**ALL)
    ran = times_run(user.parent)
    with new_user(tmp_path / "other"):
        calls = (
            lambda: league.evaluate("r", "r@0", games=2),
            lambda: league.evaluate("bot:last", "bot:random", games=2, env="matrix"),
            lambda: league.train(against="r", steps=32, games=2),
            lambda: league.load("r"),
        )
        for call in calls:
            assert "was never named here by you; its code runs only if you do" in refusal(call)
        assert times_run(user.parent) == ran and league.leaderboard().boards
        league.evaluate("bot:last", "bot:random", games=2, env="matrix", bots="mine.py:last")
        assert [(entry.part, entry.game) for entry in consent.named("bot")] == [("bot", "")]
        assert not consent.named("sampler") and not consent.named()


def test_objects_in_python_are_the_same_parts(user: Path) -> None:
    import sys

    sys.path.insert(0, str(user.parent))
    import gru
    import mine

    try:
        with stopping(1):
            train("objects", bots={"last": mine.last}, sampler=mine.hard, policy=gru.GRU)
            train("l", bots={"last": lambda obs, legal, rng: legal[0]})
        given = parts.enter(**ALL | {"bots": "mine.py:last"}).parts
        told = json.loads(row("objects").config)["parts"]
        assert [told["bots"]["last"], told["samplers"]["hard"], told["policies"]["GRU"]] == [
            part.source.model_dump() for part in given
        ]
        assert league.resume("objects").status == "finished"
        forget()
        assert "came as an object in Python" in refusal(lambda: league.resume("l"))
        assert league.resume("l", bots={"last": lambda obs, legal, rng: legal[0]}).status == "finished"
    finally:
        sys.path.remove(str(user.parent))
        for name in ("mine", "gru"):
            del sys.modules[name]


FAILING = """
_calls = []


def worse(*given):
    _calls.append(1)
    if len(_calls) > LATE:
        raise ValueError("on purpose")
    return {}
"""


@pytest.mark.parametrize("kind", cases("bot", slow=["sampler"]))
def test_what_fails_in_play_ends_the_run_saved(kind: str, user: Path) -> None:
    bot = "[given[1][0] for _ in '1'][0]" if kind == "bot" else "[1.0] * len(given[0].members)"
    late = 40 if kind == "bot" else 3
    Path("bad.py").write_text(FAILING.format(bot).replace("LATE", str(late)))
    given = {"bots" if kind == "bot" else "sampler": "last=bad.py:worse"}
    if kind == "sampler":
        given["bots"] = "mine.py:last"
    line = refusal(lambda: train("r", "pool.snapshot_every=8", **given))
    assert f"{kind}:last" in line or f"{kind} last" in line
    assert (
        f"ValueError: on purpose ({user.parent / 'bad.py'}, line 8)" in line
        and "; saved; go on with `league resume r`" in line
    )
    assert row().status == "failed" and 0 < row().steps < 96
    Path("bad.py").write_text(Path("bad.py").read_text().replace("on purpose", "").replace("> ", "< 0 > "))
    assert league.resume("r", **{key: x for key, x in given.items() if "bad" in x}).status == "finished"


def test_a_games_module_carries_bots(user: Path) -> None:
    """`PYTHON_BOTS` are met without being named, share the default mix, and are found again with the game."""
    said = '    """The last that is legal."""'
    bot = f"\n\ndef last(obs, legal, rng):\n{said}\n    return legal[-1]\n"
    write_game(Path("game.py"), f"{bot}\n\nPYTHON_BOTS = {{'last': last}}\n")
    sets = [text for text in SETS if text != MIX]
    league.train("smoke", env="game.py", run="g", overrides=sets)
    assert json.loads(row("g").config)["pool"]["mix"].keys() == {
        *("current", "self_play", "bot:constant", "bot:biased", "bot:last")
    }
    assert [bot.meaning for bot in listed_bots("duel") if bot.bot == "bot:last"] == ["The last that is legal."]
    forget()
    assert league.evaluate("g", "bot:last", games=2).b == "bot:last"
    Path("game.py").write_text(Path("game.py").read_text().replace("'last'", "'random'"))
    forget()
    assert "has a bot of that name itself" in refusal(lambda: league.train("smoke", env="game.py", overrides=sets))


OUTSIDE = """
import torch
from gru_outside import GRU


class Net(GRU):
    def __init__(self, *given):
        super().__init__(*given)
        self.extra = torch.randn(1)

    def value(self, *given, **more):
        return super().value(*given, **more) + self.extra
"""
BAD = {
    "no_module": ("def net(spec, agent):\n    return 3\n", "torch.nn.Module"),
    "no_method": ("from torch import nn\ndef net(spec, agent):\n    return nn.Linear(2, 2)\n", "has no method"),
    "raises": ("def net(spec, agent):\n    return 1 / 0\n", "ZeroDivisionError"),
    "outside": (OUTSIDE, "value() is not the value that step() gives"),
}


@pytest.mark.parametrize("fault", BAD)
def test_a_policy_that_cannot_be_trained_is_one_line(fault: str, user: Path) -> None:
    text, words = BAD[fault]
    shutil.copy(GRU, "gru_outside.py")
    Path("net.py").write_text(text)
    sets = ("pool.mix={self_play=1.0}",)
    assert words in refusal(lambda: train("r", *sets, policy="own=net.py" if "class" not in text else "net.py:Net"))
    assert not Path("runs/r").exists()


GAME_SETS = (*TINY, "pool.mix={self_play = 0.5, 'bot:random' = 0.5}")
LIAR = """
class _Liar(_Batch):
    def step(self):
        super().step()
        if self.num_rows == 4:  # more than the quick check before a run plays
            self.obs[2, 1, 0] += 0.25


def make(rows, threads, options):
    return _Liar(rows, options)
"""


def test_every_command_finds_the_game_of_a_run_again(game: Path) -> None:
    with stopping(1):
        league.train("smoke", env="game.py", run="r", overrides=GAME_SETS)
    runs = 1
    row = Store.open("runs/league.duckdb").find_run("r")
    assert (row.game, row.game_address, row.env) == ("duel", str(game), str(game)) and len(row.game_sha256) == 64

    def once(call: Any) -> Any:
        nonlocal runs
        runs += 1
        done = again(call)
        assert times_run(game.parent) == runs
        return done

    assert once(lambda: league.resume("r")).status == "finished"
    assert once(lambda: league.evaluate("r", "bot:random", games=2)).a.startswith("r@")
    assert once(lambda: league.tournament(["r", "r@0"], bots=True, games=2))
    assert once(lambda: league.gate("r", "bot:random", max_games=2))
    assert (
        once(lambda: league.train(against="r", steps=32, games=2, run="x", overrides=["env.threads=1"])).status
        == "finished"
    )
    assert once(lambda: league.watch("r", "bot:random", "film.png")).pictures == 1
    league.export("r", "agent")
    assert "source" in (game.parent / "agent" / "manifest.json").read_text()
    assert once(lambda: league.evaluate("./agent", "r@0", games=2))
    forget()
    assert Agent.load("agent").manifest.game.came_from == row.source
    assert league.leaderboard().boards and times_run(game.parent) == runs


def test_a_changed_game_is_asked_for_and_is_an_event(game: Path) -> None:
    with stopping(1):
        league.train("smoke", env="game.py", run="r", overrides=(*GAME_SETS, "run.total_steps=96"))
    store = Store.open("runs/league.duckdb")
    before = store.find_run("r")
    game.write_text(game.read_text() + "# changed\n")
    forget()
    for call in (lambda: league.resume("r"), lambda: league.evaluate("r", "bot:random", games=2)):
        assert "has changed since you named it" in refusal(call)
    assert store.find_run("r") == before and times_run(game.parent) == 1
    with stopping(2):
        league.resume("r", env="game.py")
    forget()
    league.resume("r", overrides=["run.on_alarm=stop"])
    told = [event.message for event in store.events("r") if event.kind == "game"]
    assert len(told) == 1 and "is not what run r began with" in told[0]
    assert store.find_run("r").game_sha256 != before.game_sha256
    game.unlink()
    forget()
    assert "which is gone" in refusal(lambda: league.evaluate("r", "bot:random", games=2))
    assert "there is no such file" in refusal(lambda: league.evaluate("r", "bot:random", games=2, env="game.py"))


def test_a_finding_is_replayed_with_the_game_that_it_is_of(game: Path) -> None:
    game.write_text(game.read_text() + LIAR)
    with pytest.raises(LeagueError):
        league.train("smoke", env="game.py", run="r", overrides=GAME_SETS)
    [path] = Path("runs/r/failures").iterdir()
    forget()
    assert league.replay(path).run == "r" and times_run(game.parent) == 2
    game.write_text(game.read_text() + "# changed\n")
    forget()
    assert "has changed since you named it" in refusal(lambda: league.replay(path))
    said: list[str] = []
    assert league.replay(path, env=game.name, say=said.append).run == "r" and "is not what" in said[0]


def test_the_game_of_the_page_trains() -> None:
    """The file that docs/bring.md shows is a game, with its defaults."""
    page = (Path(__file__).resolve().parents[2] / "docs" / "bring.md").read_text()
    [text] = [block for block in page.split("```")[1::2] if block.startswith("python\n# game.py")]
    Path("game.py").write_text(text.removeprefix("python\n"))
    done = league.train("smoke", env="game.py", overrides=[*TINY, "pool.mix={self_play = 0.5, 'bot:biased' = 0.5}"])
    assert (done.run, done.status) == ("five-1", "finished")
    assert Store.open("runs/league.duckdb").find_run("five-1").config.count('"rounds": 20') == 1
