"""A frozen agent that plays by itself: what an export opens into."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from league.errors import SnapshotError, UsageError
from league.policies.actor_critic import ActorCritic, Architecture
from league.snapshots.io import load
from league.snapshots.manifest import Manifest


def load_policy(folder: str | Path, device: str | torch.device = "cpu") -> tuple[Manifest, ActorCritic]:
    """The frozen network of a snapshot or export, its weights checked against the manifest's hash.

    Raises:
        SnapshotError: the folder is missing, damaged, or its weights do not fit its architecture.
    """
    manifest, tensors = load(Path(folder))
    try:
        architecture = Architecture.from_json(manifest.architecture)
        policy = ActorCritic(architecture)
        policy.load_state_dict(tensors)
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        reason = str(error).splitlines()[0]
        raise SnapshotError(
            f"{folder}: weights and architecture do not fit ({reason}); export the agent again"
        ) from error
    return manifest, policy.requires_grad_(False).eval().to(device)


class Agent:
    """One agent in one seat, remembering its match between calls.

    Call `reset()` when a match begins and `act(obs)` once a decision (not once a tick). One observation (obs_size,)
    gives one action (A,); a stack (N, obs_size) plays N matches side by side and gives (N, A).
    """

    def __init__(self, policy: ActorCritic, manifest: Manifest) -> None:
        self.policy = policy
        self.manifest = manifest
        self._generator = torch.Generator(policy.device)
        self._state = policy.initial_state(1)
        self.reset(seed=0)

    @classmethod
    def load(cls, path: str | Path, device: str = "cpu") -> Agent:
        """Opens a folder that `league export` wrote, or a snapshot's. Reads safetensors and JSON only, runs no code.

        Raises:
            SnapshotError: see `load_policy`.
        """
        manifest, policy = load_policy(path, device)
        return cls(policy, manifest)

    def reset(self, seed: int | None = None) -> None:
        """Forgets the match; with `seed`, the actions drawn from here on are reproducible."""
        self._state = self.policy.initial_state(len(self._state.hidden))
        if seed is not None:
            self._generator.manual_seed(seed)

    def act(
        self, obs: npt.ArrayLike, mask: npt.ArrayLike | None = None, *, greedy: bool = False
    ) -> npt.NDArray[np.int64]:
        """The action for what this seat sees now.

        Args:
            obs: (obs_size,) or (N, obs_size) float, as the game writes it; N may change only after `reset`.
            mask: (M,) or (N, M) bool, what is legal now; None when everything is.
            greedy: the likeliest action instead of a draw.

        Raises:
            UsageError: a shape does not fit, or an observation is not finite.
        """
        size, num_logits = self.policy.architecture.obs_size, self.policy.architecture.action.mask_size
        seen = _rows("obs", np.asarray(obs, np.float32), size)
        if not np.isfinite(seen).all():
            raise UsageError("obs: every value must be finite; got NaN or infinity")
        if len(seen) != len(self._state.hidden):
            self._state = self.policy.initial_state(len(seen))
        legal: Any = None
        if mask is not None:
            rows = _rows("mask", np.asarray(mask, np.bool_), num_logits)
            if len(rows) != len(seen):
                raise UsageError(f"mask: {len(rows)} rows for {len(seen)} observations; give one row each")
            legal = torch.from_numpy(rows).to(self.policy.device)
        observation = torch.from_numpy(seen).to(self.policy.device)
        action, _, _ = self.policy.step(observation, self._state, mask=legal, generator=self._generator, greedy=greedy)
        played: npt.NDArray[np.int64] = action.cpu().numpy()
        return played[0] if np.ndim(obs) == 1 else played


def _rows(name: str, values: npt.NDArray[Any], width: int) -> npt.NDArray[Any]:
    """`values` as (N, width)."""
    if values.ndim not in (1, 2) or values.shape[-1] != width:
        raise UsageError(f"{name}: shape must be ({width},) or (N, {width}), got {values.shape}")
    return values.reshape(-1, width)
