"""An LSTM over a segment, its products by AVX-512: float32 on a CPU, rows shared out to torch's threads.

`lstm.py` says when it is used, and has the torch form that tests hold it to.
"""

include "tensors.pxi"

cdef extern from "lstm_segment.h":
    ctypedef struct Segment:
        const float* x
        const float* hidden
        const float* cell
        const uint8_t* is_first
        const float* weight_x
        const float* weight_h
        const float* bias
        float* before
        float* gates
        float* cells
        float* out
        const float* d_out
        float* d_gates
        float* d_x
        int64_t steps, rows, inputs, size
    int64_t packed_size(int64_t depth, int64_t columns) noexcept nogil
    int lstm_segment(const Segment* s, int is_backwards, int threads) noexcept nogil


cdef tuple set_sizes(Segment* s, x, cell):
    """The shapes of x, of the state, of what has the state's size each step, and of the gates."""
    s.steps, s.rows, s.inputs, s.size = x.size(0), x.size(1), x.size(2), cell.size(1)
    return (
        (s.steps, s.rows, s.inputs),
        (s.rows, s.size),
        (s.steps, s.rows, s.size),
        (s.steps, s.rows, 4 * s.size),
    )


def forward(x, hidden, cell, is_first, weight_x, weight_h, bias, before, gates, cells, out, int threads):
    """Writes what each step begins with, its gates, cell and output, `before`, `cells` and `out` (T, B, H), `gates`
    (T, B, 4 * H).

    x (T, B, input), hidden and cell (B, H), is_first (T, B), bias (4 * H,); weight_x and weight_h are packed
    (`_wide_products.pack`) from (input, 4 * H) and (H, 4 * H). All are contiguous and of one element at least.

    Raises:
        ValueError: a tensor is of another type, device, shape or layout.
        MemoryError: none for a workspace.
    """
    cdef Segment s
    cdef int is_done
    of_x, of_state, of_out, of_gates = set_sizes(&s, x, cell)
    s.x, s.is_first = floats(x, "x", of_x), booleans(is_first, "is_first", (s.steps, s.rows))
    s.hidden, s.cell = floats(hidden, "hidden", of_state), floats(cell, "cell", of_state)
    s.weight_x = floats(weight_x, "weight_x", (packed_size(s.inputs, 4 * s.size),))
    s.weight_h = floats(weight_h, "weight_h", (packed_size(s.size, 4 * s.size),))
    s.bias = floats(bias, "bias", (4 * s.size,))
    s.before, s.gates = floats(before, "before", of_out), floats(gates, "gates", of_gates)
    s.cells, s.out = floats(cells, "cells", of_out), floats(out, "out", of_out)
    with nogil:
        is_done = lstm_segment(&s, False, threads)
    if not is_done:
        raise MemoryError("no memory for the workspace of an LSTM")


def backward(d_out, cell, is_first, weight_x, weight_h, gates, cells, d_gates, d_x, int threads):
    """Writes the gradients of the gates (T, B, 4 * H) and of x (T, B, input).

    d_out and cells (T, B, H), cell (B, H), is_first (T, B), gates (T, B, 4 * H); weight_x and weight_h are packed from
    (4 * H, input) and (4 * H, H). All are contiguous.

    Raises:
        ValueError: a tensor is of another type, device, shape or layout.
        MemoryError: none for a workspace.
    """
    cdef Segment s
    cdef int is_done
    of_x, of_state, of_out, of_gates = set_sizes(&s, d_x, cell)
    s.d_out, s.is_first = floats(d_out, "d_out", of_out), booleans(is_first, "is_first", (s.steps, s.rows))
    s.cell, s.cells = floats(cell, "cell", of_state), floats(cells, "cells", of_out)
    s.weight_x = floats(weight_x, "weight_x", (packed_size(4 * s.size, s.inputs),))
    s.weight_h = floats(weight_h, "weight_h", (packed_size(4 * s.size, s.size),))
    s.gates, s.d_gates = floats(gates, "gates", of_gates), floats(d_gates, "d_gates", of_gates)
    s.d_x = floats(d_x, "d_x", of_x)
    with nogil:
        is_done = lstm_segment(&s, True, threads)
    if not is_done:
        raise MemoryError("no memory for the workspace of an LSTM")
