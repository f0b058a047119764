"""The compiled rules of brawl and the batch that steps them. Tested against tests/oracles/brawl.

Only + - * / and sqrt on float64 decide anything, and the build forbids fused multiply-add.
"""

from cython.parallel cimport prange
from libc.math cimport fabs, sqrt
from libc.stdint cimport int16_t, int32_t, int64_t, int8_t, uint64_t, uint8_t
from libc.string cimport memcpy, memset

from dataclasses import asdict

import numpy as np

from league.envs.arrays import GOLDEN, row_seeds
from league.envs.brawl.moves import IDS, KINDS, STRIKES, TAUNT as TAUNT_NAME, WEAPONS
from league.envs.brawl.rules import BOTS, KEYS, METRICS, TERMS
from league.envs.brawl.styles import RANGES, STANDARD, STYLES
from league.envs.brawl.state import STATE_DTYPE, pack_state, regroup_states, unpack_state
from league.envs.inputs import need_controllers, need_keys, need_seed
from league.types import result_dtype

include "structs.pxi"
include "fighter.pxi"
include "fight.pxi"
include "view.pxi"
include "bots.pxi"
include "style.pxi"


cdef void step_row(const Row* row, const Game* g) noexcept nogil:
    """One decision of one match, and the next match's start if it ends."""
    cdef Match* m = row.match
    cdef double terms[2 * NUM_TERMS]
    cdef int32_t keys[2]
    cdef int32_t winner = -1
    cdef int32_t reason = ONGOING
    cdef int s, i
    memset(terms, 0, sizeof(terms))
    for s in range(2):
        m.fighters[s].controller = row.controllers[s]
    for s in range(2):
        keys[s] = decide(m, s, row, g)
    for _ in range(g.rules.ticks_per_step):
        match_tick(m, g, keys, terms)
        reason = end_of_match(m, g, &winner)
        if reason != ONGOING:
            break
    row.terminated[0] = reason != ONGOING
    if reason != ONGOING:
        settle(m, winner, terms)
        write_result(m, reason, winner, g, row.result)
        write_obs(m, g, row.final_obs)
        start_match(m, mix(m.seed + <uint64_t>0x9E3779B97F4A7C15), g)
    for i in range(2 * NUM_TERMS):
        row.terms[i] = <float>terms[i]
    write_obs(m, g, row.obs)
    write_mask(m, g, row.mask)


include "../contract/batch.pxi"


cdef class BrawlBatch(CompiledBatch):
    """`rows` matches of brawl stepped together in up to `threads` threads; a `league.types.MatchBatch`.

    Raises:
        ValueError: a count below 1, or rules or moves that the compiled code cannot hold.
    """

    def __init__(self, Py_ssize_t rows, int threads, *, spec, rules, bytes options_hash):
        super().__init__(rows, threads, spec=spec, rules=rules, options_hash=options_hash)
        if [len(table) for table in (KEYS, TERMS, METRICS, BOTS, WEAPONS, KINDS, RANGES, STYLES)] != [
            NUM_KEYS, NUM_TERMS, NUM_METRICS, NUM_BOTS, NUM_WEAPONS, NUM_KINDS, NUM_STYLE, STYLES_HELD_OUT + 1
        ] or len(STRIKES) > MAX_STRIKES:
            raise ValueError("the compiled tables differ from rules.py or moves.py; build the extension again")
        self.game.standard = asdict(STANDARD)
        for i, bounds in enumerate(RANGES.values()):
            self.game.ranges[i] = {key: value for key, value in asdict(bounds).items() if key != "meaning"}
        for i, strike in enumerate(STRIKES):
            self.game.strikes[i] = asdict(strike)
        for w, weapon in enumerate(WEAPONS):
            for k, kind in enumerate(KINDS):
                self.game.starts[w][k] = IDS[f"{weapon}.{kind}"]
        self.game.taunt = IDS[TAUNT_NAME]
        self._allocate()
        self.reset(0)

    def _allocate(self):
        rows = self.num_rows
        self.obs = np.zeros((rows, 2, 2 * HALF), np.float32)
        self.final_obs = np.zeros((rows, 2, 2 * HALF), np.float32)
        self.actions = np.zeros((rows, 2, NUM_KEYS), np.int32)
        self.mask = np.zeros((rows, 2, NUM_KEYS), np.bool_)
        self.reward_terms = np.zeros((rows, 2, NUM_TERMS), np.float32)
        self.terminated = np.zeros(rows, np.bool_)
        self.truncated = np.zeros(rows, np.bool_)
        self.result = np.zeros(rows, result_dtype(NUM_METRICS))
        self.controllers = np.full((rows, 2), EXTERNAL, np.int16)
        self.records = np.zeros(rows, STATE_DTYPE)
        self.first.match = <Match*>address(self.records)
        self.first.actions = <int32_t*>address(self.actions)
        self.first.controllers = <int16_t*>address(self.controllers)
        self.first.obs = <float*>address(self.obs)
        self.first.final_obs = <float*>address(self.final_obs)
        self.first.mask = <uint8_t*>address(self.mask)
        self.first.terms = <float*>address(self.reward_terms)
        self.first.terminated = <uint8_t*>address(self.terminated)
        self.first.result = <Result*>address(self.result)

    cdef Row _row(self, Py_ssize_t i) noexcept nogil:
        cdef Row row
        row.match = self.first.match + i
        row.actions = self.first.actions + i * 2 * NUM_KEYS
        row.controllers = self.first.controllers + i * 2
        row.obs = self.first.obs + i * 4 * HALF
        row.final_obs = self.first.final_obs + i * 4 * HALF
        row.mask = self.first.mask + i * 2 * NUM_KEYS
        row.terms = self.first.terms + i * 2 * NUM_TERMS
        row.terminated = self.first.terminated + i
        row.result = self.first.result + i
        return row

    cdef void _show(self) noexcept:
        cdef Py_ssize_t i
        cdef Row row
        for i in range(self.num_rows):
            row = self._row(i)
            write_obs(row.match, &self.game, row.obs)
            write_mask(row.match, &self.game, row.mask)

    cdef bint _has_wrong_inputs(self) noexcept nogil:
        """Whether a controller is unknown or a key, of an external seat or not, is neither 0 nor 1."""
        cdef Py_ssize_t i
        cdef int32_t bits = 0
        cdef bint wrong = False
        for i in range(self.num_rows * 2 * NUM_KEYS):
            bits |= self.first.actions[i]
        for i in range(self.num_rows * 2):
            wrong |= self.first.controllers[i] < EXTERNAL or self.first.controllers[i] >= NUM_BOTS
        return wrong or bits & ~1 != 0

    def _need_inputs(self):
        cdef bint is_wrong
        with nogil:
            is_wrong = self._has_wrong_inputs()
        if is_wrong:
            need_controllers(self.controllers, len(BOTS))
            need_keys(self.controllers, self.actions)

    def get_state(self):
        """Everything that the next steps depend on, as `state.py` lays it out; controllers included."""
        self.records["fighters"]["controller"] = self.controllers
        return pack_state(self.records, self.options_hash)

    def set_state(self, state):
        """Restores `get_state()` of a batch of the same options and size; writes controllers, obs and mask.

        Raises:
            ValueError: the blob is damaged or of another game, version, size or set of options.
        """
        self.records[:] = unpack_state(state, self.num_rows, self.options_hash)
        self.controllers[:] = self.records["fighters"]["controller"]
        self._clear()
        self._show()

    def regroup(self, states, num_rows):
        """The matches of `states`, in their order, as states of batches of `num_rows` rows each (`types.Regrouping`).

        Raises:
            ValueError: a blob is damaged or of another game, version or set of options, or the rows differ in number.
        """
        return regroup_states(states, num_rows, self.options_hash)
