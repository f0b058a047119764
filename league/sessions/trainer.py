"""`league.Trainer`: a run that is trained phase by phase, in a custom loop."""

from __future__ import annotations

import atexit
import dataclasses
import os
import sys
import warnings
import weakref
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, chdir, contextmanager
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

from league.config.models import Config
from league.config.written import Overrides
from league.errors import DEFAULT_STORE, LeagueError, UsageError, command
from league.play import randomness
from league.play.summaries import Summary
from league.pool.pool import Pool
from league.runtime.functions import functions_kept
from league.runtime.process import draws_kept
from league.runtime.signals import on_signal
from league.sessions import custom_loop
from league.sessions.app import open_session
from league.sessions.call import Call
from league.sessions.plans import TrainResult
from league.store.rows import RunStatus
from league.store.store import Store
from league.training.evaluating import evaluated_before
from league.training.loop import stopped_by_alarm
from league.training.run import Callback, Counters
from league.training.training import Training
from league.types import Policy, Rollout
from league.types.arguments import typed


class Trainer:
    """A run whose loop you write yourself; `league.train` is this loop:

        with league.Trainer("smoke", env="kuhn") as trainer:
            while trainer.goes_on:
                if trainer.is_evaluation_due:
                    trainer.evaluate(newest=True)
                rollout = trainer.collect()
                metrics = trainer.learn(rollout)
            trainer.evaluate()

    It is a run as any other: in the store, locked while it is open, and `league resume` or `Trainer.resume` carries it
    on. Several may be open at once in one process, each a run of its own. Between phases the global random number
    generators, the working folder and the handlers of signals are yours.

    Args:
        stage, preset, agent, env, run, steps, seed, device, config_file, overrides: as for `league.train`.
        bots, sampler, policy, fresh, begin_with, store, callback: likewise.

    Raises:
        ConfigError, StoreError: as `league.train`; nothing has been written.
    """

    @typed
    def __init__(
        self,
        stage: str = "test50k",
        *,
        preset: str = "fast",
        agent: str | None = None,
        env: object = None,
        run: str | None = None,
        steps: int | None = None,
        seed: int = 0,
        device: str | None = None,
        config_file: str | Path | None = None,
        overrides: Overrides = (),
        bots: object = None,
        sampler: object = None,
        policy: object = None,
        fresh: bool = False,
        begin_with: str | Path | None = None,
        store: str | Path = DEFAULT_STORE,
        callback: Callback | Sequence[Callback] | None = None,
    ) -> None:
        said = locals()
        self._open(Call(**{name: x for name, x in said.items() if name != "self"}, is_custom_loop=True))

    @classmethod
    @typed
    def resume(
        cls,
        run: str,
        *,
        steps: int | None = None,
        at: int | None = None,
        name: str | None = None,
        take_over: bool = False,
        env: object = None,
        bots: object = None,
        sampler: object = None,
        policy: object = None,
        device: str | None = None,
        overrides: Overrides = (),
        store: str | Path = DEFAULT_STORE,
        callback: Callback | Sequence[Callback] | None = None,
    ) -> Self:
        """The trainer of a run that was stopped, from its last saved state; the arguments are `league.resume`'s.

        Raises:
            ConfigError, LeagueError, SnapshotError: as `league.resume`.
            UsageError: as `league.resume`, or it is a league, a learner of one, or an exploiter.
        """
        said = locals()
        trainer = cls.__new__(cls)
        custom_loop.need_alone(Store.open(Path(store)), run)
        given = {key: x for key, x in said.items() if key not in ("cls", "run", "name")}
        trainer._open(Call(**given, resumes=run, run=name, is_custom_loop=True))
        return trainer

    @functions_kept()
    @draws_kept()
    def _open(self, call: Call) -> None:
        self._is_open = self._is_broken = self._is_acting = False
        self._folder = os.getcwd()
        self._result: TrainResult | None = None
        self._rollout: Rollout | None = None
        """What waits to be learned from."""
        self._summaries: tuple[str, dict[str, Summary]] = ("", {})
        """Of the last evaluation: agent id, and what it did."""
        self._told = 0
        """Number of a signal that waits for the end of an update."""
        with ExitStack() as stack:
            self._session = stack.enter_context(open_session(call))
            run, state = self._session.wire_alone()
            self._artifacts = self._session.plans[0].artifacts
            self._training, self._parameters = Training(run, state), custom_loop.parameters_of(run.policy)
            stack.callback(self._training.close)
            try:
                with self._training.going():
                    self._generators = randomness.get_state(run.device)
            except BaseException:
                self._session.end_alone(run.counters, "failed")
                raise
            self._stack = stack.pop_all()
        self._is_open, self._process = True, os.getpid()
        self._at_exit = partial(_close_forgotten, weakref.ref(self))
        atexit.register(self._at_exit)

    # Where it stands.

    @property
    def run(self) -> str:
        """The run's name."""
        return self._training.run.name

    @property
    def config(self) -> Config:
        """Its settings."""
        return self._training.run.config

    @property
    def policy(self) -> Policy:
        """The network that learns, as it is now."""
        return self._training.run.policy

    @property
    def pool(self) -> Pool:
        """Whom the learner may meet."""
        return self._training.pool

    @property
    def counters(self) -> Counters:
        """A copy of what the run counts: updates, steps, and its newest snapshot."""
        return dataclasses.replace(self._training.counters)

    @property
    def steps(self) -> int:
        """Steps that were learned from."""
        return self._training.counters.steps

    @property
    def is_finished(self) -> bool:
        """Whether the stage's steps are done."""
        return self._training.is_finished

    @property
    def goes_on(self) -> bool:
        """Whether another rollout may be played: it is open and not finished, and no error, callback or `league stop`
        has ended it."""
        is_over = self._is_broken or self._session.plans[0].callback.is_over or self._artifacts.is_asked_to_stop
        return self._is_open and not is_over and not self.is_finished

    @property
    def is_snapshot_due(self) -> bool:
        """Whether the steps have passed a mark of the schedule of snapshots; `collect` takes one that is due."""
        return self._training.is_snapshot_due

    @property
    def is_evaluation_due(self) -> bool:
        """Whether the steps have passed a mark of `run.evaluate_every`, or the stage is finished."""
        return self._training.is_evaluation_due

    @property
    def is_save_due(self) -> bool:
        """Whether `run.checkpoint_minutes` have passed since the last save; `collect` saves where that is due."""
        return self._training.is_save_due

    # The phases.

    @typed
    def collect(self) -> Rollout:
        """Plays a rollout, `learner.rollout_steps` steps of every row; what is due before it is done first.

        That is a snapshot at a mark of the schedule, and saving. It has to be learned from, or discarded.

        Raises:
            UsageError: the rollout before waits to be learned from, or the stage's steps are done.
            LeagueError: as `league.train`; the run has been saved, and the trainer is of no more use.
        """
        self._need_no_rollout("collect()")
        if self.is_finished:
            raise UsageError(
                f"run={self.run}: its {self.config.run.total_steps:,} steps are done; close() it, and let a longer"
                f" stage carry it on"
            )
        with self._acting(is_fatal=True) as training:
            if training.is_snapshot_due:
                training.snapshot()
            if training.alarm is not None:
                raise stopped_by_alarm(training)
            if training.is_save_due:
                training.save(must_succeed=False)
            rollout = self._rollout = training.collect()
        return rollout

    @typed
    def learn(self, rollout: Rollout) -> dict[str, float]:
        """Makes the update of the last rollout, and writes its matches and metrics down.

        Args:
            rollout: what `collect` gave last, or `dataclasses.replace` of it, as with other rewards: (T, B) tensors.

        Returns:
            The update's metrics by name (docs/training.md), as the store has them.

        Raises:
            UsageError: it is not the last rollout, was learned from already, or has other shapes.
            LeagueError: as `league.train`; the run has been saved, and the trainer is of no more use.
        """
        kept = self._rollout
        if kept is None:
            raise UsageError("learn(rollout): no rollout waits to be learned from; collect() one first")
        custom_loop.need_like(rollout, kept)
        rollout = dataclasses.replace(rollout, finished=kept.finished)
        with self._acting(is_fatal=True) as training:
            metrics = training.learn(rollout)
            self._rollout = None
        return metrics

    def discard(self) -> None:
        """Leaves the last rollout out: nothing is learned from it, its steps and matches do not count.

        Matches in play go on. What the rollout finished is in no row; its number is said and is an event.

        Raises:
            UsageError: no rollout waits to be learned from.
        """
        if self._rollout is None:
            raise UsageError("discard(): no rollout waits to be learned from")
        rollout, self._rollout = self._rollout, None
        with self._acting() as training:
            what = f"{rollout.reward.numel():,} steps and {len(rollout.finished):,} finished matches"
            custom_loop.tell(training, f"a rollout of {what} is left out")

    @typed
    def snapshot(self, *, joins: bool = True) -> str:
        """Freezes the agent as it is now into a snapshot, and returns its agent id.

        Args:
            joins: whether the learner meets it from now on.

        Raises:
            UsageError: a rollout waits to be learned from.
            SnapshotError: the disk refused it; it is in memory, and each later phase tries to write it again.
        """
        self._need_no_rollout("snapshot()")
        with self._acting() as training:
            is_due = training.is_snapshot_due
            agent_id = training.freeze()
            if is_due or (joins and agent_id not in training.pool.snapshots):
                training.snapshot()
            self._artifacts.settle()
        return agent_id

    @typed
    def evaluate(self, *, newest: bool = False) -> dict[str, Summary]:
        """Lets the agent as it is now play games of its own against fixed opponents; nothing that is learned changes.

        These are the game's bots, the first snapshot, and agents from elsewhere in the mix. A snapshot plays: one is
        taken where there is none of now, and does not join the pool. Asked again, what it did is returned.

        Args:
            newest: the newest snapshot plays instead, as in `league.train` while it goes on.

        Returns:
            Opponent by name (`bot:NAME`, RUN@0, `agent:HASH`) -> what the agent did against it.

        Raises:
            UsageError: a rollout waits to be learned from.
        """
        self._need_no_rollout("evaluate()")
        with self._acting() as training:
            if training.is_snapshot_due:
                training.snapshot()
            found = training.evaluate(newest=newest)
            agent_id = training.counters.newest
            if found:
                self._summaries = (agent_id, found)
            elif self._summaries[0] != agent_id and training.counters.evaluated == agent_id:
                training.run.rows.flush(force=True)
                self._summaries = (agent_id, evaluated_before(training.run, training.pool, agent_id))
        return dict(self._summaries[1])

    @typed
    def save(self) -> None:
        """Saves the run as it is, so that it can go on from here.

        Raises:
            UsageError: a rollout waits to be learned from.
            StoreError, SnapshotError: the store or the disk refused; the state before stands.
        """
        self._need_no_rollout("save()")
        with self._acting() as training:
            training.save(must_succeed=True)

    @typed
    def change(self, *overrides: str) -> None:
        """Goes on with other settings, as `league resume --set` would: `change("learner.learning_rate=3e-4")`.

        Each is a metric `set/NAME` of every later update.

        Raises:
            ConfigError: a setting that cannot change now, or a value outside its rule; nothing is changed.
        """
        with self._acting() as training:
            custom_loop.change(training, self._artifacts, overrides)

    # Its end.

    @typed
    def close(self) -> TrainResult:
        """Ends it: the run is saved, and says whether it is finished or stopped. Another call changes nothing.

        Where a rollout waits to be learned from, it and the matches in play are lost; the number is said.

        Raises:
            StoreError, SnapshotError: the store or the disk refused; the last saved state stands.
        """
        return self._close("stopped")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """As `close`. After an error of yours the run is saved as well, and its status is `failed`."""
        try:
            self._close("failed" if kind is not None and issubclass(kind, Exception) else "stopped")
        except LeagueError as trouble:
            if kind is None:
                raise
            self._training.run.callback.say(str(trouble))

    def __del__(self) -> None:
        if getattr(self, "_is_open", False) and self._process == os.getpid() and not sys.is_finalizing():
            warnings.warn(f"run={self.run}: its trainer was never closed; it is now", ResourceWarning, stacklevel=2)
            self.close()

    @functions_kept()
    @draws_kept()
    def _close(self, status: RunStatus) -> TrainResult:
        training = self._training
        if self._result is not None:
            return self._result
        custom_loop.need_idle(self.run, self._is_acting)
        self._is_open = False
        atexit.unregister(self._at_exit)
        with chdir(self._folder), self._stack:
            end: RunStatus = "failed"
            try:
                if not self._is_broken:
                    with self._acting(is_last=True):
                        custom_loop.settle(training, is_waiting=self._rollout is not None)
                        self._rollout = None
                    end = "finished" if training.is_finished else status
            finally:
                self._result = self._session.end_alone(training.counters, end)
        if self._told:
            custom_loop.end_as_by(self._told)
        return self._result

    # What all phases share.

    @contextmanager
    def _acting(self, *, is_fatal: bool = False, is_last: bool = False) -> Iterator[Training]:
        """A phase: the global generators are the run's, and a signal waits until nothing waits to be learned from.

        Then the run is saved and Python is told as usual: KeyboardInterrupt, or SystemExit with 128 + its number.

        Args:
            is_fatal: after any error the training is in the middle of something, and of no more use.
            is_last: it is being closed.
        """
        training = self._training
        custom_loop.need_idle(self.run, self._is_acting)
        if self._is_broken or not (self._is_open or is_last):
            why = "an error has ended it" if self._is_broken else "it is closed"
            again = command("resume", self.run, store=self._artifacts.store.path)
            raise UsageError(f"run={self.run}: {why}; go on with `league.Trainer.resume({self.run!r})` or {again}")
        custom_loop.need_same(training.run.policy, self._parameters)
        device, self._is_acting = training.run.device, True
        line = "stopping after this update; press again to quit at once"
        with on_signal(lambda number: training.run.callback.say(line)) as received:
            try:
                with functions_kept(), chdir(self._folder), draws_kept():
                    randomness.set_state(self._generators, device)
                    with training.errors_told():
                        yield training
                    self._generators = randomness.get_state(device)
            except BaseException as error:
                self._is_broken = is_fatal or not isinstance(error, LeagueError)
                raise
            finally:
                self._is_acting = False
        self._told = self._told or next(iter(received), 0)
        if self._told and self._rollout is None and not is_last:
            number, self._told = self._told, 0
            self.save()
            custom_loop.end_as_by(number)

    def _need_no_rollout(self, phase: str) -> None:
        if self._rollout is not None and not self._is_broken:
            raise UsageError(f"{phase}: the last rollout waits to be learned from; learn(rollout), or discard() it")


def _close_forgotten(trainer: weakref.ref[Trainer]) -> None:
    """At the interpreter's exit."""
    found = trainer()
    if found is not None and found._is_open and found._process == os.getpid():
        found.close()
