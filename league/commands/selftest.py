"""What `league selftest` computes: known answers, two ways to one answer, and hashes that this machine may not share.

Games are exact everywhere, so another hash of one is a failure. What networks give depends on the processor, on torch
and on the form of the kernels in its last bits: it is held to the same numbers by other ways with a tolerance, which
must hold everywhere, and to a known hash, which only says whether runs are the same bits as where it was taken.
"""

from __future__ import annotations

import hashlib
import math
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from league.errors import as_known
from league.runtime.process import StepKept

if TYPE_CHECKING:
    from torch import Tensor

    from league.types import GameSpec, Policy

Outcome = Literal["passed", "other bits", "failed"]
GAMES = {
    "brawl": "b3059ca216dbe264c581e4382d0fa33683f1b834fca4c420b29254574fd7dc3d",
    "cards": "7ea621bffe2e6a136feb2de5fd5eb98e6bdb161c2a4e6593a3c75f3c8dd71a0d",
    "matrix": "c41c560004e237a5f8de07ee914a778c56118d72724bef4a6df9e79437b46a5e",
    "kuhn": "a46e0df0c7d880a80efa5d6f5740f4b63ed61fb5b59312b5d7196cc79d03de86",
    "leduc": "96daa4c618043d8e2588223c5146afc93842ed3cf71cf064f19ff184f04137b0",
}
"""Game -> sha256 of what `_played` sees of it; those of a game change with its version."""
RUNS = {
    "torch 2.13, float32 by plain torch, GenuineIntel AVX512": (
        "c17ac6d378ff0b14e7875e4144024cc89ad345c73f37ff738042d56e5053e986"
    ),
}
"""Form of the bits (`form`) -> agent id of the run that `_learning` trains."""
SETTINGS = (
    *("env.rows=8", "learner.rollout_steps=16", "learner.minibatch_size=64", "learner.epochs=2", "learner.device=cpu"),
    *("agent.encoder_layers=2", "agent.encoder_width=32", "agent.encoder_heads=2", "agent.encoder_feedforward=64"),
    *("agent.latents=2", "agent.observation_width=32", "agent.lstm_size=64", "agent.head_sizes=[32]"),
    *("pool.snapshot_every=256", "pool.live_nets=2", "run.evaluate_games=2", "run.ladder_share=0.0"),
    *("run.rewind_every=512", "env.threads=1", "env.time_limit_seconds=5.0"),
)
STEPS = 1_024
TOLERANCE = 1e-4
"""The most by which compiled kernels and plain torch may differ, relative to the largest number: tiles have 16 bits."""


@dataclass(frozen=True)
class Check:
    """One check that was made."""

    name: str
    outcome: Outcome
    """`other bits`: all that was computed is right, but not bit for bit what is known of such a machine."""
    told: str
    seconds: float


def checks() -> Iterator[Check]:
    """Makes the checks, one after the other, on one thread; nothing is left on the disk."""
    import torch

    made: tuple[tuple[str, Callable[[], tuple[Outcome, str]]], ...] = (
        *(("ratings", _ratings), ("equilibria", _equilibria), ("advantages", _advantages)),
        *(("games", _games), ("network", _network), ("kernels", _kernels), ("learning", _learning)),
    )
    with StepKept():
        torch.set_num_threads(1)
        for name, check in made:
            started = time.perf_counter()
            try:
                outcome, told = check()
            except Exception as error:
                known = as_known(error)
                outcome, told = "failed", str(known) if known else f"{type(error).__name__}: {error}"
            yield Check(name, outcome, " ".join(told.split()), time.perf_counter() - started)


def form() -> str:
    """What the bits of learning depend on here, beside settings and seed, with one thread."""
    import torch

    from league.policies.kernels import switch
    from league.policies.kernels.linear import has_tiles
    from league.runtime.device import products_of

    minor = ".".join(torch.__version__.split(".")[:2])
    products = products_of(torch.device("cpu"), "float32", has_tiles(), is_compiled=switch.IS_ON)
    return f"torch {minor}, {products}, {switch.VENDOR or 'other'} {torch.backends.cpu.get_cpu_capability()}"


def _ratings() -> tuple[Outcome, str]:
    """Without a prior the maximum likelihood of 3 wins in 4 games is log-odds of 3: 400 log10(3) points."""
    import numpy as np

    from league.maths.pairs import PairCounts
    from league.maths.ratings import MAXIMUM_LIKELIHOOD, bradley_terry

    columns = (np.array(column, np.int64) for column in ([30, 10], [0, 0], [10, 30]))
    pairs = PairCounts(("a", "b"), ("b", "a"), *columns)
    found = bradley_terry(pairs, "b", 1000.0, prior=MAXIMUM_LIKELIHOOD)
    points = float(found.rating[found.agents.index("a")]) - 1000.0
    wanted = 400 * math.log10(3)
    return _near(points, wanted, 1e-3, "3 of 4 games won is", "Elo points")


def _equilibria() -> tuple[Outcome, str]:
    """Kuhn poker played by lot has a NashConv of 11/12 chips (OpenSpiel: exploitability 0.458333)."""
    from league import config
    from league.envs import registry
    from league.maths.nashconv import nash_conv, uniform

    tree = registry.tree("kuhn", config.load(env="kuhn").env.options)
    assert tree is not None
    return _near(nash_conv(tree, uniform(tree)).total, 11 / 12, 1e-9, "Kuhn by lot: NashConv", "chips")


def _advantages() -> tuple[Outcome, str]:
    """GAE against the sum that defines it, term by term, in float64."""
    import torch

    from league.training.returns import gae

    steps, gamma, lam = 40, 0.97, 0.9
    draw = torch.Generator().manual_seed(1)
    rewards, values, after = (torch.randn(steps, 3, generator=draw, dtype=torch.float64) for _ in range(3))
    ends = torch.rand(steps, 3, generator=draw) < 0.1
    delta, slow = rewards + gamma * after - values, torch.zeros_like(rewards)
    for row in range(3):
        for t in range(steps):
            for later in range(t, steps):
                slow[t, row] += (gamma * lam) ** (later - t) * delta[later, row]
                if ends[later, row]:
                    break
    worst = float((gae(rewards, values, after, ends, gamma=gamma, lam=lam) - slow).abs().max())
    return ("passed" if worst < 1e-10 else "failed"), f"from the sum that defines them by at most {worst:.1g}"


def _games() -> tuple[Outcome, str]:
    """Each built-in game plays the matches that it plays on every machine."""
    wrong = []
    for name, known in GAMES.items():
        digest = _played(name)
        if digest != known:
            wrong.append(f"{name} gives {digest[:12]} instead of {known[:12]}")
    if wrong:
        return "failed", f"{'; '.join(wrong)}: build its compiled part again, or report this line"
    return "passed", f"{', '.join(GAMES)} play as they do everywhere, bit for bit"


def _played(name: str, rows: int = 8, steps: int = 300) -> str:
    """sha256 of observations, rewards and ends of matches with a bot in every second row, on legal random actions."""
    import numpy as np

    from league import config
    from league.envs import registry

    options = registry.check_options(name, config.load(env=name).env.options)
    batch = registry.make(name, rows=rows, threads=1, options=options)
    spec = registry.spec(name, options)
    batch.controllers[1::2, 1] = np.arange(rows // 2) % len(spec.bots)
    batch.reset(7)
    rng, digest = np.random.default_rng(7), hashlib.sha256()
    for _ in range(steps):
        for array in (batch.obs, batch.reward_terms, batch.terminated, batch.truncated):
            digest.update(np.ascontiguousarray(array).tobytes())
        batch.actions[...] = rng.integers(0, spec.action.choices or 2, batch.actions.shape)
        if spec.action.kind == "legal_tuples":
            listed = np.asarray(batch.mask).reshape(rows, 2, -1, spec.action.num_parts)
            counts = (listed[..., 0] >= 0).sum(axis=2)
            chosen = rng.integers(0, 1 << 30, counts.shape) % np.maximum(counts, 1)
            batch.actions[...] = np.take_along_axis(listed, chosen[..., None, None], axis=2)[:, :, 0]
        batch.step()
    return digest.hexdigest()


def _network() -> tuple[Outcome, str]:
    """The network in play and in learning: a segment gives what its steps gave, gradients reach everything."""
    from league.testing import check_policy

    check_policy(*_policy(), rows=4, steps=16)
    return "passed", "a segment at once is its steps one by one, and every parameter learns"


def _kernels() -> tuple[Outcome, str]:
    """What compiled kernels give against plain torch on the same weights."""
    from league.policies.kernels import switch
    from league.runtime.device import products

    if not switch.IS_ON:
        return "passed", f"plain torch serves ({switch.WHY_OFF}), there is nothing to compare"
    with products("float32"):  # as training has it
        compiled = _answers()
        try:
            switch.IS_ON = False
            plain = _answers()
        finally:
            switch.IS_ON = True
    worst = max(float((a - b).abs().max() / b.abs().max().clamp(min=1.0)) for a, b in zip(compiled, plain, strict=True))
    if not worst < TOLERANCE:
        return (
            "failed",
            f"compiled and plain torch differ by {worst:.2g}: train with {switch.SETTING}=off, and report this",
        )
    return "passed", f"compiled and plain torch differ by at most {worst:.1g}, {TOLERANCE:g} is allowed"


def _policy(*more: str) -> tuple[Policy, GameSpec]:
    import torch

    from league import config
    from league.arena.networks import make_policy
    from league.envs import registry

    settings = config.load("smoke", env="brawl", overrides=[*SETTINGS, *more])
    spec = registry.spec("brawl", settings.env.options)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        return make_policy(settings, spec), spec


def _answers() -> list[Tensor]:
    """Values and gradients of a segment in which matches begin, after some steps of play."""
    import torch

    policy, spec = _policy("agent.lstm_size=512", "agent.encoder_width=256", "learner.precision=float32")
    draw = torch.Generator().manual_seed(5)
    obs = torch.rand(8, 24, spec.obs_size, generator=draw) * 2 - 1
    is_first = torch.rand(8, 24, generator=draw) < 0.1
    is_first[:, 0] = True
    state = policy.initial_state(8)
    with torch.no_grad():
        steps = [policy.step(obs[:, t], state, generator=torch.Generator().manual_seed(t)) for t in range(4)]
    action = torch.zeros(8, 24, *steps[0][0].shape[1:], dtype=steps[0][0].dtype)
    log_prob, entropy, value = policy.sequence(obs, action, policy.initial_state(8), is_first)
    (log_prob.mean() + entropy.mean() + value.square().mean()).backward()  # type: ignore[no-untyped-call]  # torch's
    gradients = [parameter.grad for parameter in policy.parameters() if parameter.grad is not None]
    return [steps[-1][2], log_prob.detach(), value.detach(), torch.cat([x.flatten() for x in gradients])]


def _learning() -> tuple[Outcome, str]:
    """A run is the same bits whether it goes through, is resumed, or goes back; and those known of such a machine."""
    import league

    with tempfile.TemporaryDirectory(prefix="league-selftest-") as folder:
        store = Path(folder)

        def train(run: str, steps: int) -> str:
            sets = [*SETTINGS, f"run.total_steps={steps}"]
            return league.train("smoke", env="brawl", run=run, seed=1, overrides=sets, store=store, callback=()).newest

        whole = train("whole", STEPS)
        train("half", STEPS // 2)
        resume: Callable[..., Any] = partial(league.resume, store=store, callback=())
        further = resume("half", steps=STEPS).newest
        back = resume("whole", at=STEPS // 2, name="back").newest
        agent = league.load("whole", store=store)
        agent.reset(seed=1)
    for what, newest in (("resumed", further), ("that went back", back)):
        if newest != whole:
            told = f"a run {what} came to {newest[:12]}, one that went through to {whole[:12]}"
            return "failed", f"{told}: runs on this machine are not reproducible; report this line"
    known = RUNS.get(form())
    if known is None:
        return "other bits", f"no hash is known for {form()}; here it is {whole}"
    if known != whole:
        return "other bits", f"{whole[:12]} here, {known[:12]} where it was taken ({form()}); numbers are right"
    return "passed", f"a run that stops, goes further or goes back is one that went through; {whole[:12]} as known"


def _near(found: float, wanted: float, tolerance: float, what: str, unit: str) -> tuple[Outcome, str]:
    is_near = abs(found - wanted) <= tolerance
    return ("passed" if is_near else "failed"), f"{what} {found:.6f} {unit}, known {wanted:.6f}"
