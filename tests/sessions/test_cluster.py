"""A league on a Ray cluster, which the tests start themselves, on this machine alone."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

import league
from league.arena.agents import Named
from league.arena.cluster import _name_of
from league.errors import LeagueError, UsageError
from league.runtime import cluster
from league.sessions import cluster as sessions
from league.sessions.callbacks import Callbacks
from league.sessions.exploitability import Exploit
from league.sessions.folders import ask_to_stop
from league.store import locks, remote
from league.store.carried import STOP
from league.store.store import Store
from tests.helpers.games import times_run, write_game
from tests.helpers.s3 import BUCKET, bucket
from tests.sessions.test_leagues import LEAGUE, RUNS, SETS, learned, train, write
from tests.sessions.test_programs import BOT as PROGRAM

ray = pytest.importorskip("ray")
pytestmark = [pytest.mark.timeout(500), pytest.mark.xdist_group("ray")]
IN_STEP = f"in_step = true\n{LEAGUE}"
SHARED = IN_STEP.replace('role = "', 'cpus = 0.3\nrole = "')
"""All three learners fit on one core."""


@pytest.fixture(autouse=True)
def _torch_of_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray gives a worker as many threads as its learner has cores."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a league that one process trained."""
    folder = tmp_path_factory.mktemp("whole")
    assert train(folder)[0].status == "finished"
    return folder


@pytest.fixture(scope="module")
def local() -> Iterator[None]:
    """A cluster of this process, which calls with `on="local"` share."""
    with cluster.connected("local", [cluster.Room(2.0, 0.0)]):
        yield


def need_alike(one: Path, two: Path) -> None:
    """The same snapshots and the same matches, each once; metrics but for the last bit."""
    first, second = learned(one), learned(two)
    for run in RUNS:
        assert first[run][:2] == second[run][:2]
        for a, b in zip(first[run][2], second[run][2], strict=True):
            assert a[:-1] == b[:-1] and a[-1] == pytest.approx(b[-1], abs=1e-12)


@pytest.mark.slow
def test_a_league_in_step_is_what_one_process_trains(whole: Path, tmp_path: Path) -> None:
    result, said = train(tmp_path, path=write(tmp_path, SHARED), on="local")
    assert [(x.run, x.status, x.steps) for x in result.learners] == [(run, "finished", 896) for run in RUNS]
    assert said[0].startswith("on local: ")
    need_alike(whole, tmp_path)
    with pytest.raises(UsageError, match="finished, so nothing is left to train"):
        league.resume("L", store=tmp_path / "league.duckdb", callback=())


@pytest.mark.slow
def test_a_stop_from_another_shell_and_the_end_on_one_machine(whole: Path, tmp_path: Path, local: None) -> None:
    """What a cluster began goes on in one process, and is what nobody stopped."""
    path, store = write(tmp_path, SHARED), tmp_path / "league.duckdb"

    def stop() -> None:
        while not (tmp_path / "L.main" / "snapshots" / f"{256:010d}").exists():
            time.sleep(0.05)
        ask_to_stop(Store.open(store), "L")

    thread = threading.Thread(target=stop)
    thread.start()
    assert train(tmp_path, path=path, on="local")[0].status == "stopped"
    thread.join()
    assert league.resume("L", store=store, callback=()).status == "finished"
    need_alike(whole, tmp_path)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"on": "127.0.0.1:1"}, "--on 127.0.0.1:1: no Ray cluster answers"),
        ({"on": "nonsense"}, "--on 'nonsense': must be HOST:PORT"),
        ({"on": "local", "learner": "main"}, "learner=main: all learners of a league train on the cluster"),
        ({"on": "local", "bots": {"mine": lambda obs: obs}}, "on a cluster code is named by a file"),
    ],
)
def test_what_cannot_train_on_a_cluster_is_refused(
    arguments: dict[str, Any], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one line, and nothing is written."""
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    with pytest.raises(UsageError) as caught:
        train(tmp_path, path=write(tmp_path), **arguments)
    assert words in str(caught.value) and "\n" not in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["tiny.toml"]


def test_a_local_cluster_is_none_that_runs_already(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without an address Ray takes the one that `ray start --head` has begun on this machine."""
    began: dict[str, Any] = {}
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", lambda **where: began.update(where))
    monkeypatch.setattr(ray, "shutdown", lambda: None)
    with cluster.connected("local", [cluster.Room(1.0, 0.0)]):
        assert began["address"] == "local"


def test_a_run_that_is_no_league_is_refused(whole: Path) -> None:
    with pytest.raises(UsageError, match=r"run=L\.main: --on trains a league or an exploiter, and it is none"):
        league.resume("L.main", on="local", store=whole / "league.duckdb")


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ({"version": "0.0.9"}, "it has league 0.0.9, here is"),
        ({"nonce": ""}, "it does not see the folder"),
    ],
)
def test_a_node_that_differs_is_refused(
    found: dict[str, Any], words: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """By what it answers; what it answers is what `_probe` finds, whose other cases stand below."""
    from league import __version__

    alike = {"version": __version__, "nonce": "n", "name": "there"}
    monkeypatch.setattr(ray, "get", lambda *_, **__: json.dumps(alike | found))
    monkeypatch.setattr(ray, "remote", lambda _: _Remote())
    node = {"NodeManagerHostname": "there", "NodeID": "0" * 56, "Resources": {"CPU": 2.0}}
    with pytest.raises(UsageError, match=words):
        cluster.need_store([cluster._node(ray, node, tmp_path / "n")], tmp_path)
    found = json.loads(cluster._probe(str(tmp_path), "n"))
    assert (found["version"], found["nonce"]) == (__version__, "")


class _Remote:
    def options(self, **_: object) -> _Remote:
        return self

    def remote(self, *_: object) -> None: ...


@pytest.mark.parametrize(
    ("nodes", "learners", "fits"),
    [
        ([(2, 0), (2, 0)], [(1, 0), (3, 0)], False),
        ([(2, 0), (2, 0)], [(1, 0), (1.5, 0), (1.5, 0)], False),  # four cores in all
        ([(2, 0)], [(1, 1)], False),
        ([(1, 0), (3, 0)], [(1, 0), (3, 0)], True),
        ([(2, 2), (2, 0)], [(1, 0), (1, 0), (1, 1), (1, 1)], True),
        ([(3, 0), (2, 0)], [(1, 0), (2, 0), (2, 0)], True),
        ([(1, 0)], [(0.1, 0)] * 10, True),
    ],
)
def test_all_learners_have_room_at_once(nodes: list[Any], learners: list[Any], fits: bool) -> None:
    there = [cluster.Node("a", cluster.Room(*room)) for room in nodes]
    rooms = [cluster.Room(*room) for room in learners]
    if fits:
        return cluster.need_room(there, rooms)
    with pytest.raises(UsageError, match="the league asks for"):
        cluster.need_room(there, rooms)


def test_addresses_are_whole_before_they_travel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those of agents; what is no address is refused."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.py").write_text("")
    given = {
        "bots": {"x": "a.py:bot"},
        "policy": ("x=a.py:P", "/b.py"),
        "env": "gymnasium:a.py:E(n=3)",
        "none": None,
    }
    found = cluster.absolute(given)
    assert found == {
        **{"bots": {"x": f"{tmp_path}/a.py:bot"}, "policy": [f"x={tmp_path}/a.py:P", "/b.py"]},
        **{"env": f"gymnasium:{tmp_path}/a.py:E(n=3)", "none": None},
    }
    assert cluster.absolute(found) == found
    assert cluster.absolute(["kuhn", "mine.game:Game", "openspiel:kuhn_poker"])[1:] == [
        "mine.game:Game",
        "openspiel:kuhn_poker",
    ]
    assert cluster.absolute("kaggle:connectx") == "kaggle:connectx"
    assert set(cluster.files_of(found)) == {f"{tmp_path}/a.py"}
    with pytest.raises(UsageError, match="on a cluster code is named by a file"):
        cluster.absolute({"mine": [len]})
    assert _name_of(Named("id", "r@1", Path("x"))) == f"{tmp_path}/x"


class _Fake:
    """A cluster without nodes, whose learners end, one a look, with what they are to answer."""

    def __init__(self, look: Callable[[], None]) -> None:
        self._look = look

    def nodes(self) -> list[Any]:
        self._look()
        return []

    def wait(self, tasks: list[str], **_: object) -> tuple[list[str], list[str]]:
        self._look()
        return tasks[:1], tasks[1:]

    def get(self, task: str) -> str:
        return task


def test_a_new_store_in_which_another_process_writes_stays(tmp_path: Path) -> None:
    store = tmp_path / "s"
    with cluster.nonce_in(store) as nonce:
        assert cluster.nodes_of(_Fake(lambda: (store / "theirs").mkdir()), nonce) == []
    assert [path.name for path in store.iterdir()] == ["theirs"]
    (store / ".nonce-old").write_text("")  # of a process that was killed
    os.utime(store / ".nonce-old", (0, 0))
    with cluster.nonce_in(store) as nonce:
        assert [*store.glob(".nonce-*")] == [nonce]


def test_learners_are_asked_to_stop_again_at_every_look(tmp_path: Path) -> None:
    """One that begins again has taken away what asked it before."""
    seen, files = [], [tmp_path / run / STOP for run in ("b", "c")]
    for file in files:
        file.parent.mkdir()

    def look() -> None:
        seen.append([file.exists() for file in files])
        for file in files:
            file.unlink(missing_ok=True)

    ends = {"a": '{"error": "failed"}', "b": '{"result": {}}', "c": '{"result": {"steps": 1}}'}
    calls = cluster.Calls(_Fake(look), {run: partial(lambda text: (None, text), text) for run, text in ends.items()})
    store: Any = SimpleNamespace(path=tmp_path, find_run=lambda _: SimpleNamespace(steps=1))
    store.fetch = store.push = lambda: None
    with pytest.raises(LeagueError, match="failed"):
        sessions._train(calls, store, Callbacks(()))
    assert seen == [[False, False], [True, True], [False, True]]


class Answer:
    """An actor."""

    def give(self, text: str) -> str:
        return text


def test_an_actor_that_never_ran_is_made_again(local: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where a node goes away while it is made; one that fails as often as Ray starts actors again is an error."""
    made = list[Any]()

    def begin(text: str, kills: int) -> tuple[Any, Any]:
        actor = ray.remote(Answer).options(num_cpus=0.1).remote()
        made.append(text)
        if made.count(text) <= kills:
            ray.kill(actor)
        return actor, actor.give.remote(text)

    monkeypatch.setattr(cluster, "RESTARTS", 3)
    kills = {"whole": 0, "twice": 2, "always": 99}
    calls, found = cluster.Calls(ray, {x: partial(begin, x, kills[x]) for x in kills}), dict[str, Any]()
    while calls.running:
        found |= calls.ended(1.0)
    assert found.pop("whole") == "whole" and found.pop("twice") == "twice"
    assert cluster.never_ran(found["always"])
    assert [made.count(text) for text in kills] == [1, 3, 4]


def test_a_learner_that_is_lost_names_the_command_that_carries_its_league_on(whole: Path) -> None:
    told = sessions._end(RuntimeError("its node is gone"), "L.main", Store.open(whole))["error"]
    assert told.startswith("run=L.main: its node is gone; `league resume L --store ")


@pytest.mark.slow
def test_finished_learners_are_skipped(tmp_path: Path) -> None:
    """Also by an actor that tries again; with more steps they go further."""
    path = write(tmp_path, LEAGUE.replace('role = "', 'cpus = 0.3\nrole = "'))
    assert train(tmp_path, path=path, learner="main")[0].status == "finished"
    store = tmp_path / "league.duckdb"
    words = {"store": str(tmp_path), "device": "cpu", "overrides": []}
    again = json.loads(sessions.LearnerActor(os.getcwd(), {}).train("L.main", "", words, {}))["result"]
    assert (again["status"], again["steps"]) == ("finished", 896)
    for result in (train(tmp_path, path=path, on="local")[0], league.resume("L", steps=1024, on="local", store=store)):
        steps = result.learners[0].steps
        assert [(x.run, x.status, x.steps) for x in result.learners] == [(run, "finished", steps) for run in RUNS]
    assert steps == 1024
    with pytest.raises(UsageError, match="finished, so nothing is left to train"):
        league.resume("L", on="local", store=store)


def exploited(store: Path, **given: Any) -> Any:
    """What an exploiter of the league's main agent makes of it, but for its own names."""
    found = league.train(
        against="L.main", steps=512, games=40, run=given.pop("run"), store=store, callback=Callbacks(()), **given
    )
    assert isinstance(found, Exploit) and found.summary is not None
    return found.status, found.steps, found.exploiter.partition("@")[2], found.newest, found.summary.measured


def test_an_exploiter_on_a_cluster_is_what_one_process_trains(whole: Path, tmp_path: Path, local: None) -> None:
    store = shutil.copytree(whole, tmp_path / "c")
    assert exploited(store, run="here") == exploited(store, run="there", on="local")
    with pytest.raises(UsageError, match="a cluster trains a league or an exploiter"):
        league.train("smoke", env="matrix", on="local", store=store)


@pytest.mark.slow
def test_a_tournament_plays_the_same_games_on_a_cluster(
    whole: Path, tmp_path: Path, local: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Games of native bots go by their seeds alone, also where the first actors never run; those of nets are as many,
    each a row of its own."""
    pools = list[int]()

    class Pool(ray.util.ActorPool):  # type: ignore[misc]
        def __init__(self, actors: list[Any]) -> None:
            for actor in () if pools else actors:
                ray.kill(actor)
            pools.append(len(actors))  # not the actors, which end when nobody holds them
            super().__init__(actors)

    given: dict[str, Any] = {"bots": True, "env": "matrix", "games": 8, "device": "cpu"}
    here = league.tournament(**given, store=tmp_path / "a")
    with monkeypatch.context() as patched:
        patched.setattr(ray.util, "ActorPool", Pool)
        there = league.tournament(**given, store=tmp_path / "b", on="local")
    assert len(pools) == 2
    assert here.standings == there.standings and here.encounters == there.encounters
    store = shutil.copytree(whole, tmp_path / "c")
    found = league.tournament(
        runs=["L.main"], newest=3, games=8, on="local", store=store / "league.duckdb", device="cpu"
    )
    matches = Store.open(store).matches(found.tournament, "evaluation")
    assert len(matches) == 24 == len({(x.update, x.row, x.ordinal) for x in matches})
    one = league.evaluate("L.main", "L.breadth", games=34, on="local", store=store, device="cpu")
    matches = Store.open(store).matches(str(one.run), "evaluation")
    assert one.summary.games == len({(x.update, x.row, x.ordinal) for x in matches}) == 34
    assert len({x.seed for x in matches}) == 17
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    with pytest.raises(UsageError, match=r"--on 127\.0\.0\.1:1: no Ray cluster answers"):
        league.tournament(**given, store=tmp_path / "d", on="127.0.0.1:1")


def test_the_example_of_a_clusters_file_is_one() -> None:
    """As Ray's own schema has it."""
    from ray.autoscaler._private.util import prepare_config, validate_config

    text = (Path(__file__).parents[2] / "examples/cluster.yaml").read_text()
    validate_config(prepare_config(yaml.safe_load(text)))


@pytest.fixture
def nodes() -> Iterator[Any]:
    """A head that trains nothing, and two nodes."""
    from ray.cluster_utils import Cluster

    before = os.environ.get("PYTHONPATH")
    ray.shutdown()
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(Path(league.__path__[0]).parent), before]))
    found = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    yield found
    found.shutdown()
    os.environ.pop("PYTHONPATH") if before is None else os.environ.update(PYTHONPATH=before)


@pytest.mark.slow
def test_nodes_that_are_killed_lose_and_double_nothing(whole: Path, tmp_path: Path, nodes: Any) -> None:
    """Five times in the middle of training; the learners go on elsewhere, and the league is what nobody disturbed."""
    there = [nodes.add_node(num_cpus=3) for _ in range(2)]
    killed, path = list[int](), write(tmp_path, IN_STEP)
    with ThreadPoolExecutor(1) as pool:  # Ray begins nodes in the main thread alone
        training = pool.submit(train, tmp_path, path=path, on=nodes.address)
        while len(killed) < 5 and not training.done():
            runs = Store.open(tmp_path / "league.duckdb").runs() if (tmp_path / "L" / "run.json").exists() else []
            if (steps := sum(row.steps for row in runs)) >= 256 * (1 + len(killed)):
                nodes.remove_node(there.pop(0), allow_graceful=False)
                there.append(nodes.add_node(num_cpus=3))
                killed.append(steps)
            time.sleep(0.1)
        assert training.result()[0].status == "finished"
    assert len(killed) == 5, killed
    need_alike(whole, tmp_path)


@contextmanager
def node_apart(address: str, store: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A node with mounts and processes of its own, where the store's folder is an empty one."""
    script = 'mount -t tmpfs none "$1" && exec "$0" -m ray.scripts.scripts start --address "$2" --num-cpus 3 --block'
    alone = ["unshare", "--user", "--map-root-user", "--mount", "--pid", "--mount-proc", "--fork", "--kill-child"]
    before = sum(node["Alive"] for node in ray.nodes())
    node = subprocess.Popen([*alone, "sh", "-c", script, sys.executable, store, address], stdout=subprocess.DEVNULL)
    try:
        while sum(node["Alive"] for node in ray.nodes()) == before:
            if node.poll() is not None:
                pytest.skip("no node with mounts of its own can be made here")
            time.sleep(0.2)
        yield node
    finally:
        node.kill()
        node.wait()


@pytest.mark.slow
def test_an_exploiter_learns_on_a_node_that_shares_no_folder(whole: Path, tmp_path: Path, nodes: Any) -> None:
    store = shutil.copytree(whole, tmp_path / "store")
    wanted = exploited(store, run="here")
    ray.init(nodes.address, log_to_driver=False)
    try:
        with node_apart(nodes.address, store):
            assert exploited(store, run="there", on=nodes.address) == wanted
    finally:
        ray.shutdown()


@pytest.mark.slow
def test_a_game_in_a_file_is_sent_to_a_node_that_shares_no_folder(tmp_path: Path, nodes: Any) -> None:
    """With a module beside it, a bot's file and a bot that is a program; the league is what one process trains."""
    home = write_game(tmp_path / "home" / "duel.py", "import rules\n").parent
    (home / "rules.py").write_text("")
    (home / "bots.py").write_text("def always(obs, mask, info=None):\n    return 0\n")
    (home / "program.py").write_text(PROGRAM.replace("LAST", "-1"))
    (home / "program.py").chmod(0o755)
    bots = {"mine": f"{home}/bots.py:always", "other": f"program:{home}/program.py"}
    words = {"env": f"{home}/duel.py", "bots": bots, "path": write(tmp_path, IN_STEP)}
    for name in ("here", "home/there"):
        (tmp_path / name).mkdir()
    train(tmp_path / "here", "run.total_steps=256", **words)
    ray.init(nodes.address, log_to_driver=False)
    try:
        with node_apart(nodes.address, home):
            result, _ = train(home / "there", "run.total_steps=256", **words, on=nodes.address)
    finally:
        ray.shutdown()
    assert result.status == "finished"
    need_alike(tmp_path / "here", home / "there")
    assert times_run(home) == 1  # here, to look at it


@pytest.mark.slow
def test_nodes_that_share_no_folder_train_what_one_process_does(whole: Path, tmp_path: Path, nodes: Any) -> None:
    """Twice the learners' node is killed; they go on, on one that sees the store and again on one that does not."""
    path, store = write(tmp_path, IN_STEP), tmp_path / "store"
    store.mkdir()
    ray.init(nodes.address, log_to_driver=False)
    try:
        with ExitStack() as stack, ThreadPoolExecutor(1) as pool:
            apart, marks = stack.enter_context(node_apart(nodes.address, store)), [640, 256]
            training = pool.submit(train, store, path=path, on=nodes.address)
            while not training.done():
                if marks and (store / "L.main" / "snapshots" / f"{marks[-1]:010d}").exists():
                    if marks.pop() == 256:
                        shared = nodes.add_node(num_cpus=3)
                        apart.kill()
                    else:
                        stack.enter_context(node_apart(nodes.address, store))
                        nodes.remove_node(shared, allow_graceful=False)
                time.sleep(0.1)
            assert training.result()[0].status == "finished"
        assert not marks
    finally:
        ray.shutdown()
    need_alike(whole, store)
    assert Store.open(store).owners() and not [*store.glob(".nonce-*")]


@pytest.mark.slow
def test_nodes_that_share_a_bucket_train_what_one_process_does(
    whole: Path, tmp_path: Path, nodes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each has a working copy of its own; a machine outside the cluster sees how far they are while they train."""
    with bucket() as keys:
        for name, value in keys.items():
            monkeypatch.setenv(name, value)
        for name in ("one", "two"):
            nodes.add_node(num_cpus=2, env_vars={**keys, "XDG_CACHE_HOME": str(tmp_path / name)})
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "driver"))
        call = [sys.executable, "-m", "league", "runs", "--json", "--store", f"{BUCKET}/league"]
        elsewhere = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "outside")}
        sets = {"overrides": (*SETS, "run.checkpoint_minutes=0.002"), "device": "cpu", "seed": 3, "run": "L"}
        seen = set[int]()
        with ThreadPoolExecutor(1) as pool:
            path = write(tmp_path, IN_STEP)
            training = pool.submit(
                league.train, env="matrix", league=path, store=f"{BUCKET}/league", on=nodes.address, **sets
            )
            while not training.done():
                shown = subprocess.run(call, env=elsewhere, cwd=tmp_path, stdout=subprocess.PIPE, check=False)
                time.sleep(2.0)  # the server is a thread of this process
                seen |= {row["steps"] for row in (json.loads(shown.stdout)["runs"] if shown.stdout else ())}
            assert training.result().status == "finished"
        assert len(seen) > 2, seen
        copies = [*tmp_path.glob("*/league/*/L.main/status.json")]
        assert {copy.parts[-5] for copy in copies} >= {"one", "two", "outside"}, copies
        (copy,) = (tmp_path / "driver" / "league").iterdir()
        need_alike(whole, copy)
    remote._remotes.clear()
    locks.elsewhere.clear()
