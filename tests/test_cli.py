"""The command line: the whole path on the matrix game, what each command prints, and what bad input gets."""

import itertools
import json
import os
import re
import shlex
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from league import config
from league.config.written import as_words
from league.envs import registry
from league.sessions.settling import words_for
from league.store.rows import RunRow, SnapshotRow
from tests.helpers.commands import Called, commands, need_refusal
from tests.helpers.commands import call as call_now
from tests.helpers.sizes import SMALL, as_options
from tests.helpers.stores import Filled, files_of, keeping_store

ROOT = Path(__file__).resolve().parent.parent
TINY = [*("--env", "matrix", "--device", "cpu"), *as_options([*SMALL, "pool.snapshot_every=128"])]
TRAIN = ["train", "--stage", "smoke", *TINY, "--set", "run.total_steps=512"]
LONG = "é" * 200
"""400 bytes; file systems take 255."""
Call = Callable[..., Called]


@pytest.fixture
def call() -> Call:
    """`league ARGUMENTS` in this process."""
    return call_now


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a finished run `matrix-1` and one of another game, `other`; nobody may change it."""
    folder = tmp_path_factory.mktemp("trained")
    for arguments in ([], ["--run", "other", "--set", "env.rounds=7", "--set", "run.total_steps=128"]):
        assert call_now(*TRAIN, "--quiet", *arguments, cwd=folder).code == 0
    return folder


@pytest.fixture
def unchanged(trained: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """`trained`, the working folder, which must be the same afterwards."""
    before = files_of(trained)
    monkeypatch.chdir(trained)
    yield trained
    assert files_of(trained) == before


@pytest.fixture
def copied(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of `trained` to change, the working folder."""
    shutil.copytree(trained / "runs", tmp_path / "runs")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


# The whole path


def test_train_tells_on_stderr_and_prints_one_document(call: Call, here: Path) -> None:
    """Verbosity is a setting: 0 writes errors alone, as --quiet does, 2 gives every update a line."""
    called = call(*TRAIN, "--json")
    assert called.json == called.json | {"run": "matrix-1", "steps": 512, "updates": 4, "status": "finished"}
    assert len(called.json["newest"]) == 64
    assert "512 steps" in called.err and "next: league leaderboard --run matrix-1" in called.err
    for silent in (["--quiet"], ["--set", "run.verbosity=0"]):
        again = call(*TRAIN, *silent)
        assert (again.code, again.out, again.err) == (0, "", "")
    assert (here / "runs" / "matrix-2" / "snapshots").is_dir(), "the next free name is taken"
    assert call(*TRAIN, "--set", "run.verbosity=2").err.count(" of 512, ") == 4


def test_an_agents_size_is_short_for_its_settings(call: Call, here: Path) -> None:
    """It lies above the game's own and a file, below --set; a run says by its name how it goes on."""
    (here / "own.toml").write_text("[agent]\nlstm_size = 8\n", encoding="utf-8")
    given = ("--agent", "small", "--config", "own.toml")
    found = call("settings", *given, "--set", "agent.observation_width=32", "--json").json["agent"]
    small = config.agents()["small"]["agent"]
    assert found == found | small | {"observation_width": 32} and small["lstm_size"] != 8
    loaded = config.load(overrides=as_words({"learner": {"gamma": 0.9}}, "small"))
    assert words_for(loaded, "10m", "fast") == ["--agent", "small", "--set", "learner.gamma=0.9"]


def test_settings_are_a_file_that_config_takes(call: Call, copied: Path) -> None:
    """Printed, read and printed again they are the same, with schedules; a run's are those that it was begun with."""
    sets = ["--set", "learner.clip={0=0.2, 500_000=0.1}", "--set", "env.curriculum=[{from=0, options={rounds=3}}]"]
    shown = call("settings", "--env", "matrix", "--explain", *sets).out
    assert "# PPO's clip range" in shown and re.search(r"clip = \{ 0 = 0\.2, 500_000 = 0\.1 \}\n# 0\.2 █", shown)
    (copied / "it.toml").write_text(shown, encoding="utf-8")
    assert call("settings", "--config", "it.toml", "--explain").out == shown
    found = call("settings", "--config", "it.toml", "--json").json
    assert found["learner"]["clip"] == {"0": 0.2, "500000": 0.1} and found["env"]["options"]["rounds"] == 10
    stored = call("runs", "--json").json["runs"][0]
    assert call("settings", stored["run"], "--json").json == {"schema": 1, **stored["config"]}


def test_the_leaderboards_table_and_document_agree(call: Call, copied: Path) -> None:
    """Ratings inside their intervals, the likelihood of being better than the next, differences to one agent."""
    shown = call("leaderboard", "--run", "matrix-1", "--against", "bot:random").out
    board = call("leaderboard", "--run", "matrix-1", "--against", "bot:random", "--json").json["boards"][0]
    entries = {entry["name"]: entry for entry in board["entries"]}
    assert board["unit"] == "payoff" and board["against"] == "bot:random" and "LOS" in shown
    assert set(entries) == {"matrix-1@0", "matrix-1@512", "bot:constant", "bot:random", "bot:biased"}
    for entry in entries.values():
        rating = f"{entry['rating']:+.3f} [{entry['lower']:+.3f}, {entry['upper']:+.3f}]"
        assert re.search(rf"{entry['name']}(?: \(best\))? +{re.escape(rating)} ", shown)
        assert entry["lower"] < entry["rating"] < entry["upper"]
    for a, b in itertools.pairwise(board["entries"]):
        assert 0.5 <= a["superiority"] <= 1.0 and a["rating"] >= b["rating"]
        assert a["against"]["mean"] == pytest.approx(a["rating"] - entries["bot:random"]["rating"])
    assert len(call("leaderboard", "--json").json["boards"]) == 2, "one board a game"
    empty = call("leaderboard", "--greedy")
    assert empty.code == 0 and "no evaluation matches yet" in empty.err


def test_evaluate_swaps_seats_in_pairs_and_is_stored(call: Call, copied: Path) -> None:
    """Each seed stands twice, the counts add up, the matches are on the leaderboard, the same call says the same."""
    pair = ("evaluate", "matrix-1", "--against", "matrix-1@0", "--games", "70", "--json")
    data = call(*pair).json
    seeds, summary = data["seeds"], data["summary"]
    assert len(seeds) == 70 and {seeds.count(seed) for seed in seeds} == {2}
    assert summary["wins"] + summary["draws"] + summary["losses"] == summary["games"] == 70
    assert (data["a"], data["b"]) == ("matrix-1@512", "matrix-1@0")
    entries = {e["name"]: e for b in call("leaderboard", "--json").json["boards"] for e in b["entries"]}
    assert entries["matrix-1@0"]["games"] == 72 and entries["matrix-1@0"]["kind"] == "snapshot"
    again = call(*pair).json
    assert again["seeds"] == seeds and again["summary"] == summary and again["run"] != data["run"]
    shown = call("evaluate", "matrix-1@best", "--against", "bot:random", "--games", "2", "--greedy").out
    assert "against bot:random: payoff" in shown and "stored as evaluation-" in shown


def test_evaluate_prints_every_metric_in_80_columns(call: Call, here: Path) -> None:
    arguments = ["bot:based", "--against", "bot:constant", "--games", "2", "--env", "brawl", "--store", "none"]
    data = call("evaluate", *arguments, "--json").json["summary"]["metrics"]
    shown = call("evaluate", *arguments).out.splitlines()
    assert list(data) == list(registry.spec("brawl", registry.check_options("brawl", {})).metrics)
    for name, (own, other) in data.items():
        assert [name, f"{own:.2f}", f"{other:.2f}"] in [line.split() for line in shown]
    assert max(len(line) for line in shown if line.split()[:1] != ["mean"]) <= 80


def test_an_export_plays_without_a_store(call: Call, copied: Path) -> None:
    """Nothing is stored there then. Beside a run of its name a folder is `./NAME`."""
    called = call("export", "matrix-1", "out/best", "--json")
    assert called.json["path"] == "out/best" and called.json["run"] == "matrix-1"
    assert sorted(path.name for path in (copied / "out" / "best").iterdir()) == ["manifest.json", "weights.safetensors"]
    assert call("export", "matrix-1@0", "out/again").code == 0
    elsewhere = copied / "elsewhere"
    elsewhere.mkdir()
    shown = call("evaluate", "../out/best", "--against", "../out/again", "--games", "2", cwd=elsewhere)
    assert shown.code == 0 and "not stored: no store at runs" in shown.out and list(elsewhere.iterdir()) == []
    store = ["--store", ".", "--games", "2", "--against", "bot:random"]
    assert call("evaluate", "matrix-1", *store, cwd=copied / "runs").code == 0
    need_refusal(call("evaluate", "./matrix-1", *store, cwd=copied / "runs"), 1, "manifest.json")


def test_runs_and_query_print_tables_and_json(call: Call, unchanged: Path) -> None:
    """A run's config is JSON in JSON; NaN and infinity are null, times ISO 8601, bytes hex, maps themselves."""
    runs = {row["run"]: row for row in call("runs", "--json").json["runs"]}
    assert runs["matrix-1"]["config"]["env"]["rows"] == 8 and runs["other"]["steps"] == 128
    sql = "SELECT kind, count(*) AS n FROM match GROUP BY ALL ORDER BY ALL"
    data = call("query", sql, "--json").json
    assert data["columns"] == ["kind", "n"] and [row[0] for row in data["rows"]] == ["evaluation", "training"]
    assert "evaluation" in call("query", sql).out and "matrix-1" in call("runs").out
    sql = (
        "SELECT 'nan'::DOUBLE, '-inf'::FLOAT, ['nan'::DOUBLE], 1.5::DECIMAL(4, 2), TIMESTAMP '2026-01-02 03:04:05',"
        " 'ab'::BLOB, MAP {1: 'x'}, {'a': 1}, 2::HUGEINT ** 70, NULL, true"
    )
    row = call("query", sql, "--json").json["rows"][0]
    assert row[:8] == [None, None, [None], 1.5, "2026-01-02T03:04:05", "6162", {"1": "x"}, {"a": 1}]
    assert row[8:] == [2.0**70, None, True]


def test_runs_tell_on_which_machine_they_train(call: Call, copied: Path) -> None:
    assert "host" not in call("runs").out
    (copied / "runs" / "matrix-1" / "lock-00000000-00000000-00000000@far").touch()
    assert "host" in (shown := call("runs").out) and "far" in shown
    assert {row["run"]: row["host"] for row in call("runs", "--json").json["runs"]}["matrix-1"] == "far"


def test_snapshots_are_listed_and_pruned(call: Call, copied: Path) -> None:
    """The list says what each snapshot is; a dry run what would go, which then goes, and nothing more after that."""
    listed = call("snapshots", "list", "--run", "matrix-1").out
    assert "matrix-1@512" in listed and "other@" not in listed
    rows = call("snapshots", "list", "--json").json["snapshots"]
    found = {row["step"]: row for row in rows if row["run"] != "other"}
    assert list(found) == [0, 128, 256, 384, 512] and found[128]["parent"] == found[0]["agent_id"]
    folder = copied / "runs/matrix-1/snapshots/0000000384"
    assert found[384]["num_bytes"] == sum(file.stat().st_size for file in folder.iterdir())
    assert sum(row["is_best"] for row in found.values()) == 1
    nothing = call("snapshots", "prune")
    assert nothing.code == 0 and "nothing to prune" in nothing.err
    more = ["--set", "run.total_steps=1536", "--run", "long", "--quiet"]
    assert call("train", "--stage", "smoke", *TINY, *more).code == 0
    prune = ("snapshots", "prune", "long", "--keep", "1")
    dry = call(*prune, "--dry-run").out
    (done,) = call(*prune, "--json").json["runs"]
    gone = [row["step"] for row in done["goes"]]
    assert gone and len(gone) == dry.count("would be pruned")
    assert "nothing to prune" in call(*prune).err
    assert call("snapshots", "list", "--run", "long").out.count("pruned on 2") == len(gone)
    need_refusal(call("evaluate", f"long@{gone[0]}", "--against", "bot:random"), 2, "snapshots list --run long")


def test_payoff_prints_the_table_and_draws_it(call: Call, unchanged: Path, tmp_path: Path) -> None:
    """Text and JSON agree, an unknown cell is `?` and null, and the picture is a new PNG."""
    file = tmp_path / "table.png"
    shown = call("payoff", "--run", "matrix-1", "--png", file)
    (table,) = call("payoff", "--run", "matrix-1", "--json").json["tables"]
    assert shown.code == 0 and file.read_bytes().startswith(b"\x89PNG") and "table.png" in shown.err
    names = [row["name"] for row in table["rows"]]
    assert set(names) >= {"matrix-1@0", "bot:random", "bot:biased"} and all(name in shown.out for name in names)
    i, j = names.index("bot:random"), names.index("bot:biased")
    assert table["score"][i][j] is None and table["games"][i][j] == 0 and "?" in shown.out
    need_refusal(call("payoff", "--png", file), 2, "table.png", "--png")


def test_rewards_shows_each_term_plain_and_weighted(call: Call, unchanged: Path) -> None:
    """The means of the stored matches, the learner's own; --last takes the newest."""
    data = call("rewards", "matrix-1", "--json").json["terms"]
    assert [(term["term"], term["weight"]) for term in data] == [("payoff", 1.0), ("win", 0.0)]
    sql = (
        "SELECT avg(rewards['payoff'][if(seat0_agent = run, 1, 2)]), count(*) FROM match"
        " WHERE run = 'matrix-1' AND kind = 'training'"
    )
    mean, matches = call("query", sql, "--json").json["rows"][0]
    assert data[0]["own"] == data[0]["weighted"] == pytest.approx(mean) and data[0]["matches"] == matches
    shown = call("rewards", "matrix-1").out
    assert re.search(rf"payoff +1 +{mean:z.2f} +{mean:z.2f} ", shown) and max(map(len, shown.splitlines())) <= 80
    assert {t["matches"] for t in call("rewards", "matrix-1", "--last", "5", "--json").json["terms"]} == {5}


def test_events_are_listed(call: Call, copied: Path) -> None:
    """Of one run or all, oldest first, with the step of their update; where there are none that is said."""
    assert call("events", "matrix-1").err == "no events\n"
    store = Filled.open(copied / "runs")
    store.add_event("other", 1, "resumed", "resumed with a=1")
    store.add_event("matrix-1", 4, "alarm:kl_blow_up", "KL blew up: 2 nats")
    store.flush(force=True)
    assert re.search(r"other +128 +1 .*resumed.*\n.*matrix-1 +512 +4 .*alarm:kl_blow_up", call("events").out)
    (event,) = call("events", "matrix-1", "--json").json["events"]
    assert (event["kind"], event["steps"], event["update"]) == ("alarm:kl_blow_up", 512, 4)


def test_an_alarm_that_stops_a_run_is_an_exit_code(call: Call, here: Path) -> None:
    """One line on stderr with what to try, exit code 1, the event in the store, and the run can be resumed."""
    sick = ("--set", "learner.learning_rate=10.0", "--set", "run.on_alarm=stop")
    need_refusal(call(*TRAIN, "--quiet", *sick), 1, "run=matrix-1", "--set run.on_alarm=warn")
    assert [event["kind"] for event in call("events", "--json").json["events"]] == ["alarm:kl_blow_up"]
    cure = ("--set", "run.on_alarm=warn", "--set", "learner.learning_rate=1e-3")
    assert call("resume", "matrix-1", "--quiet", *cure).code == 0


def test_alarms_tell_what_is_wrong(call: Call, here: Path) -> None:
    """A game that the first seat always wins raises an alarm at the stage's end, as an event, and when asked."""
    unfair = ["--set", "env.payoff=[[1.0, 1.0, 1.0], [1.0, 1.0, 1.0], [1.0, 1.0, 1.0]]"]
    trained = call(*TRAIN, *unfair, "--set", "run.evaluate_games=8")
    assert trained.code == 0 and "alarm, seats: matrix" in trained.err
    assert [event["kind"] for event in call("events", "--json").json["events"]] == ["alarm:seats"]
    alarm, query, *others = call("alarms", "matrix-1").out.splitlines()
    assert alarm.startswith("ALARM, seats: matrix") and len(others) == 4
    assert "first_seat_score" in call(*shlex.split(query)[1:]).out
    findings = call("alarms", "--json").json["alarms"]
    assert [finding["is_raised"] for finding in findings].count(True) == 1
    assert findings[0]["numbers"]["first_share"] == 1.0


# Benches


@pytest.mark.parametrize(
    ("words", "figure"),
    [
        ("env --env matrix --rows 8 --seconds 0.05", "ticks_per_second"),
        ("env --env cards --rows 8 --seconds 0.05", "ticks_per_second"),
        ("env --rows 64 --seconds 0.2", "ticks_per_second_at_one_tick_a_step"),
        ("ratings --agents 9 --matches 400 --repeats 1", "solve_ms"),
        ("torso --env openspiel:tic_tac_toe --agent small --rows 4 --repeats 1", "mlp_learn_microseconds"),
        (
            "learner --preset auto --repeats 1 --set env.name=matrix --set learner.epochs=1"
            " --set pool.mix.self_play=1.0 --set pool.mix.bot:biased=0.0 --set pool.mix.bot:random=0.0",
            "share_learning",
        ),
    ],
)
def test_a_bench_prints_one_object(words: str, figure: str, call: Call, here: Path) -> None:
    """Its parts add up to the whole; no store is made."""
    if "openspiel" in words:
        pytest.importorskip("pyspiel")
    found = call("bench", *words.split(), "--json").json
    assert found["bench"] == words.split()[0] and found[figure] > 0 and list(here.iterdir()) == []
    if figure.endswith("one_tick_a_step"):
        total = 3 * found["nanoseconds_a_tick"] + found["nanoseconds_a_decision"]
        assert total == pytest.approx(1e9 / found["steps_per_second"], rel=0.02, abs=3)
        assert ("speedup_with_2_threads" in found) == ((os.cpu_count() or 1) >= 2)
    shares = {name.removeprefix("share_"): found[name] for name in found if name.startswith("share_")}
    if shares:
        assert list(shares) == ["game", "play_net", "frozen_nets", "learning", "other"]
        assert sum(shares.values()) == pytest.approx(1, abs=0.01) and min(shares.values()) > 0
        assert shares[found["bottleneck"]] == max(shares.values())


# Comparing and promoting


def test_matchup_tells_record_and_difference(call: Call, copied: Path) -> None:
    """Seen from B everything is exchanged; games that were played before count once."""
    pair = ("matrix-1", "matrix-1@0")
    for _ in range(2):
        call("evaluate", pair[0], "--against", pair[1], "--games", "30")
    m, back = (call("matchup", *way, "--json").json for way in (pair, pair[::-1]))
    assert 30 <= m["record"]["games"] < 60 and m["record"]["games"] == m["seat0"]["games"] + m["seat1"]["games"]
    assert (m["record"]["wins"], m["seat0"]["losses"]) == (back["record"]["losses"], back["seat1"]["wins"])
    assert m["difference"]["mean"] == pytest.approx(-back["difference"]["mean"])
    assert m["superiority"] == pytest.approx(1 - back["superiority"])
    assert (m["z"], m["unit"], m["predicted"]) == (None, "payoff", None), "nobody else links the two"
    for agent in pair:
        call("evaluate", agent, "--against", "bot:random", "--games", "30")
    m, back = (call("matchup", *way, "--json").json for way in (pair, pair[::-1]))
    assert m["z"] == pytest.approx(-back["z"])
    shown = call("matchup", *pair).out
    assert "likelihood that matrix-1@512 is the stronger" in shown and "surprise: their own score is" in shown


EASY, HARD = ("--payoff0", "-6", "--payoff1", "-2"), ("--payoff0", "2", "--payoff1", "6")
"""Hypotheses under which agents of about one strength pass or fail within some tens of games."""


def test_gate_promotes_fails_and_leaves_undecided(call: Call, copied: Path) -> None:
    """The exit code is the decision, games are stored in pairs, a pass takes the title, and attempts spend alpha."""
    failed = call("gate", "matrix-1", *HARD, "--json")
    assert (failed.code, failed.json["decision"], failed.json["is_promoted"]) == (3, "failed", False)
    assert (failed.json["champion"], failed.json["attempt"]) == ("matrix-1", 1)
    assert failed.json["test"]["alpha"] == pytest.approx(0.025)
    undecided = call("gate", "matrix-1", "--max-games", "6", "--json")
    assert (undecided.code, undecided.json["games"], undecided.json["attempt"]) == (4, 6, 2)
    best = call("export", "matrix-1@best", "before", "--json").json["step"]
    step = 128 if best != 128 else 256
    other = f"matrix-1@{step}"
    passed = call("gate", other, *EASY)
    assert passed.code == 0 and f"promoted: matrix-1@best is {other}" in passed.out
    assert f"alpha {0.05 / 12:.3g}" in passed.out and "(champion)" in call("leaderboard").out
    assert call("export", "matrix-1@best", "after", "--json").json["step"] == step
    sql = "SELECT run, seed, count(*), count(DISTINCT seat0_agent) FROM match WHERE run LIKE 'gate-%' GROUP BY ALL"
    rows = call("query", sql, "--json").json["rows"]
    assert {tuple(row[2:]) for row in rows} == {(2, 2)} and len({seed for _, seed, *_ in rows}) == len(rows), "fresh"
    need_refusal(call("gate", other), 2, f"{other} is the champion of matrix-1", "league gate A B")
    newest = call("gate", "matrix-1", *EASY, "--json").json
    assert (newest["b"], newest["attempt"], newest["is_promoted"]) == (other, 1, True)


def test_gate_between_others_promotes_nobody(call: Call, copied: Path) -> None:
    """Bots, and snapshots that meet somebody else than the champion, are tested with the whole alpha and stay."""
    bots = call("gate", "bot:biased", "bot:random", "--env", "matrix", *EASY, "--json").json
    assert (bots["champion"], bots["is_promoted"], bots["test"]["alpha"]) == (None, False, 0.05)
    weaker = call("gate", "bot:biased", "bot:random", "--env", "matrix", *EASY)
    assert weaker.out.startswith("bot:biased is at most 6 of payoff weaker than bot:random"), weaker.out
    other = call("gate", "matrix-1@0", "matrix-1@128", *EASY, "--json").json
    assert (other["champion"], other["is_promoted"]) == (None, False)
    alone = copied / "alone"
    alone.mkdir()
    away = call("gate", "bot:biased", "bot:random", "--env", "matrix", *EASY, "--json", cwd=alone)
    assert away.json["gate"] is None and away.json["pairs"] == bots["pairs"] and not list(alone.iterdir())


def test_tournament_lets_a_run_meet_and_is_rated(call: Call, copied: Path) -> None:
    """All snapshots of a run and all bots meet; the standings are the leaderboard's; wanted differences are named."""
    called = call("tournament", "--run", "matrix-1", "--bots", "--games", "2", "--json")
    result, entrants = called.json, {f"matrix-1@{step}" for step in range(0, 513, 128)}
    entrants |= {"bot:constant", "bot:random", "bot:biased"}
    assert {s["name"] for s in result["standings"]} == entrants
    assert result["games"] == len(entrants) * (len(entrants) - 1) and result["ended"] == "complete"
    assert f"{result['games']} of {result['games']} games" in called.err
    entries = call("leaderboard", "--run", "matrix-1", "--json").json["boards"][0]["entries"]
    assert [s["name"] for s in result["standings"]] == [e["name"] for e in entries]
    assert [s["rating"] for s in result["standings"]] == pytest.approx([e["rating"] for e in entries])
    newest = call("tournament", "matrix-1", "--run", "matrix-1", "--newest", "2", "--games", "2").out
    assert "matrix-1@512" in newest and "matrix-1@0" not in newest and "stored as tournament-" in newest
    adaptive = ["tournament", "matrix-1", "matrix-1@0", "bot:random", "--format", "adaptive", "--max-games", "12"]
    assert "12 games, greedy" in call(*adaptive, "--want", "order", "--greedy").out
    [wanted] = call(*adaptive, "--between", "matrix-1", "bot:random", "--json").json["wanted"]
    assert (wanted["a"], wanted["b"]) == ("matrix-1@512", "bot:random")
    assert wanted["difference"]["lower"] < wanted["difference"]["mean"] < wanted["difference"]["upper"]


def test_little_or_nothing_in_the_store_is_said(call: Call, here: Path) -> None:
    """A store without runs, and a run whose agent has met nobody, get a clear line from each command, and no table."""
    store = keeping_store(here / "runs")
    for command, line in {"leaderboard": "no matches", "payoff": "no matches", "alarms": "no runs"}.items():
        called = call(command)
        assert (called.code, called.out) == (0, "") and f"{line} yet" in called.err, command
    for words in ("matchup matrix-1 bot:based", "tournament matrix-1 bot:random", "tournament --run matrix-1"):
        need_refusal(call(*words.split()), 2, "matrix-1", "known: none")
    need_refusal(call("tournament"), 2, "--bots")
    need_refusal(call("alarms", "matrix-1"), 2, "matrix-1", "known: none")
    store.begin_run(RunRow("matrix-1", "matrix", "g", "f", 1, "smoke", "{}"))
    store.add_snapshot(SnapshotRow("net-0", "matrix-1", 0, 0, "matrix-1/snapshots/0", "f"))
    store.flush(force=True)
    board = call("leaderboard")
    assert "no evaluation matches yet" in board.err and "rating" not in board.out and "matrix-1" in board.out
    assert "no two agents have met" in call("payoff").err and call("alarms").out.count("not known, ") == 4
    need_refusal(call("matchup", "matrix-1", "bot:based"), 2, "league evaluate")


def test_matches_go_out_and_come_in(call: Call, copied: Path) -> None:
    """A store's matches go to a file and into a new store; outside agents join the board."""
    written = call("matches", "m.csv", "--json").json
    assert written["file"] == "m.csv" and written["matches"] > 0
    done = call("import", "m.csv", "--store", "new", "--json").json
    assert (done["imported"], done["skipped"]) == (written["matches"], {})
    need_refusal(call("import", "m.csv", "--store", "new"), 2, "m.csv", done["run"])
    need_refusal(call("import", "m.csv"), 2, "m.csv", "already")
    game = '[White "{}"]\n[Black "{}"]\n[Result "{}"]\n\n'
    (copied / "n.pgn").write_text(game.format("bot:random", "[red]friend", "0-1") + game.format("a", "b", "*"))
    need_refusal(call("import", "n.pgn", "--game", "matrix"), 2, "game=matrix", "--game-id")
    game_id = call("runs", "--json").json["runs"][0]["game_id"]
    shown = call("import", "n.pgn", "--game-id", game_id, "--run", "friends").out
    assert "1 of 2 games are in runs as friends" in shown and "new agents: bot:random, [red]friend\n" in shown
    board = call("leaderboard", "--json").json["boards"]
    (friend,) = [e for b in board for e in b["entries"] if e["name"] == "[red]friend"]
    assert (friend["kind"], friend["wins"], friend["games"]) == ("import", 1, 1)


# The commands


@pytest.mark.parametrize("name", sorted(commands()))
def test_every_command_has_help_json_and_quiet(name: str) -> None:
    """So do its parameters; --json is everywhere, --store and --quiet where a store is; the page shows the command."""
    command = commands()[name]
    options = {option for parameter in command.params for option in parameter.opts}
    assert command.help and "--json" in options
    if not name.startswith("bench "):
        assert ({"--quiet"} if name in ("check", "selftest", "tune") else {"--store", "--quiet"}) <= options
    for parameter in command.params:
        assert parameter.name == "help" or getattr(parameter, "help", None), parameter.name
    assert f"league {name}" in (ROOT / "docs" / "reference" / "commands.md").read_text(encoding="utf-8")


# What bad input gets

REFUSED = [
    ("train --set learner.gama=0.9", "learner.gama did you mean `gamma`?"),
    ("train --set env.round=3", "env.round=3 `rounds`"),
    ("train --set env.rows=many", "env.rows many integer --set env.rows=VALUE"),
    ("train --agent smal", "agent='smal' `small`"),
    ("train --env matrx", "env.name `matrix`"),
    ("train --device gpu", "learner.device 'cuda'"),
    ("train --set 'pool.mix={self_play=0.5, \"bot:based\"=0.5}'", "pool.mix.bot:based=0.5 `bot:biased`"),
    (
        'train --set "pool.groups.some=[\'bot:based\']" --set "pool.mix={self_play=0.5, some=0.5}"',
        "pool.groups.some bot:based `bot:biased`",
    ),
    ("train --config a.toml --config b.toml", "--config 2 times keep one"),
    ("exploit bot:nash", "bot:nash kuhn --env kuhn"),
    ("train --log tensorbord", "`tensorboard`"),
    ("exploit bot:biased --log tensorbord", "`tensorboard`"),
    ("train --config none.toml", "--config none.toml"),
    *((f"train --run '{name}'", f"run='{name}' --run") for name in ("a/b", "..", "")),
    *((f"{line} --seed {seed}", f"seed={seed} 2^63") for line in ("train", "evaluate A B") for seed in (-1, 2**63)),
    ("train --run matrix-1", "run=matrix-1 already --run"),
    ("train --run league.duckdb", "run=league.duckdb --run"),
    ("evaluate matrx-1 B", "'matrx-1' `matrix-1`"),
    ("evaluate matrix-1@7 B", "'matrix-1@7' no snapshot at step 7"),
    ("evaluate matrix-1@ B", "'matrix-1@' best"),
    ("evaluate '' B", "'' known: matrix-1, other"),
    (f"evaluate {LONG} B", "known: matrix-1"),
    ("evaluate bot:randm B", "'bot:randm' `random`"),
    ("evaluate matrix-1@0 B", "matrix-1@0 same agent"),
    ("evaluate other B", "different games"),
    ("evaluate A B --games 7", "games=7 even 8"),
    ("evaluate A B --device gpu", "gpu cpu"),
    ("evaluate A B --env brawl", "env=brawl matrix"),
    ("matchup A matrix-1@512", "same agent"),
    ("matchup A other", "league evaluate"),
    ("matchup A bot:none", "bot:none league evaluate"),
    ("matchup A bot:random --greedy", "sampling=greedy"),
    ("leaderboard --against bot:none", "against=bot:none league evaluate"),
    ("gate A matrix-1@512", "same agent"),
    ("gate bot:random", "'bot:random' league gate A B"),
    ("gate A other", "different games"),
    ("gate A --max-games 7", "max_games=7 even 8"),
    ("gate A --payoff0 3 --payoff1 3", "payoff0=3, payoff1=3"),
    ("gate A --elo0 35", "elo0=35 --payoff0, --payoff1"),
    ("gate A --elo-model bayes", "elo_model=bayes --payoff0"),
    ("snapshots list --run matrix-2", "`matrix-2` `matrix-1`"),
    ("snapshots prune --keep 0", "keep=0"),
    ("payoff --png table.jpg", "table.jpg .png"),
    ("rewards matrx-1", "`matrx-1` `matrix-1`"),
    ("rewards matrix-1 --last 0", "last=0 --last"),
    ("settings matrix-1 --set learner.clip=0.1", "set= matrix-1 leave"),
    ("settings matrix-1 --run other", "run='other' matrix-1 leave"),
    ("watch A bot:random --against bot:biased --out m.html", "against='bot:biased' bot:random leave"),
    ("watch A bot:random --kept --seed 9 --out m.html", "seed=9 leave"),
    ("watch A bot:random --out m.replay --seconds 2", "seconds=2.0 .replay leave"),
    ("export bot:random out", "bot:random"),
    ("export none out", "none"),
    ("export matrix-1 out --format tflite", "format='tflite' folder, onnx, torch, submission"),
    ("export matrix-1 out --format torch --quantize int8", "quantize=int8 format=torch --format onnx"),
    ("export matrix-1 out --format onnx --quantize int4", "quantize='int4' int8"),
    ("export matrix-1 out.zip", "out.zip --format submission"),
    ("resume none", "none"),
    ("resume matrix-1", "run=matrix-1 512 `league resume matrix-1 --steps 1024`"),
    ("bench env --env brwl", "env.name `brawl`"),
    ("bench env --env matrix --rows 0", "rows=0 --rows"),
    ("bench env --env matrix --threads -1", "threads=-1 --threads"),
    ("bench env --env matrix --seconds nan", "seconds=NaN --seconds"),
    ("bench learner --preset fats", "--preset `fast`"),
    ("bench learner --repeats 0", "repeats=0 --repeats"),
    ("bench learner --threads -2", "threads=-2 --threads"),
    ("bench ratings --agents 1", "agents=1 --agents"),
    ("bench ratings --matches 0", "matches=0 --matches"),
    ("query 'DROP TABLE run'", "query"),
    ("query 'SELECT 1' --format xls", "csv, jsonl, md, table"),
    ("query 'SELECT 1' --format csv --json", "pass only one"),
    ("play bot:random --env matrix --name bot:x", "--name"),
    ("query 'SELECT nothing FROM match'", "query"),
    (f"leaderboard --store {LONG}", f"too long {LONG}"),
    (f"train --store {LONG}/x", f"too long {LONG}"),
    (f"train --league {LONG}", f"too long {LONG}"),
    (f"import {LONG}.csv", f"too long {LONG}"),
    (f"watch bot:based --against bot:random --out {LONG}.gif", f"too long {LONG}"),
    (f"payoff --png {LONG}.png", f"too long {LONG}"),
    (f"export matrix-1 {LONG}", f"too long {LONG}"),
    ("--nothing", "see `league --help`"),
    ("train --nothing", "see `league train --help`"),
    ("evaluate a", "see `league evaluate --help`"),
    ("fly", "see `league --help`"),
    ("train --set", "see `league train --help`"),
]
"""A call and what its line has: the setting, its value, the next step. A is a run, B `--against` an agent of it."""


@pytest.mark.parametrize(("line", "words"), REFUSED)
def test_what_cannot_be_is_one_line(line: str, words: str, call: Call, unchanged: Path) -> None:
    """Exit code 2, and nothing is stored or made."""
    line = line.replace(" A", " matrix-1").replace(" B", " --against matrix-1@0")
    arguments = shlex.split(line)
    if arguments[0] == "train" and "--nothing" not in arguments:
        pairs = zip(TRAIN[1::2], TRAIN[2::2], strict=True)
        given = (pair for pair in pairs if pair[0] == "--set" or pair[0] not in arguments)
        arguments[1:1] = itertools.chain.from_iterable(given)
    said = need_refusal(call(*arguments), 2)
    assert [word for word in words.split() if word not in said] == [], said


@pytest.mark.parametrize("file", ["none.json", "x.json"])
def test_what_cannot_be_replayed_is_refused(file: str, call: Call, here: Path) -> None:
    (here / "x.json").write_text("{}")
    need_refusal(call("replay", file), 1, file)


STORE_COMMANDS = [
    *("train", "resume matrix-1", "leaderboard", "payoff", "evaluate matrix-1 --against bot:random", "runs"),
    *("export matrix-1 out", "rewards matrix-1", "query VALUES(1)", "matchup matrix-1 bot:random", "gate matrix-1"),
    *("snapshots list", "snapshots prune", "tournament --run matrix-1", "alarms"),
]


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        *itertools.product(STORE_COMMANDS, ("duckdb", "missing")),
        *(("runs", kind) for kind in ("text", "empty", "folder")),
    ],
)
def test_a_store_that_is_none_is_refused(line: str, kind: str, call: Call, here: Path) -> None:
    """A text file, an empty one, a folder or a DuckDB file is named and left as it is; one that is absent stays so."""
    path = here / "some.db"
    if kind == "folder":
        path.mkdir()
    elif kind == "duckdb":
        with duckdb.connect(path) as con:
            con.execute("CREATE TABLE precious AS SELECT 42 AS x")
    elif kind != "missing":
        path.write_text("hello\n" * 1000 if kind == "text" else "")
    elif line == "train":
        return
    before = files_of(here)
    words = TRAIN if line == "train" else line.split()
    need_refusal(call(*words, "--store", "some.db"), 1, "some.db", "--store")
    assert files_of(here) == before and path.exists() == (kind != "missing")


@pytest.mark.parametrize("kind", ["truncated", "flipped byte", "no weights", "bad manifest", "no folder"])
def test_a_damaged_snapshot_is_refused(kind: str, call: Call, copied: Path) -> None:
    """Evaluate and export name the file and leave everything as it is, for a run's name and for a path."""
    folder = copied / "runs" / "matrix-1" / "snapshots" / "0000000512"
    weights, manifest = folder / "weights.safetensors", folder / "manifest.json"
    data = weights.read_bytes()
    if kind == "no folder":
        shutil.rmtree(folder)
    elif kind == "no weights":
        weights.unlink()
    elif kind == "bad manifest":
        manifest.write_text(manifest.read_text()[:-40])
    else:
        weights.write_bytes(data[: len(data) // 2] if kind == "truncated" else data[:-9] + b"?" + data[-8:])
    before = files_of(copied)
    for name in ("matrix-1@512", "./runs/matrix-1/snapshots/0000000512"):
        need_refusal(call("evaluate", name, "--against", "bot:random"), 1, "0000000512")
        need_refusal(call("export", name, "out"), 1, "0000000512")
    assert files_of(copied) == before


def test_an_agent_of_another_version_of_the_game_is_refused(call: Call, copied: Path) -> None:
    """Another game id is refused by the field that differs; metrics need not agree to play."""
    assert call("export", "matrix-1", "out").code == 0
    path = copied / "out" / "manifest.json"
    data: dict[str, Any] = json.loads(path.read_text())
    data["spec"]["metrics"] = ["x"]
    play = ("evaluate", "./out", "--against", "bot:random", "--games", "2")
    path.write_text(json.dumps(data))
    assert call(*play).code == 0
    data["game"]["game_id"] = "0" * 16
    path.write_text(json.dumps(data))
    before = files_of(copied)
    need_refusal(call(*play), 2, "matrix-1@512", f"game_id was '{'0' * 16}'")
    assert files_of(copied) == before


@pytest.mark.parametrize("kind", ["file", "folder", "other agent", "link"])
def test_an_export_overwrites_nothing(kind: str, call: Call, copied: Path) -> None:
    out = copied / "out"
    if kind == "file":
        out.write_text("mine")
    elif kind == "folder":
        out.mkdir()
        (out / "mine.txt").write_text("mine")
    elif kind == "link":
        out.symlink_to(copied / "nowhere")
    else:
        assert call("export", "matrix-1@0", "out").code == 0
    before = files_of(copied)
    need_refusal(call("export", "matrix-1@512", "out"), 1, "out")
    assert files_of(copied) == before and out.is_symlink() == (kind == "link")


# Slow


DUO = """
turn_steps = 256
config.pool = { snapshot_every = 128, snapshot_every_after = 128 }
learners.main.role = "main"
learners.rival.role = "league_exploiter"
"""


@pytest.mark.slow
def test_what_is_set_for_a_role_is_the_leagues_for_good(call: Call, here: Path) -> None:
    """It acts in the process that begins and in the one that resumes; another figure is another league."""
    (here / "duo.toml").write_text(DUO)
    stays = ["--set", "role.league_exploiter.min_steps=128", "--set", "role.league_exploiter.max_steps=256"]
    train = [*TRAIN, "--league", "duo.toml", "--run", "L"]
    assert call(*train, *stays, "--learner", "main", "--quiet").code == 0
    need_refusal(call(*train), 2, "L.main")
    need_refusal(call("resume", "L", "--set", "role.main.min_games=9"), 2, "role.main.min_games")
    assert call("resume", "L", "--quiet").code == 0
    columns = "SELECT step FROM snapshot WHERE run = 'L.rival' AND is_historical AND step > 0 ORDER BY step"
    assert call("query", columns, "--json").json["rows"] == [[256], [512]]
    alone = call(*TRAIN, *stays, "--quiet")
    need_refusal(alone, 2, "--set role.league_exploiter.min_steps=128", "--league")
