"""The loop: what it writes, on which schedule, and that a bad update changes nothing."""

import dataclasses
import re
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import league
from league import config as settings
from league.boards.standings import leaderboard
from league.envs import registry
from league.errors import GuardError, StoreError
from league.play.nets import NetCalls
from league.play.rollout import Collector
from league.policies.actor_critic import ActorCritic, Architecture
from league.pool.pool import Pool
from league.snapshots import io
from league.store.folder import Folder
from league.store.store import Store
from league.training.learner import PARTS, Learner
from league.training.recent import reward_terms, sums_of
from league.training.run import Report
from league.types import MatchResult, Origin, Rollout

TINY = [
    "env.rounds=3",
    "env.rows=8",
    "learner.rollout_steps=8",
    "learner.minibatches=2",
    "learner.epochs=2",
    "pool.snapshot_every=100",
    "run.allow_short=true",
    "run.evaluate_games=4",
    "run.total_steps=640",
    "run.evaluate_every=256",
]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """The store of one tiny run called `tiny`: 10 updates of 64 steps."""
    path = tmp_path_factory.mktemp("runs") / "league.duckdb"
    league.train("smoke", env="matrix", run="tiny", overrides=TINY, store=path)
    return Store.open(path)


def test_every_finished_match_is_a_row(trained: Store) -> None:
    """Training rows hold every match that 8 rows of 80 steps finish, the learner in either seat by turns."""
    matches = trained.matches("tiny", "training")
    assert len(matches) == 8 * (80 // 3)
    by_row = {row: [m for m in matches if m.row == row] for row in range(8)}
    for row, played in by_row.items():
        seats = [match.agents.index("tiny") for match in played]
        assert seats == [(row + i) % 2 for i in range(len(seats))]
        assert len({match.seed for match in played}) == len(played)
    assert all(match.update_begin <= match.update_end == match.update - 1 for match in matches)
    assert any(match.update_begin < match.update_end for match in matches)
    assert all(match.steps == 3 and match.sampling == "sample" for match in matches)


def test_each_evaluation_leaves_ratings(trained: Store) -> None:
    """At every update with evaluation matches the learner's Elo and everybody who met are in the table `rating`."""
    met: dict[int, set[str]] = {}
    for match in trained.matches("tiny", "evaluation"):
        met.setdefault(match.update, {"tiny"}).update(match.agents)
    rows = trained.query("SELECT \"update\", agent_id, system FROM rating WHERE run = 'tiny'")[1]
    assert len(met) > 2 and {(u, a) for u, a, _ in rows} == {(u, a) for u, agents in met.items() for a in agents}
    assert {u for u, agent, system in rows if system == "elo" and agent == "tiny"} == set(met)
    last, entries = max(met), {e.agent_id: e for e in leaderboard(trained, "tiny").entries}
    text = (Path(__file__).parents[2] / "docs/ratings.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r'league query "(SELECT [^"]+FROM rating [^"]+)"', text)
    steps = [row[0] for row in trained.query(shown.replace("brawl-1", "tiny"))[1]]
    assert steps[0] == 0 and len(steps) == len(met)
    curve = f"SELECT agent_id, rating, lower FROM rating WHERE \"update\" = {last} AND system = 'payoff'"
    assert all((entries[a].rating, entries[a].lower) == (r, low) for a, r, low in trained.query(curve)[1])


def test_opponents_are_snapshots_taken_before_and_the_bots_of_the_mix(trained: Store) -> None:
    """Whom a match was played against existed when the match began."""
    taken = {row.agent_id: row.update for row in trained.snapshots("tiny")}
    for match in trained.matches("tiny", "training"):
        opponent = match.agents[1 - match.agents.index("tiny")]
        assert opponent in {"bot:biased", "bot:random"} or taken[opponent] <= match.update_begin


def test_snapshots_follow_the_schedule_and_their_hash(trained: Store) -> None:
    """One at step 0 and at the first update boundary at or past each mark; the file's hash is the agent's id."""
    rows = trained.snapshots("tiny")
    boundaries = [0, *(-(-mark // 64) * 64 for mark in range(100, 641, 100))]
    assert [row.step for row in rows] == boundaries
    for row, parent in zip(rows, [None, *rows], strict=False):
        manifest, tensors = io.load(trained.path / row.path)
        assert manifest.agent_id == row.agent_id == io.content_hash(tensors)
        assert row.parent == (parent.agent_id if parent else None)
        assert manifest.fingerprint == trained.find_run("tiny").fingerprint
    assert len({row.agent_id for row in rows}) == len(rows)


def test_evaluations_are_seat_swapped_pairs_at_the_cadence(trained: Store) -> None:
    """Each pair of games has one seed and both seatings; they are played at steps 0, 256, 512 and at the end."""
    matches = trained.matches("tiny", "evaluation")
    assert sorted({match.update for match in matches}) == [0, 4, 8, 10]
    pairs: dict[tuple[int, int, int], list[tuple[str, str]]] = {}
    for match in matches:
        pairs.setdefault((match.update, match.row // 2, match.seed), []).append(match.agents)
    assert all(len(agents) == 2 and agents[0] == agents[1][::-1] for agents in pairs.values())
    final = {agent for match in matches if match.update == 10 for agent in match.agents}
    first, *_, newest = (row.agent_id for row in trained.snapshots("tiny"))
    assert final == {newest, first, "bot:constant", "bot:random", "bot:biased"}


def test_metrics_of_every_update_are_kept(trained: Store) -> None:
    """Losses, entropy and reward terms can be asked for by SQL, one value an update."""
    _, rows = trained.query("SELECT name, count(*) FROM metric GROUP BY name")
    counts = dict(rows)
    assert counts["entropy"] == counts["approx_kl"] == counts["explained_variance"] == 10
    assert counts["reward/payoff"] >= 9


def test_reward_terms_of_matches_are_those_of_the_store(trained: Store) -> None:
    """What training shows of its last matches is what SQL says of the same ones."""
    matches = trained.matches("tiny", "training")
    for last in (1, 50, None):
        shown = reward_terms(sums_of(matches[-last:] if last else matches, "tiny"), {"payoff": 1.0})
        asked = trained.reward_terms("tiny", last)
        assert [term.term for term in shown] == [term.term for term in asked] == ["payoff", "win"]
        for a, b in zip(shown, asked, strict=True):
            assert dataclasses.astuple(a)[1:] == pytest.approx(dataclasses.astuple(b)[1:])
    assert asked[0].matches == len(matches) and asked[0].own == -asked[0].other != 0
    lone = dataclasses.replace(matches[0], rewards={"payoff": (0.0, 3.0), "win": (0.0, 0.0)})
    assert [term.fired for term in reward_terms(sums_of([lone], "tiny"), {"payoff": 1.0})] == [1, 0], (
        "either seat counts"
    )


class Notes:
    """A callback that keeps what it is told, and stops the run after update `stop_at`."""

    def __init__(self, stop_at: int = 0) -> None:
        self.said: list[str] = []
        self.reports: list[Report] = []
        self.stop_at = stop_at

    def report(self, report: Report) -> None:
        """Kept."""
        self.reports.append(report)
        if report.update == self.stop_at:
            signal.raise_signal(signal.SIGINT)

    def evaluated(self, steps: int, opponent: str, summary: object) -> None:
        """Ignored."""

    def say(self, message: str) -> None:
        """Kept."""
        self.said.append(message)


BRIEF = [
    *("env.time_limit_seconds=1.0", "env.stocks=1", "env.rows=8", "learner.rollout_steps=16"),
    *("learner.minibatches=2", "learner.epochs=1", "pool.snapshot_every=1000", "agent.opponent_encoder=false"),
    *("agent.observation_width=16", "agent.lstm_size=16", "run.evaluate_games=2", "run.total_steps=512"),
    *("rewards.combo=2.0", "rewards.weapon_taken=0", "rewards.weapon_lost=0", "rewards.win=0.5"),
]


@pytest.mark.parametrize("fired_before", [False, True])
def test_a_reward_that_never_fired_in_the_whole_run_is_named(
    fired_before: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the stage's end, of all matches and both seats, those before a resume too; not at a stop, nor of weight 0."""
    original = Folder.add_matches

    def once_for_the_opponent(self: Folder, matches: Sequence[MatchResult]) -> None:
        changed = [
            dataclasses.replace(x, rewards=x.rewards | {"combo": tuple(float(a != "brief") for a in x.agents)})
            if fired_before and (x.kind, x.update, x.row) == ("training", 1, 3)
            else x
            for x in matches
        ]
        original(self, changed)

    path, first, second = tmp_path, Notes(stop_at=2), Notes()
    with monkeypatch.context() as patch:
        patch.setattr(Folder, "add_matches", once_for_the_opponent)
        league.train("smoke", env="brawl", run="brief", device="cpu", overrides=BRIEF, store=path, callback=first)
    assert not [line for line in first.said if "never fired" in line]
    assert league.resume("brief", store=path, callback=second).status == "finished"
    matches = Store.open(path).matches("brief", "training")
    silent = {t for t in matches[0].rewards if not any(any(m.rewards[t]) for m in matches)}
    assert ("combo" in silent) != fired_before and "weapon_taken" in silent
    named = [line for line in second.said if "never fired" in line]
    assert {line.split(" ")[0] for line in named} == {
        f"rewards.{t}" for t in silent - {"weapon_taken", "weapon_lost", "attack", "hit"}
    }
    assert all(f"in {len(matches)} training matches" in line for line in named)
    assert fired_before or any(line.startswith("rewards.combo (weight 2) ") for line in named)
    assert len(matches) >= second.reports[-1].rewards[0].matches > 0


def test_a_run_finishes_although_its_rewards_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the last look at the rewards cannot be had, one line says so and the run is finished all the same."""

    def fail(self: Store, run: str, last: int | None = None) -> None:
        raise StoreError("store cannot be read")

    monkeypatch.setattr(Store, "reward_terms", fail)
    notes, path = Notes(), tmp_path / "league.duckdb"
    result = league.train("smoke", env="matrix", overrides=TINY, store=path, callback=notes)
    assert result.status == "finished"
    assert notes.said[-1] == "not known whether every reward term fired: store cannot be read"


def test_evaluating_changes_nothing_that_is_learned(trained: Store, tmp_path: Path) -> None:
    """The same run without evaluations plays the same matches and reaches the same weights."""
    path = tmp_path / "league.duckdb"
    league.train("smoke", env="matrix", run="tiny", overrides=[*TINY, "run.evaluate_every=0"], store=path)
    other = Store.open(path)
    assert [r.agent_id for r in other.snapshots("tiny")] == [r.agent_id for r in trained.snapshots("tiny")]
    assert other.matches("tiny", "training") == trained.matches("tiny", "training")


def flat_state(learner: Learner) -> dict[str, torch.Tensor]:
    """Copies of all that a learner's next update depends on."""
    state = learner.state_dict()
    flat = {f"policy.{name}": x.clone() for name, x in state["policy"].items()}
    flat |= {f"{i}.{name}": x.clone() for i, values in state["optimizer"].items() for name, x in values.items()}
    rng = state["rng"]["state"]
    return flat | {"rng": torch.tensor([rng[name] >> shift & 0xFFFF for name in rng for shift in range(0, 128, 16)])}


def learner_and_rollout() -> tuple[Learner, Rollout]:
    """A small learner on the matrix game with one rollout."""
    config = settings.load("smoke", env="matrix", overrides=TINY)
    options = registry.check_options("matrix", config.env.options)
    spec = registry.spec("matrix", options)
    torch.manual_seed(0)
    sizes = config.agent.model_dump(exclude={"history_frames", "policy"})
    policy = ActorCritic(Architecture.of(spec, history_tokens=4, **sizes))
    pool = Pool(config.pool.model_copy(update={"mix": {"bot:biased": 1.0}}), lambda _: policy, np.random.default_rng(0))
    pool.admit("unused")
    pool.refresh_targets(set())
    collector = Collector(
        [registry.make("matrix", rows=8, threads=1, options=options)],
        policy,
        pool,
        NetCalls(torch.Generator().manual_seed(0)),
        weights=config.rewards,
        origin=Origin("me", "g"),
    )
    collector.start(0)
    learner = Learner(policy, config.learner, np.random.default_rng(0), torch.device("cpu"))
    return learner, collector.collect(8, 0)


@pytest.mark.parametrize("name", ["reward", "value", "next_value", "log_prob"])
def test_a_rollout_that_is_not_finite_is_named_and_touches_no_weight(name: str) -> None:
    """The tensor, its row and its step stand in one clear line, and not a single weight is changed."""
    learner, rollout = learner_and_rollout()
    before = {key: value.clone() for key, value in learner.policy.state_dict().items()}
    broken = getattr(rollout, name).clone()
    broken[3, 2] = float("nan")
    with pytest.raises(GuardError, match=rf"not_finite: {name} of row 2 in step 3 .* is nan.*learning_rate") as caught:
        learner.update(dataclasses.replace(rollout, **{name: broken}))
    assert "\n" not in str(caught.value)
    assert all(torch.equal(value, before[key]) for key, value in learner.policy.state_dict().items())


@pytest.mark.parametrize("is_warm", [False, True])
def test_a_gradient_that_is_not_finite_is_named_and_the_update_undone(is_warm: bool) -> None:
    """A bad second minibatch takes the good first one back: weights, moments and RNG."""
    learner, rollout = learner_and_rollout()
    if is_warm:
        learner.update(rollout)
    before = flat_state(learner)
    whole, calls = learner.sequence, []

    def spoil(*arguments: Any) -> Any:
        log_prob, entropy, value = whole(*arguments)
        calls.append(1)
        return log_prob, entropy, value * float("inf") if len(calls) % 4 == 2 else value

    learner.sequence = spoil  # type: ignore[method-assign]
    with pytest.raises(GuardError, match=r"network's values is not finite.*value loss (inf|nan)") as caught:
        learner.update(rollout)
    assert "\n" not in str(caught.value) and caught.value.kind == "not_finite"
    after = flat_state(learner)
    assert before.keys() == after.keys() and all(torch.equal(before[name], after[name]) for name in before)


def test_restored_learner_takes_the_same_next_step() -> None:
    """Weights, moments and the shuffling RNG all travel: the next update is bit for bit the same."""
    learner, rollout = learner_and_rollout()
    learner.update(rollout)
    state = learner.state_dict()
    state = {
        "policy": {k: v.clone() for k, v in state["policy"].items()},
        "optimizer": {i: {k: v.clone() for k, v in moments.items()} for i, moments in state["optimizer"].items()},
        "returns": state["returns"],
        "rate_share": state["rate_share"],
        "rng": state["rng"],
    }
    state["rng"] = {**state["rng"], "state": dict(state["rng"]["state"])}
    expected = learner.update(rollout)
    other, _ = learner_and_rollout()
    other.load_state_dict(state)
    assert other.update(rollout) == expected
    for key, value in learner.policy.state_dict().items():
        assert torch.equal(value, other.policy.state_dict()[key])


def test_first_minibatch_has_no_kl_and_clipping_starts_later() -> None:
    """Before the first optimiser step new and old policy are one: KL and clip share are 0."""
    learner, rollout = learner_and_rollout()
    learner.config = learner.config.model_copy(update={"epochs": 1, "minibatches": 1})
    metrics = learner.update(rollout)
    assert abs(metrics["approx_kl"]) < 1e-6 and metrics["clip_share"] == 0
    assert metrics["minibatches"] == 1


@pytest.mark.parametrize(
    ("kl", "epochs"), [([0.01, 0.01, 0.09], 3), ([0.05, 0.05, 0.02], 1), ([0.0, 0.0, 0.0, 0.09, 0.09, 0.0], 2)], ids=str
)
def test_epochs_stop_by_the_kl_of_all_their_minibatches(
    kl: list[float], epochs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mean over an epoch passes 1.5 times the target; one minibatch above it, the last or not, is not enough."""
    learner, rollout = learner_and_rollout()
    learner.config = learner.config.model_copy(update={"epochs": 3, "minibatches": len(kl[:3]), "target_kl": 0.025})
    given = iter([*kl, *[0.0] * 9])

    def minibatch(*_: Any, **more: Any) -> torch.Tensor:
        kl = next(given)
        return torch.tensor([kl if part == "approx_kl" else 0.0 for part in PARTS])

    monkeypatch.setattr(learner, "_minibatch", minibatch)
    assert learner.update(rollout)["minibatches"] == 3 * epochs


def test_the_rate_follows_the_kl_and_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Above `adaptive_kl` the next rate is two thirds; below half of it, half as much again, up to the configured one.

    What it has come to is in the state; it holds while a schedule moves the configured rate; 0 gives that one back.
    """
    learner, rollout = learner_and_rollout()
    figures = {"epochs": 1, "minibatches": 1, "learning_rate": 1e-3, "adaptive_kl": 0.01}
    learner.reconfigure(learner.config.model_copy(update=figures))
    kls = [0.011, 0.02, 0.006, 0.004, 0.004, 0.004, 0.05]
    given = iter([*kls, 0.0])

    def minibatch(*_: Any, **more: Any) -> torch.Tensor:
        kl = next(given)
        return torch.tensor([kl if part == "approx_kl" else 0.0 for part in PARTS])

    monkeypatch.setattr(learner, "_minibatch", minibatch)
    rates = [learner.update(rollout)["learning_rate"] for _ in kls]
    assert rates == pytest.approx([1e-3 * (2 / 3) ** lowered for lowered in (0, 1, 2, 2, 1, 0, 0)])

    def rate(learner: Learner) -> float:
        return float(learner.optimizer.param_groups[0]["lr"])

    other, _ = learner_and_rollout()
    other.reconfigure(learner.config)
    other.load_state_dict(learner.state_dict())
    assert rate(other) == rate(learner) == pytest.approx(1e-3 * 2 / 3)
    other.reconfigure(learner.config.model_copy(update={"learning_rate": 3e-4}))
    assert rate(other) == pytest.approx(2e-4)
    other.reconfigure(learner.config.model_copy(update={"adaptive_kl": 0.0}))
    assert rate(other) == 1e-3


def test_the_network_takes_a_share_of_the_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever sets the rate, and whatever the KL asks for below that; a learner begins by it."""
    learner, rollout = learner_and_rollout()
    config = learner.config.model_copy(update={"learning_rate": 1e-3, "rate_share": 0.25})
    fresh = Learner(learner.policy, config, np.random.default_rng(0), learner.device)
    assert fresh.optimizer.param_groups[0]["lr"] == 2.5e-4
    told = torch.tensor([0.02 if part == "approx_kl" else 0.0 for part in PARTS])
    monkeypatch.setattr(learner, "_minibatch", lambda *_, **more: told)
    rates = []
    for update in ({}, {"learning_rate": 4e-4}, {"rate_share": 1.0}, {"adaptive_kl": 0.01}, {}):
        config = config.model_copy(update=update)
        learner.reconfigure(config)
        rates.append(learner.update(rollout)["learning_rate"])
    assert rates == pytest.approx([2.5e-4, 1e-4, 4e-4, 4e-4, 4e-4 * 2 / 3])


def test_a_refused_update_leaves_the_rate() -> None:
    """It steers nothing."""
    learner, rollout = learner_and_rollout()
    learner.reconfigure(learner.config.model_copy(update={"adaptive_kl": 1e-9}))
    before = learner.optimizer.param_groups[0]["lr"]
    with pytest.raises(GuardError):
        learner.update(dataclasses.replace(rollout, reward=rollout.reward * torch.nan))
    assert learner.optimizer.param_groups[0]["lr"] == before
    learner.update(rollout)
    assert learner.optimizer.param_groups[0]["lr"] < before
