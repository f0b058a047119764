"""Settings of a small net and a short rollout, for tests that look at something else."""

from collections.abc import Iterable

SMALL_AGENT = (
    *("agent.encoder_layers=1", "agent.encoder_heads=2", "agent.encoder_width=16", "agent.encoder_feedforward=16"),
    *("agent.latents=2", "agent.observation_width=16", "agent.lstm_size=16", "agent.head_sizes=[8]"),
)
SMALL_ROLLOUT = ("env.rows=8", "learner.rollout_steps=16", "learner.minibatch_size=64", "run.evaluate_games=2")
SMALL = (*SMALL_ROLLOUT, *SMALL_AGENT)


def as_options(settings: Iterable[str]) -> list[str]:
    """The settings as words of a command line."""
    return [word for setting in settings for word in ("--set", setting)]


TINY = (
    *("env.rows=4", "learner.rollout_steps=8", "learner.minibatch_size=16", "learner.epochs=1", "run.evaluate_games=2"),
    *("run.total_steps=64", "run.evaluate_every=0", "run.allow_short=true", "pool.snapshot_every=32"),
    *("agent.encoder_layers=1", "agent.encoder_width=8", "agent.encoder_heads=2", "agent.encoder_feedforward=8"),
    *("agent.lstm_size=4", "agent.head_sizes=[4]", "agent.observation_width=8", "agent.history_frames=4"),
    *("agent.latents=2", "pool.live_nets=1", "learner.device=cpu", "env.threads=1"),
)
