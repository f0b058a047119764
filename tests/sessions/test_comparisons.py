"""Two settings over the same seeds: what is missing is trained, ratings are on one scale, the t-test is of pairs."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import league
from league.config import parse_override
from league.config.written import toml
from league.store.store import Store
from tests.helpers.commands import call, need_refusal
from tests.helpers.games import forget, new_user
from tests.helpers.sizes import TINY

A, B = ("learner.learning_rate=1e-3", "learner.learning_rate=0.5")


def file_of(folder: Path, name: str, *more: str) -> Path:
    """Settings of a tiny run of kuhn for `--config`."""
    sections: dict[str, dict[str, object]] = {"env": {"name": "kuhn"}}
    for section, key, value in map(parse_override, (*TINY, *more)):
        sections.setdefault(section, {})[key] = value
    lines = [
        f"[{name}]\n" + "\n".join(f"{k} = {toml(x)}" for k, x in table.items()) for name, table in sections.items()
    ]
    (path := folder / name).write_text("\n".join(lines))
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with a.toml, b.toml and a store in which both were compared over two seeds."""
    folder = tmp_path_factory.mktemp("compared")
    file_of(folder, "a.toml", A)
    file_of(folder, "b.toml", B)
    with new_user(folder):
        done = call("compare", "a.toml", "b.toml", "--seeds", 2, "--games", 2, cwd=folder)
        assert done.code == 0, done.err
        yield folder


@pytest.mark.slow
def test_runs_are_paired_by_their_seeds_and_made_once(folder: Path) -> None:
    """A second call trains nothing; a run's name stands for its settings; the values are those of the board then."""
    store = folder / "runs"
    before = {row.run: row.seed for row in Store.open(store).runs()}
    assert sorted(before.values()) == [1, 1, 2, 2]
    found = league.compare(folder / "a.toml", "b-" + _mark(store, "b-") + "-s1", seeds=2, games=2, store=store)
    assert {row.run for row in Store.open(store).runs()} == {*before} == {*found.runs_a, *found.runs_b}
    assert [before[run] for run in found.runs_a] == [before[run] for run in found.runs_b] == [1, 2]
    known = stats.ttest_rel(found.values_a, found.values_b).confidence_interval()
    assert found.difference is not None and found.unit == "payoff"
    assert found.difference[1:] == pytest.approx((known.low, known.high))
    entries = {e.name: e.rating for board in league.leaderboard(store=store).boards for e in board.entries}
    assert found.values_a == pytest.approx([entries[f"{run}@64"] for run in found.runs_a])
    assert found.is_decided == (known.low > 0 or known.high < 0)


def _mark(store: Path, start: str) -> str:
    return next(row.run for row in Store.open(store).runs() if row.run.startswith(start)).split("-")[1]


def test_another_objective_is_that_of_a_sweep(folder: Path) -> None:
    """NashConv is exact; a score has opponents."""
    words = ("compare", "a.toml", "b.toml", "--seeds", 2, "--json", "--quiet")
    told = call(*words, "--objective", "nashconv", cwd=folder).json
    exact = [league.nashconv(run, store=folder / "runs").nashconv for run in told["runs_a"]]
    assert told["values_a"] == pytest.approx(exact) and told["difference"]["mean"] == pytest.approx(
        np.mean(told["values_a"]) - np.mean(told["values_b"])
    )
    told = call(*words, "--objective", "score", "--against", "bot:fold", "--games", 4, cwd=folder).json
    assert told["unit"] == "payoff" and all(abs(x) <= 2 for x in told["values_a"])


def test_the_command_says_what_is_decided(folder: Path) -> None:
    """Seed by seed, the difference, and the seeds still needed; a third seed is trained, the others are there."""
    done = call("compare", "a.toml", "b.toml", "--seeds", 3, "--games", 2, cwd=folder)
    assert done.code == 0 and "95 % interval" in done.out and "(paired t, 3 seeds)" in done.out
    assert "decided" in done.out and len(Store.open(folder / "runs").runs()) == 6


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("a.toml", "a.toml"), "are the same settings here; name two that differ"),
        (("a.toml", "none.toml"), "none.toml: No such file"),
        (("a.toml", "none"), "no run `none`"),
        (("a.toml", "other.toml"), "are of different games; name two of one game"),
        (("a.toml", "b.toml", "--seeds", 1), "seeds=1: runs of each setting, must be from 2"),
        (("a.toml", "b.toml", "--seed", -1), "seed=-1: the seed of the first runs"),
        (("a.toml", "b.toml", "--games", 3), "games=3: seats are swapped in pairs"),
        (("a.toml", "b.toml", "--objective", "ratings"), "no such objective; did you mean `rating`?"),
        (("a.toml", "b.toml", "--objective", "score"), "it names no opponents; give some"),
        (("a.toml", "b.toml", "--set", "learner.epohs=1"), "did you mean `epochs`?"),
    ],
)
def test_what_cannot_be_compared_is_refused_in_a_line(words: tuple[object, ...], told: str, folder: Path) -> None:
    """Before anything is trained."""
    (folder / "other.toml").write_text(file_of(folder, "c.toml").read_text().replace('"kuhn"', '"matrix"'))
    before = len(Store.open(folder / "runs").runs())
    need_refusal(call("compare", *words, cwd=folder), 2, told)
    assert len(Store.open(folder / "runs").runs()) == before


@pytest.mark.slow
def test_a_run_of_a_game_of_yours_is_compared_where_you_named_it(tmp_path: Path) -> None:
    """Its code is opened again by the run; who has not named it gets the line that says so."""
    game = Path(__file__).resolve().parents[2] / "examples" / "units.py"
    with new_user(tmp_path):
        for name, rate in (("a", 1e-3), ("b", 1e-2)):
            league.train(
                "smoke", env=game, run=name, overrides=(*TINY, f"learner.learning_rate={rate}"), store=tmp_path
            )
        forget()
        done = call("compare", "a", "b", "--seeds", 2, "--games", 2, "--store", tmp_path)
        assert done.code == 0 and "95 % interval" in done.out, done.err
    with new_user(tmp_path / "other"):
        need_refusal(call("compare", "a", "b", "--store", tmp_path), 2, "run a", "never named here", f"--env {game}")
