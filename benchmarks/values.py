"""How well does a network learn who wins? Positions of random matches of an OpenSpiel board game, by supervision alone.

    OMP_NUM_THREADS=1 python -m benchmarks.values --game clobber --matches 20000
    OMP_NUM_THREADS=1 python -m benchmarks.values --game clobber --matches 20000 --set agent.torso=mlp

Trains the small agent's value on the outcomes of the matches, two steps of Adam on each 512 positions, and prints a
JSON line: the explained variance of the outcomes of 1,000 other matches, of all positions and by how many moves were
left; after a third, two thirds and all of the training. `ceiling` is what the best value would explain, by rollouts.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyspiel
import torch
from torch import Tensor

from league.arena import curriculum
from league.arena.games import enter, load_settings
from league.arena.networks import architecture_of
from league.envs import registry
from league.policies.actor_critic import ActorCritic

MINIBATCH, STEPS_EACH, RATE, ROLLOUTS = 512, 2, 2e-3, 40
LEFT = ((0, 3), (4, 7), (8, 13))
"""Moves that are left, from and to."""
Data = tuple[Tensor, Tensor, npt.NDArray[np.int64]]


def matches(env: str, num: int, seed: int) -> Data:
    """Observations (n, obs_size) of who is to move, their outcomes (n,) from -1 to 1, and the moves left (n,)."""
    rng = np.random.default_rng(seed)
    batch: Any = registry.make(env, rows=num, threads=1, options={})
    batch.reset(seed)
    rows = np.arange(num)
    seen: list[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.float32]]] = []
    winner, length, going = np.zeros(num, np.int64), np.zeros(num, np.int64), np.ones(num, np.bool_)
    while going.any():
        batch.held[:] = ~going
        there = rows[going]
        seat = batch.to_act[there].argmax(1)
        seen.append((there, seat, batch.obs[there, seat].copy()))
        length[there] += 1
        weights = batch.mask[there, seat] * rng.random(batch.mask[there, seat].shape)
        batch.actions[there, seat] = weights.argmax(1)[:, None]
        batch.step()
        ended = (batch.terminated | batch.truncated) & going
        winner[ended] = batch.result["winner"][ended]
        going &= ~ended
    outcome = [np.where(winner[r] < 0, 0, np.where(winner[r] == seat, 1, -1)) for r, seat, _ in seen]
    left = [length[r] - 1 - t for t, (r, _, _) in enumerate(seen)]
    obs = torch.from_numpy(np.concatenate([x for _, _, x in seen]))
    return obs, torch.from_numpy(np.concatenate(outcome)).float(), np.concatenate(left)


def values(net: ActorCritic, obs: Tensor) -> Tensor:
    """(n,) of obs (n, obs_size), each the first of a match."""
    num, action = len(obs), net.architecture.action
    actions = torch.zeros(num, 1, 1, dtype=torch.int64)
    mask, begins = torch.ones(num, 1, action.num_logits, dtype=torch.bool), torch.ones(num, 1, dtype=torch.bool)
    return net.sequence(obs[:, None], actions, net.initial_state(num), begins, mask)[2][:, 0]


@torch.no_grad()
def explained(net: ActorCritic, data: Data) -> dict[str, float]:
    """The share of the outcomes' variance that the values explain, of all positions and by the moves left."""
    obs, outcome, left = data
    error = (torch.cat([values(net, part) for part in obs.split(4 * MINIBATCH)]) - outcome).square()
    share = 1 - error / outcome.var()
    of = {f"{low} to {high} left": share[torch.from_numpy((left >= low) & (left <= high))] for low, high in LEFT}
    return {name: round(float(x.mean()), 3) for name, x in {"all": share, **of}.items()}


def ceiling(game: str, num: int, seed: int) -> dict[str, float]:
    """What the exact value of random play explains of `num` matches, without the rollouts' own error."""
    rng, loaded = np.random.default_rng(seed), pyspiel.load_game(game)
    found = dict[str, list[float]]()
    for _ in range(num):
        states, state = [], loaded.new_initial_state()
        while not state.is_terminal():
            states.append(state.clone())
            state.apply_action(int(rng.choice(state.legal_actions())))
        for left, begin in enumerate(reversed(states)):
            mean = float(np.mean([finish(begin, rng) for _ in range(ROLLOUTS)]))
            names = [f"{low} to {high} left" for low, high in LEFT if low <= left <= high]
            for name in ("all", *names):
                found.setdefault(name, []).append(mean**2 - (1 - mean**2) / (ROLLOUTS - 1))
    return {name: round(float(np.mean(x)), 3) for name, x in found.items()}


def finish(begin: Any, rng: np.random.Generator) -> float:
    """The outcome of random play from a state, for who is to move there."""
    state, who = begin.clone(), begin.current_player()
    while not state.is_terminal():
        legal = state.legal_actions()
        state.apply_action(int(legal[int(rng.random() * len(legal))]))
    return float(state.returns()[who])


def measure(game: str, num: int, sets: Sequence[str], seed: int) -> dict[str, Any]:
    """Trains and measures; what is printed."""
    env = enter(f"openspiel:{game}")
    config = curriculum.at_start(load_settings(env=env, overrides=["agent=small", *sets])[0])
    torch.manual_seed(seed)
    net = ActorCritic(architecture_of(config, registry.spec(config.env.name, config.env.options)))
    obs, outcome, _ = matches(config.env.name, num, seed)
    test = matches(config.env.name, 1000, seed + 1)
    optimizer = torch.optim.Adam(net.parameters(), RATE, eps=config.learner.adam_epsilon)
    order = torch.randperm(len(obs)).split(MINIBATCH)
    began, found = time.process_time(), list[dict[str, float]]()
    for number, index in enumerate(order, 1):
        for _ in range(STEPS_EACH):
            optimizer.zero_grad()
            (values(net, obs[index]) - outcome[index]).square().mean().backward()
            torch.nn.utils.clip_grad_norm_(net.parameters(), config.learner.max_gradient_norm)
            optimizer.step()
        if number in {len(order) * third // 3 for third in (1, 2, 3)}:
            found.append(explained(net, test))
    seconds = round(time.process_time() - began, 1)
    return {"game": game, "set": list(sets), "positions": len(obs), "seconds": seconds, "explained": found}


def main() -> None:
    """Prints what is explained, and with `--ceiling` what can be."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--game", default="clobber")
    parser.add_argument("--matches", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--ceiling", action="store_true")
    parser.add_argument("--set", dest="sets", nargs="*", default=[])
    given = parser.parse_args()
    if given.ceiling:
        print(json.dumps({"game": given.game, "ceiling": ceiling(given.game, 120, given.seed)}), flush=True)
    print(json.dumps(measure(given.game, given.matches, given.sets, given.seed)), flush=True)


if __name__ == "__main__":
    main()
