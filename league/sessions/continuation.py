"""Which earlier run a longer stage carries on, and why none."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import torch

from league import config as settings
from league.config import AUTO, Layer
from league.config.models import Config
from league.envs import registry
from league.errors import ConfigError, command
from league.sessions import sizing
from league.sessions.folders import is_pruned
from league.store.rows import RunRow
from league.store.store import Store
from league.types import GameSpec


def find_earlier(store: Store, config: Config, seed: int, run: str | None, fresh: bool) -> tuple[RunRow | None, str]:
    """The run that this stage carries on, if any, and a sentence that says so or why not."""
    stage = config.run.continues
    if not stage:
        return None, ""
    if fresh:
        return None, "starting at step 0: --fresh"
    if run is not None:
        return None, f"starting at step 0: --run {run} names a new run"
    mark = settings.fingerprint(config)
    game_id = registry.game_id(config.env.name, config.env.options)
    runs = store.runs()
    begun = [row for row in runs if (row.fingerprint, row.game_id, row.seed) == (mark, game_id, seed)]
    longer = [row for row in begun if row.stage != stage and row.status != "finished" and row.steps]
    hint = ""
    if longer:
        hint = f"; to carry on {longer[-1].run} instead, use {command('resume', longer[-1].run, store=store.path)}"
    finished = [row for row in runs if row.status == "finished" and _is_shorter(row, stage, config)]
    if not finished:
        return None, f"starting at step 0: there is no finished {stage} in {store.path}{hint}"
    seeded = [row for row in finished if row.seed == seed]
    if not seeded:
        seeds = ", ".join(str(n) for n in sorted({row.seed for row in finished}))
        return None, f"starting at step 0: no finished {stage} has seed {seed} (there are: {seeds})"
    same = [row for row in seeded if (row.fingerprint, row.game_id) == (mark, game_id)]
    if not same:
        newest = seeded[-1]
        why = _differences(settings.to_json(config), _completed(json.loads(newest.config)))
        if not why:
            is_mixed = newest.fingerprint != mark
            why = "settings that changed on the way, when it was resumed" if is_mixed else "the game's version"
        return (
            None,
            f"starting at step 0: {newest.run}, the newest finished {stage} of seed {seed}, differs in {why}{hint}",
        )
    whole = [row for row in same if not is_pruned(store, row.run)]
    newest = (whole or same)[-1]
    if not whole:
        return None, f"starting at step 0: snapshots of {newest.run} were pruned, so it cannot go on{hint}"
    return newest, f"carrying on {newest.run} ({newest.stage}, same fingerprint and seed) from step {newest.steps:,}"


def find_earlier_auto(
    store: Store, config: Config, seed: int, settle_with: Callable[[Layer], tuple[Config, GameSpec, torch.device, str]]
) -> tuple[Config, RunRow, str, str] | None:
    """The run of preset `auto` that this stage carries on with the sizes that `auto` chose on another device.

    Args:
        store, config, seed: as for `find_earlier`; `config` is sized to this device.
        settle_with: the settings of this call with other sizes; what a user has set is kept.

    Returns:
        Its settings, its row, a sentence that says which it is, and one about the sizes; None where there is none.
    """
    for row in reversed(store.runs()):
        is_so = (row.preset, row.status, row.seed) == (AUTO, "finished", seed)
        if not is_so or not _is_shorter(row, config.run.continues, config):
            continue
        sized = settle_with(sizing.sizes_of(json.loads(row.config)))[0]
        if settings.fingerprint(sized) != row.fingerprint:
            continue
        earlier, reason = find_earlier(store, sized, seed, None, False)
        if earlier is not None:
            then, now = sizing.describe(sized), sizing.describe(config)
            kept = f"preset auto: {earlier.run} keeps the sizes of the device that it began on ({then})"
            return sized, earlier, reason, f"{kept}; this one would have {now}: --fresh begins a run with them"
    return None


def _is_shorter(row: RunRow, stage: str, config: Config) -> bool:
    """Whether a run is of a stage, or of a length of its own that is below that of `config`."""
    is_own = row.stage.endswith(settings.OWN_LENGTH)
    return row.stage == stage or (is_own and row.steps < config.run.total_steps)


def _completed(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """A stored config with the settings that came later; as it is where this league cannot read it."""
    try:
        return settings.to_json(settings.from_json(config))
    except ConfigError:
        return config


def _differences(now: Mapping[str, Any], then: Mapping[str, Any]) -> str:
    """The settings that differ between two configs as JSON and count for the fingerprint, at most three by name."""
    ignored = {"env.threads", "env.workers", "env.strict_masks", "learner.device"}

    def flat(config: Mapping[str, Any]) -> dict[str, Any]:
        sections = {**config, "env": {**config["env"], **config["env"]["options"]}}
        pairs = {f"{name}.{key}": value for name, table in sections.items() for key, value in table.items()}
        return {key: value for key, value in pairs.items() if key not in ignored and not key.startswith("run.")}

    a, b = flat(now), flat(then)
    names = [key for key in {**a, **b} if key != "env.options" and a.get(key) != b.get(key)]
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
