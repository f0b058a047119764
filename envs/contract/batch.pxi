# What compiled batches have in common; included where Match, Row, Game, Result, step_row and start_match are declared.


cdef class CompiledBatch:
    """`rows` matches stepped together in up to `threads` threads; a `league.types.MatchBatch` but for its arrays.

    Args:
        spec: kept as the attribute `spec`.
        rules: every number of the game.
        options_hash: 16 bytes that the state blob carries; a blob with others is refused.

    Raises:
        ValueError: a count below 1, or structs that differ from their dtypes.
    """

    cdef readonly object spec, rules, obs, actions, mask, reward_terms, terminated, truncated, final_obs, result
    cdef readonly object controllers
    cdef readonly Py_ssize_t num_rows
    cdef readonly int threads
    cdef object records
    cdef bytes options_hash
    cdef Game game
    cdef Row first

    def __init__(self, Py_ssize_t rows, int threads, *, spec, rules, bytes options_hash):
        if rows < 1:
            raise ValueError(f"rows={rows} must be at least 1")
        if threads < 1:
            raise ValueError(f"threads={threads} must be at least 1")
        if sizeof(Match) != STATE_DTYPE.itemsize or sizeof(Result) != result_dtype(NUM_METRICS).itemsize:
            raise ValueError("the compiled structs differ from their dtypes; build the extension again")
        self.spec = spec
        self.rules = rules
        self.num_rows = rows
        self.threads = threads
        self.options_hash = options_hash
        self.game.rules = asdict(rules)

    cdef Row _row(self, Py_ssize_t i) noexcept nogil:
        return self.first

    cdef void _show(self) noexcept:
        pass

    cdef void _step_one(self, Py_ssize_t i) noexcept nogil:
        cdef Row row = self._row(i)
        step_row(&row, &self.game)

    def reset(self, seed):
        """Starts a new match in every row: row i from a seed derived from (`seed`, i), or from `seed[i]` itself.

        Args:
            seed: an int within [0, 2**64), or a uint64 array (B,). Controllers and `held` are left as they are.

        Raises:
            ValueError: the seed is neither.
        """
        cdef Py_ssize_t i
        cdef const uint64_t[::1] seeds = self._seeds(seed)
        self._clear()
        for i in range(self.num_rows):
            start_match(self.first.match + i, seeds[i], &self.game)
        self._show()

    def _seeds(self, seed):
        given = need_seed(seed, self.num_rows)
        return row_seeds((given + int(GOLDEN)) % 2**64, self.num_rows) if isinstance(given, int) else given

    def _clear(self):
        for array in (self.reward_terms, self.terminated, self.truncated, self.final_obs):
            array.fill(0)
        self.result.view(np.uint8).fill(0)

    def step(self):
        """One decision of every match: of those that are not held, in a game in turns.

        Raises:
            ValueError: a controller is unknown, or an external seat that decides has no action; nothing has moved then.
        """
        cdef Py_ssize_t i
        self._need_inputs()
        if self.threads == 1:
            with nogil:
                for i in range(self.num_rows):
                    self._step_one(i)
        else:
            for i in prange(self.num_rows, nogil=True, num_threads=self.threads, schedule="dynamic", chunksize=CHUNK):
                self._step_one(i)

    def record(self, Py_ssize_t row):
        """A copy of one match's state, a STATE_DTYPE scalar, for those who draw or describe it.

        Raises:
            IndexError: no such row.
        """
        if not 0 <= row < self.num_rows:
            raise IndexError(f"row={row} must be within [0, {self.num_rows})")
        return self.records[row].copy()


cdef void* address(array) except NULL:
    cdef uint8_t[::1] view = array.reshape(-1).view(np.uint8)
    return &view[0]
