"""What a custom loop does otherwise than `league.train`: it is written down, and the run is no longer one of its
settings alone."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Iterator

from torch import Tensor

from league import config as settings
from league.config import CHANGEABLE
from league.errors import ConfigError, UsageError, command
from league.sessions.artifacts import FileArtifactStore
from league.training.training import Training
from league.types import Rollout

LIVE = (
    *("learner.learning_rate", "learner.entropy_coefficient", "learner.max_gradient_norm", "learner.target_kl"),
    *("learner.rate_share", "learner.adaptive_kl"),
    *(name for name in CHANGEABLE if name.startswith("run.")),
)
"""What of `league.config.CHANGEABLE` may change between two updates of one process: nothing that play is made of."""
LEARNED_FROM = ("obs", "log_prob", "value", "reward", "next_value", "ends", "is_first")
"""Tensors of a rollout, which must be of the shapes that were played."""
BY_HAND = "by_hand"
"""Kind of the events that tell what a custom loop does otherwise than `league.train`."""


class ByHand:
    """Watches what a caller does between the phases of a training, and writes it down.

    Args:
        training: the run's, in which acts are called.
        artifacts: its files; its row tells the fingerprint and settings that are written at the next save.
    """

    def __init__(self, training: Training, artifacts: FileArtifactStore) -> None:
        self._training, self._artifacts = training, artifacts
        self._said: set[str] = set()
        self._is_marked = False
        self._has_new_row = False
        self._weights: tuple[int, ...] = ()
        """Versions of the weights after the last act, and of what was played in it."""
        self._played: tuple[int, ...] = ()
        self.remember()

    def remember(self) -> None:
        """What is changed from now on until `look` is changed by hand."""
        self._weights = _versions(self._training.run.policy.parameters())

    def look(self) -> bool:
        """Whether weights were changed since, which is written down."""
        has_changed = _versions(self._training.run.policy.parameters()) != self._weights
        if has_changed:
            self.mark("weights are changed between acts")
        return has_changed

    def keep(self, rollout: Rollout) -> None:
        """Remembers a rollout that was just played."""
        self._played = _versions(_tensors(rollout))

    def compare(self, rollout: Rollout, kept: Rollout) -> None:
        """Writes down whether it is not as it was played."""
        if rollout is not kept or _versions(_tensors(kept)) != self._played:
            self.mark("learns from rollouts that were changed after they were played")

    def change(self, overrides: Iterable[str]) -> None:
        """Gives the training other settings (`league.Trainer.change`).

        Raises:
            ConfigError: one that cannot change now, or a value outside its rule; nothing is changed.
        """
        training, before, run = self._training, self._training.run.config, self._artifacts.row.run
        texts = {text.partition("=")[0].strip(): text for text in overrides}
        config = settings.changed(before, texts.values())
        for name, text in texts.items():
            if name not in LIVE:
                again = command("resume", run, "--set", text, store=self._artifacts.store.path)
                raise ConfigError(
                    f"{name}: play is made of it, so it cannot change while the trainer is open; close() it and go on"
                    f" with `league.Trainer.resume({run!r}, overrides=[{text!r}])` or {again}"
                )
        training.reconfigure(config)
        data = settings.to_json(config)
        self._artifacts.config = config
        self._artifacts.row = dataclasses.replace(self._artifacts.row, config=json.dumps(data))
        self._has_new_row = True
        if settings.fingerprint(config) != settings.fingerprint(before):
            self.mark()
        for name, text in texts.items():
            section, _, key = name.partition(".")
            self.say_once(name, f"from step {training.counters.steps:,} on with {text}")
            if isinstance(data[section][key], int | float):
                training.set_figures[f"set/{name}"] = float(data[section][key])

    def mark(self, what: str = "") -> None:
        """The run is not what its settings alone make of it: it gets a fingerprint that no settings have.

        what: said, and an event, the first time.
        """
        if not self._is_marked:
            row, config = self._artifacts.row, self._training.run.config
            mark = settings.mixed_fingerprint(row.fingerprint, config)
            self._artifacts.row = dataclasses.replace(row, fingerprint=mark)
            self._is_marked = self._has_new_row = True
        if what:
            self.say_once(what, what)

    def say_once(self, name: str, what: str) -> None:
        """As `say`, the first time that it is called for `name`."""
        if name not in self._said:
            self._said.add(name)
            self.say(what)

    def say(self, what: str) -> None:
        """A line, and an event."""
        run = self._training.run
        line = f"run={run.name}: by hand: {what}"
        run.callback.say(line)
        run.rows.add_event(run.counters.update, BY_HAND, line)

    def write_row(self) -> None:
        """Writes settings and fingerprint as they are by now, for the state that is saved next.

        Raises:
            StoreError: the store cannot be written.
        """
        if self._has_new_row:
            self._artifacts.configure()
            self._has_new_row = False


def _tensors(rollout: Rollout) -> Iterator[Tensor]:
    return (getattr(rollout, field) for field in LEARNED_FROM)


def _versions(tensors: Iterable[Tensor]) -> tuple[int, ...]:
    """Numbers of which torch raises one when its tensor is changed in place."""
    return tuple(tensor._version for tensor in tensors)


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
        if (given.shape, given.dtype, given.device) != (wanted.shape, wanted.dtype, wanted.device):
            raise UsageError(
                f"learn(rollout): its {field} is {given.dtype} {tuple(given.shape)} on {given.device}; it must be"
                f" {wanted.dtype} {tuple(wanted.shape)} on {wanted.device}"
            )
