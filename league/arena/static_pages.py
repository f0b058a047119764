"""What `league export --format page` writes beside `agent.onnx`: a page in which a person plays, and a check of it.

The rules in JavaScript are `league.envs.browser`'s; `check.json` has matches recorded here, which the page plays again.
"""

from __future__ import annotations

import base64
import json
from importlib import resources
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import torch

from league.arena.games import find_again
from league.arena.templates import PLAIN_KEYS
from league.envs import registry
from league.envs.browser import GAMES, browser_rules
from league.errors import UsageError, shown
from league.policies.actor_critic import ActorCritic
from league.policies.decision import NEXT, Decision
from league.snapshots.agent import load_policy
from league.snapshots.manifest import Manifest
from league.types import SEATS

SHARED = {"index.html": "static.html", "static.js": "static.js", "draw.js": "draw.js", "player.css": "player.css"}
MATCHES = 2
"""Recorded for the check."""


def page_files(manifest: Manifest, snapshot: Path) -> dict[str, bytes]:
    """Name -> content of all files of the page but the network and its manifest.

    Raises:
        UsageError: no page has this game's rules.
    """
    game, agent = manifest.game, f"{manifest.run}@{manifest.step}"
    rules = browser_rules(game.name, game.options)
    if rules is None:
        raise UsageError(
            f"format=page: a page has the rules of {' and '.join(GAMES)}, not {shown(game.name)}; pass --format onnx"
        )
    find_again(game.name, game.came_from, agent)
    folder = resources.files("league.arena").joinpath("page")
    found = {file: folder.joinpath(part).read_bytes() for file, part in SHARED.items()} | rules.read()
    about: dict[str, Any] = {
        "agent": agent,
        "words": rules.words,
        "script": rules.scripts[0],
        "isKeys": manifest.spec["action"]["kind"] == "multi_binary",
        "data": rules.data | {"keyboard": PLAIN_KEYS | rules.data.get("keyboard", {})},
    }
    matches = record(manifest, snapshot, range(MATCHES), by_seed=rules.by_seed)
    return found | {"game.json": _json(about), "check.json": _json({"matches": matches})}


def record(manifest: Manifest, snapshot: Path, seeds: range, *, by_seed: bool) -> list[dict[str, Any]]:
    """Matches of the agent against itself: of each decision what it saw, its log-probabilities, its likeliest action.

    What is played is drawn, so that the matches lead to many states. by_seed: see `BrowserRules`.
    """
    _, policy = load_policy(snapshot)
    decision = Decision(cast(ActorCritic, policy)).eval()
    batch: Any = registry.make(manifest.game.name, rows=1, threads=1, options=manifest.game.options)
    found = []
    for seed in seeds:
        rng = np.random.default_rng(seed)
        batch.reset(np.array([seed], np.uint64))
        memories = [decision.initial_inputs(1) for _ in range(SEATS)]
        begins, steps = seed if by_seed else int(batch.obs[0, 0, -1]), list[dict[str, Any]]()
        while not steps or not (batch.terminated[0] or batch.truncated[0]):
            acting = batch.to_act[0] if hasattr(batch, "to_act") else np.ones(SEATS, np.bool_)
            decided, actions = [], list[Any]([None] * SEATS)
            for seat in np.flatnonzero(acting).tolist():
                told, batch.actions[0, seat] = _decide(decision, memories[seat], batch, seat, rng)
                actions[seat] = batch.actions[0, seat].tolist()
                decided.append({"seat": seat, **told})
            batch.step()
            steps.append({"seats": decided, "actions": actions})
        found.append({"seed": str(begins), "winner": int(batch.result["winner"][0]), "steps": steps})
    return found


def _decide(
    decision: Decision, memory: dict[str, torch.Tensor], batch: Any, seat: int, rng: np.random.Generator
) -> tuple[dict[str, Any], npt.NDArray[Any]]:
    """What is recorded of a seat's decision, and the action drawn; `memory` is written."""
    obs, mask = batch.obs[0, seat], batch.mask[0, seat]
    seen = {"obs": torch.from_numpy(obs.copy())[None], "mask": torch.from_numpy(mask.copy())[None]}
    outputs = decision.by_step(memory | seen)
    memory |= {name.removeprefix(NEXT): x for name, x in outputs.items() if name.startswith(NEXT)}
    said = outputs["log_probs"][0].numpy()
    if decision.policy.architecture.action.kind == "multi_binary":
        likeliest, drawn = np.exp(said) > 0.5, np.exp(said) > rng.random(said.shape)
    else:
        likeliest, drawn = (np.atleast_1d(x.argmax()) for x in (said, said + rng.gumbel(size=said.shape)))
    told = {"obs": _packed(obs), "mask": mask.astype(int).tolist(), "logProbs": _packed(said)}
    return told | {"likeliest": likeliest.astype(int).tolist()}, drawn


def _packed(numbers: npt.NDArray[np.float32]) -> str:
    return base64.b64encode(numbers.astype("<f4").tobytes()).decode()


def _json(found: Any) -> bytes:
    return json.dumps(found, separators=(",", ":"), allow_nan=False).encode()
