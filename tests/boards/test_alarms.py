"""Alarms: each is raised on a sick store, seldom on healthy ones, and its query returns the numbers of its sentence."""

from __future__ import annotations

import json
import math
import re
import shlex
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binomtest, fisher_exact

from league.boards.alarms import ALPHA, Finding, Kind, alarms, sound
from league.store.exchange import import_matches
from league.store.rows import GameRow, RunRow, SnapshotRow
from league.store.store import Store
from league.types import DRAW, MatchResult
from tests.helpers.commands import call
from tests.helpers.stores import Filled, empty_store

SNAPSHOTS = 6
Chance = Callable[[int, int], float]
"""The expected score of snapshot i against j; j = -1 stands for the bot."""


def make_store(
    folder: Path, name: str = "s", runs: Sequence[str] = ("r",), activity: str | None = "damage_dealt"
) -> Filled:
    """A store with runs of six snapshots, each of a game of its own, so that each is a store by itself."""
    store = empty_store(folder / name)
    for run in runs:
        store.begin_run(
            RunRow(run=run, game="brawl", game_id=f"{run}-g", fingerprint="f", seed=0, stage="s", config="{}")
        )
        store.add_game(GameRow(f"{run}-g", "brawl", activity=activity))
        for i in range(SNAPSHOTS):
            store.add_snapshot(SnapshotRow(f"{run}-{i}", run, 100 * i, i, f"{run}/snapshots/{100 * i}", "f"))
    return store


def evaluations(
    rng: np.random.Generator, chance: Chance, games: int = 40, draws: float = 0.1, seat: float = 0.0, run: str = "r"
) -> list[MatchResult]:
    """Everybody against everybody and a bot, in pairs that share a seed; `seat` is added to the first seat's chance."""
    agents = [f"{run}-{i}" for i in range(SNAPSHOTS)] + ["bot:based"]
    results, row = [], 0
    for i in range(SNAPSHOTS):
        for j in [*range(i), SNAPSHOTS]:
            for game in range(games):
                is_first = game % 2 == 0
                p = chance(i, -1 if j == SNAPSHOTS else j) + (seat if is_first else -seat)
                drawn, won = rng.random() < draws, rng.random() < p
                seats = (agents[i], agents[j]) if is_first else (agents[j], agents[i])
                winner = DRAW if drawn else int(won != is_first)
                seed = 10_000 * row + game // 2
                results.append(
                    MatchResult(
                        f"{run}-e", "evaluation", 0, row, game, f"{run}-g", seats, seed, winner, "time", 9, 9, "sample"
                    )
                )
            row += 1
    return results


def trainings(
    rng: np.random.Generator, idle: float, clock: float, metrics: bool = True, run: str = "r"
) -> list[MatchResult]:
    """300 training matches; in the last 200 the learner deals no damage, and the clock ends them, as often as said."""
    results = []
    for k in range(300):
        none, late = (rng.random() < idle, rng.random() < clock) if k >= 100 else (False, False)
        seat = k % 2
        damage = [50.0, 50.0]
        damage[seat] = 0.0 if none else 70.0
        results.append(
            MatchResult(
                run,
                "training",
                k,
                0,
                0,
                f"{run}-g",
                (run, "bot:based") if seat == 0 else ("bot:based", run),
                k,
                seat,
                "time_limit" if late else "knock_out",
                9,
                9,
                "sample",
                k,
                k,
                metrics={"damage_dealt": (damage[0], damage[1])} if metrics else {},
            )
        )
    return results


def fill(store: Filled, results: Sequence[MatchResult]) -> None:
    """Writes them."""
    store.add_matches(results)
    store.flush(force=True)


def found(store: Filled, run: str = "r") -> dict[Kind, Finding]:
    """What is found of each kind."""
    findings = {finding.kind: finding for finding in alarms(store, run)}
    assert len(findings) == 5
    return findings


def improving(i: int, j: int) -> float:
    """A run that gets better by 60 points a snapshot; the bot is as strong as its third."""
    return float(1.0 / (1.0 + 10 ** (-60 * (i - (2 if j < 0 else j)) / 400)))


def learned_and_lost(i: int, j: int) -> float:
    """As `improving`, but the last snapshot has forgotten how to beat the first."""
    return 0.2 if (i, j) == (SNAPSHOTS - 1, 0) else improving(i, j)


def in_circles(i: int, j: int) -> float:
    """Each snapshot beats those one and four before it and loses to those two and five before: three kinds in turn."""
    return improving(i, -1) if j < 0 else {0: 0.5, 1: 0.85, 2: 0.15}[(i - j) % 3]


def sick(kind: str, seed: int, run: str = "r") -> list[MatchResult]:
    """The matches of a run that has one trouble."""
    rng = np.random.default_rng(seed)
    chance = {"forgetting": learned_and_lost, "cycling": in_circles}.get(kind, improving)
    played = evaluations(rng, chance, seat=0.1 if kind == "seats" else 0.0, run=run)
    return played + trainings(rng, 0.7 if kind == "passivity" else 0.1, 0.6, run=run)


SICK: tuple[Kind, ...] = ("forgetting", "cycling", "passivity", "seats")


def numbers_in(sentence: str) -> set[str]:
    """The figures of a sentence."""
    return set(re.findall(r"(?<![@\w.])\d+(?:\.\d+)?", sentence.replace(",", "")))


@pytest.mark.parametrize("kind", SICK)
def test_a_sick_store_raises_its_alarm_and_no_other(kind: Kind, tmp_path: Path) -> None:
    """Of five sick runs at least four raise the alarm, and hardly one another one."""
    runs = [f"r{seed}" for seed in range(5)]
    store = make_store(tmp_path, runs=runs)
    fill(store, [match for seed, run in enumerate(runs) for match in sick(kind, seed, run)])
    raised = [finding.kind for run in runs for finding in found(store, run).values() if finding.is_raised]
    assert raised.count(kind) >= 4, raised
    others = [other for other in raised if other != kind and {other, kind} != {"forgetting", "cycling"}]
    assert len(others) <= 1, raised


@pytest.mark.parametrize("kind", SICK)
@pytest.mark.slow
def test_the_query_of_an_alarm_returns_the_numbers_of_its_sentence(kind: Kind, tmp_path: Path) -> None:
    """`league query` with the text that is shown prints rows that hold every count and score of the sentence."""
    store = make_store(tmp_path)
    fill(store, sick(kind, 1))
    finding = found(store)[kind]
    assert finding.is_raised
    printed = call("query", finding.query, "--store", store.path, "--json").json
    rows = [dict(zip(printed["columns"], row, strict=True)) for row in printed["rows"]]
    n, sentence = finding.numbers, finding.sentence
    if kind == "forgetting":
        by_step = {row["step"]: row for row in rows}
        assert {row["against"] for row in rows} == {n["against"]}
        for name in ("earlier", "newest"):
            row = by_step[n[f"{name}_step"]]
            assert row["score"] == n[f"{name}_score"] and row["games"] == n[f"{name}_games"]
            assert f"{row['score']:.3f}" in sentence
    elif kind == "cycling":
        assert len(rows) == 3
        scores = [(row["wins"] + row["draws"] / 2) / row["games"] for row in rows]
        shown = {f"{max(score, 1 - score):.3f}" for score in scores}
        assert shown <= numbers_in(sentence) and {n[f"games_{k}"] for k in (1, 2, 3)} == {rows[0]["games"]}
        assert all(f"r@{row['step']} " in sentence and f"r@{row['other']} " in sentence for row in rows)
    else:
        [row] = rows
        counts = ("matches", "time_outs", "idle") if kind == "passivity" else ("pairs", "to_first")
        assert all(f"{row[name]:,}" in sentence and n[name] == row[name] for name in counts)


def false_alarms(folder: Path, stores: int, chance: Chance, games: int) -> dict[Kind, int]:
    """In how many healthy stores (a run with a game of its own is one) each kind is raised."""
    runs = [f"r{seed}" for seed in range(stores)]
    store = make_store(folder, runs=runs)
    for seed, run in enumerate(runs):
        rng = np.random.default_rng(1_000 + seed)
        store.add_matches(evaluations(rng, chance, games, run=run) + trainings(rng, 0.3, 0.8, run=run))
    store.flush(force=True)
    raised = dict.fromkeys((*SICK, "training"), 0)
    with store.reading():
        for finding in (finding for run in runs for finding in found(store, run).values()):
            raised[finding.kind] += bool(finding.is_raised)
    return raised


@pytest.mark.parametrize("chance", [improving, lambda i, j: 0.5], ids=["improving", "level"])
@pytest.mark.slow
def test_healthy_stores_seldom_raise_one(chance: Chance, tmp_path: Path) -> None:
    """Of ten healthy stores, whose run improves or stands still, no kind is raised in more than one."""
    assert max(false_alarms(tmp_path, 10, chance, games=20).values()) <= 1


@pytest.mark.slow
@pytest.mark.parametrize("games", [8, 40])
@pytest.mark.parametrize("chance", [improving, lambda i, j: 0.5], ids=["improving", "level"])
def test_false_alarms_are_below_five_percent(chance: Chance, games: int, tmp_path: Path) -> None:
    """Of 200 healthy stores fewer than 10 raise an alarm of any one kind, with few games or many."""
    raised = false_alarms(tmp_path, 200, chance, games=games)
    assert max(raised.values()) < 10, raised


def test_time_outs_alone_tell_only_where_no_metric_tells_of_activity(tmp_path: Path) -> None:
    """A game that names no such metric is passive when nearly all matches run out of time; one that does is not."""
    for activity, metrics in (("damage_dealt", True), ("damage_dealt", False), (None, True), ("hits", True)):
        store = make_store(tmp_path, f"{activity}-{metrics}", activity=activity)
        fill(store, trainings(np.random.default_rng(0), 0.1, 0.98, metrics=metrics))
        assert found(store)["passivity"].is_raised is not (metrics and activity == "damage_dealt")


def test_alarms_of_training_are_among_them(tmp_path: Path) -> None:
    """One that was raised and is not over is raised here, with its line; one that is over is not."""
    store = make_store(tmp_path)
    for update, kind, message in (
        (1, "alarm:kl_blow_up", "KL blew up: 2 nats"),
        (2, "alarm:flat_return", "the return is flat"),
        (3, "over:kl_blow_up", "kl_blow_up"),
        (4, "alarm:seats", "the first seat wins"),
        (4, "resumed", "resumed with a=1"),
    ):
        store.add_event("r", update, kind, message)
    store.flush(force=True)
    training = found(store)["training"]
    assert training.is_raised and training.sentence == "r: since step 0 the return is flat"
    assert [row[1] for row in store.query(training.query)[1]] == [
        *("alarm:kl_blow_up", "alarm:flat_return", "over:kl_blow_up", "alarm:seats")
    ]
    assert not any("flat" in line for line in sound(store, store.folder("r"), 5)), "training has said it"
    store.add_event("r", 5, "over:flat_return", "flat_return")
    store.flush(force=True)
    assert found(store)["training"].is_raised is False


@pytest.mark.parametrize(("new", "old"), [((3, 10), (9, 10)), ((8, 60), (58, 60)), ((300, 400), (380, 400))])
def test_figures_are_those_of_the_tests_that_are_named(
    new: tuple[int, int], old: tuple[int, int], tmp_path: Path
) -> None:
    """Forgetting: Fisher's test of the two scores. Passivity: Clopper and Pearson's interval of the time-outs."""
    store = make_store(tmp_path)
    met = [
        MatchResult(
            "e", "evaluation", i, k, 0, "r-g", (f"r-{i}", "bot:based"), k, int(k >= won), "time", 9, 9, "sample"
        )
        for i, (won, games) in ((2, old), (SNAPSHOTS - 1, new))
        for k in range(games)
    ]
    fill(store, met + trainings(np.random.default_rng(0), 0.3, 0.6))
    forgetting, shown = found(store)["forgetting"], found(store)["passivity"].numbers
    expected = fisher_exact([[old[0], old[1] - old[0]], [new[0], new[1] - new[0]]], "greater").pvalue
    assert forgetting.numbers["p"] == pytest.approx(expected) and forgetting.is_raised == (expected <= ALPHA)
    count, total = int(shown["time_outs"]), int(shown["matches"])
    interval = binomtest(count, total).proportion_ci(0.95, "exact")
    assert (shown["time_outs_lower"], shown["time_outs_upper"]) == pytest.approx((interval.low, interval.high))
    assert 0 < count < total == 200


def outside(store: Filled, seat: float, games: int = 40, seed: int = 0) -> Finding:
    """What is found of the seats in games between outsiders that share no seed; `seat`: Elo points."""
    rng = np.random.default_rng(seed)
    played = []
    for row, (i, j) in enumerate((i, j) for i in range(6) for j in range(6) if i != j):
        chance = 1.0 / (1.0 + 10 ** ((60 * (j - i) - seat) / 400))
        for k in range(int(rng.integers(1, games))):
            drawn, won = rng.random() < 0.2, rng.random() < chance
            agents = (f"import:{i}", f"import:{j}")
            winner = DRAW if drawn else int(not won)
            played.append(
                MatchResult("i", "evaluation", 0, row, k, "g", agents, 1000 * row + k, winner, "x", 1, 1, "sample")
            )
    fill(store, played)
    [finding] = [x for x in alarms(store) if x.kind == "seats"]
    return finding


def test_seats_are_tested_as_by_permutation(tmp_path: Path) -> None:
    """The excess of the first seat's points and its variance are those of dealing results to seatings at random."""
    store = empty_store(tmp_path)
    found = outside(empty_store(tmp_path / "sick"), seat=150.0)
    assert found.is_raised and "without a shared seed" in found.sentence
    numbers = outside(store, seat=40.0, games=12).numbers
    _, rows = store.query("SELECT seat0_agent, seat1_agent, winner FROM match")
    pairs: dict[tuple[str, str], list[tuple[bool, float]]] = {}
    for a, b, winner in rows:
        scored = 0.5 if winner is None else float((winner == 0) == (a < b))
        pairs.setdefault((min(a, b), max(a, b)), []).append((a < b, scored))
    rng, totals = np.random.default_rng(0), np.zeros(4000)
    observed = 0.0
    for played in pairs.values():
        first, points = (np.array(column) for column in zip(*played, strict=True))
        if first.all() or not first.any():
            continue
        observed += float(points[first].sum())
        dealt = rng.permuted(np.tile(points, (len(totals), 1)), axis=1)
        totals += dealt[:, : int(first.sum())].sum(axis=1)
    assert numbers["excess"] == pytest.approx(observed - totals.mean(), abs=4 * totals.std() / math.sqrt(len(totals)))
    assert numbers["variance"] == pytest.approx(totals.var(), rel=0.1)


@pytest.mark.parametrize("game_id", ["$(touch PWNED)", "`touch PWNED`'x", "plain"])
def test_what_is_printed_to_be_pasted_is_quoted(game_id: str, tmp_path: Path) -> None:
    """A shell takes the command of an alarm as it was meant, whatever a stranger has called a game."""
    rows = [
        {"seat0": "ab"[k % 2], "seat1": "ba"[k % 2], "winner": int(k % 10 == 0), "game_id": game_id, "seed": k}
        for k in range(400)
    ]
    (tmp_path / "m.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    store = tmp_path / "league.duckdb"
    import_matches(tmp_path / "m.jsonl", store=store)
    shown, pasted = call("alarms", "--store", store).out.splitlines()
    [finding] = alarms(Store.open(store))
    assert shlex.split(pasted) == ["league", "query", finding.query]
    script = f"league() {{ printf '%s\\0' \"$@\"; }}; {pasted}"
    taken = subprocess.run(["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert taken.split("\0")[:-1] == ["query", finding.query] and not (tmp_path / "PWNED").exists()
    assert shown.startswith(f"ALARM, seats: {shlex.quote(game_id[:8])}: ")
