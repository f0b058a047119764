"""Attention of one step of play, compiled: float32 on a CPU, rows shared out to torch's threads.

Over the opponent encoder's ring it does in one call what takes torch some twenty: turn the query and the key by their
position, write key and value into the ring, and attend over what the match has filled of it, without copying the
ring's rows. `ring.py` says when it is used, and has the torch form that is its twin in the tests.
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


def attend_ring(query, key, value, rotation, count, rows, keys, values, int64_t heads, int threads):
    """Writes one token a row into the ring, then attends over it: (n, Q, width).

    query (n, Q, width), or (Q, width) for all rows alike; key, value (n, width); rotation cos and sin (n, 1, half);
    count (n,) int64, tokens before this one; rows (n,) int64 or None for all; keys, values (N, H, width), written.
    The last axis of each is contiguous, and so are count, rows, the rotation, keys and values altogether; n > 0.
    """
    cdef RingAttention a
    cdef int64_t row, width = key.shape[1]
    a.query, a.query_stride = floats(query), query.stride(0) if query.dim() == 3 else 0
    a.key, a.key_stride = floats(key), key.stride(0)
    a.value, a.value_stride = floats(value), value.stride(0)
    a.cosine, a.sine = floats(rotation[0]), floats(rotation[1])
    a.count = integers(count)
    a.places = NULL if rows is None else integers(rows)
    a.keys, a.values = floats(keys), floats(values)
    a.rows, a.num_queries, a.history = key.shape[0], query.size(-2), keys.shape[1]
    a.heads, a.head_width = heads, width // heads
    out = key.new_empty((a.rows, a.num_queries, width))
    a.out = floats(out)
    for row in prange(a.rows, nogil=True, num_threads=threads, schedule="static"):
        ring_attention(&a, row)
    return out
