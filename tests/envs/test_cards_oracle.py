"""The compiled card duel against its slow reference: the same bits, decision by decision."""

from collections import Counter
from typing import Any

import numpy as np
import pytest

from league.envs.cards import env
from league.envs.cards.catalogue import CARDS, NAMES
from league.envs.cards.env import Options
from league.envs.cards.rules import BOTS
from tests.helpers.cards_scenes import restore, stirred
from tests.oracles.cards.batch import ReferenceBatch
from tests.oracles.cards.match import ReferenceMatch
from tests.oracles.cards.state import Action

ARRAYS = ("obs", "mask", "reward_terms", "terminated", "truncated", "final_obs", "result", "controllers", "to_act")
PAIRS = [(-1, -1), *((-1, bot) for bot in range(len(BOTS))), *((a, b) for a in range(3) for b in range(3))]


def reference(rows: int, options: Options) -> ReferenceBatch:
    """A batch of the reference."""
    return ReferenceBatch(
        rows, 1, spec=env.spec(options), rules=env.rules_of(options), options_hash=env.options_hash(options)
    )


def assert_equal(compiled: Any, slow: Any, where: object, *, states: bool = True) -> None:
    """Every array and the state have the same bytes."""
    for name in ARRAYS:
        ours, theirs = getattr(compiled, name), getattr(slow, name)
        differs = np.flatnonzero((ours != theirs).reshape(len(ours), -1).any(axis=1))
        assert ours.tobytes() == theirs.tobytes(), (where, name, differs)
    if states:
        assert compiled.get_state() == slow.get_state(), where


@pytest.mark.parametrize(
    ("seed", "options"),
    [(0, Options()), (2**64 - 1, Options(health=40, deck=10, decision_limit=200))],
    ids=["as it is", "other options"],
)
def test_the_reference_is_equal_bit_for_bit(seed: int, options: Options) -> None:
    """Arrays and states over random legal decisions, every pair of controllers, rows held now and then."""
    rng, rows = np.random.default_rng(0), len(PAIRS)
    batches = env.make(rows, 2, options), reference(rows, options)
    for batch in batches:
        batch.controllers[:] = PAIRS
        batch.reset(seed)
    ends = 0
    for step in range(110):
        numbers = rng.random((rows, 2, batches[0].spec.action.mask_size))
        actions = batches[0].spec.action.legal_actions(batches[0].mask, numbers)
        held = rng.random(rows) < 0.05
        for batch in batches:
            batch.actions[:], batch.held[:] = actions, held
            batch.step()
        assert_equal(*batches, step, states=step % 10 == 0)
        ends += int(batches[0].terminated.sum())
        if step == 60:
            state = batches[0].get_state()
            batches = env.make(rows, 1, options), reference(rows, options)
            for batch in batches:
                batch.set_state(state)
    assert ends >= 10


def deeds(match: ReferenceMatch, action: Action) -> set[str]:
    """What a decision is about to do, by name: what each card can do, and what befalls the keepers."""
    creature = match.me.board[action.slot - 1] if action.slot else None
    name = NAMES[(creature.card_id if creature else action.card) - 1] if creature or action.card else ""
    found = {f"{action.kind} {name}".strip()}
    if action.kind == "attack":
        defender = match.creature_at(match.acting, action.target)
        found |= {f"defends {NAMES[defender.card_id - 1]}"} if defender else {f"attack keeper {name}"}
    if action.kind == "end":
        found |= {"draws from nothing"} if not match.other.deck else set()
        found |= {"burns a card"} if match.other.deck and len(match.other.hand) == 6 else set()
        found |= {"keeps a creature snared"} if any(c.snared for _, c in match.other.creatures()) else set()
    return found


def every_deed() -> set[str]:
    """All that there is to be seen."""
    found = {"end", "draws from nothing", "burns a card", "keeps a creature snared"}
    found |= {"ends keeper_fell", "ends time_limit", "ends in a draw"}
    for name, card in zip(NAMES, CARDS[1:], strict=True):
        found |= {f"stoke {name}", f"{'cast' if card.is_spell else 'play'} {name}"}
        if not card.is_spell:
            found |= {f"attack {name}", f"attack keeper {name}", f"defends {name}", f"destroyed {name}"}
        if card.ability:
            found |= {f"ability {name}"}
    return found


def test_the_reference_is_equal_wherever_a_match_can_be() -> None:
    """From stirred states every card does all that it can do, in both forms alike, bots included."""
    rng, rows, options = np.random.default_rng(1), 330, Options()
    batches = env.make(rows, 1, options), reference(rows, options)
    seen: Counter[str] = Counter()
    for _ in range(7):
        records = stirred(rng, rows, options)
        records["keepers"]["controller"][:40] = rng.integers(-1, len(BOTS), (40, 2))
        for batch in batches:
            restore(batch, records, options)
        assert_equal(*batches, "stirred")
        actions = batches[0].spec.action.legal_actions(batches[0].mask, rng.random((rows, 2, 256)))
        matches = batches[1]._matches
        boards = [[list(keeper.board) for keeper in match.keepers] for match in matches]
        for row in range(40, rows):
            seen.update(deeds(matches[row], Action(*actions[row, matches[row].acting].tolist())))
        for batch in batches:
            batch.actions[:] = actions
            batch.step()
        assert_equal(*batches, "after a decision")
        for row in np.flatnonzero(batches[0].terminated):
            seen[f"ends {env.SPEC.end_reasons[batches[0].result['end_reason'][row]]}"] += 1
            seen["ends in a draw"] += int(batches[0].result["winner"][row] == -1)
        for row in np.flatnonzero(~batches[0].terminated):
            for before, keeper in zip(boards[row], matches[row].keepers, strict=True):
                gone = [c for c, now in zip(before, keeper.board, strict=True) if c and now is None and c.health <= 0]
                seen.update(f"destroyed {NAMES[c.card_id - 1]}" for c in gone)
    assert set(+seen) == every_deed(), set(+seen) ^ every_deed()


@pytest.mark.parametrize("seed", [-1, 2**64, True, 1.5, np.zeros(2, np.uint64), np.zeros(3)])
def test_both_refuse_the_same_seeds(seed: Any) -> None:
    for batch in (reference(3, Options()), env.make(3, 1, Options())):
        with pytest.raises(ValueError, match="seed"):
            batch.reset(seed)


@pytest.mark.parametrize(
    ("name", "value"), [("controllers", len(BOTS)), ("actions", (0, 0, 0, 11)), ("actions", (-1, 0, 0, 0))]
)
def test_both_refuse_the_same_inputs(name: str, value: Any) -> None:
    """An unknown controller and numbers that are no action; nothing has moved then."""
    for batch in (reference(2, Options()), env.make(2, 1, Options())):
        state, seat = batch.get_state(), int(batch.to_act[1].argmax())
        getattr(batch, name)[1, seat] = value
        with pytest.raises(ValueError, match=rf"{name}\[1, {seat}\]"):
            batch.step()
        batch.controllers[:] = -1
        assert batch.get_state() == state


def test_what_is_not_legal_ends_the_turn() -> None:
    """Players of Gymnasium send such; in both forms it counts as (0, 0, 0, 0), whatever it is."""
    rng, differ = np.random.default_rng(0), 0
    batch: Any
    plain: Any
    for make in (lambda: env.make(8, 1, Options()), lambda: reference(8, Options())):
        batch, plain = make(), make()
        for each in (batch, plain):
            each.reset(2)
        for _ in range(60):
            given = rng.integers(0, batch.spec.action.choices, (8, 2, 4))
            batch.actions[:] = given
            for row in range(8):
                seat = int(plain.to_act[row].argmax())
                is_legal = plain.is_legal(row, given[row, seat])
                plain.actions[row, seat] = given[row, seat] if is_legal else (0, 0, 0, 0)
                differ += not is_legal
            batch.step()
            plain.step()
            assert batch.get_state() == plain.get_state()
    assert differ > 400
