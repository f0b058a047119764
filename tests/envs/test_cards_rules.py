"""The card duel: masks, the bound of the legal tuples, states, seats, what is hidden."""

from itertools import product
from typing import Any

import numpy as np
import pytest

from league.envs.blob import HEADER
from league.envs.cards import env
from league.envs.cards.catalogue import CARDS, IDS, TARGETS, has, read
from league.envs.cards.env import Options
from league.envs.cards.rules import BOTS, HAND, MAX_TUPLES, NUM_TARGETS, SLOTS, TYPES
from league.envs.cards.state import STATE_DTYPE, pack_state
from tests.helpers.cards_scenes import act, put, records_of, restore, scene, stirred, tuples_of

END, STOKE, PLAY, CAST, ATTACK, ABILITY = range(6)


def begin(record: Any) -> Any:
    """A batch of one row in this state."""
    batch = env.make(1, 1, Options())
    restore(batch, record)
    return batch


def keepers(batch: Any) -> Any:
    """Both keepers as they stand."""
    return records_of(batch)[0]["keepers"]


def both(record: Any) -> Any:
    """The keepers of a scene, to be changed."""
    return record["keepers"][0]


@pytest.mark.parametrize(("health", "winner"), [((5, 4), 0), ((4, 5), 1), ((4, 4), -1)])
def test_the_limit_of_decisions(health: tuple[int, int], winner: int) -> None:
    """The hundredth decision ends the match: more health wins."""
    record = scene()
    record["decisions"] = 99
    both(record)["health"] = health
    batch = begin(record)
    act(batch, END, 0, 0, 0)
    assert batch.terminated[0] and batch.result["winner"][0] == winner and batch.result["end_reason"][0] == 1
    assert batch.result["ticks"][0] == 100


def test_masks_are_strict() -> None:
    """Of all tuples that there are, those of the mask are accepted by the rules and no others; none is twice."""
    rng, batch = np.random.default_rng(3), env.make(12, 1, Options())
    restore(batch, stirred(rng, 12, Options()))
    space = list(
        product(range(-1, len(TYPES) + 1), range(-1, len(CARDS) + 1), range(-1, 6), range(-1, NUM_TARGETS + 1))
    )
    for row in range(12):
        legal = tuples_of(batch, row)
        assert len(set(legal)) == len(legal)
        assert {action for action in space if batch.is_legal(row, action)} == set(legal)


def test_no_state_has_more_legal_tuples_than_the_mask_holds() -> None:
    """A bound from the card table: each card of a hand once, each slot's creature with all that it may reach."""
    targets = {"none": 1, "enemy_creature": SLOTS, "enemy": SLOTS + 1, "own_creature": SLOTS, "own": SLOTS + 1}
    of_kind = [targets[kind] for kind in TARGETS]
    in_hand = sorted((1 + (of_kind[card.target] if card.is_spell else SLOTS) for card in CARDS[1:]), reverse=True)
    creatures = [card for card in CARDS[1:] if not card.is_spell]
    ability = {card: of_kind[card.ability_target] if card.ability else 0 for card in creatures}
    inner = max(ability[card] + (4 if has(card, "soaring") else 3) for card in creatures)
    outer = max(ability[card] + (3 if has(card, "soaring") else 2) for card in creatures)
    bound = 1 + sum(in_hand[:HAND]) + 2 * inner + 2 * outer
    assert bound <= MAX_TUPLES
    rng, batch = np.random.default_rng(5), env.make(2000, 1, Options())
    restore(batch, stirred(rng, 2000, Options()))
    assert 35 < max(len(tuples_of(batch, row)) for row in range(2000)) <= bound


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("[a]\ncost = 1\npower = 1\nhealth = 0", "health=0"),
        ("[a]\ncost = 1\npower = 1\nhealth = 1\nkeywords = ['fast']", "fast"),
        ("[a]\ncost = 1\npower = 1\nhealth = 1\nfarewell = ['sweep', 1]", "farewell 'sweep'"),
        ("[a]\ncost = 1\nspell = ['damage', 1, 'own']", "damage needs a target of"),
        ("[a]\ncost = 1\nspell = ['burn', 1, 'own']", "'burn'"),
        ("[a]\ncost = 1\nspell = ['draw', 1, 'none']\npower = 1", "'power'"),
        ("[a]\npower = 1\nhealth = 1", "'cost'"),
    ],
)
def test_a_card_that_means_nothing_is_refused(text: str, names: str) -> None:
    """In one line that names the card and what is wrong with it."""
    with pytest.raises(ValueError, match="cards: a: ") as error:
        read(text)
    assert names in str(error.value) and "\n" not in str(error.value)


OPTIONS = Options()


def random_actions(batch: Any, rng: np.random.Generator) -> Any:
    """Legal ones for every row (B, 2, 4)."""
    numbers = rng.random((batch.num_rows, 2, batch.spec.action.mask_size))
    return batch.spec.action.legal_actions(batch.mask, numbers)


@pytest.mark.parametrize(
    "damage",
    [
        lambda r: r["keepers"]["hand"].__setitem__((0, 0, 0), 99),
        lambda r: r["keepers"]["hand"].__setitem__((0, 0), [9, 8, 0, 0, 0, 0]) or set_size(r, 2),
        lambda r: set_size(r, 7),
        lambda r: r["keepers"]["deck_size"].__setitem__((0, 0), 41),
        lambda r: r["keepers"]["deck_size"].__setitem__((0, 0), 3),
        lambda r: r["acting"].__setitem__(0, 2),
        lambda r: r["decisions"].__setitem__(0, 100),
        lambda r: r["keepers"]["health"].__setitem__((0, 0), 0),
        lambda r: r["keepers"]["last"].__setitem__((0, 0, 3), 11),
        lambda r: r["keepers"]["board"]["card"].__setitem__((0, 0, 0), IDS["spark"]),
        lambda r: r["keepers"]["board"]["power"].__setitem__((0, 0, 0), 1),
        lambda r: r["keepers"]["controller"].__setitem__((0, 1), len(BOTS)),
    ],
)
def test_impossible_states_are_refused(damage: Any) -> None:
    batch = env.make(1, 1, OPTIONS)
    batch.reset(2)
    state = batch.get_state()
    records = records_of(batch).copy()
    records["keepers"]["board"][0, 0, 0] = 0
    damage(records)
    with pytest.raises(ValueError, match="state: "):
        restore(batch, records)
    for blob in (b"", state[:-1], state + b"\0", b"x" + state[1:], env.make(2, 1, OPTIONS).get_state()):
        with pytest.raises(ValueError, match="state: "):
            batch.set_state(blob)
    with pytest.raises(ValueError, match="game, version and options"):
        env.make(1, 1, Options(health=19)).set_state(state)
    assert batch.get_state() == state


def set_size(records: Any, size: int) -> None:
    records["keepers"]["hand_size"][0, 0] = size


def test_seats_are_exchanged_bit_for_bit() -> None:
    """With the keepers, controllers and actions exchanged the other seat plays the same match, in every bit of it."""
    rows, rng = 40, np.random.default_rng(6)
    batch, mirror = env.make(rows, 1, OPTIONS), env.make(rows, 1, OPTIONS)
    batch.controllers[:] = rng.integers(-1, len(BOTS), (rows, 2))
    batch.reset(8)
    records = np.frombuffer(batch.get_state(), STATE_DTYPE, offset=HEADER.size).copy()
    records["keepers"] = records["keepers"][:, ::-1]
    for name in ("acting", "began"):
        records[name] = 1 - records[name]
    mirror.set_state(pack_state(records, env.options_hash(OPTIONS)))
    over = np.zeros(rows, bool)
    while not over.all():
        batch.held[:] = mirror.held[:] = over
        batch.actions[:] = random_actions(batch, rng)
        mirror.actions[:] = batch.actions[:, ::-1]
        batch.step()
        mirror.step()
        ended = batch.terminated.copy()
        assert (mirror.terminated == ended).all()
        goes = ~over & ~ended
        for name in ("obs", "mask", "to_act"):
            assert (getattr(batch, name)[goes] == getattr(mirror, name)[goes][:, ::-1]).all(), name
        assert (batch.reward_terms == mirror.reward_terms[:, ::-1]).all()
        assert (batch.final_obs[ended] == mirror.final_obs[ended][:, ::-1]).all()
        ours, theirs = batch.result[ended], mirror.result[ended]
        assert (ours["metrics"] == theirs["metrics"][:, ::-1]).all() and (ours["ticks"] == theirs["ticks"]).all()
        assert (np.where(ours["winner"] < 0, -1, 1 - ours["winner"]) == theirs["winner"]).all()
        over |= ended


def test_nobody_sees_what_is_hidden() -> None:
    """Another hand of the opponent's unseen cards, other decks and other random streams give the same view."""
    rng, rows = np.random.default_rng(7), 60
    batch, other = env.make(rows, 1, OPTIONS), env.make(rows, 1, OPTIONS)
    records = stirred(rng, rows, OPTIONS)
    restore(batch, records)
    for seat in (0, 1):
        changed = records.copy()
        for record in changed:
            mine, theirs = record["keepers"][seat], record["keepers"][1 - seat]
            size = int(theirs["hand_size"])
            unseen = rng.permutation([*theirs["hand"][:size], *theirs["deck"][: theirs["deck_size"]]]).tolist()
            put(theirs, "hand", sorted(unseen[:size]))
            put(theirs, "deck", unseen[size:])
            put(mine, "deck", rng.permutation(mine["deck"][: mine["deck_size"]]).tolist())
            for keeper in (mine, theirs):
                keeper["rng"] = rng.integers(2**63)
            record["rng"], record["seed"] = rng.integers(2**63, size=2)
        restore(other, changed)
        assert (other.obs[:, seat] == batch.obs[:, seat]).all()
        assert (other.obs[:, 1 - seat] != batch.obs[:, 1 - seat]).any(), "the opponent sees its own hand"
        assert (other.mask[:, seat] == batch.mask[:, seat]).all()
