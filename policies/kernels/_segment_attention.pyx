"""Attention over a stored segment, compiled, with its gradients: float32 on a CPU, rows shared out to torch's threads.

It replaces, a layer, the turning of queries and keys, their joining with the memory, the mask and torch's attention.
`segment.py` says when it is used, and has the torch form that tests hold it to.
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


cdef float* evenly_apart(x, str name, tuple shape) except? NULL:
    cdef float* start = rows_of_floats(x, name, shape)
    if shape[0] > 1 and x.stride(0) != shape[1] * x.stride(1):
        refuse(x, name, FLOAT32, shape, "its tokens evenly apart")
    return start


cdef int set_inputs(
    SegmentAttention* a, query, key, value, cos, sin, count, is_first, keys, values, int64_t heads
) except -1:
    cdef int64_t rows, steps, width
    rows, steps, width = key.shape
    if heads < 1 or width % (2 * heads):
        raise ValueError(f"segment_attention: width {width} must be a multiple of twice the {heads} heads")
    a.rows, a.steps = rows, steps
    a.num_queries, a.history = query.size(-2), keys.shape[1]
    a.heads, a.head_width = heads, width // heads
    cdef tuple of_tokens = (rows, steps, width), of_memory = (rows, a.history, width)
    cdef tuple of_angles = (rows, steps, 1, a.head_width // 2)
    if query.dim() == 2:
        a.query, a.query_stride = floats(query, "query", (a.num_queries, width)), 0
    else:
        a.query = evenly_apart(query, "query", (rows, steps, a.num_queries, width))
        a.query_stride = query.stride(1)
        if a.num_queries > 1 and query.stride(2) != width:
            refuse(query, "query", FLOAT32, query.shape, "a token's queries side by side")
    a.key, a.key_stride = evenly_apart(key, "key", of_tokens), key.stride(1)
    a.value, a.value_stride = evenly_apart(value, "value", of_tokens), value.stride(1)
    a.cosine, a.sine = floats(cos, "cos", of_angles), floats(sin, "sin", of_angles)
    a.count, a.is_first = integers(count, "count", (rows,)), booleans(is_first, "is_first", (rows, steps))
    a.keys, a.values = floats(keys, "keys", of_memory), floats(values, "values", of_memory)
    a.d_out = NULL
    a.d_query = a.d_key = a.d_value = NULL
    return 0


cdef int run(SegmentAttention* a, like, int threads) except -1:
    cdef int i, num = min(threads, a.rows)
    cdef int64_t size = workspace_size(a.history, a.steps, a.head_width), rows = a.rows
    space = like.new_empty((num, size))
    cdef float* start = floats(space, "space", (num, size))
    for i in prange(num, nogil=True, num_threads=num, schedule="static", chunksize=1):
        segment_attention(a, rows * i // num, rows * (i + 1) // num, start + i * size)
    return 0


def forward(query, key, value, cos, sin, count, is_first, keys, values, int64_t heads, int threads):
    """What the queries find (B, T, Q, width), and the logs of their sums (B, T, Q, heads), which `backward` needs.

    query (B, T, Q, width), or (Q, width) for all tokens alike; key, value (B, T, width); cos and sin
    (B, T, 1, half); count (B,) int64; is_first (B, T) bool; keys, values (B, H, width), the memory, rotated. The last
    axis of each is contiguous, tokens are evenly apart, and all but query, key and value are contiguous altogether.
    """
    cdef SegmentAttention a
    set_inputs(&a, query, key, value, cos, sin, count, is_first, keys, values, heads)
    cdef tuple of_out = (a.rows, a.steps, a.num_queries, key.shape[2])
    out, log_sum = key.new_empty(of_out), key.new_empty((*of_out[:3], heads))
    a.out, a.log_sum = floats(out, "out", of_out), floats(log_sum, "log_sum", (*of_out[:3], heads))
    run(&a, key, threads)
    return out, log_sum


def backward(
    d_out, out, log_sum, query, key, value, cos, sin, count, is_first, keys, values, int64_t heads, int threads
):
    """The gradients of query (B, T, Q, width), key and value (B, T, width), from that of `out`; all contiguous."""
    cdef SegmentAttention a
    set_inputs(&a, query, key, value, cos, sin, count, is_first, keys, values, heads)
    cdef tuple of_out = (a.rows, a.steps, a.num_queries, key.shape[2]), of_tokens = (a.rows, a.steps, key.shape[2])
    d_query, d_key, d_value = out.new_empty(of_out), key.new_empty(of_tokens), key.new_empty(of_tokens)
    a.d_out, a.out = floats(d_out, "d_out", of_out), floats(out, "out", of_out)
    a.log_sum = floats(log_sum, "log_sum", (*of_out[:3], heads))
    a.d_query, a.d_key = floats(d_query, "d_query", of_out), floats(d_key, "d_key", of_tokens)
    a.d_value = floats(d_value, "d_value", of_tokens)
    run(&a, key, threads)
    return d_query, d_key, d_value
