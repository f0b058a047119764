"""A network's behaviour strategy: its action probabilities at every information set of a game."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch

from league.types import GameTree, Policy


@torch.no_grad()
def behaviour(policy: Policy, tree: GameTree) -> npt.NDArray[np.float64]:
    """(I, A): the probability of each action where the network samples.

    It sees what it would in play, from a match's start on, so that its memory is as it would be. With perfect recall
    that is the same at all nodes of a set, and nothing else can move the policy: the table says all that it does.
    """
    (num_sets, longest, _), num_actions = tree.obs.shape, tree.legal.shape[1]
    device = next(policy.parameters()).device
    obs = torch.from_numpy(tree.obs).to(device).repeat_interleave(num_actions, 0)
    action = torch.arange(num_actions, device=device).repeat(num_sets)[:, None, None].expand(-1, longest, 1)
    legal = torch.from_numpy(tree.legal).to(device).repeat_interleave(num_actions, 0)
    mask = legal[:, None, :].expand(-1, longest, -1)
    is_first = torch.zeros(obs.shape[:2], dtype=torch.bool, device=device)
    is_first[:, 0] = True
    log_prob, _, _ = policy.sequence(obs, action, policy.initial_state(len(obs)), is_first, mask)
    last = torch.from_numpy(tree.length - 1).to(device).repeat_interleave(num_actions)
    probability = log_prob.double().gather(1, last[:, None])[:, 0].exp().reshape(num_sets, num_actions).cpu().numpy()
    return np.asarray(probability / probability.sum(axis=1, keepdims=True), np.float64)
