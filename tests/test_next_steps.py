"""Every message that offers a command offers one that works in the state that it describes.

The commands are collected from the source: those in backticks, and what `command` and `next_step` are called with. Each
stands in `OFFERS` with the state that its message is about, which the function of that name makes. One that is not
there fails.
"""

from __future__ import annotations

import ast
import json
import re
import shlex
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import league
from league import config as config_module
from league.config import SOURCE
from league.errors import ConfigError, LeagueError, SnapshotError, UsageError
from league.sessions import artifacts as artifacts_module
from league.snapshots import state as states
from league.snapshots.kept import states_of
from league.store.store import Store
from league.training.learner import Learner
from tests.helpers.cases import cases
from tests.helpers.runs import STAGES, stopping
from tests.helpers.sizes import TINY, as_options
from tests.helpers.stores import keeping_store
from tests.test_cli import Call, call

__all__ = ["call"]
ROOT = Path(__file__).resolve().parent.parent
CHEAP = as_options(TINY)
"""Added to an offer that trains from the start."""
STORE = Path("runs")
FILLED = {
    "FILE": "tiny.toml",
    "AGENT": "bot:random",
    "A": "done@0",
    "B": "bot:random",
    "RUN": "done",
    "NAME": "import-1",
}
"""For the words of an offer that are left to the reader, and for `{run}` and its like."""
OFFERS = {
    "printing/standings:print_leaderboard `league evaluate A --against B`": "advised",
    "printing/standings:print_leaderboard `league tournament A B`": "advised",
    "printing/standings:print_matchup `league evaluate A --against B`": "advised",
    "commands/compare:payoff `league evaluate A --against B`": "advised",
    "commands/compare:payoff `league train`": "empty_store",
    "commands/manage:matches `league import`": "no_offer",  # a help text
    "commands/manage:snapshots_list `league snapshots prune --keep {DEFAULT_KEEP}`": "snapshots_listed",
    "commands/doctor:_compiled `league selftest`": "advised",
    "commands/doctor:_disk `league snapshots prune --dry-run`": "advised",
    "commands/doctor:_runs `league events`": "advised",
    "commands/doctor:_store `league train`": "doctor_without_a_store",
    "commands/diagnose:selftest `league doctor`": "advised",
    "printing/answers:endings next_step('resume', result.run, store=store)": "exploiter_stopped",
    "printing/answers:endings next_step(*words, result.run, store=store)": "run_stopped",
    "printing/answers:endings next_step(*words, store=store)": "league_stopped",
    "commands/manage:imports_remove `league imports list`": "no_offer",  # a help text
    "training/guards:judge_evaluation `league rewards RUN`": "advised",
    "training/guards:_value_loss `league rewards RUN`": "advised",
    "training/guards:_flat_return `league rewards RUN`": "advised",
    "training/saving:restore command('train', '--fresh', '--env', env, store=run.store.path)": (
        "state_of_another_version"
    ),
    "training/saving:resume_command command('resume', run.name, *more, store=run.store.path)": (
        "no_memory_for_a_first_state"
    ),
    "maths/davidson:_mesh `league imports list`": "imported",
    "maths/davidson:_mesh `league imports remove NAME`": "imported",
    "maths/joint:matrix `league imports list`": "imported",
    "maths/ratings:_places `league evaluate A --against B`": "advised",
    "arena/agents:find_agent command('snapshots', 'list', '--run', row.run, store=store.path)": "agent_pruned",
    "sessions/targets:find_target command(*words, store=store.path)": "exploited_agent_gone",
    "sessions/folders:instead command(*words, store=store.path)": "states_lost",
    "sessions/trainer:_acting command('resume', self.run, store=self._artifacts.store.path)": "trainer_closed",
    "sessions/custom_loop:change command('resume', run, '--set', text, store=self._artifacts.store.path)": (
        "trainer_asked_for_rows"
    ),
    "sessions/leagues:_need_same command('resume', name, store=store.path)": "league_of_other_learners",
    "sessions/leagues:_need_same_settings command('resume', league, store=store.path)": "league_of_another_seed",
    "sessions/leagues:_another command('train', '--league', 'FILE', '--env', plan.row.env, store=store.path)": (
        "league_finished"
    ),
    "sessions/continuation:find_earlier command('resume', longer[-1].run, store=store.path)": "longer_run_there",
    "sessions/failures:write_evidence command('replay', path)": "no_offer",  # tests/sessions/test_failures.py runs it
    "sessions/rewinding:rewound `league runs`": "kept_state_damaged",
    "sessions/artifacts:load_policy command('resume', self.row.run, store=self.store.path)": "snapshots_away",
    "sessions/artifacts:save_state command('resume', self.row.run, store=self.store.path)": "disk_full",
    "sessions/trainer:_need_alone command('resume', run, store=store.path)": "learner_taken_for_a_run",
    "sessions/runs:session_of command('train', '--fresh', '--env', plan.row.env, store=store.path)": "run_pruned",
    "store/locks:alone command('resume', run, '--take-over', store=folder.parent)": "no_offer",  # test_faults.py
    "sessions/folders:_taken command('resume', name, store=store.path)": "killed_before_its_first_state",
    "sessions/runs:longer command('resume', row.run, '--steps', 2 * row.steps, store=store)": "smoke_finished",
    "sessions/runs:longer command(*words, store=store)": "short_finished",
    "boards/standings:_boards `league evaluate A --against B`": "advised",
    "boards/standings:_notes `league evaluate A --against B`": "advised",
    "boards/alarms:_forgetting `league tournament --run {run} --bots`": "advised",
    "boards/alarms:_cycling `league tournament --run {run}`": "advised",
    "boards/alarms:_seats `league evaluate A --against B`": "advised",
    "boards/headtohead:matchup `league evaluate A --against B`": "advised",
    "store/store:remove_import `league imports list`": "imported",
    "snapshots/state:_read `league train --fresh`": "state_of_a_newer_league",
    "store/exchange:export_matches `league query 'SELECT DISTINCT run FROM match'`": "no_such_matches",
    "store/store:open `league train`": "no_store",
    "printing/answers:_offered next_step('report', name, '--out', f'{name}.html', store=store)": "run_finished",
    "faces/report:_check command('train', store=store)": "nothing_to_report",
    "arena/replays:parse `league watch A B --out FILE.replay`": "no_replay",
    "sessions/failures:replay command('watch', path, '--out', out)": "replay_to_be_drawn",
    "printing/answers:print_ended `league imports remove {e.run}`": "no_offer",  # test_human.py takes it back
    "arena/equilibrium:nashconv `league exploit`": "no_offer",  # names the command, whose agent is left to the reader
    "faces/headline:_evidence command('tournament', best.name, '--bots', '--format', 'gauntlet', store=store)": (
        "report_of_few_games"
    ),
    "store/formats:format_of `league matches FILE.jsonl`": "foreign_store",
}
QUICK = (
    *("exploiter_stopped", "killed_before_its_first_state", "no_memory_for_a_first_state", "smoke_finished"),
    *("run_pruned", "agent_pruned", "no_store", "foreign_store"),
)
"""The others are tried with `-m slow`."""


def offers() -> dict[str, str]:
    """`MODULE:FUNCTION OFFER` -> the offer, of every one in the source."""
    found = {}
    paths = [*(ROOT / "league").rglob("*.py"), *(ROOT / "snapshots").rglob("*.py")]
    for path in paths:
        module = str(path.relative_to(ROOT).with_suffix("")).removeprefix("league/")
        tree = ast.parse(path.read_text())
        for name, node in functions(tree):
            for offer in offered(node):
                found[f"{module}:{name} {offer}"] = offer
    return found


def functions(tree: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """The outermost functions of a module and its classes, by name."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef):
            yield from functions(node)
        elif isinstance(node, ast.FunctionDef):
            yield node.name, node


def offered(function: ast.AST) -> Iterator[str]:
    """The commands in a function's strings, docstrings aside, and its calls of what makes them."""
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(function)
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and isinstance(node.body[0], ast.Expr)
    }
    parts = {id(part) for node in ast.walk(function) if isinstance(node, ast.JoinedStr) for part in ast.walk(node)}
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("command", "next_step"):
            yield ast.unparse(node)
        if isinstance(node, ast.JoinedStr):
            pieces = (v.value if isinstance(v, ast.Constant) else f"{{{ast.unparse(v.value)}}}" for v in node.values)
            yield from re.findall(r"`league [a-z][^`]*`", "".join(map(str, pieces)))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings | parts:
            yield from re.findall(r"`league [a-z][^`]*`", node.value)


def test_every_offer_is_in_the_table() -> None:
    """A message that offers a command is tried below, or says here why not."""
    assert set(offers()) == set(OFFERS)


# The states: each makes one of a copy of `world`, which is the working folder, and returns what is said in it.


def advised(call: Call) -> str:
    """Matches may be missing, or reward terms worth a look: all that is named is there."""
    return "\n".join(offer for key, offer in offers().items() if OFFERS.get(key) == "advised")


def empty_store(call: Call) -> str:
    keeping_store(Path("other"))
    return call("payoff", "--store", "other").err


def nothing_to_report(call: Call) -> str:
    keeping_store(Path("other"))
    return call("report", "--store", "other").err


def report_of_few_games(call: Call) -> str:
    call("report", "done", "--out", "r.html")
    [found] = set(re.findall(r"league tournament [^<]*? --format gauntlet", Path("r.html").read_text()))
    return f"`{found}`"


def no_store(call: Call) -> str:
    return call("runs", "--store", "none").err


def doctor_without_a_store(call: Call) -> str:
    return call("doctor", "--store", "none").out


def snapshots_listed(call: Call) -> str:
    return call("snapshots", "list").out


def run_finished(call: Call) -> str:
    return call("train", "--env", "matrix", "--stage", "smoke", "--run", "over", *CHEAP).err


def run_stopped(call: Call) -> str:
    with stopping(1):
        return call("train", "--env", "matrix", "--stage", "smoke", *CHEAP).err


def trainer_closed(call: Call) -> str:
    with league.Trainer("smoke", env="matrix", overrides=TINY, store=STORE) as trainer:
        trainer.learn(trainer.collect())
    with pytest.raises(UsageError) as told:
        trainer.collect()
    return str(told.value)


def trainer_asked_for_rows(call: Call) -> str:
    with (
        league.Trainer("smoke", env="matrix", overrides=TINY, store=STORE) as trainer,
        pytest.raises(ConfigError) as told,
    ):
        trainer.change("env.rows=8")
    return str(told.value)


def league_stopped(call: Call) -> str:
    with stopping(1):
        return call("train", "--league", "tiny.toml", "--env", "matrix", *CHEAP).err


def exploiter_stopped(call: Call) -> str:
    with stopping(1):
        return call("exploit", "done", "--steps", "64", "--games", "2").err


def state_of_another_version(call: Call) -> str:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Learner, "load_state_dict", lambda *_: {}["other"])
        return call("resume", "stopped").err


def state_of_a_newer_league(call: Call) -> str:
    index = Path("runs/stopped/state/state.json")
    index.write_text(json.dumps({**json.loads(index.read_text()), "format": 99}))
    return call("resume", "stopped").err


def kept_state_damaged(call: Call) -> str:
    step, index = min(states_of(Path("runs/done/state")).items())
    (index.parent / json.loads(index.read_text())["data"]).write_bytes(b"other")
    return call("resume", "done", "--at", str(step)).err


def imported(call: Call) -> str:
    Path("games.csv").write_text("seat0,seat1,winner\nx,y,0\ny,x,0\n")
    call("import", "games.csv", "--game-id", "chess", "--run", "import-1")
    return "`league imports list` `league imports remove NAME`"


def no_replay(call: Call) -> str:
    Path("x.replay").write_text("{}")
    return call("watch", "x.replay", "--out", "x.html").err


def replay_to_be_drawn(call: Call) -> str:
    call("watch", "done@0", "bot:random", "--out", "m.replay")
    return call("replay", "m.replay", "--out", "m.html").err


def no_memory_for_a_first_state(call: Call) -> str:
    def no_memory(*_: object) -> None:
        raise MemoryError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Learner, "update", no_memory)
        patch.setattr(artifacts_module, "save_state", no_memory)
        return call("train", "--env", "matrix", "--stage", "smoke", *CHEAP).err


def agent_pruned(call: Call) -> str:
    Store.open(STORE).mark_pruned("done", [32])
    return call("evaluate", "done@32", "--against", "bot:random").err


def exploited_agent_gone(call: Call) -> str:
    call("export", "done", "copy")
    with stopping(1):
        call("exploit", "./copy", "--steps", "64", "--games", "2", "--run", "other", "--store", "other")
    Path("copy").rename("away")
    said = call("resume", "other", "--store", "other").err
    Path("away").rename("copy")
    return said


def states_lost(call: Call) -> str:
    said = []
    for run, learner in (("stopped", "stopped"), ("L", "L.main"), ("exploit-1", "exploit-1")):
        shutil.rmtree(Path("runs") / learner / "state")
        said.append(call("resume", run).err)
    return "\n".join(said)


def exploiter_taken_for_a_league(call: Call) -> str:
    return refusal(lambda: league.train(league="tiny.toml", env="matrix", run="exploit-1", store=STORE))


def learner_taken_for_a_run(call: Call) -> str:
    return refusal(lambda: league.Trainer.resume("L.main", store=STORE))


def league_of_other_learners(call: Call) -> str:
    Path("other.toml").write_text('turn_steps = 32\n[learners.other]\nrole = "main"\n')
    return call("train", "--league", "other.toml", "--env", "matrix", "--run", "L", *CHEAP).err


def league_of_another_seed(call: Call) -> str:
    return call("train", "--league", "tiny.toml", "--env", "matrix", "--run", "L", "--seed", "5", *CHEAP).err


def league_finished(call: Call) -> str:
    call("resume", "L")
    return call("resume", "L").err


def longer_run_there(call: Call) -> str:
    words = ["train", "--env", "matrix", "--stage", "long", *CHEAP]
    with stopping(1):
        call(*words)
        return call(*words).err


def short_finished(call: Call) -> str:
    sets = as_options(x for x in TINY if not x.startswith("run.total_steps"))
    call("train", "--env", "matrix", "--stage", "short", "--run", "short-one", *sets)
    return call("resume", "short-one").err


def smoke_finished(call: Call) -> str:
    return call("resume", "done").err


def snapshots_away(call: Call) -> str:
    snapshots = Path("runs/stopped/snapshots")
    snapshots.rename("away")
    said = call("resume", "stopped").err
    Path("away").rename(snapshots)
    return said


def disk_full(call: Call) -> str:
    def refuse(*_: object) -> None:
        raise SnapshotError("no room")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(artifacts_module, "save_state", refuse)
        return call("resume", "stopped").err


def run_pruned(call: Call) -> str:
    Store.open(STORE).mark_pruned("stopped", [0])
    return call("resume", "stopped").err


def killed_before_its_first_state(call: Call) -> str:
    def die(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(states, "write_atomic", die)
        league.train("smoke", env="matrix", run="k", overrides=TINY, store=STORE)
    return call("train", "--fresh", "--run", "k", "--env", "matrix", "--stage", "smoke", *CHEAP).err


def no_such_matches(call: Call) -> str:
    return call("matches", "new.jsonl", "--run", "nobody").err


def foreign_store(call: Call) -> str:
    return call("import", "league.duckdb").err


# Trying


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


@pytest.mark.parametrize("state", cases(*QUICK, slow=sorted({*OFFERS.values()} - {"no_offer", *QUICK})))
def test_what_is_offered_works(
    state: str, world: Path, tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each command of the message, in the state that it describes, ends well; so does the next step that it tells."""
    source = tmp_path / "hyperparameters.toml"
    source.write_text(SOURCE.read_text(encoding="utf-8") + STAGES, encoding="utf-8")
    monkeypatch.setattr(config_module, "SOURCE", source)
    monkeypatch.chdir(shutil.copytree(world, tmp_path / "world"))
    said = globals()[state](call)
    found = commands(said)
    assert found, said
    for words in found:
        done = call(*words)
        assert done.code == 0, (words, done.err)
        for more in commands("\n".join(line for line in done.err.splitlines() if line.startswith("next: "))):
            assert call(*more).code == 0, more
    if state == "short_finished":
        assert Store.open(STORE).find_run("short-one").stage == "long", "it was carried on, and no other was begun"


def commands(said: str) -> list[list[str]]:
    """The words of each command in what was said, filled in, and made cheap where they train from the start."""
    found = []
    for line in dict.fromkeys(re.findall(r"`league ([a-z][^`]*)`|^next: league (.*)$", said, re.MULTILINE)):
        text = re.sub(r"\{\w+\}", "done", line[0] or line[1]).replace("--keep done", "--keep 20")
        words = [FILLED.get(word, word) for word in shlex.split(text)]
        if words[0] == "train" and "--set" not in words:
            words += ["--stage", "smoke", *([] if "--env" in words else ["--env", "matrix"]), *CHEAP]
        if words[:2] == ["exploit", "bot:random"]:
            words += ["--env", "matrix", "--steps", "64", *as_options(x for x in TINY if not x.startswith("run."))]
        found.append(words)
    return found


def refusal(act: Callable[[], object]) -> str:
    """What the library says where it refuses."""
    with pytest.raises(LeagueError) as caught:
        act()
    return str(caught.value)
