"""Attention over a stored segment, compiled, with its gradients: float32 on a CPU, rows shared out to torch's threads.

It replaces, a layer, the turning of queries and keys, their joining with the memory, the mask and torch's attention.
`segment.py` says when it is used, and has the torch form that is its twin in the tests.
"""

from cython.parallel cimport prange

include "tensors.pxi"

cdef extern from "segment_attention.h":
    ctypedef struct SegmentAttention:
        const float* query
        const float* key
        const float* value
        const float* cosine
        const float* sine
        const int64_t* count
        const uint8_t* is_first
        const float* keys
        const float* values
        float* out
        float* log_sum
        const float* d_out
        float* d_query
        float* d_key
        float* d_value
        int64_t rows, steps, query_stride, key_stride, value_stride, num_queries, history, heads, head_width
    int64_t workspace_size(int64_t history, int64_t steps, int64_t head_width) noexcept nogil
    void segment_attention(const SegmentAttention* a, int64_t begin, int64_t end, float* space) noexcept nogil


cdef int set_inputs(
    SegmentAttention* a, query, key, value, rotation, count, is_first, keys, values, int64_t heads
) except -1:
    a.rows, a.steps = key.shape[0], key.shape[1]
    a.query, a.query_stride = floats(query), query.stride(1) if query.dim() == 4 else 0
    a.key, a.key_stride = floats(key), key.stride(1)
    a.value, a.value_stride = floats(value), value.stride(1)
    a.cosine, a.sine = floats(rotation[0]), floats(rotation[1])
    a.count, a.is_first = integers(count), booleans(is_first)
    a.keys, a.values = floats(keys), floats(values)
    a.num_queries, a.history = query.size(-2), keys.shape[1]
    a.heads, a.head_width = heads, key.shape[2] // heads
    a.d_out = NULL
    a.d_query = a.d_key = a.d_value = NULL
    return 0


cdef int run(SegmentAttention* a, like, int threads) except -1:
    cdef int i, num = min(threads, a.rows)
    cdef int64_t size = workspace_size(a.history, a.steps, a.head_width), rows = a.rows
    space = like.new_empty((num, size))
    cdef float* start = floats(space)
    for i in prange(num, nogil=True, num_threads=num, schedule="static", chunksize=1):
        segment_attention(a, rows * i // num, rows * (i + 1) // num, start + i * size)
    return 0


def forward(query, key, value, rotation, count, is_first, keys, values, int64_t heads, int threads):
    """What the queries find (B, T, Q, width), and the logs of their sums (B, T, Q, heads), which `backward` needs.

    query (B, T, Q, width), or (Q, width) for all tokens alike; key, value (B, T, width); rotation cos and sin
    (B, T, 1, half); count (B,) int64; is_first (B, T) bool; keys, values (B, H, width), the memory, rotated. The last
    axis of each is contiguous, tokens are evenly apart, and all but query, key and value are contiguous altogether.
    """
    cdef SegmentAttention a
    set_inputs(&a, query, key, value, rotation, count, is_first, keys, values, heads)
    out = key.new_empty((a.rows, a.steps, a.num_queries, key.shape[2]))
    log_sum = key.new_empty((a.rows, a.steps, a.num_queries, heads))
    a.out, a.log_sum = floats(out), floats(log_sum)
    run(&a, key, threads)
    return out, log_sum


def backward(
    d_out, out, log_sum, query, key, value, rotation, count, is_first, keys, values, int64_t heads, int threads
):
    """The gradients of query (B, T, Q, width), key and value (B, T, width), from that of `out`; all contiguous."""
    cdef SegmentAttention a
    set_inputs(&a, query, key, value, rotation, count, is_first, keys, values, heads)
    d_query, d_key, d_value = out.new_empty(out.shape), key.new_empty(key.shape), key.new_empty(key.shape)
    a.d_out, a.out, a.log_sum = floats(d_out), floats(out), floats(log_sum)
    a.d_query, a.d_key, a.d_value = floats(d_query), floats(d_key), floats(d_value)
    run(&a, key, threads)
    return d_query, d_key, d_value
