"""The agent that is handed out: it plays alone, says what is wrong with a call, and cannot be made to blow up."""

import json
import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import league
from league.envs import registry
from league.errors import SnapshotError, StoreError, UsageError
from league.policies.actor_critic import ActorCritic, Architecture
from league.snapshots import Agent
from league.snapshots.agent import load_policy
from league.snapshots.io import save
from league.snapshots.manifest import About, GameRecord, spec_from_json, spec_to_json
from league.types import EXTERNAL, ActionSpec, GameSpec

ROOT = Path(__file__).resolve().parents[2]
ENCODER = ("agent.opponent_encoder=true", "agent.encoder_width=16", "agent.history_frames=4")
SMALL = ("env.rows=4", "learner.rollout_steps=16", "learner.minibatches=2", "run.evaluate_games=2")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a store and a trained run with an opponent encoder."""
    path = tmp_path_factory.mktemp("agents")
    overrides = (*SMALL, *ENCODER, "run.total_steps=192", "pool.snapshot_every=64")
    league.train("smoke", env="matrix", device="cpu", overrides=overrides, store=path / "league.duckdb")
    return path


@pytest.fixture(scope="module")
def exported(folder: Path) -> Path:
    """The run's newest snapshot, exported."""
    league.export("matrix-1", folder / "out", store=folder / "league.duckdb")
    return folder / "out"


def observations(num: int, *shape: int, size: int = 8) -> np.ndarray[Any, Any]:
    """`num` observations (or stacks of `shape`) of the matrix game's size."""
    return np.random.default_rng(0).random((num, *shape, size), np.float32)


def test_it_decides_at_one_thread_unless_told(exported: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An export and a loaded agent decide with one thread, or with `threads`; torch's own number stays as it was."""
    had = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        for threads, given in ((1, {}), (2, {"threads": 2}), (3, {"threads": 3})):
            for agent in (
                Agent.load(exported, **given),
                league.load("matrix-1", store=folder / "league.duckdb", **given),
            ):
                seen: list[int] = []
                step, watch = agent.policy.step, agent.policy.watch

                def stepped(*a: Any, seen: list[int] = seen, step: Any = step, **named: Any) -> Any:
                    seen.append(torch.get_num_threads())
                    return step(*a, **named)

                def watched(*a: Any, seen: list[int] = seen, watch: Any = watch, **named: Any) -> Any:
                    seen.append(torch.get_num_threads())
                    return watch(*a, **named)

                monkeypatch.setattr(agent.policy, "step", stepped)
                monkeypatch.setattr(agent.policy, "watch", watched)
                agent.act(observations(1)[0])
                agent.watch(observations(1)[0])
                with pytest.raises(UsageError):
                    agent.act(np.zeros(3, np.float32))
                assert seen == [threads, threads] and torch.get_num_threads() == 2
        with pytest.raises(UsageError, match="threads=0: threads that it decides with, must be from 1"):
            Agent.load(exported, threads=0)
    finally:
        torch.set_num_threads(had)


def test_five_lines_play_a_match_without_a_store(exported: Path, tmp_path: Path) -> None:
    """The example of the documents plays a whole match from the exported folder alone, elsewhere."""
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
    """In a real match the export, the snapshot by name and the snapshot's folder choose the same, draw for draw."""
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
    """The same seed gives the same actions, another one others; greedy needs none; the global RNG is left alone."""
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


def test_the_agent_remembers_its_match_and_reset_forgets(exported: Path) -> None:
    """What was seen before changes what the network is given; after reset it is a new agent's state again."""
    agent, fresh = Agent.load(exported), Agent.load(exported)
    seen = observations(3)
    values = []
    for who, count in ((agent, 3), (fresh, 1)):
        for obs in seen[3 - count :]:
            who.act(obs, greedy=True)
        state = who._state.tensors()
        values.append(state["hidden"].clone())
        assert int(state["count"][0]) == count
    assert not torch.equal(*values)
    agent.reset()
    agent.act(seen[-1], greedy=True)
    assert torch.equal(agent._state.tensors()["hidden"], values[1])


def test_what_is_watched_is_remembered_as_by_the_policy(exported: Path) -> None:
    """In some rows of a stack, or in all: what follows is played as where the network itself watched."""
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
    """N observations give N actions, each row with a memory of its own; N changes only after reset."""
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


def test_a_mask_is_obeyed(exported: Path) -> None:
    """What the mask forbids is never played, drawn or greedy."""
    agent = Agent.load(exported)
    for action in range(3):
        mask = np.arange(3) == action
        for greedy in (True, False):
            agent.reset()
            played = agent.act(observations(20, 1)[:, 0], np.tile(mask, (20, 1)), greedy=greedy)
            assert (played == action).all()


ZEROS = np.zeros(8, np.float32)
BAD_CALLS: dict[str, tuple[Any, Any, str]] = {
    "too short": (np.zeros(7), None, r"obs: shape must be \(8,\) or \(N, 8\), got \(7,\)"),
    "a number": (0.0, None, r"obs: shape .* got \(\)"),
    "three axes": (np.zeros((1, 1, 8)), None, r"obs: shape .* got \(1, 1, 8\)"),
    "no rows": (np.zeros((0, 8)), None, r"obs: shape .* got \(0, 8\)"),
    "nan": (np.full(8, np.nan), None, "obs: every value must be finite"),
    "too large": (np.full(8, 1e300), None, "obs: every value must be finite"),
    "words": (["a"] * 8, None, "obs: must be an array of numbers"),
    "ragged": ([[0.0] * 8, [0.0]], None, "obs: must be an array of numbers"),
    "none": (None, None, "obs: "),
    "mask too long": (ZEROS, [True] * 4, r"mask: shape must be \(3,\) or \(N, 3\), got \(4,\)"),
    "mask rows": (ZEROS, np.ones((2, 3), bool), "mask: 2 rows for 1 observations"),
    "mask of logits": (ZEROS, [0.5, 1.0, 0.0], "mask: every value must be true"),
    "mask of nan": (ZEROS, [np.nan, 1.0, 0.0], "mask: every value must be true"),
    "nothing legal": (ZEROS, [False] * 3, "mask: nothing is legal"),
    "mask of words": (ZEROS, ["yes", "no", "no"], "mask: must be an array of numbers"),
}


@pytest.mark.parametrize("case", BAD_CALLS)
def test_a_wrong_call_names_the_argument_and_changes_nothing(case: str, exported: Path) -> None:
    """A wrong shape, type or value is a UsageError of one line; the memory and the draws are as if it had not been."""
    obs, mask, message = BAD_CALLS[case]
    agent, other = Agent.load(exported), Agent.load(exported)
    seen = observations(10)
    agent.act(seen[0])
    other.act(seen[0])
    with pytest.raises(UsageError, match=message) as caught:
        agent.act(obs, mask)
    assert "\n" not in str(caught.value)
    assert [agent.act(o).tolist() for o in seen] == [other.act(o).tolist() for o in seen]


@pytest.mark.parametrize("seed", [-1, 2**63, 1.5, "1", True])
def test_a_bad_seed_is_refused(seed: Any, exported: Path) -> None:
    """A seed that the generator cannot take is a UsageError."""
    with pytest.raises(UsageError, match="seed="):
        Agent.load(exported).reset(seed)


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
        with pytest.raises(UsageError, match="device"):
            league.load(str(exported), device=device)
    with pytest.raises(SnapshotError, match="no snapshot at"):
        Agent.load(tmp_path / "none")


STRANGE: dict[str, dict[str, Any]] = {
    "huge lstm": {"lstm_size": 10**9},
    "huger lstm": {"lstm_size": 10**30},
    "many layers": {"encoder_layers": 10**9},
    "long history": {"history_tokens": 10**9},
    "negative": {"lstm_size": -32},
    "zero heads": {"encoder_heads": 0},
    "heads that do not divide": {"encoder_heads": 7},
    "another width": {"encoder_width": 32},
    "fewer layers": {"encoder_layers": 2},
    "a bool": {"encoder_layers": True},
    "a word": {"lstm_size": "32"},
    "a fraction": {"lstm_size": 32.0},
    "none": {"lstm_size": None},
    "a list": {"head_sizes": 32},
    "many heads": {"head_sizes": [1] * 100_000},
    "huge head": {"head_sizes": [2**31]},
    "no encoder": {"opponent_encoder": False},
    "another action": {"action": {"kind": "multi_discrete", "choices": [10**9]}},
    "unknown action": {"action": {"kind": "box", "choices": [3]}},
    "another kind": {"action": {"kind": "multi_binary", "choices": [2, 2]}},
    "no choices": {"action": {"kind": "multi_discrete", "choices": []}},
    "another observation": {"obs_size": 9},
    "huge observation": {"obs_size": 10**12},
    "slice outside": {"opponent_slice": [4, 99]},
    "slice reversed": {"opponent_slice": [8, 4]},
    "unknown size": {"rnn": 3},
}


@pytest.mark.parametrize("case", STRANGE)
@pytest.mark.parametrize("everywhere", [False, True])
def test_a_strange_manifest_is_a_snapshot_error(case: str, everywhere: bool, exported: Path, tmp_path: Path) -> None:
    """Sizes that do not fit the weights, of wrong types or enormous are refused in one line, without the memory.

    `everywhere`: the manifest's game says the same, so that only the weights can contradict.
    """
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


@pytest.mark.parametrize("change", ["missing key", "other types", "missing tensor", "no architecture", "history"])
def test_weights_that_do_not_fit_are_refused(change: str, exported: Path, tmp_path: Path) -> None:
    """A size left out, two lengths of history, float64 weights and a tensor too few are SnapshotErrors."""
    agent = Agent.load(exported)
    about = About(**{name: getattr(agent.manifest, name) for name in About.model_fields})
    tensors = dict(agent.policy.state_dict())
    sizes = dict(about.architecture)
    if change == "missing key":
        del sizes["latents"]
    elif change == "history":
        sizes["history_tokens"] += 1
    elif change == "no architecture":
        sizes = {}
    elif change == "missing tensor":
        tensors.popitem()
    else:
        tensors = {name: tensor.double() for name, tensor in tensors.items()}
    save(tmp_path / "agent", tensors, about.model_copy(update={"architecture": sizes}))
    with pytest.raises(SnapshotError, match="do not fit"):
        Agent.load(tmp_path / "agent")


def test_rows_begin_anew_one_by_one(exported: Path) -> None:
    """`reset(rows=...)` forgets those matches alone: they play as a new agent does, the others as if nothing was."""
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


def test_keys_are_masked_one_by_one(tmp_path: Path) -> None:
    """An agent of keys may be allowed none at all, and then presses none."""
    spec = GameSpec(
        name="keys",
        version=1,
        obs_size=4,
        opponent_slice=(2, 4),
        obs_range=(0.0, 1.0),
        action=ActionSpec("multi_binary", (2, 2, 2)),
        reward_terms=("win",),
        metrics=(),
        end_reasons=("over",),
        bots=(),
        tick_rate=1.0,
    )
    sizes = {"encoder_layers": 1, "encoder_heads": 2, "encoder_width": 8, "encoder_feedforward": 8, "latents": 2}
    architecture = Architecture.of(
        spec, history_tokens=3, opponent_encoder=True, observation_width=8, lstm_size=8, head_sizes=(), **sizes
    )
    about = About(
        run="keys",
        step=0,
        update=0,
        seed=0,
        fingerprint="ab" * 32,
        game=GameRecord(name="keys", version=1, game_id="0" * 16, options={}),
        spec=spec_to_json(spec),
        architecture=architecture.to_json(),
        config={},
        history_tokens=3,
    )
    save(tmp_path / "keys", ActorCritic(architecture).state_dict(), about)
    agent = Agent.load(tmp_path / "keys")
    obs = np.zeros((50, 4))
    assert agent.act(obs).sum() > 20
    agent.reset()
    pressed = agent.act(obs, np.tile([True, False, False], (50, 1)))
    assert pressed[:, 0].any() and not pressed[:, 1:].any()
    agent.reset()
    assert not agent.act(obs, np.zeros((50, 3), bool)).any()
