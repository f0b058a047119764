"""The compiled rules of the card duel and the batch that steps them. Tested against tests/oracles/cards.

All rules are in whole numbers; only what is shown is divided, in float64, and rounded once to float32.
"""

from cython.parallel cimport prange
from libc.stdint cimport int16_t, int32_t, int8_t, uint64_t, uint8_t
from libc.string cimport memcpy, memset

from dataclasses import asdict

import numpy as np

from league.envs.arrays import GOLDEN, row_seeds
from league.envs.cards.catalogue import CARDS, EFFECTS, KEYWORDS, TARGETS
from league.envs.cards.layout import CHOICES, PRIVATE_SIZE, PUBLIC_SIZE, SIZE
from league.envs.cards import rules as numbers
from league.envs.cards.state import STATE_DTYPE, pack_state, regroup_states, unpack_state
from league.envs.inputs import need_controllers, need_seed, refuse_tuple
from league.types import result_dtype

include "structs.pxi"
include "duel.pxi"
include "legal.pxi"
include "view.pxi"
include "bots.pxi"


cdef inline Action given_action(const Row* row) noexcept nogil:
    """What the engine wrote for the seat that is to act."""
    cdef const int32_t* given = row.actions + row.match.acting * NUM_PARTS
    cdef Action a
    a.kind, a.card, a.slot, a.target = given[0], given[1], given[2], given[3]
    return a


cdef inline void tell_action(const Row* row, const Action* a) noexcept nogil:
    """Writes what the bot that is to act plays where the engine would have written it."""
    cdef int32_t* told = row.actions + row.match.acting * NUM_PARTS
    told[0], told[1], told[2], told[3] = a.kind, a.card, a.slot, a.target


cdef inline void hand_over(const Row* row) noexcept nogil:
    """Tells the match who plays."""
    row.match.keepers[0].controller = row.controllers[0]
    row.match.keepers[1].controller = row.controllers[1]


cdef inline void count_terms(const Keeper* me, const Keeper* other, int32_t sign, float* terms) noexcept nogil:
    """What the counters of one seat say; after less before is what a decision brought."""
    terms[DAMAGE_DEALT] += sign * me.damage_dealt
    terms[DAMAGE_TAKEN] += sign * other.damage_dealt
    terms[CREATURE_DESTROYED] += sign * me.destroyed
    terms[CREATURE_LOST] += sign * me.lost
    terms[CARD_PLAYED] += sign * (me.played + me.cast)
    terms[CARD_BURNT] += sign * me.burnt
    terms[LAMP] += sign * me.lamps


cdef void step_row(const Row* row, const Game* g) noexcept nogil:
    """One decision of one match, and the next match's start if it ends."""
    cdef Match* m = row.match
    cdef int32_t winner = -1
    cdef int32_t reason, s
    cdef int32_t bot = row.controllers[m.acting]
    cdef Action a
    memset(row.terms, 0, 2 * NUM_TERMS * sizeof(float))
    row.terminated[0] = False
    if row.held[0]:
        return
    hand_over(row)
    if bot != EXTERNAL:
        a = choose(m, bot, g)
        tell_action(row, &a)
    else:
        a = given_action(row)
        if not is_legal(m, &a, g):
            a.kind = a.card = a.slot = a.target = 0  # ends the turn, which is always legal
    for s in range(2):
        count_terms(&m.keepers[s], &m.keepers[1 - s], -1, row.terms + s * NUM_TERMS)
    perform(m, &a, g)
    for s in range(2):
        count_terms(&m.keepers[s], &m.keepers[1 - s], 1, row.terms + s * NUM_TERMS)
    reason = end_of_match(m, g, &winner)
    row.terminated[0] = reason != ONGOING
    if reason != ONGOING:
        if winner >= 0:
            row.terms[winner * NUM_TERMS + WIN] = 1.0
            row.terms[(1 - winner) * NUM_TERMS + WIN] = -1.0
        write_result(m, reason, winner, row.result)
        write_obs(m, g, row.final_obs)
        start_match(m, mix(m.seed + <uint64_t>0x9E3779B97F4A7C15), g)
    write_obs(m, g, row.obs)
    write_turn(m, g, row.mask, row.to_act)


include "../contract/batch.pxi"


cdef class CardsBatch(CompiledBatch):
    """`rows` duels stepped together in up to `threads` threads; a `league.types.MatchBatch` in `Turns`.

    Raises:
        ValueError: a count below 1, or rules or cards that the compiled code cannot hold.
    """

    cdef readonly object to_act, held

    def __init__(self, Py_ssize_t rows, int threads, *, spec, rules, bytes options_hash):
        super().__init__(rows, threads, spec=spec, rules=rules, options_hash=options_hash)
        if (
            [len(table) for table in (numbers.TYPES, numbers.TERMS, numbers.METRICS, numbers.BOTS)]
            != [NUM_TYPES, NUM_TERMS, NUM_METRICS, NUM_BOTS]
            or [len(CARDS), len(KEYWORDS), len(EFFECTS), len(TARGETS)] != [NUM_CARDS + 1, 6, OIL + 1, OWN + 1]
            or [numbers.SLOTS, numbers.HAND, numbers.MAX_DECK, numbers.COPIES] != [SLOTS, HAND, MAX_DECK, COPIES]
            or [numbers.MAX_TUPLES, numbers.NUM_TARGETS] != [MAX_TUPLES, NUM_TARGETS]
            or [PRIVATE_SIZE, PUBLIC_SIZE, SIZE] != [PRIVATE, PUBLIC, OBS]
        ):
            raise ValueError("the compiled tables differ from rules.py, cards.toml or layout.py; build again")
        for i, card in enumerate(CARDS):
            self.game.cards[i] = asdict(card)
        self._allocate()
        self.reset(0)

    def _allocate(self):
        rows = self.num_rows
        self.obs = np.zeros((rows, 2, OBS), np.float32)
        self.final_obs = np.zeros((rows, 2, OBS), np.float32)
        self.actions = np.zeros((rows, 2, NUM_PARTS), np.int32)
        self.mask = np.zeros((rows, 2, MAX_TUPLES * NUM_PARTS), np.int16)
        self.reward_terms = np.zeros((rows, 2, NUM_TERMS), np.float32)
        self.terminated = np.zeros(rows, np.bool_)
        self.truncated = np.zeros(rows, np.bool_)
        self.to_act = np.zeros((rows, 2), np.bool_)
        self.held = np.zeros(rows, np.bool_)
        self.result = np.zeros(rows, result_dtype(NUM_METRICS))
        self.controllers = np.full((rows, 2), EXTERNAL, np.int16)
        self.records = np.zeros(rows, STATE_DTYPE)
        self.first.match = <Match*>address(self.records)
        self.first.actions = <int32_t*>address(self.actions)
        self.first.controllers = <int16_t*>address(self.controllers)
        self.first.obs = <float*>address(self.obs)
        self.first.final_obs = <float*>address(self.final_obs)
        self.first.mask = <int16_t*>address(self.mask)
        self.first.terms = <float*>address(self.reward_terms)
        self.first.terminated = <uint8_t*>address(self.terminated)
        self.first.to_act = <uint8_t*>address(self.to_act)
        self.first.held = <uint8_t*>address(self.held)
        self.first.result = <Result*>address(self.result)

    cdef Row _row(self, Py_ssize_t i) noexcept nogil:
        cdef Row row
        row.match = self.first.match + i
        row.actions = self.first.actions + i * 2 * NUM_PARTS
        row.controllers = self.first.controllers + i * 2
        row.obs = self.first.obs + i * 2 * OBS
        row.final_obs = self.first.final_obs + i * 2 * OBS
        row.mask = self.first.mask + i * 2 * MAX_TUPLES * NUM_PARTS
        row.terms = self.first.terms + i * 2 * NUM_TERMS
        row.terminated = self.first.terminated + i
        row.to_act = self.first.to_act + i * 2
        row.held = self.first.held + i
        row.result = self.first.result + i
        return row

    cdef void _show(self) noexcept:
        cdef Py_ssize_t i
        cdef Row row
        for i in range(self.num_rows):
            row = self._row(i)
            write_obs(row.match, &self.game, row.obs)
            write_turn(row.match, &self.game, row.mask, row.to_act)

    cdef Py_ssize_t _wrong_row(self) noexcept nogil:
        """The first row with an unknown controller, or an external seat to act with what is no action; or -1."""
        cdef Py_ssize_t i
        cdef Row row
        cdef Action a
        for i in range(self.num_rows):
            row = self._row(i)
            if not (EXTERNAL <= row.controllers[0] < NUM_BOTS and EXTERNAL <= row.controllers[1] < NUM_BOTS):
                return i
            if row.held[0] or row.controllers[row.match.acting] != EXTERNAL:
                continue
            a = given_action(&row)
            if not (0 <= a.kind < NUM_TYPES and 0 <= a.card <= NUM_CARDS and 0 <= a.slot <= SLOTS
                    and 0 <= a.target < NUM_TARGETS):
                return i
        return -1

    def _need_inputs(self):
        cdef Py_ssize_t wrong
        with nogil:
            wrong = self._wrong_row()
        if wrong >= 0:
            need_controllers(self.controllers, len(numbers.BOTS))
            refuse_tuple(wrong, self.first.match[wrong].acting, self.actions, CHOICES)

    def is_legal(self, Py_ssize_t row, action):
        """Whether the seat that is to act in `row` may play `action`, four whole numbers; judged without the mask.

        Raises:
            IndexError: no such row.
        """
        cdef Action a
        if not 0 <= row < self.num_rows:
            raise IndexError(f"row={row} must be within [0, {self.num_rows})")
        a.kind, a.card, a.slot, a.target = action
        return bool(is_legal(self.first.match + row, &a, &self.game))

    def get_state(self):
        """Everything that the next steps depend on, as `state.py` lays it out; controllers included."""
        self.records["keepers"]["controller"] = self.controllers
        return pack_state(self.records, self.options_hash)

    def set_state(self, state):
        """Restores `get_state()` of a batch of the same options and size; writes controllers, obs, mask and to_act.

        Raises:
            ValueError: the blob is damaged or of another game, version, size or set of options.
        """
        self.records[:] = unpack_state(state, self.num_rows, self.options_hash, self.rules)
        self.controllers[:] = self.records["keepers"]["controller"]
        self._clear()
        self._show()

    def regroup(self, states, num_rows):
        """The matches of `states`, in their order, as states of batches of `num_rows` rows each (`types.Regrouping`).

        Raises:
            ValueError: a blob is damaged or of another game, version or set of options, or the rows differ in number.
        """
        return regroup_states(states, num_rows, self.options_hash, self.rules)
