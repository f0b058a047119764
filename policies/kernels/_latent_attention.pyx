"""Attention over a few latents, compiled, with its gradients: float32 on a CPU, rows shared out to torch's threads.

`attention.py` says when it is used, and has the torch form that is its twin in the tests.
"""

from cython.parallel cimport prange

include "tensors.pxi"

cdef extern from "latent_attention.h":
    ctypedef struct LatentAttention:
        const float* sought
        const float* latents
        float* share
        float* found
        const float* d_found
        float* d_sought
        float* d_latents
        float* d_score
        int64_t heads, num_latents, width
        float scale
    void latent_attention(const LatentAttention* a, int64_t row) noexcept nogil
    void latent_attention_backwards(const LatentAttention* a, int64_t row) noexcept nogil


cdef int set_inputs(LatentAttention* a, sought, latents, share) except -1:
    cdef int64_t rows = sought.shape[0]
    a.sought = floats(sought, "sought", (rows, a.heads, a.width))
    a.latents = floats(latents, "latents", (rows, a.num_latents, a.width))
    a.share = floats(share, "share", (rows, a.heads, a.num_latents))
    return 0


def forward(sought, latents, float scale, int threads):
    """What each head finds (n, heads, width), and its shares of the latents (n, heads, L), which `backward` needs.

    sought (n, heads, width), latents (n, L, width), contiguous.
    """
    cdef LatentAttention a
    cdef int64_t row, rows = sought.shape[0]
    a.heads, a.num_latents, a.width, a.scale = sought.shape[1], latents.shape[1], sought.shape[2], scale
    share, found = sought.new_empty((rows, a.heads, a.num_latents)), sought.new_empty(sought.shape)
    set_inputs(&a, sought, latents, share)
    a.found = floats(found, "found", (rows, a.heads, a.width))
    for row in prange(rows, nogil=True, num_threads=threads, schedule="static"):
        latent_attention(&a, row)
    return found, share


def backward(d_found, share, sought, latents, float scale, int threads):
    """The gradients of sought (n, heads, width) and latents (n, L, width), from that of what is found; contiguous."""
    cdef LatentAttention a
    cdef int64_t row, rows = sought.shape[0]
    a.heads, a.num_latents, a.width, a.scale = sought.shape[1], latents.shape[1], sought.shape[2], scale
    d_sought, d_latents = sought.new_empty(sought.shape), latents.new_empty(latents.shape)
    d_score = share.new_empty(share.shape)
    set_inputs(&a, sought, latents, share)
    a.d_found = floats(d_found, "d_found", (rows, a.heads, a.width))
    a.d_sought = floats(d_sought, "d_sought", (rows, a.heads, a.width))
    a.d_latents = floats(d_latents, "d_latents", (rows, a.num_latents, a.width))
    a.d_score = floats(d_score, "d_score", (rows, a.heads, a.num_latents))
    for row in prange(rows, nogil=True, num_threads=threads, schedule="static"):
        latent_attention_backwards(&a, row)
    return d_sought, d_latents
