"""Every command that a message offers works in the state that the message describes.

`STATES` makes each state by the command line or the library, and returns what is said in it: each command of it, and
the next step that this command tells, must end well. Offers that stand in the code as they are can all be given.
"""

from __future__ import annotations

import ast
import json
import re
import shlex
import shutil
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import league
from league import config as config_module
from league.config import SOURCE
from league.errors import SnapshotError
from league.sessions import artifacts
from league.snapshots import state as states
from league.snapshots.kept import states_of
from league.store.store import Store
from league.training.learner import Learner
from tests.helpers.cases import cases
from tests.helpers.commands import call
from tests.helpers.refusals import refusal
from tests.helpers.runs import STAGES, stopping
from tests.helpers.sizes import TINY, as_options
from tests.helpers.stores import keeping_store
from tests.test_imports import modules
from tests.test_pages import read_words

CHEAP = as_options(TINY)
"""Added to an offer that trains from the start."""
STORE = Path("runs")
TRAIN = ("train", "--env", "matrix", "--stage", "smoke", *CHEAP)
LEAGUE = ("train", "--league", "tiny.toml", "--env", "matrix", *CHEAP)
FILLED = {"FILE": "tiny.toml", "AGENT": "bot:random", "A": "done@0", "B": "bot:random", "RUN": "done"}
FILLED |= {"NAME": "import-1"}
"""For the words of an offer that are left to the reader, and for `{run}` and its like."""
ADVISED = (
    *("evaluate A --against B", "tournament A B", "selftest", "snapshots prune --dry-run", "events", "doctor"),
    *("rewards RUN", "tournament --run {run} --bots", "tournament --run {run}"),
)
"""Offers of boards, alarms and the doctor: matches may be missing, or reward terms worth a look."""


def said(*words: object) -> str:
    """What a command says on both streams."""
    called = call(*words)
    return called.err + called.out


def stopped(*words: object) -> str:
    """What a command says that is stopped after its first update."""
    with stopping(1):
        return said(*words)


def patched(*patches: tuple[object, str, Any], words: tuple[object, ...]) -> str:
    """What a command says while some things fail."""
    with pytest.MonkeyPatch.context() as patch:
        for where, name, what in patches:
            patch.setattr(where, name, what)
        return said(*words)


def failing(error: BaseException) -> Callable[..., Any]:
    """What raises it."""

    def fail(*_: object) -> None:
        raise error

    return fail


def away(path: str, do: Callable[[], str]) -> str:
    """What is said while a folder is elsewhere."""
    Path(path).rename("away")
    found = do()
    Path("away").rename(path)
    return found


def empty_store(command: str) -> str:
    keeping_store(Path("other"))
    return said(command, "--store", "other")


def report_of_few_games() -> str:
    call("report", "done", "--out", "r.html")
    [found] = set(re.findall(r"league tournament [^<]*? --format gauntlet", Path("r.html").read_text()))
    return f"`{found}`"


def trainer_says(does: Callable[[league.Trainer], object], *, is_closed: bool) -> str:
    """What a trainer is refused with, while it is open or after."""
    with ExitStack() as stack:
        trainer = stack.enter_context(league.Trainer("smoke", env="matrix", overrides=TINY, store=STORE))
        if is_closed:
            trainer.learn(trainer.collect())
            stack.close()
        return refusal(lambda: does(trainer))


def newer_state() -> str:
    index = Path("runs/stopped/state/state.json")
    index.write_text(json.dumps({**json.loads(index.read_text()), "format": 99}))
    return said("resume", "stopped")


def kept_state_damaged() -> str:
    step, index = min(states_of(Path("runs/done/state")).items())
    (index.parent / json.loads(index.read_text())["data"]).write_bytes(b"other")
    return said("resume", "done", "--at", step)


def imported() -> str:
    Path("games.csv").write_text("seat0,seat1,winner\nx,y,0\ny,x,0\n")
    call("import", "games.csv", "--game-id", "chess", "--run", "import-1")
    return "`league imports list` `league imports remove NAME`"


def no_replay() -> str:
    Path("x.replay").write_text("{}")
    return said("watch", "x.replay", "--out", "x.html")


def replay_to_be_drawn() -> str:
    call("watch", "done@0", "bot:random", "--out", "m.replay")
    return said("replay", "m.replay", "--out", "m.html")


def pruned(run: str, step: int, *words: str) -> str:
    Store.open(STORE).mark_pruned(run, [step])
    return said(*words)


def exploited_agent_gone() -> str:
    call("export", "done", "copy")
    stopped("exploit", "./copy", "--steps", "64", "--games", "2", "--run", "other", "--store", "other")
    return away("copy", lambda: said("resume", "other", "--store", "other"))


def states_lost() -> str:
    found = []
    for run, learner in (("stopped", "stopped"), ("L", "L.main"), ("exploit-1", "exploit-1")):
        shutil.rmtree(Path("runs") / learner / "state")
        found.append(said("resume", run))
    return "\n".join(found)


def league_of_other_learners() -> str:
    Path("other.toml").write_text('turn_steps = 32\n[learners.other]\nrole = "main"\n')
    return said("train", "--league", "other.toml", "--env", "matrix", "--run", "L", *CHEAP)


def twice(does: Callable[..., str], *words: object) -> str:
    """What is said the second time."""
    does(*words)
    return does(*words)


def short_finished() -> str:
    sets = as_options(x for x in TINY if not x.startswith("run.total_steps"))
    call("train", "--env", "matrix", "--stage", "short", "--run", "short-one", *sets)
    return said("resume", "short-one")


def killed_before_its_first_state() -> str:
    with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(states, "write_atomic", failing(KeyboardInterrupt()))
        league.train("smoke", env="matrix", run="k", overrides=TINY, store=STORE)
    return said("train", "--fresh", "--run", "k", "--env", "matrix", "--stage", "smoke", *CHEAP)


FULL = (artifacts, "save_state", failing(SnapshotError("no room")))
NO_MEMORY = ((Learner, "update", failing(MemoryError())), (artifacts, "save_state", failing(MemoryError())))
STATES: dict[str, Callable[[], str]] = {
    "advised": lambda: " ".join(f"`league {words}`" for words in ADVISED),
    "empty store": lambda: empty_store("payoff"),
    "nothing to report": lambda: empty_store("report"),
    "report of few games": report_of_few_games,
    "no store": lambda: said("runs", "--store", "none"),
    "doctor without a store": lambda: said("doctor", "--store", "none"),
    "snapshots listed": lambda: said("snapshots", "list"),
    "run finished": lambda: said(*TRAIN, "--run", "over"),
    "run stopped": lambda: stopped(*TRAIN),
    "league stopped": lambda: stopped(*LEAGUE),
    "exploiter stopped": lambda: stopped("exploit", "done", "--steps", "64", "--games", "2"),
    "trainer closed": lambda: trainer_says(lambda trainer: trainer.collect(), is_closed=True),
    "trainer asked for rows": lambda: trainer_says(lambda trainer: trainer.change("env.rows=8"), is_closed=False),
    "state of another version": lambda: patched(
        (Learner, "load_state_dict", lambda *_: {}["other"]), words=("resume", "stopped")
    ),
    "state of a newer league": newer_state,
    "kept state damaged": kept_state_damaged,
    "imported": imported,
    "no replay": no_replay,
    "replay to be drawn": replay_to_be_drawn,
    "no memory for a first state": lambda: patched(*NO_MEMORY, words=TRAIN),
    "disk full": lambda: patched(FULL, words=("resume", "stopped")),
    "agent pruned": lambda: pruned("done", 32, "evaluate", "done@32", "--against", "bot:random"),
    "run pruned": lambda: pruned("stopped", 0, "resume", "stopped"),
    "snapshots away": lambda: away("runs/stopped/snapshots", lambda: said("resume", "stopped")),
    "exploited agent gone": exploited_agent_gone,
    "states lost": states_lost,
    "exploiter taken for a league": lambda: refusal(
        lambda: league.train(league="tiny.toml", env="matrix", run="exploit-1", store=STORE)
    ),
    "learner taken for a run": lambda: refusal(lambda: league.Trainer.resume("L.main", store=STORE)),
    "league of other learners": league_of_other_learners,
    "league of another seed": lambda: said(*LEAGUE, "--run", "L", "--seed", "5"),
    "league finished": lambda: twice(said, "resume", "L"),
    "longer run there": lambda: twice(stopped, "train", "--env", "matrix", "--stage", "long", *CHEAP),
    "short finished": short_finished,
    "smoke finished": lambda: said("resume", "done"),
    "killed before its first state": killed_before_its_first_state,
    "no such matches": lambda: said("matches", "new.jsonl", "--run", "nobody"),
    "foreign store": lambda: said("import", "league.duckdb"),
}
QUICK = (
    *("exploiter stopped", "killed before its first state", "no memory for a first state", "smoke finished"),
    *("run pruned", "agent pruned", "no store", "foreign store"),
)
"""The others are tried with `-m slow`."""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a finished run, and a run, a league and an exploiter that were stopped; nobody may change it."""
    folder = tmp_path_factory.mktemp("world")
    (folder / "tiny.toml").write_text('turn_steps = 32\n[learners.main]\nrole = "main"\n')
    store = folder / STORE
    league.train("smoke", env="matrix", run="done", overrides=TINY, store=store)
    with stopping(1):
        league.train("smoke", env="matrix", run="stopped", overrides=TINY, store=store)
        league.train(league=folder / "tiny.toml", env="matrix", run="L", overrides=TINY, store=store)
        league.train(against="done", steps=64, games=2, run="exploit-1", store=store)
    return folder


@pytest.mark.parametrize("state", cases(*QUICK, slow=sorted(STATES)))
def test_what_is_offered_works(state: str, world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "hyperparameters.toml"
    source.write_text(SOURCE.read_text(encoding="utf-8") + STAGES, encoding="utf-8")
    monkeypatch.setattr(config_module, "SOURCE", source)
    monkeypatch.chdir(shutil.copytree(world, tmp_path / "world"))
    told = STATES[state]()
    found = offered(told)
    assert found, told
    for words in found:
        done = call(*words)
        assert done.code == 0, (words, done.err)
        for more in offered("\n".join(line for line in done.err.splitlines() if line.startswith("next: "))):
            assert call(*more).code == 0, more
    if state == "short finished":
        assert Store.open(STORE).find_run("short-one").stage == "long", "it was carried on, and no other was begun"


def offered(told: str) -> list[list[str]]:
    """The words of each command in what was said, filled in, and made cheap where they train from the start."""
    found = []
    for line in dict.fromkeys(re.findall(r"`league ([a-z][^`]*)`|^next: league (.*)$", told, re.MULTILINE)):
        words = filled(line[0] or line[1])
        if words[0] == "train" and "--set" not in words:
            words += ["--stage", "smoke", *([] if "--env" in words else ["--env", "matrix"]), *CHEAP]
        if words[:2] == ["exploit", "bot:random"]:
            words += ["--env", "matrix", "--steps", "64", *as_options(x for x in TINY if not x.startswith("run."))]
        found.append(words)
    return found


def filled(text: str) -> list[str]:
    """The words of an offer, with what is left to the reader."""
    text = re.sub(r"\{[\w.]+\}", "done", text).replace("--keep done", "--keep 20")
    text = re.sub(r"--png$", "--png FILE", text)
    return [FILLED.get(word, word) for word in shlex.split(text)]


def test_every_offer_in_the_code_can_be_given() -> None:
    """What stands in backticks in a message is read as the command line reads it, or is the name of a command."""
    found: set[str] = set()
    for tree in modules().values():
        docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        texts = [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in docstrings]
        found |= {offer for node in texts for offer in re.findall(r"`league ([a-z][^`\n]*)`", str(node.value))}
    assert len(found) > 10
    for words in map(filled, sorted(found)):
        if len(words) > 1:
            read_words(["league", *words])
