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
from league.config import SOURCE, agents, fingerprint, from_json, load, presets, stages, to_json
from league.config.layers import read_toml
from league.config.updates import (
    check,
    check_rewards,
    next_snapshot_mark,
    num_snapshot_marks,
    num_updates,
    steps_per_update,
)
from league.envs import registry
from league.errors import ConfigError
from tests.helpers import refusals

GAMES = ("brawl", "cards", "matrix", "kuhn", "leduc")


def refusal(**arguments: Any) -> str:
    """The one line with which `load` refuses."""
    return refusals.refusal(lambda: load(**arguments), ConfigError)


def check_refusal(*overrides: str, **arguments: Any) -> str:
    """The one line with which `check` refuses settings."""
    return refusals.refusal(lambda: check(load(overrides=overrides, **arguments)), ConfigError)


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
        config = load(*name.split())
        text = json.dumps(to_json(config), sort_keys=True)
        assert (fingerprint(config), hashlib.sha256(text.encode()).hexdigest()) == (mark, digest), name


# Layers


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
    [preset.thin]
    env.rows = 8
    """
    with_source(monkeypatch, tmp_path, extra)
    fast, wide = load(preset="fast"), load(preset="wide")
    assert wide.env.rows == 96 and wide.learner == fast.learner and wide.pool == fast.pool
    kuhn, sly = load(env="kuhn"), load(env="sly")
    assert sly.env.options == {"deals": 3, "bluff": 0.2} and sly.pool.mix == {"self_play": 1.0}
    assert (sly.agent, sly.learner, sly.rewards) == (kuhn.agent, kuhn.learner, kuhn.rewards)
    assert "learner.rollout_steps" in refusal(preset="thin"), "the models hold no figures"


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
    for game in ("shy", "sly"):
        plain, own = load(env=game), load(env=game, overrides=["agent=small"])
        assert (plain.learner.clip, own.learner.clip) == (0.3, 0.1)
        assert own.agent.lstm_size == agents()["small"]["agent"]["lstm_size"] and plain.agent.lstm_size == 32
        assert (plain.learner.epochs, own.learner.epochs) == (9, 5)  # `fast` leaves them to the game
        wide = load(preset="heavy", env=game, overrides=["agent=small"])
        assert wide.learner.epochs == load(preset="heavy").learner.epochs
        assert load(env=game, overrides=["agent=small", "learner.clip=0.2"]).learner.clip == 0.2
    assert load(env="kuhn", overrides=["agent=small"]).learner == load(env="kuhn").learner
    with_source(monkeypatch, tmp_path, "[game.shy.agents.smal]\nlearner.clip = 0.1")
    assert "game.shy.agents: [smal] cannot be set here; did you mean `small`?" in refusal(env="shy")
    with_source(monkeypatch, tmp_path, "[preset.wide.agents.small]\nlearner.clip = 0.1")
    assert "preset.wide: [agents] cannot be set here" in refusal(preset="wide")


@pytest.mark.parametrize(
    ("extra", "part"),
    [
        ('[preset.wide]\ninherits = "fats"', "preset.wide.inherits='fats'"),
        ("[preset.wide]\ninherits = 3", "preset.wide.inherits=3"),
        ('[preset.wide]\ninherits = "wide"', "wide -> wide"),
        ('[preset.wide]\ninherits = "high"\n[preset.high]\ninherits = "wide"', "wide -> high -> wide"),
        ('[preset.wide]\ninherits = "run"\n[preset.run]\nrun.verbosity = 2', "preset.run"),
    ],
)
def test_inheritance_that_cannot_be_is_one_line(
    extra: str, part: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """An unknown parent, a circle, and a [run] that comes by inheritance are refused by name, for games and presets."""
    with_source(monkeypatch, tmp_path, extra)
    assert part in refusal(preset="wide")
    with_source(monkeypatch, tmp_path, extra.replace("preset", "game"))
    assert part.replace("preset", "game") in refusal(env="wide")


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
    """Game beats base, preset beats game, file beats preset and stage, --set beats the file; a mix is one key."""
    path = tmp_path / "my.toml"
    path.write_text("[learner]\nepochs = 7\ngamma = 0.5\n[env]\nrows = 64\n[run]\ntotal_steps = 99_000\n")
    assert load().learner.gamma == 0.99
    assert load(env="matrix").agent.lstm_size == 32
    assert load(preset="heavy").env.rows == 128
    config = load(preset="heavy", config_file=path, overrides=("learner.gamma=0.25",))
    assert (config.learner.epochs, config.env.rows, config.run.total_steps) == (7, 64, 99_000)
    assert config.learner.gamma == 0.25
    path.write_text('[env]\nname = "matrix"\n')
    assert load(config_file=path) == load(env="matrix") == load(overrides=("env.name=matrix",))
    path.write_text("[pool.mix]\nself_play = 1.0\n")
    assert load(config_file=path).pool.mix == {"self_play": 1.0}
    config = load(overrides=("pool.mix.self_play=0.7", "pool.mix.bot:based=0.25"))
    assert config.pool.mix == {"self_play": 0.7, "bot:based": 0.25, "bot:constant": 0.05}
    sets = ("pool.groups.hard=['bot:based', 'bot:zoner']", "pool.mix.bot:based=0.0", "pool.mix.hard=0.15")
    config = load(overrides=sets)
    assert config.pool.groups == {"hard": ["bot:based", "bot:zoner"]}
    assert config.pool.mix == {"self_play": 0.8, "bot:based": 0.0, "bot:constant": 0.05, "hard": 0.15}


@pytest.mark.parametrize(
    ("groups", "parts"),
    [
        ("{hard=[]}", "pool.groups.hard=[] bot:NAME"),
        ("{hard=['based']}", "pool.groups.hard `based` bot:NAME"),
        ("{hard=['bot:based']}", "pool.groups.hard `bot:based` pool.mix"),
        ("{hard=['bot:zoner'], more=['bot:zoner']}", "pool.groups.more pool.groups.hard"),
    ],
)
def test_a_group_has_members_of_its_own(groups: str, parts: str) -> None:
    """Each a member, in one place."""
    more = ", more=0.0" * ("more" in groups)
    message = refusal(
        overrides=(f"pool.mix={{self_play=0.5, 'bot:based'=0.3, hard=0.2{more}}}", f"pool.groups={groups}")
    )
    assert [part for part in parts.split() if part not in message] == [], message


def test_a_file_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    """As editors of Windows write it."""
    path = tmp_path / "c.toml"
    path.write_text("[learner]\nclip = 0.3\n", encoding="utf-8-sig")
    assert read_toml(path, "--config") == {"learner": {"clip": 0.3}}


def test_override_values_are_toml_or_words() -> None:
    """`false` is False, numbers are numbers, lists are lists, bare words are strings, unknown env keys are options."""
    sets = ["agent.opponent_encoder=false", "learner.learning_rate=1", "agent.head_sizes=[64, 32]", "rewards.win=-2"]
    sets += ["learner.device=cpu", "learner.target_kl=0.02", "env.stocks=1", "env.ground=flat"]
    config = load(overrides=sets)
    assert config.agent.opponent_encoder is False
    assert config.learner.learning_rate == 1.0 and isinstance(config.learner.learning_rate, float)
    assert config.agent.head_sizes == (64, 32)
    assert (config.learner.device, config.learner.target_kl) == ("cpu", 0.02)
    assert (config.env.options["stocks"], config.env.options["ground"]) == (1, "flat")
    assert config.rewards["win"] == -2.0 and load().learner.target_kl is None


# Refusals


@pytest.mark.parametrize(
    ("override", "parts"),
    [
        ("learner.gama=0.9", "learner.gama `gamma`"),
        ("learnr.gamma=0.9", "learnr `learner`"),
        ("gamma=0.9", "gamma section.key=value"),
        ("learner.epochs", "learner.epochs section.key=value"),
        ("agent=smal", "smal `small`"),
        ("agent=a\n\x1b", r"agent='a\n\x1b' small"),
        ("learner.epochs='3'", "learner.epochs='3' integer --set"),
        ("learner.epochs=true", "learner.epochs=True integer"),
        ("learner.epochs=1.0", "learner.epochs=1.0 integer"),
        ("learner.epochs=0", "learner.epochs=0 1 Passes"),
        ("learner.gamma=1.5", "learner.gamma=1.5 1"),
        ("learner.gamma=nan", "learner.gamma=nan finite"),
        ("learner.gamma=[1", "learner.gamma='[1' number"),
        ("learner.device=gpu", "learner.device='gpu' 'cuda'"),
        ("agent.encoder_width=250", "encoder_width=250 encoder_heads=8 16"),
        ("agent.encoder_width=264", "encoder_width=264 even"),
        ("pool.mix.bot:based=0.3", "pool.mix 1.15 -0.15"),
        ("pool.mix={bots=1.0}", "`bots` bot:NAME"),
        ("pool.mix={}", "pool.mix 0"),
        ("pool.sampler=pfsp_hrd", "pool.sampler='pfsp_hrd' --sampler `pfsp_hard`"),
        ("pool.group_sampler=mine", "pool.group_sampler='mine' --sampler nash"),
        ("agent.policy='a/b'", "agent.policy='a/b' pattern"),
        ("pool.epsilon=1.5", "pool.epsilon=1.5 uniform"),
        ("pool.result_half_life=0", "pool.result_half_life=0 Steps"),
        ("pool.groups={self_play=['bot:based']}", "pool.groups.self_play taken"),
        ("pool.groups={a=['bot:zoner']}", "pool.groups.a share pool.mix.a"),
        ("env.stocks={a=1}", "env.stocks="),
        ("run.evaluate_games=3", "run.evaluate_games=3 2"),
        ("learner.minibatch_size=auto", "learner.minibatch_size='auto' count 300k"),
        ("env.name=3", "env.name=3 string"),
    ],
)
def test_bad_override_is_one_line_with_setting_and_rule(override: str, parts: str) -> None:
    """Every bad setting is refused on one line that names it, its value and what would be right."""
    message = refusal(overrides=(override,))
    assert [part for part in parts.split() if part not in message] == [], message


def test_a_call_names_one_game() -> None:
    """`--env` and `--set env.name` of another is refused; of the same it is taken."""
    assert "env.name=brawl: the game is 'kuhn' already; leave one" in refusal(env="kuhn", overrides=("env.name=brawl",))
    assert load(env="kuhn", overrides=("env.name=kuhn",)).env.name == "kuhn"


def test_unreadable_config_file_is_refused(tmp_path: Path) -> None:
    """A missing file, a file that is no TOML and bytes that are no text name the path; a misspelt section its like."""
    path = tmp_path / "bad.toml"
    assert "bad.toml" in refusal(config_file=path)
    for content in (b"[learner\ngamma = ", b"\xff\xfe\x00", b"learner = 3"):
        path.write_bytes(content)
        assert "bad.toml" in refusal(config_file=path)
    path.write_bytes(b"[learners]\ngamma = 0.9")
    assert "did you mean `learner`" in refusal(config_file=path)
    assert "did you mean `test50k`" in refusal(stage="test5k")
    assert "did you mean `heavy`" in refusal(preset="heavi")


@pytest.mark.parametrize(
    ("stage", "sets", "parts"),
    [
        ("test50k", ["run.total_steps=38912"], "19 updates"),
        ("test50k", ["pool.snapshot_every=12000"], "4 snapshots"),
        ("test50k", ["env.rows=16", "learner.rollout_steps=32"], "bot:constant 0.05 of env.rows=16"),
        (
            "test50k",
            [
                *("env.rows=16", "learner.rollout_steps=32"),
                'pool.mix={self_play={0=1.0, 100_000=0.95}, "bot:based"={0=0.0, 100_000=0.05}}',
            ],
            "bot:based 0.05 of env.rows=16",
        ),
        ("smoke", ["learner.accumulate=32"], "learner.accumulate=16"),
        ("smoke", ["learner.rollout_steps=65"], "run.total_steps=4096"),
    ],
)
def test_stage_that_could_not_learn_is_refused_with_the_numbers(stage: str, sets: list[str], parts: str) -> None:
    """Too few updates, snapshots or rows for a group each name their figures; smoke is exempt from the counts only."""
    assert parts in check_refusal(*sets, stage=stage)
    check(load(overrides=("run.total_steps=38913",)))
    check(load(stage="smoke", overrides=("env.rows=4", "learner.minibatch_size=1_024", "learner.rollout_steps=512")))


def test_default_presets_pass_and_wider_ones_need_the_long_stage() -> None:
    """test50k holds with fast; heavy and beast are refused there with the arithmetic and pass in 10m."""
    for stage, env in product(stages(), ("brawl", "matrix")):
        check(load(stage=stage, env=env))
    for preset in ("heavy", "beast"):
        check(load(stage="10m", preset=preset))
    message = check_refusal(preset="heavy")
    assert "50000" in message and "7 updates" in message and "8192" in message
    assert "longer than run.total_steps=50000" in check_refusal(preset="beast")
    assert (steps_per_update(load()), num_updates(load()), num_updates(load(stage="smoke"))) == (2_048, 25, 2)


def test_rewards_are_checked_against_the_game() -> None:
    """Weights come in the game's order; an unknown term is refused with the nearest, all zero too."""
    spec = registry.spec("matrix", {})
    assert check_rewards(load(env="matrix", overrides=("rewards.win=0.5",)), spec) == (1.0, 0.5)
    with pytest.raises(ConfigError, match=r"rewards\.payof=1: .*did you mean `payoff`"):
        check_rewards(load(env="matrix", overrides=("rewards.payof=1",)), spec)
    with pytest.raises(ConfigError, match="nothing to learn"):
        check_rewards(load(env="matrix", overrides=("rewards.payoff=0",)), spec)


# What is written down


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


SAME = ["run.total_steps=60000", "run.evaluate_games=2", "env.threads=3", "env.strict_masks=true"]
SAME += ["learner.accumulate=4", "learner.accumulate=auto", "learner.device=cpu", "rewards.win=1"]
SAME += ['pool.mix={"bot:constant"=0.05, "bot:based"=0.15, self_play=0.8}']
OTHER = ["learner.gamma=0.9", "env.rows=96", "env.stocks=2", "rewards.win=1.5"]


@pytest.mark.parametrize("override", [*SAME, *OTHER])
def test_the_fingerprint_is_of_what_changes_learning(override: str) -> None:
    """Not of [run], threads, mask checks, the device, parts of a minibatch, key order or how a number is written."""
    assert (fingerprint(load(overrides=(override,))) == fingerprint(load())) == (override in SAME)


def test_the_fingerprint_is_the_same_in_another_process() -> None:
    code = "from league.config import fingerprint, load; print(fingerprint(load()))"
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert output.strip() == fingerprint(load())


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


def test_snapshot_schedule_thins_out() -> None:
    """Marks lie every 5,000 steps up to 40,000, then four in a doubling of the steps, then every 100,000 steps."""
    marks = [*range(5_000, 40_001, 5_000), *range(50_000, 80_001, 10_000), *range(100_000, 160_001, 20_000)]
    marks += [*range(200_000, 320_001, 40_000), *range(400_000, 640_001, 80_000), *range(700_000, 2_000_001, 100_000)]
    for steps in (0, 4_999, 5_000, 7_048, 40_000, 61_000, 639_999, 640_000, 1_999_999):
        assert next_snapshot_mark(load(), steps) == min(mark for mark in marks if mark > steps)
        assert num_snapshot_marks(load(), steps) == sum(mark <= steps for mark in marks)
