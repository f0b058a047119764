"""Training in one process: a run is a league of one, and a league several learners that take turns.

Every turn goes on from the learner's saved state, as `league resume` does, so what was stopped anywhere is, bit for bit
on a CPU, what was not.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import replace
from functools import partial
from typing import Any, Self

from league import config as settings
from league.arena.agents import STOPPED
from league.arena.agreement import need_agreement
from league.boards.alarms import sound
from league.boards.verdict import judge
from league.envs import registry
from league.errors import Interrupted, SnapshotError, StoreError, UsageError
from league.runtime.signals import on_signal, received
from league.sessions.callbacks import Callbacks
from league.sessions.folders import configured_of, instead
from league.sessions.following import send_start
from league.sessions.plans import Plan, SessionEnd, TrainResult
from league.sessions.recovery import counters_of, forget_after, recovered_state
from league.sessions.wiring import slowness, wire
from league.snapshots import io as snapshot_files
from league.store.carried import STOP
from league.store.locks import alone
from league.store.rows import RunRow, RunStatus
from league.store.store import Store
from league.training.loop import train as run_training
from league.training.run import Counters, Ending, Run, Start
from league.training.saving import start_again

WAIT_SECONDS = 0.2
"""Between two looks at how far the learners of other processes are."""


class _Learner:
    """A plan as far as it is carried out."""

    def __init__(self, plan: Plan) -> None:
        self.plan, self.counters, self.status = plan, Counters(), plan.row.status
        self.is_finished = False
        """Whether it has made its steps, and the store says so."""
        self.is_in_turn = False
        """Whether its saved state is in the middle of a turn."""
        self.is_examined = False
        """Whether it was looked at for damage since this process has its lock."""
        self.has_played = False
        """Whether this process has trained it, and told so."""
        self.verdict = ""
        """On a finished stage that another one carries on."""

    @property
    def claim(self) -> tuple[bool, int]:
        """Sort key of the next learner: one in mid-turn first, then the one with fewest steps."""
        return not self.is_in_turn, self.counters.steps

    def take(self, row: RunRow, state: dict[str, Any]) -> None:
        """Where it stands, from its row in the store and its saved state."""
        self.counters = counters_of(state, self.plan.artifacts)
        is_noted = (row.status, row.stage) == ("finished", self.plan.row.stage)
        self.is_finished = is_noted and self.counters.steps >= self.plan.config.run.total_steps
        self.is_in_turn = self.counters.steps < state["pool"].get("league", {}).get("turn_ends", 0)

    def tell_start(self, counters: Counters) -> None:
        """Tells callbacks where it resumes."""
        plan, self.has_played = self.plan, True
        plan.callback.began(
            Start(
                run=plan.row.run,
                steps=counters.steps,
                update=counters.update,
                total_steps=plan.config.run.total_steps,
                config=settings.to_json(plan.config),
                folder=plan.artifacts.folder,
                identity=plan.artifacts.row.id,
                league=plan.league,
            )
        )

    def tell_end(self) -> None:
        """Tells callbacks that this process trains it no more."""
        if self.has_played:
            status = "finished" if self.is_finished else "failed" if self.status == "failed" else "stopped"
            self.plan.callback.ended(self.counters.steps, status)
        self.has_played = False

    def result(self, signal: int) -> TrainResult:
        counters, status = self.counters, "finished" if self.is_finished else "stopped"
        by = 0 if self.is_finished else signal
        store = self.plan.artifacts.store.path
        return TrainResult(
            run=self.plan.row.run,
            steps=counters.steps,
            updates=counters.update,
            status=status,
            newest=counters.newest,
            signal=by,
            store=store,
            verdict=self.verdict,
        )


class Session:
    """The learners that this process trains. Within it their locks are held.

    Nothing is written into the store before the first of them can play, so a call that is refused changes nothing.

    Locks are held also while another has its turn: `league runs` sees by them who is alive.

    Args:
        store: where all of them are.
        plans: the first one has the first turn.
        callback: the callback that hears of signals.
        is_locked: whether the caller holds the locks, as of a new run whose folder it made.
        conclude: makes the result of a call, once the session has ended and its locks are free.
    """

    def __init__(
        self,
        store: Store,
        plans: Sequence[Plan],
        callback: Callbacks,
        *,
        is_locked: bool = False,
        conclude: Callable[[SessionEnd], TrainResult] = lambda end: end.results[0],
    ) -> None:
        self.conclude = conclude
        self._store, self._callback, self._is_locked = store, callback, is_locked
        self._learners = [_Learner(plan) for plan in plans]
        self._has_begun = False
        self._locks = ExitStack()

    def __enter__(self) -> Self:
        """Takes the locks and looks where everybody stands.

        Raises:
            UsageError: another process trains one, has changed its settings since, or its game is another now.
            SnapshotError: a state or a folder is missing, damaged or another run's.
        """
        with ExitStack() as locks:
            for learner in self._learners:
                if not self._is_locked:
                    locks.enter_context(alone(learner.plan.row.run, learner.plan.artifacts.folder))
                (learner.plan.artifacts.folder / STOP).unlink(missing_ok=True)  # it asked an earlier process
                self._look(learner)
            self._locks = locks.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        with self._locks:
            if self._has_begun:
                self._store.write_catalogue()

    @property
    def is_finished(self) -> bool:
        """Whether all learners have made their steps."""
        return all(learner.is_finished for learner in self._learners)

    def go(self) -> SessionEnd:
        """Trains until all are finished or a signal comes, and leaves their true status in the store."""
        if self._learners and (told := slowness(self._learners[0].plan.device)):
            self._callback.say(told)
        with stop_on_signals(self._callback.say):
            try:
                for turn in itertools.count():
                    waiting = [learner for learner in self._learners if not learner.is_finished]
                    if not waiting or (turn and self._must_stop):  # the first turn is saved, and so can go on
                        break
                    learner = min(waiting, key=lambda learner: learner.claim)
                    if not self._waited(learner):
                        break
                    self._take_turn(learner)
            finally:
                if self._has_begun:
                    with suppress(StoreError):  # the error that ended it is the one to tell
                        self._stop()
                    self._keep_stopped()
                self._tell_ends()
            number = next(iter(received()), 0)
        return SessionEnd(tuple(learner.result(number) for learner in self._learners), number)

    @property
    def _must_stop(self) -> bool:
        """Whether a signal came, a callback has ended it, or `league stop` asked for it."""
        asked = any(learner.plan.artifacts.is_asked_to_stop for learner in self._learners)
        return asked or bool(received()) or self._callback.is_over

    def _waited(self, learner: _Learner) -> bool:
        """Waits before a turn for the learners of other processes that have made fewer steps; False: it must stop."""
        plan, steps, is_told = learner.plan, learner.counters.steps, False
        while not learner.is_in_turn and (names := plan.behind(steps)):
            if not is_told:
                plan.callback.say(f"{plan.row.run}: waits at step {steps:,} for {', '.join(names)}")
            is_told = True
            if self._must_stop:
                return False
            time.sleep(WAIT_SECONDS)
        return True

    @property
    def plans(self) -> Sequence[Plan]:
        """What its learners are."""
        return [learner.plan for learner in self._learners]

    def wire_alone(self) -> tuple[Run, dict[str, Any] | None]:
        """The parts of a session's only learner, and the state that it resumes from, for a caller of the phases.

        `end_alone` is called at the end.
        """
        [learner] = self._learners
        if told := slowness(learner.plan.device):
            self._callback.say(told)
        run, state = self._wire(learner)
        return replace(run, is_over=lambda: False), state  # the loop is not ours to end

    def end_alone(self, counters: Counters, status: RunStatus) -> TrainResult:
        """Writes down where the only learner stands. One that has not begun leaves nothing in the store."""
        [learner] = self._learners
        learner.counters = counters
        if self._has_begun:
            self._end_turn(learner, status)
            self._keep_stopped()
        self._tell_ends()
        return learner.result(0)

    def _look(self, learner: _Learner) -> None:
        plan, name = learner.plan, learner.plan.row.run
        if plan.found is None:
            return
        now = self._store.find_run(name)
        if (now.config, now.fingerprint, now.stage) != (plan.found.config, plan.found.fingerprint, plan.found.stage):
            raise UsageError(f"run={name}: another process has just changed its settings; call again to go on")
        for snapshot in [row for row in self._store.snapshots(name) if row.pruned_at is None][-1:]:
            with suppress(SnapshotError):  # damage is reported where the file is needed
                need_agreement(snapshot_files.load(self._store.path / snapshot.path)[0])
        game, game_id = plan.config.env.name, registry.game_id(plan.config.env.name, plan.config.env.options)
        if game_id != now.game_id:
            raise UsageError(
                f"run={name}: it was trained on game {now.game_id[:8]}, this league's {game} is {game_id[:8]};"
                f" {instead(self._store, now)}"
            )
        learner.status = now.status
        if plan.artifacts.has_begun():
            learner.take(now, plan.artifacts.read_state())

    def _begin(self, forget: Callable[[], None]) -> None:
        """Writes down what this call makes of its learners, once the first of them has all that it plays with.

        forget: what a turn's learner does before it plays.
        """
        for learner in () if self._has_begun else self._learners:
            plan, update = learner.plan, learner.counters.update
            plan.artifacts.keep_guests()
            if plan.found is None:
                plan.artifacts.begin()
            elif not learner.is_finished:
                self._write_settings(learner)
            for kind, text in plan.events if not learner.is_finished else ():
                if text and (update or kind != "resumed"):
                    plan.artifacts.rows.add_event(update, kind, text)
        self._has_begun = True
        forget()

    def _write_settings(self, learner: _Learner) -> None:
        plan = learner.plan
        assert plan.found is not None
        if configured_of(plan.row) != configured_of(plan.found):
            plan.artifacts.configure()
        learner.status = "running"
        plan.artifacts.rows.note(status="running")

    def _take_turn(self, learner: _Learner) -> None:
        """Trains one learner to the end of its turn, or for as long as it goes where it is alone, over its resets.

        A signal may have come already: then it is saved as it stands.
        """
        while True:
            run, state = self._wire(learner)
            ending = self._train(learner, run, state)
            learner.counters = run.counters
            if ending != "reset" or self._must_stop:
                break
        learner.is_in_turn = False
        self._end_turn(learner, "finished" if ending == "finished" else "stopped" if self._must_stop else "running")

    def _wire(self, learner: _Learner) -> tuple[Run, dict[str, Any] | None]:
        """A learner's parts and the state that it goes on from."""
        run = wire(learner.plan)
        state, forget = self._state(learner)

        def begin() -> None:
            self._begin(forget)
            if state is not None:
                run.met.read(self._store, run.name)
            learner.tell_start(run.counters)

        return replace(run, begin=begin), state

    def _end_turn(self, learner: _Learner, status: RunStatus) -> None:
        learner.is_finished = status == "finished"
        self._note(learner, status)
        learner.plan.callback.turn_over()
        if learner.is_finished:
            learner.plan.artifacts.drop_stopped()
        if learner.is_finished and learner.plan.has_alarms:
            self._sound_alarms(learner)
            if settings.longer_stages(learner.plan.row.stage, learner.counters.steps):
                self._judge(learner)

    def _train(self, learner: _Learner, run: Run, state: dict[str, Any] | None) -> Ending:
        learner.status = "running"
        try:
            if run.ranks is not None:
                send_start(learner.plan, run, state)
            return run_training(run, state)
        except Interrupted:
            raise
        except BaseException:
            learner.counters = run.counters
            if self._has_begun:
                with suppress(StoreError):  # the error that ended the run is the one to tell
                    self._note(learner, "failed")
            raise

    def _state(self, learner: _Learner) -> tuple[dict[str, Any] | None, Callable[[], None]]:
        """The learner's saved state, begun again where that is due; None where it has not begun yet.

        Snapshots that the state holds and the store does not, since the process ended in between, are published.

        Returns:
            The state, and what forgets, before anything is played, what was written past it.
        """
        plan, name = learner.plan, learner.plan.row.run
        forget = partial(forget_after, plan.artifacts, plan.callback.say)
        if not plan.artifacts.has_begun():
            if plan.found is not None and (plan.found.status, plan.found.update) != ("stopped", 0):
                plan.callback.say(f"run {name}: it ended before its first state was saved, so it begins at step 0")
            return None, partial(forget, None, -1, -1, is_same=True) if plan.found is not None else lambda: None
        state = recovered_state(plan.artifacts, plan.callback.say, examines=not learner.is_examined)
        counters, covered = state["counters"], state.pop("rows")
        del state["id"]
        forget = partial(
            forget, covered, counters["update"], counters["steps"], is_same=state.get("collector") is not None
        )
        learner.is_examined = True
        if state["pool"].get("league", {}).get("is_resetting"):
            first = state["pool"]["snapshots"][0]
            start_again(state, snapshot_files.load(plan.artifacts.folder / "snapshots" / f"{0:010d}")[1])
            told = f"back to the first weights at step {counters['steps']:,}"

            def forget_and_tell() -> None:
                forget()
                plan.artifacts.rows.add_event(counters["update"] + 1, "reset", f"{told}, {first[:12]}")

            plan.callback.say(told)
            return state, forget_and_tell
        return state, forget

    def _note(self, learner: _Learner, status: RunStatus) -> None:
        counters, learner.status = learner.counters, status
        with suppress(SnapshotError):  # what the run ended with has told it
            learner.plan.artifacts.settle()
        rows = learner.plan.artifacts.rows
        rows.note(status=status, steps=counters.steps, update=counters.update)
        rows.flush(force=True)

    def _stop(self) -> None:
        for learner in self._learners:
            if not learner.is_finished and learner.status != "failed":
                learner.plan.artifacts.rows.note(status="stopped")

    def _keep_stopped(self) -> None:
        """The weights of all learners that were stopped on their way are agents from now on: RUN@stopped."""
        for learner in self._learners:
            artifacts, say = learner.plan.artifacts, learner.plan.callback.say
            if learner.is_finished or learner.status == "failed" or not learner.counters.update:
                continue
            try:
                artifacts.keep_stopped()
                say(f"the weights of now are {learner.plan.row.run}@{STOPPED}, until the run is stopped again or ends")
            except (SnapshotError, StoreError) as error:
                say(f"no {learner.plan.row.run}@{STOPPED}: {error}")

    def _tell_ends(self) -> None:
        for learner in self._learners:
            learner.tell_end()

    def _sound_alarms(self, learner: _Learner) -> None:
        """At a stage's end, says what the store shows to be wrong with the run."""
        say = learner.plan.callback.say
        try:
            for line in sound(self._store, learner.plan.artifacts.rows, learner.counters.update):
                say(line)
        except StoreError as error:
            say(f"no alarms looked for: {error}")

    def _judge(self, learner: _Learner) -> None:
        """At a stage's end, what it foretells of the next."""
        try:
            verdict = judge(self._store, learner.plan.row.run)
        except StoreError as error:
            learner.plan.callback.say(f"no verdict: {error}")
            return
        if verdict is not None:
            learner.verdict = "\n".join(verdict.lines())


def stop_on_signals(say: Callable[[str], None]) -> AbstractContextManager[list[int]]:
    """After the first signal to end, training is to stop at its next update; a second one ends the process at once."""

    def say_so(number: int) -> None:
        with suppress(RuntimeError, OSError):  # it came in the middle of another write, or nobody reads any more
            say("stopping after this update; press again to quit at once")

    return on_signal(say_so)
