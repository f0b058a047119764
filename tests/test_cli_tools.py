"""The command line's own tools: help, counts, completion, lists of what there is, doctor and selftest."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from league.commands import doctor, selftest
from league.envs import registry
from league.types.schema import MAX_COUNT, count_of
from tests.helpers.commands import call, commands, need_refusal
from tests.test_cli import ROOT, copied, here, trained, unchanged

__all__ = ["copied", "here", "trained", "unchanged"]


def test_help_has_five_panels_with_every_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """In their order, each command once; `-h` is `--help`, everywhere."""
    import league

    monkeypatch.setenv("COLUMNS", "100")
    shown = call("-h")
    assert shown.code == 0 and shown.out == call("--help").out
    panels = [line.split()[1] for line in shown.out.splitlines() if line.startswith("╭─")]
    assert panels == ["Options", "Train", "Compare", "Look", "Manage", "Diagnose"]
    listed = [line.split()[1] for line in shown.out.splitlines() if line.startswith("│ ") and line[2] not in " -"]
    assert sorted(listed) == sorted({name.split()[0] for name in commands()})
    assert call("bench", "env", "-h").out == call("bench", "env", "--help").out
    assert call("--version").out == f"league {league.__version__}\n"


@pytest.mark.parametrize(
    ("text", "count"),
    [("300k", 300_000), ("1.5M", 1_500_000), ("2_000_000", 2_000_000), ("0", 0), ("0.001k", 1), ("10m", 10**7), (7, 7)],
)
def test_counts_are_what_people_write(text: str | int, count: int) -> None:
    """Thousands, millions, underscores; a fraction that comes to a whole number."""
    assert count_of(text) == count


@pytest.mark.parametrize("text", ["", "k", "1.5", "1.0001k", "-1", "1e6", "3G", "1,000", "0x10", "9" * 50])
def test_what_is_no_count_is_one_line(text: str, here: Path) -> None:
    with pytest.raises(ValueError, match=f"from 0 to {MAX_COUNT:,}; "):
        count_of(text)
    need_refusal(call("train", f"--steps={text}"), 2, "--steps", "300k")
    need_refusal(call("evaluate", "a", "--against", "b", f"--games={text}"), 2, "--games", "300k")


def test_counts_serve_in_settings_too(here: Path) -> None:
    """Names that look like counts remain names."""
    shown = call("settings", "--env", "matrix", "--set", "run.total_steps=300k", "--set", "run.continues=10m").out
    assert "total_steps = 300000" in shown and 'continues = "10m"' in shown


# Completion


def offered(monkeypatch: pytest.MonkeyPatch, line: str) -> list[str]:
    """What bash is given for the last word of a line, cut as bash cuts it, and put together again; nothing is said."""
    words = [piece for word in line.split(" ") for piece in re.findall(r"[:=@]+|[^:=@]+", word) or [""]]
    before = re.sub(r"[^:=@]*$", "", line.split(" ")[-1])
    with monkeypatch.context() as patch:
        patch.setenv("_LEAGUE_COMPLETE", "complete_bash")
        patch.setenv("COMP_WORDS", " ".join(words))
        patch.setenv("COMP_CWORD", str(len(words) - 1))
        called = call()
    assert called.err == ""
    return [before + word for word in called.out.split()]


OFFERED = {
    "league resume ": "matrix-1 other",
    "league evaluate mat": "matrix-1",
    "league evaluate matrix-1@": " ".join(f"matrix-1@{x}" for x in ("best", 512, 384, 256, 128, 0)),
    "league watch --env kuhn bot:": "bot:fold bot:call bot:random bot:nash",
    "league train --set learner.g": "learner.gamma= learner.gae_lambda=",
    "league train --set learner.precision=": " ".join(f"learner.precision={x}" for x in ("float32", "highest", "bf16")),
    "league train --env kuhn --set env.bl": "env.bluff=",
    "league resume matrix-1 --set agent.": "",  # a run keeps these
    "league resume matrix-1 --at ": "128 512",
    "league check ku": "kuhn",
    "league settings lea": "learner",
    "league train --stage ": "smoke test50k 10m",
    "league snapsh": "snapshots",
}


@pytest.mark.parametrize("line", OFFERED)
def test_a_shell_is_offered_agents_runs_and_settings(
    line: str, unchanged: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert offered(monkeypatch, line) == OFFERED[line].split()


def test_completion_is_silent_and_light(copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that is absent or damaged says nothing; neither torch nor duckdb is loaded; each shell gets its form."""
    assert offered(monkeypatch, "league resume --store nowhere ") == []
    (copied / "runs" / "other" / "run.json").write_bytes(b"no run")
    assert offered(monkeypatch, "league resume m") == ["matrix-1"]
    code = (
        "import sys; from league.cli import main; sys.argv = ['league']\n"
        "try: main()\n"
        "except SystemExit as e: assert not e.code\n"
        "assert not {'torch', 'duckdb'} & sys.modules.keys()"
    )
    line = "league evaluate matrix-1@b"
    forms = {
        "complete_bash": {"COMP_WORDS": line, "COMP_CWORD": "2"},
        "complete_zsh": {"_TYPER_COMPLETE_ARGS": line},
        "complete_fish": {"_TYPER_COMPLETE_ARGS": line, "_TYPER_COMPLETE_FISH_ACTION": "get-args"},
    }
    for shell, words in forms.items():
        environment = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "_LEAGUE_COMPLETE": shell, **words}
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
        assert done.returncode == 0 and "matrix-1@best" in done.stdout and not done.stderr, (shell, done)


def test_completion_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the option of typer, which leaves by itself."""
    monkeypatch.setattr("typer.completion._get_shell_name", lambda: "bash")
    done = call("--show-completion")
    assert (done.code, done.err) == (0, "") and "_LEAGUE_COMPLETE=complete_bash" in done.out


# Lists of what there is


def test_settings_say_what_sees_the_observation() -> None:
    """Below `torso`, in its section and as JSON: its layers, their sizes, and how many actions point at cells."""
    pytest.importorskip("pyspiel")
    board = "board of 5 x 6 x 3 through 3 convolutions of 16 channels, the last on 5 x 6 cells"
    given = ("--env", "openspiel:clobber", "--agent", "small")
    assert f'torso = "auto"\n# {board}; 120 of 120 logits point at elements\n' in call("settings", *given).out
    one = call("settings", "agent.torso", *given, "--json").json["settings"][0]
    assert one["value"] == "auto" and one["note"].startswith(board)
    assert "# mlp: 92 numbers to 64 features\n" in call("settings", *given, "--set", "agent.torso=mlp").out


def test_settings_are_explained_with_bounds(copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A section, one setting, a game's options and reward terms, a run's values; what there is not is named."""
    monkeypatch.setenv("COLUMNS", "240")
    section = call("settings", "learner", "--set", "learner.clip=0.3").out
    assert "0.3" in section and "probability ratio. [a number above 0 and below 1; may move" in section
    one = call("settings", "env.bluff", "--env", "kuhn", "--json").json["settings"]
    assert [(x["name"], x["value"]) for x in one] == [("env.bluff", 0.2)] and "0.333333" in one[0]["allowed"]
    assert "Seat 0's payoff" in call("settings", "env", "--run", "matrix-1").out
    assert "rewards.win" in {x["name"] for x in call("settings", "rewards", "--json").json["settings"]}
    need_refusal(call("settings", "learner.clipp"), 2, "`clip`")
    need_refusal(call("settings", "lerner"), 2, "is no section (agent, learner,", "no run `lerner` in runs")
    need_refusal(call("settings", "lerner", "--store", "none"), 2, "is no section (agent, learner,", "no store")
    need_refusal(call("settings", "matrix-1", "--stage", "smoke"), 2, "stage='smoke'")
    need_refusal(call("settings", "learner", "--run", "matrix-1", "--preset", "fast"), 2, "preset=")


def test_games_and_bots_are_listed(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each game with its bots, each bot with what it does, as table and as JSON."""
    own = {name: game for name, game in registry._games.items() if name in registry._OURS}
    monkeypatch.setattr(registry, "_games", own)  # without those that other tests opened
    games = {x["name"]: x for x in call("games", "--json").json["games"]}
    assert {"brawl", "cards", "matrix", "kuhn", "leduc"} <= games.keys() and games["brawl"]["anchor"] == "based"
    bots = call("bots", "--json").json["bots"]
    assert {x["bot"] for x in bots if x["game"] == "kuhn"} == {f"bot:{name}" for name in games["kuhn"]["bots"]}
    assert [x["bot"] for x in bots if not x["meaning"]] == []
    shown = call("bots", "kuhn").out
    assert "bot:nash" in shown and "brawl" not in shown
    need_refusal(call("bots", "kuhm"), 2, "kuhm")


# Doctor


def test_doctor_finds_nothing_broken_and_names_next_steps(unchanged: Path) -> None:
    """Exit code 0; what is not well says what to do; nothing is changed."""
    called = call("doctor", "--json")
    findings = called.json["findings"]
    assert called.code == 0 and {x["health"] for x in findings} <= {"well", "note"}
    assert all(bool(x["next"]) == (x["health"] != "well") for x in findings)
    assert {"versions", "networks", "threads", "CUDA", "memory", "disk", "store"} <= {x["about"] for x in findings}
    assert call("doctor").code == 0
    (unchanged / "exported").mkdir(exist_ok=True)
    assert "exported has no run yet" in call("doctor", "--store", "exported").out


@pytest.mark.parametrize(
    "kind", ["identity", "rows", "state", "swapped", "no snapshots", "no weights", "no manifest", "no bit"]
)
def test_doctor_exits_1_where_something_is_broken(kind: str, copied: Path) -> None:
    """Damage, another run's folder, and files that are gone: one finding each, with what to do."""
    run = copied / "runs" / "matrix-1"
    if kind == "identity":
        (run / "run.json").write_bytes(b"no run at all")
    elif kind == "rows":
        max((run / "rows").glob("metric-*")).write_bytes(b"no rows at all")
    elif kind == "swapped":
        shutil.rmtree(run)
        shutil.copytree(copied / "runs" / "other", run)
    elif kind in ("state", "no snapshots"):
        shutil.rmtree(run / kind.removeprefix("no "))
    elif kind == "no bit":
        weights = max(run.glob("snapshots/*/weights*"))
        weights.write_bytes(weights.read_bytes()[:-1] + b"?")
    else:
        min(run.glob(f"snapshots/*/{kind.removeprefix('no ')}*")).unlink()
    called = call("doctor", "--json")
    broken = [x for x in called.json["findings"] if x["health"] == "broken"]
    assert called.code == 1 and len(broken) == 1 and broken[0]["next"], broken
    assert "matrix-1" in broken[0]["about"] + broken[0]["found"]
    assert kind[:3] != "no " or "cannot play" in broken[0]["found"]


@pytest.mark.parametrize(("built", "word"), [(None, "CUDA build"), ("13.0", "update the driver"), ("broken", "")])
def test_doctor_tells_why_a_gpu_is_not_used(
    built: str | None, word: str, unchanged: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A build for CPUs, or a driver that is too old; a check that itself fails is broken, and the others are made."""
    monkeypatch.setattr(doctor.shutil, "which", lambda name: f"/bin/{name}")
    monkeypatch.setattr("torch.cuda.is_available", lambda: {}[built] if built == "broken" else False)
    monkeypatch.setattr("torch.version.cuda", built)
    called = call("doctor", "--json")
    [finding] = [x for x in called.json["findings"] if x["about"] == "CUDA"]
    assert (finding["health"], called.code) == (("note", 0) if word else ("broken", 1)) and word in finding["next"]
    assert "store" in {x["about"] for x in called.json["findings"]}


def test_doctor_holds_each_library_to_its_versions(unchanged: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By number, whatever build it is; what an extra or another system needs does not count."""
    has = {"torch": "2.13.0+cpu", "numpy": "2.14.0", "duckdb": "1.4"}
    rules = ["torch<2.14,>=2.6", "numpy<2.14,>=2.6", "duckdb>=1.4,<3", 'absent; extra == "play"']
    monkeypatch.setattr(doctor, "requires", lambda name: [*rules, 'absent; os_name == "x"'])
    monkeypatch.setattr(doctor, "version", has.__getitem__)
    well, broken = [x for x in call("doctor", "--json").json["findings"] if x["about"] == "versions"]
    assert all(f"{name} {number}" in well["found"] for name, number in has.items())
    assert broken["found"] == "numpy 2.14.0 is not <2.14,>=2.6" and broken["health"] == "broken"


# Selftest


@pytest.mark.slow
def test_selftest_tells_wrong_answers_from_other_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hash that nobody knows is exit code 0, and training is not shown; another game is exit code 1."""
    monkeypatch.setattr(selftest, "STEPS", 512)
    monkeypatch.setattr(selftest, "SETTINGS", (*selftest.SETTINGS, "run.allow_short=true"))
    well = call("selftest", "--json")
    outcomes = {x["name"]: x["outcome"] for x in well.json["checks"]}
    assert well.code == 0 and well.json["is_well"] and outcomes.pop("learning") == "other bits"
    assert set(outcomes.values()) == {"passed"} and len(well.err.splitlines()) == 1 + len(outcomes)
    monkeypatch.setattr(selftest, "_learning", lambda: ("other bits", "no hash is known here"))
    monkeypatch.setitem(selftest.GAMES, "kuhn", "0" * 64)
    wrong = call("selftest")
    failed = [line.split()[1] for line in wrong.out.splitlines() if line.startswith("failed  ")]
    assert wrong.code == 1 and failed == ["games"] and "kuhn gives" in wrong.out


def test_games_known_hashes_are_those_of_the_oracles(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is known of compiled games is what plain Python plays."""
    from league.envs.brawl import brawl
    from league.envs.cards import cards
    from tests.oracles.brawl.batch import ReferenceBatch as Brawl
    from tests.oracles.cards.batch import ReferenceBatch as Cards

    monkeypatch.setattr(brawl, "BrawlBatch", Brawl)
    monkeypatch.setattr(cards, "CardsBatch", Cards)
    for name in ("brawl", "cards"):
        assert selftest._played(name) == selftest.GAMES[name]


@pytest.mark.slow
def test_selftest_passes() -> None:
    """All of it, the runs that are stopped, extended and gone back in too."""
    called = call("selftest")
    assert called.code == 0, called.out
