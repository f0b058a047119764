"""The counter of operators: it counts what is done, and play and learning remain below their limits."""

import json
import subprocess
import sys

NARROW = (
    *("agent.encoder_width=16", "agent.encoder_heads=2", "agent.encoder_feedforward=16", "agent.observation_width=8"),
    *("agent.lstm_size=8", "agent.head_sizes=[8, 8]", "env.rows=8", "learner.rollout_steps=8", "learner.epochs=1"),
    "env.time_limit_seconds=2",
)
"""As many layers as the default agent has; what is counted does not depend on their width."""
LIMITS = {"play": (220, 0), "minibatch": (430, 0), "evaluation": (350, 2)}
"""Part -> the most operators and waits of one step or minibatch."""


def test_play_and_learning_stay_below_their_limits() -> None:
    """The default agent's layers: each part within what it was; a count of one part is that of its pieces."""
    sets = [word for setting in NARROW for word in ("--set", setting)]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.launches", "--json", *sets], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    for part, (operators, waits) in LIMITS.items():
        assert operators / 2 < found[part]["operators"] <= operators, (part, found[part])
        assert found[part]["waits"] <= waits, (part, found[part])
    pieces = [found[f"minibatch, {name}"]["operators"] for name in ("forward", "backward", "loss", "optimiser")]
    assert abs(sum(pieces) - found["minibatch"]["operators"]) < 1 and min(pieces) > 1
    assert found["play"]["operators"] / 2 < found["play, all nets"]["operators"] < found["play"]["operators"]
