"""The house's rules: imports run one way, starting is light, nothing unpickles, a wheel has one top level."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = {"envs", "policies", "snapshots"}
ERRORS = {"league.errors"}
BASE = ERRORS | {"league.types"}
MATHS = {
    "league.returns",
    "league.losses",
    "league.davidson",
    "league.ratings",
    "league.sprt",
    "league.matchmaking",
    "league.metagame",
    "league.nashconv",
}
ALLOWED = {
    "league.errors": set(),
    "league.types": set(),
    "league.config": BASE,
    "league.device": ERRORS,
    **dict.fromkeys(MATHS, BASE | {"league.davidson"}),
    "league.records": BASE,
    "league.sql": ERRORS,
    "league.store": BASE | {"league.ratings", "league.records", "league.sql"},
    "league.exchange": BASE | {"league.records", "league.store"},
    "league.liveness": {"league.locks", "league.records", "league.store"},
    "league.signals": set(),
    "league.standings": BASE | {f"league.{name}" for name in ("davidson", "liveness", "ratings", "records", "store")},
    "league.headtohead": BASE | {"league.ratings", "league.records", "league.standings", "league.store"},
    "league.scheduling": {"league.davidson", "league.ratings"},
    "league.alarms": BASE
    | {f"league.{name}" for name in ("davidson", "metagame", "ratings", "records", "sql", "standings", "store")},
    "league.locks": ERRORS,
    "league.retention": BASE
    | {
        *("league.config", "league.liveness", "league.locks", "league.records", "league.standings", "league.store"),
    },
    "league.payoff": BASE
    | {"league.davidson", "league.metagame", "league.ratings", "league.standings", "league.store"},
    "league.heatmap": BASE | {"league.payoff"},
    "league.pool": BASE
    | {"league.config", "league.davidson", "league.matchmaking", "league.metagame", "league.ratings"},
    "league.findings": BASE,
    "league.finite": BASE,
    "league.guards": BASE | {"league.config", "league.ratings"},
    "league.strict": BASE | {"league.findings"},
    "league.failures": BASE
    | {"league.envs", "league.envs.registry", "league.film", "league.findings", "league.strict"}
    | {"league.snapshots", "league.snapshots.io", "league.snapshots.manifest"},
    "league.opponents": BASE,
    "league.roles": BASE | {"league.config", "league.matchmaking", "league.metagame", "league.ratings"},
    "league.roster": BASE | {"league.config", "league.roles"},
    "league.league_pool": BASE | {"league.config", "league.matchmaking", "league.pool", "league.roles"},
    "league.graphs": {"league.device", "league.opponents"},
    "league.compiling": set(),
    "league.rollout": BASE
    | {"league.config", "league.device", "league.findings", "league.graphs", "league.opponents"}
    | {"league.moving", "league.pool", "league.randomness", "league.strict"},
    "league.moving": BASE,
    "league.learner": BASE | MATHS | {"league.config", "league.device", "league.finite"},
    "league.film": BASE,
    "league.duel": BASE | {"league.config", "league.envs", "league.envs.base", "league.envs.registry"},
    "league.gym": BASE | {"league.duel", "league.envs", "league.envs.registry"},
    "league.zoo": BASE | {"league.duel", "league.envs.base"},
    "league.randomness": set(),
    "league.probe": {"league.device", "league.randomness", "league.rollout"},
    "league.evaluation": BASE | {"league.device", "league.opponents", "league.ratings", "league.rollout"},
    "league.behaviour": BASE,
    "league.psro": BASE | {"league.evaluation", "league.pool"},
    "league.sizing": BASE | {f"league.{name}" for name in ("config", "device", "evaluation", "opponents", "psro")},
}
ENGINE = {"league.training", "league.progress"}
WIRING = {f"league.{name}" for name in ("agents", "app", "bench", "cli", "exploitability", "gating", "leagues")}
WIRING |= {"league.printing", "league.recovery", "league.tournaments", "league.__init__", "league.__main__"}


def modules() -> dict[str, ast.Module]:
    """Module name -> syntax tree, of everything that is installed."""
    paths = {ROOT / "cli.py": "league.cli"}
    for folder in ("league", *FOLDERS):
        prefix = "" if folder == "league" else "league."
        for path in (ROOT / folder).rglob("*.py"):
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            paths[path] = prefix + name
    return {name: ast.parse(path.read_text()) for path, name in paths.items()}


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
    """Each module imports only what lies below it; games, networks and snapshots know nothing of the engine."""
    trees = modules()
    names = set(trees) | {name.removesuffix(".__init__") for name in trees}
    for name, tree in trees.items():
        uses = {target for target in imported(tree) if target in names} - {"league"}
        folder = name.split(".")[1]
        if name in WIRING:
            continue
        if folder in FOLDERS:
            friends = {"snapshots": ("league.snapshots", "league.policies")}.get(folder, (f"league.{folder}",))
            strangers = {t for t in uses - BASE if not t.startswith(friends)}
        elif name in ENGINE:
            strangers = {
                t
                for t in uses
                if t.split(".")[1] in FOLDERS | {"agents", "app", "cli", "bench", "gating", "leagues", "exploitability"}
            }
        else:
            strangers = uses - ALLOWED[name.removesuffix(".__init__")]
        assert not strangers, f"{name} imports {strangers}"


def test_only_the_store_imports_duckdb_and_nothing_unpickles() -> None:
    """duckdb stays in league/store.py; pickle and torch.load are nowhere."""
    for name, tree in modules().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Import | ast.ImportFrom):
                names = [node.module or ""] if isinstance(node, ast.ImportFrom) else [a.name for a in node.names]
                roots = {imported_name.split(".")[0] for imported_name in names}
                assert name == "league.store" or "duckdb" not in roots, name
                assert not roots & {"pickle", "cloudpickle", "joblib", "dill", "shelve"}, name
            if isinstance(node, ast.Attribute):
                assert ast.unparse(node) not in {"torch.load", "torch.save"}, name


@pytest.mark.parametrize(
    "code", ["import league", "from league.cli import app; app(['--help'], standalone_mode=False)"]
)
def test_starting_is_light(code: str) -> None:
    """`import league` and `league --help` load neither torch nor duckdb."""
    check = f"import sys\n{code}\nheavy = {{'torch', 'duckdb', 'numpy'}} & set(sys.modules)\nassert not heavy, heavy"
    done = subprocess.run([sys.executable, "-c", check], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        *(["leaderboard"], ["payoff"], ["runs"], ["rewards", "a"], ["events"], ["query", "SELECT 1"]),
        *(["matchup", "bot:a", "bot:b"], ["matches", "FOLDER/m.csv"], ["alarms"], ["alarms", "a"]),
        *(["snapshots", "list"], ["snapshots", "prune"]),
    ],
)
def test_commands_on_the_store_do_without_torch(arguments: list[str], tmp_path: Path) -> None:
    """Asking the store takes a fraction of a second, since torch, which takes over one, is not loaded."""
    store = str(tmp_path / "s.duckdb")
    arguments = [argument.replace("FOLDER", str(tmp_path)) for argument in arguments]
    code = (
        "import sys; from league.cli import app; from league.store import RunRow, Store;"
        "from league.types import MatchResult;"
        f"run = RunRow(run='a', game='g', game_id='g', fingerprint='f', seed=0, stage='s', config='{{}}');"
        f"store = Store.create({store!r}); store.begin_run(run);"
        "game = MatchResult('e', 'evaluation', 0, 0, 0, 'g', ('bot:a', 'bot:b'), 1, 0, 'time', 1, 1, 'sample');"
        "store.add_matches([game]); store.flush(force=True);"
        f"app([*{arguments!r}, '--store', {store!r}], standalone_mode=False);"
        "assert 'torch' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("folder", sorted(FOLDERS))
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
