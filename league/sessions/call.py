"""What a caller of `league.train`, `league.resume` or `league.Trainer` says, in one frozen object."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from league.arena.parts import Given
from league.arena.parts import enter as enter_parts
from league.config.written import Overrides, as_words
from league.errors import DEFAULT_STORE, UsageError
from league.runtime.ranks import Ranks
from league.training.run import Callback

MEANS = {
    "learner": (("league",), "it names a learner of a league; pass `league`, too"),
    "games": (("against",), "it counts the matches that measure an exploiter; pass `against`, too"),
    "on": (
        ("league", "against"),
        "a cluster trains a league or an exploiter; pass `league` or `against`, too",
    ),
    "own_weights": (("against",), "an exploiter may begin with its agent's weights; pass `against`, too"),
}
"""Keyword -> keywords without one of which it means nothing, and why."""
REFUSED = {
    "league": {
        "fresh": "a league of a new name begins at step 0 anyway; leave it out, or pass another --run",
        "against": "an exploiter is no league; leave one of them out",
    },
    "on": {
        "learner": "all learners of a league train on the cluster; leave it out",
        "at": "a league goes on from its last saved states; leave it out",
    },
    "against": {
        "stage": "an exploiter has no stage; use `steps`",
        "agent": "an exploiter has the network of the agent that it exploits; leave it out",
        "config_file": "an exploiter has the settings of the agent that it exploits; use `overrides`",
        "sampler": "an exploiter meets one agent and has none; leave it out",
        "fresh": "an exploiter of a new name begins at step 0 anyway; leave it out",
        "begin_with": "an exploiter begins from nothing, or with its agent's weights by `own_weights`; leave it out",
    },
}
"""Keyword -> keywords that it refuses, and why."""


@dataclass(frozen=True, kw_only=True)
class Call:
    """What a caller says; each field is a keyword of `league.train` or `league.resume`, which document them."""

    stage: str = "test50k"
    preset: str = "fast"
    agent: str | None = None
    env: object = None
    run: str | None = None
    """A new run's name."""
    steps: int | None = None
    seed: int = 0
    device: str | None = None
    config_file: str | Path | None = None
    overrides: Overrides = ()
    bots: object = None
    sampler: object = None
    policy: object = None
    fresh: bool = False
    league: str | Path | None = None
    learner: str | None = None
    on: str | None = None
    against: str | None = None
    games: int | None = None
    own_weights: bool = False
    begin_with: str | Path | None = None
    resumes: str = ""
    """The run, league or exploiter that goes on; empty: a new one begins."""
    at: int | None = None
    take_over: bool = False
    ranks: Ranks | None = None
    """The processes that answer the call together, of which this is rank 0; None: this one alone."""
    is_custom_loop: bool = False
    """Whether a `Trainer` holds it open; then its run has a fingerprint that no settings have."""
    store: str | Path = DEFAULT_STORE
    callback: Callback | Sequence[Callback] | None = None

    def __post_init__(self) -> None:
        """Refuses keywords that do not go together.

        Raises:
            UsageError: with what would do.
        """
        defaults = {field.name: field.default for field in fields(self)}

        def is_said(name: str) -> bool:
            value = getattr(self, name)
            return value is not None and (not isinstance(value, str | bool) or value != defaults[name])

        for name, (needed, why) in MEANS.items():
            if is_said(name) and not (any(map(is_said, needed)) or self.resumes):
                raise UsageError(f"{name}={getattr(self, name)}: {why}")
        for kind, refused in REFUSED.items():
            for name, why in refused.items():
                if is_said(kind) and is_said(name):
                    raise UsageError(f"{name}={getattr(self, name)}: {why}")
        if self.resumes and self.run is not None and self.at is None:
            raise UsageError(
                f"name={self.run}: a run keeps its name; give `at`, too, to begin a new one from a kept state"
            )

    @property
    def words(self) -> list[str]:
        """Its settings as `section.key=value`, those of `agent` first and `steps` last."""
        return as_words(self.overrides, self.agent, self.steps)

    def parts(self, say: Callable[[str], None]) -> Given:
        """Its custom parts, loaded; their code runs.

        Raises:
            CodeError, ConfigError: as `league.arena.parts.enter`.
        """
        return enter_parts(self.bots, self.sampler, self.policy, say)

    def sets(self, given: Given) -> list[str]:
        """All settings that lie over a stage and a preset: its parts', its own, and the device."""
        begins = [] if self.begin_with is None else [f"learner.begin_with={json.dumps(str(self.begin_with))}"]
        return [*begins, *given.sets, *self.words, *([f"learner.device={self.device}"] if self.device else [])]
