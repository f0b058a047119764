# What the players see, and what a finished match tells. Included by cards.pyx; `layout.py` names the parts.

cdef void write_public(const Match* m, int32_t seat, const Game* g, float* o) noexcept nogil:
    """The PUBLIC numbers of one seat; what is in its hand and what in its deck is not told apart."""
    cdef const Keeper* k = &m.keepers[seat]
    cdef const Creature* c
    cdef const Card* card
    cdef float* f
    cdef int32_t i, bit
    memset(o, 0, PUBLIC * sizeof(float))
    for i in range(SLOTS):
        c = &k.board[i]
        if c.card == 0:
            continue
        o[i] = c.card
        card = &g.cards[c.card]
        f = o + SLOTS + 1 + i * CREATURE
        f[0] = <float>(c.power / 8.0)
        f[1] = <float>(c.health / 8.0)
        f[2] = <float>((c.most - c.health) / 8.0)
        f[3] = c.acts
        f[4] = c.snared
        for bit in range(6):
            f[5 + bit] = (card.keywords >> bit) & 1
    f = o + SLOTS + 1 + SLOTS * CREATURE
    f[0] = <float>(k.health / <double>g.rules.health) if k.health > 0 else 0.0
    f[1] = <float>(k.oil / <double>g.rules.most_oil)
    f[2] = <float>(k.lamps / <double>g.rules.most_lamps)
    f[3] = k.stoked
    f[4] = <float>(k.tired / 8.0)
    f[5] = <float>(k.hand_size / <double>HAND)
    f[6] = <float>(k.deck_size / <double>g.rules.deck)
    f += 7
    if k.last[0] >= 0:
        o[SLOTS] = k.last[1]
        f[k.last[0]] = 1.0
        if k.last[2] > 0:
            f[NUM_TYPES + k.last[2] - 1] = 1.0
        if k.last[3] > 0:
            f[NUM_TYPES + SLOTS + k.last[3] - 1] = 1.0
    f += NUM_TYPES + SLOTS + NUM_TARGETS - 2
    for i in range(k.hand_size):
        f[k.hand[i]] += 0.5
    for i in range(k.deck_size):
        f[k.deck[i]] += 0.5


cdef void write_private(const Match* m, int32_t seat, const Game* g, float* o) noexcept nogil:
    """The PRIVATE numbers of one seat."""
    cdef const Keeper* k = &m.keepers[seat]
    cdef int32_t i
    memset(o, 0, PRIVATE * sizeof(float))
    for i in range(k.hand_size):
        o[i] = k.hand[i]
        o[HAND + k.hand[i] - 1] += 0.5
    o[HAND + NUM_CARDS] = m.acting == seat
    o[HAND + NUM_CARDS + 1] = m.began == seat
    o[HAND + NUM_CARDS + 2] = <float>((g.rules.decision_limit - m.decisions) / <double>g.rules.decision_limit)


cdef void write_obs(const Match* m, const Game* g, float* obs) noexcept nogil:
    """Both seats' views, (2, OBS)."""
    cdef float* second = obs + OBS
    write_private(m, 0, g, obs)
    write_private(m, 1, g, second)
    write_public(m, 0, g, obs + PRIVATE)
    write_public(m, 1, g, second + PRIVATE)
    memcpy(obs + PRIVATE + PUBLIC, second + PRIVATE, PUBLIC * sizeof(float))
    memcpy(second + PRIVATE + PUBLIC, obs + PRIVATE, PUBLIC * sizeof(float))


cdef void write_turn(const Match* m, const Game* g, int16_t* mask, uint8_t* to_act) noexcept nogil:
    """Who is to act, and what is legal for it; the other's list has the end of a turn alone."""
    cdef int16_t* mine = mask + m.acting * MAX_TUPLES * NUM_PARTS
    cdef int16_t* waiting = mask + (1 - m.acting) * MAX_TUPLES * NUM_PARTS
    memset(mask, 0xFF, 2 * MAX_TUPLES * NUM_PARTS * sizeof(int16_t))
    list_legal(m, g, mine)
    put(waiting, END, 0, 0, 0)
    to_act[m.acting] = True
    to_act[1 - m.acting] = False


cdef void write_result(const Match* m, int32_t reason, int32_t winner, Result* out) noexcept nogil:
    cdef const Keeper* k
    cdef int32_t s
    out.winner = <int8_t>winner
    out.end_reason = <int8_t>reason
    out.ticks = m.decisions
    out.seed = m.seed
    for s in range(2):
        k = &m.keepers[s]
        out.metrics[s][0] = k.damage_dealt
        out.metrics[s][1] = k.health if k.health > 0 else 0
        out.metrics[s][2] = k.destroyed
        out.metrics[s][3] = k.lost
        out.metrics[s][4] = k.played
        out.metrics[s][5] = k.cast
        out.metrics[s][6] = k.attacks
        out.metrics[s][7] = k.abilities
        out.metrics[s][8] = k.lamps
        out.metrics[s][9] = k.oil_spent
        out.metrics[s][10] = k.burnt
        out.metrics[s][11] = k.turns
        out.metrics[s][12] = m.began == s
