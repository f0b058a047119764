"""A run of a game in a file: every command finds the game again, says what has changed, and asks where it must."""

from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from typer.testing import CliRunner

import league
from league.cli import app
from league.envs import registry
from league.errors import ConfigError, LeagueError, UsageError
from league.sessions.leagues import STAGE
from league.snapshots import Agent
from league.store.store import Store
from tests.helpers.games import forget, new_user, times_run, write_game
from tests.helpers.runs import stages, stopping
from tests.helpers.sizes import SMALL, TINY

MIX = ("pool.mix={self_play = 0.5, 'bot:random' = 0.5}",)
SETS = (*TINY, *MIX)
LEAGUE = """
turn_steps = 32
[learners.a]
role = "main"
[learners.b]
role = "league_exploiter"
"""
LIAR = """
class _Liar(_Batch):
    def step(self):
        super().step()
        if self.num_rows == 4:  # more than the quick check before a run plays
            self.obs[2, 1, 0] += 0.25


def make(rows, threads, options):
    return _Liar(rows, options)
"""


@pytest.fixture(autouse=True)
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A user in an empty folder with a game's file, who has named nothing."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    with new_user(tmp_path):
        yield write_game(tmp_path / "here" / "game.py")


def refusal(call: Any) -> str:
    """The one line with which `call` is refused."""
    with pytest.raises(LeagueError) as caught:
        call()
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_every_command_finds_the_game_of_a_run_again(user: Path) -> None:
    """Each in a process of its own, without `--env`; what reads the store alone does not run the game."""
    with stopping(1):
        league.train("smoke", env="game.py", run="r", overrides=SETS)
    runs = 1
    row = Store.open("runs/league.duckdb").find_run("r")
    assert (row.game, row.game_address, row.env) == ("duel", str(user), str(user)) and len(row.game_sha256) == 64

    def again(call: Any) -> Any:
        nonlocal runs
        forget()
        done = call()
        runs += 1
        assert times_run(user.parent) == runs
        return done

    assert again(lambda: league.resume("r")).status == "finished"
    assert again(lambda: league.evaluate("r", "bot:random", games=2)).a.startswith("r@")
    assert again(lambda: league.tournament(["r", "r@0"], bots=True, games=2))
    assert again(lambda: league.gate("r", "bot:random", max_games=2))
    assert (
        again(lambda: league.train(against="r", steps=32, games=2, run="x", overrides=["env.threads=1"])).status
        == "finished"
    )
    assert again(lambda: league.watch("r", "bot:random", "film.png")).pictures == 1
    league.export("r", "agent")
    assert "source" in (user.parent / "agent" / "manifest.json").read_text()
    assert again(lambda: league.evaluate("./agent", "r@0", games=2))
    forget()
    assert Agent.load("agent").manifest.game.came_from == row.source
    assert league.leaderboard().boards and times_run(user.parent) == runs


def test_a_changed_game_is_asked_for_and_is_an_event(user: Path) -> None:
    """A refusal changes nothing. Named again the run goes on with it, said and written down once."""
    with stopping(1):
        league.train("smoke", env="game.py", run="r", overrides=(*SETS, "run.total_steps=96"))
    store = Store.open("runs/league.duckdb")
    before = store.find_run("r")
    user.write_text(user.read_text() + "# changed\n")
    forget()
    for call in (lambda: league.resume("r"), lambda: league.evaluate("r", "bot:random", games=2)):
        assert "has changed since you named it" in refusal(call)
    assert store.find_run("r") == before and times_run(user.parent) == 1
    with stopping(2):
        league.resume("r", env="game.py")
    forget()
    league.resume("r", overrides=["run.on_alarm=stop"])
    told = [event.message for event in store.events("r") if event.kind == "game"]
    assert len(told) == 1 and "is not what run r began with" in told[0]
    assert store.find_run("r").game_sha256 != before.game_sha256
    user.unlink()
    forget()
    assert "which is gone" in refusal(lambda: league.evaluate("r", "bot:random", games=2))
    assert "there is no such file" in refusal(lambda: league.evaluate("r", "bot:random", games=2, env="game.py"))


def test_another_game_of_the_name_does_not_go_on(user: Path) -> None:
    """A version raised since is another game, and the run's rows say so."""
    with stopping(1):
        league.train("smoke", env="game.py", run="r", overrides=SETS)
    user.write_text(user.read_text().replace("name=NAME", "name=NAME, version=2"))
    forget()
    assert "plays another duel: version was 1 and is 2" in refusal(lambda: league.resume("r", env="game.py"))


def test_a_game_that_has_gained_a_bot_is_the_same_game(user: Path) -> None:
    """Who was trained before plays the new bot, and the run goes on."""
    now = user.read_text()
    user.write_text(now.replace("name=NAME)", "name=NAME, bots=_matrix.spec(options).bots[:-1])"))
    with stopping(1):
        league.train("smoke", env="game.py", run="r", overrides=SETS)
    user.write_text(now)
    forget()
    bot = f"bot:{registry.spec('matrix', {}).bots[-1]}"
    assert league.evaluate("r", bot, games=2, env="game.py").summary.games == 2
    forget()
    with stopping(2):
        assert league.resume("r", env="game.py").steps > 0


@pytest.mark.slow
def test_a_stage_that_carries_a_run_on_tells_what_changed(user: Path, tmp_path: Path) -> None:
    """Its fingerprint and game id are the same, so it is carried on; the event says that its file is another."""
    sets = (*SMALL, "learner.epochs=1", *MIX)
    with stages(tmp_path):
        league.train("short", env="game.py", overrides=sets, device="cpu")
        forget()
        user.write_text(user.read_text() + "# changed\n")
        with stopping(6):
            done = league.train("long", env="game.py", overrides=sets, device="cpu")
    assert done.run == "duel-1"
    [event] = [event for event in Store.open("runs/league.duckdb").events("duel-1") if event.kind == "game"]
    assert "is not what run duel-1 began with" in event.message


def test_learners_of_a_league_in_processes_of_their_own_find_the_game(user: Path) -> None:
    """One begins it by its address, the other and a later one go on by the store alone."""
    Path("l.toml").write_text(LEAGUE)
    more: dict[str, Any] = {"run": "lg", "overrides": SETS}
    with stopping(1):
        league.train(league="l.toml", env="game.py", learner="a", **more)
    forget()
    with stopping(1):
        league.resume("lg.b")
    assert times_run(user.parent) == 2
    rows = Store.open("runs/league.duckdb").runs()
    assert {row.run: row.env for row in rows} == {"lg.a": str(user), "lg.b": str(user)} and rows[0].stage == STAGE
    user.write_text(user.read_text() + "# changed\n")
    forget()
    assert "has changed since you named it" in refusal(lambda: league.resume("lg"))


def test_a_finding_is_replayed_with_the_game_that_it_is_of(user: Path) -> None:
    """The file of what strict masks found says where its game is; in another process it is found again."""
    user.write_text(user.read_text() + LIAR)
    with pytest.raises(LeagueError):
        league.train("smoke", env="game.py", run="r", overrides=SETS)
    [path] = Path("runs/r/failures").iterdir()
    forget()
    assert league.replay(path).run == "r" and times_run(user.parent) == 2
    user.write_text(user.read_text() + "# changed\n")
    forget()
    assert "has changed since you named it" in refusal(lambda: league.replay(path))
    said: list[str] = []
    assert league.replay(path, env=user.name, say=said.append).run == "r" and "is not what" in said[0]


def test_a_game_given_as_an_object_is_asked_for_elsewhere() -> None:
    """Made in no file, its run is evaluated in this process; another one has no address to look up."""
    module = ModuleType("given_duel")
    module.__file__ = "game.py"
    exec(Path("game.py").read_text(), vars(module))  # noqa: S102 -- written by the test
    del module.__file__
    league.train("smoke", env=module, run="r", overrides=SETS)
    assert league.evaluate("bot:biased", "bot:random", games=2, env=module).run is not None
    forget()
    assert "where it came from is not known; pass --env ADDRESS" in refusal(
        lambda: league.evaluate("r", "bot:random", games=2)
    )
    assert league.evaluate("r", "bot:random", games=2, env="game.py").run is not None
    forget()
    assert league.evaluate("r", "bot:random", games=2).run is not None, "it was named meanwhile"


def test_the_commands_take_an_address(user: Path) -> None:
    """`--env` of train, evaluate, resume and bench; what the game prints leaves the JSON on stdout alone."""
    import json

    user.write_text(user.read_text() + "print('on and on')\n")
    sets = [word for text in SETS for word in ("--set", text)]
    run = CliRunner().invoke
    done = run(app, ["train", "--env", "game.py", "--stage", "smoke", "--run", "r", "--json", *sets])
    assert done.exit_code == 0 and json.loads(done.stdout)["run"] == "r"
    forget()
    words = ["evaluate", "bot:biased", "--against", "bot:random", "--games", "2", "--env", "game.py", "--json"]
    assert json.loads(run(app, words).stdout)["a"] == "bot:biased"
    assert registry.source("duel").address == str(user)
    measured = run(app, ["bench", "env", "--env", "game.py", "--rows", "2", "--seconds", "0.01", "--json"])
    assert json.loads(measured.stdout)["env"] == "duel"
    broken = run(app, ["train", "--env", "gone.py"])
    assert isinstance(broken.exception, ConfigError) and "gone.py" in str(broken.exception)
    other = run(app, ["resume", "r", "--env", "kuhn"])
    assert isinstance(other.exception, UsageError)


def test_the_faces_of_other_libraries_take_an_address(user: Path) -> None:
    """`league.gym.register` and `ParallelMatch` of a file's game, which has its own name there."""
    import gymnasium

    import league.gym

    league.gym.register("game.py")
    try:
        env = gymnasium.make("league/Duel-v0", opponent="random", rounds=2)
        env.reset(seed=1)
        assert env.observation_space.shape == (8,) and env.step(env.action_space.sample())[0].shape == (8,)
    finally:
        del gymnasium.registry["league/Duel-v0"]
    zoo = pytest.importorskip("league.zoo", reason="needs pettingzoo")
    assert zoo.ParallelMatch("game.py", rounds=2).metadata["name"] == "league_duel_v0"


def test_the_game_of_the_page_trains() -> None:
    """The file that docs/bring.md shows is a game, with its defaults."""
    page = (Path(__file__).resolve().parents[2] / "docs" / "bring.md").read_text()
    [text] = [block for block in page.split("```")[1::2] if block.startswith("python\n# game.py")]
    Path("game.py").write_text(text.removeprefix("python\n"))
    done = league.train("smoke", env="game.py", overrides=[*TINY, "pool.mix={self_play = 0.5, 'bot:biased' = 0.5}"])
    assert (done.run, done.status) == ("five-1", "finished")
    assert Store.open("runs/league.duckdb").find_run("five-1").config.count('"rounds": 20') == 1
