"""No process of ours imports what lies in the current folder, and a stranger's agent sets nothing but what it plays."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from league import evaluate, export, train
from league.arena.agents import find_agent
from league.envs import registry
from league.runtime.interpreter import python
from league.sessions.targets import layer_of
from league.snapshots import io as snapshot_files
from league.store.store import Store
from tests.helpers.games import SUMS, SUMS_SETS, new_user
from tests.helpers.stores import keeping_store

ROOT = Path(__file__).resolve().parents[1]
LEAGUE = Path(sys.executable).with_name("league")
NAMES = (
    *("league", "json", "duckdb", "torch", "numpy", "sitecustomize", "usercustomize", "socket", "ctypes", "codecs"),
    *("typing", "pathlib", "subprocess", "faulthandler", "pydantic", "safetensors", "decimal", "datetime", "cli"),
)


@pytest.fixture
def trap(tmp_path: Path) -> Path:
    """A folder in which any import of a module of the list leaves a mark."""
    folder = tmp_path / "trap"
    folder.mkdir()
    for name in NAMES:
        (folder / f"{name}.py").write_text(
            f"open({str(tmp_path / 'sprung.txt')!r}, 'a').write({name!r} + '\\n')\nraise SystemExit('sprung')\n"
        )
    return folder


def need_unsprung(trap: Path) -> None:
    mark = trap.parent / "sprung.txt"
    assert not mark.exists(), mark.read_text()


def league(*words: object, cwd: Path, config: Path) -> subprocess.CompletedProcess[str]:
    """The installed command itself, as a shell starts it."""
    environment = {**os.environ, "XDG_CONFIG_HOME": str(config)}
    return subprocess.run([LEAGUE, *map(str, words)], cwd=cwd, env=environment, capture_output=True, text=True)


def test_the_module_runs_nothing_of_the_current_folder(trap: Path, tmp_path: Path) -> None:
    """`python -m league` neither, but for what Python loads before it finds league."""
    for name in ("league", "typing"):
        (trap / f"{name}.py").unlink()
    words = [sys.executable, "-m", "league", "query", "SELECT 1 AS one", "--store", keeping_store(tmp_path / "s").path]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([*map(str, words), "--json"], cwd=trap, env=environment, capture_output=True, text=True)
    assert done.returncode == 0 and '"rows": [[1]]' in done.stdout, done.stderr
    need_unsprung(trap)


def test_a_query_runs_nothing_of_the_current_folder(trap: Path, tmp_path: Path) -> None:
    """`league query` asks in another Python, which finds its modules where this one does."""
    store = keeping_store(tmp_path / "store")
    done = league("query", "SELECT 1 AS one", "--store", store.path, "--json", cwd=trap, config=tmp_path)
    assert done.returncode == 0 and '"rows": [[1]]' in done.stdout, done.stderr
    need_unsprung(trap)


def test_a_worker_runs_nothing_of_the_current_folder(trap: Path, tmp_path: Path) -> None:
    """Worker processes import the game's file and league, and no module of the folder the command was called in."""
    (tmp_path / "game").mkdir()
    (tmp_path / "game" / "sums.py").write_text(SUMS)
    words = [word for setting in (*SUMS_SETS, "env.workers=2") for word in ("--set", setting)]
    done = league(
        *("train", "--stage", "smoke", "--env", tmp_path / "game" / "sums.py", "--store", tmp_path / "s"),
        *(*words, "--quiet", "--json"),
        cwd=trap,
        config=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    need_unsprung(trap)


def test_pictures_obey_nothing_of_the_current_folder(trap: Path, tmp_path: Path) -> None:
    """Matplotlib would read its settings there, and say what is wrong with them."""
    (trap / "matplotlibrc").write_text("\x1b[31m nonsense\nbackend: module://json\n")
    code = (
        "from league.boards.plots import figure; figure(1, 1); import matplotlib; print(matplotlib.matplotlib_fname())"
    )
    environment = {**os.environ, "PYTHONSAFEPATH": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], cwd=trap, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "") and str(trap) not in done.stdout
    need_unsprung(trap)


@pytest.mark.timeout(500)
@pytest.mark.xdist_group("ray")
@pytest.mark.slow
def test_a_worker_of_ray_runs_nothing_of_the_current_folder(trap: Path, tmp_path: Path) -> None:
    """A league and a tournament on a cluster, of a game that is named by a module of the folder or a relative path."""
    pytest.importorskip("ray")
    (tmp_path / "game").mkdir()
    (trap / "only_here.py").write_text(SUMS)
    (tmp_path / "game" / "sums.py").write_text(SUMS)
    roles = "[roles.main]\nmin_steps = 32\nmax_steps = 64\n[learners.main]\nrole = 'main'\n"
    (tmp_path / "one.toml").write_text(f"turn_steps = 64\n{roles}")
    words = [word for setting in SUMS_SETS for word in ("--set", setting)]
    where = ("--on", "local", "--store", tmp_path / "s", "--quiet", "--json", "--device", "cpu")
    given = {"cwd": trap, "config": tmp_path}
    for env, run in (("../game/sums.py", "L"), ("only_here:Sums", "M")):
        league_words = ("train", "--league", "../one.toml", "--env", env, "--run", run)
        done = league(*league_words, *words, *where, **given)  # type: ignore[arg-type]
        assert done.returncode == 0, done.stderr
    done = league("tournament", "--run", "L.main", "--newest", "2", "--games", "2", *where, **given)  # type: ignore[arg-type]
    assert done.returncode == 0, done.stderr
    need_unsprung(trap)


@pytest.mark.parametrize("first", ["", "folder"])
def test_a_folder_that_came_first_comes_last(first: str, trap: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Python that looks in the current folder first, as an interactive one does, starts others that look there last.

    What lies there alone is still found.
    """
    (trap / "only_here.py").write_text("FOUND = 1\n")
    monkeypatch.chdir(trap)
    monkeypatch.setattr(sys, "path", [first and str(trap), *sys.path])
    code = "import json, league, only_here; print(json.dumps([league.__file__, sys.argv[1:]]))"
    done = subprocess.run(python(code, "a", 1), capture_output=True, text=True, check=True)
    assert done.stdout.strip() == f'["{ROOT}/league/__init__.py", ["a", "1"]]'
    need_unsprung(trap)


def stranger(tmp_path: Path) -> tuple[Path, Path]:
    """A store with a run of two workers, and an exported folder of its agent that claims much more."""
    (tmp_path / "sums.py").write_text(SUMS)
    store = tmp_path / "own" / "s"
    trained = train(
        "smoke",
        env=str(tmp_path / "sums.py"),
        overrides=[*SUMS_SETS, "env.workers=2"],
        store=store,
        run="r",
        device="cpu",
    )
    folder = tmp_path / "given"
    manifest = export(trained.run, folder, store=store).model_dump(mode="json")
    manifest["config"]["env"] |= {"workers": 128, "rows": 2**16, "threads": 512}
    manifest["config"]["learner"] |= {"epochs": 64, "device": "cuda", "learning_rate": 0.5}
    manifest["config"]["run"]["total_steps"] = 10**9
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return store, folder


@pytest.mark.slow
def test_a_strangers_agent_sets_only_what_it_plays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Evaluations of a folder start no workers, and its exploiter learns by this user's settings, with its network."""
    with new_user(tmp_path):
        store, folder = stranger(tmp_path)
        made: list[int] = []
        monkeypatch.setattr(registry, "num_cores", lambda: 2)
        make = registry.make
        monkeypatch.setattr(
            registry, "make", lambda *a, workers=0, **k: made.append(workers) or make(*a, workers=workers, **k)
        )
        for agent in ("r", str(folder)):
            evaluate(agent, "bot:random", games=2, store=store, device="cpu")
            assert max(made) == (2 if agent == "r" else 0)
            made.clear()
        manifest, _ = snapshot_files.load(folder)
        mine = layer_of(find_agent(Store.open(store), "r"), manifest)
        assert {"learner", "run", "pool", "rewards"} <= set(mine)
        assert mine["learner"]["epochs"] == 64
        assert set(layer_of(find_agent(None, str(folder)), manifest)) == {"agent", "env"}
        done = train(
            against=str(folder), steps=64, games=2, overrides=[*SUMS_SETS, "run.total_steps=64"], store=tmp_path / "x"
        )
        config = json.loads(Store.open(tmp_path / "x").find_run(done.run).config)
        assert (config["env"]["workers"], config["env"]["rows"], config["learner"]["device"]) == (0, 4, "auto")
