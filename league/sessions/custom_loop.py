"""What a custom loop may change between two updates, and what it may learn from."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from league import config as settings
from league.config import CHANGEABLE
from league.config.models import Config
from league.errors import ConfigError, UsageError, command
from league.types import Rollout

LIVE = (
    *("learner.learning_rate", "learner.entropy_coefficient", "learner.max_gradient_norm", "learner.target_kl"),
    *("learner.rate_share", "learner.adaptive_kl"),
    *(name for name in CHANGEABLE if name.startswith("run.")),
)
"""What of `league.config.CHANGEABLE` may change between two updates of one process: nothing that play is made of."""
LEARNED_FROM = ("obs", "log_prob", "value", "reward", "next_value", "ends", "is_first")
"""Tensors of a rollout, which must be of the shapes that were played."""


def changed_live(config: Config, overrides: Iterable[str], run: str, store: Path) -> tuple[Config, dict[str, str]]:
    """The settings with some changed (`league.Trainer.change`), and the overrides by name.

    Raises:
        ConfigError: one that cannot change while the trainer is open, or a value outside its rule.
    """
    texts = {text.partition("=")[0].strip(): text for text in overrides}
    found = settings.changed(config, texts.values())
    for name, text in texts.items():
        if name not in LIVE:
            again = command("resume", run, "--set", text, store=store)
            raise ConfigError(
                f"{name}: play is made of it, so it cannot change while the trainer is open; close() it and go on"
                f" with `league.Trainer.resume({run!r}, overrides=[{text!r}])` or {again}"
            )
    return found, texts


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
