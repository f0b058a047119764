"""What `env.strict_masks` leaves behind when it stops a run: one line, the matches so far, and a file to replay."""

import dataclasses
import hashlib
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch

import league
from league.cli import app
from league.envs import registry
from league.envs.brawl import env as brawl
from league.errors import LeagueError, UsageError
from league.play import strict
from league.policies.actor_critic import ActorCritic
from league.sessions import sizing, wiring
from league.sessions.failures import MAX_BYTES, read_evidence
from league.snapshots.state import load_state
from league.store.store import Store

ROWS = 8
SETS = [
    *("agent.opponent_encoder=false", "agent.observation_width=16", "agent.lstm_size=16", "rewards.damage_dealt=1.0"),
    *("env.time_limit_seconds=1.0", f"env.rows={ROWS}", "learner.rollout_steps=8", "learner.minibatch_size=32"),
    *("learner.epochs=1", "pool.mix.self_play=1.0", "run.evaluate_games=2", "run.total_steps=640"),
]
FLAW: dict[str, Any] = {"what": "", "at": 0}
"""How `Liar` lies: in which array, from its step number `at` on."""


class Liar:
    """A real brawl batch; after a step, one entry of row 5, seat 1, is not what the state says."""

    def __init__(self, inner: Any) -> None:
        self.inner, self.made = inner, 0
        self.spec = dataclasses.replace(inner.spec, name="liar")

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def step(self) -> None:
        """The real step, then the lie."""
        self.inner.step()
        self.made += 1
        if self.num_rows == ROWS and self.made >= FLAW["at"]:
            if FLAW["what"] == "mask":
                self.mask[5, 1, 9] ^= True
            elif FLAW["what"]:
                self.obs[5, 1, 40] += 0.25


class LiarGame:
    """Brawl whose batches are wrapped, as a game of its own."""

    Options, KEYS = brawl.Options, brawl.KEYS
    DEFAULTS: ClassVar[dict[str, Any]] = {"pool": {"mix": {"self_play": 1.0}}, "rewards": {"damage_dealt": 1.0}}
    drawing = staticmethod(lambda batch, row: brawl.drawing(batch.inner, row))

    @staticmethod
    def spec(options: Any) -> Any:
        """Brawl's, renamed."""
        return dataclasses.replace(brawl.spec(options), name="liar")

    @staticmethod
    def make(rows: int, threads: int, options: Any) -> Any:
        """A wrapped batch."""
        return Liar(brawl.make(rows, threads, options))


@pytest.fixture(autouse=True)
def _liar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry._games, "liar", LiarGame)
    monkeypatch.setitem(FLAW, "what", "")
    monkeypatch.setitem(FLAW, "at", 0)
    monkeypatch.setattr(strict, "SHARE", math.inf)  # every step is checked


def stopped(folder: Path, env: str = "liar", *more: str) -> tuple[str, Path]:
    """The line that ends a run, and the file that it names."""
    store = folder / "league.duckdb"
    with pytest.raises(LeagueError) as caught:
        league.train("smoke", env=env, run="me", device="cpu", overrides=[*SETS, *more], store=store)
    line = str(caught.value)
    assert "\n" not in line and line.count("league replay") == 1
    (path,) = (folder / "me" / "failures").iterdir()
    assert f"`league replay {path}` shows it" in line
    return line, path


@pytest.mark.parametrize(("what", "at"), [("mask", 1), ("mask", 21), ("obs", 1), ("obs", 21)])
def test_a_lie_of_the_game_stops_with_its_match_and_replays(what: str, at: int, tmp_path: Path) -> None:
    """Named by match, seed, tick and seat; a lie that follows from the state is seen again, another is not."""
    FLAW.update(what=what, at=at)
    line, path = stopped(tmp_path)
    update = (at - 1) // 8 + 1 if at % 8 else at // 8
    step = at % 10
    assert f"stopped after step {64 * (update - 1)}: strict_masks: liar, match {update}.5." in line
    assert (
        f"tick {3 * step} (step {step}), seat 1 (" in line and "; saved; go on with `league resume me --store " in line
    )
    place = "mask[9] is" if what == "mask" else "obs[40] (the opponent's, 8) is"
    assert place in line and "allowed by the mask as seen: keys " in line and ", as rebuilt: keys " in line
    found = league.replay(path)
    assert found.message in line and found.stepped == found.happens_again == (at == 1)
    (difference,) = found.differences
    assert difference.startswith(
        "seat 1: " + ("the mask allowed " if what == "mask" else "obs[40] (the opponent's, 8)")
    )
    assert what == "obs" or ("taunt" in difference.split(";")[0]) != ("taunt" in difference.split(";")[1])
    assert (found.update, found.row, found.seat, found.tick, found.illegal) == (update, 5, 1, 3 * step, ())
    assert f"seed {found.seed}, " in line and "me" in found.agents and found.seed is not None


def test_what_was_played_before_a_stop_is_stored(tmp_path: Path) -> None:
    """Matches of the rollout under way, an event and the last whole state; a resumed run plays on."""
    FLAW.update(what="mask", at=21)
    line, path = stopped(tmp_path)
    store = Store.open(tmp_path / "league.duckdb")
    played = store.matches("me", "training")
    assert len(played) == 2 * ROWS and {match.update for match in played} == {2, 3}
    (event,) = store.events("me")
    assert (event.kind, event.update, event.steps) == ("strict_masks", 2, 128) and event.message in line
    assert store.find_run("me").status == "failed"
    assert load_state(tmp_path / "me" / "state")["counters"]["steps"] == 128
    FLAW.update(what="")
    assert league.resume("me", store=store.path).status == "finished"
    assert path.exists() and [
        e for e in store.events("me") if e.kind != "replaced" and not e.kind.startswith("alarm")
    ] == [event]


def test_the_seed_is_the_matchs(tmp_path: Path) -> None:
    """The match that the line names ends, in the same run without the flaw, with that seed and that opponent."""
    (tmp_path / "sound").mkdir()
    store = tmp_path / "sound" / "league.duckdb"
    league.train("smoke", env="liar", run="me", device="cpu", overrides=SETS, store=store)
    FLAW.update(what="obs", at=25)
    (tmp_path / "flawed").mkdir()
    _, path = stopped(tmp_path / "flawed")
    found = league.replay(path)
    (same,) = [m for m in Store.open(store).matches("me", "training") if m.row == 5 and m.seed == found.seed]
    assert same.agents == found.agents and same.update in (found.update, found.update + 1)


@pytest.mark.parametrize("role", ["learner", "opponent"])
def test_an_illegal_action_of_a_policy_stops_and_replays(
    role: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In unwrapped brawl, whoever played it; the keys pressed and those allowed are in the replay by name."""
    whole: Callable[..., Any] = ActorCritic.step
    calls = []

    def press_everything(self: ActorCritic, obs: torch.Tensor, state: Any, **more: Any) -> Any:
        action, log_prob, value = whole(self, obs, state, **more)
        is_learner = any(p.requires_grad for p in self.parameters())
        calls.append(is_learner)
        if calls.count(True) > 4 and is_learner == (role == "learner"):
            action = torch.ones_like(action)
        return action, log_prob, value

    monkeypatch.setattr(sizing, "_step_peak", lambda *given: 0)  # which takes steps of its own
    monkeypatch.setattr(ActorCritic, "step", press_everything)
    monkeypatch.setattr(wiring, "make_stack", lambda *given: None)
    line, path = stopped(tmp_path, "brawl", "pool.mix.bot:based=0.0", "pool.mix.bot:constant=0.0")
    who = {"learner": "the learner", "opponent": "its opponent"}[role]
    assert f"({who}): action [1, 1, 1, 1, 1, 1, 1, 1, 1, 1] is not legal; allowed by the mask as seen: keys" in line
    found = league.replay(path)
    assert found.happens_again and found.differences == () and found.stepped
    assert any(f"seat {found.seat}: action keys up left down right jump pickup" in text for text in found.illegal)


def test_a_replay_draws_the_match(tmp_path: Path) -> None:
    """A still of the moment, or a film of it and the step before."""
    pytest.importorskip("PIL")
    from PIL import Image

    FLAW.update(what="obs", at=21)
    _, path = stopped(tmp_path)
    league.replay(path, tmp_path / "a.png")
    league.replay(path, tmp_path / "a.gif")
    with Image.open(tmp_path / "a.png") as still, Image.open(tmp_path / "a.gif") as film:
        assert still.size == (960, 540) and film.n_frames == 2
    with pytest.raises(UsageError, match="is there already"):
        league.replay(path, tmp_path / "a.png")


def test_the_command_prints_what_the_function_gives(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`league replay FILE`: the line of then, the differences, and whether it happens again; --json the same."""
    FLAW.update(what="mask", at=1)
    _, path = stopped(tmp_path)
    found = league.replay(path)
    app(["replay", str(path)], standalone_mode=False)
    lines = capsys.readouterr().out.splitlines()
    assert lines == [
        found.message,
        *found.differences,
        "the step before, made once more, leads there again",
        "it happens again",
    ]
    app(["replay", str(path), "--json"], standalone_mode=False)
    assert json.loads(capsys.readouterr().out)["differences"] == list(found.differences)


def damage(path: Path, kind: str) -> None:
    """Spoils a file in one way."""
    data = path.read_bytes()
    head = json.loads(data)
    if kind == "cut":
        path.write_bytes(data[:-100])
    elif kind == "flipped":
        place = data.index(b'"state"') + 2_000
        path.write_bytes(data[:place] + (b"A" if data[place : place + 1] != b"A" else b"B") + data[place + 1 :])
    elif kind == "edited":
        head["evidence"]["tick"] += 1
        path.write_text(json.dumps(head))
    elif kind == "gone":
        path.unlink()
    elif kind == "folder":
        path.unlink()
        path.mkdir()
    elif kind == "huge":
        with path.open("r+b") as file:
            file.truncate(MAX_BYTES + 1)
    elif kind == "deep":
        path.write_text("[" * 100_000)
    else:  # a whole file of something else
        found = head["evidence"]
        if kind == "format":
            head["format"] = 99
        elif kind == "state":
            found["state"] = "AAAA" * 10
        elif kind == "rows":
            found["rows"] = 2**20
        elif kind == "row":
            found["batch_row"] = 10**9
        elif kind == "seat":
            found["seat"] = 2
        elif kind == "more":
            found["run_this"] = "rm"
        elif kind == "shape":
            found["seen"]["obs"] = [[0.0]]
        text = json.dumps(found, sort_keys=True, separators=(",", ":"))
        path.write_text(json.dumps({**head, "sha256": hashlib.sha256(text.encode()).hexdigest()}))


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A sound file."""
    patch = pytest.MonkeyPatch()
    with patch.context() as p:
        p.setitem(registry._games, "liar", LiarGame)
        p.setattr(strict, "SHARE", math.inf)
        p.setitem(FLAW, "what", "mask")
        p.setitem(FLAW, "at", 1)
        return stopped(tmp_path_factory.mktemp("run"))[1].read_bytes()


KINDS = (
    "cut",
    "flipped",
    "edited",
    "gone",
    "folder",
    "huge",
    "deep",
    "format",
    "state",
    "rows",
    "row",
    "seat",
    "more",
    "shape",
)


@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_file_is_refused(kind: str, written: bytes, tmp_path: Path) -> None:
    """One line with the path and why; nothing is played."""
    path = tmp_path / "x.json"
    path.write_bytes(written)
    FLAW.update(what="mask", at=1)
    assert league.replay(path).happens_again
    damage(path, kind)
    with pytest.raises(LeagueError, match=r"x\.json: ") as caught:
        league.replay(path)
    assert "\n" not in str(caught.value)


def test_a_file_of_another_version_of_the_game_is_refused(written: bytes, tmp_path: Path) -> None:
    """States mean nothing to another version: it says which league to take."""
    path = tmp_path / "x.json"
    head = json.loads(written)
    head["evidence"]["game"]["game_id"] = "0" * 16
    text = json.dumps(head["evidence"], sort_keys=True, separators=(",", ":"))
    path.write_text(json.dumps({**head, "sha256": hashlib.sha256(text.encode()).hexdigest()}))
    with pytest.raises(UsageError, match="liar version 2"):
        league.replay(path)


def test_a_file_has_all_that_was_seen(written: bytes, tmp_path: Path) -> None:
    """Both seats' observations, masks and actions, and both states, as the game takes them back."""
    path = tmp_path / "x.json"
    path.write_bytes(written)
    found = read_evidence(path)
    assert np.shape(found.seen.obs) == (2, 64) and np.shape(found.seen.mask) == (2, 10)
    assert np.shape(found.seen.actions) == (2, 10)
    assert found.before is not None and np.shape(found.before.actions) == (ROWS, 2, 10)
    assert found.game.options["time_limit_seconds"] == 1.0 and (found.rows, found.batch_row) == (ROWS, 5)
