"""What a run is said to take of the memory, how wide `auto` makes it, and what too much gets."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import league
from league import config as settings
from league import device as device_module
from league.bench import parts_of
from league.config import Layer, updates
from league.config.models import Config
from league.device import DeviceMemory, is_out_of_memory, read_memory
from league.envs import registry
from league.errors import ConfigError
from league.play import opponents
from league.play.opponents import Opponents
from league.sessions import settling, sizing
from league.sessions.peak_memory import Peak
from league.sessions.settling import settle
from league.snapshots.writer import RECENT_BYTES
from league.store.store import Store
from league.training.minibatch import UpdateData
from league.types import GameSpec

CPU, GPU = torch.device("cpu"), torch.device("cuda")
FULL = sizing.Footprint(weights=29_762_220, state=434_184, activations=211_700, largest=32_064)
"""The default agent's, on a CPU."""
SMALL = (
    *("agent.encoder_layers=2", "agent.encoder_width=32", "agent.encoder_heads=2", "agent.encoder_feedforward=64"),
    *("agent.lstm_size=48", "env.rows=8", "learner.rollout_steps=16", "learner.minibatches=2", "learner.epochs=1"),
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


# The estimate


@pytest.mark.parametrize("more", [(), ("agent.opponent_encoder=false",)])
def testparts_of_of_the_estimate_are_the_bytes_of_the_tensors(more: tuple[str, ...]) -> None:
    """Weights, gradients, moments, live nets, memories, LSTM states and rollout take what was foretold."""
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
    """More rows, longer rollouts, fewer minibatches and more live nets take more; resuming counts on a CPU only."""
    config, spec = brawl("10m")
    least = sizing.estimate(config, spec, FULL, CPU)
    for override in ("env.rows=128", "learner.rollout_steps=64", "learner.minibatches=1", "pool.live_nets=8"):
        assert sizing.estimate(brawl("10m", override)[0], spec, FULL, CPU).total > least.total, override
    wide = brawl("10m", "env.rows=2048", "learner.rollout_steps=1", "learner.segments=1")[0]
    assert sizing.estimate(wide, spec, FULL, CPU).work > sizing.estimate(wide, spec, FULL, GPU).work
    assert least.describe().startswith("about ") and "live nets 454 MiB" in least.describe()


def test_estimate_counts_games_for_payoffs_and_rivals() -> None:
    """`pool.payoff_games` takes nine nets and the memories of their games; each rival of a league a net more."""
    config, spec = brawl("10m", "env.rows=32", "run.evaluate_games=2", "run.ladder_share=0.0")
    few = config.model_copy(update={"learner": config.learner.model_copy(update={"minibatches": 32})})
    least = sizing.estimate(few, spec, FULL, GPU).work
    measured = few.model_copy(update={"pool": few.pool.model_copy(update={"payoff_games": 128})})
    states = 2 * 32 * 8 * 2
    assert sizing.estimate(measured, spec, FULL, GPU).work == 9 * FULL.weights + states * FULL.state > least
    crowd = sizing.estimate(few, spec, FULL, GPU, rivals=40).work
    more = sizing.estimate(few, spec, FULL, GPU, rivals=41).work - crowd
    assert more == (1 + 4) * FULL.weights + 2 * 2 * FULL.state, "and, stacked, two slots, which come by fours"


def test_a_peak_is_what_lives_at_the_same_time() -> None:
    """Views share memory, what is given does not count, and what is gone makes room for what follows."""
    given = torch.ones(1_000)
    with Peak() as peak:
        a = given + 1
        view = a.view(10, 100)[3:]
        del a
        b = given * 2  # 4,000 bytes beside the 4,000 that the view holds
        del view
        c = b + given  # the same again
        del b, c
        given.mul_(2)
        torch.ones(1_500).sum()
    assert peak.most == 8_000


@pytest.mark.parametrize("more", [(), ("agent.opponent_encoder=false",), ("agent.lstm_size=96",)])
def test_a_step_of_play_takes_what_was_foretold(more: tuple[str, ...]) -> None:
    """What an entry takes, measured on a few, holds for many: of a step of forty rows within a quarter."""
    config, spec, device, _ = settle("smoke", "fast", None, None, [*SMALL, *more])
    foretold = settling.footprint(config, spec, device).step
    policy = parts_of(config, spec, device)[1].policy
    few, many = (sizing._step_peak(policy, spec, rows, "float32", device) for rows in (20, 60))
    assert foretold * 40 == pytest.approx(many - few, rel=0.25) and foretold > 0


def test_no_step_has_more_entries_than_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """However rows fall to nets, stacked groups are as wide as the estimate has it, on a CPU and on CUDA."""
    rng, nets, held = np.random.default_rng(0), 8, torch.device("cpu")
    counted, shape = opponents.crowded, opponents.stacked_shape
    for device in (CPU, GPU):
        monkeypatch.setattr(opponents, "crowded", lambda counts, _, device=device: counted(counts, device))
        monkeypatch.setattr(opponents, "stacked_shape", lambda n, rows, _, device=device: shape(n, rows, device))
        most = 0
        for rows in (1, 5, 64, 300):
            for skew in (0.0, 1.0, 3.0, 50.0):
                odds = np.exp(-skew * np.arange(nets))
                slots = rng.choice(nets, rows, p=odds / odds.sum())
                slots[: min(rows, nets)] = np.arange(min(rows, nets))
                stacked: Any = object()
                groups = Opponents(Nobody(), stacked, held).groups(slots)
                entries = sum(len(group.rows) for group in groups)
                bound = sizing.stacked_entries(rows, nets, device)
                assert rows <= entries <= bound, (device, rows, skew)
                most = max(most, entries // rows)
        assert most >= (7 if device is CPU else 2), "else the bound is of no use"


class Nobody:
    """Holds no net."""

    guests = ()

    def policy(self, agent_id: str) -> Any:
        """None."""
        raise KeyError(agent_id)


def test_graphs_and_recent_snapshots_are_counted_where_they_lie() -> None:
    """A pool of graphs on CUDA where there are any, the padding in it; snapshots in memory where the run's is."""
    full = replace(FULL, step=50_000)
    config, spec = brawl("10m", "env.rows=256")
    plain, _ = brawl("10m", "env.rows=256", "learner.compile=off")
    gpu, off, cpu = (
        sizing.estimate(*given)
        for given in ((config, spec, full, GPU), (plain, spec, full, GPU), (config, spec, full, CPU))
    )
    entries = 256 + sizing.stacked_entries(256, 2 * config.pool.live_nets, GPU)
    assert gpu.graphs > entries * full.step and off.graphs == cpu.graphs == 0
    assert gpu.total > off.total >= sizing.estimate(plain, spec, FULL, GPU).total
    assert gpu.recent == 0 and cpu.recent == RECENT_BYTES + FULL.weights and "graphs" in gpu.describe()
    short = brawl("10m", "run.total_steps=4000", "run.allow_short=true")[0]
    assert sizing.estimate(short, spec, full, CPU).recent == 2 * FULL.weights


def test_weights_are_known_before_the_network_is_made() -> None:
    """The large matrices alone are most of the default agent's weights and never more than all."""
    for override in ("agent.opponent_encoder=true", "agent.opponent_encoder=false", "agent.lstm_size=64"):
        config, spec, device, _ = settle("smoke", "fast", None, None, [override])
        weights = settling.footprint(config, spec, device).weights
        assert 0.5 * weights < sizing.least_weights(config) <= weights


# auto


def test_auto_on_a_small_machine_is_fast() -> None:
    """With up to eight cores every setting is that of `fast`, so that test50k vouches for it."""
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
    """It passes the checks of 10m, takes at most half of the memory, and makes `fast`'s gradient steps a sample."""
    config, line = chosen(device, total, cores)
    updates.check(config)
    spec = registry.spec("brawl", config.env.options)
    assert sizing.estimate(config, spec, FULL, device).total <= total * 2**30 / 2
    learner = config.learner
    samples, steps = updates.steps_per_update(config), learner.minibatches * learner.epochs
    minibatch = samples // learner.minibatches
    assert minibatch <= sizing.MINIBATCH and (learner.minibatches == 4 or minibatch == sizing.MINIBATCH)
    assert learner.learning_rate == pytest.approx(1e-3 * min(1, 24 / steps))
    fast = settings.load(preset="fast")
    for later in (0, 49_999, 50_000, 200_000, 499_999, 500_000, 1_000_000, 10_000_000):
        now, theirs = config.at(later), fast.at(later)
        a_sample = theirs.learner.minibatches * theirs.learner.epochs / updates.steps_per_update(theirs)
        wanted = min(24, a_sample * updates.steps_per_update(now)) / now.learner.minibatches
        assert abs(now.learner.epochs - max(1, min(wanted, 6))) <= 0.5
    assert f"{config.env.rows} rows x 32 steps" in line and f"{learner.learning_rate:g} for {steps} gradient" in line
    assert "\n" not in line


def test_auto_grows_with_the_device() -> None:
    """More memory on a GPU and more cores of a CPU give more rows, up to the limit."""
    gpus = [chosen(GPU, total, 4)[0].env.rows for total in (2, 8, 140)]
    cpus = [chosen(CPU, 512, cores)[0].env.rows for cores in (8, 16, 64)]
    assert gpus == sorted(gpus) and gpus[0] < gpus[-1] == sizing.MAX_ROWS
    assert cpus == [64, 128, 512]
    assert chosen(CPU, 0.5, 8)[0].env.rows == sizing.MIN_ROWS, "too little memory for 64"


def test_many_minibatches_lower_the_learning_rate() -> None:
    """Where one epoch makes more gradient steps than `auto` starts from, the learning rate falls in proportion."""
    config, _ = chosen(GPU, 140, 4, "learner.rollout_steps=128")
    assert (config.env.rows, config.learner.minibatches, config.learner.epochs) == (2_048, 32, 1)
    assert config.learner.learning_rate == pytest.approx(1e-3 * 24 / 32)


def test_auto_decides_by_the_device_and_not_by_the_stage() -> None:
    """Any stage gets the same sizes; one that is too short for them is refused with the arithmetic and `fast`."""
    long, _ = chosen(GPU, 80, 4)
    short, _ = chosen(GPU, 80, 4, stage="test50k")
    assert settings.fingerprint(long) == settings.fingerprint(short)
    middle, _ = chosen(CPU, 64, 16, stage="test50k")
    for config, words in ((short, "longer than"), (middle, "13 updates of env.rows=128 x learner.rollout_steps=32")):
        with pytest.raises(ConfigError, match="--preset fast") as caught:
            updates.check(config)
        assert words in str(caught.value)


def test_what_is_set_wins_over_auto_and_the_rest_fits_it() -> None:
    """Rows that are set stay, the minibatches divide them, and the line says so."""
    config, line = chosen(GPU, 80, 4, "env.rows=100", "learner.learning_rate=0.5")
    assert (config.env.rows, config.learner.minibatches, config.learner.learning_rate) == (100, 4, 0.5)
    assert "env.rows is set" in line
    updates.check(config)


def test_sizes_of_auto_are_the_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The figures said are those stored with the run, in its snapshots and its export, whatever `auto` would be now."""
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


class Notes:
    """A callback that keeps what is said."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def report(self, report: object) -> None:
        """Ignored."""

    def evaluated(self, steps: int, opponent: str, summary: object) -> None:
        """Ignored."""

    def say(self, message: str) -> None:
        """Kept."""
        self.said.append(message)


# Too much


def refusal(folder: Path, *overrides: str) -> str:
    """The line of a run that is refused before anything is made."""
    with pytest.raises(ConfigError) as caught:
        league.train("smoke", env="matrix", device="cpu", overrides=overrides, store=folder / "league.duckdb")
    assert list(folder.iterdir()) == [] and "\n" not in str(caught.value)
    return str(caught.value)


def test_rows_beyond_the_memory_are_refused_with_what_fits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The estimate, what is free and rows that fit are named; with these rows the run begins."""
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
    """`auto` takes one where all of it fits, more where it does not, and says so; a refusal names the number that fits;
    more parts than a minibatch has rows are refused."""
    config, spec = brawl("10m", "learner.segments=1", "learner.epochs=1", "learner.minibatches=1", "env.rows=96")

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
    sets = ["learner.device=cpu", "learner.accumulate=auto"]
    settled, _, _, line = settle("smoke", "fast", "matrix", None, sets)
    assert settled.learner.accumulate == 1 and "computed in 1 part" in line
    monkeypatch.setattr(settling, "read_memory", lambda device: DeviceMemory(2**40, 2**28))
    assert settle("smoke", "fast", "brawl", None, sets)[0].learner.accumulate == 16


WIDEST = ("agent.opponent_encoder=true", "agent.encoder_layers=128", "agent.encoder_width=16_384")


def test_a_network_beyond_the_memory_is_refused_unmade(tmp_path: Path) -> None:
    """Its weights are counted before any is made; where no rows would help, other settings are named."""
    line = refusal(tmp_path, *WIDEST)
    assert line.startswith("agent: ") and "agent.lstm_size" in line


def test_where_fewer_rows_do_not_help_other_settings_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With next to nothing free even the fewest rows are too many."""
    monkeypatch.setattr(settling, "read_memory", lambda device: DeviceMemory(2**18, 2**30))
    assert "lower learner.rollout_steps, pool.live_nets or the sizes in [agent]" in refusal(tmp_path)


# What the machine says


@pytest.mark.parametrize("version", [1, 2])
def test_a_container_has_what_it_may_use(version: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit less what is used and would not be given back; a limit above the machine's memory is none."""
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
    """Torch's and numpy's refusals are; an error of a shape is not."""
    for fail in (lambda: torch.empty(2**55), lambda: np.empty(2**58)):
        with pytest.raises((RuntimeError, MemoryError)) as caught:
            fail()
        assert is_out_of_memory(caught.value)
    assert is_out_of_memory(torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."))
    assert not is_out_of_memory(RuntimeError("mat1 and mat2 shapes cannot be multiplied"))
