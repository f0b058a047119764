"""Environments of Kaggle through the door: matches and bots are Kaggle's, and Kaggle plays submissions."""

import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import league
from league.arena import games
from league.envs import registry
from league.envs.adapters.encoders import submission_files
from league.envs.contract.check import check_match_batch
from league.errors import ConfigError, LeagueError, UsageError
from league.types import Turns
from tests.helpers.cases import cases
from tests.helpers.commands import call, need_refusal
from tests.helpers.games import SUMS_SETS, forget, new_user

kaggle = pytest.importorskip("kaggle_environments", reason="needs kaggle-environments: make kaggle")
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
GEESE = EXAMPLES / "geese.py"
OPTIONS: dict[str, dict[str, Any]] = {
    "connectx": {},
    "rps": {"episodeSteps": 30, "tieRewardThreshold": 2},
    "planet_wars": {"episodeSteps": 25},
    f"hungry_geese:{GEESE}": {"episodeSteps": 40},
}


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A folder and a user of each test's own."""
    monkeypatch.chdir(tmp_path)
    with new_user(tmp_path):
        yield
    forget()


def batch_of(env: str, num_rows: int, **options: Any) -> Any:
    """A batch of a game."""
    name = games.enter(f"kaggle:{env}")
    assert name is not None
    return registry.make(name, rows=num_rows, threads=1, options={**OPTIONS.get(env, {}), **options})


@pytest.mark.parametrize("env", cases("connectx", f"hungry_geese:{GEESE}", slow=OPTIONS))
def test_games_keep_the_contract(env: str) -> None:
    """In turns where one agent waits, else at once; its bots, which remember, are brought back with a match."""
    assert isinstance(batch_of(env, 2), Turns) == (env == "connectx")
    check_match_batch(lambda rows, threads: batch_of(env, rows), rows=2, steps=90)


@pytest.mark.parametrize(("env", "is_imperfect"), [("rps", True), ("planet_wars", False)])
def test_an_encoder_says_whether_a_seat_knows_all(env: str, is_imperfect: bool) -> None:
    """Decisions at once alone bring no magnet: with one Planet Wars is not learned (lab/experiments.md)."""
    name = games.enter(f"kaggle:{env}")
    config, _ = games.load_settings("test50k", env=name)
    assert registry.spec(str(name), {}).imperfect_information == is_imperfect == bool(config.learner.magnet)


def match_of(env: str, **options: Any) -> Any:
    """A match of a game, which has not begun."""
    return batch_of(env, 1, **options).matches[0]


def played(match: Any, seed: int, choose: Callable[[int], Any]) -> Any:
    """A whole match by what a seat chooses; returns its environment."""
    match.begin(seed)
    while not match.is_over:
        if match.to_move is None:
            match.step((choose(0), choose(1)))
        else:
            match.play(choose(match.to_move))
    return match.table.env


def replayed(env: str, ours: Any, seed: int) -> Any:
    """Kaggle's own `Environment` after the actions of a match, with the same states after each step."""
    _, drawn = (rng := np.random.Generator(np.random.PCG64(seed))).integers(2), int(rng.integers(2**31 - 1))
    theirs = kaggle.make(env.partition(":")[0], {**OPTIONS[env], "seed": drawn})
    random.seed(drawn)
    theirs.reset(2)
    for number, states in enumerate(ours.steps):
        if number:
            theirs.step([state.action for state in states])
        for own, other in zip(states, theirs.state, strict=True):
            assert (own.status, own.reward, own.observation) == (other.status, other.reward, other.observation), number
    assert theirs.done
    return theirs


@pytest.mark.parametrize("env", OPTIONS)
def test_a_match_is_the_one_that_kaggle_plays(env: str) -> None:
    """By its own `Environment`, with its schemas, logs and clocks: states and rewards of each step, and who wins."""
    match, rng = match_of(env), np.random.default_rng(0)
    choices, has_legal = match.rules().choices, match.rules().has_legal

    def choose(seat: int) -> Any:
        return choices.draw(choices.look_up(match.legal(seat))[0] if has_legal else choices.everything, rng)

    winners = set()
    for seed in range(8):
        theirs = replayed(env, played(match, seed, choose), seed)
        scores = [theirs.state[match.player_of(seat)].reward for seat in range(2)]
        assert match.winner == (None if scores[0] == scores[1] else int(scores[1] > scores[0]))
        winners.add(match.winner)
    assert {0, 1} <= winners


@pytest.mark.parametrize(
    ("env", "agents"),
    [
        ("planet_wars", ("nearest_enemy", "do_nothing")),
        ("rps", ("paper", "copy_opponent")),
        (f"hungry_geese:{GEESE}", ("greedy", "greedy")),
    ],
)
def test_bots_are_kaggles_agents(env: str, agents: tuple[str, str]) -> None:
    """Two of them play what Kaggle's runner plays with them; what they do, JSON that no action says, is replayed."""
    match = match_of(env)
    players = dict[int, Any]()

    def choose(seat: int) -> Any:
        if seat not in players:
            players[seat] = match.players[agents[seat]](match, seat, seat)
        return players[seat](None)

    ours = played(match, 3, choose)
    theirs = replayed(env, ours, 3)
    names = [agents[match.player_of(player)] for player in range(2)]
    for number, states in enumerate(theirs.steps[1:]):
        for player, state in enumerate(states):
            if agents[0] == "nearest_enemy" and names[player] == "nearest_enemy":
                seen = theirs.steps[number][player].observation
                assert state.action == theirs.agents.nearest_enemy(seen, theirs.configuration)
    assert len({str(state.action) for states in theirs.steps[1:] for state in states}) > 1


def test_the_batch_tells_what_a_bot_plays() -> None:
    """As the encoder's action, where it has `encode_action`: the column on which negamax's piece has come to lie."""
    batch = batch_of("connectx", 2)
    batch.controllers[:] = batch.spec.bots.index("negamax")
    batch.reset(np.array([3, 4], np.uint64))
    for _ in range(6):
        before = [batch.matches[row].table.env.state[0].observation.board for row in range(2)]
        movers = [match.to_move for match in batch.matches]
        batch.step()
        for row, seat in enumerate(movers):
            board = batch.matches[row].table.env.state[0].observation.board
            (cell,) = [i for i, (old, new) in enumerate(zip(before[row], board, strict=True)) if old != new]
            assert batch.actions[row, seat, 0] == cell % 7
    batch = batch_of(f"hungry_geese:{GEESE}", 1)
    batch.controllers[:] = batch.spec.bots.index("greedy")
    batch.reset(np.array([3], np.uint64))
    batch.actions[:] = -1
    batch.step()
    assert (batch.actions == -1).all()


def test_a_bots_memory_is_its_matchs() -> None:
    """The greedy goose keeps its last move in a global of its module; two matches side by side do not share it."""
    batch = batch_of(f"hungry_geese:{GEESE}", 2)
    batch.controllers[:] = batch.spec.bots.index("greedy")
    alone = []
    for rows in ([7, 8], [7, 9]):
        batch.reset(np.array(rows, np.uint64))
        seen = []
        for _ in range(12):
            batch.step()
            seen.append(batch.obs[0].copy())
        alone.append(seen)
    assert np.array_equal(*alone)


FAULTY = """
import sys
sys.path.append({folder!r})
from geese import Encoder as Geese

class Bad(Geese):
    def decode(self, action, observation):
        return super().decode(action, observation) if observation["index"] else "UP"

class Crooked(Geese):
    def encode(self, observation):
        return super().encode(observation).ravel()[1:]

class Silent(Geese):
    def encode(self, observation):
        return None if observation["step"] > 2 else super().encode(observation)

class Half:
    def encode(self, observation): ...


class Bare(Half):
    def __init__(self, configuration): ...
    def decode(self, action, observation): ...
"""


def test_an_agent_that_breaks_the_rules_has_lost() -> None:
    """What is no action of the environment's schema is Kaggle's status INVALID: the end reason `fault`."""
    Path("bad.py").write_text(FAULTY.format(folder=str(GEESE.parent)))
    match = match_of("hungry_geese:bad.py:Bad")
    for seed in range(4):
        ours = played(match, seed, lambda seat: 0)
        assert (len(ours.steps), match._outcome[1]) == (2, "fault")
        assert match.player_of(match.winner) == 1 and ours.state[0].status == "INVALID" and ours.state[0].reward is None


@pytest.mark.parametrize(
    ("env", "words"),
    {
        "main.py": "is a bot; pass it with --bot",
        "conectx": "did you mean `connectx`",
        "word_art": "it is for 4 agents; take one for two, such as connectx",
        "halite": "--encode FILE.py[:CLASS]",
        "halite:none.py": "there is no such file",
        "hungry_geese:bad.py:Bed": "did you mean `Bad`",
        "hungry_geese:bad.py:Bare": "its encoder has no obs_size; set it in __init__",
        "hungry_geese:bad.py:Half": "Half has no method decode()",
        "hungry_geese:bad.py:Crooked": "Crooked.encode gave 307 numbers, but obs_size is 308",
        "hungry_geese:bad.py:Silent": "Silent.encode gave None; return 308 numbers",
    }.items(),
)
def test_what_cannot_be_played_is_one_line(env: str, words: str) -> None:
    """With the next step."""
    Path("bad.py").write_text(FAULTY.format(folder=str(GEESE.parent)))
    with pytest.raises(LeagueError) as caught:
        games.enter(f"kaggle:{env}")
    assert words in str(caught.value) and "\n" not in str(caught.value)


def test_a_configuration_is_options() -> None:
    """Within its schema's limits; seeds and clocks are none."""
    batch = batch_of("connectx", 1, columns=5, rows=4)
    assert batch.spec.obs_size == 5 * 20 and batch.spec.action.choices == (5,)
    options = registry.check_options("kaggle-connectx", {})
    assert options == {"episodeSteps": 1000, "columns": 7, "rows": 6, "inarow": 4}
    for word, value in (("columns", 0), ("columns", 2.5), ("seed", 3), ("colums", 3)):
        with pytest.raises(ConfigError, match=rf"env\.{word}"):
            registry.check_options("kaggle-connectx", {word: value})


def test_an_encoder_is_code_that_its_user_has_named() -> None:
    """Its file is hashed and remembered, worker processes and later ones find it, and a changed one does not run."""
    shutil.copy(GEESE, "own.py")
    name = games.enter("kaggle:hungry_geese:own.py")
    assert name == "kaggle-hungry_geese-own"
    then = registry.source(name)
    assert then.address == f"kaggle:hungry_geese:{Path('own.py').resolve()}" and len(then.sha256) == 64
    seen = []
    for workers in (0, 2):
        batch: Any = registry.make(name, rows=4, threads=1, options={"episodeSteps": 20}, workers=workers)
        batch.reset(1)
        batch.controllers[:, 1] = batch.spec.bots.index("greedy")
        for _ in range(15):
            batch.actions[:] = 0
            batch.step()
        seen.append(batch.obs.copy())
        getattr(batch, "close", lambda: None)()
    assert np.array_equal(*seen)
    forget()
    assert games.find_again(name, then, "run r") == ""
    assert {*submission_files(then)} == {"main.py", "encoder.py"}
    forget()
    Path("own.py").write_text(GEESE.read_text() + "# changed\n")
    for look in (lambda: games.find_again(name, then, "run r"), lambda: submission_files(then)):
        with pytest.raises(UsageError, match=r"has changed since|another file"):
            look()


class Half(league.Callback):
    """Stops a run after its second update."""

    def report(self, report: Any) -> bool:
        return bool(report.update != 2)


def test_a_stopped_run_resumes_to_the_same_run() -> None:
    """Its last weights are those of the run that was not stopped, against agents that remember, too."""
    groups = 'pool.groups={bots=["bot:reactionary", "bot:statistical"]}'
    more = [groups, "pool.mix={self_play=0.5, bots=0.5}", "env.episodeSteps=20", "env.tieRewardThreshold=1"]
    for run, callback in (("whole", ()), ("halves", Half())):
        league.train(env="kaggle:rps", run=run, overrides=[*SUMS_SETS, *more], callback=callback)
    assert league.resume("halves", callback=()).status == "finished"
    whole, halves = (next(Path("runs", run).rglob(f"*{128}*/weights.safetensors")) for run in ("whole", "halves"))
    assert whole.read_bytes() == halves.read_bytes()


RUNNER = """
import sys
import kaggle_environments
name, main, *others = sys.argv[1:]
for other in others:
    for first in (True, False):
        environment = kaggle_environments.make(name)
        last = environment.run([main, other] if first else [other, main])[-1]
        print(other, [state.status for state in last], last[not first].reward)
assert not {"torch", "league"} & set(sys.modules)
"""
SMALL = (
    "--steps",
    "2048",
    "--set",
    "run.allow_short=true",
    "--set",
    "run.evaluate_games=2",
    "--set",
    "run.ladder_share=0",
    "--agent",
    "small",
)


@pytest.mark.parametrize("env", cases("connectx", "hungry_geese", slow=["planet_wars"]))
def test_kaggle_runs_a_submission(env: str) -> None:
    """`main.py` plays by Kaggle's own runner to the end, in both seats, without torch and league."""
    encode = ("--encode", str(GEESE)) if env == "hungry_geese" else ()
    opponents = "random", {"connectx": "negamax", "planet_wars": "nearest_enemy", "hungry_geese": "greedy"}[env]
    done = call("train", "--env", f"kaggle:{env}", *encode, "--run", "it", *SMALL, "--quiet")
    assert done.code == 0, done.err
    done = call("export", "it", "out", "--format", "submission")
    assert done.code == 0, done.err
    assert {path.name for path in Path("out").iterdir()} >= {"main.py", "encoder.py", "agent.py", "manifest.json"}
    assert "league" not in Path("out/encoder.py").read_text()
    sites = [path for path in sys.path if path and not Path(path, "league").is_dir()]
    ran = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[:0] = {sites!r}\n" + RUNNER, env, "out/main.py", *opponents],
        capture_output=True,
        text=True,
    )
    lines = [line for line in ran.stdout.splitlines() if "DONE" in line]
    assert ran.returncode == 0 and len(lines) == 4, ran.stdout + ran.stderr
    assert all(line.count("DONE") == 2 for line in lines), ran.stdout


def test_the_double_of_connectx_plays_as_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where one column is the best, Kaggle's negamax takes it, too; and an agent of the double begins a run here."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    double, rng, alone = import_module("connectx"), np.random.default_rng(3), 0
    env = kaggle.make("connectx")
    for men in (2, 5, 8, 9, 12, 14, 15, 17, 18, 20, 21, 23) * 2:
        board = np.zeros(42, int)
        for turn in range(men):
            column = board[int(rng.choice(np.flatnonzero(board[:7] == 0))) :: 7]
            column[np.flatnonzero(column == 0)[-1]] = 1 + turn % 2
        marks = 1 + men % 2, 2 - men % 2
        own, other = ((double.ONE << double.CELLS[board == mark]).sum(keepdims=True) for mark in marks)
        if double.four.has_four(np.array([own, other])).any():
            continue
        worth = double.values(own, other, np.array([men]), double.DEPTH)[0]
        wins = double.completing(own, own | other) & (own | other) + double.BOTTOM
        best = np.flatnonzero(double.columns_of(wins) if wins else worth == worth.max())
        seen = kaggle.utils.Struct(board=board.tolist(), mark=1 + men % 2)
        assert env.agents["negamax"](seen, env.configuration) in best
        alone += len(best) == 1
    assert alone > 3
    view = "--set", "agent.skip_connection=true"
    for env, more in ((str(EXAMPLES / "connectx.py"), ()), ("kaggle:connectx", ("--begin-with", "double"))):
        name = "it" if more else "double"
        done = call("train", "--env", env, "--run", name, *SMALL, *view, *more, "--quiet")
        assert done.code == 0, done.err


def test_an_encoder_needs_an_environment_of_kaggle() -> None:
    """Of another game it is refused."""
    need_refusal(call("train", "--env", "kuhn", "--encode", "own.py"), 2, "--encode", "kaggle:NAME")
