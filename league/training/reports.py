"""What a training says while it goes on: alarms, reward terms that never fired, and a report of each update."""

from __future__ import annotations

from collections.abc import Mapping

from league.config.updates import steps_per_update
from league.errors import StoreError
from league.play.bots import BotPolicy
from league.play.opponents import Holder
from league.store.rows import ALARM, OVER
from league.training.guards import Alarm
from league.training.recent import Recent
from league.training.run import Report, Run


def tell(run: Run, alarms: list[Alarm]) -> list[Alarm]:
    """Says which alarms are raised and which are over, and writes it down; returns those that are raised."""
    for alarm in alarms:
        kind = (OVER if alarm.is_over else ALARM) + alarm.kind
        run.rows.add_event(run.counters.update, kind, alarm.message)
        line = f"alarm at step {run.counters.steps:,}: {alarm.message}"
        run.callback.say(line.replace("alarm", "alarm over", 1) if alarm.is_over else line)
    return [alarm for alarm in alarms if not alarm.is_over]


def tell_of_bots(run: Run, pool: Holder) -> None:
    """Says which matches bots of the mix have forfeited since the last call, and writes it down."""
    for policy in map(pool.policy, pool.guests):
        for kind, line in policy.take_notes() if isinstance(policy, BotPolicy) else ():
            run.rows.add_event(run.counters.update, kind, line)
            run.callback.say(f"run={run.name}: {line}")


def warn_of_silent_rewards(run: Run) -> None:
    """At the end of a stage, names the reward terms that have a weight and were 0 in every match of the whole run."""
    try:
        terms = run.store.reward_terms(run.name)
    except StoreError as error:
        run.callback.say(f"not known whether every reward term fired: {error}")
        return
    for term in terms:
        if term.weight and not term.fired:
            message = (
                f"rewards.{term.term} (weight {term.weight:g}) never fired in {term.matches:,} training matches, so it"
                f" taught nothing; train longer, see if the game can bring it about, or --set rewards.{term.term}=0"
            )
            run.rows.add_event(run.counters.update, f"{ALARM}silent_reward:{term.term}", message)
            run.callback.say(message)


def report(run: Run, metrics: Mapping[str, float], recent: Recent, seconds: float) -> Report:
    """What a callback receives about the last update.

    seconds: that it took, with its rollout.
    """
    config, steps = run.config, run.counters.steps
    rate = steps_per_update(config) / seconds
    total = config.run.total_steps
    left = max(0, total - steps) / rate
    rewards = recent.rewards(config.rewards)
    return Report(steps, total, run.counters.update, rate, left, dict(metrics), recent.rates(), rewards, run.name)
