"""What stands between linear layers, compiled: float32 on a CPU, shared out to torch's threads.

`activations.py` says when it is used; torch's own form is its twin in the tests.
"""

from cython.parallel cimport prange

include "tensors.pxi"

cdef extern from "activations.h":
    void tanh_of(const float* x, int64_t num, float* out) noexcept nogil

cdef enum:
    AT_ONCE = 8192  # numbers that a thread takes


def tanh(x, out, int threads):
    """Writes the hyperbolic tangent of x into out, both contiguous and of one shape.

    Raises:
        ValueError: a tensor is of another type, device, shape or layout.
    """
    cdef const float* given = floats(x, "x", tuple(x.shape))
    cdef float* found = floats(out, "out", tuple(x.shape))
    cdef int64_t num = x.numel(), i
    for i in prange(0, num, AT_ONCE, nogil=True, num_threads=threads, schedule="static"):
        tanh_of(given + i, min(<int64_t>AT_ONCE, num - i), found + i)
