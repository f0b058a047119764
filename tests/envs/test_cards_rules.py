"""The rules of the card duel, scene by scene, in numbers written by hand; masks, and the bound of the legal tuples."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from league.envs.cards import env
from league.envs.cards.catalogue import CARDS, IDS, NAMES, TARGETS, has, read
from league.envs.cards.env import Options
from league.envs.cards.rules import HAND, MAX_TUPLES, NUM_TARGETS, SLOTS, TYPES
from tests.helpers.cards_scenes import act, place, put, records_of, restore, scene, stirred, tuples_of

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


def stats(slot: Any) -> tuple[str, int, int]:
    """(name, power, health) of a slot; an empty one has no name."""
    name = NAMES[slot["card"] - 1] if slot["card"] else ""
    return name, int(slot["power"]), int(slot["health"])


def attacks(record: Any) -> set[tuple[int, int]]:
    """(slot, target) of the legal attacks."""
    return {(slot, target) for kind, _, slot, target in tuples_of(begin(record), 0) if kind == ATTACK}


def test_turns() -> None:
    """The end of a turn gives the other keeper oil, its creatures their turn and a card; who is snared sits it out."""
    record = scene()
    me, other = both(record)
    other["oil"], other["lamps"], other["stoked"] = 1, 2, 1
    place(other, 1, "eel", acts=0)
    place(other, 2, "crab", acts=0, snared=1)
    place(me, 1, "gull", snared=1)
    batch = begin(record)
    act(batch, END, 0, 0, 0)
    me, other = keepers(batch)
    assert batch.to_act.tolist() == [[False, True]]
    assert (other["oil"], other["stoked"], other["turns"], me["turns"]) == (1 + 3 + 2, 0, 1, 0)
    assert other["hand"].tolist()[:2] == [IDS["shrimp"], 0] and other["deck_size"] == 4
    assert other["board"]["acts"].tolist() == [1, 0, 0, 0] and not other["board"]["snared"].any()
    assert me["board"]["snared"].tolist() == [1, 0, 0, 0]
    act(batch, END, 0, 0, 0)
    assert keepers(batch)[0]["oil"] == 8, "no more than can be kept"


def test_the_start() -> None:
    """Who begins has four cards and the one of its turn, the other five and an oil; both have one list of cards."""
    batch = env.make(64, 1, Options())
    batch.reset(1)
    records = records_of(batch)
    assert {int(seat) for seat in records["began"]} == {0, 1} and (records["began"] == records["acting"]).all()
    for record in records:
        first, second = record["keepers"][record["began"]], record["keepers"][1 - record["began"]]
        assert (first["hand_size"], second["hand_size"], first["oil"], second["oil"]) == (5, 5, 3, 1)
        lists = [sorted([*k["hand"][: k["hand_size"]], *k["deck"][: k["deck_size"]]]) for k in (first, second)]
        assert lists[0] == lists[1] and len(lists[0]) == 20 and max(map(lists[0].count, lists[0])) <= 2
        assert first["deck"].tolist() != second["deck"].tolist()
    assert len({tuple(deck) for deck in records["keepers"]["deck"].reshape(128, -1).tolist()}) == 128


def test_lamps() -> None:
    """A lamp costs a card, once a turn, up to three; each adds an oil a turn."""
    record = scene()
    put(both(record)[0], "hand", [IDS["eel"], IDS["eel"], IDS["orca"]])
    batch = begin(record)
    assert {line[1] for line in tuples_of(batch, 0) if line[0] == STOKE} == {IDS["eel"], IDS["orca"]}
    act(batch, STOKE, IDS["eel"], 0, 0)
    me, _ = keepers(batch)
    assert (me["lamps"], me["oil"], me["hand_size"], me["stoked"]) == (1, 8, 2, 1)
    assert not any(line[0] == STOKE for line in tuples_of(batch, 0))
    both(record)[0]["lamps"] = 3
    assert not any(line[0] == STOKE for line in tuples_of(begin(record), 0))


def test_an_empty_deck_costs_more_each_time_and_a_full_hand_burns() -> None:
    """1, then 2 points; the fall by it is a loss. The seventh card is gone."""
    record = scene()
    me, other = both(record)
    put(other, "deck", [])
    put(me, "hand", [IDS["eel"]] * HAND)
    other["health"] = 3
    batch = begin(record)
    act(batch, END, 0, 0, 0)
    assert keepers(batch)[1]["health"] == 2
    act(batch, END, 0, 0, 0)
    me = keepers(batch)[0]
    assert (me["hand_size"], me["burnt"], me["deck_size"]) == (HAND, 1, 4)
    assert batch.reward_terms[0, 0, env.SPEC.reward_terms.index("card_burnt")] == 1
    act(batch, END, 0, 0, 0)
    assert batch.terminated[0] and batch.result["winner"][0] == 0 and batch.result["end_reason"][0] == 0
    assert batch.result["metrics"][0, 0, 0] == 0, "nobody dealt that damage"


def test_ways_past_the_opponents_creatures() -> None:
    """Creatures at most a slot aside; the keeper past an empty slot beside which no bulwark stands; who soars, past."""
    record = scene()
    me, other = both(record)
    for slot in range(1, 5):
        place(me, slot, "eel")
    place(other, 1, "crab")
    assert attacks(record) == {(1, 1), (2, 1), (2, 5), (3, 5), (4, 5)}
    place(other, 1, "limpet")
    assert attacks(record) == {(1, 1), (2, 1), (3, 5), (4, 5)}
    place(me, 1, "gull")
    place(me, 2, "heron")
    assert attacks(record) == {(1, 1), (1, 5), (2, 1), (2, 5), (3, 5), (4, 5)}
    place(other, 1, "pelican")
    assert attacks(record) == {(1, 1), (2, 1), (2, 5), (3, 5), (4, 5)}
    place(me, 3, "limpet")
    place(me, 4, "eel", acts=0)
    assert attacks(record) == {(1, 1), (2, 1), (2, 5)}, "no power; not its turn"


@pytest.mark.parametrize(
    ("mine", "theirs", "left", "right", "healths"),
    [
        ("eel", "crab", ("eel", 3, 2 - 2), ("crab", 2, 2 - (3 - 1)), (10, 10)),
        ("eel", "turtle", ("eel", 3, 2 - 2), ("turtle", 2, 6 - 2), (10, 10)),
        ("jellyfish", "whale", ("jellyfish", 1, 3 - 4), ("whale", 4, 0), (10, 10)),
        ("jellyfish", "turtle", ("jellyfish", 1, 3 - 2), ("turtle", 2, 6), (10, 10)),
        ("eel", "jellyfish", ("eel", 3, 0), ("jellyfish", 1, 0), (10, 10)),
        ("lamprey", "whale", ("lamprey", 3, 0), ("whale", 4, 8 - 3), (13, 10)),
        ("seahorse", "lamprey", ("seahorse", 2, 0), ("lamprey", 3, 4 - 2), (10, 13)),
        ("urchin", "eel", ("urchin", 1, 0), ("eel", 3, 1), (10, 8)),
        ("barracuda", "urchin", ("barracuda", 3, 0), ("urchin", 1, 0), (8, 10)),
    ],
)
def test_fights(
    mine: str, theirs: str, left: tuple[str, int, int], right: tuple[str, int, int], healths: tuple[int, int]
) -> None:
    """Both hit at once; shells, venom, drains and farewells do what the table says."""
    record = scene()
    me, other = both(record)
    me["health"] = other["health"] = 10
    place(me, 1, mine)
    place(other, 2, theirs)
    batch = begin(record)
    act(batch, ATTACK, 0, 1, 2)
    me, other = keepers(batch)
    assert stats(me["board"][0]) == (left if left[2] > 0 else ("", 0, 0))
    assert stats(other["board"][1]) == (right if right[2] > 0 else ("", 0, 0))
    assert (me["health"], other["health"]) == healths
    lost = [int(left[2] <= 0), int(right[2] <= 0)]
    assert batch.reward_terms[0, :, env.SPEC.reward_terms.index("creature_lost")].tolist() == lost
    assert batch.reward_terms[0, :, env.SPEC.reward_terms.index("creature_destroyed")].tolist() == lost[::-1]
    if left[2] > 0:
        assert not me["board"][0]["acts"]


def test_attacks_on_the_keeper() -> None:
    """Damage to it is counted on both sides, a drain heals up to the first health, and the last blow wins."""
    record = scene()
    me, other = both(record)
    me["health"] = 18
    place(me, 1, "lamprey")
    place(me, 2, "eel")
    batch = begin(record)
    act(batch, ATTACK, 0, 1, 5)
    assert [int(k["health"]) for k in keepers(batch)] == [20, 17]
    terms = [env.SPEC.reward_terms.index(name) for name in ("damage_dealt", "damage_taken")]
    assert batch.reward_terms[0][:, terms].tolist() == [[3, 0], [0, 3]]
    other["health"] = 3
    batch = begin(record)
    act(batch, ATTACK, 0, 2, 5)
    assert batch.terminated[0] and batch.result["winner"][0] == 0 and not batch.truncated[0]
    assert batch.reward_terms[0, :, env.SPEC.reward_terms.index("win")].tolist() == [1, -1]
    assert batch.result["metrics"][0, :, env.METRICS.index("health_left")].tolist() == [18, 0]


def test_both_keepers_may_fall() -> None:
    """Two urchins that destroy each other deal two points each: a draw."""
    record = scene()
    me, other = both(record)
    me["health"] = other["health"] = 2
    place(me, 1, "urchin", health=1)
    place(other, 1, "urchin", health=1)
    batch = begin(record)
    act(batch, ATTACK, 0, 1, 1)
    assert batch.terminated[0] and batch.result["winner"][0] == -1
    assert not batch.reward_terms[0, :, env.SPEC.reward_terms.index("win")].any()


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


ARRIVALS = {
    "otter": lambda me, other: me["hand_size"] == 1,
    "seahorse": lambda me, other: [stats(slot) for slot in me["board"]][::2] == [("eel", 4, 3), ("gull", 3, 2)],
    "torpedo_ray": lambda me, other: other["board"]["snared"].tolist() == [0, 1, 0, 0],
    "pelican": lambda me, other: me["health"] == 13,
    "orca": lambda me, other: stats(other["board"][1]) == ("whale", 4, 6) and other["health"] == 10,
}


@pytest.mark.parametrize("name", ARRIVALS)
def test_arrivals(name: str) -> None:
    """What comes when a creature is played between an eel and a gull, opposite a whale."""
    assert set(ARRIVALS) == {n for n, card in zip(NAMES, CARDS[1:], strict=True) if card.arrival and not card.is_spell}
    record = scene()
    me, other = both(record)
    me["health"] = other["health"] = 10
    place(me, 1, "eel")
    place(me, 3, "gull")
    place(me, 4, "eel")
    place(other, 2, "whale")
    put(me, "hand", [IDS[name]])
    batch = begin(record)
    assert [line for line in tuples_of(batch, 0) if line[0] == PLAY] == [(PLAY, IDS[name], 2, 0)]
    act(batch, PLAY, IDS[name], 2, 0)
    me, other = keepers(batch)
    assert ARRIVALS[name](me, other)
    card = CARDS[IDS[name]]
    assert stats(me["board"][1])[1:] == (card.power, card.health) and not me["board"][1]["acts"]
    assert me["oil"] == 8 - card.cost == 8 - me["oil_spent"] and stats(me["board"][3]) == ("eel", 3, 2)


def test_arrivals_where_nobody_is_opposite() -> None:
    """An orca hits the keeper, a torpedo ray nobody; who is swift may act at once."""
    for name, health in (("orca", 18), ("torpedo_ray", 20), ("barracuda", 20)):
        record = scene()
        put(both(record)[0], "hand", [IDS[name]])
        batch = begin(record)
        act(batch, PLAY, IDS[name], 1, 0)
        me, other = keepers(batch)
        assert other["health"] == health and me["board"]["acts"][0] == (name == "barracuda")


SPELLS: dict[str, tuple[int, Any]] = {
    "spark": (5, lambda me, other: other["health"] == 8),
    "net": (2, lambda me, other: other["board"]["snared"].tolist() == [0, 1, 0, 0]),
    "tonic": (10, lambda me, other: me["health"] == 15),
    "barnacles": (6, lambda me, other: stats(me["board"][0]) == ("eel", 5, 3) and me["board"]["most"][0] == 4),
    "chart": (0, lambda me, other: me["hand_size"] == 2 and me["deck_size"] == 3),
    "harpoon": (2, lambda me, other: stats(other["board"][1]) == ("turtle", 2, 3)),
    "undertow": (2, lambda me, other: other["hand"][0] == IDS["turtle"] and stats(other["board"][1])[0] == ""),
    "squall": (0, lambda me, other: [stats(slot)[2] for slot in other["board"]] == [0, 5, 0, 0]),
}


@pytest.mark.parametrize("name", SPELLS)
def test_spells(name: str) -> None:
    """What each does to an eel with a wound, a turtle and a gull, and that both keepers have 10 points."""
    assert set(SPELLS) == {n for n, card in zip(NAMES, CARDS[1:], strict=True) if card.is_spell}
    record = scene()
    me, other = both(record)
    me["health"] = other["health"] = 10
    place(me, 1, "eel", health=1)
    place(other, 2, "turtle")
    place(other, 4, "gull")
    put(me, "hand", [IDS[name]])
    batch = begin(record)
    target, holds = SPELLS[name]
    act(batch, CAST, IDS[name], 0, target)
    me, other = keepers(batch)
    assert holds(me, other) and me["cast"] == 1 and me["oil"] == 8 - CARDS[IDS[name]].cost
    assert IDS[name] not in me["hand"]


def test_a_full_hand_burns_what_returns() -> None:
    """Undertow on a keeper with six cards: the creature is gone. Of two equal creatures the chosen one returns."""
    record = scene()
    me, other = both(record)
    place(other, 2, "turtle")
    place(other, 3, "turtle")
    put(other, "hand", [IDS["eel"]] * HAND)
    put(me, "hand", [IDS["undertow"]])
    batch = begin(record)
    act(batch, CAST, IDS["undertow"], 0, 3)
    other = keepers(batch)[1]
    assert [stats(slot)[0] for slot in other["board"]] == ["", "turtle", "", ""]
    assert other["burnt"] == 1 and IDS["turtle"] not in other["hand"]


def test_abilities() -> None:
    """They cost oil and the creature's turn: an archerfish spits, a nurse shark heals, an octopus snares."""
    for name, target, holds in (
        ("archerfish", 5, lambda me, other: other["health"] == 9),
        ("nurse_shark", 10, lambda me, other: me["health"] == 12),
        ("octopus", 1, lambda me, other: other["board"]["snared"][0] == 1),
    ):
        record = scene()
        me, other = both(record)
        me["health"] = other["health"] = 10
        place(me, 1, name)
        place(other, 1, "crab")
        batch = begin(record)
        act(batch, ABILITY, 0, 1, target)
        me, other = keepers(batch)
        assert holds(me, other) and not me["board"]["acts"][0] and me["abilities"] == 1
        assert me["oil"] == 8 - CARDS[IDS[name]].ability_cost
        assert not [line for line in tuples_of(batch, 0) if line[0] in (ATTACK, ABILITY)]
        both(record)[0]["oil"] = CARDS[IDS[name]].ability_cost - 1
        assert not [line for line in tuples_of(begin(record), 0) if line[0] == ABILITY]


def test_only_who_is_wounded_can_be_healed_and_who_is_free_snared() -> None:
    """Tonic has no target at full health; a net none among the snared."""
    record = scene()
    me, other = both(record)
    place(me, 1, "eel")
    place(other, 1, "crab", snared=1)
    put(me, "hand", [IDS["net"], IDS["tonic"]])
    assert not [line for line in tuples_of(begin(record), 0) if line[0] == CAST]
    me["board"]["health"][0] = 1
    other["board"]["snared"][0] = 0
    assert [line for line in tuples_of(begin(record), 0) if line[0] == CAST] == [
        (CAST, IDS["net"], 0, 1),
        (CAST, IDS["tonic"], 0, 6),
    ]


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


def test_every_listed_tuple_is_played() -> None:
    """From one state each of them moves the match on, and one that is not listed does what the first one does."""
    rng, rows = np.random.default_rng(6), 12
    batch = env.make(rows, 1, Options())
    records = stirred(rng, rows, Options())
    restore(batch, records)
    lists = [tuples_of(batch, row) for row in range(rows)]
    seats = batch.to_act.argmax(axis=1)
    for nth in range(max(map(len, lists))):
        restore(batch, records)
        batch.actions[np.arange(rows), seats] = [legal[min(nth, len(legal) - 1)] for legal in lists]
        batch.step()
        ends = batch.terminated
        assert (records_of(batch)["decisions"] == np.where(ends, 0, records["decisions"] + 1)).all()
    for _ in range(50):
        restore(batch, records)
        batch.actions[np.arange(rows), seats] = [legal[0] for legal in lists]
        batch.step()
        plain = batch.get_state()
        restore(batch, records)
        row = int(rng.integers(rows))
        action = tuple(rng.integers(0, batch.spec.action.choices).tolist())
        batch.actions[row, seats[row]] = action if action not in lists[row] else lists[row][0]
        batch.step()
        assert batch.get_state() == plain


def test_the_mask_is_a_list_that_ends() -> None:
    """From the first -1 on there is nothing but -1; who waits may do nothing but end."""
    rng, batch = np.random.default_rng(4), env.make(64, 1, Options())
    restore(batch, stirred(rng, 64, Options()))
    tuples = batch.mask.reshape(64, 2, MAX_TUPLES, 4)
    is_there = tuples[..., 0] >= 0
    assert (np.diff(is_there.astype(int), axis=-1) <= 0).all() and is_there[..., 0].all()
    assert ((tuples >= 0) == is_there[..., None]).all() and (tuples[~is_there] == -1).all()
    waiting = tuples[np.arange(64), batch.to_act.argmin(axis=1)]
    assert (waiting[:, 0] == 0).all() and (waiting[:, 1:] == -1).all()


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
