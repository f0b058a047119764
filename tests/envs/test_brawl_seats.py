"""Brawl favours no seat, no side, no row and no thread, and is the same game wherever it is played."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import torch

from league import config as settings
from league.config.models import PoolConfig
from league.envs import registry
from league.envs.brawl.env import FIELDS, KEYS, Options, make
from league.envs.brawl.moves import NAMES
from league.envs.brawl.rules import BOTS, METRICS, TERMS
from league.envs.brawl.state import AIR, GROUND, PLATFORM
from league.play.evaluation import play
from league.play.nets import NetCalls
from league.play.pairings import Contestant, Pairing
from league.play.rollout import Collector
from league.policies.actor_critic import ActorCritic, Architecture
from league.pool.pool import Pool
from league.types import DRAW, EXTERNAL, Origin
from tests.helpers.brawl_scenes import bits_of, random_keys, records_of, restore, stir

SHORT = Options(ticks_per_step=2, time_limit_seconds=15.0, stocks=2, respawn_seconds=0.5)


def exchanged(records):
    """The matches with their fighters in each other's seat, controllers and streams with them."""
    records = records.copy()
    records["fighters"] = records["fighters"][:, ::-1].copy()
    return records


def seen_in(before, after, ended):
    """Which mechanics these steps used, from the states before and after; an ended match's next one tells nothing."""
    a, b = before["fighters"][~ended], after["fighters"][~ended]
    items_a, items_b = before["items"][~ended], after["items"][~ended]
    rose = {name: b[name] > a[name] for name in ("pickups", "dodges", "dashes", "knock_outs", "self_destructs", "hits")}
    there = (b["respawn"] == 0) & (a["respawn"] == 0)
    disarmed = there & (a["weapon"] > 0) & (b["weapon"] == 0)
    appeared = (items_b["kind"] > 0) & (items_a["kind"] == 0)
    happened = {
        **{name: where.any() for name, where in rose.items()},
        "combo": (b["combos"] > a["combos"]).any(),
        "trade": rose["hits"].all(1).any(),
        "dash ahead": ((b["dash"] > 0) & (b["direction"] == b["facing"])).any(),
        "dash back": ((b["dash"] > 0) & (b["direction"] != b["facing"])).any(),
        "dodge on the ground": ((b["dodge"] > 0) & (b["support"] == GROUND)).any(),
        "dodge in the air": ((b["dodge"] > 0) & (b["support"] == AIR)).any(),
        "turn": (b["turn"] > 0).any(),
        "run": (b["run_ticks"] >= 6).any(),
        "platform": (b["support"] == PLATFORM).any(),
        "drop through": ((a["support"] == PLATFORM) & (b["support"] == AIR) & (b["vy"] < -1)).any(),
        "air jump": (b["jumps_left"] < a["jumps_left"]).any(),
        "charge": (b["charge"] > 1).any(),
        "bounce": ((a["stun"] > 0) & (a["vy"] < -5) & (b["vy"] > 1) & (b["stun"] < a["stun"])).any(),
        "protection": (b["invulnerable"] > 0).any(),
        "protection lost": (there & (a["invulnerable"] > 9) & (b["invulnerable"] == 0)).any(),
        "weapon dropped": (disarmed & (a["weapon_left"] > 2) & appeared.any(1, keepdims=True)).any(),
        "weapon worn out": (disarmed & (a["weapon_left"] <= 2)).any(),
        "weapon lost with a stock": ((a["weapon"] > 0) & (b["respawn"] > a["respawn"])).any(),
        "weapon appeared": (appeared & ~disarmed.any(1, keepdims=True)).any(),
        "weapon vanished": ((items_a["kind"] > 0) & (items_a["ticks"] <= 2) & (items_b["kind"] == 0)).any(),
        "both reach for one": both_reach(a, b, items_a, items_b).any(),
    }
    return {name for name, is_true in happened.items() if is_true} | {NAMES[move] for move in b["move"][b["move"] >= 0]}


def both_reach(a, b, items_a, items_b):
    """(B,): both stand by one weapon and press pickup again, with bare hands, and neither gets it."""
    ground = np.where(a["x"] < 0, 0, 1)
    reach = np.abs(a["x"] - np.take_along_axis(items_a["x"], ground, 1)) < 0.8
    free = (a["support"] == GROUND) & (a["stun"] + a["dodge"] + a["weapon"] == 0) & (a["move"] < 0) & (b["weapon"] == 0)
    fresh = (b["keys"] & bits_of("pickup") > 0) & (a["keys"] & bits_of("pickup") == 0)
    stays = (np.take_along_axis(items_a["kind"], ground, 1) > 0) & (np.take_along_axis(items_b["kind"], ground, 1) > 0)
    moved = (b["move"] >= 0) | (b["dodge"] > 0) | (b["dash"] > 0) | (b["vy"] > 0)
    return (reach & free & fresh & stays & ~moved).all(1) & (ground[:, 0] == ground[:, 1])


MECHANICS = {
    *NAMES, "pickups", "dodges", "dashes", "knock_outs", "self_destructs", "hits", "combo", "trade", "dash ahead",
    "dash back", "dodge on the ground", "dodge in the air", "turn", "run", "platform", "drop through", "air jump",
    "charge", "bounce", "protection", "protection lost", "weapon dropped", "weapon worn out",
    "weapon lost with a stock", "weapon appeared", "weapon vanished", "both reach for one", "end",
}  # fmt: skip


def test_seat_exchange_gives_the_exchanged_match_bit_for_bit():
    """Over more than 10,000 random ticks in which every mechanic takes part, fighters, controllers and actions swapped
    play on as the exact exchange of the match: state, observations, masks, terms, results."""
    pairs = [(EXTERNAL, EXTERNAL)] * 10 + [(EXTERNAL, bot) for bot in range(7)] + [(bot, bot) for bot in range(1, 7)]
    pairs += [(3, 4), (5, 6), (2, 6)]
    rows = len(pairs)
    batch, mirror = make(rows, 1, SHORT), make(rows, 1, SHORT)
    batch.controllers[:] = pairs
    batch.reset(5)
    restore(mirror, exchanged(records_of(batch)))
    rng = np.random.default_rng(5)
    seen, step = set(), 0
    while step < 800 or (seen != MECHANICS and step < 4000):
        if step % 3 == 0:
            batch.actions[:] = random_keys(rng, rows)
        if step % 10 == 0:
            records = records_of(batch)
            stir(records, rng)
            restore(batch, records)
            restore(mirror, exchanged(records))
            batch.actions[rng.random(rows) < 0.3] = [key == "pickup" for key in KEYS]
        mirror.actions[:] = batch.actions[:, ::-1]
        before = records_of(batch)
        batch.step()
        mirror.step()
        assert_exchanged(batch, mirror)
        ended, after = batch.terminated, records_of(batch)
        seen |= seen_in(before, after, ended) | ({"end"} if ended.any() else set())
        assert exchanged(after)[~ended].tobytes() == records_of(mirror)[~ended].tobytes()
        if ended.any():
            restore(mirror, exchanged(after))
        step += 1
    assert rows * step * SHORT.ticks_per_step >= 10_000
    assert seen == MECHANICS, f"missing: {sorted(MECHANICS - seen)}"


def assert_exchanged(batch, mirror):
    np.testing.assert_array_equal(batch.terminated, mirror.terminated)
    np.testing.assert_array_equal(batch.reward_terms, mirror.reward_terms[:, ::-1])
    on, ended = ~batch.terminated, batch.terminated
    np.testing.assert_array_equal(batch.obs[on], mirror.obs[on, ::-1])
    np.testing.assert_array_equal(batch.mask[on], mirror.mask[on, ::-1])
    np.testing.assert_array_equal(batch.final_obs[ended], mirror.final_obs[ended, ::-1])
    for ours, theirs in zip(batch.result[ended], mirror.result[ended], strict=True):
        assert theirs["winner"] == (DRAW if ours["winner"] == DRAW else 1 - ours["winner"])
        assert (theirs["end_reason"], theirs["ticks"]) == (ours["end_reason"], ours["ticks"])
        np.testing.assert_array_equal(theirs["metrics"], ours["metrics"][::-1])


@pytest.mark.parametrize("bot", [pytest.param(i, id=name) for i, name in enumerate(BOTS)])
def test_mirror_matches_are_even(bot):
    """A bot against itself wins from both seats and from both sides equally often, within 4 sigma of 3,000 matches."""
    batch = make(500, 1, Options())
    batch.controllers[:] = bot
    batch.reset(17)
    sides, winners = [], []
    side = batch.obs[:, 0, 0] > 0
    while len(winners) < 3000:
        batch.step()
        ended = batch.terminated
        sides += side[ended].tolist()
        winners += batch.result["winner"][ended].tolist()
        side[ended] = batch.obs[ended, 0, 0] > 0
    side, winner = np.array(sides), np.array(winners)
    decided = winner != DRAW
    assert abs(side.mean() - 0.5) < 4 * 0.5 / np.sqrt(len(side))
    if BOTS[bot] == "constant":
        assert not decided.any()
        return
    assert decided.mean() > (0.4 if BOTS[bot] == "charger" else 0.5)  # two of it often wait for each other
    for first in (winner == 0, (winner == 0) == side):
        assert abs(first[decided].mean() - 0.5) < 4 * 0.5 / np.sqrt(decided.sum())


def trace(batch, actions):
    """All that a batch shows over the steps of `actions` (T, B, 2, 10): (T, B, bytes)."""
    out = []
    for step in actions:
        batch.actions[:] = step
        batch.step()
        shown = (batch.obs, batch.mask, batch.reward_terms, batch.terminated)
        out.append(np.concatenate([a.reshape(batch.num_rows, -1).view(np.uint8) for a in shown], 1))
    return np.stack(out)


def test_a_match_depends_only_on_its_seed_controllers_and_actions():
    """The same seeds in other rows, and stepped by other numbers of threads, give the same matches bit for bit."""
    options = Options(time_limit_seconds=4.0)
    rows, steps = 12, 120
    rng = np.random.default_rng(0)
    seeds = np.arange(100, 100 + rows, dtype=np.uint64)
    actions = np.stack([random_keys(rng, rows) for _ in range(steps)])
    controllers = rng.integers(-1, len(BOTS), (rows, 2))
    traces = []
    for order, threads in ((slice(None), 1), (slice(None, None, -1), 1), (slice(None), 2), (slice(None), 5)):
        batch = make(rows, threads, options)
        batch.controllers[:] = controllers[order]
        batch.reset(seeds[order])
        traces.append(trace(batch, actions[:, order])[:, order])
    for other in traces[1:]:
        assert other.tobytes() == traces[0].tobytes()


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_reset_reproduces_a_match(threads):
    """The same seed gives the same bits again on a batch that has played other matches, by any number of threads."""
    rng = np.random.default_rng(1)
    actions = np.stack([random_keys(rng, 7) for _ in range(60)])
    controllers = rng.integers(-1, len(BOTS), (7, 2))
    fresh, used = make(7, 1, SHORT), make(7, threads, SHORT)
    trace(used, actions[::-1])
    for batch in (fresh, used):
        batch.controllers[:] = controllers
        batch.reset(2**64 - 1)
    assert used.get_state() == fresh.get_state()
    assert trace(used, actions).tobytes() == trace(fresh, actions).tobytes()


def test_seeds_matter():
    """Different seeds start matches on either side, and the same array of one seed starts equal ones."""
    batch = make(64, 1, Options())
    batch.reset(1)
    assert 16 < (batch.obs[:, 0, 0] > 0).sum() < 48
    assert len(set(records_of(batch)["platform_y"])) == 64
    batch.controllers[:] = BOTS.index("rusher")
    batch.reset(np.full(64, 9, np.uint64))
    for _ in range(200):
        batch.step()
    assert (batch.obs == batch.obs[0]).all()


# Training and evaluation step the same game.

GAME = {"stocks": 1, "time_limit_seconds": 5.0}


def assert_same_result(row, batch, place, sums):
    """A match as league records it is the one that this batch has just ended in `place`."""
    result = batch.result[place]
    assert (row.seed, row.winner, row.ticks) == (result["seed"], result["winner"], result["ticks"])
    assert row.end_reason == batch.spec.end_reasons[result["end_reason"]]
    assert row.metrics == {name: tuple(result["metrics"][:, i].tolist()) for i, name in enumerate(METRICS)}
    assert row.rewards == {name: tuple(sums[:, i].tolist()) for i, name in enumerate(TERMS)}


def replay(seed, controllers, actions):
    """A one-match batch stepped by hand to its end: (batch, sums of the terms, steps)."""
    batch = make(1, 1, Options(**GAME))
    batch.controllers[:] = controllers
    batch.reset(np.array([seed], np.uint64))
    sums, steps = np.zeros((2, len(TERMS))), 0
    while not batch.terminated[0]:
        if actions is not None:
            batch.actions[0] = actions[steps]
        batch.step()
        sums += batch.reward_terms[0]
        steps += 1
    return batch, sums, steps


def test_evaluation_plays_the_game_of_a_bare_batch():
    """Matches of two bots as evaluation plays them are those of a bare batch from the same seeds."""
    rows = play(
        lambda count: registry.make("brawl", rows=count, threads=1, options=GAME),
        [Pairing(Contestant("bot:rusher"), Contestant("bot:zoner"), 8, seed=21)],
        Origin("r", "g"),
        update=0,
    )
    assert len({row.seed for row in rows}) == 4
    for row in rows:
        controllers = [BOTS.index(agent.removeprefix("bot:")) for agent in row.agents]
        batch, sums, steps = replay(row.seed, controllers, None)
        assert row.steps == steps
        assert_same_result(row, batch, 0, sums)


def test_training_plays_the_game_of_a_bare_batch():
    """Matches of a network as training plays them are those of a bare batch from their seeds and recorded actions."""
    torch.manual_seed(0)
    sizes = {"encoder_layers": 1, "encoder_heads": 2, "encoder_width": 16, "encoder_feedforward": 16, "latents": 2}
    rest = {"observation_width": 16, "lstm_size": 16, "head_sizes": (8,), "opponent_encoder": True}
    spec = registry.spec("brawl", GAME)
    pool = Pool(
        PoolConfig(**{**settings.load().pool.model_dump(), "mix": {"bot:edge_guarder": 1.0}}),
        {}.__getitem__,
        np.random.default_rng(0),
    )
    batch = registry.make("brawl", rows=4, threads=1, options=GAME)
    network = ActorCritic(Architecture.of(spec, history_tokens=5, **sizes, **rest))
    generator = torch.Generator().manual_seed(0)
    calls = NetCalls(generator)
    collector = Collector([batch], network, pool, calls, weights={"win": 1.0}, origin=Origin("me", "g"))
    collector.start(3)
    steps = [(collector.collect(1, 1), batch.actions.copy()) for _ in range(120)]
    played = {row: [] for row in range(4)}
    count = 0
    for rollout, actions in steps:
        for row in range(4):
            played[row].append(actions[row])
        for match in rollout.finished:
            seats = [EXTERNAL if agent == "me" else BOTS.index("edge_guarder") for agent in match.agents]
            bare, sums, length = replay(match.seed, seats, played[match.row])
            assert match.steps == length == len(played[match.row])
            assert_same_result(match, bare, 0, sums)
            played[match.row] = []
            count += 1
    assert count >= 4


# The step holds no lock.


def test_two_threads_step_two_batches_as_one_thread_does():
    """Batches stepped at the same time in two Python threads play the same bits as each alone."""
    rng = np.random.default_rng(2)
    actions = [np.stack([random_keys(rng, 40) for _ in range(100)]) for _ in range(2)]

    def traced(which, into):
        batch = make(40, 1, SHORT)
        batch.controllers[::2, 1] = rng_bots[which]
        batch.reset(which)
        into[which] = trace(batch, actions[which]).tobytes()

    rng_bots = [rng.integers(1, len(BOTS), 20) for _ in range(2)]
    alone, together = {}, {}
    for which in range(2):
        traced(which, alone)
    threads = [threading.Thread(target=traced, args=(which, together)) for which in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert together == alone


@pytest.mark.parametrize("threads", [1, 2])
def test_a_step_lets_other_python_threads_run(threads):
    """The main thread looks on while one call of step is under way: the first row is played, the last one not yet."""
    batch = make(20_000, threads, Options(ticks_per_step=30))
    batch.controllers[:] = BOTS.index("punisher")
    clock = [name for name, *_ in FIELDS].index("time_left")
    first, last = batch.obs[0, 0], batch.obs[-1, 0]
    looked_on = 0
    for _ in range(3):
        thread = threading.Thread(target=batch.step)
        thread.start()
        while thread.is_alive():
            looked_on += bool(first[clock] < last[clock])
        thread.join()
        assert first[clock] == last[clock]
    assert looked_on > 0
