"""Replays: matches as actions alone, played back bit for bit, kept by evaluations, refused where they do not fit."""

import base64
import json
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import league
from league import config
from league.arena import replays
from league.arena.replays import Playback, parse
from league.cli import main
from league.envs import Match, registry
from league.errors import LeagueError, UsageError
from league.play.recording import FORMAT, Tape, body_hash, pack, unpack
from league.play.seats import match_result
from league.snapshots.manifest import GameRecord
from league.store.store import Store
from league.types import ActionSpec, Turns
from tests.helpers.games import forget, times_run, write_game
from tests.helpers.matches import Grid
from tests.helpers.sizes import SMALL

GAMES = ("brawl", "cards", "matrix", "kuhn", "leduc")


class Nim(Match):
    """Who takes the last of 7 to 12 stones wins; a game in turns, with chance and real numbers beside the choice."""

    action = ActionSpec("mixture", parts=(ActionSpec("multi_discrete", (3,)), ActionSpec("box", bounds=((-1.0, 1.0),))))
    obs_size, obs_range, public_actions = 2, (-1.0, 12.0), True

    def reset(self, rng: np.random.Generator) -> None:
        """Who begins is drawn."""
        self.stones, self.said = int(rng.integers(7, 13)), 0.0
        self.to_move = int(rng.integers(2))

    def observe(self, seat: int) -> Any:
        """The stones, and what was said last."""
        return [self.stones, self.said]

    def legal(self, seat: int) -> Any:
        """No more stones than there are."""
        return list(range(min(3, self.stones))), None

    def play(self, action: Any) -> None:
        """Takes stones."""
        take, (self.said,) = action
        self.stones -= take + 1
        seat, self.to_move = self.to_move, 1 - (self.to_move or 0)
        if self.stones == 0:
            self.end(seat)


@pytest.fixture(params=[*GAMES, "grid", "nim"])
def game(request: pytest.FixtureRequest) -> str:
    """A game by its name."""
    if request.param in GAMES:
        return str(request.param)
    return registry.adopt(Grid if request.param == "grid" else Nim, request.param)


def random_match(game: str, seed: int, bots: tuple[str | None, str | None] = (None, None)) -> tuple[str, list[bytes]]:
    """A match of random legal actions, or a bot's: its replay's text, and all observations, written down by hand."""
    options = registry.check_options(game, config.load(env=game).env.options if game in GAMES else {})
    spec, rng, seen = registry.spec(game, options), np.random.default_rng(seed), []
    batch = registry.make(game, rows=1, threads=1, options=options)
    batch.controllers[0] = [-1 if bot is None else spec.bots.index(bot) for bot in bots]
    batch.reset(seed)
    tape, sums = Tape(batch, 0), np.zeros(batch.reward_terms[0].shape)
    while True:
        numbers = rng.random((1, 2, spec.action.num_draws))
        mask = batch.mask
        if isinstance(batch, Turns) and mask is not None:  # who waits has a mask that means nothing
            mask = np.where(batch.to_act[..., None], mask, mask[:, ::-1])
        batch.actions[:] = spec.action.legal_actions(mask, numbers)
        seen.append(batch.obs.tobytes())
        tape.before()
        batch.step()
        tape.after()
        sums += batch.reward_terms[0]
        if batch.terminated[0] or batch.truncated[0]:
            seen.append(batch.final_obs.tobytes() + batch.result.tobytes())
            break
    record = GameRecord.of(spec, registry.game_id(game, options), options, registry.source(game))
    result = match_result(
        batch, 0, sums, run="r", kind="evaluation", update=0, ordinal=0, game_id=record.game_id,
        agents=("a", "b"), steps=tape.steps, sampling="sample",
    )  # fmt: skip
    return tape.written(record.model_dump(mode="json"), result, ("A", "B")), seen


def test_a_match_is_played_back_bit_for_bit(game: str) -> None:
    """From its file alone: every observation, the result, and the hash; in seats of nets and of bots, in any game."""
    spec = registry.spec(game, {})
    for seed, bots in enumerate([(None, None), (None, spec.bots[-1]), (spec.bots[0], None)]):
        text, seen = random_match(game, seed, bots)
        playback = Playback(parse(text, "f"), "f")
        found: list[bytes] = []
        batch: Any = None
        for moment in playback.moments():
            batch = moment.batch
            found.append(batch.obs.tobytes())
        found.append(batch.final_obs.tobytes() + batch.result.tobytes())
        assert found == seen and playback.is_exact


@pytest.mark.parametrize(
    "spec",
    [
        ActionSpec("multi_binary", (2,) * 10),
        ActionSpec("multi_discrete", (3, 256)),
        ActionSpec("discrete", (362,)),
        ActionSpec("multi_discrete", (70_000,)),
        ActionSpec("box", bounds=((-1.0, 1.0), (0.0, 360.0))),
    ],
    ids=["bits", "bytes", "two bytes", "four bytes", "floats"],
)
def test_packing_loses_nothing(spec: ActionSpec) -> None:
    """Actions of every kind, none and many, the least and the greatest, come back with their type."""
    rng = np.random.default_rng(0)
    for count in (0, 1, 13):
        actions = spec.legal_actions(None, rng.random((count, spec.num_draws)))
        packed = pack(list(actions), spec)
        back = unpack(packed["data"], packed["packed"], count, spec)
        assert back.dtype == spec.dtype and np.array_equal(back, actions.reshape(count, spec.num_parts))
    if not spec.has_real:
        most = [np.array(spec.choices) - 1]
        packed = pack(most, spec)
        assert np.array_equal(unpack(packed["data"], packed["packed"], 1, spec)[0], most[0])


def test_no_more_is_unpacked_than_the_decisions_take() -> None:
    """A file that would blow up to a gigabyte is refused before it does."""
    bomb = base64.b64encode(zlib.compress(bytes(10**8), 9)).decode()
    spec = ActionSpec("multi_binary", (2,) * 10)
    with pytest.raises(ValueError, match="not those of 8 decisions"):
        unpack(bomb, "bits", 8, spec)


def changed(text: str, change: Callable[[dict[str, Any]], object]) -> str:
    """A replay whose content somebody changed, with the hash that it has then."""
    head = json.loads(text)
    change(head["match"])
    head["sha256"] = body_hash(head["match"])
    return json.dumps(head)


def refused(text: str) -> str:
    """The line by which a replay is refused."""
    with pytest.raises(LeagueError) as error:
        Playback(parse(text, "f.replay"), "f.replay").play()
    assert "\n" not in str(error.value) and str(error.value).startswith("f.replay: ")
    return str(error.value)


def test_what_is_no_replay_is_one_line() -> None:
    """Damage, other files, other versions and impossible contents: each names the file, the rule and what to do."""
    text, _ = random_match("matrix", 0)
    assert "it is no replay" in refused("{}") and "damaged" in refused("no json") and "damaged" in refused(text[:-9])
    assert "sha256 differs" in refused(text.replace('"steps":', '"steps": 1'))
    assert f"this league reads {FORMAT}" in refused(text.replace(FORMAT, "league replay 2"))
    assert "seats" in refused(changed(text, lambda m: m["seats"].pop()))
    assert "needs either actions or a bot" in refused(changed(text, lambda m: m["seats"][0].update(bot="biased")))
    assert "steps" in refused(changed(text, lambda m: m.update(steps=10**9)))
    hostile = refused(changed(text, lambda m: m["game"].update(name="x\x1b[2J\ny")))
    assert "\x1b" not in hostile


def test_a_replay_of_another_version_is_refused() -> None:
    """It says both versions; so does one of other options."""
    text, _ = random_match("matrix", 0)
    line = refused(changed(text, lambda m: m["game"].update(version=7, game_id="0" * 16)))
    assert "version 7" in line and "this league's is version 1" in line and "play it with the league" in line
    assert "version 1" in refused(changed(text, lambda m: m["game"]["options"].update(rounds=3)))


def test_a_match_that_the_game_plays_otherwise_is_refused() -> None:
    """Another seed, another end, an action too few or too many, and one that does not exist."""
    text, _ = random_match("matrix", 0, (None, "random"))
    steps = json.loads(text)["match"]["steps"]
    for change in (
        lambda m: m.update(winner=(m["winner"] + 2) % 3 - 1),
        lambda m: m.update(end_reason="cut"),
        lambda m: m.update(steps=steps - 1),
        lambda m: m.update(steps=steps + 1),
    ):
        assert "plays another match here" in refused(changed(text, change))
    high = pack([np.array([200])] * steps, ActionSpec("multi_discrete", (256,)))
    assert "plays another match" in refused(changed(text, lambda m: m["seats"][0].update(actions=high)))
    other = parse(changed(text, lambda m: m.update(digest="0" * 64)), "f")
    playback = Playback(other, "f")
    assert not playback.play().is_exact


def test_the_code_of_a_strangers_game_never_runs_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A replay names its game's file and hash; that code runs only once this user has named it."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "theirs"))
    path = write_game(tmp_path / "game" / "game.py")
    found = league.watch("bot:random", "bot:biased", tmp_path / "m.replay", env=str(path))
    assert found.winner and times_run(path.parent) == 1
    try:
        forget()
        monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "ours"))
        with pytest.raises(UsageError, match="was never named here by you"):
            league.replay(tmp_path / "m.replay")
        assert times_run(path.parent) == 1
        played = league.replay(tmp_path / "m.replay", env=str(path))
        assert isinstance(played, replays.PlaybackResult) and played.is_exact
    finally:
        forget()


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with a run of 128 steps that was evaluated, and climbed the ladder."""
    path = tmp_path_factory.mktemp("store") / "league.duckdb"
    sets = (*SMALL, "run.total_steps=256", "pool.snapshot_every=128", "run.evaluate_every=256", "run.ladder_share=1.0")
    league.train("smoke", env="matrix", device="cpu", overrides=sets, store=path)
    return path


def test_every_payoff_cell_has_a_replay(store: Path) -> None:
    """Every two agents that met in an evaluation have a match that can be watched, with its row's key and outcome."""
    league.evaluate("matrix-1@0", "bot:biased", 2, store=store, device="cpu")
    opened = Store.open(store)
    game_id = next(iter(opened.games()))
    pairs = {tuple(sorted(pair[:2])) for pair in opened.payoff(game_id)}
    kept = opened.replays(game_id=game_id)
    assert pairs and {tuple(sorted((row.seat0_agent, row.seat1_agent))) for row in kept} == pairs
    rows = {(m.run, m.update, m.row, m.ordinal): m for run in {row.run for row in kept}
            for m in opened.matches(run, "evaluation")}  # fmt: skip
    for row in kept:
        match, played = rows[row.run, row.update, row.row, row.ordinal], Playback(parse(row.content, "f"), "f")
        assert played.play().is_exact and played.replay.seed == match.seed and played.replay.winner == match.winner
        assert [seat.agent for seat in played.replay.seats] == [row.seat0_agent, row.seat1_agent] == list(match.agents)
        assert opened.replays(agents=(row.seat1_agent, row.seat0_agent), last=1)[0].game_id == game_id
    assert opened.replays("matrix-1") and not opened.replays("nobody")


def test_replay_says_what_it_played(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`league watch --out NAME.replay` writes one, `league replay` plays it back and says that it is the same."""
    out = tmp_path / "m.replay"
    for words, code in (
        (["watch", "bot:based", "bot:rusher", "--out", str(out), "--quiet"], 0),
        (["replay", str(out)], 0),
        (["replay", str(out), "--json"], 0),
        (["replay", str(tmp_path / "none.replay")], 1),
    ):
        monkeypatch.setattr("sys.argv", ["league", *words])
        with pytest.raises(SystemExit) as exit_:
            main()
        assert int(exit_.value.code or 0) == code
    said, err = capsys.readouterr()
    assert "played back bit for bit" in said and "bot:based against bot:rusher" in said
    assert '"is_exact": true' in said and "none.replay: No such file" in err
