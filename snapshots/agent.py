"""A frozen agent that plays by itself: what an export opens into."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import torch
from pydantic import TypeAdapter, ValidationError
from torch import nn

from league.errors import LeagueError, SnapshotError, UsageError, one_line, plain, shown
from league.policies.actor_critic import ActorCritic, Architecture
from league.runtime.process import StepKept
from league.snapshots.io import Frozen, load, need_agent
from league.snapshots.manifest import Manifest, OwnPolicy, spec_from_json
from league.types import ActionSpec, GameSpec, Policy
from league.types.arguments import typed
from league.types.schema import MAX_HISTORY, MAX_LAYERS, MAX_SEED, MAX_THREADS, check_number

MAX_STATE_BYTES = 2**28
"""The most that one row's memory may take, hundreds of times the default agent's; a manifest that asks for more is
refused."""
MOST = {"encoder_layers": MAX_LAYERS, "history_tokens": MAX_HISTORY}
"""Of sizes that no weights bear out."""
_ARCHITECTURE = TypeAdapter(Architecture)


def load_fit(source: str | Path | Frozen) -> tuple[Manifest, dict[str, torch.Tensor]]:
    """`league.snapshots.io.load`, once weights, architecture and game are known to fit each other.

    The code of a custom policy is not run, so its weights are not compared with a network.

    Raises:
        SnapshotError: as `load_policy`.
    """
    manifest, tensors = load(source)
    if manifest.own_policy is None:
        _fitting(manifest, tensors, str(source))
    return manifest, tensors


def load_policy(
    folder: str | Path | Frozen,
    device: str | torch.device = "cpu",
    agent_id: str | None = None,
    make: Callable[[Manifest, OwnPolicy], Callable[[], Policy]] | None = None,
) -> tuple[Manifest, Policy]:
    """The frozen network of a snapshot or export, its weights checked against the manifest's hash.

    Args:
        folder: the snapshot's, or the snapshot in memory.
        device: where it shall be.
        agent_id: whose it must be; anybody's if not given.
        make: what makes a custom policy, with any weights; without it none is opened.

    Raises:
        SnapshotError: the folder is missing or damaged, or its weights, architecture and game do not fit each other; or
            it is a custom policy, whose code does not lie in it.
        UsageError: this machine has no such device.
    """
    manifest, tensors = load(folder)
    if agent_id is not None:
        need_agent(folder, manifest, agent_id)
    policy: Policy
    try:
        if (own := manifest.own_policy) is not None:
            if make is None:
                raise SnapshotError(
                    f"{folder}: its network is a policy of its own, {plain(one_line(own.policy))}, whose code is not in"
                    f" it; open it with `league.load`, which finds the code that you have named"
                )
            policy = _made(make(manifest, own), tensors)
            _need_same_shapes(policy.state_dict(), tensors)
        else:
            policy = _fitting(manifest, tensors, str(folder))
        assert isinstance(policy, nn.Module)
        policy.load_state_dict(tensors, assign=own is None)
    except (ValueError, TypeError, ArithmeticError, RuntimeError) as error:
        raise _unfit(str(folder), error) from error
    try:
        return manifest, cast(Policy, policy.requires_grad_(False).eval().to(device))
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise UsageError(f"device={device}: torch has no such device here ({reason}); pass `cpu`") from None


def _fitting(manifest: Manifest, tensors: Mapping[str, torch.Tensor], where: str) -> ActorCritic:
    """The library's network of a manifest, without memory, once its shapes are known to be those of the weights.

    Raises:
        SnapshotError: they are not.
    """
    try:
        with torch.device("meta"):
            policy = ActorCritic(_architecture(manifest, len(tensors)))
        _need_same_shapes(policy.state_dict(), tensors)
    except (ValueError, TypeError, ArithmeticError, RuntimeError) as error:
        raise _unfit(where, error) from error
    return policy


def _unfit(where: str, error: Exception) -> SnapshotError:
    reason = " ".join(str(error).split())
    return SnapshotError(f"{where}: weights and architecture do not fit ({reason}); export the agent again")


def _made(make: Callable[[], Policy], tensors: Mapping[str, torch.Tensor]) -> Policy:
    """A custom policy, where that can be seen without memory only if its weights are those of the file.

    Raises:
        ValueError: they are not.
    """
    small = None
    with suppress(LeagueError), torch.device("meta"):  # not everybody's code can be run without memory
        small = make()
    if small is not None:
        _need_same_shapes(small.state_dict(), tensors)
    return make()


def _architecture(manifest: Manifest, num_tensors: int) -> Architecture:
    """The manifest's architecture, small enough to be built and fit for the manifest's game.

    Raises:
        ValueError: a size is missing, unknown, of the wrong type or outside its rule.
    """
    sizes = manifest.architecture
    if unknown := set(sizes) - {field.name for field in fields(Architecture)}:
        raise ValueError(f"{', '.join(sorted(unknown))}: unknown")
    try:
        a = _ARCHITECTURE.validate_json(json.dumps(sizes), strict=True)
    except ValidationError as errors:
        error = errors.errors(include_url=False)[0]
        raise ValueError(f"{'.'.join(str(part) for part in error['loc'])}: {error['msg']}") from None
    spec = spec_from_json(manifest.spec)
    for name, size in (*sizes.items(), *(("head_sizes", size) for size in a.head_sizes)):
        most = MOST.get(name, 2**31 - 1)
        if isinstance(size, int) and not isinstance(size, bool) and not 1 <= size <= most:
            raise ValueError(f"{name}={size} is not from 1 to {most:,}")
    if (a.encoder_layers if a.opponent_encoder else 0) + len(a.head_sizes) > num_tensors:
        raise ValueError(f"encoder_layers={a.encoder_layers} and head_sizes need more than {num_tensors} tensors")
    listed = len(a.observation or ()) + (a.action.num_parts if a.action.kind == "legal_tuples" else 0)
    if listed > num_tensors:
        raise ValueError(f"observation and action have {listed} parts, which need more than {num_tensors} tensors")
    if a.encoder_width % (2 * a.encoder_heads):
        raise ValueError(f"encoder_width={a.encoder_width} is no multiple of twice encoder_heads={a.encoder_heads}")
    seen = (spec.obs_size, spec.opponent_slice, spec.action, spec.observation, spec.unbounded)
    if (a.obs_size, a.opponent_slice, a.action, a.observation, a.unbounded) != seen:
        raise ValueError(f"the network is not made for the observations and actions of {spec.name}")
    _check_action(a.action)
    start, stop = a.opponent_slice
    if not 0 <= start <= stop <= a.obs_size or (a.opponent_encoder and start == stop):
        raise ValueError(f"opponent_slice={[start, stop]} is no part of obs_size={a.obs_size}")
    if a.history_tokens != manifest.history_tokens:
        raise ValueError(f"history_tokens={a.history_tokens} in one place, {manifest.history_tokens} in another")
    row_bytes = 8 * (a.encoder_layers + 1) * a.history_tokens * a.encoder_width
    if a.opponent_encoder and row_bytes > MAX_STATE_BYTES:
        raise ValueError(f"history_tokens={a.history_tokens} needs {row_bytes / 2**30:.1f} GiB a match")
    return a


def _check_action(action: ActionSpec) -> None:
    for leaf in action.leaves:
        if leaf.kind != "box" and (not leaf.choices or min(leaf.choices) < 2 or sum(leaf.choices) >= 2**31):
            raise ValueError(f"action.choices={list(leaf.choices)}: each part needs at least 2 choices")


def _need_same_shapes(wanted: Mapping[str, torch.Tensor], found: Mapping[str, torch.Tensor]) -> None:
    """Refuses weights with other names, shapes or types than the network's."""
    if wanted.keys() != found.keys():
        name = min(wanted.keys() ^ found.keys())
        raise ValueError(f"{name} is {'missing' if name in wanted else 'unknown'}")
    for name, tensor in wanted.items():
        there = found[name]
        if there.shape != tensor.shape or there.dtype != tensor.dtype:
            raise ValueError(f"{name} is {there.dtype} {list(there.shape)}, not {tensor.dtype} {list(tensor.shape)}")


class Agent:
    """One agent in one seat, remembering its match between calls.

    Call `reset()` when a match begins and `act(obs)` once a decision (not once a tick); in a game in turns also
    `watch(obs)` after each decision of the other's after which this seat waits on. One observation (obs_size,)
    gives one action (A,); a stack (N, obs_size) plays N matches side by side and gives (N, A). Observations and actions
    are the game's flat arrays, also where they have parts (`ActionSpec`, `ObservationPart`). A new agent draws its
    actions as after `reset(seed=0)`.

    Args:
        policy: the network.
        manifest: what is known of it.
        threads: of torch, with which it decides on a CPU. One is fastest for a few matches: where other processes use
            the cores, a second thread is waited for, for milliseconds. More pay off for stacks of hundreds of rows.

    Raises:
        UsageError: threads is out of range.
    """

    def __init__(self, policy: Policy, manifest: Manifest, threads: int = 1) -> None:
        check_number("threads", threads, 1, MAX_THREADS, "threads that it decides with")
        self._threads = threads
        self.policy = policy
        self.manifest = manifest
        self._spec: Architecture | GameSpec
        self._spec = policy.architecture if isinstance(policy, ActorCritic) else spec_from_json(manifest.spec)
        self._device = next(iter(policy.parameters())).device
        self._generator = torch.Generator(self._device)
        self._num_rows = 1
        self._state = policy.initial_state(1)
        self._is_fresh = True
        self.reset(seed=0)

    @classmethod
    @typed
    def load(cls, path: str | Path, device: str = "cpu", threads: int = 1) -> Agent:
        """Opens a folder that `league export` wrote, or a snapshot's. Reads safetensors and JSON only, runs no code.

        A custom policy is opened by `league.load`.

        Raises:
            SnapshotError, UsageError: see `load_policy`.
        """
        manifest, policy = load_policy(path, device)
        return cls(policy, manifest, threads)

    def reset(self, seed: int | None = None, *, rows: npt.ArrayLike | None = None) -> None:
        """Forgets the match; with `seed`, the actions drawn from here on are reproducible.

        Args:
            seed: of the actions drawn; None draws on.
            rows: (n,) indices in the stack whose matches begin, while the others go on; None: all.

        Raises:
            UsageError: the seed is not an integer from 0 to 2^63 - 1, or a row is not one of the stack's.
        """
        if seed is not None:
            if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or not 0 <= seed <= MAX_SEED:
                raise UsageError(f"seed={shown(seed)}: must be an integer from 0 to 2^63 - 1, or None to draw on")
            self._generator.manual_seed(int(seed))
        num_rows = self._num_rows
        if rows is None:
            self._state = self.policy.initial_state(num_rows)
            self._is_fresh = True
            return
        places = np.asarray(rows)
        if places.ndim != 1 or places.dtype.kind not in "iu" or not ((places >= 0) & (places < num_rows)).all():
            raise UsageError(f"rows={shown(rows)}: must be integers from 0 to {num_rows - 1}")
        self._state.clear(torch.from_numpy(places.astype(np.int64)).to(self._device))

    def act(
        self,
        obs: npt.ArrayLike,
        mask: npt.ArrayLike | None = None,
        *,
        greedy: bool = False,
        rows: npt.ArrayLike | None = None,
    ) -> npt.NDArray[Any]:
        """The action for what this seat sees now, int64, or float32 where it has real numbers.

        Args:
            obs: (obs_size,) or (N, obs_size) float, as the game writes it; N may change only after `reset`.
            mask: (M,) or (N, M) bool, what is legal now; None when everything is. Of `legal_tuples` the legal actions,
                int16, as the game lists them.
            greedy: the likeliest action instead of a draw.
            rows: (n,) indices in the stack, each once, of the matches that this decides in, in games in turns; `obs`
                and `mask` are of these alone, and the others wait. None: all.

        Raises:
            UsageError: a shape or type does not fit, an observation is not finite, a token unknown, or a part has no
                legal choice. The agent's memory is as it was.
            SnapshotError: the network's numbers overflow, or its likeliest action is not legal.
        """
        spec = self._spec
        seen = self._seen(obs)
        legal = _legal(mask, len(seen), spec.action)
        which = self._rows_of(rows, len(seen))
        device = self._device
        with torch.no_grad(), StepKept():
            torch.set_num_threads(self._threads)
            action, log_prob, _ = self.policy.step(
                seen.to(device),
                self._state,
                mask=None if legal is None else legal.to(device),
                rows=which,
                generator=self._generator,
                greedy=greedy,
            )
        played: npt.NDArray[Any] = action.cpu().numpy()
        problem = ""
        if not torch.isfinite(log_prob).all():
            problem = "its network gives no finite numbers for this observation"
        elif legal is not None or spec.action.has_real:
            given = None if legal is None else legal.numpy()
            is_legal = spec.action.is_legal(played.astype(spec.action.dtype), given)
            if not is_legal.all():
                problem = f"its network plays {played[np.argmin(is_legal)].tolist()}, which is not legal here"
        if problem:
            raise SnapshotError(f"{self.manifest.run}@{self.manifest.step}: {problem}; take an earlier snapshot")
        return played[0] if np.ndim(obs) == 1 else played

    def watch(self, obs: npt.ArrayLike, *, rows: npt.ArrayLike | None = None) -> None:
        """What this seat sees in a game in turns after the other's decision, where it waits on; it is remembered.

        What it sees when it decides itself is for `act` alone.

        Args:
            obs, rows: as of `act`.

        Raises:
            UsageError: as `act`.
        """
        seen = self._seen(obs)
        which = self._rows_of(rows, len(seen))
        with StepKept():
            torch.set_num_threads(self._threads)
            self.policy.watch(seen.to(self._device), self._state, rows=which)

    def _seen(self, obs: npt.ArrayLike) -> torch.Tensor:
        """obs as (N, obs_size)."""
        seen = _rows("obs", obs, np.float32, self._spec.obs_size)
        if not np.isfinite(seen).all():
            raise UsageError("obs: every value must be finite; got NaN or infinity")
        for part in self._spec.observation or ():
            problem = part.problem(seen)
            if problem:
                raise UsageError(f"obs: {problem}")
        return torch.from_numpy(seen)

    def _rows_of(self, rows: npt.ArrayLike | None, num_seen: int) -> torch.Tensor | None:
        """`rows` as indices of a stack that is as long as they need; None: they are the stack."""
        if rows is not None:
            which = self._indices(rows, num_seen)
            self._is_fresh = False
            return torch.from_numpy(which).to(self._device)
        if num_seen != self._num_rows:
            if not self._is_fresh:
                raise UsageError(
                    f"obs: {num_seen} rows, but this match began with {self._num_rows}; call reset() first"
                )
            self._state, self._num_rows = self.policy.initial_state(num_seen), num_seen
        self._is_fresh = False
        return None

    def _indices(self, rows: npt.ArrayLike, num_seen: int) -> npt.NDArray[np.int64]:
        which = np.asarray(rows)
        fits = which.shape == (num_seen,) and which.dtype.kind in "iu" and (which >= 0).all()
        if not fits or len(np.unique(which)) < num_seen:
            raise UsageError(f"rows={shown(rows)}: must be one index of 0 or more for each of {num_seen} observations")
        new = int(which.max()) + 1 - self._num_rows
        if new > 0:
            self._state = self._state.join([self.policy.initial_state(new)])
            self._num_rows += new
        return which.astype(np.int64)


def _rows(name: str, values: npt.ArrayLike, dtype: npt.DTypeLike, width: int) -> npt.NDArray[Any]:
    """A copy of `values` as (N, width) of `dtype`."""
    try:
        if np.iscomplexobj(values):
            raise TypeError("these are complex")
        with np.errstate(over="ignore"):
            array = np.array(values, dtype, order="C")
    except (TypeError, ValueError, OverflowError) as error:
        raise UsageError(f"{name}: must be an array of numbers ({error}); shape ({width},) or (N, {width})") from None
    if array.ndim not in (1, 2) or array.shape[-1] != width or not len(array):
        raise UsageError(f"{name}: shape must be ({width},) or (N, {width}), got {array.shape}")
    return array.reshape(-1, width)


def _legal(mask: npt.ArrayLike | None, num_rows: int, action: ActionSpec) -> torch.Tensor | None:
    """The mask as (num_rows, M) of its type, with something legal in every part; None where everything is."""
    if mask is None or not action.mask_size:
        if action.kind == "legal_tuples":
            raise UsageError("mask=None: this agent chooses among the legal tuples; give it the game's mask")
        return None
    given = _rows("mask", mask, np.float64, action.mask_size)
    if len(given) != num_rows:
        raise UsageError(f"mask: {len(given)} rows for {num_rows} observations; give one row each")
    if action.kind == "legal_tuples":
        if not ((given >= -1) & (given < 2**15) & (given == np.floor(given))).all():
            raise UsageError("mask: every value must be a choice of a legal tuple, or -1 after the last one")
    elif not ((given == 0) | (given == 1)).all():
        raise UsageError("mask: every value must be true (legal) or false")
    legal = given.astype(action.mask_dtype)
    problem = action.mask_problem(legal)
    if problem:
        raise UsageError(f"mask: {problem}")
    return torch.from_numpy(legal)
