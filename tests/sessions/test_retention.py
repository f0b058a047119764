"""Which snapshots keep their files: the rule against its definition, and pruning of real runs on disk."""

import math
import shutil
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import league
from league.arena.agents import find_agent
from league.boards.naming import best_snapshot
from league.errors import StoreError, UsageError
from league.sessions import retention
from league.sessions.retention import holdings, milestones, prune, reasons_to_stay
from league.snapshots.kept import keep_newest
from league.store.rows import GateRow
from tests.helpers.stores import Filled, make_gate

SMALL = (
    *("env.rows=8", "learner.rollout_steps=16", "learner.minibatch_size=64"),
    *("run.evaluate_games=2", "pool.snapshot_every=128", "pool.snapshot_every_after=128"),
)
STEPS = st.lists(st.integers(1, 10**7), max_size=150, unique=True).map(lambda steps: [0, *sorted(steps)])


def train(folder: Path, *more: str, **arguments: Any) -> str:
    """The name of a tiny matrix run whose store is in `folder`."""
    sets = (*SMALL, *more)
    return league.train(
        "smoke", env="matrix", device="cpu", overrides=sets, store=folder, preset="fast", **arguments
    ).run


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a finished run `matrix-1` of 17 snapshots; nobody may change it."""
    folder = tmp_path_factory.mktemp("trained")
    train(folder, "run.total_steps=2048")
    return folder


@pytest.fixture
def store(trained: Path, tmp_path: Path) -> Filled:
    """The store of a copy of `trained`, to change."""
    return Filled.open(shutil.copytree(trained, tmp_path / "runs"))


def on_disk(store: Filled, run: str = "matrix-1") -> list[int]:
    """The steps of the snapshots whose folders are there."""
    return sorted(int(path.name) for path in (store.path / run / "snapshots").iterdir())


def row_at(store: Filled, step: int) -> Any:
    """The snapshot of that step."""
    return next(row for row in store.snapshots("matrix-1") if row.step == step)


def files_below(folder: Path) -> dict[str, bytes]:
    """Every file below a folder with its content."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# The rule


@settings(deadline=None)
@given(steps=STEPS, keep=st.integers(1, 40), data=st.data())
def test_the_rule_keeps_the_protected_and_little_else(steps: list[int], keep: int, data: st.DataObject) -> None:
    """The protected, the first, the newest and every milestone stay; the rest is one in each octave of ages."""
    protected = data.draw(st.sets(st.sampled_from(steps)))
    why = reasons_to_stay(steps, keep, dict.fromkeys(protected, ("mine",)))
    assert protected | {steps[0], *steps[-keep:]} | milestones(steps) <= set(why)
    assert all(("mine" in why[step]) == (step in protected) for step in why)
    bound = keep + math.log2(len(steps)) + 3 * math.log10(max(10, steps[-1])) + 5
    assert len(why.keys() - protected) <= bound
    octave = 1
    while octave < len(steps):  # the ages octave to 2 * octave - 1, counted out
        of_octave = [len(steps) - 1 - age for age in range(octave, min(2 * octave, len(steps)))]
        spaced = [place for place in of_octave if place % octave == 0]
        assert len(spaced) <= 1 and (spaced or 2 * octave > len(steps))
        assert all(steps[place] in why for place in spaced)
        rest = {steps[place] for place in of_octave} - {steps[place] for place in spaced}
        expected = {*steps[-keep:], *milestones(steps), *protected, steps[0]}
        assert rest & set(why) == rest & expected
        octave *= 2


@settings(deadline=None)
@given(steps=STEPS, keep=st.integers(1, 10))
def test_pruning_often_leaves_what_pruning_once_does(steps: list[int], keep: int) -> None:
    """Whoever prunes after every snapshot has in the end the same files as who prunes at the end, and again then."""
    left: set[int] = set()
    for count in range(1, len(steps) + 1):
        left = (left | {steps[count - 1]}) & set(reasons_to_stay(steps[:count], keep, {}))
    assert left == set(reasons_to_stay(steps, keep, {}))


def test_milestones_are_counted_out() -> None:
    """The first snapshot at or past each of 1, 2, 5, 10, ... steps: by hand, with marks that fall between."""
    assert milestones([0, 5000, 10_240, 15_000, 20_000, 25_000, 49_000, 51_000]) == {5000, 10_240, 20_000, 51_000}
    assert milestones([0]) == milestones([]) == set()


def test_the_rule_by_hand() -> None:
    """16 later snapshots: the places 15, 14, 12, 8 and 0 are the multiples of 1, 2, 4, 8 and 16 in their octaves."""
    steps = [0, *range(30_001, 30_017)]
    why = reasons_to_stay(steps, 1, {30_005: ("champion",)})
    assert why == {
        0: ("first",),
        30_001: ("milestone",),
        30_005: ("champion",),
        30_008: ("spaced",),
        30_012: ("spaced",),
        30_014: ("spaced",),
        30_015: ("spaced",),
        30_016: ("newest",),
    }


# Real runs


def test_pruning_deletes_files_and_keeps_rows(store: Filled) -> None:
    """The folders that the rule does not keep go, all rows stay, ratings do not move, and the rest still plays."""
    rows, ratings = store.snapshots("matrix-1"), league.leaderboard(store=store.path).boards
    best = best_snapshot(store, "matrix-1")
    (dry,) = prune(store, "matrix-1", 3, is_dry=True)
    assert len(on_disk(store)) == 17
    (done,) = prune(store, "matrix-1", 3)
    assert (done.goes, done.stays) == (dry.goes, dry.stays) and done.num_bytes > 0
    left = on_disk(store)
    assert left == [holding.step for holding in done.stays] and {0, 1792, 1920, 2048} <= set(left)
    assert {384, 640, 1664} & set(left) <= {row.step for row in rows if row.agent_id == best}
    after = store.snapshots("matrix-1")
    assert [row.agent_id for row in after] == [row.agent_id for row in rows]
    assert [row.step for row in after if row.pruned_at] == [holding.step for holding in done.goes]
    assert league.leaderboard(store=store.path).boards == ratings
    assert best_snapshot(store, "matrix-1") == best
    league.load("matrix-1@best", store=store.path)
    league.load("matrix-1", store=store.path)
    again = prune(store, "matrix-1", 3)
    assert not again[0].goes and on_disk(store) == left


def test_a_pruned_agent_is_rated_but_does_not_play(store: Filled) -> None:
    """It is refused by name in every command that loads it, while `matchup` still knows it."""
    (done,) = prune(store, "matrix-1", 1)
    step = done.goes[-1].step
    row = row_at(store, step)
    name = f"matrix-1@{step}"
    for call in (
        lambda: league.load(name, store=store.path),
        lambda: league.export(name, store.path / "out", store=store.path),
        lambda: league.evaluate(name, "bot:random", 2, store=store.path),
        lambda: league.gate(name, store=store.path),
    ):
        with pytest.raises(UsageError, match=rf"the files of {name} were pruned on .*league snapshots list"):
            call()
    assert not store.gates("matrix-1")
    assert row.agent_id in {agent.agent_id for agent in store.agents(store.find_run("matrix-1").game_id)}


def test_the_champion_and_challengers_stay(store: Filled) -> None:
    """A promoted snapshot and one in a gate under way keep their files, whatever their age."""
    game_id = store.find_run("matrix-1").game_id
    ids = {row.step: row.agent_id for row in store.snapshots("matrix-1")}

    def gate(name: str, step: int) -> GateRow:
        return make_gate(name, game_id=game_id, run="matrix-1", challenger=ids[step], opponent=ids[0])

    won = store.gate_begins(gate("g1", 384))
    store.end_gate(replace(won, decision="passed", is_promoted=True), None)
    with ExitStack() as locks:
        store.begin_gate(gate("g2", 640), lambda attempt: 0.05, locks)
        assert store.champion("matrix-1") == ids[384]
        (done,) = prune(store, "matrix-1", 1)
    reasons = {holding.step: holding.reasons for holding in done.stays}
    assert "champion" in reasons[384] and "in a gate" in reasons[640]
    marks = {holding.step: (holding.is_champion, holding.is_best) for holding in holdings(store, "matrix-1")}
    assert [step for step, is_either in marks.items() if any(is_either)] == [384] and marks[384] == (True, True)
    assert find_agent(store, "matrix-1@best").agent_id == ids[384]
    store.mark_pruned("matrix-1", [384])
    assert store.champion("matrix-1") is None


def test_the_best_is_one_that_can_play(store: Filled) -> None:
    """A snapshot whose files are gone is neither RUN@best nor the holder of a title, whatever its row says."""
    best = best_snapshot(store, "matrix-1")
    step = next(row.step for row in store.snapshots("matrix-1") if row.agent_id == best)
    store.mark_pruned("matrix-1", [step])
    other = best_snapshot(store, "matrix-1")
    assert other != best and find_agent(store, "matrix-1@best").agent_id == other
    store.mark_pruned("matrix-1", range(2048))
    with pytest.raises(UsageError, match="matrix-1@2048 is the only snapshot of matrix-1"):
        league.gate("matrix-1", store=store.path)


def test_a_run_that_can_go_on_keeps_its_pool(store: Filled, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing goes of a stopped run, nor of a finished one whose stage another one continues."""
    monkeypatch.setattr(retention.settings, "continued_stages", lambda: {"longer": "2,048 steps"})
    (kept,) = prune(store, "matrix-1", 1)
    assert not kept.goes and len(on_disk(store)) == 17 and all("pool" in x.reasons for x in kept.stays)
    monkeypatch.undo()
    store.update_run("matrix-1", status="stopped")
    assert not prune(store, "matrix-1", 1)[0].goes
    store.update_run("matrix-1", status="finished")
    assert prune(store, "matrix-1", 1)[0].goes


@pytest.mark.slow
def test_a_pruned_run_is_not_carried_on(store: Filled) -> None:
    """A longer stage would draw from the whole pool, so it begins again and says why; resuming is refused."""
    prune(store, "matrix-1", 1)
    said: list[str] = []

    class Notes:
        def say(self, message: str) -> None:
            said.append(message)

        def report(self, report: object) -> None:
            """Ignored."""

        def evaluated(self, *about: object) -> None:
            """Ignored."""

    longer = ("run.total_steps=2176", "run.continues=smoke")
    assert train(store.path, *longer, callback=Notes()) == "matrix-2"
    assert "snapshots of matrix-1 were pruned, so it cannot go on" in said[0]
    store.update_run("matrix-1", status="stopped")
    with pytest.raises(UsageError, match="run=matrix-1: snapshots of it were pruned"):
        league.resume("matrix-1", store=store.path)


# Interruptions and bad input


def test_pruning_stays_in_the_runs_folder(store: Filled, tmp_path: Path) -> None:
    """A row that names another folder, or a link to one, is refused before anything is marked or deleted."""
    (going, *_), outside = prune(store, "matrix-1", 1, is_dry=True)[0].goes, tmp_path / "mine"
    outside.mkdir()
    (outside / "precious").write_text("x")
    folder = store.path / row_at(store, going.step).path
    shutil.move(folder, tmp_path / "aside")
    folder.symlink_to(outside)
    with pytest.raises(StoreError, match=rf"{going.step}: is a link, and a run is written in its own folder"):
        prune(store, "matrix-1", 1)
    assert (outside / "precious").exists() and len(on_disk(store)) == 17
    assert not any(row.pruned_at for row in store.snapshots("matrix-1"))


def test_files_of_somebodys_are_not_deleted(store: Filled) -> None:
    """In a snapshot's folder, among segments and among saved states: refused, or left alone."""
    (going, *_) = prune(store, "matrix-1", 1, is_dry=True)[0].goes
    run = store.path / "matrix-1"
    mine = run / "snapshots" / f"{going.step:010d}" / "notes.txt"
    mine.write_text("mine")
    with pytest.raises(StoreError, match=r"notes\.txt: league did not write it.*move it elsewhere"):
        prune(store, "matrix-1", 1)
    assert mine.exists() and not any(row.pruned_at for row in store.snapshots("matrix-1"))
    others = [run / "state" / name for name in ("state-mine.safetensors", "kept-mine.json")]
    for path in others:
        path.write_text("mine")
    keep_newest(run / "state", 2048, 1024, 2)
    assert all(path.exists() for path in others)


def test_files_that_are_merely_missing_are_not_marked(store: Filled) -> None:
    """A disk that is away for a while is no pruning: the rows stay as they are."""
    (going, *_) = prune(store, "matrix-1", 1, is_dry=True)[0].goes
    shutil.rmtree(store.path / row_at(store, going.step).path)
    prune(store, "matrix-1", 1)
    assert row_at(store, going.step).pruned_at is None
    assert prune(store, keep=1)[0].goes == ()


@pytest.mark.parametrize(
    ("run", "keep", "words"),
    [("matrix-2", 3, "no run `matrix-2` .*did you mean `matrix-1`"), ("matrix-1", 0, "keep=0: .*at least 1")],
)
def test_calls_that_cannot_be_are_refused(run: str, keep: int, words: str, store: Filled) -> None:
    """One line names what is wrong, and nothing has changed."""
    before = files_below(store.path)
    with pytest.raises(UsageError, match=words):
        prune(store, run, keep)
    assert files_below(store.path) == before
