"""How the steps of a run divide into updates and snapshots, and which settings cannot be run."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import islice, pairwise
from typing import TYPE_CHECKING

from league.config.models import Config
from league.config.schedules import marks, words_of
from league.errors import ConfigError, nearest
from league.types.schema import MAX_SNAPSHOTS

if TYPE_CHECKING:
    from league.types import GameSpec

MIN_UPDATES = 20
"""A stage with fewer updates says nothing about learning."""
MIN_SNAPSHOTS = 5
"""Self-play against fewer past selves is play against one's mirror."""


def smaller(config: Config) -> tuple[str, ...]:
    """Settings, as `--set` takes them, of which each makes the same run take less memory, the mildest first."""
    rows, steps = config.env.rows, config.learner.rollout_steps
    in_update = rows * config.learner.segments
    parts = 2 * (config.learner.accumulate or 1)
    choices = [f"learner.accumulate={parts}"] if parts <= most_parts(config) else []
    choices += ["learner.segments=1"] if config.learner.segments > 1 else []
    more = [n for n in divisors(in_update) if n >= 2 * minibatches(config)]
    choices += [f"learner.minibatch_size={in_update * steps // n}" for n in more[:1]]
    choices += [f"env.rows={rows // 2}"] if rows > 1 else []
    return (*choices, f"learner.rollout_steps={max(1, steps // 2)}")


def most_parts(config: Config) -> int:
    """The most parts that every minibatch of the run can be computed in: its rows, where it has the fewest."""
    stages = [config.at(mark) for mark in marks(config.schedules.values())]
    return min(rows_of_minibatch(now) for now in stages)


def num_minibatches(rows: int, steps: int, size: int) -> int:
    """Minibatches that an epoch over `rows` rows of `steps` steps has: the divisor of `rows` nearest to `size` samples.

    Near is measured by the ratio; of two as near it is the one with more minibatches.
    """
    return min(divisors(rows), key=lambda n: (abs(math.log(rows * steps / (n * size))), -n))


def divisors(number: int) -> list[int]:
    """The divisors of `number`, ascending."""
    small = [n for n in range(1, math.isqrt(number) + 1) if number % n == 0]
    return sorted({*small, *(number // n for n in small)})


def minibatches(config: Config) -> int:
    """Minibatches of an epoch at the numbers of `config`."""
    learner = config.learner
    return num_minibatches(config.env.rows * learner.segments, learner.rollout_steps, learner.minibatch_size)


def rows_of_minibatch(config: Config) -> int:
    """Rows, each of rollout_steps samples, of a minibatch at the numbers of `config`."""
    return config.env.rows * config.learner.segments // minibatches(config)


def steps_per_update(config: Config) -> int:
    """Steps between two updates at the numbers of `config`: rows times rollout steps times segments."""
    return config.env.rows * config.learner.rollout_steps * config.learner.segments


def boundary(config: Config, steps: int) -> tuple[int, int]:
    """The first update boundary at or past `steps`: the updates and the steps made there."""
    update = made = 0
    begins = [*marks(x for path, x in config.schedules.items() if path == ("learner", "segments")), steps]
    for begin, end in pairwise(begins):
        size = steps_per_update(config.at(begin))
        count = max(0, -(-(min(end, steps) - made) // size))
        update, made = update + count, made + count * size
    return update, made


def num_updates(config: Config) -> int:
    """Updates of the run: it ends at the first boundary at or past `run.total_steps`."""
    return boundary(config, config.run.total_steps)[0]


def next_snapshot_mark(config: Config, steps: int) -> int:
    """The first mark of the snapshot schedule after `steps`: a multiple of the gap that holds there.

    The gap is `snapshot_every` at first, and from 8, 16, 32, ... of it on 2, 4, 8, ... times as wide, so that every
    doubling of the steps has four marks, up to `snapshot_every_after`.
    """
    gap = _gap(config, steps)
    return (steps // gap + 1) * gap


def _gap(config: Config, steps: int) -> int:
    """Steps between two marks at `steps`."""
    first, most = config.pool.snapshot_every, config.pool.snapshot_every_after
    return min(first << max(0, (steps // (4 * first)).bit_length() - 1), most)


def num_snapshot_marks(config: Config, upto: int) -> int:
    """How many marks the snapshot schedule has in (0, `upto`]."""
    marks = steps = 0
    while _gap(config, steps) < config.pool.snapshot_every_after and next_snapshot_mark(config, steps) <= upto:
        marks, steps = marks + 1, next_snapshot_mark(config, steps)
    gap = _gap(config, steps)
    return marks + max(0, upto // gap - steps // gap)


def snapshot_updates(config: Config, upto: int) -> Iterator[int]:
    """The updates at whose ends, in (0, `upto`] steps, a snapshot is made, one each."""
    steps = 0
    while (mark := next_snapshot_mark(config, steps)) <= upto:
        update, steps = boundary(config, mark)
        yield update


def check_rows(config: Config) -> None:
    """Refuses minibatches with fewer rows than parts, at any step.

    Raises:
        ConfigError: with a number that does.
    """
    for mark in marks(config.schedules.values()):
        now = config.at(mark)
        parts, most = now.learner.accumulate or 1, rows_of_minibatch(now)
        if parts > most:
            raise ConfigError(
                f"learner.accumulate={parts}: a minibatch has {most} rows{words_of(mark)}, and a part at least"
                f" one; set learner.accumulate={most}"
            )


def check(config: Config) -> None:
    """Refuses a run that cannot work or, unless `run.allow_short`, is too short or too narrow to learn.

    Raises:
        ConfigError: with the arithmetic and what to change.
    """
    check_rows(config)
    rows, total, learner = config.env.rows, config.run.total_steps, config.learner
    updates, upto = boundary(config, total)
    size = steps_per_update(config)
    product = f"env.rows={rows} x learner.rollout_steps={learner.rollout_steps}"
    product += (f" x learner.segments={learner.segments}" if learner.segments > 1 else "") + f" = {size} steps"
    if size > total:
        raise ConfigError(
            f"a rollout ({product}) is longer than run.total_steps={total}; lower env.rows or"
            f" learner.rollout_steps, or train for more --steps"
        )
    if len(list(islice(snapshot_updates(config, upto), MAX_SNAPSHOTS + 1))) > MAX_SNAPSHOTS:
        raise ConfigError(
            f"run.total_steps={total} with pool.snapshot_every={config.pool.snapshot_every} and"
            f" pool.snapshot_every_after={config.pool.snapshot_every_after} makes more than {MAX_SNAPSHOTS:,}"
            f" snapshots; raise the two"
        )
    if config.run.allow_short:
        return
    if updates < MIN_UPDATES:
        raise ConfigError(
            f"run.total_steps={total} makes {updates} updates of {product}, fewer than {MIN_UPDATES}; "
            f"make a rollout at most {(total - 1) // (MIN_UPDATES - 1)} steps (env.rows, learner.rollout_steps),"
            f" or take more --steps"
        )
    num_snapshots = len(list(islice(snapshot_updates(config, upto), MIN_SNAPSHOTS)))
    if num_snapshots < MIN_SNAPSHOTS:
        raise ConfigError(
            f"run.total_steps={total} with pool.snapshot_every={config.pool.snapshot_every} makes {num_snapshots} "
            f"snapshots, fewer than {MIN_SNAPSHOTS}; lower pool.snapshot_every or take more --steps"
        )
    for name, share in config.pool.mix.items():
        if ("pool", "mix", name) in config.schedules:  # what it comes to at most
            share = max(value for _, value in config.schedules["pool", "mix", name].points)
        if 0 < share * rows < 1:
            raise ConfigError(
                f"pool.mix gives {name} {share:g} of env.rows={rows}, which is {share * rows:g} rows, less than one; "
                f"set env.rows to at least {math.ceil(1 / share)}, or that share to 0"
            )


def check_rewards(config: Config, spec: GameSpec) -> tuple[float, ...]:
    """The weights in the order of `spec.reward_terms`; a term that [rewards] leaves out weighs 0.

    Raises:
        ConfigError: a term that the game does not have, or no weight but 0.
    """
    for term, weight in config.rewards.items():
        if term not in spec.reward_terms:
            raise ConfigError(
                f"rewards.{term}={weight:g}: {spec.name} has no such reward term{nearest(term, spec.reward_terms)}"
            )
    weights = tuple(config.rewards.get(term, 0.0) for term in spec.reward_terms)
    if not any(weights) and not any(path[0] == "rewards" for path in config.schedules):
        raise ConfigError(
            f"every weight in [rewards] is 0, so there is nothing to learn; "
            f"set one with --set rewards.{spec.reward_terms[0]}=1.0"
        )
    return weights
