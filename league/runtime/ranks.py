"""Ranks: processes that train one run together, each with its part of the rows, and what passes between them.

They are a process group of torch: gloo on CPUs, NCCL on CUDA. Tensors and bytes pass, and nothing is pickled.
"""

from __future__ import annotations

import json
import os
import re
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from threading import Thread
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from league.errors import LeagueError, UsageError, quoted
from league.runtime.launch import NOTICE_SECONDS, Place, arrive, ended, place

PATIENCE = timedelta(days=7)
"""That a rank waits for the others, as while rank 0 evaluates. One that dies closes its connections, which is seen."""


class LostRank(LeagueError):
    """A rank has ended, and so no other can go on."""


@dataclass(frozen=True)
class Ranks:
    """This process among the ranks. All of them make the same calls in the same order.

    Each method raises `LostRank` where another rank has ended.
    """

    rank: int
    size: int

    def sum_(self, tensor: Tensor) -> Tensor:
        """`tensor` of any shape, in place the sum over the ranks, bit for bit the same on each."""
        with _told():
            dist.all_reduce(tensor)
        return tensor

    def whole(self, x: Tensor, segments: int = 1) -> Tensor:
        """(T, n b, ...) of each rank's b rows in n segments beside each other -> (T, n B, ...) of all ranks' B rows."""
        given = (x.to(torch.uint8) if x.dtype == torch.bool else x).contiguous()
        parts = [torch.empty_like(given) for _ in range(self.size)]
        with _told():
            dist.all_gather(parts, given)
        shape = x.shape[0], segments, x.shape[1] // segments, *x.shape[2:]
        return torch.cat([part.view(shape) for part in parts], 2).flatten(1, 2).to(x.dtype)

    def mine(self, x: Tensor, segments: int = 1) -> Tensor:
        """The inverse of `whole`: (T, n B, ...) -> (T, n b, ...), this rank's."""
        rows = x.shape[1] // segments
        share = rows // self.size
        parts = x.view(x.shape[0], segments, rows, *x.shape[2:])
        return parts[:, :, self.rank * share : (self.rank + 1) * share].flatten(1, 2)

    def gather_bytes(self, data: bytes) -> list[bytes]:
        """What each rank gave, by rank, on rank 0; nothing on the others."""
        sizes = [torch.zeros(1, dtype=torch.int64) for _ in range(self.size)]
        with _told():
            dist.all_gather(sizes, torch.tensor([len(data)]))
            width = max(1, *(int(size) for size in sizes))
            given = torch.zeros(width, dtype=torch.uint8)
            given[: len(data)] = _tensor(data)
            parts = [torch.empty_like(given) for _ in range(self.size)] if self.rank == 0 else None
            dist.gather(given, parts)
        return [part[: int(n)].numpy().tobytes() for part, n in zip(parts or (), sizes, strict=False)]

    def broadcast_bytes(self, data: bytes = b"") -> bytes:
        """What rank 0 gave."""
        size = torch.tensor([len(data)])
        with _told():
            dist.broadcast(size, 0)
            sent = _tensor(data) if self.rank == 0 else torch.empty(int(size), dtype=torch.uint8)
            dist.broadcast(sent, 0)
        return data if self.rank == 0 else sent.numpy().tobytes()

    def gather(self, value: Any) -> list[Any]:
        """As `gather_bytes`, of JSON values."""
        return [json.loads(data) for data in self.gather_bytes(json.dumps(value).encode())]

    def broadcast(self, value: Any = None) -> Any:
        """As `broadcast_bytes`, of a JSON value."""
        return json.loads(self.broadcast_bytes(json.dumps(value).encode()))


@contextmanager
def joined(say: Callable[[str], None]) -> Iterator[Ranks | None]:
    """Within it this process is one of the ranks that its environment tells of; None: it is by itself.

    Args:
        say: receives a line where the others do not come soon.

    Raises:
        UsageError: as `league.runtime.launch.place`, or its MASTER_ADDR is not known here.
        LeagueError: this torch has no torch.distributed, or a rank has ended.
    """
    there = place()
    if there is None:
        yield None
        return
    if there.meet == "env://":  # torch would try it again until its own patience ends
        host = os.environ["MASTER_ADDR"]
        try:
            socket.getaddrinfo(host, None)
        except (OSError, UnicodeError):
            raise UsageError(
                f"MASTER_ADDR={quoted(host)}: no machine of that name is known here; start the ranks by `torchrun`"
            ) from None
    if not dist.is_available():
        raise LeagueError(f"--ranks {there.size}: this build of torch has no torch.distributed; leave --ranks out")
    if "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(max(1, torch.get_num_threads() // there.local_size))
    arrive(there)
    with _told():
        _meet(there, say)
    try:
        yield Ranks(there.rank, there.size)
    finally:
        dist.destroy_process_group()


def _meet(there: Place, say: Callable[[str], None]) -> None:
    """Waits for the other ranks in a thread of its own, since torch's wait hears no signal."""
    backend, failed = _backend(there), list[Exception]()

    def meet() -> None:
        try:
            dist.init_process_group(
                backend, init_method=there.meet, rank=there.rank, world_size=there.size, timeout=PATIENCE
            )
        except Exception as error:
            failed.append(error)

    waiting = Thread(target=meet, daemon=True)
    waiting.start()
    waiting.join(NOTICE_SECONDS)
    if waiting.is_alive():
        where = f" at {os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}" if there.meet == "env://" else ""
        say(f"rank {there.rank} waits for the others of {there.size}{where}; start them, or end this one by Ctrl+C")
    while waiting.is_alive():
        waiting.join(0.2)
    if failed:
        raise failed[0]


def _backend(there: Place) -> str:
    if not (torch.cuda.is_available() and dist.is_nccl_available()):
        return "gloo"
    torch.cuda.set_device(there.local_rank % torch.cuda.device_count())
    return "cpu:gloo,cuda:nccl"


def _tensor(data: bytes) -> Tensor:
    return torch.frombuffer(bytearray(data), dtype=torch.uint8) if data else torch.empty(0, dtype=torch.uint8)


@contextmanager
def _told() -> Iterator[None]:
    """Within it a failed collective becomes an error that says why, as far as that is known here.

    Raises:
        LostRank: with how the rank ended, where that is known here.
    """
    try:
        yield
    except (RuntimeError, ValueError) as error:
        first = re.sub(r"^\[[^\]]*\] ", "", str(error).strip()).split(". ", 1)[0][:120]  # without torch's file and line
        raise LostRank(ended() or f"lost another rank ({first})") from None
