"""The parts of `league.Trainer`: what may change between two updates, what is learned from, and how a run ends."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterable
from dataclasses import replace

import torch

from league import config as settings
from league.config import CHANGEABLE
from league.errors import ConfigError, LeagueError, UsageError, command, shown
from league.sessions.artifacts import FileArtifactStore
from league.sessions.plans import CUSTOM_LOOP
from league.store.store import Store
from league.training.reports import warn_of_silent_rewards
from league.training.training import Training
from league.types import Policy, Rollout

LIVE = (
    *("learner.learning_rate", "learner.entropy_coefficient", "learner.max_gradient_norm", "learner.target_kl"),
    *("learner.rate_share", "learner.adaptive_kl"),
    *(name for name in CHANGEABLE if name.startswith("run.")),
)
"""What of `league.config.CHANGEABLE` may change between two updates of one process: nothing that play is made of."""
LEARNED_FROM = ("obs", "log_prob", "value", "reward", "next_value", "ends", "is_first")
"""Tensors of a rollout, which must be of the shapes that were played."""


def change(training: Training, artifacts: FileArtifactStore, overrides: Iterable[str]) -> None:
    """Goes on with other settings (`league.Trainer.change`), each a metric `set/NAME` of every later update.

    Raises:
        ConfigError: one that cannot change while the trainer is open, or a value outside its rule.
    """
    run = training.run
    texts = {text.partition("=")[0].strip(): text for text in overrides}
    config = settings.changed(run.config, texts.values())
    for name, text in texts.items():
        if name not in LIVE:
            again = command("resume", run.name, "--set", text, store=artifacts.store.path)
            raise ConfigError(
                f"{name}: play is made of it, so it cannot change while the trainer is open; close() it and go on"
                f" with `league.Trainer.resume({run.name!r}, overrides=[{text!r}])` or {again}"
            )
    data = settings.to_json(config)
    training.reconfigure(config)
    artifacts.config, artifacts.row = config, replace(artifacts.row, config=json.dumps(data))
    artifacts.configure()
    for name in texts:
        section, _, key = name.partition(".")
        if isinstance(data[section][key], int | float):
            training.set_figures[f"set/{name}"] = float(data[section][key])


def settle(training: Training, *, is_waiting: bool) -> None:
    """Saves what is not saved yet; of a finished run its last weights are a snapshot.

    Args:
        is_waiting: a rollout waits to be learned from. It and the matches in play are lost, which is said.

    Raises:
        LeagueError: the store or the disk refused.
    """
    if is_waiting:
        lost = f"{training.collector.num_rows:,} matches in play"
        tell(training, f"closed before its last rollout was learned from; that and {lost} are lost")
        saved = training.save_without_matches()
        if saved != "saved":
            raise LeagueError(f"run={training.run.name}: {saved}")
        return
    if training.is_finished:
        _ = training.snapshot() if training.is_snapshot_due else training.freeze()
    training.save(must_succeed=True)
    if training.is_finished:
        warn_of_silent_rewards(training.run)


def tell(training: Training, what: str) -> None:
    """A line, and an event of the run."""
    run = training.run
    line = f"run={run.name}: custom loop: {what}"
    run.callback.say(line)
    run.rows.add_event(run.counters.update, CUSTOM_LOOP, line)


def need_like(rollout: Rollout, kept: Rollout) -> None:
    """Refuses a rollout that the kept one was not made into.

    Raises:
        UsageError: it is another one's, or a tensor has another shape or type.
    """
    if not isinstance(rollout, Rollout) or rollout.action is not kept.action:
        raise UsageError(
            "learn(rollout): it is not the rollout that collect() gave last; pass that one, or dataclasses.replace of"
            " it with other rewards"
        )
    for field in LEARNED_FROM:
        given, wanted = getattr(rollout, field), getattr(kept, field)
        if not isinstance(given, torch.Tensor):
            raise UsageError(f"learn(rollout): its {field} is {shown(given)}; it must be a tensor")
        if given.requires_grad or given.is_inference():
            raise UsageError(f"learn(rollout): its {field} is part of a graph or of inference mode; clone it outside")
        if (given.shape, given.dtype, given.device) != (wanted.shape, wanted.dtype, wanted.device):
            raise UsageError(
                f"learn(rollout): its {field} is {given.dtype} {tuple(given.shape)} on {given.device}; it must be"
                f" {wanted.dtype} {tuple(wanted.shape)} on {wanted.device}"
            )


def need_idle(run: str, is_acting: bool) -> None:
    """Refuses a phase within a phase.

    Raises:
        UsageError: one has begun and not ended.
    """
    if is_acting:
        raise UsageError(
            f"run={run}: a phase of its trainer goes on, in another thread or around this callback; wait for its end"
        )


def parameters_of(policy: Policy) -> dict[str, tuple[torch.dtype, torch.Size]]:
    """Type and shape of each parameter of a network."""
    return {name: (x.dtype, x.shape) for name, x in policy.named_parameters()}


def need_same(policy: Policy, wanted: dict[str, tuple[torch.dtype, torch.Size]]) -> None:
    """Refuses a network of which a user's loop has changed more than values.

    Raises:
        UsageError: a parameter is gone, new, or of another type or shape.
    """
    found = parameters_of(policy)
    changed = [name for name in {**wanted, **found} if found.get(name) != wanted.get(name)]
    if changed:
        raise UsageError(
            f"policy: parameter {changed[0]} is {found.get(changed[0], 'gone')}, not {wanted.get(changed[0], 'there')}"
            f" as when the trainer was opened; change values in place alone"
        )


def need_alone(store: Store, run: str) -> None:
    """Refuses what a trainer cannot hold open: a league, a learner of one, and an exploiter.

    Raises:
        UsageError: it is one.
    """
    found = [learner for learner in store.learners() if run in (learner.run, learner.league)]
    if found:
        is_exploiter, is_learner = found[0].role == "exploiter", found[0].run == run
        what = "an exploiter" if is_exploiter else "a learner of a league" if is_learner else "a league"
        raise UsageError(f"run={run}: it is {what}; use {command('resume', run, store=store.path)}")


def end_as_by(number: int) -> None:
    """Ends what runs as Python does at a signal."""
    raise KeyboardInterrupt if number == signal.SIGINT else SystemExit(128 + number)
