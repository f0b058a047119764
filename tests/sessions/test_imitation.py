"""Clones of recorded decisions: how well they decide, what they are made of, and runs that begin with one."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
import torch

import league
from league.arena.agents import find_agent, gather, play_pairings
from league.arena.demonstrations import decisions_of, of_columns, played
from league.arena.replays import Playback, parse, read
from league.config import load
from league.envs import registry
from league.errors import ConfigError, LeagueError, UsageError
from league.play.demonstrations import DecisionRecorder, Demonstration, batch_of
from league.sessions.folders import GUESTS
from league.sessions.imitation import _divided
from league.snapshots import Agent
from league.snapshots.manifest import GameRecord
from league.store.store import Store
from league.training.learner import Learner
from tests.helpers.commands import call, need_refusal
from tests.helpers.runs import SETS, learned, stages, stopping, train
from tests.helpers.sizes import SMALL_AGENT, as_options

FAST = ("learner.learning_rate=1e-2", *SMALL_AGENT)
BEGIN = "learner.begin_kl={0=0.5, 900=0.0}"
Arrays = dict[str, Any]


def imitate(out: Path, game: object, *sources: str, **more: Any) -> Any:
    """A small clone, made on a CPU, whose store is beside it."""
    given = {"games": 40, "overrides": FAST, "device": "cpu", "store": out.parent / "runs", **more}
    return league.imitate(game, given.pop("demonstrations", sources), out, **given)


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clone for the runs of `tests.helpers.runs`, which nobody may change."""
    out = tmp_path_factory.mktemp("clone") / "START"
    imitate(out, "matrix", "bot:biased", overrides=[*SETS, "learner.learning_rate=1e-2"], epochs=3)
    return out


@pytest.fixture
def copied(start: Path, tmp_path: Path) -> Path:
    """A copy of it to remove."""
    return shutil.copytree(start, tmp_path / "START")


# What a clone learns


def test_a_clone_of_a_deterministic_bot_decides_as_it(tmp_path: Path) -> None:
    """In matches held out, and in play: it is an agent as any other."""
    clone = imitate(tmp_path / "caller", "kuhn", "bot:call", games=100)
    assert clone.accuracy == 1.0 > clone.most_frequent and clone.log_loss < 0.1
    assert clone.matches == 100 and 0 < clone.held_out < clone.decisions
    met = league.evaluate(str(tmp_path / "caller"), "bot:random", 40, greedy=True, device="cpu").summary.metrics
    assert met["folds"][0] == met["raises"][0] == 0 < met["raises"][1]
    assert Agent.load(tmp_path / "caller").manifest.agent_id == clone.agent_id
    copy = imitate(tmp_path / "copy", "kuhn", str(tmp_path / "caller"), games=100)
    assert copy.accuracy is not None and copy.accuracy > 0.9 and copy.log_loss < 0.3  # of a network, too
    again = imitate(tmp_path / "again", "kuhn", "bot:call", games=100)
    assert (again.agent_id, again.log_loss) == (clone.agent_id, clone.log_loss)


def test_a_clone_of_cards_keeps_to_legal_tuples(tmp_path: Path) -> None:
    clone = imitate(tmp_path / "greedy", "cards", "bot:greedy", games=6, epochs=2)
    assert clone.accuracy > 0 and np.isfinite(clone.log_loss) and clone.log_loss < 20
    league.evaluate(str(tmp_path / "greedy"), "bot:random", 2, device="cpu")


def _bits(memory: bool) -> Arrays:
    """A bit is shown, and answered in the next decision: of one match, or of two."""
    bits = np.random.default_rng(0).integers(0, 2, 1_000)
    columns: Arrays = {"match": [], "seat": [], "step": [], "obs": [], "action": []}
    for number, bit in enumerate(bits.tolist()):
        for step, (obs, action) in enumerate((([bit, 0.0], 0), ([0.0, 1.0], bit))):
            match = f"{number}" if memory else f"{number}-{step}"
            row = {"match": match, "seat": 0, "step": step, "obs": [*obs, *[0.0] * 6], "action": [action]}
            for name, value in row.items():
                columns[name].append(value)
    return columns


def test_a_clone_of_what_remembers_needs_its_memory(tmp_path: Path) -> None:
    """A bit is shown, and answered one decision later: alone, that decision is a coin's."""
    sets = ["learner.learning_rate=3e-2", *SMALL_AGENT]
    with_it = imitate(tmp_path / "with", "matrix", demonstrations=_bits(True), overrides=sets)
    without = imitate(tmp_path / "without", "matrix", demonstrations=_bits(False), overrides=sets, epochs=10)
    assert with_it.accuracy == 1.0 and without.accuracy < 0.9


def test_minibatches_repeat_the_last_decision_and_do_not_count_it() -> None:
    """And what a seat saw while it waited stands before the decision that followed."""
    spec = registry.spec("matrix", {}).action
    obs = np.arange(12, dtype=np.float32).reshape(4, 3)
    short = Demonstration("a", "a", obs[:1], np.array([True]), None, np.array([[2]], np.int32))
    long = Demonstration(
        "b", "b", obs, np.array([False, True, False, True]), None, np.array([[0], [1], [0], [2]], np.int32)
    )
    batch = batch_of([short, long], spec, torch.device("cpu"))
    assert batch.obs[0].tolist() == [[0, 1, 2]] * 2 and batch.obs[1].tolist() == [[3, 4, 5], [9, 10, 11]]
    assert batch.counts.tolist() == [[True, False], [True, True]] and batch.is_first.tolist() == [[True, False]] * 2
    assert batch.action[..., 0].tolist() == [[2, 2], [1, 2]]
    assert batch.watched is not None and batch.watched.before.tolist() == [[2, 0], [2, 1]]
    assert batch.watched.obs[:, 1].tolist() == [[0, 1, 2], [6, 7, 8]]


def test_a_sequence_is_what_the_steps_are(tmp_path: Path) -> None:
    """Of cards, with what each seat saw while it waited: the encoder reads the same either way."""
    league.watch("bot:curve", "bot:greedy", tmp_path / "x.replay", env="cards")
    imitate(tmp_path / "net", "cards", "bot:random", games=2, epochs=1)
    net: Any = Agent.load(tmp_path / "net").policy
    some = decisions_of(Playback(read(tmp_path / "x.replay"), "x"), "x")
    batch = batch_of(some, net.architecture.action, torch.device("cpu"))
    more = batch.obs, batch.action, net.initial_state(2), batch.is_first, batch.mask, batch.watched
    values = [row[own] for row, own in zip(net.sequence(*more)[2], batch.counts, strict=True)]
    for each, expected in zip(some, values, strict=True):
        state, found = net.initial_state(1), []
        for obs, decides, mask in zip(each.obs, each.decides, each.mask, strict=True):  # type: ignore[arg-type]
            seen = torch.from_numpy(obs)[None]
            if decides:
                found.append(net.step(seen, state, mask=torch.from_numpy(mask)[None])[2])
            else:
                net.watch(seen, state)
        assert torch.allclose(torch.cat(found), expected, atol=1e-4) and len(found) == each.decisions < len(each.obs)


# What it learns from


def test_no_match_is_there_twice_or_on_both_sides(tmp_path: Path) -> None:
    """Of an agent against itself each seed is played once; matches of one seed are held out together."""
    meeting = gather(None, tuple(find_agent(None, f"bot:{name}") for name in ("nash", "random")), "kuhn", "cpu")
    found = list(played(meeting, 4, seed=0))
    by_match: dict[str, list[Demonstration]] = {}
    for each in found:
        by_match.setdefault(each.match, []).append(each)
    assert len(by_match) == 12 and all(len(seats) == 2 for seats in by_match.values())
    assert sorted(Counter(seats[0].group for seats in by_match.values()).values()) == [1] * 8 + [2] * 2
    shown, held_out = _divided(found, 0)
    assert len(shown) + len(held_out) == 24 and not {x.group for x in shown} & {x.group for x in held_out}


@pytest.mark.parametrize(
    ("game", "sides"),
    [
        ("brawl", ("bot:based", "bot:zoner")),
        ("cards", ("bot:curve", "bot:greedy")),
        ("matrix", ("a network", "bot:biased")),
    ],
)
def test_decisions_are_the_same_while_played_and_played_back(game: str, sides: tuple[str, str], start: Path) -> None:
    """What is kept while matches are played, beside others, is what their replays show one by one."""
    found = [find_agent(None, str(start) if name == "a network" else name) for name in sides]
    meeting = gather(None, tuple(found), None if game == "matrix" else game, "cpu")
    recorder = DecisionRecorder()
    pairings = [(0, 1, 6, 3), (0, 0, 4, 5)]
    matches = play_pairings(meeting, pairings, run="t", update=0, greedy=False, decisions=recorder)
    replays = {f"match {x.row}.{x.ordinal}": x.replay for x in matches if x.replay}
    assert len(replays) == len(pairings) and len({x.match for x in recorder.found}) == len(matches)
    for name, text in replays.items():
        here = [each for each in recorder.found if each.match == name]
        there = decisions_of(Playback(parse(text, name), name), name)
        assert len(here) == len(there) == 2 and here[0].group == there[0].group
        for one, other in zip(here, there, strict=True):
            for field in ("obs", "decides", "mask", "actions"):
                assert np.array_equal(getattr(one, field), getattr(other, field)), field


@pytest.mark.parametrize("game", ["brawl", "cards", "matrix", "leduc"])
def test_every_bot_tells_what_it_plays(game: str, tmp_path: Path) -> None:
    """What a playback gives is legal, and a person's or a net's decisions are those of the replay."""
    spec = registry.spec(game, {})
    for bot in spec.bots:
        league.watch(f"bot:{bot}", f"bot:{spec.bots[0]}", tmp_path / f"{bot}.replay", env=game)
        for each in decisions_of(Playback(read(tmp_path / f"{bot}.replay"), bot), bot):
            mask = None if each.mask is None else each.mask[each.decides]
            assert spec.action.is_legal(each.actions[each.decides], mask).all() and each.decides[-1]


@pytest.mark.slow
def test_replays_of_the_store_and_of_files(tmp_path: Path) -> None:
    """`replays` has both seats of every kept match, `replays:NAME` those decisions of one alone."""
    store = tmp_path / "runs"
    league.train("smoke", env="kuhn", run="r", device="cpu", store=store, overrides=["run.replays=4", *SMALL_AGENT])
    step = Store.open(store).snapshots("r")[-1].step
    every, own, one = (
        imitate(tmp_path / name, "kuhn", source, epochs=1)
        for name, source in (("every", "replays"), ("own", "replays:r"), ("one", f"replays:r@{step}"))
    )
    assert every.matches >= own.matches >= one.matches >= 2 and every.decisions > own.decisions
    with pytest.raises(UsageError, match="replays:nobody: has no decision of kuhn; name other"):
        imitate(tmp_path / "none", "kuhn", "replays:nobody")
    files = [tmp_path / f"{seed}.replay" for seed in (1, 2)]
    for seed, file in enumerate(files):
        league.watch("r", "bot:call", file, seed=seed, device="cpu", store=store)
    assert imitate(tmp_path / "files", "kuhn", *map(str, files), epochs=1).matches == 2
    with pytest.raises(UsageError, match=r"1.replay: it is of kuhn .*, and the clone plays leduc"):
        imitate(tmp_path / "other", "leduc", str(files[0]))
    assert not (tmp_path / "other").exists()


def _columns(tmp_path: Path, game: str = "kuhn") -> Arrays:
    """A user's columns: what bots decided in a few matches."""
    table: Arrays = {name: [] for name in ("match", "seat", "step", "obs", "mask", "action")}
    for seed in range(6):
        path = tmp_path / f"{game}{seed}.replay"
        league.watch(f"bot:{registry.spec(game, {}).bots[1]}", "bot:random", path, env=game, seed=seed)
        for seat, each in enumerate(decisions_of(Playback(read(path), "x"), str(seed))):
            for step in range(len(each.obs)):
                own = [] if each.mask is None else each.mask[step].tolist()
                action = each.actions[step].tolist() if each.decides[step] else None
                row = (each.match, seat, step, each.obs[step].tolist(), own, action)
                for name, value in zip(table, row, strict=True):
                    table[name].append(value)
    return table


def _record(game: str) -> tuple[Any, GameRecord]:
    spec, options = registry.spec(game, {}), registry.check_options(game, {})
    return spec, GameRecord.of(spec, registry.game_id(game, options), options, registry.source(game))


@pytest.mark.parametrize("game", ["kuhn", "cards"])
def test_a_parquet_file_says_what_its_columns_say(game: str, tmp_path: Path) -> None:
    """In any order of its rows; moments without an action are looks at the other's decisions."""
    table = _columns(tmp_path, game)
    rows = list(zip(*table.values(), strict=True))
    con = duckdb.connect()
    con.execute('CREATE TABLE t ("match" VARCHAR, seat INT, step INT, obs FLOAT[], mask INT[], "action" INT[])')
    con.executemany("INSERT INTO t VALUES (?, ?, ?, ?, ?, ?)", [list(row) for row in rows[::-1]])
    con.execute(f"COPY t TO '{tmp_path / 'own.parquet'}' (FORMAT parquet)")
    there = of_columns(str(tmp_path / "own.parquet"), *_record(game), "own")
    here = of_columns(table, *_record(game), "own")
    assert len(there) == len(here) == 12 and any((~x.decides).any() for x in here) == (game == "cards")
    for one, other in zip(there, here, strict=True):
        for name in ("obs", "decides", "mask", "actions"):
            assert np.array_equal(getattr(one, name), getattr(other, name)), name
    clone = imitate(tmp_path / "own", game, str(tmp_path / "own.parquet"), epochs=1)
    assert clone.decisions == sum(x.decisions for x in here) and clone.matches == 6


WRONG = {
    "no column mask .*demonstrations of kuhn have match, seat, step, obs, action, mask": lambda t: t.pop("mask"),
    r"column obs, row 0, has 2 numbers, and this game's has \d+": lambda t: t["obs"].__setitem__(0, [0.0, 1.0]),
    "column obs, row 0, is .*, no .* numbers of float32": lambda t: t["obs"][0].__setitem__(0, float("nan")),
    r"column action, row 0, has 2 numbers, and this game's has 1": lambda t: t["action"].__setitem__(0, [0, 0]),
    r"column action, row 0, is \[3\], which is not legal there": lambda t: t["action"].__setitem__(0, [3]),
    "column mask, row 0, cannot be: nothing is legal": lambda t: t["mask"].__setitem__(0, [0] * 4),
    "column mask, row 0, is .*, no 4 numbers of bool": lambda t: t["mask"].__setitem__(0, [2] * 4),
    "column seat, row 0, is 2, and must be 0 or 1": lambda t: t["seat"].__setitem__(0, 2),
    "column step, row 0, is 0.5, no whole number": lambda t: t["step"].__setitem__(0, 0.5),
    "column step, row 1, is that of row 0": lambda t: t["step"].__setitem__(1, t["step"][0]),
    "column obs has .* rows, and match": lambda t: t["obs"].pop(),
}


@pytest.mark.parametrize("words", WRONG)
def test_another_layout_is_one_line(words: str, tmp_path: Path) -> None:
    """With the column, what it must be and what it is; nothing is written."""
    table = _columns(tmp_path)
    table["action"][0] = [int(np.flatnonzero(table["mask"][0])[0])]
    WRONG[words](table)
    with pytest.raises(UsageError, match=words) as caught:
        imitate(tmp_path / "out", "kuhn", demonstrations=table)
    assert len(str(caught.value).splitlines()) == 1 and "; " in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_the_command_and_its_errors(tmp_path: Path) -> None:
    """One document with the held-out figures; a file that is no Parquet, and an --out that is there, are one line."""
    words = ["imitate", "kuhn", "--games", "20", "--epochs", "2", "--device", "cpu", *as_options(FAST)]
    called = call(*words, "--from", "bot:call", "--out", "c", "--json", cwd=tmp_path)
    assert called.json == called.json | {"out": "c", "matches": 20, "epochs": 2} and called.json["accuracy"] > 0
    need_refusal(call(*words, "--from", "bot:call", "--out", "c", cwd=tmp_path), 2, "c: is there already")
    (tmp_path / "x.parquet").write_text("no")
    refused = call(*words, "--from", "x.parquet", "--out", "d", cwd=tmp_path)
    need_refusal(refused, 2, "x.parquet: no Parquet file that can be read")
    need_refusal(call(*words, "--from", "bot:callt", "--out", "d", cwd=tmp_path), 2, "bot:call")
    need_refusal(call(*words, "--from", "bot:call", "--out", ".d", cwd=tmp_path), 2, "pass another --out")


# Runs that begin with one


def _policies(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The weights that each update of a run finds."""
    found: list[dict[str, Any]] = []
    original = Learner.update

    def update(self: Learner, rollout: Any) -> Any:
        found.append({name: x.clone() for name, x in self.policy.state_dict().items()})
        return original(self, rollout)

    monkeypatch.setattr(Learner, "update", update)
    return found


def test_a_run_begins_as_the_clone_and_stays_near_it(
    start: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its first update finds the clone's weights, bit for bit; with a KL it leaves them less far than without."""
    found = _policies(monkeypatch)
    clone = Agent.load(start).policy.state_dict()
    far = []
    for weight in (0.0, 20.0):
        found.clear()
        where = tmp_path / f"{weight:g}"
        train(where, "smoke", f"learner.begin_kl={weight}", "run.total_steps=1280", run="r", begin_with=start)
        assert all(torch.equal(x, clone[name]) for name, x in found[0].items())
        agent = league.load("r", store=where).policy
        obs = torch.rand(64, 1, 8, generator=torch.Generator().manual_seed(0))
        states = [net.initial_state(64) for net in (agent, Agent.load(start).policy)]
        first = torch.ones(64, 1, dtype=torch.bool)
        logs = [
            torch.stack([net.sequence(obs, torch.full((64, 1, 1), a), state, first)[0] for a in range(3)])
            for net, state in zip((agent, Agent.load(start).policy), states, strict=True)
        ]
        far.append(float((logs[0].exp() * (logs[0] - logs[1])).sum(0).mean()))
    assert far[1] < 0.5 * far[0]


def test_a_run_may_begin_with_an_agent_of_another_game(
    start: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a game that shows and takes the same: matches of ten rounds, before those of four."""
    found = _policies(monkeypatch)
    train(tmp_path, "smoke", "env.rounds=4", "run.total_steps=1280", run="r", begin_with=start)
    clone = Agent.load(start)
    assert all(torch.equal(x, clone.policy.state_dict()[name]) for name, x in found[0].items())
    assert league.load("r", store=tmp_path).manifest.game.game_id != clone.manifest.game.game_id


@pytest.mark.slow
def test_it_resumes_bit_for_bit_without_the_folder(copied: Path, tmp_path: Path) -> None:
    train(tmp_path / "whole", "smoke", BEGIN, "run.total_steps=1280", run="r", begin_with=copied)
    with stopping(3):
        stopped, _ = train(tmp_path / "broken", "smoke", BEGIN, "run.total_steps=1280", run="r", begin_with=copied)
    assert stopped.status == "stopped"
    [kept] = (tmp_path / "broken" / "r" / GUESTS).iterdir()
    assert kept.name == Agent.load(copied).manifest.agent_id
    shutil.rmtree(copied)
    league.resume("r", store=tmp_path / "broken")
    assert learned(tmp_path / "broken", "r") == learned(tmp_path / "whole", "r")
    row = Store.open(tmp_path / "whole").find_run("r")
    assert json.loads(row.config)["learner"]["begin_with"] == kept.name
    metrics = [x for *_, x in Store.open(tmp_path / "whole").metrics("r", "schedule/learner.begin_kl")]
    assert metrics[0] > metrics[3] > metrics[-1] == 0.0


@pytest.fixture
def short(tmp_path: Path) -> Iterator[None]:
    """The stages `short` and `long`."""
    with stages(tmp_path):
        yield


@pytest.mark.usefixtures("short")
def test_a_short_stage_is_the_beginning_of_a_long_one(start: Path, tmp_path: Path) -> None:
    """A longer stage carries on the run that began with the same agent, by another path too, and no other."""
    moved = shutil.copytree(start, tmp_path / "moved")
    train(tmp_path / "parts", "short", BEGIN, begin_with=start)
    result, _ = train(tmp_path / "parts", "long", BEGIN, begin_with=moved)
    whole, _ = train(tmp_path / "whole", "long", BEGIN, begin_with=start)
    assert result.run == whole.run == "matrix-1"
    assert learned(tmp_path / "parts", "matrix-1")[1] == learned(tmp_path / "whole", "matrix-1")[1]
    other, _ = train(tmp_path / "parts", "long")
    assert other.run == "matrix-2"


@pytest.mark.parametrize(
    ("words", "sets"),
    [
        (r"agent.lstm_size was 16 and is 8; give the run its settings", ["agent.lstm_size=8"]),
        (r"obs_size was \d+ and is \d+", ["env.payoff=[[0,1],[1,0]]", "env.bot_mix=[0.5,0.5]"]),
    ],
)
def test_an_agent_that_does_not_fit_is_one_line(words: str, sets: list[str], start: Path, tmp_path: Path) -> None:
    """With the field that differs; nothing is written."""
    with pytest.raises(ConfigError, match=f"^learner.begin_with=.*: a run cannot begin with it: {words}"):
        train(tmp_path / "runs", "smoke", *sets, begin_with=start)
    assert not (tmp_path / "runs").exists()


def test_what_does_not_go_together_is_refused(start: Path, tmp_path: Path) -> None:
    for words, given in {
        "learner.begin_kl=0.5: the learner begins with no other agent": {"sets": [BEGIN]},
        "learner.begin_with=bot:biased: a bot has no weights": {"begin_with": "bot:biased"},
        "learner.begin_with=nothing: ": {"begin_with": "nothing"},
    }.items():
        with pytest.raises(LeagueError, match=f"^{words}"):
            train(tmp_path, "smoke", *given.pop("sets", ()), **given)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"begin_with=.*: an exploiter begins from nothing"):
        league.train(against=str(start), begin_with=start, store=tmp_path)


@pytest.mark.slow
def test_a_league_may_begin_with_it_and_an_exploiter_does_not(start: Path, tmp_path: Path) -> None:
    """Each learner begins with the clone; the exploiter of such a run begins from nothing."""
    from tests.helpers.runs import PAIR

    (tmp_path / "pair.toml").write_text(PAIR)
    sets = ["run.total_steps=256"]
    train(tmp_path / "runs", "smoke", *sets, league=tmp_path / "pair.toml", run="l", begin_with=start)
    clone = Agent.load(start).manifest.agent_id
    store = Store.open(tmp_path / "runs")
    assert [store.snapshots(row.run)[0].agent_id for row in store.learners("l")] == [clone, clone]
    done = league.train(
        against="l.main", steps=512, games=2, store=tmp_path / "runs", device="cpu",
        overrides=["pool.snapshot_every=256", "pool.snapshot_every_after=256"],
    )  # fmt: skip
    assert store.snapshots(done.run)[0].agent_id != clone


def test_the_divergence_decays_by_itself(tmp_path: Path) -> None:
    """A run that names an agent to begin with, in a file or a call, has a schedule that ends at 0; others have none."""
    (tmp_path / "own.toml").write_text('[learner]\nbegin_with = "START"\n')
    path = ("learner", "begin_kl")
    for found in (load(config_file=tmp_path / "own.toml"), load(overrides=["learner.begin_with=START"])):
        moves = found.schedules[path]
        assert moves.at(0) > moves.at(50_000) > moves.at(100_000) == moves.at(10_000_000) == 0.0
    assert path not in load().schedules and not load().learner.begin_kl
