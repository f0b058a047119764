"""The agent that is handed out: it plays alone, says what is wrong with a call, and cannot be made to blow up."""

import json
import os
import resource
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import league
from league.envs import registry
from league.errors import SnapshotError, StoreError, UsageError
from league.snapshots import Agent
from league.snapshots.agent import load_policy
from league.snapshots.io import save
from league.snapshots.manifest import About, spec_from_json
from league.types import EXTERNAL

ROOT = Path(__file__).resolve().parents[2]
ENCODER = ("agent.opponent_encoder=true", "agent.encoder_width=16", "agent.history_frames=4")
SMALL = ("env.rows=4", "learner.rollout_steps=16", "learner.minibatch_size=32", "run.evaluate_games=2")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a store and a trained run with an opponent encoder."""
    path = tmp_path_factory.mktemp("agents")
    overrides = (*SMALL, *ENCODER, "run.total_steps=192", "pool.snapshot_every=64")
    league.train("smoke", env="matrix", device="cpu", overrides=overrides, store=path / "league.duckdb")
    return path


@pytest.fixture(scope="module")
def exported(folder: Path) -> Path:
    league.export("matrix-1", folder / "out", store=folder / "league.duckdb")
    return folder / "out"


def observations(num: int, *shape: int, size: int = 8) -> np.ndarray[Any, Any]:
    """`num` observations (or stacks of `shape`) of the matrix game's size."""
    return np.random.default_rng(0).random((num, *shape, size), np.float32)


def counted(act: Any, seen: list[int], *given: Any, **named: Any) -> Any:
    seen.append(torch.get_num_threads())
    return act(*given, **named)


def test_it_decides_at_one_thread_unless_told(exported: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    had = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        for threads, given in ((1, {}), (3, {"threads": 3})):
            for agent in (Agent.load(exported, **given), league.load(str(exported), **given)):
                seen: list[int] = []
                for name in ("step", "watch"):
                    act = getattr(agent.policy, name)
                    told = partial(counted, act, seen)
                    monkeypatch.setattr(agent.policy, name, told)
                agent.act(observations(1)[0])
                agent.watch(observations(1)[0])
                with pytest.raises(UsageError):
                    agent.act(np.zeros(3, np.float32))
                assert seen == [threads, threads] and torch.get_num_threads() == 2
        with pytest.raises(UsageError, match="threads=0"):
            Agent.load(exported, threads=0)
    finally:
        torch.set_num_threads(had)


@pytest.mark.slow
def test_five_lines_play_a_match_without_a_store(exported: Path, tmp_path: Path) -> None:
    shutil.copytree(exported, tmp_path / "agent")
    lines = """
import numpy as np, sys
from league.snapshots import Agent
agent = Agent.load("agent")
agent.reset(seed=1)
played = [agent.act(np.zeros(8, np.float32)) for _ in range(10)]
assert all(action.shape == (1,) and 0 <= action[0] < 3 for action in played)
rooms = {"league.store.store", "league.sessions.app", "league.training.loop"}
loaded = {"duckdb", "league.config", *rooms} & sys.modules.keys()
assert not loaded, loaded
"""
    process = subprocess.run(
        [sys.executable, "-c", lines],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert process.returncode == 0, process.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["agent"]


def test_an_export_plays_as_the_snapshot_does(folder: Path, exported: Path) -> None:
    store = folder / "league.duckdb"
    agents = [
        Agent.load(exported),
        league.load("matrix-1", store=store),
        league.load("matrix-1@192", store=store),
        league.load(str(folder / "matrix-1" / "snapshots" / "0000000192"), store=store),
    ]
    spec = spec_from_json(agents[0].manifest.spec)
    for seat in (0, 1):
        batch = registry.make("matrix", rows=1, threads=1, options=agents[0].manifest.game.options)
        batch.controllers[:] = spec.bots.index("random")
        batch.controllers[0, seat] = EXTERNAL
        batch.reset(3)
        for agent in agents:
            agent.reset(seed=5)
        for _ in range(10):
            actions = [agent.act(batch.obs[0, seat]) for agent in agents]
            assert all(np.array_equal(actions[0], action) for action in actions)
            batch.actions[0, seat] = actions[0]
            batch.step()
        assert batch.terminated[0]
    assert {agent.manifest.agent_id for agent in agents} == {agents[0].manifest.agent_id}


def test_a_seed_makes_the_actions_reproducible(exported: Path) -> None:
    agent = Agent.load(exported)
    seen = observations(60)

    def play(seed: int | None, **how: Any) -> list[int]:
        agent.reset(seed)
        return [int(agent.act(obs, **how)[0]) for obs in seen]

    before = torch.random.get_rng_state()
    assert play(1) == play(1) != play(2)
    assert play(None) != play(None), "without a seed the draws go on"
    assert play(3, greedy=True) == play(4, greedy=True)
    Agent.load(exported)
    assert torch.equal(before, torch.random.get_rng_state())


def test_what_is_watched_is_remembered_as_by_the_policy(exported: Path) -> None:
    agent, unseeing = Agent.load(exported), Agent.load(exported)
    _, policy = load_policy(exported)
    state, seen = policy.initial_state(3), observations(3, 3)
    agent.watch(seen[0])
    policy.watch(torch.from_numpy(seen[0]), state)
    agent.watch(seen[1, :2], rows=[2, 0])
    policy.watch(torch.from_numpy(seen[1, :2]), state, rows=torch.tensor([2, 0]))
    for who in (agent, unseeing):
        who.act(seen[2], greedy=True)
    policy.step(torch.from_numpy(seen[2]), state, greedy=True)
    assert torch.equal(agent._state.tensors()["hidden"], state.tensors()["hidden"])
    assert not torch.equal(agent._state.tensors()["hidden"], unseeing._state.tensors()["hidden"])
    with pytest.raises(UsageError, match="every value must be finite"):
        agent.watch(seen[0] * np.nan)


def test_a_stack_plays_matches_side_by_side(exported: Path) -> None:
    many, one = Agent.load(exported), Agent.load(exported)
    seen = observations(6, 3)
    for obs in seen:
        actions = many.act(obs, greedy=True)
        assert actions.shape == (3, 1)
        assert np.array_equal(actions[1], one.act(obs[1], greedy=True))
    with pytest.raises(UsageError, match=r"obs: 2 rows, but this match began with 3; call reset\(\)"):
        many.act(seen[0, :2])
    many.reset()
    assert many.act(seen[0, :2]).shape == (2, 1)


ZEROS = np.zeros(8, np.float32)
BAD_CALLS: dict[str, tuple[Any, Any, str]] = {
    "too short": (np.zeros(7), None, r"obs: shape must be \(8,\) or \(N, 8\), got \(7,\)"),
    "no rows": (np.zeros((0, 8)), None, r"obs: shape .* got \(0, 8\)"),
    "nan": (np.full(8, np.nan), None, "obs: every value must be finite"),
    "ragged": ([[0.0] * 8, [0.0]], None, "obs: must be an array of numbers"),
    "complex": (np.full(8, 1j), None, r"obs: must be an array of numbers \(these are complex\)"),
    "none": (None, None, "obs: "),
    "mask too long": (ZEROS, [True] * 4, r"mask: shape must be \(3,\) or \(N, 3\), got \(4,\)"),
    "mask rows": (ZEROS, np.ones((2, 3), bool), "mask: 2 rows for 1 observations"),
    "mask of logits": (ZEROS, [0.5, 1.0, 0.0], "mask: every value must be true"),
    "nothing legal": (ZEROS, [False] * 3, "mask: nothing is legal"),
}


@pytest.mark.parametrize("case", BAD_CALLS)
def test_a_wrong_call_names_the_argument_and_changes_nothing(case: str, exported: Path) -> None:
    obs, mask, message = BAD_CALLS[case]
    agent, other = Agent.load(exported), Agent.load(exported)
    seen = observations(10)
    agent.act(seen[0])
    other.act(seen[0])
    with pytest.raises(UsageError, match=message) as caught:
        agent.act(obs, mask)
    assert "\n" not in str(caught.value)
    assert [agent.act(o).tolist() for o in seen] == [other.act(o).tolist() for o in seen]


def test_names_and_devices_are_checked(folder: Path, exported: Path, tmp_path: Path) -> None:
    """A bot, an unknown name, a missing store and a device that is not there are known errors."""
    store = folder / "league.duckdb"
    with pytest.raises(UsageError, match="a bot plays inside its game only"):
        league.load("bot:random", store=store)
    with pytest.raises(UsageError, match="no run `matrx-1`"):
        league.load("matrx-1", store=store)
    with pytest.raises(StoreError, match="no store at"):
        league.load("matrix-1", store=tmp_path / "league.duckdb")
    for device in ("gpu", "cuda" if not torch.cuda.is_available() else "mps"):
        with pytest.raises(UsageError, match="device"):
            Agent.load(exported, device)
    with pytest.raises(SnapshotError, match="no snapshot at"):
        Agent.load(tmp_path / "none")
    for seed in (-1, 2**63, 1.5, "1", True):
        with pytest.raises(UsageError, match="seed="):
            Agent.load(exported).reset(seed)  # type: ignore[arg-type]


STRANGE: dict[str, dict[str, Any]] = {
    "huge lstm": {"lstm_size": 10**9},
    "huger lstm": {"lstm_size": 10**30},
    "long history": {"history_tokens": 10**9},
    "negative": {"lstm_size": -32},
    "heads that do not divide": {"encoder_heads": 7},
    "fewer layers": {"encoder_layers": 2},
    "a bool": {"encoder_layers": True},
    "a fraction": {"lstm_size": 32.0},
    "many heads": {"head_sizes": [1] * 100_000},
    "no encoder": {"opponent_encoder": False},
    "another action": {"action": {"kind": "multi_discrete", "choices": [10**9]}},
    "unknown action": {"action": {"kind": "box", "choices": [3]}},
    "no choices": {"action": {"kind": "multi_discrete", "choices": []}},
    "huge observation": {"obs_size": 10**12},
    "slice outside": {"opponent_slice": [4, 99]},
    "unknown size": {"rnn": 3},
}


@pytest.mark.parametrize("case", STRANGE)
@pytest.mark.parametrize("everywhere", [False, True])
def test_a_strange_manifest_is_a_snapshot_error(case: str, everywhere: bool, exported: Path, tmp_path: Path) -> None:
    shutil.copytree(exported, tmp_path / "agent")
    path = tmp_path / "agent" / "manifest.json"
    data = json.loads(path.read_text())
    data["architecture"] |= STRANGE[case]
    if everywhere:
        shared = STRANGE[case].keys() & {"obs_size", "opponent_slice", "action"}
        data["spec"] |= {key: STRANGE[case][key] for key in shared}
        data["history_tokens"] = STRANGE[case].get("history_tokens", data["history_tokens"])
    path.write_text(json.dumps(data))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(SnapshotError) as caught:
        Agent.load(tmp_path / "agent")
    assert "\n" not in str(caught.value)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000, "KiB"


@pytest.mark.parametrize("change", ["missing key", "other types", "missing tensor"])
def test_weights_that_do_not_fit_are_refused(change: str, exported: Path, tmp_path: Path) -> None:
    agent = Agent.load(exported)
    about = About(**{name: getattr(agent.manifest, name) for name in About.model_fields})
    tensors, sizes = dict(agent.policy.state_dict()), dict(about.architecture)
    if change == "missing key":
        del sizes["latents"]
    elif change == "missing tensor":
        tensors.popitem()
    else:
        tensors = {name: tensor.double() for name, tensor in tensors.items()}
    save(tmp_path / "agent", tensors, about.model_copy(update={"architecture": sizes}))
    with pytest.raises(SnapshotError, match="do not fit"):
        Agent.load(tmp_path / "agent")


def test_rows_begin_anew_one_by_one(exported: Path) -> None:
    agent, untouched, fresh = (Agent.load(exported) for _ in range(3))
    for seen in observations(5, 3):
        agent.act(seen, greedy=True), untouched.act(seen, greedy=True)
    agent.reset(rows=[1])
    for seen in observations(5, 3):
        agent.act(seen, greedy=True), untouched.act(seen, greedy=True), fresh.act(seen, greedy=True)
        memory, kept, new = (a._state.hidden for a in (agent, untouched, fresh))
        assert torch.allclose(memory[1], new[1], atol=1e-6) and torch.allclose(memory[[0, 2]], kept[[0, 2]], atol=1e-6)
        assert not torch.allclose(memory[0], new[0], atol=1e-4)
    for rows in ([3], [-1], [[0]], [0.5], "all"):
        with pytest.raises(UsageError, match="must be integers from 0 to 2"):
            agent.reset(rows=rows)


@pytest.mark.parametrize(("spoilt", "words"), [(3e38, "gives no finite numbers"), (-1e15, "which is not legal")])
def test_a_net_that_plays_what_cannot_be_is_refused(spoilt: float, words: str, exported: Path) -> None:
    agent: Any = Agent.load(exported)
    for weights in agent.policy.parameters() if spoilt > 0 else [agent.policy.actor[-1].bias]:
        weights.data.fill_(spoilt)
    with pytest.raises(SnapshotError, match=words):
        for seed in range(20):
            agent.reset(seed)
            agent.act(observations(1)[0], [True, False, False])
