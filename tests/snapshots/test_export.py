"""Exports for other runtimes play as the network does, and what cannot be exported is refused."""

import json
import os
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import torch

import league
from league.arena.games import enter, load_settings
from league.arena.networks import architecture_of
from league.envs import registry
from league.errors import LeagueError, SnapshotError, UsageError
from league.policies.actor_critic import ActorCritic
from league.policies.decision import NEXT, Decision
from league.snapshots import Agent, league_agent
from league.snapshots import export as exporting
from league.snapshots.agent import load_policy
from league.snapshots.io import save
from league.snapshots.league_agent import LeagueAgent
from league.snapshots.manifest import About, GameRecord, spec_to_json
from league.types import EXTERNAL, ActionSpec
from tests.helpers import guessing
from tests.helpers.cases import cases
from tests.helpers.sizes import SMALL_AGENT
from tests.policies.test_parts import SPACES, net, seen

for _package in ("onnx", "onnxscript", "onnxruntime"):
    pytest.importorskip(_package, reason="needs the extra `onnx`")

ROOT = Path(__file__).resolve().parents[2]
GAMES = {
    "kuhn": ("kuhn", "agent=small"),
    "brawl": ("brawl", "agent=small"),
    "cards": ("cards", "agent=small", "env.health=5", "env.deck=10"),
    "units": (str(ROOT / "examples" / "units.py"), "agent=small"),
    "connect four": ("openspiel:connect_four", "agent=small"),
    **{f"guessing {kind}": ("guessing", f"env.kind={kind}", *SMALL_AGENT) for kind in guessing.KINDS},
    "brawl, encoder": ("brawl", *SMALL_AGENT),
    "cards, encoder": ("cards", "env.health=5", "env.deck=10"),
    "kuhn, encoder": ("kuhn", *SMALL_AGENT),
    "matrix, encoder": ("matrix", *SMALL_AGENT),
    "brawl, default": ("brawl",),
}
"""Game and settings; the last ones have an opponent encoder."""


@pytest.fixture(autouse=True)
def _registered() -> Iterator[None]:
    registry.register("guessing", guessing)
    yield
    registry._games.pop("guessing", None)


def make_agent(folder: Path, env: str, *overrides: str) -> Path:
    """A snapshot of a network whose weights are large enough for its choices to differ."""
    config, _ = load_settings(env=enter(env), overrides=overrides)
    spec = registry.spec(config.env.name, config.env.options)
    torch.manual_seed(0)
    policy = ActorCritic(architecture_of(config, spec))
    with torch.no_grad():
        for name, parameter in policy.named_parameters():
            parameter.add_(0.1 * torch.randn_like(parameter) if name.startswith(("actor", "head", "lstm")) else 0)
        policy.take_statistics(torch.randn(64, 4, spec.obs_size) * 30 + 5)
    options = dict(config.env.options)
    game_id = registry.game_id(spec.name, options)
    about = About(
        run="made",
        step=0,
        update=0,
        seed=0,
        fingerprint="0" * 64,
        game=GameRecord.of(spec, game_id, options, registry.source(config.env.name)),
        spec=spec_to_json(spec),
        architecture=policy.architecture.to_json(),
        config={},
        history_tokens=policy.architecture.history_tokens,
    )
    save(folder, dict(policy.state_dict()), about)
    return folder


def log_prob_of(action: ActionSpec, outputs: dict[str, Any], played: torch.Tensor) -> torch.Tensor:
    """Joint log-probability of one action (A,) by what a `Decision` gives of its row, by torch's distributions."""
    logs, mean, scale = (torch.as_tensor(outputs.get(name, ())) for name in ("log_probs", "mean", "scale"))
    total, at, real, place = torch.zeros(()), 0, 0, 0
    for leaf in action.leaves:
        mine = played[place : (place := place + leaf.num_parts)]
        if leaf.kind == "box":
            low, high = torch.tensor(leaf.bounds).T
            own = slice(real, real := real + len(low))
            unit = ((mine - low) / (high - low) * 2 - 1).clamp(-1 + 2**-20, 1 - 2**-20)
            gaussian = torch.distributions.Normal(mean[own], scale[own])
            total = total + (gaussian.log_prob(torch.atanh(unit)) - torch.log1p(-unit.square())).sum()
        elif leaf.kind == "multi_binary":
            log_p = logs[at : (at := at + leaf.num_parts)]
            absent = torch.log1p(-log_p.exp().clamp(max=1 - 1e-7))
            total = total + torch.where(mine > 0, log_p, absent).sum()
        else:
            for count, choice in zip(leaf.choices, mine, strict=True):
                total = total + logs[at : (at := at + count)][int(choice)]
    return total


@pytest.mark.parametrize("torso", ["auto", "mlp"])
@pytest.mark.parametrize("encoder", [False, True])
@pytest.mark.parametrize("space", [*SPACES, "box"])
def test_a_decision_gives_what_a_step_draws_by(space: str, encoder: bool, torso: str) -> None:
    """The log-probability of an action drawn by `step`, and the same memory, also once the encoder's ring is full."""
    action = guessing.ACTIONS["box"] if space == "box" else SPACES[space]
    policy = net(1, action, encoder, torso).requires_grad_(False)
    decision, rng = Decision(policy), np.random.default_rng(0)
    inputs, state, generator = decision.initial_inputs(3), policy.initial_state(3), torch.Generator()
    for step in range(7):
        mask = exporting._random_mask(action, 3, rng) if action.mask_size else None
        given = None if mask is None else torch.from_numpy(mask)
        inputs["obs"] = seen(3, seed=step)
        played, log_prob, _ = policy.step(inputs["obs"], state, mask=given, generator=generator)
        if given is not None:
            inputs["mask"] = given
        if action.kind == "legal_tuples":  # noise that no likelihood outweighs leads to the same choices
            parts = [torch.nn.functional.one_hot(x, n) for x, n in zip(played.T, action.choices, strict=True)]
            inputs["noise"] = 1e6 * torch.cat(parts, -1).float()
        outputs = decision(inputs)
        for row in range(3):
            own = log_prob_of(action, {name: x[row] for name, x in outputs.items() if NEXT not in name}, played[row])
            assert own == pytest.approx(float(log_prob[row]), abs=2e-4)
        for name, x in state.tensors().items():
            assert torch.allclose(outputs[NEXT + name], x, atol=1e-5), name
            inputs[name] = outputs[NEXT + name]


def likeliest(action: ActionSpec, outputs: dict[str, Any]) -> tuple[list[float], list[float]]:
    """Of outputs of one row the likeliest action (A,), and by how much each part is likelier than the next choice."""
    if "action" in outputs:
        log_probs = np.split(outputs["log_probs"], np.cumsum(action.choices)[:-1])
        best = [np.sort(np.append(x, -1e9))[::-1] for x in log_probs]
        return list(outputs["action"]), [x[0] - x[1] for x in best]
    played, margins, at, real = list[float](), list[float](), 0, 0
    for leaf in action.leaves:
        if leaf.kind == "box":
            low, high = np.array(leaf.bounds).T
            own = slice(real, real := real + len(low))
            played += list(low + (np.tanh(outputs["mean"][own]) + 1) * (high - low) / 2)
            margins += [np.inf] * len(low)
        elif leaf.kind == "multi_binary":
            log_p = outputs["log_probs"][at : (at := at + leaf.num_parts)]
            played += [int(x > np.log(0.5)) for x in log_p]
            margins += list(np.abs(np.exp(log_p) - 0.5) * 2)
        else:
            for count in leaf.choices:
                log_p = outputs["log_probs"][at : (at := at + count)]
                first, second = np.sort(log_p)[::-1][:2]
                played.append(int(log_p.argmax()))
                margins.append(first - second)
    return played, margins


class Pair:
    """A seat of the snapshot, which plays, beside one of its export, which must say the same."""

    def __init__(self, snapshot: Path, out: Path) -> None:
        _, policy = load_policy(snapshot)
        assert isinstance(policy, ActorCritic)
        self.action, self.agent = policy.architecture.action, Agent.load(snapshot)
        self.decision, self.exported = Decision(policy), LeagueAgent(out, greedy=True)
        network, self.said = self.exported._network, dict[str, Any]()

        class Spied:
            inputs = network.inputs

            def __call__(_, inputs: dict[str, Any]) -> dict[str, Any]:
                self.said = network(inputs)
                return self.said

        self.exported._network = Spied()
        self.decided, self.apart = 0, 0.0

    def reset(self) -> None:
        self.agent.reset()
        self.exported.reset()
        self.state = self.decision.initial_inputs(1)

    def act(self, obs: Any, mask: Any) -> Any:
        given = {} if mask is None else {"mask": torch.from_numpy(mask[None].copy())}
        wanted = self.decision.by_step(self.state | given | {"obs": torch.from_numpy(obs[None].copy())})
        self.state |= {name.removeprefix(NEXT): x for name, x in wanted.items() if name.startswith(NEXT)}
        played, ours = self.exported.act(obs, mask), {name: x[0].numpy() for name, x in wanted.items()}
        best, margins = likeliest(self.action, ours)
        for mine, other, margin in zip(played, best, margins, strict=True):
            assert mine == pytest.approx(other, abs=1e-4) or margin < 1e-3, (played, best, margins)
            if mine != pytest.approx(other, abs=1e-4) and "action" in ours:
                return self.agent.act(obs, mask)
        for name in {"log_probs", "mean", "scale"} & ours.keys():
            self.apart = max(self.apart, float(np.abs(self.said[name][0] - ours[name]).max()))
        self.decided += 1
        return self.agent.act(obs, mask)

    def watch(self, obs: Any) -> None:
        self.agent.watch(obs)
        self.exported.watch(obs)
        policy, memory = self.decision.policy, self.decision.policy.initial_state(1)
        memory.load(self.state)
        policy.watch(torch.from_numpy(obs[None].copy()), memory)
        self.state |= {name: x.clone() for name, x in memory.tensors().items()}


def play(snapshot: Path, out: Path, matches: int, most: int) -> Pair:
    """Plays whole matches, of `most` steps at most, both seats by one network; returns what the first seat saw."""
    game, pairs = Agent.load(snapshot).manifest.game, [Pair(snapshot, out) for _ in range(2)]
    batch: Any = registry.make(game.name, rows=1, threads=1, options=game.options)
    batch.controllers[:] = EXTERNAL
    for seed in range(matches):
        batch.reset(seed)
        for pair in pairs:
            pair.reset()
        for _ in range(most):
            acting = batch.to_act[0].copy() if hasattr(batch, "to_act") else np.ones(2, bool)
            for seat in np.flatnonzero(acting):
                mask = None if batch.mask is None else batch.mask[0, seat]
                batch.actions[0, seat] = pairs[seat].act(batch.obs[0, seat], mask)
            batch.step()
            if batch.terminated[0] or batch.truncated[0]:
                break
            for seat in np.flatnonzero(~batch.to_act[0]) if hasattr(batch, "to_act") else ():
                pairs[seat].watch(batch.obs[0, seat])
    assert pairs[0].decided and pairs[1].decided
    pairs[0].apart, pairs[0].decided = max(p.apart for p in pairs), sum(p.decided for p in pairs)
    return pairs[0]


RUNS = [("kuhn", "onnx"), ("kuhn", "submission")]
USUAL = {("cards, encoder", "onnx"): 1}
ALL_RUNS = [("brawl", "onnx"), ("cards, encoder", "onnx"), *((game, "submission") for game in GAMES)]


@pytest.mark.parametrize(("game", "format"), cases(*RUNS, slow=ALL_RUNS))
def test_whole_matches_are_played_as_by_torch(game: str, format: Any, tmp_path: Path) -> None:
    """Both seats of 20 matches; the usual run has fewer of long games."""
    snapshot = make_agent(tmp_path / "agent", *GAMES[game])
    exporting.export(snapshot, tmp_path / "out", format)
    pair = play(snapshot, tmp_path / "out", USUAL.get((game, format), 20), 2000)
    print(f"{game}, {format}: {pair.decided:,} decisions, log-probabilities within {pair.apart:.1e}")
    assert pair.apart < 1e-4


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Snapshots of a plain network, and of one with an encoder in a game in turns with legal tuples."""
    folder = tmp_path_factory.mktemp("made")
    return {"plain": make_agent(folder / "plain", *GAMES["kuhn"]), "cards": make_agent(folder / "c", *GAMES["cards"])}


@pytest.fixture(scope="module")
def submitted(made: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Their submissions, the first for numpy alone; nobody may change them."""
    folder = tmp_path_factory.mktemp("submitted")
    for name, snapshot in made.items():
        exporting.export(snapshot, folder / name, "submission")
    return {name: folder / name for name in made}


@pytest.mark.parametrize("agent", ["plain", "cards"])
def test_a_torch_program_plays_any_number_of_rows(agent: str, made: dict[str, Path], tmp_path: Path) -> None:
    said: list[str] = []
    exporting.export(made[agent], tmp_path / "out", "torch", say=said.append)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["agent.pt2", "manifest.json"]
    module = torch.export.load(tmp_path / "out" / "agent.pt2").module()
    decision = Decision(load_policy(made[agent])[1])  # type: ignore[arg-type]
    rng = np.random.default_rng(1)
    for num_rows in (1, 2, 5):
        random = exporting._random_inputs(decision, num_rows, rng)
        inputs = decision.initial_inputs(num_rows) | {name: torch.from_numpy(x) for name, x in random.items()}
        outputs, wanted = module(inputs), decision.by_step(inputs)
        assert outputs.keys() == wanted.keys()
        assert all(torch.allclose(outputs[name], wanted[name], atol=1e-5) for name in wanted)
    assert "log-probabilities within" in said[0]


def test_unlikely_keys_of_a_trained_agent_keep_their_log_probabilities(tmp_path: Path) -> None:
    """The bundled agent presses some keys once in a million decisions, where a sigmoid's logarithm loses its digits."""
    said: list[str] = []
    exporting.export(ROOT / "league" / "arena" / "bundled" / "strong", tmp_path / "out", "onnx", say=said.append)
    assert float(said[0].split()[2]) < 2e-5


ALONE = """
import sys
sys.modules["torch"] = sys.modules["league"] = None
if "onnx" not in sys.argv: sys.modules["onnxruntime"] = None
import json, numpy, agent
obs, mask = json.loads(sys.stdin.read())
player = agent.LeagueAgent(seed=3)
played = []
for match in range(2):
    player.reset(seed=match)
    for _ in range(20):
        played.append(player.act(obs, mask).tolist())
        player.watch(obs)
print(json.dumps(played))
"""


@pytest.mark.parametrize(("agent", "name"), cases(("plain", "out"), ("plain", "out.zip"), slow=[("cards", "out.zip")]))
def test_a_submission_plays_without_torch_and_league(
    agent: str, name: str, made: dict[str, Path], tmp_path: Path
) -> None:
    manifest = exporting.export(made[agent], tmp_path / name, "submission")
    assert [path.name for path in tmp_path.iterdir()] == [name]
    folder = tmp_path / name
    if name.endswith(".zip"):
        folder = tmp_path / "unpacked"
        with zipfile.ZipFile(tmp_path / name) as archive:
            archive.extractall(folder)
    runtime = {"plain": "weights.safetensors", "cards": "agent.onnx"}[agent]
    assert sorted(p.name for p in folder.iterdir()) == sorted(
        ["agent.py", "manifest.json", "requirements.txt", runtime]
    )
    assert len((folder / "agent.py").read_text().splitlines()) < 200
    assert len((folder / "requirements.txt").read_text().splitlines()) <= 3
    decision = Decision(load_policy(made[agent])[1])  # type: ignore[arg-type]
    seen = exporting._random_inputs(decision, 1, np.random.default_rng(2))
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "-c", ALONE, *(["onnx"] if agent == "cards" else [])],
        input=json.dumps([seen["obs"][0].tolist(), seen["mask"][0].tolist()]),
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    played = json.loads(done.stdout)
    here = LeagueAgent(folder, seed=3)
    for match in range(2):
        here.reset(seed=match)
        for step in range(20):
            assert here.act(seen["obs"][0], seen["mask"][0]).tolist() == played[20 * match + step]
            here.watch(seen["obs"][0])
    if agent == "plain":  # also what league itself plays
        assert Agent.load(folder).manifest.agent_id == manifest.agent_id


@pytest.mark.parametrize("kind", cases("tuples", slow=["mixture"]))
@pytest.mark.slow
def test_actions_are_drawn_by_their_probabilities(kind: str, tmp_path: Path) -> None:
    """As often as torch's own draws, and the same with one seed."""
    snapshot = make_agent(tmp_path / "agent", *GAMES[f"guessing {kind}"])
    exporting.export(snapshot, tmp_path / "out", "submission")
    exported, agent = LeagueAgent(tmp_path / "out"), Agent.load(snapshot)
    decision, rng = Decision(agent.policy), np.random.default_rng(0)  # type: ignore[arg-type]

    def draws(player: Any, num: int, seed: int | None) -> Any:
        player.reset(seed)
        return np.array([player.reset() or player.act(obs, mask) for _ in range(num)], np.float64)

    obs = mask = None
    while obs is None or len(np.unique(draws(exported, 50, 1), axis=0)) < 4:  # until the network is in doubt
        seen = exporting._random_inputs(decision, 1, rng)
        obs, mask = seen["obs"][0], seen["mask"][0]
    first = draws(exported, 300, 1)
    assert np.array_equal(first[:50], draws(exported, 50, 1)) and not np.array_equal(first[:50], draws(exported, 50, 2))
    other = draws(agent, 300, 1)
    error = 4.5 * np.sqrt((first.var(0) + other.var(0) + 1e-3) / 300)
    assert (np.abs(first.mean(0) - other.mean(0)) < error).all()
    assert (np.abs(first.var(0) - other.var(0)) < 0.3 * (first.var(0) + other.var(0)) + 0.02).all()


@pytest.mark.parametrize(("bits", "size"), cases(("int8", 0.5), slow=[("bf16", 0.6)]))
def test_fewer_bits_are_smaller_and_their_error_is_said(
    bits: Literal["int8", "bf16"], size: float, made: dict[str, Path], submitted: dict[str, Path], tmp_path: Path
) -> None:
    said: list[str] = []
    exporting.export(made["cards"], tmp_path / "small", "onnx", bits, said.append)
    small, whole = ((folder / "agent.onnx").stat().st_size for folder in (tmp_path / "small", submitted["cards"]))
    assert small < size * whole and 1e-4 < float(said[0].split()[2]) < 2.0
    ids = [LeagueAgent(folder).manifest["agent_id"] for folder in (tmp_path / "small", submitted["cards"])]
    assert ids[0] == ids[1]


@pytest.mark.slow
def test_bf16_is_the_network_of_rounded_weights(made: dict[str, Path], tmp_path: Path) -> None:
    """To float32's rounding, since only what is stored is rounded, and not what is computed with it."""
    exporting.export(made["cards"], tmp_path / "small", "onnx", "bf16")
    policy = load_policy(made["cards"])[1]
    with torch.no_grad():
        for weight in policy.parameters():
            weight.copy_(weight.bfloat16())
    decision = Decision(policy).eval()  # type: ignore[arg-type]
    network = LeagueAgent(tmp_path / "small")._network
    assert exporting.difference(decision, network) < 1e-4


def test_an_export_that_plays_otherwise_is_not_written(
    made: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for network, format, quantize, wrongly, words in (
        ("OnnxNetwork", "onnx", None, 2e-4, r"are 2.0e-04 from the network's"),
        ("NumpyNetwork", "submission", None, np.nan, "are nan from the network's"),
        ("OnnxNetwork", "submission", "int8", np.nan, "are nan from the network's"),
    ):
        kind = getattr(league_agent, network)
        call = kind.__call__

        def wrong(self: Any, inputs: Any, call: Any = call, wrongly: float = wrongly) -> Any:
            outputs = call(self, inputs)
            outputs["log_probs"][-1, -1] += wrongly
            return outputs

        monkeypatch.setattr(kind, "__call__", wrong)
        with pytest.raises(SnapshotError, match=words) as caught:
            exporting.export(made["plain"], tmp_path / "out", format, quantize)  # type: ignore[arg-type]
        monkeypatch.setattr(kind, "__call__", call)
        assert "\n" not in str(caught.value) and list(tmp_path.iterdir()) == []


REFUSED: dict[str, tuple[str, str | None, str, str]] = {
    "format": ("tflite", None, "new", "format='tflite' must be one of folder, onnx, torch, submission"),
    "bits": ("onnx", "int4", "new", "quantize='int4' must be int8 or bf16"),
    "bits of torch": ("torch", "int8", "new", "quantize=int8: format=torch has no such form"),
    "zip": ("onnx", None, "new.zip", "only a submission is a zip"),
    "there": ("onnx", None, "", "is there already"),
    "no folder": ("submission", None, "file/new", "cannot write"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_wrong_export_is_refused_in_one_line(case: str, made: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    format, quantize, name, words = REFUSED[case]
    with pytest.raises(LeagueError, match=words) as caught:
        league.export(f"{made['plain']}", tmp_path / name, format=format, quantize=quantize)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value) and [path.name for path in tmp_path.iterdir()] == ["file"]


def test_what_is_missing_and_custom_networks_are_refused(
    made: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = Agent.load(made["plain"])
    own = {
        "policy": "mine",
        "source": {"address": "mine.py", "sha256": "0" * 64, "thing": "Net"},
        "type": "mine.Net",
        "agent": {},
    }
    about = About(**{name: getattr(agent.manifest, name) for name in About.model_fields})
    save(tmp_path / "own", dict(agent.policy.state_dict()), about.model_copy(update={"architecture": own}))
    with pytest.raises(SnapshotError, match="format=onnx: the network is a custom policy, mine"):
        exporting.export(tmp_path / "own", tmp_path / "out", "onnx")
    monkeypatch.setattr(exporting.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"needs onnx and onnxscript and onnxruntime; run pip install 'league-engine"):
        exporting.export(made["plain"], tmp_path / "out", "onnx")
    exporting.export(made["plain"], tmp_path / "out", "submission")  # needs none of them


def test_files_of_several_exports_are_not_played(
    made: dict[str, Path], submitted: dict[str, Path], tmp_path: Path
) -> None:
    import onnx

    exporting.export(made["plain"], tmp_path / "plain", "onnx")
    path = tmp_path / "plain" / "agent.onnx"
    right, other = onnx.load(path), (submitted["cards"] / "agent.onnx").read_bytes()
    graph = onnx.ModelProto()
    graph.CopyFrom(right)
    del graph.metadata_props[:]
    newer = onnx.ModelProto()
    newer.CopyFrom(right)
    next(x for x in newer.metadata_props if x.key == "agent_id").value = "f" * 64
    for data, words in (
        (b"no model", "is no ONNX model"),
        (graph.SerializeToString(), "was not written by league"),
        (other, "game_id differs"),
        (newer.SerializeToString(), "agent_id differs: agent.onnx has ffff"),
    ):
        path.write_bytes(data)
        with pytest.raises(ValueError, match=words) as caught:
            LeagueAgent(tmp_path / "plain")
        assert "\n" not in str(caught.value)
    with pytest.raises(SnapshotError, match=r"has agent.onnx for other runtimes .* name made@0"):
        league.load(f"{submitted['cards']}")
    shutil.copytree(submitted["plain"], tmp_path / "numpy")
    weights = tmp_path / "numpy" / "weights.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"!")
    with pytest.raises(ValueError, match=r"weights.safetensors is not of the agent"):
        LeagueAgent(tmp_path / "numpy")


@pytest.mark.parametrize("agent", ["plain", "cards"])
def test_a_wrong_call_changes_nothing(agent: str, made: dict[str, Path], submitted: dict[str, Path]) -> None:
    one, other = (LeagueAgent(submitted[agent]) for _ in range(2))
    decision = Decision(load_policy(made[agent])[1])  # type: ignore[arg-type]
    seen = exporting._random_inputs(decision, 1, np.random.default_rng(0))
    obs, mask = seen["obs"][0], seen["mask"][0]
    wrong = [(obs[1:], mask), (obs * np.nan, mask), (obs, mask[1:]), (obs[None], mask)]
    nothing = np.full_like(mask, -1 if agent == "cards" else 0)
    for bad in [*wrong, (obs, nothing), *([(obs, None)] if agent == "cards" else [])]:
        with pytest.raises(ValueError, match="must "):
            one.act(*bad)
        assert one.act(obs, mask).tolist() == other.act(obs, mask).tolist()
    with pytest.raises(ValueError, match="obs: must be"):
        one.watch(obs[1:])


@pytest.mark.slow
@pytest.mark.parametrize(("game", "most_ms"), [("brawl, default", 5.0), ("brawl", 0.2)])
def test_a_decision_is_quick(game: str, most_ms: float, tmp_path: Path) -> None:
    """Milliseconds at one thread, the median of 300; the goals of a contest with little time a decision."""
    exporting.export(make_agent(tmp_path / "agent", *GAMES[game]), tmp_path / "out", "submission")
    agent = LeagueAgent(tmp_path / "out")
    taken, obs = [], np.zeros(agent.manifest["spec"]["obs_size"], np.float32)
    for _ in range(300):
        begin = time.perf_counter()
        agent.act(obs)
        taken.append(1e3 * (time.perf_counter() - begin))
    print(f"{game}: {np.median(taken):.2f} ms")
    assert np.median(taken) < most_ms
