"""A run's state: what of its parts is saved, when, and what goes on from it."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from league import __version__
from league.errors import SnapshotError, StoreError, command
from league.play import randomness
from league.play.moving import ALONE, ExecutionSetting, seed_after, told
from league.play.rollout import Collector
from league.pool.pool import Pool
from league.runtime.device import is_out_of_memory
from league.training import probe
from league.training.guards import Guards
from league.training.learner import Learner
from league.training.returns import ReturnSize
from league.training.run import Run
from league.training.together import matches_of, num_matches, seed_of

RETRY_SECONDS = 60.0
"""After a checkpoint that failed, until the next try."""


class SaveClock:
    """When a state is saved next. A new run's first is due at once, so that it can be resumed from its first update."""

    def __init__(self, minutes: float, is_resumed: bool) -> None:
        self._pause, self._due_at = 60 * minutes, -math.inf
        if is_resumed:
            self.start(True)

    def set_minutes(self, minutes: float) -> None:
        """Waits for so long from the next save on."""
        self._pause = 60 * minutes

    @property
    def is_due(self) -> bool:
        """Whether it is time."""
        return time.monotonic() > self._due_at

    def start(self, is_saved: bool) -> None:
        """Begins to wait for the next; where the last one failed, not for long."""
        self._due_at = time.monotonic() + (self._pause if is_saved else min(self._pause, RETRY_SECONDS))


def checkpoint(run: Run, state: dict[str, Any], *, must_succeed: bool, is_mark: bool = False) -> bool:
    """Writes the snapshots, what waits for the store, then the state: a restart never goes on from a state whose
    snapshots or matches are lost.

    is_mark: whether it is kept to go back to (`run.rewind_every`).

    Returns:
        Whether it was written; if not, the older states stand, and training goes on.

    Raises:
        StoreError, SnapshotError: `must_succeed`, and the disk refused.
    """
    try:
        run.artifacts.save_state(state, is_mark=is_mark)
    except (StoreError, SnapshotError) as error:
        if must_succeed:
            raise
        run.callback.say(f"no checkpoint now, but the last one stands: {error}")
        return False
    run.callback.saved(run.counters.steps)
    return True


def state_of(run: Run, learner: Learner, pool: Pool, collector: Collector) -> dict[str, Any]:
    """All that the run goes on from, as `restore` takes it; tensors and plain values only."""
    return {
        "counters": asdict(run.counters),
        "learner": learner.state_dict(),
        "pool": pool.state_dict(),
        "collector": collector.state_dict(),
        "guards": run.guards.state_dict(),
        "generators": randomness.get_state(run.device),
        "probe": probe.foresee(collector) if run.counters.update else None,
        "setting": setting_of(run, collector).to_json(),
    }


def restore(
    run: Run,
    state: dict[str, Any],
    learner: Learner,
    pool: Pool,
    collector: Collector,
    seeded: Sequence[str],
    *,
    begins: bool = True,
) -> bool:
    """Takes `state` over and empties it; what goes on otherwise than it was saved is said and written down.

    Where the state has no matches, or such that cannot be taken over, new ones begin.

    seeded: global generators that did not take the saved state. begins: whether new matches begin at once; else
    the next collector begins them.

    Returns:
        Whether matches are in play.

    Raises:
        SnapshotError: weights, optimiser or pool cannot be read, as where another version of league wrote them.
    """
    counters = run.counters
    counters.load_state_dict(state.pop("counters"))
    try:
        run.guards.load_state_dict(state.pop("guards", None))
        learner.load_state_dict(state.pop("learner"))
        pool.load_state_dict(state.pop("pool"))
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        if is_out_of_memory(error):
            raise
        env = run.env or run.config.env.name
        raise SnapshotError(
            f"run={run.name}: its state cannot be read by this league ({' '.join(str(error).split())[:200]}); read it"
            f" with the one that wrote it, or begin a new run with"
            f" {command('train', '--fresh', '--env', env, store=run.store.path)}"
        ) from error
    matches, saved = state.pop("collector"), state.pop("probe", None)
    taken = None
    if matches is not None and counters.update:
        size, rank = (1, 0) if run.ranks is None else (run.ranks.size, run.ranks.rank)
        seed = seed_of(run, counters.update, seed_after(run.seed, counters.update))
        taken = collector.load_state_dict(matches_of(run, matches, collector), seed)
        taken = replace(taken, carried=size * taken.carried, lost=num_matches(matches) if taken.lost else 0)
        if rank or state["setting"].get("ranks", ALONE) != setting_of(run, collector).ranks:
            saved = None  # of rows that this process does not play
    for kind, line in told(run.name, state.pop("setting"), setting_of(run, collector), taken, seeded):
        run.callback.say(line)
        run.rows.add_event(counters.update, kind, line)
    if counters.update and (taken is None or taken.lost):
        if begins:
            begin_matches(run, collector)
        return begins
    if taken is not None and saved is not None:
        is_drawn_alike = not (taken.is_reseeded or taken.is_regrouped)
        is_same, sentence = probe.compare(saved, probe.foresee(collector), is_drawn_alike=is_drawn_alike)
        run.callback.say(sentence)
        if not is_same:
            run.rows.add_event(counters.update, "probe", sentence)
    return counters.update > 0


def start_again(state: dict[str, Any], weights: dict[str, Any]) -> None:
    """Makes of a learner's saved state that of one that is reset: the league's first weights, Adam without moments.

    Schedules and lessons count from here on. Its games and figures say nothing of it any more, and the matches in play
    are dropped, since the old weights began them. Its snapshots, the ratings and all random number generators are kept.

    Args:
        state: `state_of` a learner whose pool `is_resetting`; changed in place.
        weights: name -> tensor, those of its first snapshot.
    """
    pool, learner, counters = state["pool"], state["learner"], state["counters"]
    first = pool["snapshots"][0]
    learner |= {"policy": weights, "optimizer": {}, "rate_share": 1.0, "returns": ReturnSize().state_dict()}
    if "magnet" in learner:
        learner["magnet"] = weights
    if "foresight" in learner:
        learner["foresight"] = {name: 0 * x for name, x in learner["foresight"].items()}
    state["collector"] = None
    state["watched"]["recent"] = {"scores": {}, "sums": []}
    counters |= {"newest": first, "reset_at": counters["steps"]}
    guards = Guards()
    guards.load_state_dict(state["guards"])
    guards.forget_figures()
    state["guards"] = guards.state_dict()
    pool["results"]["own"] = {}
    pool["league"] |= {"newest": first, "is_resetting": False}


def begin_matches(run: Run, collector: Collector) -> None:
    """Begins a match in each row, after the run's present update."""
    if run.counters.update == 0:
        collector.start(run.seed)
        return
    seed = seed_after(run.seed, run.counters.update, run.config.env.rows)
    collector.generator.manual_seed(seed_of(run, run.counters.update, seed))
    collector.start(seed, updates_made=run.counters.update)


def setting_of(run: Run, collector: Collector) -> ExecutionSetting:
    """What the run's bits depend on here, beside its config and seed."""
    nets = "graphs" if collector.has_graphs else "plain"
    opponents = "stacked" if collector.is_stacked else "net by net"
    parts = run.config.learner.accumulate or 1
    ranks = ALONE if run.ranks is None else str(run.ranks.size)
    lanes = len(collector.lanes)
    return ExecutionSetting(run.device.type, lanes, nets, opponents, run.products, parts, __version__, ranks)


def save_without_matches(run: Run, learner: Learner, pool: Pool, more: Mapping[str, Any]) -> str:
    """Saves the run as of its last whole update, with the weights of now; says whether that went well.

    The matches in play are left out: they may have been interrupted between a net's step and the game's, and they take
    memory. New ones begin when the run goes on.

    more: what else the state has.
    """
    learner.optimizer.zero_grad()
    state = {
        "counters": asdict(run.counters),
        "learner": learner.state_dict(),
        "pool": pool.state_dict(),
        "collector": None,
        "guards": run.guards.state_dict(),
        "setting": {"device": run.device.type, "products": run.products, "version": __version__},
        **more,
    }
    try:
        checkpoint(run, state, must_succeed=True)
    except (MemoryError, RuntimeError, StoreError, SnapshotError) as error:
        why = str(error) or "no memory for it"
        return f"not saved ({why}), so its last saved state stands, or its beginning where there is none"
    return "saved"


def resume_command(run: Run, *more: str) -> str:
    """What carries the run on."""
    return command("resume", run.name, *more, store=run.store.path)
