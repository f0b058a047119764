"""How much memory a run takes on its device, and how wide the preset `auto` makes it there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import torch

from league.config import Layer
from league.config.models import Config
from league.config.schedules import marks
from league.config.updates import (
    divisors,
    minibatches,
    most_parts,
    num_snapshot_marks,
    rows_of_minibatch,
    steps_per_update,
)
from league.errors import ConfigError
from league.play.opponents import MAX_ENTRIES, MAX_GROUPINGS, ROW_STEP, Places, num_slots_for
from league.play.rollout import joins_learner, num_lanes
from league.play.seats import mask_type
from league.play.summaries import MAX_PAIRS
from league.pool.payoff_games import NETS_AT_ONCE
from league.runtime.device import DeviceMemory, autocast
from league.sessions.peak_memory import Peak
from league.snapshots.writer import RECENT_BYTES
from league.types import SEATS, GameSpec, Policy
from league.types.schema import MAX_COUNT

MINIBATCH = 8_192
"""Samples that `auto` learns from at once, where rollouts are long enough for several such minibatches."""
MIN_ROWS, MAX_ROWS = 32, 2_048
"""Fewer would leave a group of the mix without a row, more would make fewer than 150 updates of ten million steps."""
ROWS_A_CORE = 8
"""On a CPU; never fewer than `auto` starts from. Learning is the slow part there, and more rows do not speed it up."""
ROWS_A_NET, MAX_NETS = 16, 16
SIZED = {"env": ("rows",), "learner": ("segments", "minibatch_size", "epochs", "learning_rate"), "pool": ("live_nets",)}
"""What `auto` chooses."""
COUNTS = ("segments", "minibatch_size", "epochs")
"""What the gradient steps a sample depend on."""
OVERHEAD = 128 * 2**20
"""Bytes that the store, the libraries' workspaces and what allocators do not give back take at any width."""
WORKER = 48 * 2**20
"""Bytes of a worker process before it has a game."""
MEASURED_STEPS = 128
"""Of a rollout, the most that is played to see what learning keeps of a step."""
MEASURED_ENTRIES = (2, 10)
"""Of a step of play: what the second takes beyond the first is what entries take."""
FLOAT = 4
"""Bytes of a float32."""


@dataclass(frozen=True)
class Footprint:
    """Bytes that one policy takes, as measured on its device."""

    weights: int
    state: int
    """What it remembers of one row."""
    activations: int
    """What one sample of a minibatch keeps for the backward pass."""
    largest: int
    """Of these, the largest tensor."""
    step: int = 0
    """What a step of play has in memory for one entry of a call, beside its state, at most at once."""


def measure(policy: Policy, spec: GameSpec, steps: int, precision: str, device: torch.device) -> Footprint:
    """Learns nothing from two rows of `steps` steps and counts what that keeps for a backward pass.

    Of longer rollouts the first `MEASURED_STEPS` are measured: a step keeps as much in these.
    """
    steps = min(steps, MEASURED_STEPS)
    parameters = list(policy.parameters())
    weights = {p.untyped_storage().data_ptr(): p.untyped_storage().nbytes() for p in parameters}
    with autocast(device, precision):
        state = policy.initial_state(2)
    kept: dict[int, int] = {}

    def keep(x: torch.Tensor) -> torch.Tensor:
        kept[x.untyped_storage().data_ptr()] = x.untyped_storage().nbytes()
        return x

    obs = torch.zeros(2, steps, spec.obs_size, device=device)
    action_type = torch.float32 if spec.action.has_real else torch.int64
    action = torch.zeros(2, steps, spec.action.num_parts, dtype=action_type, device=device)
    mask = torch.ones(2, steps, spec.action.mask_size, dtype=mask_type(spec.action), device=device)
    is_first = torch.zeros(2, steps, dtype=torch.bool, device=device)
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda x: x), autocast(device, precision):
        outputs = policy.sequence(obs, action, state, is_first, mask)
    sizes = [size for pointer, size in kept.items() if pointer not in weights]
    del outputs  # the graph kept the tensors, and with them their addresses
    samples = 2 * steps
    few, more = (_step_peak(policy, spec, rows, precision, device) for rows in MEASURED_ENTRIES)
    return Footprint(
        weights=sum(weights.values()),
        state=sum(x.numel() * x.element_size() for x in state.tensors().values()) // 2,
        activations=sum(sizes) // samples,
        largest=max(sizes, default=0) // samples,
        step=max(0, more - few) // (MEASURED_ENTRIES[1] - MEASURED_ENTRIES[0]),
    )


@torch.no_grad()
def _step_peak(policy: Policy, spec: GameSpec, rows: int, precision: str, device: torch.device) -> int:
    """The most bytes that a step of so many rows, out of twice as many, had at once of what it made."""
    obs = torch.zeros(rows, spec.obs_size, device=device)
    mask = torch.ones(rows, spec.action.mask_size, dtype=mask_type(spec.action), device=device)
    generator = torch.Generator(device).manual_seed(0)
    with autocast(device, precision):
        state = policy.initial_state(2 * rows)
        with Peak() as peak:
            policy.step(obs, state, mask=mask, rows=torch.arange(rows, device=device), generator=generator)
    return int(peak.most)


@dataclass(frozen=True)
class MemoryEstimate:
    """Bytes that a run takes on its device at most."""

    learner: int
    """Weights, gradients and Adam's two moments, and what weights and moments were before the update."""
    frozen: int
    """Live nets: the targets, and as many that drain, all once more where they play stacked."""
    rows: int
    """Memories and LSTM states of both seats of every row, and the copy that a rollout begins with."""
    rollout: int
    """What is stored of the steps."""
    work: int
    """The most that one phase of the loop needs beside these: play, learning, evaluation, the games of
    `pool.payoff_games` or, on a CPU, resuming."""
    staging: int
    """Observations, masks and actions of all seats on their way between the games and the nets."""
    workers: int = 0
    """Worker processes, without their games; on a CPU."""
    graphs: int = 0
    """The pool of the CUDA graphs, which nothing else may use: a step of play with the padding of stacked nets, what
    each graph returns, and a minibatch."""
    recent: int = 0
    """Snapshots that are kept in memory, or are being written; they lie in the host's."""

    @property
    def total(self) -> int:
        """All of it, and `OVERHEAD`."""
        parts = self.learner + self.frozen + self.rows + self.rollout + self.work
        return parts + self.staging + self.workers + self.graphs + self.recent + OVERHEAD

    def describe(self) -> str:
        """The total and the parts that matter, in words."""
        parts = {
            "learner": self.learner,
            "live nets": self.frozen,
            "rows": self.rows,
            "rollout": self.rollout,
            "staging": self.staging,
            "work": self.work,
            "graphs": self.graphs,
            "recent snapshots": self.recent,
            "workers": self.workers,
            "other": OVERHEAD,
        }
        named = [f"{name} {show(size)}" for name, size in parts.items() if size >= 2**20]
        return f"about {show(self.total)}" + (f" ({', '.join(named)})" if named else "")


def show(size: float) -> str:
    """Bytes in MiB or GiB."""
    return f"{size / 2**30:,.1f} GiB" if size >= 2**30 else f"{size / 2**20:.0f} MiB"


def estimate(
    config: Config, spec: GameSpec, footprint: Footprint, device: torch.device, rivals: int = 0
) -> MemoryEstimate:
    """What the run of `config` takes beyond what the process has already.

    rivals: other learners of its league, whose newest snapshots an evaluation meets.

    On a CPU the measured peak was 11 to 13 % above it for the default agent and 11 % below for a small one
    (lab/performance.md); on CUDA it has not been measured.
    """
    stages = [config.at(mark) for mark in marks(config.schedules.values()) if mark < config.run.total_steps]
    rows, samples = config.env.rows, max(map(steps_per_update, stages))
    minibatch = max(rows_of_minibatch(now) * now.learner.rollout_steps for now in stages)
    part = max(_largest_part(now) for now in stages)
    segments = max(now.learner.segments for now in stages)
    states = rows * footprint.state
    mask = spec.action.mask_size * spec.action.mask_dtype.itemsize
    step = FLOAT * spec.obs_size + mask + 8 * spec.action.num_parts + 4 * FLOAT + 2
    nets = 1 + rivals  # the step-0 snapshot among them
    pairs = MAX_PAIRS if config.run.ladder_share else min(config.run.evaluate_games // 2, MAX_PAIRS)
    evaluated = SEATS * pairs * (len(spec.bots) + len(config.parts.bots) + 2 * nets)
    measured = SEATS * min(config.pool.payoff_games // 2, MAX_PAIRS) * 2 * NETS_AT_ONCE
    is_cuda, live = device.type == "cuda", 2 * config.pool.live_nets
    entries = rows + stacked_entries(rows, live, device)
    seats = SEATS * rows * (FLOAT * spec.obs_size + mask + 8 * spec.action.num_parts + 1)
    playing = entries * footprint.step
    learning = minibatch * step + part * (footprint.activations + 2 * footprint.largest)
    has_graphs = is_cuda and config.learner.compile != "off"
    met = num_slots_for(2 * (1 + nets)) if is_cuda else 0  # a net that has most of the rows fills several slots
    works = [
        states  # the last value is that of a copy
        + (samples * step + segments * states if segments > 1 else 0)
        + (0 if has_graphs else playing),
        max(segments * states // minibatches(now) for now in stages)
        + (0 if has_graphs else learning)
        + 3 * FLOAT * samples,
        (1 + nets + met) * footprint.weights
        + evaluated * (footprint.state + (MAX_ENTRIES if is_cuda else 1) * footprint.step),
    ]
    if measured:
        works.append((1 + NETS_AT_ONCE) * footprint.weights + measured * (footprint.state + footprint.step))
    if device.type == "cpu":
        works.append(2 * states + 3 * footprint.weights)  # a saved state, while what it says is taken over
    snapshots = num_snapshot_marks(config, config.run.total_steps) + 2
    slots = num_slots_for(live)
    if joins_learner(device):
        slots = num_slots_for(slots + Places(config.env.rows // num_lanes(config, device), slots).of_learner)
    return MemoryEstimate(
        learner=7 * footprint.weights,
        frozen=(live + slots) * footprint.weights,
        rows=3 * states + footprint.state,  # stacked nets have a spare row
        rollout=samples * step + (segments - 1) * states,
        work=max(works),
        staging=seats * (2 if is_cuda else 1),
        workers=config.env.workers * WORKER if device.type == "cpu" else 0,
        graphs=playing + MAX_GROUPINGS * rows * step + learning if has_graphs else 0,
        recent=0 if is_cuda else _recent(snapshots, footprint),
    )


def _largest_part(config: Config) -> int:
    """Samples of a minibatch that are learned from at once."""
    learner = config.learner
    return -(-rows_of_minibatch(config) // (learner.accumulate or 1)) * learner.rollout_steps


def stacked_entries(rows: int, num_nets: int, device: torch.device) -> int:
    """The most entries of a step of frozen nets that play `rows` rows, so many nets at once.

    On CUDA at most `MAX_ENTRIES` a row but for rounding, since nets that would pad the others play apart. On a CPU,
    where they are stacked at all, one net with most of the rows pads all others to as many.
    """
    if device.type == "cuda":
        return MAX_ENTRIES * rows + num_slots_for(num_nets) * ROW_STEP
    fullest = max(1, rows - min(rows, num_nets) + 1)
    return min(rows, num_nets) * fullest


def _recent(snapshots: int, footprint: Footprint) -> int:
    """Bytes of so many snapshots as far as they are kept, and of one that is being written."""
    return min(RECENT_BYTES + footprint.weights, snapshots * footprint.weights)


def least_weights(config: Config) -> int:
    """Bytes of the large matrices of the network, to be known before it is made."""
    a = config.agent
    sizes = [a.lstm_size + a.observation_width * a.skip_connection, *a.head_sizes]
    heads = 2 * sum(before * after for before, after in pairwise(sizes))
    encoder = a.encoder_layers * (4 * a.encoder_width**2 + 2 * a.encoder_width * a.encoder_feedforward)
    lstm = 4 * a.lstm_size * (a.lstm_size + a.observation_width)
    return FLOAT * (lstm + heads + (encoder if a.opponent_encoder else 0))


def least_activations(config: Config, spec: GameSpec) -> int:
    """Bytes that the encoder's memory of two rows and its attention over a measured step of theirs take at least."""
    a = config.agent
    tokens = -(-a.history_frames // spec.ticks_per_step)
    steps = min(config.learner.rollout_steps, MEASURED_STEPS)
    kept = 2 * FLOAT * tokens * a.encoder_layers * (2 * a.encoder_width + steps * a.encoder_heads)
    return kept if a.opponent_encoder else 0


def check_agent(config: Config, spec: GameSpec, memory: DeviceMemory) -> None:
    """Refuses a network that the memory could not hold, before it is made.

    Raises:
        ConfigError: with what it takes.
    """
    needed = 4 * least_weights(config) + least_activations(config, spec)
    if memory.total and needed > memory.free:
        raise ConfigError(
            f"agent: its weights, gradients, Adam's moments and memory alone take over {show(needed)},"
            f" {show(memory.free)} are free; lower agent.encoder_width, agent.history_frames,"
            f" agent.lstm_size or agent.head_sizes"
        )


def check_memory(
    config: Config, spec: GameSpec, footprint: Footprint, memory: DeviceMemory, device: torch.device, rivals: int = 0
) -> MemoryEstimate:
    """The estimate, refused where it is more than the device has free.

    rivals: as for `estimate`.

    Raises:
        ConfigError: with the estimate, what is free, and what to lower.
    """
    needed = estimate(config, spec, footprint, device, rivals)
    if needed.total <= memory.free:
        return needed
    line = (
        f"env.rows={config.env.rows}: this run takes {needed.describe()} of memory, {device.type} has"
        f" {show(memory.free)} free"
    )
    whole = in_parts(config, spec, footprint, memory.free, device, rivals)
    if estimate(whole, spec, footprint, device, rivals).total <= memory.free:
        raise ConfigError(f"{line}; set learner.accumulate={whole.learner.accumulate}, which learns the same")
    rows = config.env.rows // 2
    while rows:
        fewer = config.model_copy(update={"env": config.env.model_copy(update={"rows": rows})})
        if estimate(fewer, spec, footprint, device, rivals).total <= memory.free:
            raise ConfigError(f"{line}; set env.rows={rows}")
        rows //= 2
    raise ConfigError(f"{line}; lower learner.rollout_steps, pool.live_nets or the sizes in [agent] as well")


def in_parts(
    config: Config, spec: GameSpec, footprint: Footprint, room: float, device: torch.device, rivals: int = 0
) -> Config:
    """`config` with minibatches in as few parts, a power of two, as fit into `room` bytes, or in the most there can be.

    rivals: as for `estimate`.
    """
    most = most_parts(config)
    for parts in (*(1 << i for i in range(most.bit_length())), most):
        learner = config.learner.model_copy(update={"accumulate": parts})
        found = config.model_copy(update={"learner": learner})
        if estimate(found, spec, footprint, device, rivals).total <= room:
            break
    return found


def auto(
    load: Callable[[Layer], Config],
    spec: GameSpec,
    footprint: Footprint,
    device: torch.device,
    memory: DeviceMemory,
    num_cores: int,
) -> tuple[Layer, str]:
    """The sizes of the preset `auto` on a device, and one line that explains them; the stage has no say.

    On CUDA: as many rows as half of the memory holds. On a CPU: those that `auto` starts from, more where there are
    many cores. The rollout is learned from in minibatches near `MINIBATCH`, but never in fewer than `auto` starts
    from. At every step of the run there are about as many gradient steps a sample as there, and at most as many an
    update as there in the beginning; where one epoch makes more, the learning rate is lowered in proportion.

    Args:
        load: the settings with a layer of sizes over the preset; what a user has set is above both.
    """
    start = load({})
    on_gpu = device.type == "cuda"
    rows = MAX_ROWS if on_gpu else max(start.env.rows, min(MAX_ROWS, _power_of_two(ROWS_A_CORE * num_cores)))
    while True:
        sizes = _sizes(start, load({"env": {"rows": rows}}).env.rows)
        chosen = load(sizes)
        most_games = chosen.run.model_copy(update={"evaluate_games": SEATS * MAX_PAIRS})  # whatever the stage's
        found = estimate(chosen.model_copy(update={"run": most_games}), spec, footprint, device)
        most_kept = _recent(MAX_COUNT, footprint) if found.recent else 0  # likewise
        taken = replace(found, recent=most_kept).total
        if rows <= MIN_ROWS or taken <= memory.total / 2:
            break
        rows //= 2
    room = f"it takes {show(taken)} of {show(memory.total)}, of which half may be taken"
    cores = "" if on_gpu else f"there are {num_cores} cores, and "
    because = f"env.rows is set, and {room}" if chosen.env.rows != rows else f"{cores}{room}"
    learner, number = chosen.learner, minibatches(chosen)
    steps = number * learner.epochs
    return sizes, (
        f"preset auto: {chosen.env.rows} rows x {learner.rollout_steps} steps, {number} minibatches of"
        f" {steps_per_update(chosen) // number:,} samples, {learner.epochs} epochs, {chosen.pool.live_nets} live nets,"
        f" learning rate {learner.learning_rate:g} for {steps} gradient steps an update, because {because}"
    )


def sizes_of(config: Mapping[str, Any]) -> Layer:
    """Of settings as JSON, those that `auto` chooses."""
    return {section: {key: config[section][key] for key in keys} for section, keys in SIZED.items()}


def describe(config: Config) -> str:
    """What `auto` chooses, in words."""
    learner = config.learner
    return (
        f"{config.env.rows} rows, minibatches of {learner.minibatch_size:,} samples, {learner.epochs} epochs,"
        f" {config.pool.live_nets} live nets, learning rate {learner.learning_rate:g}"
    )


def _sizes(start: Config, rows: int) -> Layer:
    """The layer for `rows` rows: with those of `start` its own figures, with others updates of one size throughout."""
    live_nets = max(1, min(MAX_NETS, rows // ROWS_A_NET))
    if rows == start.env.rows:
        return {"env": {"rows": rows}, "pool": {"live_nets": live_nets}}
    learner = start.learner
    steps = minibatches(start) * learner.epochs
    wanted = max(minibatches(start), _power_of_two(rows * learner.rollout_steps // MINIBATCH))
    number = max(n for n in divisors(rows) if n <= wanted)
    epochs = {}
    counts = [x for (section, key, *_), x in start.schedules.items() if section == "learner" and key in COUNTS]
    for mark in marks(counts):
        now = start.at(mark)
        a_sample = minibatches(now) * now.learner.epochs / steps_per_update(now)
        most = min(steps, a_sample * rows * learner.rollout_steps)
        epochs[mark] = max(1, min(learner.epochs, round(most / number)))
    factor = min(1.0, steps / (number * epochs[0]))
    moving = start.schedules.get(("learner", "learning_rate"))
    return {
        "env": {"rows": rows},
        "learner": {
            "segments": 1,
            "minibatch_size": rows * learner.rollout_steps // number,
            "epochs": {str(mark): number for mark, number in epochs.items()},
            "learning_rate": moving.scaled(factor).to_json() if moving else learner.learning_rate * factor,
        },
        "pool": {"live_nets": live_nets},
    }


def _power_of_two(number: int) -> int:
    """The largest that is at most `number`, and at least 1."""
    return 1 << max(0, number.bit_length() - 1)
