"""Programs as opponents: named, remembered, trained against, resumed, in tournaments and evaluations; other kinds of
files by the shipped runner."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import league
from league.arena import consent, parts
from league.arena.program_parts import locate_program, open_program
from league.envs import registry
from league.envs.matches.mixtures import choices_of
from league.errors import ConfigError, LeagueError
from league.play import programs
from league.runtime import sent
from league.runtime.cluster import absolute, files_of
from league.snapshots.league_agent import LeagueAgent
from league.store.store import Store
from league.testing import check_parts
from tests.helpers.cases import cases
from tests.helpers.games import forget, new_user
from tests.helpers.runs import learned, stopping
from tests.helpers.sizes import TINY
from tests.helpers.stores import keeping_store

CPU = torch.device("cpu")
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
BOT = f"""#!{sys.executable} -I
import json, sys
count, total = {{}}, 0
for line in sys.stdin:
    message = json.loads(line)
    if "start" in message:
        print('{{"ready": 1}}', flush=True)
    if "reset" in message:
        count[message["reset"]] = message["seed"]
    if "act" in message:
        row = message["act"]
        total, count[row] = total + 1, count[row] + 1
        if total == LAST:
            sys.exit("bad luck")
        print(json.dumps({{"act": row, "action": count[row] % 3}}), flush=True)
"""
SETS = (*TINY, "run.total_steps=96", """pool.mix={self_play=0.5, "bot:p"=0.5}""")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A user in a folder with a program, who has named nothing."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv(programs.SECONDS, "20")
    write()
    with new_user(tmp_path):
        yield folder


def write(last: int = -1) -> Path:
    """The program, which ends at its `last` decision."""
    path = Path("bot.py")
    path.write_text(BOT.replace("LAST", str(last)))
    path.chmod(0o755)
    return path


def train(run: str, **given: Any) -> Any:
    return league.train("smoke", env="matrix", run=run, overrides=SETS, **{"bots": "p=program:./bot.py", **given})


def events(run: str) -> dict[str, str]:
    return {event.kind: event.message for event in Store.open("runs").events(run)}


def test_a_run_with_a_program_goes_on_as_if_it_had_not_stopped(here: Path) -> None:
    """What the program knew of its matches it knows again; the run says that no bits are promised."""
    train("whole")
    forget()
    with stopping(1):
        train("r")
    assert learned(Path("runs"), "r") != learned(Path("runs"), "whole")
    forget()
    assert league.resume("r").status == "finished"
    assert learned(Path("runs"), "r") == learned(Path("runs"), "whole")
    assert "outside of the bit-for-bit promise" in events("whole")["programs"]
    store = Store.open("runs")
    assert {"bot:p"} <= {a for kind in ("training", "evaluation") for x in store.matches("r", kind) for a in x.agents}
    assert not {"forfeit", "replay"} & events("r").keys()
    [entry] = consent.named("bot")
    assert entry.address == f"program:{here / 'bot.py'}" and not consent.named()
    forget()
    assert league.evaluate("r", "bot:p", games=2).b == "bot:p"
    never, changed = "was never named here by you; its code runs only if you do", "has changed since you named it"
    with new_user(here / "other"), pytest.raises(LeagueError, match=never):
        league.evaluate("r", "bot:p", games=2)
    forget()
    write(7)
    with pytest.raises(LeagueError, match=changed):
        league.evaluate("r", "bot:p", games=2)


def test_training_goes_on_where_a_program_forfeits() -> None:
    write(20)
    assert train("r").status == "finished"
    rows = Store.open("runs").matches("r", "training")
    lost = [row for row in rows if row.end_reason == "forfeit"]
    assert lost and all(row.agents[row.winner] == "r" for row in lost)
    assert len(lost) < len([row for row in rows if "bot:p" in row.agents])
    assert events("r")["forfeit"].startswith("bot:p forfeited 1 match: exit code 1; it last said: bad luck")


def test_a_program_that_fails_at_once_is_refused_before_a_run_begins() -> None:
    write(1)
    with pytest.raises(ConfigError, match=r"bot=p: before anything was played, .* forfeited .*bad luck.*programs.md"):
        train("r")
    assert not Path("runs/r").exists()


def test_a_tournament_of_programs_and_classes() -> None:
    write(30)
    Path("mine.py").write_text(
        "class Last:\n    def reset(self):\n        self.n = 0\n\n    def act(self, obs, mask, info):\n"
        "        self.n += 1\n        return info['legal'][-1]\n"
    )
    said: list[str] = []
    keeping_store(Path("runs"))
    bots = ["p=program:./bot.py", "mine.py:Last"]
    result = league.tournament(own_bots=bots, bots=True, env="matrix", games=4, say=said.append)
    standings = {x.name: x for x in result.standings}
    assert {"bot:p", "bot:Last", "bot:random"} <= standings.keys()
    assert any(line.startswith("bot:p forfeited") for line in said)
    reasons = [x.end_reason for x in Store.open("runs").matches(result.tournament, "evaluation")]
    assert 0 < reasons.count("forfeit") < len(reasons)
    assert check_parts("matrix", bots=bots[1:]) == ("bot Last",)
    league.watch("bot:Last", "bot:p", env="matrix", out="x.replay")
    assert Path("x.replay").exists()


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("program:./none", "there is no file ./none"),
        ("program:bot.py", r"write ./bot.py"),
        ("program:nodde bot.js", "no program 'nodde' is on PATH; install it"),
        ("program:./plain.txt", r"is not executable; chmod \+x ./plain.txt"),
        ("program:", "names nothing behind the colon"),
        ("program:'a", "no closing quotation"),
        ("kaggle:a b", "names several files"),
        ("sb3:none.zip", "there is no none.zip; give a model of stable-baselines3"),
        ("export:bot.py", "there is no bot.py; give a folder"),
    ],
)
def test_what_cannot_be_a_program_is_one_line(address: str, words: str) -> None:
    Path("plain.txt").write_text("x")
    with pytest.raises(ConfigError, match=rf"bot=.*{words}"):
        parts.enter(f"x={address}")
    assert not consent.named("bot")


def test_the_hash_is_of_the_files_that_a_program_names() -> None:
    """Those of an interpreter's words, not the interpreter; of a folder all; the address holds in any folder."""
    Path("folder").mkdir()
    Path("folder/a").write_text("1")

    def found(text: str) -> Any:
        return locate_program(text, parts.KINDS["bot"])

    before = found(f"program:{sys.executable} bot.py --level 3"), found("program:env bot.py"), found("export:folder")
    assert before[1].source.address == f"program:env {Path('bot.py').absolute()}"
    assert open_program(before[1]).command == ("env", str(Path("bot.py").absolute()))
    write(5)
    Path("folder/a").write_text("2")
    after = found(f"program:{sys.executable} bot.py --level 3"), found("program:env bot.py"), found("export:folder")
    assert all(a.source.sha256 != b.source.sha256 for a, b in zip(before, after, strict=True))
    assert len(found("program:env").source.sha256) == 64


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_the_example_in_c_plays() -> None:
    subprocess.run(["cc", "-O2", "-Wall", "-Werror", "-o", "c", EXAMPLES / "bot.c"], check=True)
    game = str(EXAMPLES / "tictactoe.py")
    result = league.evaluate("bot:c", "bot:hasty", games=20, env=game, bots="program:./c")
    assert result.summary.end_reasons.keys() == {"three", "full"} or "forfeit" not in result.summary.end_reasons


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
def test_the_example_in_javascript_plays() -> None:
    result = league.evaluate("bot:js", "bot:nash", games=20, env="kuhn", bots=f"js=program:node {EXAMPLES / 'bot.js'}")
    assert result.summary.end_reasons == {"deals": 20}


@pytest.mark.slow
def test_a_main_py_of_kaggle_plays() -> None:
    """The last function decides; globals are a match's own, and chance follows from its seed."""
    Path("main.py").write_text(
        "import random\n\nplayed = 0\n\n\ndef helper(x):\n    return x\n\n\ndef agent(observation, configuration):\n"
        "    global played\n    assert observation.step == played and configuration.game == 'matrix'\n"
        "    played += 1\n    print('noise')\n"
        "    return helper(random.choice([i for i, x in enumerate(observation['mask']) if x]))\n"
    )
    results = [
        league.evaluate("bot:kaggle", "bot:random", games=20, env="matrix", bots="kaggle:main.py") for _ in range(2)
    ]
    assert "forfeit" not in results[0].summary.end_reasons and results[0].summary == results[1].summary
    Path("main.py").write_text("agent = 3\n")
    with pytest.raises(ConfigError, match="defines no function; end it with agent"):
        league.evaluate("bot:kaggle", "bot:random", games=2, env="matrix", bots="kaggle:main.py")


@pytest.mark.parametrize("algorithm", cases("PPO", slow=["DQN"]))
@pytest.mark.slow
def test_a_model_of_stable_baselines3_plays_as_it_predicts(algorithm: str) -> None:
    sb3 = pytest.importorskip("stable_baselines3", reason="needs the extra `sb3`")
    gymnasium = pytest.importorskip("gymnasium")
    spec = registry.spec("matrix", {})

    class Space(gymnasium.Env):  # type: ignore[misc]
        observation_space = gymnasium.spaces.Box(-1, 1, (spec.obs_size,))
        action_space = gymnasium.spaces.Discrete(3)

    model = getattr(sb3, algorithm)("MlpPolicy", Space(), seed=1)
    model.save("model.zip")
    bot = programs.make_bot(
        "m", open_program(locate_program("sb3:model.zip", parts.KINDS["bot"])), spec, choices_of(spec.action), CPU
    )
    obs = np.random.default_rng(0).random((20, spec.obs_size), np.float32)
    played = bot.step(torch.from_numpy(obs), bot.initial_state(20))[0][:, 0].tolist()
    assert played == [int(model.predict(x, deterministic=True)[0]) for x in obs] and not bot.take_notes()
    with pytest.raises(ConfigError, match=r"observes \(8,\), and kuhn shows 34 numbers"):
        league.evaluate("bot:model", "bot:random", games=2, env="kuhn", bots="sb3:model.zip")


@pytest.mark.parametrize("kind", cases("submission", slow=["onnx"]))
def test_an_export_plays_as_its_agent(kind: Any) -> None:
    """Of an encoder that reads what it sees while it waits, too."""
    if kind == "onnx":
        for package in ("onnx", "onnxscript", "onnxruntime"):
            pytest.importorskip(package, reason="needs the extra `onnx`")
    sets = (*TINY, *(["agent.opponent_encoder=false"] if kind == "submission" else []))
    league.train("smoke", env="kuhn", run="r", overrides=sets)
    league.export("r", "out", format=kind)
    spec = registry.spec("kuhn", {})
    bot: Any = programs.make_bot(
        "e", open_program(locate_program("export:out", parts.KINDS["bot"])), spec, choices_of(spec.action), CPU
    )
    state, rng = bot.initial_state(1), np.random.default_rng(0)
    agent: Any = None
    for step in range(6):
        obs = rng.random(spec.obs_size, np.float32)
        if step % 3 == 2:
            bot.watch(torch.from_numpy(obs)[None], state)
            agent.watch(obs)
            continue
        mask = np.array([False, True, True, True])
        played = bot.step(torch.from_numpy(obs)[None], state, mask=torch.from_numpy(mask)[None])[0][0].tolist()
        agent = agent or LeagueAgent("out", seed=state.rows[0].seed)
        assert played == agent.act(obs, mask).tolist()
    assert not bot.take_notes()
    assert league.evaluate("bot:out", "r", games=4, bots="export:out").summary.games == 4
    manifest = json.loads(Path("out/manifest.json").read_text())
    assert manifest["game"]["name"] == "kuhn"
    with pytest.raises(ConfigError, match="plays kuhn, not matrix"):
        league.evaluate("bot:out", "bot:random", games=2, env="matrix", bots="export:out")


def test_a_program_plays_on_a_machine_that_it_was_sent_to(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same matches; the run names it where it was. Each other word stays what it is."""
    assert absolute([None, "program:env x=1"]) == [None, "program:env x=1"]
    bots = absolute("p=program:./bot.py")
    files = files_of(bots)
    assert bots == f"p=program:{here}/bot.py" and [*files] == [f"{here}/bot.py"]
    assert [*files_of(absolute("sb3:bot.py"))] == [f"{here}/bot.py"]
    train("first")
    Path("bot.py").unlink()
    forget()
    monkeypatch.setenv(sent.FOLDER, "")
    folder = sent.unpacked(files)
    assert folder is not None
    with folder:
        assert train("second", bots=bots).status == "finished"
    assert learned(Path("runs"), "first") == learned(Path("runs"), "second")
    told = [path.read_text() for path in Path("runs/second").glob("*.json")]
    assert any(f"program:{here}/bot.py" in text for text in told) and folder.name not in "".join(told)
