"""The public checker of match batches passes sound games and names each way of breaking the contract."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from league import config
from league.envs import registry
from league.envs.classic.matrix import MatrixBatch, Options
from league.envs.contract.check import check_match_batch
from league.envs.contract.steps import ContractError
from league.envs.matches.rows import TurnRowBatch
from league.types import EXTERNAL
from tests.helpers import guessing
from tests.helpers.cases import cases
from tests.helpers.guessing import GuessingBatch
from tests.helpers.matches import Auction, Hands

Kind = type[Any]


@pytest.mark.parametrize("name", cases("cards", "kuhn", slow=registry.games()))
def test_registered_games_keep_the_contract(name: str) -> None:
    options = config.load(env=name).env.options
    steps = {"kuhn": 250, "leduc": 250, "matrix": 250}.get(name, 850)  # two matches of one row
    check_match_batch(
        lambda rows, threads: registry.make(name, rows=rows, threads=threads, options=options), steps=steps
    )


@pytest.mark.parametrize("kind", guessing.KINDS)
def test_games_of_every_space_keep_the_contract(kind: str) -> None:
    check_match_batch(lambda rows, threads: GuessingBatch(rows, guessing.Options(kind=kind)), steps=60)  # type: ignore[arg-type]


def with_(base: Kind, method: str, does: Callable[..., Any]) -> Kind:
    """A class whose method is `does(batch, plain, *arguments)`, where plain calls the method of `base`."""

    def changed(self: Any, *arguments: Any) -> Any:
        return does(self, lambda *given: getattr(base, method)(self, *given), *arguments)

    return type("Broken", (base,), {method: changed})


def after(base: Kind, method: str, change: Callable[[Any], Any]) -> Kind:
    """A class that changes something after its method."""

    def does(batch: Any, plain: Any, *given: Any) -> None:
        plain(*given)
        change(batch)

    return with_(base, method, does)


def keeping(base: Kind, method: str, name: str) -> Kind:
    """A class whose method leaves an array as it was."""

    def does(batch: Any, plain: Any, *given: Any) -> None:
        kept = getattr(batch, name).copy()
        plain(*given)
        getattr(batch, name)[:] = kept

    return with_(base, method, does)


def write(name: str, place: Any, value: Any) -> Callable[[Any], None]:
    """Writes a value into an array."""
    return lambda batch: getattr(batch, name).__setitem__(place, value)


def late_reset(batch: Any) -> None:
    ended = batch.terminated | batch.truncated
    batch.obs[ended] = batch.final_obs[ended]


def ignore_bots(batch: Any, step: Any) -> None:
    kept = batch.controllers.copy()
    batch.controllers[:] = EXTERNAL
    step()
    batch.controllers[:] = kept


def same_seed_again(batch: Any, step: Any) -> None:
    before = batch.match["seed"].copy()
    step()
    ended = np.flatnonzero(batch.terminated | batch.truncated)
    batch.begin(ended, before[ended])


def one_seed(batch: Any, reset: Any, seed: Any) -> None:
    reset(seed if isinstance(seed, np.ndarray) else np.full(batch.num_rows, seed, np.uint64))


def takes_anything(batch: Any, set_state: Any, state: bytes) -> None:
    set_state(state if len(state) == len(batch.get_state()) else batch.get_state())


def stepped(change: Callable[[Any], Any], base: Kind = MatrixBatch) -> Kind:
    """A class that changes something after its step."""
    return after(base, "step", change)


def turned(does: Callable[..., Any], method: str = "step") -> Kind:
    """`with_` of a game in turns."""
    return with_(TurnRowBatch, method, does)


MATRIX: dict[str, tuple[Kind, str]] = {
    "moves obs": (stepped(lambda b: setattr(b, "obs", b.obs.copy())), "obs moved"),
    "unseeded reset": (
        with_(MatrixBatch, "reset", lambda b, reset, _: reset(int(np.random.default_rng().integers(2**60)))),
        "differently the second time",
    ),
    "late reset": (stepped(late_reset), "next match's first"),
    "next view as last": (stepped(lambda b: b.final_obs.__setitem__(..., b.obs)), "final_obs is the next"),
    "no final_obs": (keeping(MatrixBatch, "step", "final_obs"), r"final_obs\[0\] is nan, .* not written"),
    "both ends": (stepped(lambda b: b.truncated.__setitem__(..., b.terminated)), "both terminated and truncated"),
    "chance beside bots": (
        stepped(lambda b: b.obs.__setitem__((b.controllers != EXTERNAL).any(1), np.random.default_rng().random())),
        "bot constant in seat 0 plays differently the second time.*, and the game draws chance from the match's seed",
    ),
    "bots ignored": (with_(MatrixBatch, "step", ignore_bots), "bot constant in seat 0 follows"),
    "deaf seat": (
        with_(MatrixBatch, "step", lambda b, step: (write("actions", np.s_[:, 1], 0)(b), step())),
        "nothing depends on the actions of seat 1",
    ),
    "place matters": (stepped(lambda b: b.reward_terms[0].__iadd__(1)), "at another index"),
    "one seed": (with_(MatrixBatch, "reset", one_seed), "two rows from the same seed"),
    "same seed again": (with_(MatrixBatch, "step", same_seed_again), "has the first one's seed"),
    "no controllers": (keeping(MatrixBatch, "set_state", "controllers"), "does not restore controllers"),
    "blind set_state": (keeping(MatrixBatch, "set_state", "obs"), "set_state does not write obs"),
    "takes anything": (with_(MatrixBatch, "set_state", takes_anything), "an empty state is taken"),
    "nan": (stepped(write("obs", (0, 0, 0), np.nan)), r"step 1 .*obs\[0\] is nan"),
    "too large": (stepped(write("obs", (0, 0, 0), 1.5)), r"obs\[0\] is 1.5, which leaves obs_range"),
    "too small": (
        stepped(lambda b: b.final_obs.__isub__(0.5 * b.terminated[:, None, None])),
        r"step 5 of its match 1: final_obs\[.\] is -0.5",
    ),
    "wrong type": (
        after(MatrixBatch, "__init__", lambda b: setattr(b, "controllers", b.controllers.astype(np.int32))),
        "controllers has dtype int32",
    ),
    "nothing allowed": (
        after(MatrixBatch, "__init__", lambda b: setattr(b, "mask", np.zeros((*b.obs.shape[:2], 3), np.bool_))),
        "row 0, seat 0, .*nothing is legal in part 0",
    ),
    "threads matter": (stepped(lambda b: b.reward_terms.__imul__(b.threads)), "two threads"),
}


@pytest.mark.parametrize("name", MATRIX)
def test_a_broken_rule_is_named(name: str) -> None:
    kind, rule = MATRIX[name]

    def make(rows: int, threads: int) -> Any:
        batch = kind(rows, Options(rounds=5))
        batch.threads = threads
        return batch

    with pytest.raises(ContractError, match=rule) as caught:
        check_match_batch(make, steps=60)
    assert "\n" not in str(caught.value)


def test_whole_matches_are_wanted() -> None:
    """A run too short to finish two matches is an error, not a pass."""
    with pytest.raises(ContractError, match="finished two matches in 60 steps"):
        check_match_batch(lambda rows, threads: MatrixBatch(rows, Options(rounds=50)), steps=60)


def pay_held_rows(batch: Any, step: Any) -> None:
    kept = batch.reward_terms[batch.held].copy() + 1
    step()
    batch.reward_terms[batch.held] = kept


def draw_in_held_rows(batch: Any, step: Any) -> None:
    """A held row's match goes on in secret: its log is another afterwards."""
    for row in np.flatnonzero(batch.held):
        batch._rows[row].seed += 1
    step()


def read_waiting_seats(batch: Any, step: Any) -> None:
    waiting = np.where(batch.to_act, 0, batch.actions[:, :, 0]).sum(axis=1)
    step()
    batch.obs[:, :, 0] = (waiting < 0)[:, None]


def skip_bots(batch: Any) -> None:
    """Bots decide in the step before."""
    held = batch.held.copy()
    for _ in range(9):
        bots = ((batch.controllers != EXTERNAL) & batch.to_act).any(axis=1)
        if not bots.any():
            break
        batch.held[:] = ~bots
        ends = batch.terminated.copy(), batch.truncated.copy(), batch.reward_terms.copy()
        TurnRowBatch.step(batch)
        batch.terminated |= ends[0]
        batch.truncated |= ends[1]
        batch.reward_terms += ends[2]
    batch.held[:] = held


PLAY_ALL = with_(TurnRowBatch, "_playing", lambda batch, plain: range(batch.num_rows))
TURNS: dict[str, tuple[Kind, str]] = {
    "moves held rows": (PLAY_ALL, "step 0: obs of a row that is held has changed"),
    "pays held rows": (turned(pay_held_rows), "reward_terms of a row that is held"),
    "ends held rows": (
        stepped(lambda b: b.terminated.__ior__(b.held), TurnRowBatch),
        "a match ended in a row that is held",
    ),
    "touches held masks": (
        stepped(lambda b: b.mask[..., -1].__isub__(b.held[:, None]), TurnRowBatch),
        "mask of a row that is held has changed",
    ),
    "draws in held rows": (turned(draw_in_held_rows), "it was held, a row plays differently"),
    "releases held rows": (stepped(write("held", ..., False), TurnRowBatch), "writes held, which is the engine's"),
    "reads waiting seats": (turned(read_waiting_seats), "a seat that is not to act changes the match"),
    "nobody acts": (
        after(TurnRowBatch, "_tell_turns", lambda b: b.to_act[0].__iand__(len(b._rows[0].log) < 2)),
        "step 2 of its match 1: no seat is to act",
    ),
    "both always act": (
        after(TurnRowBatch, "_tell_turns", write("to_act", ..., True)),
        "both seats are to act in every step",
    ),
    "bots take no step": (
        after(stepped(skip_bots, TurnRowBatch), "reset", skip_bots),
        "bot random in seat 0 is never to act",
    ),
    "forgets turns": (keeping(TurnRowBatch, "set_state", "to_act"), "set_state does not write to_act"),
    "half in turns": (
        after(PLAY_ALL, "__init__", lambda b: b.__dict__.update(_hidden=b.__dict__.pop("held"))),
        "the batch has one of them",
    ),
}


@pytest.mark.parametrize("name", TURNS)
def test_a_broken_rule_of_turns_is_named(name: str) -> None:
    kind, rule = TURNS[name]
    with pytest.raises(ContractError, match=rule) as caught:
        check_match_batch(lambda rows, threads: kind(Hands, rows, ""), steps=40, rows=3)
    assert "\n" not in str(caught.value)


def test_who_decides_is_shown() -> None:
    """`to_act` is that of the match: one seat, or both where both decide at once."""
    batch = TurnRowBatch(Auction, 2, "")
    batch.reset(0)
    assert batch.to_act.all()
    batch.actions[:, :, 0] = [[0, 2], [2, 0]]
    batch.step()
    assert batch.to_act.tolist() == [[False, True], [True, False]]
    batch.held[:] = [True, False]
    batch.step()
    assert batch.to_act.tolist() == [[False, True], [True, True]]


def observing(change: Callable[[Any], Any]) -> Kind:
    """A batch that changes something whenever it shows what is seen."""
    return after(GuessingBatch, "show", change)


@pytest.mark.parametrize(
    ("broken", "kind", "rule"),
    [
        (observing(write("mask", np.s_[:, 1], -1)), "tuples", "no tuple is legal"),
        (observing(lambda b: b.mask[..., 2:4].__setitem__(..., b.mask[..., :2])), "tuples", "listed twice"),
        (observing(write("mask", np.s_[..., :2], -1)), "tuples", "no tuple is legal"),
        (observing(write("mask", np.s_[..., 0], 3)), "tuples", "no choice of its part"),
        (observing(write("obs", np.s_[..., 1], 0.5)), "tokens", r"part 'cards' has .*whole numbers from 0 to 3"),
        (
            after(GuessingBatch, "__init__", lambda b: setattr(b, "actions", b.actions.astype(np.int32))),
            "box",
            "actions has dtype int32, not float32",
        ),
    ],
)
def test_what_no_space_has_is_named(broken: Kind, kind: Any, rule: str) -> None:
    with pytest.raises(ContractError, match=rule):
        check_match_batch(lambda rows, threads: broken(rows, guessing.Options(kind=kind)), steps=60)


def test_a_bot_that_tells_nothing_breaks_the_contract() -> None:
    """With public actions a game writes into `actions` what its bots played."""
    silent = keeping(GuessingBatch, "step", "actions")
    with pytest.raises(ContractError, match="public_actions: what bot random played is not written"):
        check_match_batch(lambda rows, threads: silent(rows, guessing.Options(kind="box", public=True)), steps=30)
