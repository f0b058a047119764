"""A Ray cluster: the connection, and what its nodes are. All of them see the store's folder.

Nothing of ours is pickled: what travels beside that folder is plain arguments, and answers as JSON.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import math
import os
import platform
import re
import secrets
import socket
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from league import __version__
from league.errors import StoreError, UsageError, one_line, remedy_of

LOCAL = "local"
"""In place of an address: a cluster of this machine alone, which ends with the call."""
CONNECT_SECONDS, PROBE_SECONDS = 5.0, 60.0
"""How long a cluster has to answer, and a node of it."""


class Room(NamedTuple):
    """Of a node, or what a learner asks for."""

    cpus: float
    gpus: float


@dataclass(frozen=True)
class Node:
    """A machine of a cluster, as it answers."""

    name: str
    room: Room


@contextlib.contextmanager
def connected(address: str, room: Sequence[Room]) -> Iterator[Any]:
    """Ray, connected; what was connected before stays so. The learners of a local cluster share the machine's cores.

    Raises:
        UsageError: it is not installed, or nobody answers there.
    """
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
    if (found := re.fullmatch(r"(?:ray://)?(.+):(\d+)", address)) is not None:  # Ray itself tries for two minutes
        try:
            socket.create_connection((found[1], int(found[2])), CONNECT_SECONDS).close()
        except (OSError, OverflowError) as error:
            raise _no_cluster(address, error) from None
    if address == LOCAL:
        path = os.pathsep.join(os.path.abspath(place) for place in sys.path)
        cpus = max(os.cpu_count() or 1, math.ceil(sum(each.cpus for each in room)))
        where = {"num_cpus": cpus, "include_dashboard": False, "runtime_env": {"env_vars": {"PYTHONPATH": path}}}
    try:
        ray.init(**where, log_to_driver=False, logging_level=logging.ERROR)
    except Exception as error:  # Ray raises ConnectionError, RuntimeError, ValueError and others of its own
        raise _no_cluster(address, error) from None
    try:
        yield ray
    finally:
        ray.shutdown()


def _no_cluster(address: str, error: Exception) -> UsageError:
    return UsageError(
        f"--on {address}: no Ray cluster answers ({one_line(str(error))[:200]}); begin one with `ray start --head`, or"
        f" pass --on {LOCAL}"
    )


def _probe(path: str, nonce: str, files: Mapping[str, str]) -> str:
    """What a node sees, as JSON: its version of league, the nonce in the store's folder, and the files' sha256."""
    seen = ""
    with contextlib.suppress(OSError):
        seen = Path(path, nonce).read_text()
    other = [file for file, wanted in files.items() if _sha256(file) != wanted]
    found = {"version": __version__, "nonce": seen, "other": other, "name": platform.node()}
    return json.dumps(found | {"python": platform.python_version()})


def _sha256(file: str) -> str:
    try:
        return hashlib.sha256(Path(file).read_bytes()).hexdigest()
    except OSError:
        return ""


def files_of(addresses: Sequence[object]) -> dict[str, str]:
    """The files of the user's own that this call names, with their sha256: no other code of theirs runs on a node."""
    found = {}
    for address in addresses:
        if address is None:
            continue
        if not isinstance(address, str):
            raise UsageError(f"{address!r}: on a cluster code is named by a file, as file.py:NAME; write it into one")
        path = Path(address.rpartition("=")[2].removeprefix("gymnasium:").removeprefix("pettingzoo:").split(":")[0])
        if path.suffix == ".py":
            found[str(path.absolute())] = _sha256(str(path))
    return found


def nodes_of(ray: Any, store: Path, files: Mapping[str, str]) -> list[Node]:
    """The nodes of the cluster, each of which has this version and sees the store's folder and the files.

    Raises:
        UsageError: one does not, or does not answer.
        StoreError: the folder cannot be written.
    """
    nonce, is_new = store / f".nonce-{secrets.token_hex(8)}", not store.exists()
    try:
        store.mkdir(parents=True, exist_ok=True)
        nonce.write_text(nonce.name)
    except OSError as error:
        raise StoreError(f"{store}: cannot be written ({error.strerror}); {remedy_of(error)}") from None
    try:
        return [_node(ray, node, store, nonce.name, files) for node in ray.nodes() if node["Alive"]]
    finally:
        nonce.unlink(missing_ok=True)
        if is_new:  # what is refused leaves nothing
            store.rmdir()


def _node(ray: Any, node: Mapping[str, Any], store: Path, nonce: str, files: Mapping[str, str]) -> Node:
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    name, here = node["NodeManagerHostname"], NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
    task = ray.remote(_probe).options(num_cpus=0, scheduling_strategy=here, max_retries=0)
    try:
        found = json.loads(ray.get(task.remote(str(store), nonce, dict(files)), timeout=PROBE_SECONDS))
    except Exception as error:  # of Ray, or what its worker raised
        raise UsageError(
            f"node {name}: it cannot run league ({one_line(str(error).splitlines()[-1])}); install the same version"
            f" there, {__version__}"
        ) from None
    if (version := found["version"]) != __version__:
        raise UsageError(f"node {name}: it has league {version}, here is {__version__}; install the same version")
    if found["nonce"] != nonce:
        raise UsageError(f"node {name}: it does not see the folder {store}; pass a --store that all nodes share")
    if found["other"]:
        raise UsageError(f"node {name}: {found['other'][0]} is missing or another file there; copy it to that path")
    has = node["Resources"]
    return Node(found["name"], Room(has.get("CPU", 0.0), has.get("GPU", 0.0)))


def need_room(nodes: Sequence[Node], learners: Sequence[Room]) -> None:
    """Refuses a league that the cluster has no room for: all learners train at once, each on one node.

    Raises:
        UsageError: it is too large.
    """
    for what in ("cpus", "gpus"):
        wanted, there = [getattr(each, what) for each in learners], [getattr(node.room, what) for node in nodes]
        if sum(wanted) > sum(there) or max(wanted) > max(there):
            raise UsageError(
                f"the league asks for {sum(wanted):g} {what} ({max(wanted):g} of one learner), the cluster has"
                f" {sum(there):g} ({max(there):g} on one node); add nodes, or lower `{what}` in the league's file"
            )
