"""Attention of one step of play, compiled: float32 on a CPU, rows shared out to torch's threads.

Over the opponent encoder's ring it does in one call what takes torch some twenty: turn the query and the key by their
position, write key and value into the ring, and attend over what the match has filled of it, without copying the
ring's rows. `ring.py` says when it is used, and has the torch form that tests hold it to.
"""

from cython.parallel cimport prange

include "tensors.pxi"

cdef extern from "ring_attention.h":
    enum:
        MAX_HISTORY
        MAX_HEAD_WIDTH
    ctypedef struct RingAttention:
        const float* query
        const float* key
        const float* value
        const float* cosine
        const float* sine
        const int64_t* count
        const int64_t* places
        float* keys
        float* values
        float* out
        int64_t rows, query_stride, key_stride, value_stride, num_queries, history, heads, head_width
    void ring_attention(const RingAttention* a, int64_t row) noexcept nogil

LONGEST_HISTORY = MAX_HISTORY
WIDEST_HEAD = MAX_HEAD_WIDTH


def attend_ring(query, key, value, cos, sin, count, rows, keys, values, int64_t heads, int threads):
    """Writes one token a row into the ring, then attends over it: (n, Q, width).

    query (n, Q, width), or (Q, width) for all rows alike; key, value (n, width); cos and sin (n, 1, half);
    count (n,) int64, tokens before this one; rows (n,) int64 or None for all; keys, values (N, H, width), written.
    The last axis of each is contiguous, and so are count, rows, the rotation, keys and values altogether; n > 0.
    """
    cdef RingAttention a
    cdef int64_t row, n, width, num_rows = keys.shape[0]
    n, width = key.shape
    a.rows, a.num_queries, a.history = n, query.size(-2), keys.shape[1]
    if heads < 1 or width % (2 * heads) or width > heads * MAX_HEAD_WIDTH or not 0 < a.history <= MAX_HISTORY:
        raise ValueError(
            f"ring_attention: {heads} heads of {width} in all over {a.history} tokens; the width must be a multiple of "
            f"twice the heads, of at most {MAX_HEAD_WIDTH} a head, and the history within 1 and {MAX_HISTORY}"
        )
    a.heads, a.head_width = heads, width // heads
    cdef tuple of_tokens = (n, width), of_memory = (num_rows, a.history, width), of_angles = (n, 1, a.head_width // 2)
    if query.dim() == 2:
        a.query, a.query_stride = floats(query, "query", (a.num_queries, width)), 0
    else:
        a.query, a.query_stride = rows_of_floats(query, "query", (n, a.num_queries, width)), query.stride(0)
        if a.num_queries > 1 and query.stride(1) != width:
            refuse(query, "query", FLOAT32, query.shape, "a row's queries side by side")
    a.key, a.key_stride = rows_of_floats(key, "key", of_tokens), key.stride(0)
    a.value, a.value_stride = rows_of_floats(value, "value", of_tokens), value.stride(0)
    a.cosine, a.sine = floats(cos, "cos", of_angles), floats(sin, "sin", of_angles)
    a.count = integers(count, "count", (n,))
    a.places = NULL if rows is None else integers(rows, "rows", (n,))
    if a.places == NULL and n > num_rows:
        raise ValueError(f"ring_attention: {n} rows do not fit into a memory of {num_rows}")
    for row in range(n):
        if a.count[row] < 0 or (a.places != NULL and not 0 <= a.places[row] < num_rows):
            raise ValueError(f"ring_attention: row {row} has a count below 0, or is none of the memory's {num_rows}")
    a.keys, a.values = floats(keys, "keys", of_memory), floats(values, "values", of_memory)
    out = key.new_empty((n, a.num_queries, width))
    a.out = floats(out, "out", (n, a.num_queries, width))
    for row in prange(a.rows, nogil=True, num_threads=threads, schedule="static"):
        ring_attention(&a, row)
    return out
