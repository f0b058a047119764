"""A run under way: its parts, and the phases that its loop is made of."""

from __future__ import annotations

import signal
import time
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from league.config.models import Config
from league.config.updates import next_snapshot_mark, smaller
from league.errors import GuardError, Interrupted, LeagueError, code_told
from league.play import randomness
from league.play.graphs import StepGraphs
from league.play.moving import seed_after
from league.play.rollout import Collector, make_calls, make_collector
from league.play.summaries import Summary
from league.pool.payoff_games import measure_payoffs
from league.runtime.device import is_out_of_memory, prepare_training
from league.runtime.phases import phase
from league.runtime.process import draws_kept, settings_kept
from league.runtime.ranks import LostRank
from league.runtime.signals import received
from league.training.compiling import compiled
from league.training.evaluating import evaluate
from league.training.guards import Alarm
from league.training.ladder import climb
from league.training.learner import Learner
from league.training.recent import Recent, action_metrics, match_metrics
from league.training.reports import report, tell, tell_of_bots
from league.training.run import Counters, Ending, Lesson, Run
from league.training.saving import (
    SaveClock,
    begin_matches,
    checkpoint,
    restore,
    resume_command,
    save_without_matches,
    state_of,
)
from league.training.together import PLAY, SAVE, Together, generators_of, make_generator, seed_of, share_of
from league.types import Origin, Rollout

OUT_OF_TURN = 1 << 24
"""Number of the first match row of an evaluation between two snapshots' marks: that of a mark may be at the same
update, and has fewer rows."""


class Training:
    """A run under way. `league.training.loop` calls its phases in order, and `league.Trainer` lets a caller do so.

    Args:
        run: the parts; its counters say where it stands.
        state: what an earlier training saved, which this one empties; the run goes on from there, bit for bit on a
            CPU, once it is `going`.
    """

    def __init__(self, run: Run, state: dict[str, Any] | None = None) -> None:
        self.run, self.counters = run, run.counters
        config = run.config
        prepare_training(run.device)
        pool_rng, learner_rng = (np.random.default_rng(s) for s in np.random.SeedSequence(run.seed).spawn(2))
        self.learner = Learner(run.policy, config.learner, learner_rng, run.device, run.ranks)
        if config.learner.compile == "compile":
            self.learner.sequence = compiled(run.policy.sequence, run.callback.say)
        elif run.device.type == "cuda" and config.learner.compile != "off" and run.ranks is None:
            self.learner.replay(StepGraphs(torch.Generator(run.device), "float32", run.callback.say))
        self.pool = run.make_pool(config.pool, run.artifacts.load_policy, pool_rng, run.artifacts.guests)
        self.together = None if run.ranks is None else Together(run.ranks, run, self.pool)
        """What passes between several ranks; None: this process trains alone."""
        self._state = state
        self._has_begun = False
        self._clock = SaveClock(config.run.checkpoint_minutes, bool(state))
        self._has_news = False
        """Whether others wait for a snapshot of which no state is saved yet."""
        self._is_mark = False
        """Whether the state of now is one to go back to, and is not saved yet."""
        self._alarms: list[Alarm] = []
        self.set_figures: dict[str, float] = {}
        """Settings that were changed on the way, which are metrics from then on: `set/SECTION.KEY` -> value."""
        self._play_seconds = 0.0
        self._has_matches = False
        """Whether matches are in play."""
        self._generator = make_generator(run)
        with self.errors_told():
            self.lesson = _lesson_of(run, state)
            self.collector = self._make_collector()
        self._recent = Recent(self.pool, run.name)

    @contextmanager
    def going(self) -> Iterator[None]:
        """Within it the state is taken over and phases may be called; the global generators are the run's.

        Raises:
            LeagueError: the memory is used up, a guard found what cannot be, or an alarm ends the run; the state has
                been saved, and it says what to change.
        """
        run, state = self.run, self._state
        generators = generators_of(run.ranks, state) if state else None
        update = state["counters"]["update"] if state else 0
        seed, seed_now = seed_of(run, update, run.seed), seed_after(run.seed, update) if state else 0
        with self.errors_told(), randomness.of_a_run(seed, run.device, generators, seed_now) as seeded:
            if state:
                is_next = run.lesson_at(Counters(**state["counters"]).steps_learned).number != self.lesson.number
                self._has_matches = restore(
                    run, state, self.learner, self.pool, self.collector, seeded, begins=not is_next
                )
                self._restore_watched(state.pop("watched"))
                if self.together is not None:
                    self.together.begin()
            self._follow_schedules()
            run.begin()
            self._has_begun = True
            yield

    # Where it stands.

    @property
    def is_finished(self) -> bool:
        """Whether the stage's steps are done."""
        return self.counters.steps >= self.run.config.run.total_steps

    @property
    def ending(self) -> Ending | None:
        """Why no other rollout is played; None: one is. Who is told to stop does so at once: an end is for later."""
        if received():
            return "stopped"
        return "finished" if self.is_finished else "stopped" if self.run.is_over() else self.pool.ending

    @property
    def alarm(self) -> Alarm | None:
        """What ends the run, where `run.on_alarm` is `stop`: the first alarm since the last rollout."""
        return self._alarms[0] if self._alarms and self.run.config.run.on_alarm == "stop" else None

    def forget_alarms(self) -> None:
        """None ends the run until the next rollout: it has ended it."""
        self._alarms = []

    @property
    def is_snapshot_due(self) -> bool:
        """Whether the steps have passed a mark of the schedule (`league.config.updates.next_snapshot_mark`)."""
        return self.counters.steps >= self.counters.next_snapshot and self.ending in (None, "finished")

    @property
    def is_evaluation_due(self) -> bool:
        """At the cadence's marks (0: none) from the first snapshot on, and when the stage is finished."""
        every, counters = self.run.config.run.evaluate_every, self.counters
        is_at_mark = bool(every and counters.newest and counters.steps >= counters.next_evaluation)
        return (self.is_finished or (is_at_mark and not self.run.is_over())) and not received()

    @property
    def is_save_due(self) -> bool:
        """When others wait for a snapshot, at the marks of `run.rewind_every`, and every few minutes from the first
        update on."""
        return self._has_news or self._is_mark or bool(self.counters.update and self._clock.is_due)

    # The phases.

    def snapshot(self) -> str:
        """Freezes the agent: a snapshot joins the pool, and is its newest agent. Returns its agent id."""
        counters = self.counters
        self.pool.admit(self.freeze())
        measure_payoffs(self.run, self.pool)
        self._climb()
        counters.next_snapshot = next_snapshot_mark(self.run.config, counters.steps)
        self._has_news = self.pool.is_shared
        return counters.newest

    def _climb(self) -> None:
        """Lets the newest snapshot play on the ladder; what a signal breaks off is left out."""
        if self.run.config.run.ladder_share:
            try:
                with draws_kept():
                    climb(self.run, self.pool.snapshots)
            except Interrupted as told:
                signal.raise_signal(told.number)

    def freeze(self) -> str:
        """A snapshot of the present weights, which does not join the pool; the newest where that is one."""
        if self.counters.newest_steps != self.counters.steps or not self.counters.newest:
            _take_snapshot(self.run, self.counters, self.learner.returns.size)
        return self.counters.newest

    def evaluate(self, *, newest: bool = False) -> dict[str, Summary]:
        """Lets a snapshot play its games against fixed opponents, once (`league.training.evaluating.evaluate`).

        Nothing of it is seen by the learner. What a signal breaks off is not written and is due again.

        Args:
            newest: the newest snapshot; else one of the present weights, which is taken if the newest is older, and
                which does not join the pool.

        Returns:
            Opponent by name -> what the snapshot did; empty if it was broken off, or has played before.
        """
        run, counters = self.run, self.counters
        is_extra = not newest and counters.newest_steps != counters.steps
        first_row = OUT_OF_TURN if is_extra and not self.is_finished else 0
        if not newest:
            self.freeze()
        summaries: dict[str, Summary] = {}
        if counters.newest != counters.evaluated:
            try:
                with draws_kept():
                    summaries, alarms = evaluate(run, self.pool, counters.newest, first_row)
            except Interrupted as told:
                signal.raise_signal(told.number)  # for the run as a whole
                return {}
            self._alarms += alarms
        counters.evaluated = counters.newest
        if every := run.config.run.evaluate_every:
            counters.next_evaluation = (counters.steps // every + 1) * every
        return summaries

    def save(self, *, must_succeed: bool = False) -> bool:
        """Saves the state as it is between two updates (`league.training.saving.checkpoint`).

        Returns:
            Whether it was written; if not, the one before stands.
        """
        state = state_of(self.run, self.learner, self.pool, self.collector) | self._own_state()
        if self.together is not None:
            self.together.gather_segments()
            self.together.order(SAVE)
            state |= self.together.gather_state(self.learner, self.collector)
        is_saved = checkpoint(self.run, state, must_succeed=must_succeed, is_mark=self._is_mark)
        self._clock.start(is_saved)
        self._has_news = self._is_mark = False
        return is_saved

    def save_without_matches(self) -> str:
        """The same in the middle of a rollout, which is lost with the matches in play; says whether that went well."""
        if self.together is not None:
            self.together.write_alone()
        return save_without_matches(self.run, self.learner, self.pool, self._own_state())

    def collect(self) -> Rollout:
        """Plays a rollout against opponents that the pool draws: `learner.segments` segments, which stand beside each
        other, of `learner.rollout_steps` steps of every row."""
        counters, together = self.counters, self.together
        self.run.artifacts.settle(wait=False)
        lesson = self.run.lesson_at(counters.steps_learned)
        if lesson.number != self.lesson.number:
            self._begin_lesson(lesson)
        in_use = self.collector.opponents_in_use()
        if together is None:
            self.pool.refresh_targets(in_use)
        else:
            if together.leads and self.run.rows.is_flush_due:
                together.gather_segments()
            together.order(PLAY)
            together.refresh_targets(in_use)
        started = time.perf_counter()
        learner = self.run.config.learner
        with settings_kept():
            if not self._has_matches:
                begin_matches(self.run, self.collector)
            self._has_matches = True
            rollout = self.collector.collect(learner.rollout_steps, counters.update + 1, learner.segments)
        self._play_seconds = time.perf_counter() - started
        return rollout

    def learn(self, rollout: Rollout) -> dict[str, float]:
        """Makes the update of a rollout; its matches and metrics go to the pool, the store and callbacks.

        Returns:
            The metrics.
        """
        run, counters, together = self.run, self.counters, self.together
        run.artifacts.settle()  # before the update: an error of the disk leaves the run between two of them
        played = rollout if together is None else together.gather_matches(rollout)
        started = time.perf_counter()
        with settings_kept():
            metrics: dict[str, float] = self.learner.update(rollout)
        learned = time.perf_counter() - started
        num_steps = rollout.reward.numel() * (1 if together is None else together.ranks.size)
        counters.update += 1
        counters.steps += num_steps
        if together is not None:
            together.add_matches(played.finished if together.leads else rollout.finished)
        if together is not None and not together.leads:
            self._follow_schedules()
            return metrics
        rollout, every = played, run.config.run.rewind_every
        self._is_mark = bool(every) and counters.steps // every > (counters.steps - num_steps) // every
        self._recent.add(rollout.finished)
        self.pool.record(rollout.finished, run.name, num_steps)
        metrics |= self.pool.metrics() | match_metrics(rollout, run.name, run.config.rewards)
        metrics |= action_metrics(rollout.action, run.spec.action, run.actions)
        metrics |= {"play_seconds": self._play_seconds, "learn_seconds": learned, **self.set_figures}
        metrics |= {f"schedule/{'.'.join(path)}": x for path, x in run.config.scheduled().items()}
        if run.lessons:
            metrics["lesson"] = float(self.lesson.number)
        if together is None:
            run.rows.add_matches(rollout.finished)
        tell_of_bots(run, self.pool)
        run.met.train(run.name, (x for x in rollout.finished if x.game_id == run.game_id))
        run.rows.add_metrics(counters.update, counters.steps, metrics, self.pool.agent_metrics())
        run.rows.note(status="running", steps=counters.steps, update=counters.update)
        run.rows.flush()
        run.callback.report(report(run, metrics, self._recent, self._play_seconds + learned))
        self._alarms = tell(run, run.guards.judge(run.config, metrics, rollout.finished))
        self._follow_schedules()
        return metrics

    def close(self) -> None:
        """Closes worker processes and the artifact store; no phase may follow."""
        self.collector.close()
        self.run.artifacts.close()

    def reconfigure(self, config: Config) -> None:
        """Goes on with other figures of learning or of [run] (`league.Trainer.change`)."""
        self.run = replace(self.run, config=config)
        self.learner.reconfigure(config.learner)
        self._clock.set_minutes(config.run.checkpoint_minutes)
        self._follow_schedules()

    def _follow_schedules(self) -> None:
        """From now on the settings are those of the steps learned."""
        before, now = self.run.config, self.run.config.at(self.counters.steps_learned)
        self.run = replace(self.run, config=now)
        if now.learner is not before.learner:
            self.learner.reconfigure(now.learner)
        if now.pool is not before.pool:
            self.pool.reconfigure(now.pool)
        if now.rewards is not before.rewards:
            self.collector.weigh(now.rewards)

    def _own_state(self) -> dict[str, Any]:
        """What of this object the run goes on from."""
        watched = {"recent": self._recent.state_dict(), "alarms": self._alarms, "set_figures": self.set_figures}
        return {"watched": watched, **({"lesson": self.lesson.number} if self.run.lessons else {})}

    def _restore_watched(self, watched: Mapping[str, Any]) -> None:
        """Takes over what callbacks and alarms see of the updates before."""
        self._recent.load_state_dict(watched["recent"])
        self._alarms = [Alarm(*alarm) for alarm in watched["alarms"]]
        self.set_figures = dict(watched["set_figures"])

    # Lessons.

    def _make_collector(self) -> Collector:
        run = self.run
        calls = make_calls(run.config.learner, self._generator, run.make_stack(), run.callback.say)
        origin = Origin(run.name, self.lesson.game_id)
        make_batch = self.lesson.make_batch
        return make_collector(
            run.config, run.policy, self.pool, calls, make_batch=make_batch, origin=origin, share=share_of(run)
        )

    def _begin_lesson(self, lesson: Lesson) -> None:
        """All rows play something else from now on; matches in play are dropped, and results are forgotten."""
        run, update = self.run, self.counters.update
        dropped = f"; {self.collector.num_rows:,} matches in play are dropped" if self._has_matches else ""
        now = f"lesson {lesson.number} of {len(run.lessons)} ({lesson.words})" if lesson.number else "its own game"
        line = f"run={run.name}: from step {self.counters.steps:,} on training plays {now}{dropped}"
        run.callback.say(line)
        run.rows.add_event(update + 1, "lesson", line)
        self.lesson, self._has_matches = lesson, False
        self.collector.close()
        del self.collector  # else the nets of both are in memory
        self.collector = self._make_collector()
        self._recent = Recent(self.pool, run.name)
        self.pool.forget_results()
        run.guards.forget_figures()

    # Errors.

    @contextmanager
    def errors_told(self) -> Iterator[None]:
        """Within it what ends the run is told in one line, after the run was saved.

        Raises:
            LeagueError: a guard's finding, or the memory is used up.
        """
        run = self.run
        try:
            with code_told():
                yield
        except LostRank as error:
            if not self._has_begun or not self._leads:
                raise
            saved = self.save_without_matches()
            raise LeagueError(
                f"run={run.name}: stopped after step {run.counters.steps:,}: {error}; {saved}; go on with"
                f" {resume_command(run)}, which takes --ranks"
            ) from None
        except GuardError as error:
            if not self._has_begun or not self._leads:  # a worker process that died as it began
                raise
            raise self._stopped_by(error) from None
        except (MemoryError, RuntimeError) as error:
            if not is_out_of_memory(error) or not self._leads:
                raise
            traceback.clear_frames(error.__traceback__)  # lets go of the rollout and of what learning kept of it
            where, why = (
                f"out of memory on {run.device.type}",
                str(error).splitlines()[0] if str(error) else "no more said",
            )
            settings = " or ".join(f"--set {setting}" for setting in smaller(run.config))
            if not self._has_begun:
                raise LeagueError(
                    f"run={run.name}: {where} before it could play ({why}); nothing was changed: call again with"
                    f" {settings}"
                ) from None
            saved = self.save_without_matches()
            raise LeagueError(
                f"run={run.name}: {where} at step {run.counters.steps:,} ({why}); {saved}; go on with less:"
                f" {resume_command(run)} with {settings}"
            ) from None

    @property
    def _leads(self) -> bool:
        """Whether this process writes the run down."""
        return self.together is None or self.together.leads

    def _stopped_by(self, error: GuardError) -> LeagueError:
        """What a guard's finding ends the run with; the matches so far, an event, evidence and state are stored."""
        run = self.run
        shown = f"; {run.artifacts.write_evidence(error.evidence)}" if error.evidence is not None else ""
        saved = self.save_without_matches()
        run.rows.add_matches(self.collector.finished)  # past the state, since a resumed run plays others
        run.rows.add_event(run.counters.update, error.kind, str(error))
        return LeagueError(
            f"run={run.name}: stopped after step {run.counters.steps:,}: {error}{shown}; {saved}; go on with"
            f" {resume_command(run)}, which takes --set"
        )


@phase("snapshot")
def _take_snapshot(run: Run, counters: Counters, return_size: float) -> None:
    """Stores the weights of now and remembers them as the newest snapshot."""
    counters.newest = run.artifacts.add_snapshot(run.policy, counters, return_size)
    counters.newest_steps = counters.steps


def _lesson_of(run: Run, state: Mapping[str, Any] | None) -> Lesson:
    """What the last rollout before a saved state played."""
    number = state.get("lesson", 0) if state else 0
    return next((lesson for lesson in run.lessons if lesson.number == number), run.lesson_at(-1))
