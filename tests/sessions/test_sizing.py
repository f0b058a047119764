"""What a run is said to take of the memory, how wide `auto` makes it, and what too much gets."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import league
from league import config as settings
from league.bench import parts_of
from league.config import Layer, updates
from league.config.models import Config
from league.envs import registry
from league.errors import ConfigError
from league.runtime import device as device_module
from league.runtime.device import DeviceMemory, is_out_of_memory, read_memory
from league.sessions import settling, sizing
from league.sessions.settling import settle
from league.store.store import Store
from league.training.minibatch import UpdateData
from league.types import GameSpec
from tests.helpers.runs import Notes

CPU, GPU = torch.device("cpu"), torch.device("cuda")
FULL = sizing.Footprint(weights=29_762_220, state=434_184, activations=211_700, largest=32_064)
"""The default agent's, on a CPU."""
SMALL = (
    *("agent.encoder_layers=2", "agent.encoder_width=32", "agent.encoder_heads=2", "agent.encoder_feedforward=64"),
    *("agent.lstm_size=48", "env.rows=8", "learner.rollout_steps=16", "learner.minibatch_size=64", "learner.epochs=1"),
    *("pool.mix.self_play=1.0", "pool.mix.bot:based=0.0", "pool.mix.bot:constant=0.0", "pool.live_nets=3"),
)


def size(tensors: Sequence[torch.Tensor | None]) -> int:
    """Bytes of the tensors that there are."""
    return sum(x.numel() * x.element_size() for x in tensors if x is not None)


def brawl(stage: str, *overrides: str, sizes: Layer | None = None) -> tuple[Config, GameSpec]:
    """The settings of preset `auto`, and brawl."""
    config = settings.load(stage, "auto", overrides=overrides, sizes=sizes)
    return config, registry.spec("brawl", config.env.options)


def chosen(device: torch.device, total: float, cores: int, *overrides: str, stage: str = "10m") -> tuple[Config, str]:
    """What `auto` makes of a device with `total` GiB, and what it says."""
    spec = brawl(stage)[1]
    memory = DeviceMemory(0, int(total * 2**30))

    def load(sizes: Layer) -> Config:
        return brawl(stage, *overrides, sizes=sizes)[0]

    sizes, line = sizing.auto(load, spec, FULL, device, memory, cores)
    return load(sizes), line


@pytest.mark.parametrize("more", [(), ("agent.opponent_encoder=false",)])
def test_parts_of_the_estimate_are_the_bytes_of_the_tensors(more: tuple[str, ...]) -> None:
    config, spec, device, _ = settle("smoke", "fast", None, None, [*SMALL, *more])
    foretold = sizing.estimate(config, spec, settling.footprint(config, spec, device), device)
    collector, learner = parts_of(config, spec, device)
    rollout = collector.collect(config.learner.rollout_steps, 1)
    kept: dict[int, int] = {}

    def keep(x: torch.Tensor) -> torch.Tensor:
        kept[x.untyped_storage().data_ptr()] = x.untyped_storage().nbytes()
        return x

    rows = torch.arange(4)
    weights = list(learner.policy.parameters())
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda x: x):
        learner._minibatch(UpdateData(rollout, rollout.reward, rollout.value), rows)
    lane = collector.lanes[0]
    states = [
        x for state in (lane.nets.state, lane.nets.opponent_state, rollout.state) for x in state.tensors().values()
    ]
    assert foretold.rows == size(states)
    steps = [rollout.obs, rollout.mask, rollout.action, rollout.log_prob, rollout.value, rollout.reward]
    assert foretold.rollout == size([*steps, rollout.next_value, rollout.ends, rollout.is_first])
    moments = [values[name] for values in learner.optimizer.state.values() for name in ("exp_avg", "exp_avg_sq")]
    learner._kept.keep()
    kept_back = [x for x in learner._kept._copies if x.dim()]
    assert foretold.learner == size(weights) + size([p.grad for p in weights]) + size(moments) + size(kept_back)
    nets = [p for agent_id in collector.pool.targets for p in collector.pool.policy(agent_id).parameters()]
    assert len(collector.pool.targets) == 3
    assert foretold.frozen == (6 + 8) * size(nets) // 3, "six may live, and a stack has slots by fours"
    activations = sum(n for pointer, n in kept.items() if pointer not in {p.data_ptr() for p in weights})
    footprint = settling.footprint(config, spec, device)
    assert footprint.activations * 4 * 16 == pytest.approx(activations, rel=0.25)
    assert foretold.work >= footprint.activations * 4 * 16 and foretold.total > sum((foretold.rows, foretold.work))


def test_estimate_grows_with_what_takes_memory() -> None:
    config, spec = brawl("10m")
    least = sizing.estimate(config, spec, FULL, CPU)
    for override in ("env.rows=128", "learner.rollout_steps=64", "learner.minibatch_size=2_048", "pool.live_nets=8"):
        assert sizing.estimate(brawl("10m", override)[0], spec, FULL, CPU).total > least.total, override
    wide = brawl("10m", "env.rows=2048", "learner.rollout_steps=1", "learner.segments=1")[0]
    assert sizing.estimate(wide, spec, FULL, CPU).work > sizing.estimate(wide, spec, FULL, GPU).work
    assert least.describe().startswith("about ") and "live nets 454 MiB" in least.describe()


def test_auto_on_a_small_machine_is_fast() -> None:
    for cores in (1, 2, 8):
        config, line = chosen(CPU, 16, cores, stage="test50k")
        assert config == settings.load("test50k", "fast")
        updates.check(config)
        assert line.startswith("preset auto: 64 rows x 32 steps, 4 minibatches of 512 samples, 6 epochs, 4 live nets")
        assert f"{cores} cores" in line and "learning rate 0.001 for 24 gradient steps" in line


@pytest.mark.parametrize(
    ("device", "total", "cores"),
    [(CPU, 64, 16), (CPU, 64, 48), (CPU, 512, 192), (CPU, 3, 64), *((GPU, n, 4) for n in (3, 6, 12, 24, 80, 140))],
)
def test_auto_keeps_every_rule_on_every_device(device: torch.device, total: float, cores: int) -> None:
    config, line = chosen(device, total, cores)
    updates.check(config)
    spec = registry.spec("brawl", config.env.options)
    assert sizing.estimate(config, spec, FULL, device).total <= total * 2**30 / 2
    learner = config.learner
    number = updates.minibatches(config)
    steps = number * learner.epochs
    assert learner.minibatch_size * number == updates.steps_per_update(config)
    assert learner.minibatch_size <= sizing.MINIBATCH and (number == 4 or learner.minibatch_size == sizing.MINIBATCH)
    assert learner.learning_rate == pytest.approx(1e-3 * min(1, 24 / steps))
    fast = settings.load(preset="fast")
    for later in (0, 49_999, 50_000, 200_000, 499_999, 500_000, 1_000_000, 10_000_000):
        now, theirs = config.at(later), fast.at(later)
        a_sample = updates.minibatches(theirs) * theirs.learner.epochs / updates.steps_per_update(theirs)
        wanted = min(24, a_sample * updates.steps_per_update(now)) / updates.minibatches(now)
        assert abs(now.learner.epochs - max(1, min(wanted, 6))) <= 0.5
    assert f"{config.env.rows} rows x 32 steps" in line and f"{learner.learning_rate:g} for {steps} gradient" in line
    assert "\n" not in line


def test_auto_decides_by_the_device_and_not_by_the_stage() -> None:
    long, short = chosen(GPU, 80, 4)[0], chosen(GPU, 80, 4, stage="test50k")[0]
    assert settings.fingerprint(long) == settings.fingerprint(short)
    with pytest.raises(ConfigError, match=r"lower env\.rows or learner\.rollout_steps"):
        updates.check(short)


def test_what_is_set_wins_over_auto_and_the_rest_fits_it() -> None:
    config, line = chosen(GPU, 80, 4, "env.rows=100", "learner.learning_rate=0.5")
    assert (config.env.rows, updates.minibatches(config), config.learner.learning_rate) == (100, 5, 0.5)
    assert "env.rows is set" in line
    updates.check(config)


def test_sizes_of_auto_are_the_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settling.registry, "num_cores", lambda: 16)
    notes = Notes()
    store = tmp_path / "league.duckdb"
    arguments: dict[str, Any] = {"env": "matrix", "device": "cpu", "store": store, "callback": notes}
    result = league.train("smoke", preset="auto", overrides=["run.evaluate_games=2"], **arguments)
    row = Store.open(store).find_run(result.run)
    assert '"rows": 128' in row.config and '"live_nets": 8' in row.config
    assert any(line.startswith("preset auto: 128 rows x 32 steps, 4 minibatches of 1,024") for line in notes.said)
    assert any(line.startswith("memory: about ") and line.endswith(" free") for line in notes.said)
    assert league.export(result.run, tmp_path / "out", store=store).config["env"]["rows"] == 128


def refusal(folder: Path, *overrides: str) -> str:
    """The line of a run that is refused before anything is made."""
    with pytest.raises(ConfigError) as caught:
        league.train("smoke", env="matrix", device="cpu", overrides=overrides, store=folder / "league.duckdb")
    assert list(folder.iterdir()) == [] and "\n" not in str(caught.value)
    return str(caught.value)


def test_rows_beyond_the_memory_are_refused_with_what_fits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    many = ("run.total_steps=1_000_000_000_000", "env.rows=1_000_000", "learner.rollout_steps=100_000")
    many += ("pool.snapshot_every_after=1_000_000_000",)
    line = refusal(tmp_path, *many)
    assert line.startswith("env.rows=1000000: this run takes about ") and "rows " in line and " free; set env." in line
    monkeypatch.setattr(settling, "read_memory", lambda device: DeviceMemory(sizing.OVERHEAD + 3 * 2**20, 2**30))
    line = refusal(tmp_path, "env.rows=512", "learner.rollout_steps=8", "run.evaluate_games=2")
    setting = line.rpartition("; set ")[2]
    assert setting.startswith("env.rows=") and "cpu has 131 MiB free" in line
    sets = [setting, "learner.rollout_steps=8", "run.evaluate_games=2", "learner.epochs=1"]
    done = league.train("smoke", env="matrix", device="cpu", overrides=sets, store=tmp_path / "league.duckdb")
    assert done.status == "finished"


def test_parts_of_a_minibatch_are_as_few_as_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config, spec = brawl("10m", "learner.segments=1", "learner.epochs=1", "learner.minibatch_size=3_072", "env.rows=96")

    def taken(parts: int) -> int:
        learner = config.learner.model_copy(update={"accumulate": parts})
        return sizing.estimate(config.model_copy(update={"learner": learner}), spec, FULL, GPU).total

    learned = 96 * 32 * (FULL.activations + 2 * FULL.largest)
    assert taken(1) - taken(4) == learned * 3 // 4 and taken(64) - taken(96) == 32 * (211_700 + 2 * 32_064)
    found = [sizing.in_parts(config, spec, FULL, room, GPU) for room in (taken(1), taken(2), taken(7), taken(96), 0)]
    assert [x.learner.accumulate for x in found] == [1, 2, 8, 96, 96]
    with pytest.raises(ConfigError, match=r"has 96 rows, and a part at least one; set learner\.accumulate=96"):
        updates.check(settings.changed(config, ["learner.accumulate=97"]))
    with pytest.raises(ConfigError, match="decided where a run begins; give a number"):
        settings.changed(config, ["learner.accumulate=auto"])
    few = DeviceMemory(taken(4), 2 * taken(4))
    with pytest.raises(ConfigError, match=r"set learner\.accumulate=4, which learns the same$"):
        sizing.check_memory(config, spec, FULL, few, GPU)
    settled, _, _, line = settle("smoke", "fast", "matrix", None, ["learner.device=cpu", "learner.accumulate=auto"])
    assert settled.learner.accumulate == 1 and "computed in 1 part" in line


def test_where_fewer_rows_do_not_help_other_settings_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    widest = ("agent.opponent_encoder=true", "agent.encoder_layers=128", "agent.encoder_width=16_384")
    assert "agent.lstm_size" in refusal(tmp_path, *widest)
    monkeypatch.setattr(settling, "read_memory", lambda device: DeviceMemory(2**18, 2**30))
    assert "learner.rollout_steps" in refusal(tmp_path)


@pytest.mark.parametrize("version", [1, 2])
def test_a_container_has_what_it_may_use(version: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_module, "CGROUP", tmp_path)
    limit, used, cached = device_module.CONTAINER_FILES[2 - version]
    (tmp_path / limit).parent.mkdir(exist_ok=True)
    whole = read_memory(CPU)
    assert 0 < whole.free <= whole.total
    (tmp_path / used).write_text(f"{30 * 2**20}\n")
    (tmp_path / used).with_name("memory.stat").write_text(f"anon 7\n{cached} {20 * 2**20}\n")
    (tmp_path / limit).write_text(f"{50 * 2**20}\n")
    assert read_memory(CPU) == DeviceMemory(40 * 2**20, 50 * 2**20)
    for unlimited in ("max", str(2**62)):
        (tmp_path / limit).write_text(unlimited)
        assert read_memory(CPU).total == whole.total


def test_out_of_memory_is_told_from_other_errors() -> None:
    for fail in (lambda: torch.empty(2**55), lambda: np.empty(2**58)):
        with pytest.raises((RuntimeError, MemoryError)) as caught:
            fail()
        assert is_out_of_memory(caught.value)
    assert is_out_of_memory(torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."))
    assert not is_out_of_memory(RuntimeError("mat1 and mat2 shapes cannot be multiplied"))
