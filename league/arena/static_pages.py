"""What `league export --format page` writes beside `agent.onnx`: a page in which a person plays, and a check of it.

The page's own form of the rules is in `page/`; `check.json` has matches recorded here, which the page plays again.
"""

from __future__ import annotations

import base64
import json
from dataclasses import asdict
from importlib import resources
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import torch

from league.arena.games import find_again
from league.arena.templates import PLAIN_KEYS
from league.envs import registry
from league.errors import UsageError, shown
from league.policies.actor_critic import ActorCritic
from league.policies.decision import NEXT, Decision
from league.snapshots.agent import load_policy
from league.snapshots.manifest import Manifest
from league.types import SEATS

SHARED = {"index.html": "static.html", "static.js": "static.js", "draw.js": "draw.js", "player.css": "player.css"}
SCRIPTS = {"brawl": ("brawl.js", "brawl_frame.js"), "openspiel-connect_four": ("connect_four.js",)}
"""Game -> its own scripts, that which the page opens first."""
MATCHES = 2
"""Recorded for the check."""


def page_files(manifest: Manifest, snapshot: Path) -> dict[str, bytes]:
    """Name -> content of all files of the page but the network and its manifest.

    Raises:
        UsageError: no page has this game's rules.
    """
    name = manifest.game.name
    if name not in SCRIPTS:
        raise UsageError(
            f"format=page: a page has the rules of brawl and openspiel:connect_four, not {shown(name)};"
            " pass --format onnx"
        )
    folder = resources.files("league.arena").joinpath("page")
    found = {file: folder.joinpath(part).read_bytes() for file, part in SHARED.items()}
    found |= {script: folder.joinpath(script).read_bytes() for script in SCRIPTS[name]}
    about: dict[str, Any] = {
        "agent": f"{manifest.run}@{manifest.step}",
        "words": "brawl, in this browser alone" if _is_brawl(manifest) else "connect four: click a column",
        "script": SCRIPTS[name][0],
        "isKeys": manifest.spec["action"]["kind"] == "multi_binary",
        "data": _brawl(manifest.game.options) if _is_brawl(manifest) else {},
    }
    find_again(name, manifest.game.came_from, about["agent"])
    matches = record(manifest, snapshot, range(MATCHES))
    return found | {"game.json": _json(about), "check.json": _json({"matches": matches})}


def record(manifest: Manifest, snapshot: Path, seeds: range) -> list[dict[str, Any]]:
    """Matches of the agent against itself: of each decision what it saw, its log-probabilities, its likeliest action.

    What is played is drawn, so that the matches lead to many states.
    """
    _, policy = load_policy(snapshot)
    decision = Decision(cast(ActorCritic, policy)).eval()
    batch: Any = registry.make(manifest.game.name, rows=1, threads=1, options=manifest.game.options)
    found = []
    for seed in seeds:
        rng = np.random.default_rng(seed)
        batch.reset(np.array([seed], np.uint64))
        memories = [decision.initial_inputs(1) for _ in range(SEATS)]
        # brawl's rules begin by the seed, connect four's by the seat of the first player
        begins, steps = seed if _is_brawl(manifest) else int(batch.obs[0, 0, -1]), list[dict[str, Any]]()
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


def _is_brawl(manifest: Manifest) -> bool:
    return manifest.game.name == "brawl"


def _brawl(options: dict[str, Any]) -> dict[str, Any]:
    """Brawl's numbers, as `brawl.js` reads them."""
    from league.envs.brawl import env, moves

    return {
        "rules": asdict(env.rules_of(env.Options(**options))),
        "strikes": [asdict(strike) for strike in moves.STRIKES],
        "starts": [[moves.IDS[f"{weapon}.{kind}"] for kind in moves.KINDS] for weapon in moves.WEAPONS],
        "taunt": moves.IDS[moves.TAUNT],
        "keys": env.KEYS,
        "keyboard": PLAIN_KEYS | env.KEYBOARD,
    }


def _json(found: Any) -> bytes:
    return json.dumps(found, separators=(",", ":"), allow_nan=False).encode()
