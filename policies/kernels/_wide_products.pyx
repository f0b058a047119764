"""Products of float32 matrices by AVX-512, rows shared out to torch's threads.

`linear.py` says when they are used.
"""

include "tensors.pxi"

cdef extern from "wide_products.h":
    ctypedef struct Product:
        const float* left
        const float* right
        const float* packed
        const float* bias
        float* out
        int64_t rows, columns, depth, left_row, left_depth, right_depth, right_column, out_row
        int adds
    int has_wide() noexcept nogil
    int64_t packed_size(int64_t depth, int64_t columns) noexcept nogil
    void pack_panels(
        const Product* p, int64_t deep, int64_t depth, int64_t wide, int64_t columns, float* panels, int threads
    ) noexcept nogil
    int multiply_nets(
        const Product* first, int64_t nets, int64_t left, int64_t right, int64_t packed, int64_t bias, int64_t out,
        int threads
    ) noexcept nogil


def are_there():
    """Whether this processor has AVX-512, and this build can use it."""
    return bool(has_wide())


cdef int set_right(Product* p, right, tuple shape) except -1:
    p.right, p.right_depth, p.right_column = matrix(right, "right", shape), right.stride(-2), right.stride(-1)
    if right.size(-1) == 1:  # whose stride says nothing
        p.right_column = 1
    return 0


def packed_length(int64_t depth, int64_t columns):
    """Of a float32 tensor that holds a right side (depth, columns), packed: the columns fill whole panels."""
    return packed_size(depth, columns)


def pack(right, out):
    """Writes right (K, N), of whose axes one is contiguous, into out (`packed_length`,), as `multiply` takes it."""
    cdef Product p
    p.depth, p.columns = right.shape
    set_right(&p, right, (p.depth, p.columns))
    pack_panels(&p, 0, p.depth, 0, p.columns, floats(out, "out", (packed_size(p.depth, p.columns),)), 1)


def multiply(left, right, packed, bias, out, bint adds, int threads):
    """Writes left (..., n, K) times right (..., K, N), plus bias (..., N) or None, into out (..., n, N), or adds it.

    At most one axis before the last two, which counts nets. Each axis is at least 1 long; of the last two axes of left
    and right one is contiguous, of bias and out the last. Added to what `out` holds, there is no bias. The right side
    may be None if packed (..., `packed_length`) is not.

    Raises:
        ValueError: a tensor is of another type, device, shape or layout.
        MemoryError: none for a workspace, at most 1.3 MiB and 0.3 more a thread.
    """
    cdef Product p
    cdef int64_t nets = left.size(0) if left.dim() == 3 else 1, bias_net = 0 if bias is None else bias.stride(0)
    cdef int64_t left_net = left.stride(0), out_net = out.stride(0), right_net = 0, packed_net = 0
    cdef int is_done
    cdef tuple one_a_net = (nets,) if left.dim() == 3 else ()
    p.rows, p.depth, p.columns = left.size(-2), left.size(-1), out.size(-1)
    p.packed = NULL
    if packed is None:
        set_right(&p, right, (*one_a_net, p.depth, p.columns))
        right_net = right.stride(0)
    else:
        p.packed = rows_of_floats(packed, "packed", (*one_a_net, packed_size(p.depth, p.columns)))
        packed_net = packed.stride(0)
    p.left = matrix(left, "left", (*one_a_net, p.rows, p.depth))
    p.out = rows_of_floats(out, "out", (*one_a_net, p.rows, p.columns))
    p.bias = NULL if bias is None else rows_of_floats(bias, "bias", (*one_a_net, p.columns))
    p.left_row, p.left_depth = left.stride(-2), 1 if p.depth == 1 else left.stride(-1)
    p.out_row, p.adds = out.stride(-2), adds
    with nogil:
        is_done = multiply_nets(&p, nets, left_net, right_net, packed_net, bias_net, out_net, threads)
    if not is_done:
        raise MemoryError("no memory for the workspace of a matrix product")
