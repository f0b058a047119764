"""Attention of one step of play, compiled: float32 on a CPU, one thread, no lock held.

Over the opponent encoder's ring it does in one call what takes torch some twenty: turn the query and the key by their
position, write key and value into the ring, and attend over what the match has filled of it, without copying the
ring's rows. `ring.py` says when it is used, and has the torch form that is its twin in the tests. Tensors come in as
objects; of them only their addresses and strides are read.
"""

from libc.stdint cimport int64_t, intptr_t

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
        int64_t rows, query_stride, key_stride, value_stride, token_stride, num_queries, history, heads, head_width
    void ring_attention(const RingAttention* a) noexcept nogil

LONGEST_HISTORY = MAX_HISTORY
WIDEST_HEAD = MAX_HEAD_WIDTH


cdef float* floats(tensor) except NULL:
    return <float*><intptr_t>tensor.data_ptr()


cdef int64_t* integers(tensor) except NULL:
    return <int64_t*><intptr_t>tensor.data_ptr()


cdef object run(RingAttention* a, query, int64_t heads):
    width = query.size(-1)
    out = query.new_empty((a.rows, query.size(-2), width))
    a.query = floats(query)
    a.query_stride = query.stride(0) if query.dim() == 3 else 0
    a.num_queries = query.size(-2)
    a.heads = heads
    a.head_width = width // heads
    a.out = floats(out)
    with nogil:
        ring_attention(a)
    return out


def attend_ring(query, key, value, rotation, count, rows, keys, values, int64_t heads):
    """Writes one token a row into the ring, then attends over it: (n, Q, width).

    query (n, Q, width), or (Q, width) for all rows alike; key, value (n, width); rotation cos and sin (n, 1, half);
    count (n,) int64, tokens before this one; rows (n,) int64 or None for all; keys, values (N, H, width), written.
    The last axis of each is contiguous, and so are count, rows, the rotation, keys and values altogether; n > 0.
    """
    cdef RingAttention a
    a.rows = key.shape[0]
    a.key, a.key_stride = floats(key), key.stride(0)
    a.value, a.value_stride = floats(value), value.stride(0)
    a.cosine, a.sine = floats(rotation[0]), floats(rotation[1])
    a.count = integers(count)
    a.places = NULL if rows is None else integers(rows)
    a.keys, a.values = floats(keys), floats(values)
    a.history, a.token_stride = keys.shape[1], keys.shape[2]
    return run(&a, query, heads)


def attend(query, pairs, int64_t heads):
    """query (n, Q, width) over keys and values side by side, pairs (n, J, 2 * width) contiguous: (n, Q, width)."""
    cdef RingAttention a
    a.rows = pairs.shape[0]
    a.key = a.value = a.cosine = a.sine = NULL
    a.key_stride = a.value_stride = 0
    a.count = a.places = NULL
    a.keys = floats(pairs)
    a.values = a.keys + <int64_t>query.size(-1)
    a.history, a.token_stride = pairs.shape[1], pairs.shape[2]
    return run(&a, query, heads)
