"""League itself: `league bench learner` at the size of the comparison, with a native bot in the other seat.

With an encoder it is not the predecessors' function: each frame is encoded once, causally, and its reach grows with
the layers, where they encode the whole window again at every step and for every sample. It also resets its memories at
every match's start, plays with action masks, and learns from larger minibatches than the predecessors' 128 samples.
"""

from __future__ import annotations

from benchmarks.peers.game import BOT, EMBEDDING, HEADS, Size, Speed
from league.bench import bench_learner


def measure(size: Size, *, threads: int, seconds: float, precision: str = "float32") -> Speed:
    """Medians of updates of one epoch each, about `seconds` of them and at least three, after one to warm up."""
    overrides = [
        f'pool.mix={{"bot:{BOT}" = 1.0}}',
        "pool.live_nets=1",
        f"env.rows={size.rows}",
        f"env.threads={threads}",
        f"env.ticks_per_step={size.ticks}",
        f"learner.rollout_steps={size.steps}",
        f"learner.minibatches={size.minibatches}",
        "learner.epochs=1",
        f"learner.precision={precision}",
        "learner.device=cpu",
        f"agent.opponent_encoder={'true' if size.history else 'false'}",
        f"agent.encoder_layers={size.layers}",
        f"agent.history_frames={max(1, size.history) * size.ticks}",
        f"agent.observation_width={EMBEDDING}",
        f"agent.lstm_size={size.lstm}",
        f"agent.head_sizes={list(HEADS)}",
    ]
    count = size.rows * size.steps
    trial = bench_learner("fast", threads=threads, repeats=1, overrides=overrides)
    repeats = max(3, int(seconds * trial["train_steps_per_second"] / count))
    figures = bench_learner("fast", threads=threads, repeats=repeats, overrides=overrides)
    return Speed(
        parameters=figures["parameters"],
        play=figures["play_steps_per_second"],
        learn=figures["learn_samples_per_second"],
        play_steps=repeats * count,
        learn_samples=repeats * count,
        minibatch=count // size.minibatches,
    )
