"""A Ray cluster: the connection, what its nodes are, and which of them see the store's folder.

Nothing of ours is pickled: what travels is plain arguments, answers as JSON, and bytes of files.
"""

from __future__ import annotations

import contextlib
import json
import logging
import math
import os
import platform
import re
import secrets
import shlex
import shutil
import socket
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from league import __version__
from league.errors import StoreError, UsageError, one_line, quoted, remedy_of, shown
from league.runtime.interpreter import import_path
from league.runtime.sent import collected, here, modules_in, unpacked, whole_words
from league.types.schema import is_program

NONCE_SECONDS = 3_600.0
"""A file of `nonce_in` is of no use after it."""
LOCAL = "local"
"""In place of an address: a cluster of this machine alone, which ends with the call."""
_FILE = re.compile(r"((?:[^=/:(]+=)?(?:(?:gymnasium|pettingzoo|kaggle:\w+):)?)(.+?\.py)((?:[:(].*)?)")
"""An address of a file: what stands before its path, that, and what stands behind it."""
_MODULE = re.compile(r"(?:[^=/:(]+=)?(?:(?:gymnasium|pettingzoo):)?([A-Za-z_]\w*)[.:]")
"""An address of a module: the first of its names."""
_KAGGLE = re.compile(r"kaggle:\w+(:.*)?")
"""An environment of Kaggle, where `kaggle:main.py` is a bot."""
CONNECT_SECONDS, PROBE_SECONDS = 5.0, 60.0
"""How long a cluster has to answer, and a node of it."""
RESTARTS = 20
"""Of one actor that trains, after nodes or workers that went away."""
_NEVER_RAN = "The actor never ran"
"""In Ray's error where an actor's node or worker went away before the actor began: Ray starts that one no more."""
SLACK = 1e-6
"""Of a sum of shares of a core."""


class Room(NamedTuple):
    """Of a node, or what a learner asks for."""

    cpus: float
    gpus: float


@dataclass(frozen=True)
class Node:
    """A machine of a cluster, as it answers."""

    name: str
    room: Room
    id: str = ""
    """Ray's."""
    sees_store: bool = True


@contextlib.contextmanager
def connected(address: str, room: Sequence[Room]) -> Iterator[Any]:
    """Ray, connected; what was connected before stays so. The learners of a local cluster share the machine's cores.

    Ray has its workers look for modules in the job's folder first, which is an empty one here.

    Raises:
        UsageError: it is not installed, or nobody answers there.
    """
    found = re.fullmatch(r"(?:ray://)?([^\s:/]+|\[[0-9a-fA-F:]+\]):(\d{1,5})", address)
    if address not in (LOCAL, "auto") and (found is None or not 0 < int(found[2]) < 2**16):
        raise UsageError(
            f"--on {quoted(address)}: must be HOST:PORT, ray://HOST:PORT, auto or {LOCAL}; pass another --on"
        )
    try:
        import ray
    except ImportError:
        raise UsageError(
            f"--on {address}: Ray is not installed; `pip install 'league-engine[ray]'`, here and on every node"
        ) from None
    if ray.is_initialized():  # by who calls
        yield ray
        return
    where: dict[str, Any] = {"address": address}
    environment: dict[str, Any] = {}
    if found is not None:  # Ray itself tries for two minutes
        try:
            socket.create_connection((found[1], int(found[2])), CONNECT_SECONDS).close()
        except (OSError, OverflowError) as error:
            raise _no_cluster(address, error) from None
    if address == LOCAL:
        cpus = max(os.cpu_count() or 1, math.ceil(sum(each.cpus for each in room)))
        where |= {"num_cpus": cpus, "include_dashboard": False}
        environment = {"env_vars": {"PYTHONPATH": os.pathsep.join(map(os.path.abspath, import_path()))}}
    try:
        with tempfile.TemporaryDirectory() as empty:
            environment["working_dir"] = empty
            ray.init(**where, runtime_env=environment, log_to_driver=False, logging_level=logging.ERROR)
    except Exception as error:  # Ray raises ConnectionError, RuntimeError, ValueError and others of its own
        raise _no_cluster(address, error) from None
    try:
        yield ray
    finally:
        ray.shutdown()


def _no_cluster(address: str, error: Exception) -> UsageError:
    return UsageError(
        f"--on {address}: no Ray cluster answers ({one_line(str(error))[:200]}); begin one with `ray start --head`, set"
        f" RAY_AUTH_MODE=token if it has a token, or pass --on {LOCAL}"
    )


def last_line(error: Exception) -> str:
    """What an error of Ray says at its end, behind the traceback of its worker."""
    return one_line((str(error).splitlines() or [type(error).__name__])[-1])


def _probe(path: str, nonce: str) -> str:
    """What a node sees, as JSON: its version of league, and the nonce in the store's folder."""
    seen = ""
    with contextlib.suppress(OSError):
        seen = Path(path, nonce).read_text()
    found = {"version": __version__, "nonce": seen, "name": platform.node()}
    return json.dumps(found | {"python": platform.python_version()})


def absolute(given: object) -> Any:
    """What a call names of code, with whole paths of files: on a node another folder is the current one.

    given: an address (docs/bring.md), None, or lists and mappings of them.

    Raises:
        UsageError: it is an object, which cannot travel.
    """
    if given is None:
        return None
    if isinstance(given, str):
        if program := _program(given):
            name, scheme, words = program
            return f"{name}{scheme}:{shlex.join(whole_words(words))}"
        found = _FILE.fullmatch(given)
        return given if found is None else f"{found[1]}{os.path.realpath(os.path.expanduser(found[2]))}{found[3]}"
    if isinstance(given, Mapping):
        return {name: absolute(each) for name, each in given.items()}
    if isinstance(given, list | tuple):
        return [absolute(each) for each in given]
    what = shown(given)
    raise UsageError(f"{what}: on a cluster code is named by a file, as file.py:NAME; write it into one")


def files_of(given: Any) -> dict[str, bytes]:
    """The files that `absolute` has given, with those that they import: no other code of the user's runs on a node."""
    return collected(_paths(given))


def _program(given: str) -> tuple[str, str, list[str]] | None:
    """Of a program's address the name before it with `=`, the scheme, and the words; None of another one."""
    for name, text in (("", given), (given[: given.find("=") + 1], given.partition("=")[2])):
        if is_program(text) and not _KAGGLE.fullmatch(text):
            with contextlib.suppress(ValueError):  # `locate_program` tells
                return name, text.partition(":")[0], shlex.split(text.partition(":")[2])
    return None


def _paths(given: Any) -> list[Path]:
    if isinstance(given, str):
        if program := _program(given):
            words = [word for word in program[2] if os.path.isabs(word)]
            named = [Path(word) for word in words if shutil.which(os.path.basename(word)) != word]  # nodes have those
            return [path for each in named for path in (each.rglob("*") if each.is_dir() else [each]) if path.is_file()]
        if found := _FILE.fullmatch(given):
            return [Path(found[2])]
        name = _MODULE.match(given)
        return modules_in(Path.cwd(), name[1]) if name else []
    each = given.values() if isinstance(given, Mapping) else given or ()
    return [path for one in each for path in _paths(one)]


@contextlib.contextmanager
def nonce_in(store: Path) -> Iterator[Path]:
    """A file in the store's folder by which a node knows that it sees that.

    Raises:
        StoreError: the folder cannot be written.
    """
    nonce, is_new = store / f".nonce-{secrets.token_hex(8)}", not store.exists()
    try:
        store.mkdir(parents=True, exist_ok=True)
        for old in sorted(store.glob(".nonce-*")):  # of a process that was killed
            if time.time() - old.stat().st_mtime > NONCE_SECONDS:
                old.unlink(missing_ok=True)
        nonce.write_text(nonce.name)
    except OSError as error:
        raise StoreError(f"{store}: cannot be written ({error.strerror}); {remedy_of(error)}") from None
    try:
        yield nonce
    finally:
        nonce.unlink(missing_ok=True)
        if is_new:  # what is refused leaves nothing
            with contextlib.suppress(OSError):  # another process has made something there
                store.rmdir()


def nodes_of(ray: Any, nonce: Path) -> list[Node]:
    """The nodes of the cluster, each of which has this version.

    nonce: of `nonce_in`.

    Raises:
        UsageError: one has not, or does not answer.
    """
    return [_node(ray, node, nonce) for node in ray.nodes() if node["Alive"]]


def need_store(nodes: Sequence[Node], store: Path) -> None:
    """Refuses nodes that do not see the store's folder.

    Raises:
        UsageError: one does not.
    """
    for node in nodes:
        if not node.sees_store:
            raise UsageError(f"node {node.name}: it does not see the folder {store}; pass a --store that it shares")


def on_node(node_id: str) -> dict[str, Any]:
    """Options of what runs on that node, beside all that has a share of its cores."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    return {"num_cpus": 0, "scheduling_strategy": NodeAffinitySchedulingStrategy(node_id, soft=False)}


def _node(ray: Any, node: Mapping[str, Any], nonce: Path) -> Node:
    name = node["NodeManagerHostname"]
    task = ray.remote(_probe).options(**on_node(node["NodeID"]), max_retries=0)
    try:
        found = json.loads(ray.get(task.remote(str(nonce.parent), nonce.name), timeout=PROBE_SECONDS))
    except Exception as error:  # of Ray, or what its worker raised
        raise UsageError(
            f"node {name}: it cannot run league ({last_line(error)}); install the same version there, {__version__}"
        ) from None
    if (version := found["version"]) != __version__:
        raise UsageError(f"node {name}: it has league {version}, here is {__version__}; install the same version")
    has = node["Resources"]
    room = Room(has.get("CPU", 0.0), has.get("GPU", 0.0))
    return Node(found["name"], room, node["NodeID"], found["nonce"] == nonce.name)


def need_room(nodes: Sequence[Node], learners: Sequence[Room]) -> None:
    """Refuses a league that the cluster has no room for: all learners train at once, each on one node.

    The largest are placed first, each on the first node that has room, nodes without GPUs first.

    Raises:
        UsageError: it is too large.
    """
    left = sorted([node.room.gpus, node.room.cpus] for node in nodes)
    for learner in sorted(learners, key=size, reverse=True):
        for node in left:
            if node[0] + SLACK >= learner.gpus and node[1] + SLACK >= learner.cpus:
                node[:] = node[0] - learner.gpus, node[1] - learner.cpus
                break
        else:
            wanted, there = _sum(learners), _sum([node.room for node in nodes])
            raise UsageError(
                f"the league asks for {wanted}, and a learner's {_sum([learner])} find no node; the nodes have {there},"
                f" {len(nodes)} of them; add some, or lower `cpus` or `gpus` in the league's file"
            )


def _sum(rooms: Sequence[Room]) -> str:
    return f"{sum(each.cpus for each in rooms):g} cpus and {sum(each.gpus for each in rooms):g} gpus"


def size(room: Room) -> tuple[float, float]:
    """Sort key of what is placed: GPUs are rarer."""
    return room.gpus, room.cpus


def never_ran(error: Exception) -> bool:
    """Whether a new actor may do what this one did not begin."""
    return _NEVER_RAN in str(error)


class Calls:
    """One call of an actor each, by name. An actor that Ray gave up before it ran is made again.

    ray: connected.
    begin: makes an actor and calls it, and returns both: an actor that nobody holds ends before it begins.
    """

    def __init__(self, ray: Any, begin: Mapping[str, Callable[[], tuple[Any, Any]]]) -> None:
        self._ray, self._begin, self._tries = ray, begin, Counter[str]()
        self._running = {name: each() for name, each in begin.items()}

    @property
    def running(self) -> list[str]:
        """Names of those that have not ended."""
        return list(self._running)

    def ended(self, seconds: float) -> dict[str, Any]:
        """What calls have answered by now, or within some seconds, each once; or the exception that ended one."""
        found, names = dict[str, Any](), {task: name for name, (_, task) in self._running.items()}
        for task in self._ray.wait(list(names), num_returns=1, timeout=seconds)[0]:
            name = names[task]
            try:
                found[name] = self._ray.get(task)
            except Exception as error:  # the worker died too often, or raised what is no error of ours
                self._tries[name] += 1
                if never_ran(error) and self._tries[name] <= RESTARTS:
                    self._running[name] = self._begin[name]()
                    continue
                found[name] = error
            del self._running[name]
        return found


class ClusterActor:
    """An actor, in a worker process of Ray.

    folder: the current one of the caller, where a module that the call names is found; other imports find none there.
    files: the caller's own, of `files_of`, for a node that has others at these paths or none.
    """

    def __init__(self, folder: str, files: Mapping[str, bytes]) -> None:
        self._files = unpacked(files)
        for place in (here(folder), folder):
            with contextlib.suppress(OSError):  # this node does not have it
                return os.chdir(place)
