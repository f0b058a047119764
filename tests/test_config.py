"""The one hyperparameter source: layers, strictness, refusals, fingerprint and snapshot schedule."""

import hashlib
import json
import subprocess
import sys
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from league import config as config_module
from league.config import SOURCE, agents, fingerprint, from_json, load, presets, stages, to_json, with_options
from league.config.models import Config
from league.config.updates import (
    check,
    check_rewards,
    next_snapshot_mark,
    num_snapshot_marks,
    num_updates,
    snapshot_updates,
    steps_per_update,
)
from league.errors import ConfigError
from league.types import ActionSpec, GameSpec

SPEC = GameSpec(
    name="toy",
    version=1,
    obs_size=2,
    opponent_slice=(1, 2),
    obs_range=(0.0, 1.0),
    action=ActionSpec("multi_discrete", (2,)),
    reward_terms=("payoff", "win"),
    metrics=(),
    end_reasons=("over",),
    bots=("constant",),
    tick_rate=1.0,
)

GAMES = ("brawl", "cards", "matrix", "kuhn", "leduc")


def refusal(**arguments: Any) -> str:
    """The message of the ConfigError that `load` raises, which must be one line."""
    with pytest.raises(ConfigError) as caught:
        load(**arguments)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def check_refusal(config: Config) -> str:
    """The message of the ConfigError that `check` raises, which must be one line."""
    with pytest.raises(ConfigError) as caught:
        check(config)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def with_source(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, extra: str) -> None:
    """Puts a copy of the source with `extra` appended in its place."""
    path = tmp_path / "hyperparameters.toml"
    path.write_text(SOURCE.read_text(encoding="utf-8") + extra, encoding="utf-8")
    monkeypatch.setattr(config_module, "SOURCE", path)


def test_every_config_is_what_it_was() -> None:
    """Stage x preset x game: the fingerprint and every resolved setting are those that runs were stored with."""
    golden = json.loads(Path(__file__).with_name("golden").joinpath("configs.json").read_text(encoding="utf-8"))
    named = [f"{stage} {preset} {game}" for stage in stages() for preset in presets() for game in GAMES]
    assert set(golden) == set(named)
    for name, (mark, digest) in golden.items():
        stage, preset, game = name.split()
        config = load(stage, preset, game)
        settings = to_json(config)
        text = json.dumps(settings, sort_keys=True)
        assert (fingerprint(config), hashlib.sha256(text.encode()).hexdigest()) == (mark, digest), name


def test_games_and_presets_inherit_key_by_key(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What a preset or game says lies over what it inherits, at any depth; the mix is one key."""
    extra = """
    [preset.wide]
    inherits = "auto"
    env.rows = 96
    [game.sly]
    inherits = "kuhn"
    env.deals = 3
    pool.mix = { self_play = 1.0 }
    """
    with_source(monkeypatch, tmp_path, extra)
    fast, wide = load(preset="fast"), load(preset="wide")
    assert wide.env.rows == 96 and wide.learner == fast.learner and wide.pool == fast.pool
    kuhn, sly = load(env="kuhn"), load(env="sly")
    assert sly.env.options == {"deals": 3, "bluff": 0.2} and sly.pool.mix == {"self_play": 1.0}
    assert (sly.agent, sly.learner, sly.rewards) == (kuhn.agent, kuhn.learner, kuhn.rewards)
    assert "wide" in presets()


def test_a_game_has_settings_of_its_own_for_an_agents_size(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """They lie over the game's, below the preset and --set; a game that inherits has them, another has not."""
    extra = """
    [game.shy]
    inherits = "_small"
    learner.clip = 0.3
    learner.epochs = 9
    [game.shy.agents.small]
    learner.clip = 0.1
    learner.epochs = 5
    agent.lstm_size = 16
    [game.sly]
    inherits = "shy"
    """
    with_source(monkeypatch, tmp_path, extra)
    small = agents()["small"]["agent"]
    for game in ("shy", "sly"):
        plain, own = load(env=game), load(env=game, overrides=["agent=small"])
        assert (plain.learner.clip, own.learner.clip) == (0.3, 0.1)
        assert own.agent.lstm_size == small["lstm_size"] and plain.agent.lstm_size == 32
        assert (plain.learner.epochs, own.learner.epochs) == (9, 5)  # `fast` leaves them to the game
        for preset in ("heavy", "beast"):
            wide = load(preset=preset, env=game, overrides=["agent=small"])
            assert wide.learner.epochs == load(preset=preset).learner.epochs
        assert load(env=game, overrides=["agent=small", "learner.clip=0.2"]).learner.clip == 0.2
    assert load(env="kuhn", overrides=["agent=small"]).learner == load(env="kuhn").learner
    with_source(monkeypatch, tmp_path, "[game.shy.agents.smal]\nlearner.clip = 0.1")
    assert "game.shy.agents: [smal] cannot be set here; did you mean `small`?" in refusal(env="shy")
    with_source(monkeypatch, tmp_path, "[preset.wide.agents.small]\nlearner.clip = 0.1")
    assert "preset.wide: [agents] cannot be set here" in refusal(preset="wide")


@pytest.mark.parametrize(
    ("extra", "parts"),
    [
        ('[preset.wide]\ninherits = "fats"', ("preset.wide.inherits='fats'", "did you mean `fast`?")),
        ("[preset.wide]\ninherits = 3", ("preset.wide.inherits=3",)),
        ('[preset.wide]\ninherits = "wide"', ("preset.wide.inherits='wide'", "wide -> wide")),
        (
            '[preset.wide]\ninherits = "high"\n[preset.high]\ninherits = "wide"',
            ("preset.high.inherits='wide'", "wide -> high -> wide"),
        ),
        ('[preset.wide]\ninherits = "run"\n[preset.run]\nrun.verbosity = 2', ("preset.run", "[run]")),
    ],
)
def test_inheritance_that_cannot_be_is_one_line(
    extra: str, parts: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """An unknown parent, a circle, and a [run] that comes by inheritance are refused by name, for games and presets."""
    with_source(monkeypatch, tmp_path, extra)
    message = refusal(preset="wide")
    assert all(part in message for part in parts), message
    with_source(monkeypatch, tmp_path, extra.replace("preset", "game"))
    message = refusal(env="wide")
    assert all(part.replace("preset", "game").replace("did you mean `fast`?", "known:") in message for part in parts)


def test_starting_figures_are_the_designs() -> None:
    """The default configuration has the design's sizes and mix."""
    config = load()
    assert (config.agent.encoder_layers, config.agent.encoder_heads, config.agent.encoder_width) == (6, 8, 256)
    assert (config.agent.lstm_size, config.agent.head_sizes, config.agent.history_frames) == (512, (96, 96), 90)
    assert config.pool.mix == {"self_play": 0.80, "bot:based": 0.15, "bot:constant": 0.05}
    assert config.env.options["ticks_per_step"] == 3
    assert steps_per_update(config) <= 2_500


def test_short_stage_is_the_start_of_the_long_one() -> None:
    """test50k and 10m resolve equal outside [run] and env.strict_masks, in every preset, for every agent's size."""
    for preset, sets in product(presets(), ([], *([f"agent={name}"] for name in agents()))):
        short, long = (to_json(load(stage=stage, preset=preset, overrides=sets)) for stage in ("test50k", "10m"))
        for data in (short, long):
            del data["run"], data["env"]["strict_masks"]
        assert short == long


@pytest.mark.parametrize("line", ["learner.gamma = 0.9", "env.rows = 8", "rewards.win = 1.0", "pool.live_nets = 2"])
def test_stage_that_changes_learning_is_refused(line: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A stage with any key but those of [run] and env.strict_masks is refused at load."""
    with_source(monkeypatch, tmp_path, f"\n[stage.bad]\nrun.total_steps = 50_000\n{line}\n")
    message = refusal(stage="bad")
    assert line.split(" ")[0] in message and "may set only [run]" in message


def test_layers_apply_in_order(tmp_path: Path) -> None:
    """Game beats base, preset beats game, file beats preset and stage, --set beats the file."""
    path = tmp_path / "my.toml"
    path.write_text("[learner]\nepochs = 7\ngamma = 0.5\n[env]\nrows = 64\n[run]\ntotal_steps = 99_000\n")
    assert load().learner.gamma == 0.99
    assert load(env="matrix").agent.lstm_size == 32
    assert load(preset="heavy").env.rows == 128
    config = load(preset="heavy", config_file=path, overrides=("learner.gamma=0.25",))
    assert (config.learner.epochs, config.env.rows, config.run.total_steps) == (7, 64, 99_000)
    assert config.learner.gamma == 0.25


@pytest.mark.parametrize("by", ["argument", "override", "file"])
def test_game_overlay_follows_the_game_however_it_is_named(by: str, tmp_path: Path) -> None:
    """The overlay is that of the final env.name, and nothing of the default game stays behind."""
    path = tmp_path / "my.toml"
    path.write_text('[env]\nname = "matrix"\n')
    arguments: dict[str, dict[str, Any]] = {
        "argument": {"env": "matrix"},
        "override": {"overrides": ("env.name=matrix",)},
        "file": {"config_file": path},
    }
    config = load(**arguments[by])
    assert config == load(env="matrix")
    assert config == load(env="brawl", overrides=("env.name=matrix",))
    assert set(config.rewards) == {"payoff", "win"}
    assert set(config.env.options) == {"rounds", "continuing"}


def test_override_values_are_toml_or_words() -> None:
    """`false` is False, numbers are numbers, lists are lists, bare words are strings, unknown env keys are options."""
    config = load(
        overrides=(
            "agent.opponent_encoder=false",
            "learner.learning_rate=1",
            "agent.head_sizes=[64, 32]",
            "learner.device=cpu",
            "learner.target_kl=0.02",
            "env.stocks=1",
            "env.ground=flat",
            "rewards.win=-2",
        )
    )
    assert config.agent.opponent_encoder is False
    assert config.learner.learning_rate == 1.0 and isinstance(config.learner.learning_rate, float)
    assert config.agent.head_sizes == (64, 32)
    assert (config.learner.device, config.learner.target_kl) == ("cpu", 0.02)
    assert (config.env.options["stocks"], config.env.options["ground"]) == (1, "flat")
    assert config.rewards["win"] == -2.0
    assert load().learner.target_kl is None


def test_mix_is_replaced_as_a_table_and_changed_by_member(tmp_path: Path) -> None:
    """A mix in a file replaces the whole mix; --set pool.mix.NAME changes one share and keeps the others."""
    path = tmp_path / "my.toml"
    path.write_text("[pool.mix]\nself_play = 1.0\n")
    assert load(config_file=path).pool.mix == {"self_play": 1.0}
    config = load(overrides=("pool.mix.self_play=0.7", "pool.mix.bot:based=0.25"))
    assert config.pool.mix == {"self_play": 0.7, "bot:based": 0.25, "bot:constant": 0.05}
    sets = ("pool.groups.hard=['bot:based', 'bot:zoner']", "pool.mix.bot:based=0.0", "pool.mix.hard=0.15")
    config = load(overrides=sets)
    assert config.pool.groups == {"hard": ["bot:based", "bot:zoner"]}
    assert config.pool.mix == {"self_play": 0.8, "bot:based": 0.0, "bot:constant": 0.05, "hard": 0.15}


@pytest.mark.parametrize(
    ("override", "parts"),
    [
        ("learner.gama=0.9", ("learner.gama", "did you mean `gamma`")),
        ("learnr.gamma=0.9", ("learnr", "did you mean `learner`")),
        ("gamma=0.9", ("gamma", "section.key=value")),
        ("learner.epochs", ("learner.epochs", "section.key=value")),
        ("agent=smal", ("smal", "not an agent's size", "did you mean `small`")),
        ("agent=a\n\x1b", (r"agent='a\n\x1b'", "known: small")),
        ("learner.epochs='3'", ("learner.epochs='3'", "integer", "--set learner.epochs")),
        ("learner.epochs=true", ("learner.epochs=True", "integer")),
        ("learner.epochs=1.0", ("learner.epochs=1.0", "integer")),
        ("learner.epochs=0", ("learner.epochs=0", "greater than or equal to 1", "Passes over a rollout")),
        ("learner.gamma=1.5", ("learner.gamma=1.5", "less than or equal to 1")),
        ("learner.gamma=nan", ("learner.gamma=nan", "finite")),
        ("learner.gamma=[1", ("learner.gamma='[1'", "number")),
        ("learner.device=gpu", ("learner.device='gpu'", "'cuda'")),
        ("agent.encoder_width=250", ("encoder_width=250", "encoder_heads=8", "multiple of 16")),
        ("agent.encoder_width=264", ("encoder_width=264", "even number")),
        ("pool.mix.bot:based=0.3", ("pool.mix", "1.15", "-0.15")),
        ("pool.mix={bots=1.0}", ("`bots`", "bot:NAME")),
        ("pool.mix={}", ("pool.mix", "sums to 0")),
        ("pool.sampler=pfsp_hrd", ("pool.sampler='pfsp_hrd'", "--sampler", "did you mean `pfsp_hard`")),
        ("pool.group_sampler=mine", ("pool.group_sampler='mine'", "--sampler", "known: ", "nash")),
        ("agent.policy='a/b'", ("agent.policy='a/b'", "pattern")),
        ("pool.epsilon=1.5", ("pool.epsilon=1.5", "less than or equal to 1", "uniform")),
        ("pool.result_half_life=0", ("pool.result_half_life=0", "greater than 0", "Steps")),
        ("pool.shrink_games=0", ("pool.shrink_games=0", "greater than or equal to 1")),
        ("pool.groups={self_play=['bot:based']}", ("pool.groups.self_play", "taken")),
        ("pool.groups={a=[]}", ("pool.groups.a=[]", "bot:NAME")),
        ("pool.groups={a=['based']}", ("pool.groups.a", "`based`", "bot:NAME")),
        ("pool.groups={a=['bot:based']}", ("pool.groups.a", "`bot:based`", "pool.mix already")),
        ("pool.groups={a=['bot:zoner'], b=['bot:zoner']}", ("pool.groups.b", "in pool.groups.a already")),
        ("env.stocks={a=1}", ("env.stocks=", "true or false")),
        ("run.evaluate_games=3", ("run.evaluate_games=3", "multiple of 2")),
        ("env.name=3", ("env.name=3", "string")),
    ],
)
def test_bad_override_is_one_line_with_setting_and_rule(override: str, parts: tuple[str, ...]) -> None:
    """Every bad setting is refused on one line that names it, its value and what would be right."""
    message = refusal(overrides=(override,))
    for part in parts:
        assert part in message


def test_unknown_stage_preset_and_section_are_refused_with_the_nearest(tmp_path: Path) -> None:
    """A misspelt stage, preset or section in a file names the nearest known one."""
    assert "did you mean `test50k`" in refusal(stage="test5k")
    assert "did you mean `heavy`" in refusal(preset="heavi")
    path = tmp_path / "my.toml"
    path.write_text("[learners]\ngamma = 0.9\n")
    assert "did you mean `learner`" in refusal(config_file=path)


def test_unreadable_config_file_is_refused(tmp_path: Path) -> None:
    """A missing file, a file that is no TOML and bytes that are no text are each one line with the path."""
    assert "none.toml" in refusal(config_file=tmp_path / "none.toml")
    path = tmp_path / "bad.toml"
    for content in (b"[learner\ngamma = ", b"\xff\xfe\x00", b"learner = 3"):
        path.write_bytes(content)
        assert "bad.toml" in refusal(config_file=path)


def test_setting_without_a_value_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The models hold no figures: a preset that forgets one is refused by its name."""
    with_source(monkeypatch, tmp_path, "\n[preset.thin]\nenv.rows = 8\n")
    message = refusal(preset="thin")
    assert "has no value" in message and "learner.rollout_steps" in message


def test_json_round_trip_is_equal_and_strict() -> None:
    """A configuration survives JSON text; an altered one is refused."""
    for stage in stages():
        config = load(stage=stage)
        assert from_json(json.loads(json.dumps(to_json(config)))) == config
    data = to_json(load())
    data["learner"]["gamma"] = "0.9"
    with pytest.raises(ConfigError, match=r"learner\.gamma='0\.9'"):
        from_json(data)
    del data["learner"]["gamma"]
    with pytest.raises(ConfigError, match=r"learner\.gamma has no value"):
        from_json(data)


@pytest.mark.parametrize(
    "override",
    [
        *("run.total_steps=60000", "run.evaluate_games=2", "env.threads=3", "env.strict_masks=true"),
        *("learner.accumulate=4", "learner.accumulate=auto"),
    ],
)
def test_fingerprint_ignores_what_does_not_change_learning(override: str) -> None:
    """[run], the threads, the mask checks, the device and parts of a minibatch leave the fingerprint as it is."""
    assert fingerprint(load(overrides=(override, "learner.device=cpu"))) == fingerprint(load())


@pytest.mark.parametrize("override", ["learner.gamma=0.9", "env.rows=96", "env.stocks=2", "rewards.win=1.5"])
def test_fingerprint_sees_what_changes_learning(override: str) -> None:
    """Any other setting changes the fingerprint."""
    assert fingerprint(load(overrides=(override,))) != fingerprint(load())


def test_fingerprint_is_the_same_in_another_process_and_for_equal_numbers() -> None:
    """It depends on values alone, not on hash seeds, key order or how a number is written."""
    code = "from league.config import fingerprint, load; print(fingerprint(load()))"
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert output.strip() == fingerprint(load())
    mixed = load(overrides=('pool.mix={"bot:constant"=0.05, "bot:based"=0.15, self_play=0.8}', "rewards.win=1"))
    assert fingerprint(mixed) == fingerprint(load())


def test_default_presets_pass_and_wider_ones_need_the_long_stage() -> None:
    """test50k holds with fast; heavy and beast are refused there with the arithmetic and pass in 10m."""
    for stage in stages():
        check(load(stage=stage))
        check(load(stage=stage, env="matrix"))
    for preset in ("heavy", "beast"):
        check(load(stage="10m", preset=preset))
    message = check_refusal(load(preset="heavy"))
    assert "50000" in message and "7 updates" in message and "8192" in message
    assert "longer than run.total_steps=50000" in check_refusal(load(preset="beast"))


def test_stage_that_could_not_learn_is_refused_with_the_numbers() -> None:
    """Too few updates, snapshots or rows for a group each name their figures."""
    assert "19 updates" in check_refusal(load(overrides=("run.total_steps=38912",)))
    check(load(overrides=("run.total_steps=38913",)))
    snapshots = check_refusal(load(overrides=("pool.snapshot_every=12000",)))
    assert "4 snapshots" in snapshots and "12000" in snapshots
    rows = check_refusal(load(overrides=("env.rows=16", "learner.rollout_steps=32")))
    assert "bot:constant 0.05 of env.rows=16" in rows and "at least 20" in rows
    later = 'pool.mix={self_play={0=1.0, 100_000=0.95}, "bot:based"={0=0.0, 100_000=0.05}}'
    assert "bot:based 0.05 of env.rows=16" in check_refusal(
        load(overrides=("env.rows=16", "learner.rollout_steps=32", later))
    )


def test_smoke_is_exempt_from_the_counts_only() -> None:
    """smoke may be short and narrow, yet its minibatches must divide and its rollout must fit."""
    narrow = ("env.rows=4", "learner.minibatches=2", "learner.rollout_steps=512")
    check(load(stage="smoke", overrides=narrow))
    assert "set learner.minibatches=2" in check_refusal(load(stage="smoke", overrides=("learner.minibatches=3",)))
    too_long = check_refusal(load(stage="smoke", overrides=("learner.rollout_steps=65",)))
    assert "4160 steps" in too_long and "run.total_steps=4096" in too_long


def test_run_ends_at_the_first_update_boundary_at_or_past_the_stage() -> None:
    """The number of updates is rounded up, and exact where the rollout divides the stage."""
    assert steps_per_update(load()) == 2_048
    assert num_updates(load()) == 25
    assert num_updates(load(stage="smoke")) == 2


def test_snapshot_schedule_is_shared_and_thins_out() -> None:
    """Marks lie every 5,000 steps up to 40,000, then four in a doubling of the steps, then every 100,000 steps."""
    config = load(overrides=["learner.segments=1"])
    marks = [*range(5_000, 40_001, 5_000), *range(50_000, 80_001, 10_000), *range(100_000, 160_001, 20_000)]
    marks += [*range(200_000, 320_001, 40_000), *range(400_000, 640_001, 80_000), *range(700_000, 2_000_001, 100_000)]
    assert list(snapshot_updates(config, 2_000_000)) == [-(-mark // 2_048) for mark in marks]
    assert len([mark for mark in marks if mark <= 200_000]) == 17, "a curve"
    for steps in (0, 4_999, 5_000, 7_048, 40_000, 61_000, 639_999, 640_000, 1_999_999):
        assert next_snapshot_mark(config, steps) == min(mark for mark in marks if mark > steps)
        assert num_snapshot_marks(config, steps) == sum(mark <= steps for mark in marks)


@given(st.integers(1, 10_000), st.integers(1, 10_000), st.integers(0, 100_000))
def test_snapshot_marks_are_as_counted(first: int, most: int, upto: int) -> None:
    """Their number is that of marks passed one after the other; no gap is wider than `snapshot_every_after`."""
    config = load(overrides=[f"pool.snapshot_every={first}", f"pool.snapshot_every_after={most}"])
    marks = [0]
    while len(marks) < 100 and (mark := next_snapshot_mark(config, marks[-1])) <= upto:
        assert 0 < mark - marks[-1] <= most
        assert next_snapshot_mark(config, mark - 1) == mark
        marks.append(mark)
    assert num_snapshot_marks(config, marks[-1]) == len(marks) - 1


def test_snapshots_of_an_update_and_even_ones() -> None:
    """Many marks in one update make one snapshot; where both settings are equal, marks are even."""
    dense = load(overrides=("pool.snapshot_every=1", "pool.snapshot_every_after=1"))
    assert list(snapshot_updates(dense, 20_000)) == list(range(1, 11)), "one an update, however many marks it passes"
    even = load(overrides=("pool.snapshot_every=1000", "pool.snapshot_every_after=1000"))
    assert next_snapshot_mark(even, 52_000) == 53_000 and num_snapshot_marks(even, 53_000) == 53


def test_rewards_are_checked_against_the_game() -> None:
    """Weights come in the game's order; an unknown term is refused with the nearest, all zero too."""
    assert check_rewards(load(env="matrix", overrides=("rewards.win=0.5",)), SPEC) == (1.0, 0.5)
    with pytest.raises(ConfigError, match=r"rewards\.payof=1: .*did you mean `payoff`"):
        check_rewards(load(env="matrix", overrides=("rewards.payof=1",)), SPEC)
    with pytest.raises(ConfigError, match="nothing to learn"):
        check_rewards(load(env="matrix", overrides=("rewards.payoff=0",)), SPEC)


def test_completed_options_replace_the_given_ones() -> None:
    """`with_options` changes the game's options and nothing else."""
    config = load(env="matrix")
    completed = with_options(config, {"rounds": 3})
    assert completed.env.options == {"rounds": 3}
    assert completed.env.rows == config.env.rows and completed.learner == config.learner


def test_config_loads_neither_torch_nor_games() -> None:
    """Importing league.config pulls in no torch, no duckdb and no game."""
    code = "import sys, league.config; print([m for m in sys.modules if m in ('torch', 'duckdb', 'league.envs')])"
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert output.strip() == "[]"
