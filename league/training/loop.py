"""The league's main loop, in phases: snapshot, evaluate, save, play, learn."""

from __future__ import annotations

from typing import Any

from league.errors import LeagueError
from league.training.reports import warn_of_silent_rewards
from league.training.run import Ending, Run
from league.training.saving import resume_command
from league.training.training import Training


def train(run: Run, state: dict[str, Any] | None = None) -> Ending:
    """Trains until the stage's steps are done, a signal comes (`signals.received`) or the pool ends it, saved.

    Args:
        run: the parts; its counters say where it stands.
        state: what an earlier call saved, which this one empties; the run goes on from there, bit for bit on a CPU.

    Returns:
        Why it ended. After a reset the caller changes the state and calls again.

    Raises:
        LeagueError: the memory is used up, a guard found what cannot be, or an alarm ends the run; the state has been
            saved, and it says what to change.
    """
    training = Training(run, state)
    try:
        with training.going():
            return _loop(training)
    finally:
        training.close()


def _loop(training: Training) -> Ending:
    while True:
        # Freeze: a snapshot joins the pool at its mark.
        if training.is_snapshot_due:
            training.snapshot()

        # Evaluate: the newest snapshot plays games of its own; of a finished stage, the last weights.
        if training.is_evaluation_due:
            training.evaluate(newest=not training.is_finished)

        # Save: at the end, when others wait for the snapshot, and every few minutes.
        ending = training.ending
        if training.alarm is not None and ending in (None, "reset"):
            raise stopped_by_alarm(training)
        if ending or training.is_save_due:
            training.save(must_succeed=bool(ending))
        if ending == "finished":
            warn_of_silent_rewards(training.run)
        if ending:
            return ending

        # Play: rows meet opponents that the pool draws, each until its match ends.
        rollout = training.collect()

        # Learn: one update; matches and metrics are written down.
        training.learn(rollout)
        del rollout  # else it stays in memory until the next one is whole


def stopped_by_alarm(training: Training) -> LeagueError:
    """Saves a run whose settings let an alarm end it, so that it can go on from here; what it ends with."""
    run, alarm = training.run, training.alarm
    assert alarm is not None
    training.forget_alarms()
    training.save(must_succeed=True)
    return LeagueError(
        f"run={run.name}: stopped at step {run.counters.steps:,}, saved, since run.on_alarm=stop:"
        f" {alarm.message} ({resume_command(run, '--set', 'run.on_alarm=warn')} goes on all the same)"
    )
