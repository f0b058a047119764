"""The command line: the whole path on the matrix game, and what bad input gets."""

import hashlib
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pytest
import typer

from league import config
from league.cli import app, main
from league.config.written import as_words
from league.envs import registry
from league.errors import StoreError
from league.sessions.settling import words_for
from league.snapshots import Agent
from league.store.folder import Folder
from league.store.rows import RunRow, SnapshotRow
from league.store.store import Store
from tests.helpers import processes
from tests.helpers.cases import cases
from tests.helpers.sizes import SMALL, as_options
from tests.helpers.stores import Filled, keeping_store

ROOT = Path(__file__).resolve().parent.parent
TINY = [*("--env", "matrix", "--device", "cpu"), *as_options([*SMALL, "pool.snapshot_every=128"])]
TRAIN = ["train", "--stage", "smoke", *TINY, "--set", "run.total_steps=512"]


LONG = "é" * 200
"""400 bytes; file systems take 255."""


@dataclass(frozen=True)
class Called:
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """stdout as the one JSON document that it must be, without NaN or infinity."""
        found = json.loads(self.out, parse_constant=lambda name: pytest.fail(f"{name} in JSON"))
        assert found["schema"] == 1
        return found


Call = Callable[..., Called]


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    """Runs `league ARGUMENTS` in this process, in `cwd` if given."""

    def run(*arguments: str, cwd: Path | None = None) -> Called:
        if cwd is not None:
            monkeypatch.chdir(cwd)
        monkeypatch.setattr(sys, "argv", ["league", *arguments])
        capsys.readouterr()
        code = 0
        try:
            main()
        except SystemExit as exit_:
            code = int(exit_.code or 0)
        out, err = capsys.readouterr()
        return Called(code, out, err)

    return run


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a finished run `matrix-1` and one of another game, `other`; nobody may change it."""
    folder = tmp_path_factory.mktemp("trained")
    patch = pytest.MonkeyPatch()
    with patch.context() as p:
        p.chdir(folder)
        for arguments in ([], ["--run", "other", "--set", "env.rounds=7", "--set", "run.total_steps=128"]):
            p.setattr(sys, "argv", ["league", *TRAIN, "--quiet", *arguments])
            with pytest.raises(SystemExit) as exit_:
                main()
            assert not exit_.value.code
    return folder


@pytest.fixture
def unchanged(trained: Path) -> Iterator[Path]:
    """`trained`, which must be the same afterwards."""
    before = files_below(trained)
    yield trained
    assert files_below(trained) == before


@pytest.fixture
def copied(trained: Path, tmp_path: Path) -> Path:
    """A copy of `trained` to change."""
    shutil.copytree(trained / "runs", tmp_path / "runs")
    return tmp_path


def files_below(folder: Path) -> dict[str, bytes | None]:
    """Everything below `folder`: files with their content, folders with None."""
    return {str(p.relative_to(folder)): p.read_bytes() if p.is_file() else None for p in folder.rglob("*")}


def commands() -> dict[str, Any]:
    """Every command by its words, such as `bench env`."""

    def walk(command: Any, words: str) -> Iterator[tuple[str, Any]]:
        for name, sub in getattr(command, "commands", {}).items():
            yield from walk(sub, f"{words} {name}".strip())
        if not hasattr(command, "commands"):
            yield words, command

    return dict(walk(typer.main.get_command(app), ""))


def need_refusal(called: Called, code: int, *words: str) -> None:
    """Nothing on stdout, one line on stderr that starts with `error: ` and has all `words`, and the exit code."""
    lines = [line for line in called.err.splitlines() if not line.startswith(("run ", "playing ", "starting "))]
    assert len(lines) == 1 and lines[0].startswith("error: "), called.err
    assert called.out == "" and called.code == code, called
    for word in words:
        assert word in lines[0], f"{word!r} is not in {lines[0]!r}"


# The whole path


def test_train_tells_on_stderr_and_prints_one_document(call: Call, tmp_path: Path) -> None:
    """`train --json` prints where the run stands; what it says on the way, the next step too, is on stderr."""
    called = call(*TRAIN, "--json", cwd=tmp_path)
    assert called.code == 0
    assert called.json == called.json | {"run": "matrix-1", "steps": 512, "updates": 4, "status": "finished"}
    assert len(called.json["newest"]) == 64
    assert "run matrix-1: 512 steps, preset fast, seed 0, on cpu" in called.err
    assert "at 512 against matrix-1@0: payoff" in called.err
    assert "next: league leaderboard --run matrix-1" in called.err
    again = call(*TRAIN, "--quiet", cwd=tmp_path)
    assert (again.code, again.out, again.err) == (0, "", "")
    assert (tmp_path / "runs" / "matrix-2" / "snapshots").is_dir(), "the next free name is taken"


def test_verbosity_is_a_setting(call: Call, tmp_path: Path) -> None:
    """run.verbosity=0 writes errors alone, as --quiet does, 2 gives every update a line."""
    silent = call(*TRAIN, "--set", "run.verbosity=0", cwd=tmp_path)
    assert (silent.code, silent.out, silent.err) == (0, "", "")
    chatty = call(*TRAIN, "--set", "run.verbosity=2", cwd=tmp_path)
    assert chatty.err.count(" of 512, ") == 4
    assert re.search(r"won +.*biased \d+%.*\nlearning  entropy 1\.\d\d, KL -?0\.\d{4}, clipped \d+%", chatty.err)


def test_an_agents_size_is_short_for_its_settings(call: Call, tmp_path: Path) -> None:
    """It lies above the game's own and a file, below --set; a run says by its name how it goes on."""
    (tmp_path / "own.toml").write_text("[agent]\nlstm_size = 8\n", encoding="utf-8")
    given = ("--agent", "small", "--config", "own.toml")
    found = call("settings", *given, "--set", "agent.observation_width=32", "--json", cwd=tmp_path).json["agent"]
    small = config.agents()["small"]["agent"]
    assert found == found | small | {"observation_width": 32} and small["lstm_size"] != 8
    need_refusal(call("train", "--agent", "smal", cwd=tmp_path), 2, "agent='smal'", "did you mean `small`?")
    loaded = config.load(overrides=as_words({"learner": {"gamma": 0.9}}, "small"))
    assert words_for(loaded, "10m", "fast") == ["--agent", "small", "--set", "learner.gamma=0.9"]


def test_settings_are_a_file_that_config_takes(call: Call, copied: Path) -> None:
    """Printed, read and printed again they are the same, with schedules; a run's are those that it was begun with."""
    sets = ["--set", "learner.clip={0=0.2, 500_000=0.1}", "--set", "env.curriculum=[{from=0, options={rounds=3}}]"]
    shown = call("settings", "--env", "matrix", "--explain", *sets, cwd=copied)
    assert "# PPO's clip range of the probability ratio." in shown.out and 'target_kl = "off"' in shown.out
    assert re.search(
        r"clip = \{ 0 = 0\.2, 500_000 = 0\.1 \}\n# 0\.2 █[▁-█]+▁ 0\.1 at step 500,000 and later", shown.out
    )
    (copied / "it.toml").write_text(shown.out, encoding="utf-8")
    assert call("settings", "--config", "it.toml", "--explain", cwd=copied).out == shown.out
    found = call("settings", "--config", "it.toml", "--json", cwd=copied).json
    assert found["learner"]["clip"] == {"0": 0.2, "500000": 0.1} and found["env"]["options"]["rounds"] == 10
    stored = call("runs", "--json", cwd=copied).json["runs"][0]
    assert call("settings", stored["run"], "--json", cwd=copied).json == {"schema": 1, **stored["config"]}
    need_refusal(call("settings", stored["run"], *sets, cwd=copied), 2, "leave out --set")


def test_leaderboard_shows_ratings_with_intervals(call: Call, copied: Path) -> None:
    """The table and the JSON say the same of everyone: payoff inside its interval, games that add up."""
    shown = call("leaderboard", "--run", "matrix-1", cwd=copied)
    data = call("leaderboard", "--run", "matrix-1", "--json", cwd=copied).json
    entries = data["boards"][0]["entries"]
    assert data["boards"][0]["unit"] == "payoff"
    assert {e["name"] for e in entries} == {"matrix-1@0", "matrix-1@512", "bot:constant", "bot:random", "bot:biased"}
    for entry in entries:
        assert entry["lower"] < entry["rating"] < entry["upper"]
        assert entry["wins"] + entry["draws"] + entry["losses"] == entry["games"]
        rating = f"{entry['rating']:+.3f} [{entry['lower']:+.3f}, {entry['upper']:+.3f}]"
        assert re.search(rf"{entry['name']}(?: \(best\))? +{re.escape(rating)} ", shown.out)
    assert len(call("leaderboard", "--json", cwd=copied).json["boards"]) == 2, "one board a game"


def test_equal_agents_of_two_runs_keep_the_first_ones_name(call: Call, copied: Path) -> None:
    """A second run with the same seed has the same weights, which stay the first run's on the whole leaderboard."""
    assert call(*TRAIN, "--quiet", "--run", "twin", cwd=copied).code == 0
    whole, own = (
        {e["name"] for b in call("leaderboard", "--json", *more).json["boards"] for e in b["entries"]}
        for more in ([], ["--run", "twin"])
    )
    assert {"matrix-1@0", "matrix-1@512"} < whole and not {name for name in whole if name.startswith("twin")}
    assert {"twin@0", "twin@512"} < own


def test_a_store_that_fails_at_the_start_leaves_no_folder(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the run cannot be written down, the folder that was made for it goes again."""

    def fail(self: Folder, identity: object, configured: object = None) -> None:
        raise StoreError("no room; try again")

    monkeypatch.setattr(Folder, "begin", fail)
    assert call(*TRAIN, cwd=tmp_path).code == 1
    assert list((tmp_path / "runs").iterdir()) == []


def test_evaluate_swaps_seats_in_pairs_and_is_stored(call: Call, copied: Path) -> None:
    """Each seed stands twice, the counts add up, the matches are on the leaderboard, snapshots stay snapshots."""
    data = call("evaluate", "matrix-1", "--against", "matrix-1@0", "--games", "70", "--json", cwd=copied).json
    seeds, summary = data["seeds"], data["summary"]
    assert len(seeds) == 70 and {seeds.count(seed) for seed in seeds} == {2}
    assert summary["wins"] + summary["draws"] + summary["losses"] == summary["games"] == 70
    assert summary["lower"] <= summary["score"] <= summary["upper"]
    assert (data["a"], data["b"]) == ("matrix-1@512", "matrix-1@0")
    boards = call("leaderboard", "--json", cwd=copied).json["boards"]
    entries = {e["name"]: e for b in boards for e in b["entries"]}
    assert entries["matrix-1@0"]["games"] == 72 and entries["matrix-1@0"]["kind"] == "snapshot"
    again = call("evaluate", "matrix-1", "--against", "matrix-1@0", "--games", "70", "--json", cwd=copied).json
    assert again["seeds"] == seeds and again["summary"] == summary and again["run"] != data["run"]
    shown = call("evaluate", "matrix-1@best", "--against", "bot:random", "--games", "2", "--greedy", cwd=copied).out
    assert "against bot:random: payoff" in shown and "stored as evaluation-" in shown


def test_an_export_plays_without_a_store(call: Call, copied: Path, tmp_path: Path) -> None:
    """An exported folder is an agent of its own name, in a place without a store too; nothing is stored there then."""
    called = call("export", "matrix-1", "out/best", "--json", cwd=copied)
    assert called.json["path"] == "out/best" and called.json["run"] == "matrix-1"
    assert sorted(path.name for path in (copied / "out" / "best").iterdir()) == ["manifest.json", "weights.safetensors"]
    assert "is in out/again" in call("export", "matrix-1@0", "out/again", cwd=copied).out
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    shown = call("evaluate", "../out/best", "--against", "../out/again", "--games", "2", cwd=elsewhere)
    assert shown.code == 0 and "not stored: no store at runs" in shown.out
    assert list(elsewhere.iterdir()) == []


def test_a_run_goes_before_a_folder_of_its_name(call: Call, copied: Path) -> None:
    """Inside runs/ a run's name is the run, not the folder beside the store; ./NAME is the folder."""
    store = ["--store", ".", "--games", "2", "--against", "bot:random"]
    assert call("evaluate", "matrix-1", *store, cwd=copied / "runs").code == 0
    need_refusal(call("evaluate", "./matrix-1", *store), 1, "manifest.json")


def test_runs_and_query_print_tables_and_json(call: Call, unchanged: Path) -> None:
    """Both show the store's rows; the config of a run is JSON in JSON."""
    assert "matrix-1" in call("runs", cwd=unchanged).out
    runs = {row["run"]: row for row in call("runs", "--json", cwd=unchanged).json["runs"]}
    assert runs["matrix-1"]["config"]["env"]["rows"] == 8 and runs["other"]["steps"] == 128
    sql = "SELECT kind, count(*) AS n FROM match GROUP BY ALL ORDER BY ALL"
    data = call("query", sql, "--json", cwd=unchanged).json
    assert data["columns"] == ["kind", "n"] and [row[0] for row in data["rows"]] == ["evaluation", "training"]
    assert "evaluation" in call("query", sql, cwd=unchanged).out


def test_snapshots_are_listed_and_pruned(call: Call, copied: Path) -> None:
    """The list says what each snapshot is; a dry run what would go, which then goes, and nothing more after that."""
    listed = call("snapshots", "list", "--run", "matrix-1", cwd=copied)
    assert "matrix-1@512" in listed.out and "kept: " in listed.out and "other@" not in listed.out
    listed_rows = call("snapshots", "list", "--json", cwd=copied).json["snapshots"]
    found = {row["step"]: row for row in listed_rows if row["run"] != "other"}
    assert list(found) == [0, 128, 256, 384, 512] and found[128]["parent"] == found[0]["agent_id"]
    folders = {step: copied / f"runs/matrix-1/snapshots/{step:010d}" for step in found}
    assert found[384]["num_bytes"] == sum(file.stat().st_size for file in folders[384].iterdir())
    games = "SELECT count(*) FROM match WHERE '{}' IN (seat0_agent, seat1_agent)"
    asked = call("query", games.format(found[384]["agent_id"]), "--json", cwd=copied).json["rows"]
    assert asked == [[found[384]["games"]]]
    assert sum(row["is_best"] for row in found.values()) == 1
    nothing = call("snapshots", "prune", cwd=copied)
    assert nothing.code == 0 and "nothing to prune" in nothing.err
    assert (
        call(
            "train", "--stage", "smoke", *TINY, "--set", "run.total_steps=1536", "--run", "long", "--quiet", cwd=copied
        ).code
        == 0
    )
    prune = ("snapshots", "prune", "long", "--keep", "1")
    dry = call(*prune, "--dry-run", cwd=copied)
    assert "would be pruned" in dry.out and "would be pruned" in dry.err
    (done,) = call(*prune, "--json", cwd=copied).json["runs"]
    gone = [row["step"] for row in done["goes"]]
    assert gone and len(gone) == dry.out.count("would be pruned")
    assert "nothing to prune" in call(*prune, cwd=copied).err
    assert call("snapshots", "list", "--run", "long", cwd=copied).out.count("pruned on 2") == len(gone)
    played = call("evaluate", f"long@{gone[0]}", "--against", "bot:random", cwd=copied)
    need_refusal(played, 2, f"the files of long@{gone[0]} were pruned", "league snapshots list --run long")


@pytest.mark.parametrize("command", ["list", "prune"])
def test_snapshots_of_no_run_are_refused(command: str, call: Call, unchanged: Path) -> None:
    """A run that is not there is named, with the nearest that is; so is a number of snapshots that cannot be."""
    words = ["--run", "matrix-2"] if command == "list" else ["matrix-2"]
    need_refusal(call("snapshots", command, *words, cwd=unchanged), 2, "no run `matrix-2`", "did you mean `matrix-1`")
    need_refusal(call("snapshots", "prune", "--keep", "0", cwd=unchanged), 2, "keep=0", "at least 1")


def test_payoff_prints_the_table_and_draws_it(call: Call, unchanged: Path, tmp_path: Path) -> None:
    """Text and JSON agree, an unknown cell is `?` and null, and the picture is a new PNG."""
    file = tmp_path / "table.png"
    shown = call("payoff", "--run", "matrix-1", "--png", str(file), cwd=unchanged)
    (table,) = call("payoff", "--run", "matrix-1", "--json", cwd=unchanged).json["tables"]
    assert shown.code == 0 and file.read_bytes().startswith(b"\x89PNG") and "table.png" in shown.err
    names = [row["name"] for row in table["rows"]]
    assert set(names) >= {"matrix-1@0", "bot:random", "bot:biased"} and all(name in shown.out for name in names)
    i, j = names.index("bot:random"), names.index("bot:biased")
    assert table["score"][i][j] is None and table["games"][i][j] == 0 and "?" in shown.out
    assert f"{table['num_unmet']} of" in shown.out and sum(row["nash"] for row in table["rows"]) == pytest.approx(1.0)
    need_refusal(call("payoff", "--png", str(file), cwd=unchanged), 2, "table.png", "there already", "--png")
    need_refusal(call("payoff", "--png", "table.jpg", cwd=unchanged), 2, "table.jpg", ".png")
    need_refusal(call("payoff", "--run", "matrix-9", cwd=unchanged), 2, "matrix-9", "did you mean `matrix-1`?")


def test_rewards_shows_each_term_plain_and_weighted(call: Call, unchanged: Path) -> None:
    """The table and the JSON hold the means of the stored matches, the learner's own; --last takes the newest."""
    data = call("rewards", "matrix-1", "--json", cwd=unchanged).json["terms"]
    assert [term["term"] for term in data] == ["payoff", "win"]
    assert (data[0]["weight"], data[1]["weight"]) == (1.0, 0.0)
    sql = (
        "SELECT avg(rewards['payoff'][if(seat0_agent = run, 1, 2)]), count(*) FROM match"
        " WHERE run = 'matrix-1' AND kind = 'training'"
    )
    mean, matches = call("query", sql, "--json", cwd=unchanged).json["rows"][0]
    assert data[0]["own"] == data[0]["weighted"] == pytest.approx(mean) and data[0]["matches"] == matches
    shown = call("rewards", "matrix-1", cwd=unchanged).out
    assert (
        re.search(rf"payoff +1 +{mean:z.2f} +{mean:z.2f} +{-mean:z.2f} +\d+\n", shown)
        and f"{matches} training" in shown
    )
    assert max(map(len, shown.splitlines())) <= 80
    last = call("rewards", "matrix-1", "--last", "5", "--json", cwd=unchanged).json["terms"]
    assert {t["matches"] for t in last} == {5}


def test_events_are_listed(call: Call, copied: Path) -> None:
    """Of one run or all, oldest first, with the step of their update; none is said so, an unknown run refused."""
    assert call("events", "matrix-1", cwd=copied).err == "no events\n"
    store = Filled.open(copied / "runs")
    store.add_event("other", 1, "resumed", "resumed with a=1")
    store.add_event("matrix-1", 4, "alarm:kl_blow_up", "KL blew up: 2 nats")
    store.flush(force=True)
    shown = call("events", cwd=copied).out
    assert re.search(
        r"other +128 +1 .*resumed with a=1 *\n.*matrix-1 +512 +4 .*alarm:kl_blow_up +KL blew up: 2 nats", shown
    )
    (event,) = call("events", "matrix-1", "--json", cwd=copied).json["events"]
    assert (event["kind"], event["steps"], event["update"]) == ("alarm:kl_blow_up", 512, 4)
    need_refusal(call("events", "matrx-1", cwd=copied), 2, "did you mean `matrix-1`?")


def test_an_alarm_that_stops_a_run_is_an_exit_code(call: Call, tmp_path: Path) -> None:
    """One line on stderr with what to try, exit code 1, the event in the store, and the run can be resumed."""
    sick = ("--set", "learner.learning_rate=10.0", "--set", "run.on_alarm=stop")
    stopped = call(*TRAIN, "--quiet", *sick, cwd=tmp_path)
    need_refusal(stopped, 1, "run=matrix-1: stopped at step 128, saved", "KL blew up", "--set run.on_alarm=warn")
    assert [event["kind"] for event in call("events", "--json", cwd=tmp_path).json["events"]] == ["alarm:kl_blow_up"]
    cure = ("--set", "run.on_alarm=warn", "--set", "learner.learning_rate=1e-3")
    assert call("resume", "matrix-1", "--quiet", *cure, cwd=tmp_path).code == 0


def test_what_cannot_be_replayed_is_refused(call: Call, tmp_path: Path) -> None:
    """A file that is not there or is something else is one line with its path."""
    (tmp_path / "x.json").write_text("{}")
    need_refusal(call("replay", "none.json", cwd=tmp_path), 1, "none.json", "RUN/failures")
    need_refusal(call("replay", "x.json", cwd=tmp_path), 1, "x.json", "RUN/failures")


def test_rewards_that_cannot_be_shown_are_refused(call: Call, unchanged: Path) -> None:
    """An unknown run and a number of matches below 1 are one line each."""
    need_refusal(call("rewards", "matrx-1", cwd=unchanged), 2, "`matrx-1`", "did you mean `matrix-1`?")
    need_refusal(call("rewards", "matrix-1", "--last", "0", cwd=unchanged), 2, "last=0", "from 1 to", "--last")


def test_evaluate_prints_every_metric_in_80_columns(call: Call, tmp_path: Path) -> None:
    """All of the game's behaviour metrics stand one below the other, A's and B's numbers set to the right."""
    arguments = ["bot:based", "--against", "bot:constant", "--games", "2", "--env", "brawl", "--store", "none"]
    data = call("evaluate", *arguments, "--json", cwd=tmp_path).json["summary"]["metrics"]
    shown = call("evaluate", *arguments, cwd=tmp_path).out.splitlines()
    head = next(line for line in shown if "bot:constant" in line and "score" not in line)
    assert list(data) == list(registry.spec("brawl", registry.check_options("brawl", {})).metrics)
    for name, (own, other) in data.items():
        line = next(line for line in shown if line.split()[:1] == [name])
        assert line.split() == [name, f"{own:.2f}", f"{other:.2f}"]
        ends = [head.index(agent) + len(agent) for agent in ("bot:based", "bot:constant")]
        assert line[: ends[0]].endswith(f" {own:.2f}") and line[: ends[1]].endswith(f" {other:.2f}")
    assert max(len(line) for line in shown if line.split()[:1] != ["mean"]) <= 80


def test_query_json_has_no_nan_and_no_foreign_types(call: Call, unchanged: Path) -> None:
    """NaN and infinity are null; decimals are numbers, times ISO 8601, bytes hex, maps and lists themselves."""
    sql = (
        "SELECT 'nan'::DOUBLE, '-inf'::FLOAT, ['nan'::DOUBLE], 1.5::DECIMAL(4, 2), TIMESTAMP '2026-01-02 03:04:05',"
        " 'ab'::BLOB, MAP {1: 'x'}, {'a': 1}, 2::HUGEINT ** 70, NULL, true"
    )
    row = call("query", sql, "--json", cwd=unchanged).json["rows"][0]
    assert row[:8] == [None, None, [None], 1.5, "2026-01-02T03:04:05", "6162", {"1": "x"}, {"a": 1}]
    assert row[8:] == [2.0**70, None, True]


@pytest.mark.parametrize("game", ["matrix", "cards"])
def test_bench_env_prints_one_object(call: Call, tmp_path: Path, game: str) -> None:
    """`bench env --json` is one object with its settings and a rate, and needs no store; legal tuples are kept to."""
    called = call("bench", "env", "--env", game, "--rows", "8", "--seconds", "0.05", "--json", cwd=tmp_path)
    assert called.json["bench"] == "env" and called.json["rows"] == 8 and called.json["ticks_per_second"] > 0
    assert list(tmp_path.iterdir()) == []


def test_bench_env_takes_a_step_apart(call: Call, tmp_path: Path) -> None:
    """Of a game with several ticks a step: the figure at one tick a step, and what a tick and a decision take."""
    found = call("bench", "env", "--rows", "64", "--seconds", "0.2", "--json", cwd=tmp_path).json
    assert found["ticks_per_second"] > 0 and found["ticks_per_second_at_one_tick_a_step"] > 0
    total = 3 * found["nanoseconds_a_tick"] + found["nanoseconds_a_decision"]
    assert total == pytest.approx(1e9 / found["steps_per_second"], rel=0.02, abs=3)
    assert ("speedup_with_2_threads" in found) == ((os.cpu_count() or 1) >= 2)


def test_bench_learner_says_where_the_time_goes(call: Call, tmp_path: Path) -> None:
    """The shares are of one whole, each part that runs has one, and the largest is the bottleneck."""
    sets = ("--set", "env.name=matrix", "--set", "pool.mix.self_play=1.0", "--set", "pool.mix.bot:biased=0.0")
    sets = (*sets, "--set", "pool.mix.bot:random=0.0", "--set", "learner.epochs=1")
    found = call("bench", "learner", "--preset", "auto", "--repeats", "1", *sets, "--json", cwd=tmp_path).json
    shares = {name.removeprefix("share_"): found[name] for name in found if name.startswith("share_")}
    assert list(shares) == ["game", "play_net", "frozen_nets", "learning", "other"]
    assert sum(shares.values()) == pytest.approx(1, abs=0.01) and min(shares.values()) > 0
    assert shares[found["bottleneck"]] == max(shares.values())
    assert found["sizes"].startswith("preset auto: ") and list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_small_agent_is_a_setting_away(call: Call, tmp_path: Path) -> None:
    """Without encoder and with an LSTM of 128 brawl trains, is benched, exported, loaded and evaluated."""
    small = ("--set", "agent.opponent_encoder=false", "--set", "agent.lstm_size=128")
    trained = call("train", "--stage", "smoke", *small, "--device", "cpu", "--json", cwd=tmp_path)
    assert trained.code == 0 and trained.json["steps"] == 4_096, trained.err
    bench = call("bench", "learner", "--repeats", "1", *small, "--device", "cpu", "--json").json
    assert bench["parameters"] < 400_000 and bench["train_steps_per_second"] > 0
    assert call("export", "brawl-1", "out").code == 0
    agent = Agent.load(tmp_path / "out")
    game = registry.make("brawl", rows=1, threads=1, options=agent.manifest.game.options)
    game.reset(0)
    assert game.mask is not None and agent.act(game.obs[0, 0], game.mask[0, 0]).shape == game.actions[0, 0].shape
    played = call("evaluate", "out", "--against", "bot:constant", "--games", "2", "--device", "cpu", "--json")
    assert played.code == 0 and played.json["summary"]["games"] == 2


@pytest.mark.slow
def test_two_runs_started_at_once_get_names_of_their_own(tmp_path: Path) -> None:
    """Processes that start together without --run take different names, and all finish."""
    command = [*TRAIN, "--json", "--quiet"]
    begun = [processes.league(*command, "--seed", n, cwd=tmp_path, stdout=subprocess.PIPE) for n in range(2)]
    answers = [json.loads(process.communicate()[0]) for process in begun]
    assert sorted(answer["run"] for answer in answers) == ["matrix-1", "matrix-2"]
    assert {answer["status"] for answer in answers} == {"finished"}


# Comparing and promoting


def test_leaderboard_shows_superiority_and_differences(call: Call, copied: Path) -> None:
    """Every agent has its likelihood of being better than the next, and with --against its difference to one agent."""
    board = call("leaderboard", "--run", "matrix-1", "--against", "bot:random", "--json", cwd=copied).json["boards"][0]
    entries = {entry["name"]: entry for entry in board["entries"]}
    assert board["against"] == "bot:random" and entries["bot:random"]["against"]["mean"] == 0.0
    for a, b in itertools.pairwise(board["entries"]):
        assert 0.5 <= a["superiority"] <= 1.0 and a["rating"] >= b["rating"]
        assert a["against"]["mean"] == pytest.approx(a["rating"] - entries["bot:random"]["rating"])
    assert board["entries"][-1]["superiority"] is None
    assert {"groups", "seat", "dispersion", "surprises", "notes", "sampling"} <= set(board)
    text = call("leaderboard", "--against", "matrix-1@0", cwd=copied).out
    assert "LOS" in text and "above matrix-1@0" in text
    need_refusal(call("leaderboard", "--against", "bot:none", cwd=copied), 2, "against=bot:none", "league evaluate")
    empty = call("leaderboard", "--greedy", cwd=copied)
    assert empty.code == 0 and "no evaluation matches yet" in empty.err


def test_matchup_tells_record_and_difference(call: Call, copied: Path) -> None:
    """A's record against B adds up over the seats, and seen from B everything is exchanged; greedy games are apart."""
    call("evaluate", "matrix-1", "--against", "matrix-1@0", "--games", "30", cwd=copied)
    m = call("matchup", "matrix-1", "matrix-1@0", "--json", cwd=copied).json
    back = call("matchup", "matrix-1@0", "matrix-1", "--json", cwd=copied).json
    assert m["record"]["games"] >= 30 and m["record"]["games"] == m["seat0"]["games"] + m["seat1"]["games"]
    assert (m["record"]["wins"], m["seat0"]["losses"]) == (back["record"]["losses"], back["seat1"]["wins"])
    assert m["difference"]["mean"] == pytest.approx(-back["difference"]["mean"])
    assert m["superiority"] == pytest.approx(1 - back["superiority"])
    assert m["z"] is None and back["z"] is None, "nobody else links the two"
    assert (m["unit"], m["predicted"], m["predicted_score"]) == ("payoff", None, None), "a payoff foretells no wins"
    assert m["record"]["lower"] < m["record"]["score"] < m["record"]["upper"]
    payoff = m["record"]["payoff"]
    assert payoff["lower"] < payoff["mean"] < payoff["upper"]
    assert payoff["mean"] == pytest.approx(-back["record"]["payoff"]["mean"])
    again = call("evaluate", "matrix-1", "--against", "matrix-1@0", "--games", "30", cwd=copied)
    assert again.code == 0 and call("matchup", "matrix-1", "matrix-1@0", "--json", cwd=copied).json == m, "counted once"
    text = call("matchup", "matrix-1", "matrix-1@0", cwd=copied).out
    assert "likelihood that matrix-1@512 is the stronger" in text and "no surprise: nobody else links the two" in text
    call("evaluate", "matrix-1@0", "--against", "bot:random", "--games", "30", cwd=copied)
    call("evaluate", "matrix-1", "--against", "bot:random", "--games", "30", cwd=copied)
    m, back = (
        call("matchup", *pair, "--json", cwd=copied).json for pair in itertools.permutations(("matrix-1", "matrix-1@0"))
    )
    assert m["z"] == pytest.approx(-back["z"])
    assert "surprise: their own score is" in call("matchup", "matrix-1", "matrix-1@0", cwd=copied).out


BAD_MATCHUPS: dict[str, tuple[list[str], list[str]]] = {
    "unknown run": (["matrx-1", "bot:random"], ["'matrx-1'", "did you mean `matrix-1`?"]),
    "the same agent": (["matrix-1", "matrix-1@512"], ["same agent"]),
    "another game": (["matrix-1", "other"], ["matrix-1 and other", "league evaluate"]),
    "a bot without games": (["matrix-1", "bot:none"], ["bot:none", "league evaluate"]),
    "greedy": (["matrix-1", "bot:random", "--greedy"], ["sampling=greedy"]),
}


@pytest.mark.parametrize("case", BAD_MATCHUPS)
def test_matchups_that_cannot_be_are_refused(case: str, call: Call, unchanged: Path) -> None:
    """Agents that the store cannot compare are one line each."""
    arguments, words = BAD_MATCHUPS[case]
    need_refusal(call("matchup", *arguments, cwd=unchanged), 2, *words)


EASY, HARD = ("--payoff0", "-6", "--payoff1", "-2"), ("--payoff0", "2", "--payoff1", "6")
"""Hypotheses under which agents of about one strength pass or fail within some tens of games."""


def test_gate_promotes_fails_and_leaves_undecided(call: Call, copied: Path) -> None:
    """The exit code is the decision, games are stored in pairs, a pass takes the title, and attempts spend alpha."""
    failed = call("gate", "matrix-1", *HARD, "--json", cwd=copied)
    assert (failed.code, failed.json["decision"], failed.json["is_promoted"]) == (3, "failed", False)
    assert (failed.json["champion"], failed.json["attempt"]) == ("matrix-1", 1)
    assert failed.json["test"]["alpha"] == pytest.approx(0.025)
    undecided = call("gate", "matrix-1", "--max-games", "6", "--json", cwd=copied)
    assert (undecided.code, undecided.json["games"]) == (4, 6) and undecided.json["attempt"] == 2
    best = call("export", "matrix-1@best", "before", "--json", cwd=copied).json["step"]
    step = 128 if best != 128 else 256
    other = f"matrix-1@{step}"
    passed = call("gate", other, *EASY, cwd=copied)
    assert passed.code == 0 and f"promoted: matrix-1@best is {other}" in passed.out
    assert f"alpha {0.05 / 12:.3g}" in passed.out
    assert call("export", "matrix-1@best", "after", "--json", cwd=copied).json["step"] == step
    store = Store.open(copied / "runs")
    for gate in store.gates("matrix-1"):
        games = store.matches(gate.gate, "evaluation")
        assert len(games) == gate.games and gate.games % 2 == 0
        seatings = Counter((game.seed, game.agents) for game in games)
        assert set(seatings.values()) == {1} and len({game.seed for game in games}) == gate.games // 2
    seeds = [{game.seed for game in store.matches(gate.gate, "evaluation")} for gate in store.gates("matrix-1")]
    assert not seeds[0] & seeds[1] and not seeds[1] & seeds[2], "every attempt plays fresh games"
    need_refusal(call("gate", other, cwd=copied), 2, f"{other} is the champion of matrix-1", "league gate A B")
    newest = call("gate", "matrix-1", *EASY, "--json", cwd=copied).json
    assert (newest["b"], newest["attempt"], newest["is_promoted"]) == (other, 1, True)
    assert "(champion)" in call("leaderboard", cwd=copied).out


def test_gate_between_others_promotes_nobody(call: Call, copied: Path, tmp_path: Path) -> None:
    """Bots, and snapshots that meet somebody else than the champion, are tested with the whole alpha and stay."""
    bots = call("gate", "bot:biased", "bot:random", "--env", "matrix", *EASY, "--json", cwd=copied).json
    assert (bots["champion"], bots["is_promoted"], bots["test"]["alpha"]) == (None, False, 0.05)
    call("gate", "matrix-1", *EASY, cwd=copied)
    other = call("gate", "matrix-1@0", "matrix-1@128", *EASY, "--json", cwd=copied).json
    assert (other["champion"], other["is_promoted"]) == (None, False)
    alone = tmp_path / "alone"
    alone.mkdir()
    away = call("gate", "bot:biased", "bot:random", "--env", "matrix", *EASY, "--json", cwd=alone)
    assert away.json["gate"] is None and away.json["pairs"] == bots["pairs"] and not list(alone.iterdir())


def test_tournament_lets_a_run_meet_and_is_rated(call: Call, copied: Path) -> None:
    """All snapshots of a run and all bots meet; the standings are the leaderboard's, and the text says the same."""
    called = call("tournament", "--run", "matrix-1", "--bots", "--games", "2", "--json", cwd=copied)
    result = called.json
    snapshots = call("snapshots", "list", "--run", "matrix-1", "--json", cwd=copied).json["snapshots"]
    entrants = {f"matrix-1@{s['step']}" for s in snapshots} | {"bot:constant", "bot:random", "bot:biased"}
    assert {s["name"] for s in result["standings"]} == entrants
    assert result["games"] == len(entrants) * (len(entrants) - 1) and result["ended"] == "complete"
    assert f"{result['games']} of {result['games']} games" in called.err
    entries = call("leaderboard", "--run", "matrix-1", "--json", cwd=copied).json["boards"][0]["entries"]
    ratings = {e["name"]: e["rating"] for e in entries}
    assert {s["name"]: s["rating"] for s in result["standings"]} == pytest.approx(ratings)
    assert [s["name"] for s in result["standings"]] == [e["name"] for e in entries]
    newest = call("tournament", "matrix-1", "--run", "matrix-1", "--newest", "2", "--games", "2", cwd=copied)
    assert newest.code == 0 and "matrix-1@512" in newest.out and "matrix-1@0" not in newest.out
    assert "2 games, sample, seed 0: all games are played; stored as tournament-" in newest.out


def test_an_adaptive_tournament_names_what_it_wanted(call: Call, copied: Path) -> None:
    """The wanted differences stand in the table and, by name, in the JSON."""
    adaptive = ["tournament", "matrix-1", "matrix-1@0", "bot:random", "--format", "adaptive", "--max-games", "12"]
    shown = call(*adaptive, "--want", "order", "--greedy", cwd=copied)
    assert "the wanted differences in payoff a match" in shown.out and "12 games, greedy" in shown.out
    data = call(*adaptive, "--between", "matrix-1", "bot:random", "--json", cwd=copied).json
    [wanted] = data["wanted"]
    assert (wanted["a"], wanted["b"], data["games"]) == ("matrix-1@512", "bot:random", 12)
    assert wanted["difference"]["lower"] < wanted["difference"]["mean"] < wanted["difference"]["upper"]


def test_alarms_tell_what_is_wrong(call: Call, tmp_path: Path) -> None:
    """A game that the first seat always wins raises an alarm at the stage's end, as an event, and when asked."""
    unfair = ["--set", "env.payoff=[[1.0, 1.0, 1.0], [1.0, 1.0, 1.0], [1.0, 1.0, 1.0]]"]
    trained = call(*TRAIN, *unfair, "--set", "run.evaluate_games=8", cwd=tmp_path)
    assert trained.code == 0 and "alarm, seats: matrix" in trained.err
    events = call("query", "SELECT message FROM event WHERE kind = 'alarm:seats'", "--json", cwd=tmp_path).json["rows"]
    assert len(events) == 1 and events[0][0].startswith("matrix")
    shown = call("alarms", "matrix-1", cwd=tmp_path)
    alarm, query, *others = shown.out.splitlines()
    assert alarm.startswith("ALARM, seats: matrix") and len(others) == 4
    assert re.fullmatch(r'  league query "WITH pair AS .*"', query)
    row = call("query", query.split('"')[1], cwd=tmp_path)
    assert row.code == 0 and "first_seat_score" in row.out
    findings = call("alarms", "--json", cwd=tmp_path).json["alarms"]
    assert [finding["is_raised"] for finding in findings].count(True) == 1
    assert findings[0]["numbers"]["first_share"] == 1.0


def test_little_or_nothing_in_the_store_is_said(call: Call, tmp_path: Path) -> None:
    """A store without runs, and a run whose agent has met nobody, get a clear line from each command, and no table."""
    store = keeping_store(tmp_path / "runs")
    words = {"leaderboard": "no matches yet", "payoff": "no matches yet", "alarms": "no runs yet"}
    for command, line in words.items():
        called = call(command, cwd=tmp_path)
        assert (called.code, called.out) == (0, "") and line in called.err, command
    need_refusal(call("matchup", "matrix-1", "bot:based", cwd=tmp_path), 2, "'matrix-1'", "known: none")
    need_refusal(call("tournament", "matrix-1", "bot:random", cwd=tmp_path), 2, "'matrix-1'", "known: none")
    need_refusal(call("tournament", "--run", "matrix-1", cwd=tmp_path), 2, "matrix-1", "known: none")
    need_refusal(call("tournament", cwd=tmp_path), 2, "two agents at least", "--bots")
    need_refusal(call("alarms", "matrix-1", cwd=tmp_path), 2, "matrix-1", "known: none")
    store.begin_run(RunRow("matrix-1", "matrix", "g", "f", 1, "smoke", "{}"))
    store.add_snapshot(SnapshotRow("net-0", "matrix-1", 0, 0, "matrix-1/0", "f"))
    store.flush(force=True)
    board = call("leaderboard", cwd=tmp_path)
    assert "no evaluation matches yet" in board.err and "rating" not in board.out and "matrix-1" in board.out
    assert "no two agents have met" in call("payoff", cwd=tmp_path).err
    assert call("alarms", cwd=tmp_path).out.count("not known, ") == 4
    lonely = call("matchup", "matrix-1", "bot:based", cwd=tmp_path)
    need_refusal(lonely, 2, "no game in which both have evaluation matches", "league evaluate")


BAD_GATES: dict[str, tuple[list[str], list[str]]] = {
    "the same agent": (["matrix-1", "matrix-1@512"], ["same agent"]),
    "unknown": (["matrix-1", "none"], ["'none'", "known: matrix-1, other"]),
    "no champion of a bot": (["bot:random"], ["'bot:random'", "league gate A B"]),
    "another game": (["matrix-1", "other"], ["different games"]),
    "odd cap": (["matrix-1", "--max-games", "7"], ["max_games=7", "even", "8"]),
    "no games": (["matrix-1", "--max-games", "0"], ["max_games=0", "2"]),
    "order": (["matrix-1", "--payoff0", "3", "--payoff1", "3"], ["payoff0=3, payoff1=3", "below"]),
    "points": (["matrix-1", "--elo0", "35"], ["elo0=35", "matrix pays payoff", "--payoff0, --payoff1"]),
    "alpha": (["matrix-1", "--alpha", "0.5"], ["alpha=0.5", "below 0.5"]),
    "beta": (["matrix-1", "--beta", "nan"], ["beta=nan"]),
    "model": (["matrix-1", "--elo-model", "bayes"], ["elo_model=bayes", "matrix pays payoff", "--payoff0"]),
    "seed": (["matrix-1", "--seed", "-1"], ["seed=-1"]),
}


@pytest.mark.parametrize("case", BAD_GATES)
def test_gates_that_cannot_be_are_refused(case: str, call: Call, unchanged: Path) -> None:
    """One line each, before a game is played or an attempt counted."""
    arguments, words = BAD_GATES[case]
    need_refusal(call("gate", *arguments, cwd=unchanged), 2, *words)


def test_bench_torso_compares_with_a_plain_network(call: Call, tmp_path: Path) -> None:
    """`bench torso` times a decision and a learned sample of both, and says what the game's torso is."""
    pytest.importorskip("pyspiel")
    given = ("--env", "openspiel:tic_tac_toe", "--agent", "small")
    found = call("bench", "torso", *given, "--rows", "4", "--repeats", "1", "--json", cwd=tmp_path).json
    assert found["torso"].startswith("board of 3 x 3 x 3") and found["parameters"] != found["mlp_parameters"]
    for what in ("play", "learn"):
        assert found[f"{what}_microseconds"] > 0 and found[f"mlp_{what}_microseconds"] > 0
        assert found[f"{what}_ratio"] > 0


def test_bench_ratings_prints_both_parts(call: Call, tmp_path: Path) -> None:
    """`bench ratings` rates every agent from every row that it made, and leaves no store behind."""
    found = call("bench", "ratings", "--agents", "9", "--matches", "400", "--repeats", "1", "--json", cwd=tmp_path).json
    assert (found["agents"], found["matches"]) == (9, 400) and found["pairs"] == 72
    assert found["count_ms"] > 0 and found["solve_ms"] > 0 and list(tmp_path.iterdir()) == []


def test_matches_go_out_and_come_in(call: Call, copied: Path) -> None:
    """A store's matches go to a file and rate the same in a new store; outside agents join the board."""
    written = call("matches", "m.csv", "--json", cwd=copied).json
    assert written["file"] == "m.csv" and written["matches"] > 0
    name = f"import-{hashlib.sha256((copied / 'm.csv').read_bytes()).hexdigest()[:12]}"
    done = call("import", "m.csv", "--store", "new", "--json", cwd=copied).json
    assert (done["run"], done["imported"], done["skipped"]) == (name, written["matches"], {})
    need_refusal(call("import", "m.csv", "--store", "new", cwd=copied), 2, "m.csv", "imported before", name)
    need_refusal(call("import", "m.csv", cwd=copied), 2, "m.csv", "already")
    (copied / "n.pgn").write_text(
        '[White "bot:random"]\n[Black "[red]friend"]\n[Result "0-1"]\n\n[White "a"]\n[Black "b"]\n[Result "*"]\n'
    )
    need_refusal(call("import", "n.pgn", "--game", "matrix", cwd=copied), 2, "game=matrix", "--game-id")
    game_id = call("runs", "--json", cwd=copied).json["runs"][0]["game_id"]
    shown = call("import", "n.pgn", "--game-id", game_id, "--run", "friends", cwd=copied)
    assert shown.code == 0 and "1 of 2 games are in runs as friends" in shown.out
    assert "left out: 1, no result" in shown.out and "new agents: bot:random, [red]friend\n" in shown.out
    board = call("leaderboard", "--json", cwd=copied).json["boards"]
    (friend,) = [e for b in board for e in b["entries"] if e["name"] == "[red]friend"]
    assert (friend["kind"], friend["wins"], friend["games"]) == ("import", 1, 1)


# The documents


@pytest.mark.parametrize("name", sorted(commands()))
def test_every_command_has_help_json_and_quiet(name: str) -> None:
    """A command and its parameters say what they are; --json is everywhere, --store and --quiet where a store is."""
    command = commands()[name]
    assert command.help
    options = {option for parameter in command.params for option in parameter.opts}
    assert "--json" in options
    if not name.startswith("bench "):
        assert ({"--quiet"} if name in ("check", "selftest", "tune") else {"--store", "--quiet"}) <= options
    for parameter in command.params:
        assert parameter.name == "help" or getattr(parameter, "help", None), parameter.name


def test_a_page_names_every_command() -> None:
    """The page of commands shows how each is called."""
    text = (ROOT / "docs" / "reference" / "commands.md").read_text(encoding="utf-8")
    missing = [name for name in commands() if f"league {name}" not in text]
    assert not missing


def test_help_loads_neither_torch_nor_duckdb() -> None:
    """`league --help` and `league train --help` stay light, and list the commands."""
    code = (
        "import sys; from league.cli import main; sys.argv = ['league', *sys.argv[1:]]\n"
        "try: main()\n"
        "except SystemExit as e: assert not e.code\n"
        "assert not {'torch', 'duckdb'} & sys.modules.keys()"
    )
    for arguments in ([], ["train"]):
        process = subprocess.run(
            [sys.executable, "-c", code, *arguments, "--help"], cwd=ROOT, capture_output=True, text=True
        )
        assert process.returncode == 0, process.stderr


# What bad input gets

BAD_SETTINGS: dict[str, tuple[list[str], list[str]]] = {
    "unknown key": (["--set", "learner.gama=0.9"], ["learner.gama", "not a setting", "did you mean `gamma`?"]),
    "unknown option of the game": (["--set", "env.round=3"], ["env.round=3", "matrix", "`rounds`"]),
    "unknown section": (["--set", "lerner.gamma=0.9"], ["[lerner]", "`learner`"]),
    "no section": (["--set", "gamma=0.9"], ["gamma=0.9", "section.key=value"]),
    "no value": (["--set", "learner.gamma"], ["learner.gamma", "section.key=value"]),
    "wrong type": (["--set", "env.rows=many"], ["env.rows", "many", "integer", "--set env.rows=VALUE"]),
    "a string for a bool": (["--set", "agent.opponent_encoder=no"], ["agent.opponent_encoder", "no", "boolean"]),
    "out of range": (["--set", "learner.clip=1.5"], ["learner.clip", "1.5", "less than 1"]),
    "not a number": (["--set", "learner.gamma=nan"], ["learner.gamma", "nan", "finite"]),
    "unknown stage": (["--stage", "test5k"], ["--stage", "test5k", "did you mean `test50k`?"]),
    "unknown preset": (["--preset", "fats"], ["--preset", "fats", "did you mean `fast`?"]),
    "unknown game": (["--env", "matrx"], ["env.name", "matrx", "did you mean `matrix`?"]),
    "unknown device": (["--device", "gpu"], ["learner.device", "gpu", "'auto', 'cuda', 'mps' or 'cpu'"]),
    "minibatches": (["--set", "learner.minibatches=3"], ["env.rows=8", "learner.minibatches=3", "minibatches=2"]),
    "long rollout": (["--set", "learner.rollout_steps=999"], ["env.rows=8", "7992", "run.total_steps=512"]),
    "few updates": (["--set", "run.allow_short=false"], ["512", "4 updates", "fewer than 20"]),
    "unknown reward": (["--set", "rewards.payof=1.0"], ["rewards.payof=1", "did you mean `payoff`?"]),
    "no reward": (["--set", "rewards.payoff=0.0"], ["[rewards]", "--set rewards.payoff"]),
    "unknown bot": (
        ["--set", 'pool.mix={self_play=0.5, "bot:based"=0.5}'],
        ["pool.mix.bot:based=0.5", "matrix", "`bot:biased`"],
    ),
    "unknown bot in a group": (
        ["--set", "pool.groups.some=['bot:based']"],
        ["pool.groups.some", "bot:based", "matrix", "`bot:biased`"],
    ),
    "mix does not sum to 1": (["--set", "pool.mix.self_play=0.5"], ["pool.mix", "0.7", "+0.3"]),
    "missing config": (["--config", "none.toml"], ["--config", "none.toml", "No such file"]),
    "run with a slash": (["--run", "a/b"], ["run='a/b'", "--run"]),
    "run above": (["--run", ".."], ["run='..'", "--run"]),
    "empty run": (["--run", ""], ["run=''", "--run"]),
    "negative seed": (["--seed", "-1"], ["seed=-1", "2^63", "--seed"]),
    "large seed": (["--seed", str(2**63)], [f"seed={2**63}", "2^63", "--seed"]),
}


@pytest.mark.parametrize("case", BAD_SETTINGS)
def test_settings_that_cannot_be_run_are_refused(case: str, call: Call, tmp_path: Path) -> None:
    """Each is one line with the setting, the value, the rule and the next step; no store and no folder is made."""
    arguments, words = BAD_SETTINGS[case]
    need_refusal(call(*TRAIN, *arguments, cwd=tmp_path), 2, *words)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("[learner]\ngama = 1", ["learner.gama", "`gamma`"]),
        ("[lerner]\ngamma = 1", ["[lerner]", "`learner`"]),
        ("[learner]\ngamma = 'x'", ["learner.gamma", "'x'", "number"]),
        ("learner = 3", ["learner=3", "table"]),
        ("[learner", ["my.toml", "not TOML"]),
        ("\xff\xfe", ["my.toml", "not TOML"]),
    ],
)
def test_a_bad_config_file_is_refused(content: str, words: list[str], call: Call, tmp_path: Path) -> None:
    """Unknown keys, wrong types and what is no TOML in --config are one line; nothing is written."""
    (tmp_path / "my.toml").write_bytes(content.encode("latin-1"))
    need_refusal(call(*TRAIN, "--config", "my.toml", cwd=tmp_path), 2, *words)
    assert [path.name for path in tmp_path.iterdir()] == ["my.toml"]


STORE_COMMANDS = {
    "train": TRAIN,
    "resume": ["resume", "matrix-1"],
    "leaderboard": ["leaderboard"],
    "payoff": ["payoff"],
    "evaluate": ["evaluate", "matrix-1", "--against", "bot:random", "--games", "2"],
    "export": ["export", "matrix-1", "out"],
    "runs": ["runs"],
    "rewards": ["rewards", "matrix-1"],
    "query": ["query", "SELECT 1"],
    "matchup": ["matchup", "matrix-1", "bot:random"],
    "gate": ["gate", "matrix-1"],
    "snapshots list": ["snapshots", "list"],
    "snapshots prune": ["snapshots", "prune"],
    "tournament": ["tournament", "--run", "matrix-1"],
    "alarms": ["alarms"],
}


@pytest.mark.parametrize(
    ("command", "kind"),
    [*((command, "duckdb") for command in STORE_COMMANDS), *(("runs", kind) for kind in ("text", "empty", "folder"))],
)
def test_a_store_that_is_none_is_refused(command: str, kind: str, call: Call, tmp_path: Path) -> None:
    """A text file, an empty one, a folder or somebody's DuckDB file is named and left as it is, by every command."""
    path = tmp_path / "some.db"
    if kind == "folder":
        path.mkdir()
    elif kind == "duckdb":
        with duckdb.connect(path) as con:
            con.execute("CREATE TABLE precious AS SELECT 42 AS x")
    else:
        path.write_text("hello\n" * 1000 if kind == "text" else "")
    before = files_below(tmp_path)
    need_refusal(call(*STORE_COMMANDS[command], "--store", "some.db", cwd=tmp_path), 1, "some.db", "--store")
    assert files_below(tmp_path) == before


@pytest.mark.parametrize("command", sorted(STORE_COMMANDS.keys() - {"train"}))
def test_a_missing_store_is_named_and_not_made(command: str, call: Call, tmp_path: Path) -> None:
    """Commands that read say where no store is and what to do."""
    called = call(*STORE_COMMANDS[command], cwd=tmp_path)
    need_refusal(called, 1, "no store at runs", "league train", "--store")
    assert list(tmp_path.iterdir()) == []


BAD_NAMES: dict[str, tuple[list[str], list[str]]] = {
    "unknown run": (["matrx-1"], ["'matrx-1'", "did you mean `matrix-1`?"]),
    "unknown step": (["matrix-1@7"], ["'matrix-1@7'", "no snapshot at step 7"]),
    "no step": (["matrix-1@"], ["'matrix-1@'", "best"]),
    "unknown run's best": (["none@best"], ["'none@best'", "known: matrix-1, other"]),
    "empty": ([""], ["''", "known: matrix-1, other"]),
    "unknown bot": (["bot:randm"], ["'bot:randm'", "matrix", "did you mean `random`?"]),
    "no bot": (["bot:"], ["'bot:'", "matrix"]),
    "the same agent": (["matrix-1@0"], ["matrix-1@0", "same agent"]),
    "another game": (["other"], ["different games", "matrix"]),
    "odd games": (["matrix-1", "--games", "7"], ["games=7", "even", "8"]),
    "no games": (["matrix-1", "--games", "0"], ["games=0", "even", "2"]),
    "negative seed": (["matrix-1", "--seed", "-1"], ["seed=-1", "2^63"]),
    "large seed": (["matrix-1", "--seed", str(2**63)], [f"seed={2**63}", "2^63"]),
    "unknown device": (["matrix-1", "--device", "gpu"], ["gpu", "cpu"]),
    "another env": (["matrix-1", "--env", "brawl"], ["env=brawl", "matrix"]),
}


@pytest.mark.parametrize("case", BAD_NAMES)
def test_evaluations_that_cannot_be_are_refused(case: str, call: Call, unchanged: Path) -> None:
    """Unknown agents, pairs that cannot meet and bad numbers are one line each; no match is stored."""
    arguments, words = BAD_NAMES[case]
    need_refusal(call("evaluate", *arguments, "--against", "matrix-1@0", cwd=unchanged), 2, *words)


@pytest.mark.parametrize("arguments", [["export", "bot:random", "out"], ["export", "none", "out"], ["resume", "none"]])
def test_names_that_cannot_be_exported_or_resumed(arguments: list[str], call: Call, unchanged: Path) -> None:
    """A bot has no weights and an unknown run is no run; nothing is made."""
    need_refusal(call(*arguments, cwd=unchanged), 2, arguments[1])


def test_a_finished_run_is_not_resumed(call: Call, unchanged: Path) -> None:
    """It says so, and what goes on instead: of a run of its own length, a longer stage."""
    need_refusal(
        call("resume", "matrix-1", cwd=unchanged),
        2,
        "run=matrix-1",
        "finished at step 512",
        "go further with `league resume matrix-1 --steps 1024`",
    )


@pytest.mark.parametrize(("name", "why"), [("matrix-1", "already"), ("league.duckdb", "the store's catalogue")])
def test_a_run_name_that_is_taken_is_refused(name: str, why: str, call: Call, unchanged: Path) -> None:
    """A run's name, and that of the store's own file, cannot be taken again."""
    need_refusal(call(*TRAIN, "--run", name, cwd=unchanged), 2, f"run={name}", why, "--run")


def test_a_run_without_snapshots_is_no_agent(call: Call, copied: Path) -> None:
    """RUN and RUN@best of a run that has none yet say so."""
    listing = copied / "runs" / "other" / "segments.json"
    listing.write_text(json.dumps({**json.loads(listing.read_text()), "snapshots": []}))
    for name in ("other", "other@best", "other@0"):
        need_refusal(call("evaluate", name, "--against", "bot:random", cwd=copied), 2, "other", "no snapshot")


def damage(folder: Path, kind: str) -> None:
    """Spoils a snapshot."""
    weights, manifest = folder / "weights.safetensors", folder / "manifest.json"
    data = weights.read_bytes()
    if kind == "truncated":
        weights.write_bytes(data[: len(data) // 2])
    elif kind == "flipped byte":
        weights.write_bytes(data[:-9] + bytes([data[-9] ^ 1]) + data[-8:])
    elif kind == "missing manifest":
        manifest.unlink()
    elif kind == "missing weights":
        weights.unlink()
    elif kind == "bad manifest":
        manifest.write_text(manifest.read_text()[:-40])
    else:
        shutil.rmtree(folder)


@pytest.mark.parametrize(
    "kind", ["truncated", "flipped byte", "missing manifest", "missing weights", "bad manifest", "missing folder"]
)
def test_a_damaged_snapshot_is_refused(kind: str, call: Call, copied: Path) -> None:
    """Evaluate and export name the file and leave everything as it is, for a run's name and for a path."""
    folder = copied / "runs" / "matrix-1" / "snapshots" / "0000000512"
    damage(folder, kind)
    before = files_below(copied)
    for name in ("matrix-1@512", "./runs/matrix-1/snapshots/0000000512"):
        need_refusal(call("evaluate", name, "--against", "bot:random", cwd=copied), 1, "0000000512")
        need_refusal(call("export", name, "out"), 1, "0000000512")
    assert files_below(copied) == before


@pytest.mark.parametrize(
    ("section", "key", "value", "words"),
    [
        ("game", "game_id", "0" * 16, [f"another matrix: game_id was '{'0' * 16}' and is '"]),
        ("spec", "metrics", ["x"], []),
    ],
)
def test_an_agent_of_another_version_of_the_game_is_refused(
    section: str, key: str, value: Any, words: list[str], call: Call, copied: Path
) -> None:
    """Another game id is refused by the field that differs, nothing is stored; metrics need not agree to play."""
    assert call("export", "matrix-1", "out", cwd=copied).code == 0
    path = copied / "out" / "manifest.json"
    data = json.loads(path.read_text())
    data[section][key] = value
    path.write_text(json.dumps(data))
    before = files_below(copied)
    called = call("evaluate", "./out", "--against", "bot:random", "--games", "2", cwd=copied)
    if not words:
        assert called.code == 0 and "against bot:random: payoff" in called.out, called
        return
    need_refusal(called, 2, "agent matrix-1@512 plays", *words)
    assert files_below(copied) == before


@pytest.mark.parametrize("kind", ["file", "folder", "other agent", "link"])
def test_an_export_overwrites_nothing(kind: str, call: Call, copied: Path) -> None:
    """A file, another folder, another agent's export or a link at the target stays as it is."""
    out = copied / "out"
    if kind == "file":
        out.write_text("mine")
    elif kind == "folder":
        out.mkdir()
        (out / "mine.txt").write_text("mine")
    elif kind == "link":
        out.symlink_to(copied / "nowhere")
    else:
        assert call("export", "matrix-1@0", "out", cwd=copied).code == 0
    before = files_below(copied)
    need_refusal(call("export", "matrix-1@512", "out", cwd=copied), 1, "out", "another")
    assert files_below(copied) == before


@pytest.mark.parametrize(
    "statement",
    cases(
        "DROP TABLE run",
        "SELECT 1; DROP TABLE run",
        "SELECT * FROM read_csv('/etc/hosts')",
        "SELECT nothing FROM match",
        slow=[
            *("DELETE FROM match", "CREATE TABLE x AS SELECT 1", "COPY match TO 'out.csv'", "ATTACH 'x.duckdb'"),
            *("SET enable_external_access = true", "SELEC 1", ""),
        ],
    ),
)
def test_sql_that_is_not_a_read_is_refused(statement: str, call: Call, unchanged: Path) -> None:
    """Whatever writes, reaches outside or is no SQL is one line, and the store is as it was."""
    need_refusal(call("query", statement, cwd=unchanged), 2, "query")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["env", "--env", "brwl"], ["env.name", "`brawl`"]),
        (["env", "--env", "matrix", "--rows", "0"], ["rows=0", "--rows"]),
        (["env", "--env", "matrix", "--threads", "-1"], ["threads=-1", "--threads"]),
        (["env", "--env", "matrix", "--seconds", "0"], ["seconds=0", "--seconds"]),
        (["env", "--env", "matrix", "--seconds", "nan"], ["seconds=nan", "--seconds"]),
        (["learner", "--preset", "fats"], ["--preset", "`fast`"]),
        (["learner", "--repeats", "0"], ["repeats=0", "--repeats"]),
        (["learner", "--rows", "0"], ["env.rows=0"]),
        (["learner", "--threads", "-2"], ["threads=-2", "--threads"]),
        (["learner", "--rows", "3"], ["env.rows=3", "learner.minibatches"]),
        (["ratings", "--agents", "1"], ["agents=1", "--agents"]),
        (["ratings", "--matches", "0"], ["matches=0", "--matches"]),
        (["ratings", "--repeats", "0"], ["repeats=0", "--repeats"]),
        (["ratings", "--seed", "-1"], ["seed=-1", "--seed"]),
    ],
)
def test_benches_that_cannot_be_are_refused(arguments: list[str], words: list[str], call: Call) -> None:
    """A bad number or name is one line, before anything is measured."""
    need_refusal(call("bench", *arguments), 2, *words)


@pytest.mark.parametrize(
    "arguments",
    [
        ["leaderboard", "--store", LONG],
        ["train", "--store", f"{LONG}/x"],
        ["train", "--league", LONG],
        ["import", f"{LONG}.csv"],
        ["watch", "bot:based", "--against", "bot:random", "--out", f"{LONG}.gif"],
        ["payoff", "--png", f"{LONG}.png"],
        ["export", "matrix-1", LONG],
    ],
    ids=lambda arguments: arguments[0],
)
def test_a_name_that_no_disk_takes_is_refused(arguments: list[str], call: Call, unchanged: Path) -> None:
    """Longer than a file's name may be, in whatever place a path is given."""
    need_refusal(call(*arguments, cwd=unchanged), 2, "too long", LONG)


def test_an_agent_of_a_long_name_is_not_known(call: Call, unchanged: Path) -> None:
    """It might be a folder's, but no folder can be called so."""
    need_refusal(call("evaluate", LONG, "--against", "bot:random", cwd=unchanged), 2, "known: matrix-1")


@pytest.mark.parametrize("arguments", [["--nothing"], ["train", "--nothing"], ["evaluate", "a"], ["fly"]])
def test_a_wrong_call_is_one_line(arguments: list[str], call: Call, tmp_path: Path) -> None:
    """Unknown options and commands and missing ones are exit code 2 and a line that says where the help is."""
    known = arguments[0] if arguments[0] in commands() else ""
    need_refusal(call(*arguments, cwd=tmp_path), 2, f"see `{' '.join(filter(None, ('league', known)))} --help`")


DUO = """
turn_steps = 256
config.pool = { snapshot_every = 128, snapshot_every_after = 128 }
learners.main.role = "main"
learners.rival.role = "league_exploiter"
"""


@pytest.mark.slow
def test_what_is_set_for_a_role_is_the_leagues_for_good(call: Call, tmp_path: Path) -> None:
    """It acts in the process that begins and in the one that resumes; another figure is another league."""
    (tmp_path / "duo.toml").write_text(DUO)
    stays = ["--set", "role.league_exploiter.min_steps=128", "--set", "role.league_exploiter.max_steps=256"]
    train = [*TRAIN, "--league", "duo.toml", "--run", "L"]
    begun = call(*train, *stays, "--learner", "main", "--quiet", cwd=tmp_path)
    assert begun.code == 0, begun.err
    need_refusal(call(*train), 2, "L.main is there with other settings")
    refused = call("resume", "L", "--set", "role.main.min_games=9")
    need_refusal(refused, 2, "role.main.min_games: a run keeps this setting")
    resumed = call("resume", "L", "--quiet")
    assert resumed.code == 0, resumed.err
    columns = "SELECT step FROM snapshot WHERE run = 'L.rival' AND is_historical AND step > 0 ORDER BY step"
    assert call("query", columns, "--json").json["rows"] == [[256], [512]]
    alone = call(*TRAIN, *stays, "--quiet")
    need_refusal(alone, 2, "--set role.league_exploiter.min_steps=128", "pass --league")
