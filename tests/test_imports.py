"""The house's rules: imports run one way, starting is light, nothing unpickles, a wheel has one top level."""

import ast
import os
import re
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

import league
from league import config
from league.envs import registry
from league.types import BOT_PREFIX

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = {"envs", "policies", "snapshots"}
GROUND = {"errors", "runtime", "types", "config"}
ROOMS = {
    "maths": set(),
    "store": {"maths"},
    "play": {"maths"},
    "boards": {"maths", "store"},
    "pool": {"maths", "play"},
    "training": {"maths", "store", "play", "pool"},
    "arena": {"maths", "store", "play", "boards", "pool", *FOLDERS},
    "faces": {"maths", "store", "play", "boards", "pool", "training", "arena", "printing", *FOLDERS},
    "sessions": {"maths", "store", "play", "boards", "pool", "training", "arena", *FOLDERS},
    "envs": {"envs"},
    "policies": {"policies"},
    "snapshots": {"snapshots", "policies"},
}
"""What each room may import beside itself and the ground; games, networks and snapshots: errors,
runtime, types."""


@cache
def modules() -> dict[str, ast.Module]:
    """Module name -> syntax tree, of everything that is installed."""
    paths = {}
    for folder in ("league", *FOLDERS):
        prefix = "" if folder == "league" else "league."
        for path in (ROOT / folder).rglob("*.py"):
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            paths[path] = prefix + name
    paths[ROOT / "cli.py"] = "league.cli"
    return {name: ast.parse(path.read_text()) for path, name in paths.items()}


@cache
def imported(tree: ast.Module) -> set[str]:
    """The modules of ours that a module imports anywhere but under `if TYPE_CHECKING`."""
    found: set[str] = set()
    typing_only = [n for n in ast.walk(tree) if isinstance(n, ast.If) and "TYPE_CHECKING" in ast.dump(n.test)]
    skipped = {id(child) for node in typing_only for child in ast.walk(node)}
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return {name for name in found if name.split(".")[0] in {"league", *FOLDERS}}


def test_imports_run_one_way() -> None:
    """Each room imports only what lies below it; games, networks and snapshots know nothing of the engine."""
    trees = modules()
    known = {name.split(".")[1] for name in trees}
    for name, tree in trees.items():
        room = name.split(".")[1]
        if room in ROOMS:
            ground = {"errors", "runtime", "types"} if room in FOLDERS else GROUND
            used = {target.split(".")[1] for target in imported(tree) if target.count(".")} & known
            assert used <= {room, *ground, *ROOMS[room]}, f"{name} imports {used}"


def test_no_two_modules_import_each_other() -> None:
    """Imports make no circle, within a room neither."""
    trees = modules()
    known = {name.removesuffix(".__init__") for name in trees}
    uses = {name.removesuffix(".__init__"): imported(tree) & known - {"league"} for name, tree in trees.items()}
    uses = {name: targets - {name} for name, targets in uses.items()}
    while leaves := {name for name, targets in uses.items() if not targets & uses.keys()}:
        uses = {name: targets for name, targets in uses.items() if name not in leaves}
    assert not uses, f"these import each other: {sorted(uses)}"


def test_a_class_name_is_used_once() -> None:
    """But for `Options`, which each game's module has."""
    names = [node.name for tree in modules().values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    assert {name for name, count in Counter(names).items() if count > 1} <= {"Options"}


def test_the_hall_is_small() -> None:
    """`ls league` shows at most 22 entries, and each room says in its `__init__.py` where to begin."""
    entries = [path for path in (ROOT / "league").iterdir() if path.name != "__pycache__"]
    assert len(entries) <= 22, sorted(path.name for path in entries)
    for room in ROOMS.keys() - FOLDERS:
        text = ast.get_docstring(ast.parse((ROOT / "league" / room / "__init__.py").read_text())) or ""
        [begin] = re.findall(r"Begin with `(\w+\.py)`", text)
        assert (ROOT / "league" / room / begin).is_file(), room
        assert not hasattr(league, room) or not callable(getattr(league, room)), f"{room} shadows a function"


def test_only_the_store_imports_duckdb() -> None:
    """It stays in two modules of league/store; that nothing unpickles is tests/boundary's."""
    for name, tree in modules().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Import | ast.ImportFrom):
                names = [node.module or ""] if isinstance(node, ast.ImportFrom) else [a.name for a in node.names]
                is_store = name in ("league.store.view", "league.store.segments")
                assert is_store or "duckdb" not in {each.split(".")[0] for each in names}, name


STARTS = [
    ("import league", "torch duckdb numpy"),
    ("from league.cli import app; app(['--help'], standalone_mode=False)", "torch duckdb numpy"),
    ("from league.cli import app; app(['train', '--help'], standalone_mode=False)", "torch duckdb"),
    ("import league.config", "torch duckdb league.envs"),
]


@pytest.mark.parametrize(("code", "heavy"), STARTS)
def test_starting_is_light(code: str, heavy: str) -> None:
    """The library, its help and its settings load neither torch nor duckdb."""
    check = f"import sys\n{code}\nheavy = {set(heavy.split())!r} & set(sys.modules)\nassert not heavy, heavy"
    done = subprocess.run([sys.executable, "-c", check], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


LIGHT = """
import sys
from league.cli import app
from league.store.folder import Folder
from league.store.owner import Configured
from league.store.store import Store
from league.types import MatchResult
store = Store.create("s")
identity = store.identity("run", "a", game="g", game_id="g")
Folder(store.path / "a", print).begin(identity, Configured(stage="s", config={}, fingerprint="f", device="cpu"))
with store.evaluations() as rows:
    rows.add_matches([MatchResult("e", "evaluation", 0, 0, 0, "g", ("bot:a", "bot:b"), 1, 0, "time", 1, 1, "sample")])
assert "scipy" not in sys.modules, "half of the time in which the store is loaded"
for line in sys.argv[1:]:
    app([*line.split(), "--store", "s"], standalone_mode=False)
    heavy = [name for name in sys.modules if name == "torch" or name.startswith("league.envs")]
    assert not heavy, (line, heavy)
"""


def test_commands_on_the_store_do_without_torch(tmp_path: Path) -> None:
    """Asking the store takes a fraction of a second, since torch, which takes over one, is not loaded."""
    lines = [
        *("leaderboard", "payoff", "runs", "rewards a", "events", "query VALUES(1)", "matchup bot:a bot:b"),
        *("matches m.csv", "alarms", "alarms a", "imports list", "snapshots list", "snapshots prune"),
        "report a --out r.html",
    ]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", LIGHT, *lines], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("folder", sorted({*FOLDERS, "cli"}))
def test_folders_refuse_their_bare_name(folder: str) -> None:
    """`import envs` at the root is refused: every class would exist twice."""
    done = subprocess.run([sys.executable, "-c", f"import {folder}"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 1 and f"import league.{folder}, not {folder}" in done.stderr


def test_every_package_is_installed() -> None:
    """Each folder with Python in it is listed in pyproject.toml, so that a wheel has it."""
    text = (ROOT / "pyproject.toml").read_text()
    for folder in ("league", *FOLDERS):
        for init in (ROOT / folder).rglob("__init__.py"):
            package = ".".join(init.parent.relative_to(ROOT).parts)
            name = package if folder == "league" else f"league.{package}"
            assert f'"{name}"' in text, f"{name} is missing from [tool.setuptools] packages"


def test_the_engine_names_no_part_of_a_game() -> None:
    """No string of the engine names a game, a bot of it, a metric or a reward term; queries neither."""
    specs = [registry.spec(name, config.load(env=name).env.options) for name in registry.games()]
    words = {BOT_PREFIX + bot for spec in specs for bot in spec.bots} | {"brawl", "kuhn", "leduc"}  # matrix is a word
    words |= {name for spec in specs for name in (*spec.metrics, *spec.reward_terms) if "_" in name}
    found = {}
    for path in (path for path in (ROOT / "league").rglob("*.py") if path.parent.name != "commands"):
        tree = ast.parse(path.read_text())
        shown = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in shown:
                found[node.value] = path.name
    for path in (ROOT / "league").rglob("*.sql"):
        found |= {re.sub("--.*", "", line): path.name for line in path.read_text().splitlines()}
    named = {(word, where) for text, where in found.items() for word in words if re.search(rf"\b{word}\b", text)}
    assert not named
