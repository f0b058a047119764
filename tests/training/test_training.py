"""The loop: what it writes, on which schedule, and that a bad update changes nothing."""

import dataclasses
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import league
from league import config as settings
from league.errors import GuardError, StoreError
from league.snapshots import io
from league.store.store import Store
from league.training.learner import PARTS, Learner
from league.training.magnet import RATE, Magnet
from league.training.recent import reward_terms, sums_of
from league.types import Rollout
from tests.helpers.rollouts import make_collector
from tests.helpers.runs import Notes
from tests.helpers.states import flat

TINY = [
    *("env.rounds=3", "env.rows=8", "learner.rollout_steps=8", "learner.minibatch_size=32", "learner.epochs=2"),
    *("pool.snapshot_every=100", "run.allow_short=true", "run.evaluate_games=4", "run.total_steps=640"),
    "run.evaluate_every=256",
]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """The store of one tiny run called `tiny`: 10 updates of 64 steps."""
    path = tmp_path_factory.mktemp("runs") / "league.duckdb"
    league.train("smoke", env="matrix", run="tiny", overrides=TINY, store=path)
    return Store.open(path)


def test_every_finished_match_is_a_row(trained: Store) -> None:
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
    text = (Path(__file__).parents[2] / "docs/ratings.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r'league query "(SELECT [^"]+FROM rating [^"]+)"', text)
    steps = [row[0] for row in trained.query(shown.replace("brawl-1", "tiny"))[1]]
    assert steps[0] == 0 and len(steps) == len(met)


def test_opponents_are_snapshots_taken_before_and_the_bots_of_the_mix(trained: Store) -> None:
    taken = {row.agent_id: row.update for row in trained.snapshots("tiny")}
    for match in trained.matches("tiny", "training"):
        opponent = match.agents[1 - match.agents.index("tiny")]
        assert opponent in {"bot:biased", "bot:random"} or taken[opponent] <= match.update_begin


def test_snapshots_follow_the_schedule_and_their_hash(trained: Store) -> None:
    rows = trained.snapshots("tiny")
    boundaries = [0, *(-(-mark // 64) * 64 for mark in range(100, 641, 100))]
    assert [row.step for row in rows] == boundaries
    for row, parent in zip(rows, [None, *rows], strict=False):
        manifest, tensors = io.load(trained.path / row.path)
        assert manifest.agent_id == row.agent_id == io.content_hash(tensors)
        assert row.parent == (parent.agent_id if parent else None)
        assert manifest.fingerprint == trained.find_run("tiny").fingerprint
    assert len({row.agent_id for row in rows}) == len(rows)


def test_reward_terms_of_matches_are_those_of_the_store(trained: Store) -> None:
    matches = trained.matches("tiny", "training")
    for last in (1, 50, None):
        shown = reward_terms(sums_of(matches[-last:] if last else matches, "tiny"), {"payoff": 1.0})
        asked = trained.reward_terms("tiny", last)
        assert [term.term for term in shown] == [term.term for term in asked] == ["payoff", "win"]
        for a, b in zip(shown, asked, strict=True):
            assert dataclasses.astuple(a)[1:] == pytest.approx(dataclasses.astuple(b)[1:])
    assert asked[0].matches == len(matches) and asked[0].own == -asked[0].other != 0


BRIEF = [
    *("env.time_limit_seconds=1.0", "env.stocks=1", "env.rows=8", "learner.rollout_steps=16"),
    *("learner.minibatch_size=64", "learner.epochs=1", "pool.snapshot_every=1000", "agent.opponent_encoder=false"),
    *("agent.observation_width=16", "agent.lstm_size=16", "run.evaluate_games=2", "run.total_steps=512"),
    *("rewards.combo=2.0", "rewards.weapon_taken=0", "rewards.weapon_lost=0", "rewards.win=0.5"),
]


def test_a_reward_that_never_fired_in_the_whole_run_is_named(tmp_path: Path) -> None:
    first, second = Notes(2), Notes()
    league.train("smoke", env="brawl", run="brief", device="cpu", overrides=BRIEF, store=tmp_path, callback=first)
    assert not [line for line in first.said if "never fired" in line]
    assert league.resume("brief", store=tmp_path, callback=second).status == "finished"
    matches = Store.open(tmp_path).matches("brief", "training")
    silent = {t for t in matches[0].rewards if not any(any(m.rewards[t]) for m in matches)}
    assert {"combo", "weapon_taken"} <= silent
    named = [line for line in second.said if "never fired" in line]
    unweighted = {"weapon_taken", "weapon_lost", "attack", "hit"}
    assert {line.split(" ")[0] for line in named} == {f"rewards.{t}" for t in silent - unweighted}
    assert all(f"in {len(matches)} training matches" in line for line in named)


def learner_and_rollout() -> tuple[Learner, Rollout]:
    """A small learner on the matrix game with one rollout."""
    collector = make_collector("matrix", rows=8, rounds=3)
    config = settings.load("smoke", env="matrix", overrides=TINY).learner
    learner = Learner(collector.policy, config, np.random.default_rng(0), torch.device("cpu"))
    return learner, collector.collect(8, 0)


@pytest.mark.parametrize("name", ["reward", "value", "next_value", "log_prob"])
def test_a_rollout_that_is_not_finite_is_named_and_touches_no_weight(name: str) -> None:
    learner, rollout = learner_and_rollout()
    before = flat(learner.state_dict())
    broken = getattr(rollout, name).clone()
    broken[3, 2] = float("nan")
    with pytest.raises(GuardError, match=rf"not_finite: {name} of row 2 in step 3 .* is nan.*learning_rate") as caught:
        learner.update(dataclasses.replace(rollout, **{name: broken}))
    assert "\n" not in str(caught.value) and flat(learner.state_dict()) == before


@pytest.mark.parametrize("is_warm", [False, True])
def test_a_gradient_that_is_not_finite_is_named_and_the_update_undone(is_warm: bool) -> None:
    learner, rollout = learner_and_rollout()
    if is_warm:
        learner.update(rollout)
    before = flat(learner.state_dict())
    whole, calls = learner.sequence, []

    def spoil(*arguments: Any) -> Any:
        log_prob, entropy, value = whole(*arguments)
        calls.append(1)
        return log_prob, entropy, value * float("inf") if len(calls) % 4 == 2 else value

    learner.sequence = spoil  # type: ignore[method-assign]
    with pytest.raises(GuardError, match=r"network's values is not finite.*value loss (inf|nan)") as caught:
        learner.update(rollout)
    assert "\n" not in str(caught.value) and caught.value.kind == "not_finite"
    assert flat(learner.state_dict()) == before


def tell(learner: Learner, kls: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets its minibatches do nothing, and say these KLs."""
    given = iter(kls)

    def minibatch(*_: Any, **more: Any) -> torch.Tensor:
        kl = next(given)
        return torch.tensor([kl if part == "approx_kl" else 0.0 for part in PARTS])

    monkeypatch.setattr(learner, "_minibatch", minibatch)


@pytest.mark.parametrize(
    ("kl", "epochs"),
    [([0.01, 0.01, 0.01, 0.11], 3), ([0.05, 0.05, 0.05, 0.02], 1), ([0.0, 0.0, 0.0, 0.0, 0.09, 0.09, 0.0, 0.0], 2)],
    ids=str,
)
def test_epochs_stop_by_the_kl_of_all_their_minibatches(
    kl: list[float], epochs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    learner, rollout = learner_and_rollout()
    learner.config = learner.config.model_copy(
        update={"epochs": 3, "minibatch_size": rollout.reward.numel() // 4, "target_kl": 0.025}
    )
    tell(learner, [*kl, *[0.0] * 9], monkeypatch)
    assert learner.update(rollout)["minibatches"] == 4 * epochs


def test_the_rate_follows_the_kl_and_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    learner, rollout = learner_and_rollout()
    figures = {"epochs": 1, "minibatch_size": rollout.reward.numel(), "learning_rate": 1e-3, "adaptive_kl": 0.01}
    learner.reconfigure(learner.config.model_copy(update=figures))
    kls = [0.011, 0.02, 0.006, 0.004, 0.004, 0.004, 0.05]
    tell(learner, kls, monkeypatch)
    rates = [learner.update(rollout)["learning_rate"] for _ in kls]
    assert rates == pytest.approx([1e-3 * (2 / 3) ** lowered for lowered in (0, 1, 2, 2, 1, 0, 0)])

    other, _ = learner_and_rollout()
    other.reconfigure(learner.config)
    other.load_state_dict(learner.state_dict())
    for update, rate in (({}, 1e-3 * 2 / 3), ({"learning_rate": 3e-4}, 2e-4), ({"adaptive_kl": 0.0}, 1e-3)):
        other.reconfigure(learner.config.model_copy(update=update))
        assert other.optimizer.param_groups[0]["lr"] == pytest.approx(rate)


def drawn_to_a_magnet(weight: float = 0.5) -> tuple[Learner, Any]:
    """A learner with a magnet that is another network than its policy, and a rollout of the policy."""
    learner, rollout = learner_and_rollout()
    config = learner.config.model_copy(update={"magnet": weight})
    drawn = Learner(learner.policy, config, np.random.default_rng(0), learner.device)
    torch.manual_seed(1)
    for parameter in drawn._magnet._policy.parameters():  # type: ignore[union-attr]
        parameter.data += 0.3 * torch.randn_like(parameter)
    return drawn, rollout


def test_it_begins_as_the_policy_and_follows_by_its_rate() -> None:
    learner, rollout = learner_and_rollout()
    magnet = Magnet(learner.policy)
    assert torch.allclose(learner._of_magnet(magnet, rollout), rollout.log_prob, atol=1e-5)
    expected = {name: value.clone() for name, value in learner.policy.named_parameters()}
    for _ in range(3):
        for name, parameter in learner.policy.named_parameters():
            parameter.data += 1.0
            expected[name] = (1 - RATE) * expected[name] + RATE * parameter.data
        magnet.follow(learner.policy)
    assert all(torch.allclose(value, expected[name], atol=1e-6) for name, value in magnet._policy.named_parameters())
    assert not any(parameter.requires_grad for parameter in magnet._policy.parameters())


def test_an_update_takes_the_log_ratio_off_the_advantages(monkeypatch: pytest.MonkeyPatch) -> None:
    learner, rollout = drawn_to_a_magnet()
    nothing = torch.zeros_like(rollout.value)
    rollout = dataclasses.replace(rollout, reward=nothing, value=nothing, next_value=nothing)
    ratio = rollout.log_prob - learner._of_magnet(learner._magnet, rollout)  # type: ignore[arg-type]
    seen = []

    def epochs(lesson: Any, *, is_watched: bool) -> dict[str, float]:
        seen.append(lesson._figures)
        return dict.fromkeys(("gradient_norm", "approx_kl", "entropy"), 0.0)

    monkeypatch.setattr(learner, "_epochs", epochs)
    learner.update(rollout)
    _, advantages, targets = seen[0]
    assert torch.allclose(advantages, -(ratio - ratio.mean()) / ratio.std(), atol=1e-4) and ratio.std() > 0.01
    assert not targets.any()


def test_a_run_finishes_although_its_rewards_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Store, run: str, last: int | None = None) -> None:
        raise StoreError("store cannot be read")

    monkeypatch.setattr(Store, "reward_terms", fail)
    notes, path = Notes(), tmp_path / "league.duckdb"
    result = league.train("smoke", env="matrix", overrides=TINY, store=path, callback=notes)
    assert result.status == "finished"
    assert notes.said[-1] == "not known whether every reward term fired: store cannot be read"
