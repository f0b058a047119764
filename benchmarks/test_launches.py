"""The counter of operators: it counts what is done, and play and learning remain below their limits."""

import json
import subprocess
import sys

import pytest
import torch

NARROW = (
    *("agent.encoder_width=16", "agent.encoder_heads=2", "agent.encoder_feedforward=32", "agent.observation_width=16"),
    *("agent.lstm_size=12", "agent.head_sizes=[8, 8]", "env.rows=8", "learner.rollout_steps=8", "learner.epochs=1"),
    "env.time_limit_seconds=2",
)
"""As many layers as the default agent has, as many of one shape; what is counted does not depend on their width."""
SHORT = ("--set", "env.time_limit_seconds=1")
BF16 = ("--set", "learner.precision=bf16")
LIMITS = {"play": (210, 0), "minibatch": (350, 0), "evaluation": (340, 0)}
"""Part -> the most operators and waits of one step or minibatch."""


def launches(*words: str) -> subprocess.CompletedProcess[str]:
    """The counter in a process of its own."""
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.launches", *words]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.mark.slow
def test_play_and_learning_stay_below_their_limits() -> None:
    """The default agent's layers: each part within what it was; a count of one part is that of its pieces."""
    sets = [word for setting in NARROW for word in ("--set", setting)]
    done = launches("--json", *sets)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    for part, (operators, waits) in LIMITS.items():
        assert operators / 2 < found[part]["operators"] <= operators, (part, found[part])
        assert found[part]["waits"] <= waits, (part, found[part])
    pieces = [found[f"minibatch, {name}"]["operators"] for name in ("forward", "backward", "loss", "optimiser")]
    assert abs(sum(pieces) - found["minibatch"]["operators"]) < 1 and min(pieces) > 1
    assert found["play"]["operators"] / 2 < found["play, all nets"]["operators"] < found["play"]["operators"]


@pytest.mark.skipif(torch.version.cuda is not None, reason="this build of torch is for CUDA")
def test_without_a_build_for_cuda_the_command_says_so() -> None:
    """In one line, before it counts anything."""
    done = launches("--cuda", "--json")
    assert done.returncode == 1 and done.stderr.startswith("error: --cuda: torch ") and done.stderr.count("\n") == 1


@pytest.mark.skipif(torch.version.cuda is None, reason="this build of torch is not for CUDA")
@pytest.mark.parametrize("more", [("--env", "brawl", *SHORT), ("--env", "cards"), ("--env", "brawl", *SHORT, *BF16)])
def test_on_cuda_only_an_update_waits(more: tuple[str, ...]) -> None:
    """Nothing lies on the wrong device; a rollout waits for its actions alone, an update five times in all.

    It takes a build of torch for CUDA, and no card.
    """
    done = launches("--cuda", "--json", *more)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    waits = [x for x in found if x["waits"] and x["part"] != "evaluation"]
    assert [(x["part"], x["times"]) for x in waits] == [("update", 1)] * 5, waits
    begun = ("league/play/seats.py", "league/play/evaluation.py")  # arrays that an evaluation begins with
    assert all(x["line"].startswith(begun) for x in found if x["waits"] and x["part"] == "evaluation")
    assert {x["part"] for x in found if not x["waits"]} == {"rollout", "update", "evaluation"}
